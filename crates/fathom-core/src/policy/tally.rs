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
/// A client notes this often how many of its requests were due: a kill takes no more.
pub const NOTED_EVERY_NS: u64 = S;

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
    /// Requests that were due and have no end in the recording, which was interrupted or lacks rows. `due` counts them, and not
    /// those that fell due in the last second of a recording that was interrupted.
    pub not_known: u64,
    /// The recording breaks off, and requests that fell due in so long before that are not counted, in ns. 0: it is whole.
    pub uncounted_ns: u64,
    /// Tries that were made after another one of the same request failed.
    pub retries: u64,
    /// From when a request was due to its end, whatever the end.
    pub waited: Waited,
    /// From when something was sent that was not answered to when the client knew it.
    pub notice: Waited,
    /// Connections that were begun.
    pub connections: u64,
    /// Of those the ones that were never established.
    pub not_established: u64,
    /// Of those the ones that took the place of another: fewer were established to the same server than had been at once before.
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
    /// So many requests were due at least.
    due: u64,
    /// The client was killed.
    interrupted: bool,
    retries: u64,
    waited: Histogram,
    notice: Histogram,
    /// Connections that are established, to the target and to the fallback's.
    open: [u64; 2],
    /// The most of each that were at one time.
    most: [u64; 2],
    connections: u64,
    not_established: u64,
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
            due: 0,
            interrupted: false,
            retries: 0,
            waited: Histogram::default(),
            notice: Histogram::default(),
            open: [0; 2],
            most: [0; 2],
            connections: 0,
            not_established: 0,
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
                self.connections += 1;
            }
            EventKind::ConnectionOpened { .. } => self.established(event.mono_ns, self.whose(event)),
            EventKind::ConnectionRefused { .. } => self.not_established += 1,
            EventKind::ConnectionClosed { .. } => {
                let whose = self.whose(event);
                self.open[whose] = self.open[whose].saturating_sub(1);
            }
            EventKind::RequestEnded(ended) => {
                self.was_due(ended.request.saturating_add(1));
                self.retries = self.retries.saturating_sub(u64::from(ended.retry_not_made));
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
                self.was_due(failed.request.saturating_add(1));
                self.retries += u64::from(failed.retry_in_ns.is_some());
                if failed.sent {
                    self.notice.record(failed.after_ns as i64);
                }
            }
            EventKind::BreakerChanged(changed) => {
                self.breaker_opened += u64::from(changed.to == Circuit::Open);
            }
            EventKind::ScheduleProgress { due, .. } => self.was_due(*due),
            EventKind::ClientInterrupted(interrupted) => {
                self.interrupted = true;
                self.was_due(interrupted.due);
            }
            EventKind::ClientEnded { result } => self.was_due(result["due"].as_u64().unwrap_or(0)),
            _ => {}
        }
    }

    /// So many requests were due, as is known from elsewhere: of those that had not ended nothing else may tell.
    pub fn was_due(&mut self, due: u64) {
        self.due = self.due.max(due);
    }

    /// Whether an event's connection goes to the target (0) or to the fallback's (1).
    fn whose(&self, event: &Event) -> usize {
        event.connection.is_some_and(|connection| self.fallback.contains(&connection)).into()
    }

    fn established(&mut self, at_ns: u64, whose: usize) {
        self.open[whose] += 1;
        // One more than there ever were takes nobody's place. The first to a fallback takes none of the target's.
        if self.open[whose] > self.most[whose] {
            self.most[whose] = self.open[whose];
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
        let ended = c.answered + c.failed + c.ambiguous + c.shed + c.fallback;
        let due = self.due.max(ended);
        Amounts {
            counts: Counts { due, ..c },
            not_known: due - ended,
            uncounted_ns: if self.interrupted { NOTED_EVERY_NS } else { 0 },
            retries: self.retries,
            waited: Waited::of(&self.waited),
            notice: Waited::of(&self.notice),
            connections: self.connections,
            not_established: self.not_established,
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
            ("not known", self.not_known, "the recording breaks off, or lacks rows"),
        ];
        for (name, n, what) in all.iter().filter(|(name, n, _)| *n > 0 || *name == "answered") {
            let share = 100.0 * *n as f64 / (c.due.max(1)) as f64;
            let what = if what.is_empty() { String::new() } else { format!("  {what}") };
            let _ = writeln!(out, "  {name:<10}{n:>9}{share:>8.2} %{what}");
        }
        if self.uncounted_ns > 0 {
            let _ = writeln!(
                out,
                "  the recording breaks off: what fell due in its last {} is not counted",
                duration(self.uncounted_ns)
            );
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
            "  {} begun, {} of them never established; {} took the place of others, at most {} within a second; tried again {}",
            count(self.connections, "connection"),
            self.not_established,
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
            "not_known": self.not_known,
            "uncounted_ns": self.uncounted_ns,
            "retries": self.retries,
            "waited_ns": self.waited.json(),
            "notice_ns": self.notice.json(),
            "connections": self.connections,
            "not_established": self.not_established,
            "extra_connections": self.extra_connections,
            "reconnections_a_second": self.reconnections_a_second,
            "breaker_opened": self.breaker_opened,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::ClosingCause;
    use crate::event::{Ended, Evidence, Interrupted, TryFailed, Why};
    use jiff::Timestamp;

    fn take(tally: &mut Tally, kinds: impl IntoIterator<Item = EventKind>) {
        for kind in kinds {
            tally.event(&Event { at: Timestamp::UNIX_EPOCH, mono_ns: 0, connection: Some(0), kind });
        }
    }

    fn opening() -> EventKind {
        let target = "there".to_owned();
        EventKind::ConnectionOpening { target, remote: String::new(), attempt: 1, lane: None }
    }

    fn opened() -> EventKind {
        let (target, local, remote) = ("there".to_owned(), String::new(), String::new());
        EventKind::ConnectionOpened {
            target,
            local,
            remote,
            connect_ns: 1,
            tls_ns: None,
            interface: None,
            lane: None,
        }
    }

    fn refused() -> EventKind {
        let (target, error) = ("there".to_owned(), "refused".to_owned());
        EventKind::ConnectionRefused {
            target,
            remote: None,
            errno: None,
            error,
            retry_in_ns: None,
            waited_ns: None,
            local: false,
            lane: None,
        }
    }

    fn closed() -> EventKind {
        let cause = ClosingCause::Reset;
        EventKind::ConnectionClosed {
            cause,
            verdict: None,
            errno: None,
            age_ns: 1,
            evidence: Evidence::default(),
        }
    }

    fn failed(request: u64, attempt: u32, retry: bool) -> EventKind {
        let retry_in_ns = retry.then_some(1);
        let (why, sent, after_ns, fallback) = (Why::NotConnected, false, 1, false);
        EventKind::TryFailed(TryFailed { request, attempt, why, sent, after_ns, fallback, retry_in_ns })
    }

    fn ended(request: u64, outcome: Outcome, tries: u32, retry_not_made: bool) -> EventKind {
        EventKind::RequestEnded(Ended { request, outcome, waited_ns: 1, tries, retry_not_made })
    }

    /// The target had one, which is gone; the fallback had none until then.
    #[test]
    fn first_fallback_connection_is_not_extra() {
        let mut tally = Tally::new("there");
        take(&mut tally, [opening(), opened(), closed()]);
        let target = "elsewhere".to_owned();
        let elsewhere =
            EventKind::ConnectionOpening { target, remote: String::new(), attempt: 1, lane: None };
        let other = |kind| Event { at: Timestamp::UNIX_EPOCH, mono_ns: 0, connection: Some(1), kind };
        tally.event(&other(elsewhere));
        tally.event(&other(opened()));
        assert_eq!(tally.amounts().extra_connections, 0);
        tally.event(&other(closed()));
        tally.event(&other(opened()));
        assert_eq!(tally.amounts().extra_connections, 1);
    }

    /// Where nobody ever listened, 100 connections were "in place of others" that had never been.
    #[test]
    fn only_established_connections_take_the_place_of_others() {
        let mut tally = Tally::new("there");
        for _ in 0..3 {
            take(&mut tally, [opening(), refused()]);
        }
        let none = tally.amounts();
        assert_eq!((none.connections, none.not_established, none.extra_connections), (3, 3, 0));
        assert_eq!(none.reconnections_a_second, 0);
        take(&mut tally, [opening(), opened(), opening(), opened(), closed(), opening(), refused()]);
        take(&mut tally, [opening(), opened(), opening(), opened()]);
        let some = tally.amounts();
        // The third and the fourth are more than ever were at once, or take the place of the one that was closed.
        assert_eq!((some.connections, some.not_established, some.extra_connections), (8, 4, 1));
    }

    /// A retry that met an open breaker was counted among those that were made.
    #[test]
    fn retry_never_made_is_not_counted() {
        let mut tally = Tally::new("there");
        take(&mut tally, [failed(0, 1, true), failed(0, 2, false), ended(0, Outcome::Failed, 2, false)]);
        take(&mut tally, [failed(1, 1, true), ended(1, Outcome::Failed, 1, true)]);
        assert_eq!(tally.amounts().retries, 1);
    }

    /// The law: each request that was due has one of five ends, or is told as not known.
    #[test]
    fn due_without_end_is_not_known() {
        let mut tally = Tally::new("there");
        tally.was_due(4);
        take(&mut tally, [ended(0, Outcome::Shed, 0, false), ended(1, Outcome::Failed, 1, false)]);
        let amounts = tally.amounts();
        assert_eq!((amounts.counts.due, amounts.not_known), (4, 2));
        // A request's number says that those before it were due too.
        take(&mut tally, [failed(6, 1, true)]);
        assert_eq!(tally.amounts().not_known, 5);
        take(&mut tally, [EventKind::ClientInterrupted(Interrupted { due: 9, not_known: 7 })]);
        let amounts = tally.amounts();
        let text = amounts.text("there");
        assert_eq!((amounts.counts.due, amounts.not_known), (9, 7));
        assert!(text.contains("  not known         7   77.78 %  "), "{text}");
        assert!(text.contains("breaks off: what fell due in its last 1 s"), "{text}");
        let json = amounts.json("there");
        assert_eq!((&json["not_known"], &json["uncounted_ns"]), (&json!(7), &json!(S)));
    }
}
