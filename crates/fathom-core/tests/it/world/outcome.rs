//! What a run came to, and the laws that hold of every run.

use fathom_core::event::{Event, EventKind};
use fathom_core::probe::{LinkId, RunEnd};
use fathom_core::sample::Sample;
use fathom_core::verdict::Fresh;
use std::collections::{BTreeMap, BTreeSet};

/// What a run came to.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) samples: Vec<(usize, Sample)>,
    pub(crate) events: Vec<(Option<usize>, Event)>,
    /// How many samples had come before each of these.
    pub(crate) samples_before: Vec<usize>,
    /// Truth: silences with samples out over TCP, of the threshold that the settings name and longer, or of `SILENCE_NS`: from, to.
    pub(crate) silences: Vec<(u64, u64)>,
    /// Those that came when a part of the missing echo had.
    pub(crate) further_silences: Vec<(u64, u64)>,
    /// Truth: messages of which the kernel was given the beginning.
    pub(crate) handed_over: BTreeMap<LinkId, u64>,
    /// The path and the ordinal of connections.
    pub(crate) ordinals: BTreeMap<LinkId, (usize, u32)>,
    /// Truth: the probe's host did not run for a while, or its kernel did not take what it was given.
    pub(crate) held_up: bool,
    /// Truth: when the probe's host did not run, and when the reflector's did not: from, to.
    pub(crate) local_stops: Vec<(u64, u64)>,
    pub(crate) peer_stops: Vec<(u64, u64)>,
    /// Whether the reflector tells when it did not run.
    pub(crate) peer_tells: bool,
    /// Truth: the wall clock was set, so that rows do not tell when a sample was sent.
    pub(crate) clock_was_set: bool,
    pub(crate) ended_ns: u64,
    pub(crate) end: RunEnd,
    pub(crate) wakes: u64,
    /// Every output, where they are kept.
    pub(crate) trace: Vec<String>,
}

impl Outcome {
    /// Events of a kind, with when and on which connection.
    pub(crate) fn of<T>(&self, pick: impl Fn(&EventKind) -> Option<T>) -> Vec<(u64, Option<u32>, T)> {
        let event = |(_, e): &(Option<usize>, Event)| Some((e.mono_ns, e.connection, pick(&e.kind)?));
        self.events.iter().filter_map(event).collect()
    }

    pub(crate) fn stalls(&self) -> usize {
        self.of(|kind| matches!(kind, EventKind::StallBegan { .. }).then_some(())).len()
    }

    pub(crate) fn skipped(&self) -> u64 {
        let skipped = |kind: &EventKind| match kind {
            EventKind::ScheduleOverrun { skipped, .. } => Some(*skipped),
            _ => None,
        };
        self.of(skipped).iter().map(|(.., n)| n).sum()
    }

    /// Samples that were in flight at the end of the run, by path and connection.
    pub(crate) fn in_flight(&self) -> BTreeMap<(usize, u32), u64> {
        let mut all = BTreeMap::new();
        for (path, event) in &self.events {
            if let EventKind::SamplesInFlight { samples } = event.kind {
                *all.entry((path.unwrap_or(0), event.connection.unwrap_or(0))).or_default() += samples;
            }
        }
        all
    }

    /// The laws that hold of every run: each sample has one row or was in flight at the end, each connection as many as it says that it sent, each
    /// stall one end and one explanation, nothing overlaps.
    pub(crate) fn check_laws(&self) {
        self.check_delays();
        let mut rows: BTreeMap<(usize, u32), Vec<&Sample>> = BTreeMap::new();
        for (path, sample) in &self.samples {
            rows.entry((*path, sample.connection)).or_default().push(sample);
        }
        for ((path, connection), samples) in &rows {
            let mut seqs: Vec<u64> = samples.iter().map(|s| s.seq).collect();
            seqs.sort_unstable();
            let all = seqs.iter().enumerate().all(|(i, seq)| *seq == i as u64);
            assert!(all, "path {path} connection {connection}: each sample once: {seqs:?}");
        }
        let in_flight = self.in_flight();
        for (link, handed_over) in &self.handed_over {
            let key = self.ordinals.get(link);
            let rows = key.and_then(|key| rows.get(key)).map_or(0, Vec::len) as u64;
            let in_flight = key.and_then(|key| in_flight.get(key)).unwrap_or(&0);
            assert_eq!(rows + in_flight, *handed_over, "rows of what the kernel was given on {link:?}");
        }
        if !self.held_up {
            let late = self.samples.iter().find(|(_, sample)| sample.lateness_ns != 0);
            assert_eq!(late, None, "nothing held it up: it is sent when it is due");
        }
        let mut opened = BTreeMap::new();
        let mut stalled: BTreeMap<(usize, u32), u64> = BTreeMap::new();
        let mut unexplained: BTreeMap<(usize, u32), u64> = BTreeMap::new();
        let mut explained_open = BTreeSet::new();
        let mut unreported = BTreeSet::new();
        let mut before = 0;
        for (path, event) in &self.events {
            let key = (path.unwrap_or(0), event.connection.unwrap_or(0));
            if !matches!(event.kind, EventKind::Pause { .. }) {
                assert!(event.mono_ns >= before, "events go backwards: {event:?} after {before}");
                before = event.mono_ns;
            }
            match &event.kind {
                EventKind::ConnectionOpened { .. } => {
                    assert!(opened.insert(key, event.mono_ns).is_none(), "opened twice: {event:?}");
                }
                EventKind::ConnectionClosed { evidence, cause, .. } => {
                    assert!(opened.remove(&key).is_some(), "closed, not open: {event:?}");
                    let of = rows.get(&key).map_or(&[][..], Vec::as_slice);
                    let in_flight = in_flight.get(&key).copied().unwrap_or(0);
                    assert_eq!(
                        evidence.sent,
                        of.len() as u64 + in_flight,
                        "sent = rows + in flight: {event:?}"
                    );
                    assert!(in_flight <= evidence.outstanding, "what is in flight is out: {event:?}");
                    assert!(in_flight == 0 || !cause.is_loss(), "in flight on a lost connection: {event:?}");
                    let answered = of.iter().filter(|s| s.rtt_ns.is_some()).count() as u64;
                    assert_eq!(evidence.answered, answered, "answered: {event:?}");
                    // What goes on when the run ends has no end, and is explained before.
                    let goes_on = stalled.remove(&key).is_some();
                    assert!(!goes_on || !cause.is_loss(), "lost in a stall that has no end: {event:?}");
                    assert_eq!(goes_on, explained_open.remove(&key), "what goes on is explained: {event:?}");
                    if cause.is_loss() {
                        *unexplained.entry(key).or_default() += 1;
                    }
                }
                EventKind::StallBegan { .. } => {
                    assert!(opened.contains_key(&key), "a stall of no connection: {event:?}");
                    assert!(stalled.insert(key, event.mono_ns).is_none(), "a stall in a stall: {event:?}");
                }
                EventKind::StallEnded { recovered, duration_ns, .. } => {
                    assert!(stalled.remove(&key).is_some(), "the end of no stall: {event:?}");
                    assert!(*duration_ns > 0);
                    if *recovered {
                        *unexplained.entry(key).or_default() += 1;
                    }
                }
                EventKind::ConnectionExplained { about, .. }
                    if about == "stall" && stalled.contains_key(&key) =>
                {
                    assert!(explained_open.insert(key), "explained twice: {event:?}");
                }
                // A death that the reflector could not be asked about is explained again, once, when it could be.
                EventKind::ConnectionExplained { about, reflector: Some(_), .. }
                    if about == "closing" && unreported.remove(&key) => {}
                EventKind::ConnectionExplained { about, fresh, .. } => {
                    let left = unexplained.get_mut(&key).filter(|left| **left > 0);
                    *left.unwrap_or_else(|| panic!("an explanation of nothing: {event:?}")) -= 1;
                    if about == "closing" && !matches!(fresh, Fresh::Echoed | Fresh::SmallOnly) {
                        unreported.insert(key);
                    }
                }
                _ => {}
            }
        }
        assert!(opened.is_empty(), "left open: {opened:?}");
        assert!(unexplained.values().all(|left| *left == 0), "not explained: {unexplained:?}");
    }
}
