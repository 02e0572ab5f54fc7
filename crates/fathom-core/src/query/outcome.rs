//! What a run came to: medians of the wall time and its parts, whose time most of it is, and what to do about it. Made of the
//! queries of a live run, or of those of its recording: by the same code, so that both say the same.

use super::advice::{self, Evidence};
use super::connections::{Connection, Connections};
use super::counted::All;
use super::figures::{COUNT, FOR_P95, Warm, median, p95};
use super::sweep::{Setting, Sweep};
use super::{Confidence, Counted, End, PARTIES, Party, Query};
use crate::text::{cleaned, count};
use crate::units::narrow::time_or_dash;
use crate::units::size_text;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// So many of those that failed are kept, for the story.
const FAILED_KEPT: usize = 20;

/// What was asked, and what is known of the run beside its queries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asked {
    /// Address and database.
    pub target: String,
    /// As the server says it; `None`: it does not, or the recording breaks off before its end. So the next three.
    pub server_version: Option<String>,
    /// Whether by TLS.
    pub encrypted: Option<bool>,
    /// Sizes of TDS packets as `docs/databases.md` has them; null: another protocol, or the recording breaks off.
    pub tds: Value,
    /// Waits for path or client that the server counted during all queries; `None`: it counts none, does not tell, or the recording is
    /// of an earlier version or breaks off.
    pub counted: Option<Counted>,
    /// Round trips beside the queries that came to nothing.
    pub unanswered_beside: Option<u64>,
    /// Queries that are not in the recording, because it could not be written.
    pub unrecorded: Option<u64>,
    /// For how long, while the queries lasted that count, this machine kept the threads that ask from running, as a recording's end
    /// tells it; `None`: the queries themselves do, or nobody knows.
    pub kept_ns: Option<u64>,
    /// The server's address is a loopback address.
    pub is_here: bool,
    /// Rows of a round trip; `None`: all of them.
    pub fetch_size: Option<u32>,
    /// Settings that were asked in turn; empty: there was one only.
    pub settings: Vec<Setting>,
    /// Connections that asked side by side; empty: there was one only.
    pub connections: Vec<Connection>,
    /// A pooler or balancer answers with other server sessions. Time in its queue looks like the server's time.
    pub is_pooled: bool,
    /// What was noted.
    pub notes: Vec<String>,
    /// The recording's directory, if there is one.
    pub recording: Option<String>,
}

/// A query that has no whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Its ordinal in the run.
    pub query: u64,
    /// Which of several connections it was of; `None`: there was one only.
    pub connection: Option<u64>,
    /// When it ended, ns since the Unix epoch.
    pub ended_ns: i64,
    /// How long it took until then.
    pub wall_ns: u64,
    /// Why.
    pub error: String,
}

/// See the module: [`Outcome::add`] takes each query, in their order, which is the one in which they ended; then [`Outcome::text`] and [`Outcome::json`].
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// What is known besides.
    pub asked: Asked,
    queries: u64,
    rows: u64,
    bytes: Option<u64>,
    retransmits: Option<u64>,
    /// Queries during which there was one.
    sent_again: u64,
    /// That the user ended.
    cancelled: u64,
    failures: BTreeMap<String, u64>,
    failed: Vec<Failed>,
    all: All,
    warm: Warm,
    sweep: Sweep,
    connections: Connections,
}

fn percent(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

fn queries(n: u64) -> String {
    format!("{n} {}", if n == 1 { "query" } else { "queries" })
}

fn time(ns: u64) -> String {
    time_or_dash(Some(ns), 3)
}

impl Outcome {
    /// Of a run that begins.
    pub fn new(asked: Asked) -> Self {
        Self { asked, ..Self::default() }
    }

    /// Takes a query: into the figures, unless it has no whole answer or is the first of several, which finds nothing warm.
    pub fn add(&mut self, query: &Query) {
        let sum = |sum: &mut Option<u64>, of: Option<u64>| {
            if let Some(n) = of {
                *sum = Some(sum.unwrap_or(0).saturating_add(n));
            }
        };
        self.queries += 1;
        self.all.add(query);
        self.sweep.asked(query, &self.asked.settings);
        self.connections.add(query, &self.asked.connections);
        self.rows = self.rows.saturating_add(query.rows);
        sum(&mut self.bytes, query.bytes_received);
        sum(&mut self.retransmits, query.retransmits);
        self.sent_again += u64::from(query.retransmits.is_some_and(|n| n > 0));
        match query.end() {
            End::Answered => {
                self.warm.add(query);
                self.sweep.add(query, &self.asked.settings);
            }
            End::Cancelled => self.cancelled += 1,
            End::Failed(kind) => {
                *self.failures.entry(kind).or_default() += 1;
                self.keep_failed(query);
            }
        }
    }

    fn keep_failed(&mut self, query: &Query) {
        if self.failed.len() < FAILED_KEPT {
            let wall_ns = query.split.wall_ns;
            let ended_ns = query.started_ns.saturating_add(i64::try_from(wall_ns).unwrap_or(i64::MAX));
            let error = query.error.clone().unwrap_or_default();
            let connection = (!self.asked.connections.is_empty()).then_some(query.connection);
            self.failed.push(Failed { query: query.query, connection, ended_ns, wall_ns, error });
        }
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Queries so far.
    pub fn queries(&self) -> u64 {
        self.queries
    }

    /// Queries that failed, the first of them.
    pub fn failed(&self) -> &[Failed] {
        &self.failed
    }

    fn failures(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Queries that had an answer.
    fn answered(&self) -> u64 {
        self.queries - self.failures() - self.cancelled
    }

    /// How many, with those that failed, and those that the user ended.
    pub fn count_words(&self) -> String {
        let failed = match self.failures() {
            0 => String::new(),
            n => {
                let kinds: Vec<String> =
                    self.failures.iter().map(|(kind, n)| format!("{kind}: {n}")).collect();
                format!(", {n} failed ({})", kinds.join(", "))
            }
        };
        let cancelled = match self.cancelled {
            0 => String::new(),
            n => format!(", {n} cancelled"),
        };
        format!("{}{failed}{cancelled}", queries(self.queries))
    }

    /// Whose time most of it is, in words; `None`: no query was answered.
    pub fn verdict_words(&self) -> Option<String> {
        let verdict = &self.warm.figures.verdict;
        let range = |party: Party| {
            let (low, estimate, high) = verdict.share(party);
            let (low, high) = (percent(low), percent(high));
            let is_one = low == high;
            let within = if is_one { format!("{low} %") } else { format!("{low} to {high} %") };
            match estimate.map(percent) {
                None => within,
                Some(estimate) if is_one => format!("{estimate} % of the time"),
                Some(estimate) => format!("{estimate} % of the time, {within}"),
            }
        };
        (self.answered() > 0).then(|| match verdict.most() {
            (Some(Party::Server), _) if self.asked.is_pooled => format!(
                "most of it is the server or the pooler before it, which of them is not known: {}",
                range(Party::Server)
            ),
            (Some(party), Confidence::High) => format!("most of it is the {party}: {}", range(party)),
            (Some(party), _) => format!("most of it seems to be the {party}: {} (not sure)", range(party)),
            (None, _) => {
                let all: Vec<String> =
                    PARTIES.into_iter().map(|party| format!("{party} {}", range(party))).collect();
                let whose = verdict.greatest().map(|party| {
                    format!(
                        "the {party} has more of it than either other can have, but it need not be most of it"
                    )
                });
                let whose = whose.unwrap_or_else(|| "no part is most of it for sure".to_owned());
                format!("{whose}: {}", all.join("; "))
            }
        })
    }

    /// How sure that is.
    pub fn confidence(&self) -> Confidence {
        self.most().1
    }

    /// The party that took most of the time; none if it is the server or a pooler before it.
    fn most(&self) -> (Option<Party>, Confidence) {
        match self.warm.figures.verdict.most() {
            (Some(Party::Server), _) if self.asked.is_pooled => (None, Confidence::None),
            most => most,
        }
    }

    /// What the verdict rests on, a sentence each.
    pub fn evidence(&self) -> Vec<String> {
        let mut told = Vec::new();
        let verdict = &self.warm.figures.verdict;
        if let Some((wall_ns, parts)) = verdict.mean() {
            let part = |(party, part): (Party, super::Part)| {
                format!("{party} {} to {}", time(part.low_ns), time(part.high_ns))
            };
            let parts: Vec<String> = PARTIES.into_iter().zip(parts).map(part).collect();
            told.push(format!("of a query's {} in the mean: {}", time(wall_ns), parts.join(", ")));
            let half = time_or_dash(median(&self.warm.figures.wall), 3);
            let most = p95(&self.warm.figures.wall)
                .map_or_else(String::new, |ns| format!(", 95 % within {}", time(ns)));
            told.push(format!("half of the queries took at most {half}{most}"));
        }
        told.extend(self.connections.words(&self.asked.connections));
        told.extend(self.counted_words());
        told.extend(self.sent_again_words());
        told.extend(self.no_split_words());
        told.extend(self.unrecorded_words());
        told
    }

    /// Of a live run they are in its figures all the same.
    fn unrecorded_words(&self) -> Option<String> {
        let unrecorded = self.asked.unrecorded.filter(|n| *n > 0)?;
        let are = if unrecorded == 1 { "is" } else { "are" };
        Some(format!("{} {are} not in the recording", queries(unrecorded)))
    }

    fn sent_again_words(&self) -> Option<String> {
        let segments = self.retransmits.filter(|n| *n > 0)?;
        let were = if segments == 1 { "was" } else { "were" };
        let (queries, segments) = (queries(self.sent_again), count(segments, "segment"));
        Some(format!("in {queries} {segments} {were} sent again from here"))
    }

    /// What the server counted beside the split, which that count cannot make.
    fn counted_words(&self) -> Option<String> {
        let counted = self.asked.counted.as_ref()?;
        let words = self.all.words(counted);
        Some(format!("the server itself counted {words}: its count does not tell the two apart"))
    }

    fn no_split_words(&self) -> impl Iterator<Item = String> {
        self.warm.figures.no_split.iter().map(|(why, n)| {
            format!("{} without a split, and so not in server, path and client: {why}", queries(*n))
        })
    }

    /// For how long this machine kept the threads that ask from running.
    fn kept_ns(&self) -> Option<u64> {
        self.asked.kept_ns.or(self.warm.figures.kept_ns)
    }

    fn advice(&self) -> Vec<String> {
        let of = &self.warm.figures;
        let evidence = Evidence {
            verdict: self.most(),
            turns: median(&of.turns).unwrap_or(0),
            rtt_ns: median(&of.rtt),
            wall_ns: median(&of.wall).unwrap_or(0),
            path_at_most: of.verdict.share(Party::Path).2,
            server_at_most: of.verdict.share(Party::Server).2,
            fetch_size: self.asked.fetch_size,
            walls_ns: of.verdict.wall_ns(),
            client_at_least: of.verdict.share(Party::Client).0,
            kept_ns: self.kept_ns(),
            is_here: self.asked.is_here,
            connections: self.asked.connections.len().max(1) as u64,
            waits: &of.waits,
            looked_at: of.looked_at,
        };
        advice::lines(&evidence)
    }

    /// As a person reads it.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let of = &self.warm.figures;
        let rows = count(self.rows, "row");
        let size = self.bytes.map_or_else(String::new, |bytes| format!(", {}", size_text(bytes)));
        _ = writeln!(out, "{}: {}, {rows}{size}", cleaned(&self.asked.target), self.count_words());
        if let (Some(verdict), false) = (self.verdict_words(), self.asked.settings.is_empty()) {
            out.push_str(&self.sweep.text(&self.asked.settings));
            _ = writeln!(out, "over all of them, {verdict}");
        } else if let Some(verdict) = self.verdict_words() {
            let counted = of.wall.count();
            _ = writeln!(out, "{:<10}{:>10}{:>10}", "", "p50", "p95");
            for (name, figure) in of.named() {
                let (p50, p95) = (time_or_dash(median(figure), 3), time_or_dash(p95(figure), 3));
                let of_how_many = match figure.count() {
                    n if n == counted => String::new(),
                    n => format!("  of {n} of {}", queries(counted)),
                };
                _ = writeln!(out, "{name:<10}{p50:>10}{p95:>10}{of_how_many}");
            }
            if counted < FOR_P95 {
                let missing = queries(counted);
                let (first, enough) = match self.asked.connections.len() as u64 {
                    0 => ("the first", COUNT),
                    n => ("the first of each connection", FOR_P95.div_ceil(n) + 1),
                };
                _ = writeln!(
                    out,
                    "no p95: it needs {FOR_P95} queries after {first}, and {missing} counted; --count {enough} asks enough"
                );
            }
            let turns = median(&of.turns).unwrap_or(0);
            let each = median(&of.rtt).map_or_else(
                || "; how long one takes is not known".to_owned(),
                |ns| format!(", of {} each", time(ns)),
            );
            _ = writeln!(out, "{} a query{each}", count(turns, "round trip"));
            if let Some(apart) = self.connections.words(&self.asked.connections) {
                _ = writeln!(out, "{apart}");
            }
            _ = writeln!(out, "{verdict}");
            for line in self.advice() {
                _ = writeln!(out, "{}", cleaned(&line));
            }
        }
        let again = self.sent_again_words();
        let told = self.counted_words().into_iter().chain(again).chain(self.no_split_words());
        for line in told.chain(self.unrecorded_words()) {
            _ = writeln!(out, "{line}");
        }
        for note in &self.asked.notes {
            _ = writeln!(out, "{}", cleaned(note));
        }
        if let Some(dir) = &self.asked.recording {
            _ = writeln!(out, "recording {}", cleaned(dir));
        }
        out
    }

    /// As a program reads it (docs/databases.md).
    pub fn json(&self) -> Value {
        let of = &self.warm.figures;
        let mut value = json!({
            "format": 1,
            "target": self.asked.target,
            "server_version": self.asked.server_version,
            "encrypted": self.asked.encrypted,
            "tds": self.asked.tds,
            "queries": self.queries,
            "failed": self.failures(),
            "failures": self.failures,
            "cancelled": self.cancelled,
            "rows": self.rows,
            "bytes_received": self.bytes,
            "retransmits": self.retransmits,
            "sent_again": self.sent_again,
            "unanswered_beside": self.asked.unanswered_beside,
            "looks": of.looks,
            "server_waits": of.waits,
            "kept_from_running_ns": self.kept_ns(),
            "server_counted": self.all.json(self.asked.counted.as_ref()),
            "without_split": of.no_split,
            "settings": self.sweep.json(&self.asked.settings),
            "connections": self.connections.json(&self.asked.connections),
            "advice": self.advice(),
            "pooled": self.asked.is_pooled,
            "notes": self.asked.notes,
            "recording": self.asked.recording,
            "unrecorded": self.asked.unrecorded,
        });
        if let Some(object) = value.as_object_mut() {
            object.extend(of.json());
            if self.most() != of.verdict.most() {
                object.insert("verdict".to_owned(), json!({ "party": null, "confidence": "none" }));
            }
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Part, Split};
    use super::*;

    /// Of no time nobody has a share: they were told to be 0, each (a stranger).
    #[test]
    fn unanswered_queries_have_no_shares() {
        let mut outcome = Outcome::default();
        let all = Part { low_ns: 9, ns: 9, high_ns: 9 };
        let split = Split::of_recording(9, [Part::default(), all, Part::default()], None);
        outcome.add(&Query { error: Some(super::super::LATE.to_owned()), split, ..Query::default() });
        let json = outcome.json();
        assert_eq!((&json["queries"], &json["mean_ns"]), (&json!(1), &Value::Null), "{json:#}");
        for party in ["server", "path", "client"] {
            let none = json!({ "low": null, "estimate": null, "high": null });
            assert_eq!(json["shares"][party], none, "{json:#}");
        }
        // Of one that was answered there are.
        outcome.add(&Query { query: 1, split, turns: 1, first_row_ns: Some(1), ..Query::default() });
        assert_eq!(outcome.json()["shares"]["path"], json!({ "low": 1.0, "estimate": 1.0, "high": 1.0 }));
    }

    /// "99 % of the time, 99 to 99 %".
    #[test]
    fn a_range_of_one_percentage_is_said_once() {
        let words = |low_ns: u64, high_ns: u64| {
            let mut outcome = Outcome::default();
            let part = |low_ns, ns, high_ns| Part { low_ns, ns, high_ns };
            let rest = part(1_000 - high_ns, 10, 1_000 - low_ns);
            let split = Split::of_recording(1_000, [part(low_ns, 990, high_ns), rest, Part::default()], None);
            outcome.add(&Query { split, turns: 1, first_row_ns: Some(1), ..Query::default() });
            outcome.verdict_words().unwrap()
        };
        assert_eq!(words(990, 990), "most of it is the server: 99 % of the time");
        assert_eq!(words(900, 990), "most of it is the server: 99 % of the time, 90 to 99 %");
    }

    /// The 150 ms in a pooler's queue were attributed to the server for certain.
    #[test]
    fn time_behind_pooler_is_not_servers_alone() {
        let told = |is_pooled| {
            let mut outcome = Outcome::new(Asked { is_pooled, ..Asked::default() });
            let all = Part { low_ns: 1_000, ns: 1_000, high_ns: 1_000 };
            let split = Split::of_recording(1_000, [all, Part::default(), Part::default()], None);
            outcome.add(&Query { split, turns: 1, first_row_ns: Some(1), ..Query::default() });
            let json = outcome.json();
            (outcome.verdict_words().unwrap(), json["verdict"]["party"].clone(), outcome.confidence())
        };
        let (words, party, confidence) = told(true);
        assert!(words.contains("the server or the pooler before it"), "{words}");
        assert_eq!((party, confidence), (Value::Null, Confidence::None));
        let (words, party, confidence) = told(false);
        assert!(words.starts_with("most of it is the server: "), "{words}");
        assert_eq!((party, confidence), (json!("server"), Confidence::High));
    }

    /// One has no split: the parts are those of others than the wall time, and the lines say of how many.
    #[test]
    fn partial_lines_say_how_many_queries() {
        let mut outcome = Outcome::default();
        for (wall_ns, no_split) in [(3_000_000, None), (1_000_000, Some("seldom"))] {
            let all = Part { low_ns: wall_ns, ns: wall_ns, high_ns: wall_ns };
            let split = Split::of_recording(wall_ns, [all, Part::default(), Part::default()], no_split);
            outcome.add(&Query { split, turns: 1, first_row_ns: Some(1), ..Query::default() });
        }
        let text = outcome.text();
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        assert!(line("server").ends_with("  of 1 of 2 queries"), "{text}");
        assert!(!line("wall").contains("of 2 queries") && !line("first row").contains("of 2"), "{text}");
        // It was "of not known each".
        assert!(text.contains("\n1 round trip a query; how long one takes is not known\n"), "{text}");
    }
}
