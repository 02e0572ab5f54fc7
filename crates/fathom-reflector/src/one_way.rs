//! Segments that a peer asked for instead of an echo: when each is due.

use fathom_wire::OneWay;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MS: u64 = 1_000_000;

/// Those that one connection is still to get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segments {
    /// When the next is due, by the monotonic clock.
    pub(crate) due_ns: u64,
    every_ns: u64,
    left: u32,
}

impl Segments {
    /// Of a frame that came then; `None`: it asks for none.
    pub(crate) fn asked_for(frame: &OneWay, now_ns: u64) -> Option<Self> {
        let every_ns = u64::from(frame.every_ms) * MS;
        (frame.segments > 0).then_some(Self { due_ns: now_ns + every_ns, every_ns, left: frame.segments })
    }

    /// Those that are left when one has been sent. Those that a pause kept back are not made up for.
    pub(crate) fn sent(self, now_ns: u64) -> Option<Self> {
        let left = self.left - 1;
        let next_ns = self.due_ns + self.every_ns;
        let due_ns = if next_ns > now_ns { next_ns } else { now_ns + self.every_ns };
        (left > 0).then_some(Self { due_ns, left, ..self })
    }
}

/// Which connection is due next: at most one entry for each.
#[derive(Debug, Default)]
pub(crate) struct SegmentQueue(BinaryHeap<Reverse<(u64, u32, u64)>>);

impl SegmentQueue {
    /// The connection in `slot`, which came at `opened_ns`, is due then.
    pub(crate) fn push(&mut self, due_ns: u64, slot: u32, opened_ns: u64) {
        self.0.push(Reverse((due_ns, slot, opened_ns)));
    }

    /// When to look again.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((due_ns, ..))| *due_ns)
    }

    /// The next that is due: its slot, and when it came.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<(u32, u64)> {
        self.next_due_ns().filter(|due_ns| *due_ns <= now_ns)?;
        self.0.pop().map(|Reverse((_, slot, opened_ns))| (slot, opened_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_come_as_were_asked_for_and_none_before_its_time() {
        let frame = OneWay { session: 1, connection: 2, segments: 3, every_ms: 500 };
        let mut segments = Segments::asked_for(&frame, 1_000 * MS);
        let mut sent = Vec::new();
        // A pause of 2 s after the first.
        for now_ms in [1_499, 1_500, 3_500, 3_501, 3_999, 4_000, 4_001, 4_500] {
            if let Some(due) = segments.filter(|segments| segments.due_ns <= now_ms * MS) {
                sent.push(now_ms);
                segments = due.sent(now_ms * MS);
            }
        }
        assert_eq!((sent, segments), (vec![1_500, 3_500, 4_000], None));
        assert_eq!(Segments::asked_for(&OneWay { segments: 0, ..frame }, 0), None);
    }
}
