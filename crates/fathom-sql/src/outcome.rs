//! What a run came to: medians of the wall time and its parts, whose time most of it is, and what to do about it.

use crate::advice::{self, Evidence};
use crate::record::Record;
use crate::session::Session;
use crate::{Config, Server};
use fathom_core::histogram::Histogram;
use fathom_core::query::{Confidence, PARTIES, Party, Verdict};
use fathom_core::units::narrow::time_or_dash;
use fathom_recording::Query;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Fewer queries have no p95.
const FOR_P95: u64 = 20;
/// Queries of a run that does not say how many: with the first, which finds nothing warm, enough for that.
pub const COUNT: u64 = FOR_P95 + 1;

/// See the module.
#[derive(Debug)]
pub struct Outcome {
    target: String,
    server_version: Option<String>,
    encrypted: bool,
    pub(crate) fetch_size: Option<u32>,
    pub(crate) queries: u64,
    failed: u64,
    pub(crate) rows: u64,
    bytes: u64,
    wall: Histogram,
    first_row: Histogram,
    transfer: Histogram,
    parts: [Histogram; 3],
    pub(crate) turns: Histogram,
    pub(crate) rtt: Histogram,
    pub(crate) verdict: Verdict,
    looks: u64,
    /// Queries during which there was one.
    looked_at: u64,
    pub(crate) waits: BTreeMap<String, u64>,
    no_split: BTreeMap<&'static str, u64>,
    retransmits: u64,
    pub(crate) beside_failed: u64,
    notes: Vec<String>,
    /// The figures are the first query's, which count only where there is no other.
    only_first: bool,
    recording: Option<String>,
    /// Queries that are not in it, because it could not be written.
    pub(crate) unrecorded: u64,
}

impl Outcome {
    pub(crate) fn new(config: &Config, server: &Server, session: &Session) -> Self {
        Self {
            target: format!("{}/{}", server.address(), server.database),
            server_version: session.version.clone(),
            encrypted: session.channel.is_encrypted(),
            fetch_size: config.fetch_size,
            queries: 0,
            failed: 0,
            rows: 0,
            bytes: 0,
            wall: Histogram::default(),
            first_row: Histogram::default(),
            transfer: Histogram::default(),
            parts: Default::default(),
            turns: Histogram::default(),
            rtt: Histogram::default(),
            verdict: Verdict::default(),
            looks: 0,
            looked_at: 0,
            waits: BTreeMap::new(),
            no_split: BTreeMap::new(),
            retransmits: 0,
            beside_failed: 0,
            notes: Vec::new(),
            only_first: false,
            recording: config.recording.as_ref().map(|recording| recording.dir.display().to_string()),
            unrecorded: 0,
        }
    }

    pub(crate) fn note(&mut self, record: &Record, text: String) {
        record.note(text.clone());
        self.notes.push(text);
    }

    /// Takes a query: into the figures, unless it failed or is the first of several.
    pub(crate) fn add(&mut self, query: &Query) {
        self.queries += 1;
        self.rows += query.rows;
        self.bytes += query.bytes_received.unwrap_or(0);
        self.retransmits += query.retransmits.unwrap_or(0);
        if query.error.is_some() {
            self.failed += 1;
        } else if query.is_first {
            self.only_first = true;
            self.count(query);
        } else {
            if std::mem::take(&mut self.only_first) {
                self.forget_the_first();
            }
            self.count(query);
        }
    }

    /// The first query finds nothing warm.
    fn forget_the_first(&mut self) {
        for figure in
            [&mut self.wall, &mut self.first_row, &mut self.transfer, &mut self.turns, &mut self.rtt]
        {
            *figure = Histogram::default();
        }
        self.parts = Default::default();
        (self.verdict, self.looks, self.looked_at) = (Verdict::default(), 0, 0);
        self.waits.clear();
        self.no_split.clear();
    }

    fn count(&mut self, query: &Query) {
        let put = |figure: &mut Histogram, ns: u64| figure.record(i64::try_from(ns).unwrap_or(i64::MAX));
        put(&mut self.wall, query.split.wall_ns);
        put(&mut self.turns, query.turns);
        if let Some(first) = query.first_row_ns {
            put(&mut self.first_row, first);
            put(&mut self.transfer, query.split.wall_ns.saturating_sub(first));
        }
        if let Some(rtt) = query.rtt_ns {
            put(&mut self.rtt, rtt);
        }
        self.verdict.add(&query.split);
        self.looks += query.looks;
        self.looked_at += u64::from(query.looks > 0);
        match (query.split.estimates(), query.split.why_not()) {
            (Some(estimates), _) => self.parts.iter_mut().zip(estimates).for_each(|(part, ns)| put(part, ns)),
            (None, why) => *self.no_split.entry(why.unwrap_or("")).or_default() += 1,
        }
        if let Some(wait) = &query.server_wait {
            *self.waits.entry(wait.clone()).or_default() += 1;
        }
    }

    /// Queries that had an answer.
    pub fn answered(&self) -> u64 {
        self.queries - self.failed
    }

    /// The wall time of half of the queries was shorter, in ns.
    pub(crate) fn median(figure: &Histogram) -> Option<u64> {
        figure.quantile(0.5)
    }

    fn p95(figure: &Histogram) -> Option<u64> {
        (figure.count() >= FOR_P95).then(|| figure.quantile(0.95)).flatten()
    }

    fn figures(&self) -> [(&'static str, &Histogram); 6] {
        let [server, path, client] = &self.parts;
        [
            ("wall", &self.wall),
            ("first row", &self.first_row),
            ("transfer", &self.transfer),
            ("server", server),
            ("path", path),
            ("client", client),
        ]
    }

    /// Whose time most of it is, in words.
    fn verdict_words(&self) -> String {
        let percent = |share: f64| format!("{:.0}", share * 100.0);
        let (party, confidence) = self.verdict.most();
        let range = |party: Party| {
            let (low, estimate, high) = self.verdict.share(party);
            let within = format!("{} to {} %", percent(low), percent(high));
            estimate
                .map_or(within.clone(), |estimate| format!("{} % of the time, {within}", percent(estimate)))
        };
        match (party, confidence) {
            (Some(party), Confidence::High) => format!("most of it is the {party}: {}", range(party)),
            (Some(party), _) => format!("most of it seems to be the {party}: {} (not sure)", range(party)),
            (None, _) => {
                let all: Vec<String> =
                    PARTIES.into_iter().map(|party| format!("{party} {}", range(party))).collect();
                format!("no part is most of it for sure: {}", all.join("; "))
            }
        }
    }

    fn advice(&self) -> Vec<String> {
        let evidence = Evidence {
            verdict: self.verdict.most(),
            turns: Self::median(&self.turns).unwrap_or(0),
            rtt_ns: Self::median(&self.rtt),
            wall_ns: Self::median(&self.wall).unwrap_or(0),
            path_at_most: self.verdict.share(Party::Path).2,
            fetch_size: self.fetch_size,
            waits: &self.waits,
            looked_at: self.looked_at,
        };
        advice::lines(&evidence)
    }

    /// As a person reads it.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let one = |n: u64, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
        let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        let rows = fathom_core::text::count(self.rows, "row");
        let size = fathom_core::units::size_text(self.bytes);
        _ = writeln!(
            out,
            "{}: {}{failed}, {rows}, {size}",
            self.target,
            one(self.queries, "query", "queries")
        );
        if self.answered() > 0 {
            _ = writeln!(out, "{:<10}{:>10}{:>10}", "", "p50", "p95");
            for (name, figure) in self.figures() {
                let (p50, p95) = (time_or_dash(Self::median(figure), 3), time_or_dash(Self::p95(figure), 3));
                _ = writeln!(out, "{name:<10}{p50:>10}{p95:>10}");
            }
            let counted = self.wall.count();
            if counted < FOR_P95 {
                let missing = one(counted, "query", "queries");
                _ = writeln!(
                    out,
                    "no p95: it needs {FOR_P95} queries after the first, and {missing} counted; --count {COUNT} asks enough"
                );
            }
            let turns = Self::median(&self.turns).unwrap_or(0);
            let rtt = Self::median(&self.rtt)
                .map_or_else(|| "not known".to_owned(), |ns| time_or_dash(Some(ns), 3));
            _ = writeln!(out, "{} a query, of {rtt} each", one(turns, "round trip", "round trips"));
            _ = writeln!(out, "{}", self.verdict_words());
            for line in self.advice() {
                _ = writeln!(out, "{line}");
            }
        }
        for (why, n) in &self.no_split {
            _ = writeln!(
                out,
                "{} without a split, and so not in server, path and client: {why}",
                one(*n, "query", "queries")
            );
        }
        for note in &self.notes {
            _ = writeln!(out, "{note}");
        }
        if let Some(dir) = &self.recording {
            _ = writeln!(out, "recording {dir}");
        }
        out
    }

    /// As a program reads it (docs/databases.md).
    pub fn json(&self) -> Value {
        let figure = |figure: &Histogram| json!({ "count": figure.count(), "p50": Self::median(figure), "p95": Self::p95(figure) });
        let (party, confidence) = self.verdict.most();
        let share = |party: Party| {
            let (low, estimate, high) = self.verdict.share(party);
            json!({ "low": low, "estimate": estimate, "high": high })
        };
        let confidence = match confidence {
            Confidence::High => "high",
            Confidence::Medium => "medium",
            Confidence::None => "none",
        };
        let figures = self.figures().map(|(name, of)| (format!("{}_ns", name.replace(' ', "_")), figure(of)));
        let mut value = json!({
            "format": 1,
            "target": self.target,
            "server_version": self.server_version,
            "encrypted": self.encrypted,
            "queries": self.queries,
            "failed": self.failed,
            "rows": self.rows,
            "bytes_received": self.bytes,
            "retransmits": self.retransmits,
            "turns": Self::median(&self.turns),
            "rtt_ns": Self::median(&self.rtt),
            "unanswered_beside": self.beside_failed,
            "looks": self.looks,
            "server_waits": self.waits,
            "without_split": self.no_split,
            "verdict": { "party": party.map(|party| party.to_string()), "confidence": confidence },
            "shares": { "server": share(Party::Server), "path": share(Party::Path), "client": share(Party::Client) },
            "advice": self.advice(),
            "notes": self.notes,
            "recording": self.recording,
            "unrecorded": self.unrecorded,
        });
        if let Some(object) = value.as_object_mut() {
            object.extend(figures);
        }
        value
    }
}
