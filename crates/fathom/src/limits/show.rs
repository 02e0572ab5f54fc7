//! How far a search is, and what it found, for people and for machines.

use super::args::Config;
use crate::exit::Failure;
use crate::output::tell;
use fathom_core::limits::{By, Death, End, Limits, Outcome, Progress, Verdict, What};
use fathom_core::text::count;
use fathom_core::units::duration_text as duration;
use serde_json::json;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::net::SocketAddr;

const S: u64 = 1_000_000_000;
/// How often a line is added where there is no terminal to write over one.
const LINE_EVERY_NS: u64 = 60 * S;

/// Tells how far it is: on a terminal in a line that is written over, elsewhere in a line a minute.
pub(super) struct Ticker {
    target: String,
    quiet: bool,
    terminal: bool,
    began_ns: Option<u64>,
    next_ns: u64,
}

impl Ticker {
    pub(super) fn new(config: &Config) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target = config.target.to_string();
        Self { target, quiet: config.quiet, terminal, began_ns: None, next_ns: 0 }
    }

    /// Tells it if it is time; when to look again.
    pub(super) fn tick(&mut self, now: u64, search: &Limits) -> Option<u64> {
        // A start that fails says only why.
        if self.quiet || !search.progress().begun {
            return None;
        }
        let began_ns = *self.began_ns.get_or_insert_with(|| {
            tell!("looking for the idle limit of {}: {}", self.target, left(&search.progress()));
            now
        });
        let every_ns = if self.terminal { S } else { LINE_EVERY_NS };
        if self.next_ns == 0 {
            self.next_ns = now + every_ns;
        } else if now >= self.next_ns {
            self.next_ns = now + every_ns;
            let line = line(now - began_ns, &search.progress());
            if self.terminal {
                eprint!("\r\x1b[K{line}");
            } else {
                tell!("{line}");
            }
        }
        Some(self.next_ns)
    }

    pub(super) fn clear(&self) {
        if self.terminal && !self.quiet {
            eprint!("\r\x1b[K");
        }
    }
}

fn left(progress: &Progress) -> String {
    format!("at most {} to go", duration(progress.left_ns))
}

fn line(after_ns: u64, progress: &Progress) -> String {
    let died = progress.died_ns.map_or_else(String::new, |ns| format!(", died of {}", duration(ns)));
    format!(
        "after {}: {} idle; survived {}{died}; {}",
        duration(after_ns),
        count(progress.open as u64, "connection"),
        duration(progress.survived_ns),
        left(progress)
    )
}

/// One object, as docs/limits.md tells.
pub(super) fn json(target: &str, remote: SocketAddr, outcome: &Outcome) -> Result<String, Failure> {
    let mut object =
        serde_json::to_value(outcome).map_err(|e| Failure::run(format!("no JSON of the result: {e}")))?;
    if let (Some(object), Some(head)) = (
        object.as_object_mut(),
        json!({"format": 1, "kind": "limits", "limit": "idle", "target": target, "remote": remote.to_string()}).as_object(),
    ) {
        object.extend(head.clone());
    }
    Ok(format!("{object}\n"))
}

/// To hundredths of a second below a minute: the two ends of a bracket may be that near.
fn exact(ns: u64) -> String {
    if ns < 60 * S { format!("{:.2} s", ns as f64 / 1e9) } else { duration(ns) }
}

fn of(end: &End) -> String {
    let (low, high) = end.share_95;
    format!("{} of {} (95 %: {:.0} % to {:.0} %)", end.hits, end.of, low * 100.0, high * 100.0)
}

/// For people.
pub(super) fn text(target: &str, outcome: &Outcome) -> String {
    let mut out = headline(target, outcome);
    if let Some(survived) = &outcome.survived {
        let _ = writeln!(out, "  survived {} idle: {}", exact(survived.idle_ns), of(survived));
    }
    if let Some(died) = &outcome.died {
        let _ = writeln!(out, "  died of  {} idle: {}", exact(died.idle_ns), of(died));
        for (how, times) in &outcome.how {
            let _ = writeln!(out, "  how: {}: {}", death(*how), count(u64::from(*times), "connection"));
        }
        let _ = writeln!(out, "  by: {}", hand(outcome));
        if !outcome.confirmed {
            out += "  not repeated: there was no second set of connections to die at the same length\n";
        }
    }
    if outcome.strays > 0 {
        let strays = count(outcome.strays.into(), "connection");
        let _ = writeln!(out, "  no limit: {strays} died of less than others survived");
    }
    for happened in &outcome.meanwhile {
        let _ = writeln!(out, "  after {}: {}", duration(happened.after_ns), what(&happened.what));
    }
    let _ = writeln!(
        out,
        "  took {}, with {} opened in all",
        duration(outcome.took_ns),
        count(outcome.opened, "connection")
    );
    out
}

fn headline(target: &str, outcome: &Outcome) -> String {
    let ends = (outcome.survived.map(|end| exact(end.idle_ns)), outcome.died.map(|end| exact(end.idle_ns)));
    let so_far = match outcome.verdict {
        Verdict::Stopped => " (ended early: what is known so far)",
        Verdict::Unclear => " (unclear: what is known so far)",
        _ => "",
    };
    match ends {
        (Some(low), Some(high)) => format!("{target}: idle limit between {low} and {high}{so_far}\n"),
        (None, Some(high)) => format!("{target}: idle limit below {high}{so_far}\n"),
        (Some(low), None) => format!("{target}: no idle limit up to {low}{so_far}\n"),
        (None, None) => format!("{target}: nothing is known of an idle limit{so_far}\n"),
    }
}

fn death(how: Death) -> &'static str {
    match how {
        Death::Silent => "silent drop: no answer, while fresh connections were answered",
        Death::ResetWhileIdle => "RST while it was idle",
        Death::ResetOnRequest => "RST in answer to the next packet",
        Death::ClosedWhileIdle => "FIN while it was idle",
        Death::ClosedOnRequest => "FIN in answer to the next packet",
        Death::Other => "an error of another kind",
    }
}

fn hand(outcome: &Outcome) -> &'static str {
    match outcome.by {
        By::Reflector => "the reflector, which closes idle connections itself (`fathom echo --idle-timeout`)",
        By::Between => "something between: the reflector did not end them",
        By::Unknown => "nobody tells (`fathom echo` at the other end would)",
    }
}

fn what(what: &What) -> String {
    match what {
        What::AllDied { how } => {
            format!(
                "connections that were never idle died too ({}): no limit; begun anew with what was not known",
                death(*how)
            )
        }
        What::Outage { lasted_ns: Some(ns) } => {
            format!("fresh connections were not answered for {}", duration(*ns))
        }
        What::Outage { lasted_ns: None } => "fresh connections were not answered any more".to_owned(),
        What::HostPaused { lasted_ns } => format!("this host did not run for {}", duration(*lasted_ns)),
        What::NotRepeated { idle_ns } => {
            format!("connections died of less than {}, and others did not", exact(*idle_ns))
        }
    }
}
