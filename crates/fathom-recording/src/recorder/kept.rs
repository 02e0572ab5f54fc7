//! Events that are not written yet: they follow rows that are not written yet, or the disk is full.

use fathom_core::event::{Event, EventKind};
use std::collections::BTreeMap;

/// Bytes of lines that are kept.
const LINES: usize = 1 << 20;
/// Bytes of ends of connections that are kept beyond those.
const ENDS: usize = 8 << 20;
/// Counts that are kept beyond those, each for its kind, connection and reason.
const COUNTS: usize = 1 << 16;

type Key = (&'static str, Option<u32>, Option<String>);

/// Events in order. Where they become too many, what the law of conservation needs is kept in a smaller form: ends of
/// connections, and the sums of what is counted. Of everything else the number is kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    lines: Vec<u8>,
    /// There was no room for a line: no later one is kept as it is, so that they stay in order.
    full: bool,
    ends: Vec<u8>,
    counts: BTreeMap<Key, Event>,
    lost: u64,
    /// Lines that say what the run came to, and that it is over: behind everything else.
    last: Vec<u8>,
}

impl Kept {
    pub(super) fn is_empty(&self) -> bool {
        let Self { lines, full: _, ends, counts, lost, last } = self;
        lines.is_empty() && ends.is_empty() && counts.is_empty() && *lost == 0 && last.is_empty()
    }

    /// Bytes of its lines.
    pub(super) fn len(&self) -> usize {
        self.lines.len() + self.ends.len() + self.last.len()
    }

    /// Events that could not be kept.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Keeps an event, of which this is the line.
    pub(super) fn push(&mut self, event: &Event, line: &[u8]) {
        if let EventKind::QueriesClosed { .. }
        | EventKind::SqlEnded { .. }
        | EventKind::RecordingEnded { .. } = event.kind
        {
            return self.last.extend_from_slice(line);
        }
        if let EventKind::RecordingRotated { .. } | EventKind::RecordingContinues { .. } = event.kind {
            // One at either end of a recording, which is nothing without it.
            let lines = if self.full { &mut self.ends } else { &mut self.lines };
            return lines.extend_from_slice(line);
        }
        self.full |= self.lines.len() + line.len() > LINES;
        if !self.full {
            return self.lines.extend_from_slice(line);
        }
        let reason = match &event.kind {
            EventKind::ConnectionClosed { .. } if self.ends.len() + line.len() <= ENDS => {
                return self.ends.extend_from_slice(line);
            }
            EventKind::RecordingOverflowed { reason, .. } => reason.clone(),
            EventKind::ScheduleOverrun { reason, .. } => Some(reason.clone()),
            EventKind::ScheduleEnded { .. } | EventKind::SamplesInFlight { .. } => None,
            _ => {
                self.lost += 1;
                return;
            }
        };
        let mut event = event.clone();
        let mut key = (event.kind.name(), event.connection, reason);
        if self.counts.len() >= COUNTS && !self.counts.contains_key(&key) {
            (key.1, event.connection) = (None, None);
        }
        match self.counts.get_mut(&key) {
            Some(sum) => add(sum, &event),
            None => drop(self.counts.insert(key, event)),
        }
    }

    /// Lets go of everything but the counts and the last words; how many events that are is told.
    pub(super) fn keep_last_words(&mut self) {
        for lines in [&mut self.lines, &mut self.ends] {
            self.lost += lines.split_inclusive(|byte| *byte == b'\n').count() as u64;
            *lines = Vec::new();
        }
    }

    /// The lines behind everything else.
    pub(super) fn last_words(&self) -> &[u8] {
        &self.last
    }

    /// The lines, and the events that follow them.
    pub(super) fn content(&self) -> (Vec<u8>, impl Iterator<Item = &Event>) {
        ([&self.lines[..], &self.ends].concat(), self.counts.values())
    }
}

/// Adds a count to another of the same kind; the sum bears the later moment.
fn add(sum: &mut Event, event: &Event) {
    (sum.at, sum.mono_ns) = (event.at, event.mono_ns);
    match (&mut sum.kind, &event.kind) {
        (EventKind::RecordingOverflowed { lost, .. }, EventKind::RecordingOverflowed { lost: more, .. })
        | (EventKind::ScheduleEnded { due: lost }, EventKind::ScheduleEnded { due: more })
        | (EventKind::SamplesInFlight { samples: lost }, EventKind::SamplesInFlight { samples: more }) => {
            *lost += more;
        }
        (
            EventKind::ScheduleOverrun { skipped, behind_ns, .. },
            EventKind::ScheduleOverrun { skipped: more, behind_ns: behind, .. },
        ) => {
            *skipped += more;
            *behind_ns = (*behind_ns).max(*behind);
        }
        _ => {}
    }
}
