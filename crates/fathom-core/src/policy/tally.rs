//! What the rows and events of a client's recording amount to. The client itself counts its requests too: both must agree.

use super::io::{Counts, Outcome};
use crate::event::{Circuit, Event, EventKind};
use crate::histogram::Histogram;
use crate::sample::Sample;
use crate::text::count;
use crate::units::duration_text as duration;
use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;

const S: u64 = 1_000_000_000;

/// How long callers waited, or how long it took to notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waited {
    /// How many times.
    pub count: u64,
    /// The middle. `None`: too few, as with the others.
    pub p50_ns: Option<u64>,
    /// The 99th percentile.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
}

impl Waited {
    fn of(histogram: &Histogram) -> Self {
        Self {
            count: histogram.count(),
            p50_ns: histogram.supported_quantile(0.5),
            p99_ns: histogram.supported_quantile(0.99),
            max_ns: histogram.max(),
        }
    }

    fn json(&self) -> Value {
        json!({"count": self.count, "p50": self.p50_ns, "p99": self.p99_ns, "max": self.max_ns})
    }
}

/// What a client's run amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amounts {
    /// What became of the requests.
    pub counts: Counts,
    /// Tries that were made after another one of the same request failed.
    pub retries: u64,
    /// From when a request was due to its end, whatever the end.
    pub waited: Waited,
    /// From when something was sent that was not answered to when the client knew it.
    pub notice: Waited,
    /// Connections that were begun.
    pub connections: u64,
    /// Of those the ones that took the place of another.
    pub extra_connections: u64,
    /// The most of these in any second.
    pub reconnections_a_second: u64,
    /// How often the breaker opened.
    pub breaker_opened: u64,
}

/// Takes the rows and the events of a recording; a row may come after or before the events of its connection, as long as
/// the `connection.opening` came before it.
#[derive(Debug, Clone)]
pub struct Tally {
    target: String,
    /// Connections to the fallback's target.
    fallback: BTreeSet<u32>,
    counts: Counts,
    retries: u64,
    waited: Histogram,
    notice: Histogram,
    open: u64,
    /// The most that were open or being opened at one time.
    most: u64,
    connections: u64,
    extra: u64,
    recent: VecDeque<u64>,
    peak: u64,
    breaker_opened: u64,
}

impl Tally {
    /// Of a client of this target, as its events name it.
    pub fn new(target: &str) -> Self {
        Self {
            target: target.to_owned(),
            fallback: BTreeSet::new(),
            counts: Counts::default(),
            retries: 0,
            waited: Histogram::default(),
            notice: Histogram::default(),
            open: 0,
            most: 0,
            connections: 0,
            extra: 0,
            recent: VecDeque::new(),
            peak: 0,
            breaker_opened: 0,
        }
    }

    /// Takes a row.
    pub fn sample(&mut self, sample: &Sample) {
        // What the fallback answered is told by its event.
        if let Some(latency_ns) = sample.latency_ns()
            && !self.fallback.contains(&sample.connection)
        {
            self.counts.answered += 1;
            self.waited.record(latency_ns);
        }
    }

    /// Takes an event.
    pub fn event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ConnectionOpening { target, .. } => {
                if *target != self.target {
                    self.fallback.extend(event.connection);
                }
                self.opening(event.mono_ns);
            }
            EventKind::ConnectionRefused { .. } | EventKind::ConnectionClosed { .. } => {
                self.open = self.open.saturating_sub(1);
            }
            EventKind::RequestEnded(ended) => {
                self.waited.record(ended.waited_ns as i64);
                match ended.outcome {
                    // A row tells that.
                    Outcome::Answered => {}
                    Outcome::Failed => self.counts.failed += 1,
                    Outcome::Ambiguous => self.counts.ambiguous += 1,
                    Outcome::Shed => self.counts.shed += 1,
                    Outcome::Fallback => self.counts.fallback += 1,
                }
            }
            EventKind::TryFailed(failed) => {
                self.retries += u64::from(failed.retry_in_ns.is_some());
                if failed.sent {
                    self.notice.record(failed.after_ns as i64);
                }
            }
            EventKind::BreakerChanged(changed) => {
                self.breaker_opened += u64::from(changed.to == Circuit::Open);
            }
            _ => {}
        }
    }

    fn opening(&mut self, at_ns: u64) {
        self.connections += 1;
        self.open += 1;
        // One more than there ever were takes nobody's place.
        if self.open > self.most {
            self.most = self.open;
            return;
        }
        self.extra += 1;
        self.recent.push_back(at_ns);
        while self.recent.front().is_some_and(|&first| first + S <= at_ns) {
            self.recent.pop_front();
        }
        self.peak = self.peak.max(self.recent.len() as u64);
    }

    /// What it amounts to so far.
    pub fn amounts(&self) -> Amounts {
        let c = self.counts;
        let due = c.answered + c.failed + c.ambiguous + c.shed + c.fallback;
        Amounts {
            counts: Counts { due, ..c },
            retries: self.retries,
            waited: Waited::of(&self.waited),
            notice: Waited::of(&self.notice),
            connections: self.connections,
            extra_connections: self.extra,
            reconnections_a_second: self.peak,
            breaker_opened: self.breaker_opened,
        }
    }
}

impl Amounts {
    /// For people.
    pub fn text(&self, target: &str) -> String {
        let c = &self.counts;
        let mut out = format!("{target}: {} due\n", count(c.due, "request"));
        let all = [
            ("answered", c.answered, ""),
            ("failed", c.failed, "never sent"),
            ("ambiguous", c.ambiguous, "sent, and no answer came"),
            ("shed", c.shed, "the breaker was open"),
            ("fallback", c.fallback, "served by it"),
            ("in flight", c.in_flight, ""),
        ];
        for (name, n, what) in all.iter().filter(|(name, n, _)| *n > 0 || *name == "answered") {
            let share = 100.0 * *n as f64 / (c.due.max(1)) as f64;
            let what = if what.is_empty() { String::new() } else { format!("  {what}") };
            let _ = writeln!(out, "  {name:<10}{n:>9}{share:>8.2} %{what}");
        }
        let time = |ns: Option<u64>| ns.map_or_else(|| "too few to say".to_owned(), duration);
        let w = &self.waited;
        let _ = writeln!(
            out,
            "  callers waited: p50 {}, p99 {}, at most {} ({})",
            time(w.p50_ns),
            time(w.p99_ns),
            time(w.max_ns),
            count(w.count, "request")
        );
        if self.notice.count > 0 {
            let n = &self.notice;
            let times = count(n.count, "time");
            let _ = writeln!(
                out,
                "  noticed that no answer comes after: p50 {}, at most {} ({times})",
                time(n.p50_ns),
                time(n.max_ns)
            );
        }
        let _ = writeln!(
            out,
            "  {}, {} of them in place of others, at most {} within a second; tried again {}",
            count(self.connections, "connection"),
            self.extra_connections,
            self.reconnections_a_second,
            count(self.retries, "time")
        );
        if self.breaker_opened > 0 {
            let _ = writeln!(out, "  the breaker opened {}", count(self.breaker_opened, "time"));
        }
        out
    }

    /// One object, as docs/policies.md tells.
    pub fn json(&self, target: &str) -> Value {
        let c = &self.counts;
        json!({
            "format": 1,
            "kind": "client",
            "target": target,
            "due": c.due,
            "answered": c.answered,
            "failed": c.failed,
            "ambiguous": c.ambiguous,
            "shed": c.shed,
            "fallback": c.fallback,
            "in_flight": c.in_flight,
            "retries": self.retries,
            "waited_ns": self.waited.json(),
            "notice_ns": self.notice.json(),
            "connections": self.connections,
            "extra_connections": self.extra_connections,
            "reconnections_a_second": self.reconnections_a_second,
            "breaker_opened": self.breaker_opened,
        })
    }
}
