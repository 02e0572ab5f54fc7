//! What a search found, in words, and how far it is.

use super::age::may_be_chance;
use super::io::Progress;
use super::outcome::{By, End, Outcome, Verdict};
use super::why::exact;
use crate::event::{Death, Limit, OneWay, Side, What};
use crate::text::count;
use crate::units::duration_text as duration;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::SocketAddr;

fn of(end: &End) -> String {
    let (low, high) = end.share_95;
    format!("{} of {} (95 %: {:.0} % to {:.0} %)", end.hits, end.of, low * 100.0, high * 100.0)
}

impl Outcome {
    /// For people.
    pub fn text(&self, target: &str) -> String {
        let mut out = match self.limit {
            Limit::Idle => headline(target, self) + &idle_ends(self),
            Limit::Age => headline(target, self) + &age_ends(self),
        };
        if let Some(why) = self.why.as_ref().filter(|_| self.verdict == Verdict::Unclear) {
            let _ = writeln!(out, "  why: {why}");
        }
        let void: u64 = self.lengths.iter().map(|row| u64::from(row.void)).sum();
        let judged: u64 = self.lengths.iter().map(|row| u64::from(row.survived + row.died)).sum();
        if void > judged {
            let _ = writeln!(
                out,
                "  most connections say nothing: {void} of {} could not be opened, or were asked while nothing was answered",
                count(void + judged, "connection")
            );
        }
        for happened in &self.meanwhile {
            let _ =
                writeln!(out, "  after {}: {}", duration(happened.after_ns), what_happened(&happened.what));
        }
        let opened = self.opened.map(|n| format!(", with {} opened in all", count(n, "connection")));
        let _ = writeln!(out, "  took {}{}", duration(self.took_ns), opened.unwrap_or_default());
        out
    }

    /// One object, as docs/limits.md tells.
    pub fn json(&self, target: &str, remote: Option<SocketAddr>) -> Value {
        let mut object = json!({"format": 1, "kind": "limits", "target": target, "remote": remote});
        // What stands in an outcome can be written as JSON: numbers, words and lists of them.
        if let (Some(object), Ok(Value::Object(found))) = (object.as_object_mut(), serde_json::to_value(self))
        {
            object.extend(found);
            for end in ["survived", "died"].iter().filter(|_| self.limit == Limit::Age) {
                if let Some(end) = object.get_mut(*end).and_then(Value::as_object_mut)
                    && let Some(age) = end.remove("idle_ns")
                {
                    end.insert("age_ns".to_owned(), age);
                }
            }
        }
        object
    }
}

fn idle_ends(outcome: &Outcome) -> String {
    let mut out = String::new();
    if let Some(survived) = &outcome.survived {
        let _ = writeln!(out, "  survived {} idle: {}", exact(survived.idle_ns), of(survived));
    }
    if let Some(died) = &outcome.died {
        let _ = writeln!(out, "  died of  {} idle: {}", exact(died.idle_ns), of(died));
        out += &band(outcome);
        out += &manner(outcome);
        if !outcome.confirmed {
            out += "  not repeated: there was no second set of connections to die at the same length\n";
        }
    }
    if outcome.is_unanswered() {
        out += &manner(outcome);
    } else if outcome.strays > 0 {
        let strays = count(outcome.strays.into(), "connection");
        let from = outcome.dies_from_ns;
        let _ = match from {
            Some(from_ns) => writeln!(out, "  {strays} died, from {} on", exact(from_ns)),
            None => writeln!(out, "  no limit: {strays} died of less than others survived"),
        };
    }
    out
}

/// The line about lengths between the ends of a band.
fn band(outcome: &Outcome) -> String {
    let Some(from_ns) = outcome.dies_from_ns else { return String::new() };
    let most = outcome.lengths.iter().find(|row| row.length_ns >= from_ns && row.died > row.survived);
    let most =
        most.map_or_else(String::new, |row| format!(", most of them from {} on", exact(row.length_ns)));
    format!(
        "  between the two some died and others lived, the first of {}{most}: something scans for idle connections periodically, or several instances have different limits\n",
        exact(from_ns)
    )
}

fn age_ends(outcome: &Outcome) -> String {
    let mut out = String::new();
    if let Some(lived) = &outcome.survived {
        let _ = writeln!(out, "  lived to {}: {}", exact(lived.idle_ns), of(lived));
    }
    if let Some(died) = &outcome.died {
        let _ = writeln!(out, "  died by  {}: {}", exact(died.idle_ns), of(died));
        out += &manner(outcome);
    }
    if outcome.is_unanswered() {
        out += &manner(outcome);
    } else if outcome.strays > 0 {
        let strays = count(outcome.strays.into(), "connection");
        let no_limit = if outcome.dies_from_ns.is_some() { "" } else { "no limit: " };
        let _ = match (outcome.died, may_be_chance(&outcome.lives)) {
            (Some(_), _) => writeln!(out, "  no limit: {strays} died at other ages"),
            (None, Some(true)) => {
                writeln!(out, "  {no_limit}{strays} died at any age alike, as by chance{}", ages(outcome))
            }
            (None, Some(false)) => {
                writeln!(out, "  {no_limit}{strays} died at ages that chance does not make{}", ages(outcome))
            }
            (None, None) => {
                writeln!(out, "  {no_limit}{strays} died, too few to tell of what{}", ages(outcome))
            }
        };
    }
    out
}

/// At which ages connections died.
fn ages(outcome: &Outcome) -> String {
    let died = || outcome.lives.iter().filter_map(|life| life.most_ns);
    match (died().min(), died().max()) {
        (Some(first), Some(last)) if outcome.died.is_none() => {
            format!(" (from {} to {})", exact(first), exact(last))
        }
        _ => String::new(),
    }
}

/// How those died that `died` counts, and by whom.
fn manner(outcome: &Outcome) -> String {
    let mut out = String::new();
    for (how, times) in &outcome.how {
        let how = death(*how, outcome.limit);
        let _ = writeln!(out, "  how: {how}: {}", count(u64::from(*times), "connection"));
    }
    let _ = writeln!(out, "  by: {}", hand(outcome));
    out
}

impl Progress {
    /// How much longer it may take.
    pub fn left(&self) -> String {
        format!("at most {} to go", duration(self.left_ns))
    }

    /// How far it is after so long.
    pub fn line(&self, after_ns: u64) -> String {
        let (lived, dead) = match self.limit {
            Limit::Idle => (format!("survived {} idle", duration(self.survived_ns)), "died of"),
            Limit::Age => (format!("lived to {}", duration(self.survived_ns)), "died by"),
        };
        let died = self.died_ns.map_or_else(String::new, |ns| format!(", {dead} {}", duration(ns)));
        let open = count(self.open as u64, "connection");
        format!("after {}: {open} open; {lived}{died}; {}", duration(after_ns), self.left())
    }
}

fn headline(target: &str, outcome: &Outcome) -> String {
    let ends = (outcome.survived.map(|end| exact(end.idle_ns)), outcome.died.map(|end| exact(end.idle_ns)));
    let limit = in_words(outcome.limit);
    let keepalive = outcome.keepalive_ns.map(|ns| format!(", with a keepalive every {}", duration(ns)));
    let traffic = outcome.one_way.map(|traffic| format!(", with {}", one_way(traffic)));
    let keepalive = keepalive.or(traffic).unwrap_or_default();
    let so_far = match outcome.verdict {
        Verdict::Stopped => " (ended early: what is known so far)",
        Verdict::Unclear => " (unclear: what is known so far)",
        _ => "",
    };
    if let Some(from_ns) = outcome.dies_from_ns.filter(|_| outcome.died.is_none()) {
        let from = exact(from_ns);
        let died = if outcome.is_unanswered() {
            "requests were acknowledged and not answered"
        } else {
            "connections died"
        };
        let early = if outcome.verdict == Verdict::Stopped { so_far } else { "" };
        return format!("{target}: {limit} unclear: {died} from {from} on{keepalive}{early}\n");
    }
    match ends {
        (Some(low), Some(high)) if outcome.is_band() => {
            format!("{target}: {limit} is a band: safe up to {low}, dead from {high} on{keepalive}{so_far}\n")
        }
        (Some(low), Some(high)) => {
            format!("{target}: {limit} between {low} and {high}{keepalive}{so_far}\n")
        }
        (None, Some(high)) => format!("{target}: {limit} below {high}{keepalive}{so_far}\n"),
        (Some(low), None) => format!("{target}: no {limit} up to {low}{keepalive}{so_far}\n"),
        (None, None) => format!("{target}: nothing is known of an {limit}{keepalive}{so_far}\n"),
    }
}

/// Traffic in one direction.
pub(super) fn one_way(traffic: OneWay) -> String {
    let from = match traffic.from {
        Side::Here => "from here",
        Side::There => "from there",
    };
    format!("traffic {from} every {}", duration(traffic.every_ns))
}

/// Its name.
fn in_words(limit: Limit) -> &'static str {
    match limit {
        Limit::Idle => "idle limit",
        Limit::Age => "age limit",
    }
}

fn death(how: Death, limit: Limit) -> &'static str {
    match (how, limit) {
        (Death::Silent, Limit::Idle) => "silent drop: no answer, while fresh connections were answered",
        (Death::Silent, Limit::Age) => "silent drop: no answer, while other connections were answered",
        (Death::NotAnswered, Limit::Idle) => {
            "acknowledged, not answered, while fresh connections were answered"
        }
        (Death::NotAnswered, Limit::Age) => {
            "acknowledged, not answered, while other connections were answered"
        }
        (Death::ResetWhileIdle, Limit::Idle) => "RST while it was idle",
        (Death::ResetWhileIdle, Limit::Age) => "RST between two requests",
        (Death::ResetOnRequest, _) => "RST in answer to the next packet",
        (Death::ClosedWhileIdle, Limit::Idle) => "FIN while it was idle",
        (Death::ClosedWhileIdle, Limit::Age) => "FIN between two requests",
        (Death::ClosedOnRequest, _) => "FIN in answer to the next packet",
        (Death::Other, _) => "an error of another kind",
    }
}

fn hand(outcome: &Outcome) -> &'static str {
    let acknowledged = outcome.how.contains_key(&Death::NotAnswered);
    match outcome.by {
        By::Between if acknowledged => {
            "something between: what was acknowledged did not come to the reflector, or its answer did not come back"
        }
        By::Unknown if outcome.is_unanswered() => {
            "the application there, or a proxy before it that lost it: nobody tells (`fathom echo` there would)"
        }
        By::Reflector => "the reflector, which closes idle connections itself (`fathom echo --idle-timeout`)",
        By::Between => "something between: the reflector did not end them",
        By::Unknown => "nobody tells (`fathom echo` at the other end would)",
    }
}

/// What happened besides, in words.
pub fn what_happened(what: &What) -> String {
    match what {
        What::AllDied { how } => {
            let how = death(*how, Limit::Idle);
            format!(
                "connections that were never idle died too ({how}): no idle limit (--age tells whether they die at one age); begun anew with what was not known"
            )
        }
        What::DiedTogether { connections } => {
            let died = count(u64::from(*connections), "connection");
            format!("{died} of different ages died at one moment: no age limit")
        }
        What::Outage { lasted_ns: Some(most_ns), least_ns, .. } => {
            let most = duration(*most_ns);
            match least_ns.map(duration) {
                Some(least) if least == most => format!("nothing was answered for {most}"),
                Some(_) if *least_ns == Some(0) => format!("nothing was answered for {most} at the most"),
                Some(least) => format!("nothing was answered for {least} to {most}"),
                // Older recordings, and where others were answered, know when the first fresh connection had failed.
                None => format!("fresh connections were not answered for {most}"),
            }
        }
        What::Outage { lasted_ns: None, .. } => "nothing was answered any more".to_owned(),
        What::HostPaused { lasted_ns } => format!("this host did not run for {}", duration(*lasted_ns)),
        What::NotRepeated { idle_ns } => {
            format!("connections died of less than {}, and others did not", exact(*idle_ns))
        }
    }
}
