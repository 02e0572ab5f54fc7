//! What the story takes from the samples: counts, and what was usual before each incident.

use super::delays::{self, GoesOn};
use super::join::join;
use super::levels::{Level, Levels};
use super::moment::Moment;
use super::repeated::Repeated;
use super::shortest::Shortest;
use super::stood::Stood;
use crate::event::{Event, EventKind};
use crate::histogram::Histogram;
use crate::query::Outcome;
use crate::sample::{Flags, Sample};
use std::collections::{BTreeMap, BTreeSet};

/// Round trips up to a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Baseline {
    /// Round trips behind the figures.
    pub count: u64,
    /// Their median in ns, where the count supports it.
    pub p50_ns: Option<u64>,
    /// Their 99th percentile in ns, where the count supports it.
    pub p99_ns: Option<u64>,
}

impl From<&Histogram> for Baseline {
    fn from(h: &Histogram) -> Self {
        let [p50_ns, p99_ns] = [0.5, 0.99].map(|q| h.supported_quantile(q));
        Self { count: h.count(), p50_ns, p99_ns }
    }
}

/// The samples of a recording as far as the story needs them.
#[derive(Debug, Clone, Default)]
pub struct Gathered {
    /// Samples resolved.
    pub samples: u64,
    /// Samples that no echo came for.
    pub unanswered: u64,
    /// Samples whose echo was not what was sent.
    pub corrupt: u64,
    /// Samples answered after the timeout.
    pub late: u64,
    /// All round trips (warm-up, and what was under a load of ours, left out).
    pub whole: Baseline,
    /// The longest of them, in ns.
    pub longest_ns: Option<u64>,
    /// The shortest of them.
    pub shortest: Option<Shortest>,
    /// Set-ups that needed a second SYN, or more.
    pub repeated: Option<Repeated>,
    /// When the last sample was sent, in ns since the Unix epoch.
    pub last_sent_ns: Option<i64>,
    /// How long they took at each time, in order of time, without what waited for a host to run.
    pub levels: Vec<Level>,
    /// Connections with a delay that has no end, of which some sample was late and did not wait for a host to run.
    pub slow: BTreeSet<u32>,
    /// What was usual before each incident, by its moment in ns since the Unix epoch.
    pub before: BTreeMap<i64, Baseline>,
    /// The queries of a database beside which they were measured, if there were such.
    pub queries: Option<Outcome>,
}

/// Gathers, sample by sample.
#[derive(Debug)]
pub struct Gatherer {
    rtt: Histogram,
    levels: Levels,
    stood: Stood,
    /// Where the run had begun in another recording: when it went on in this one, in ns since the Unix epoch.
    goes_on_ns: Option<i64>,
    /// True if the wall clock was set back in it.
    is_set_back: bool,
    /// Delays that have no end, by their connection.
    go_on: BTreeMap<u32, GoesOn>,
    /// Moments that wait for their baseline, latest first.
    moments: Vec<i64>,
    gathered: Gathered,
}

impl Gatherer {
    /// Looks for the incidents of these events.
    pub fn new(events: &[Event]) -> Self {
        let joined = join(events);
        let mut moments = joined.incidents().map(|i| i.start().utc_ns()).collect::<Vec<_>>();
        moments.sort_unstable_by(|a, b| b.cmp(a));
        moments.dedup();
        Self {
            rtt: Histogram::default(),
            levels: Levels::default(),
            stood: Stood::of(&joined),
            goes_on_ns: events.iter().find_map(continued_ns),
            is_set_back: events.iter().any(sets_back),
            go_on: delays::going_on(events),
            moments,
            gathered: Gathered::default(),
        }
    }

    /// Adds a sample; they come in the order of the recording.
    pub fn sample(&mut self, sample: &Sample) {
        while self.moments.last().is_some_and(|&moment| moment <= sample.sent_ns) {
            self.snapshot();
        }
        let all = &mut self.gathered;
        all.samples += 1;
        // Rows are in the order in which they were resolved, so the last may have been sent earlier than others. That
        // is negligible beside a step of the clock.
        let before = all.last_sent_ns.filter(|_| !self.is_set_back);
        all.last_sent_ns = before.max(Some(sample.sent_ns));
        all.repeated = Repeated::and(all.repeated, sample);
        all.late += u64::from(sample.flags.contains(Flags::ANSWERED_LATE));
        match sample.rtt_ns {
            None if sample.flags.contains(Flags::CORRUPTED) => all.corrupt += 1,
            None => all.unanswered += 1,
            // What is usual is what is usual without a load of ours.
            Some(_) if [Flags::WARM_UP, Flags::UNDER_LOAD].into_iter().any(|f| sample.flags.contains(f)) => {}
            Some(rtt_ns) => {
                self.rtt.record(rtt_ns);
                let took_ns = rtt_ns.max(0) as u64;
                let reflector_ns = sample.reflector_ns.and_then(|ns| u64::try_from(ns).ok());
                all.shortest = Some(Shortest::and(all.shortest, took_ns, reflector_ns));
                let waited_ns = self.stood.within(sample.sent_ns, took_ns);
                // What was sent before is of a time of which the recording before knows what happened in it.
                if self.goes_on_ns.is_none_or(|from_ns| sample.sent_ns >= from_ns) {
                    self.levels.add(sample.sent_ns, rtt_ns.saturating_sub(waited_ns as i64));
                }
                let late = self
                    .go_on
                    .get(&sample.connection)
                    .is_some_and(|delay| delay.holds_up(sample.seq, took_ns));
                if late && !self.stood.held_up(sample.sent_ns, took_ns) {
                    self.gathered.slow.insert(sample.connection);
                }
            }
        }
    }

    fn snapshot(&mut self) {
        if let Some(moment) = self.moments.pop() {
            self.gathered.before.insert(moment, (&self.rtt).into());
        }
    }

    /// What was gathered.
    pub fn finish(mut self) -> Gathered {
        while !self.moments.is_empty() {
            self.snapshot();
        }
        let (whole, longest_ns, levels) = ((&self.rtt).into(), self.rtt.max(), self.levels.finish());
        Gathered { whole, longest_ns, levels, ..self.gathered }
    }
}

fn sets_back(event: &Event) -> bool {
    matches!(event.kind, EventKind::ClockStepped { step_ns } if step_ns < 0)
}

fn continued_ns(event: &Event) -> Option<i64> {
    matches!(event.kind, EventKind::RecordingContinues { .. }).then(|| Moment::of(event).utc_ns())
}
