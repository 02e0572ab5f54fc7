//! Segments that a peer asked for instead of an echo: when each is due.

use fathom_wire::OneWay;
use std::collections::BTreeSet;

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

/// Which slot's connection is due next. A slot has one entry at the most, that of the connection which lives there now.
#[derive(Debug, Default)]
pub(crate) struct SegmentQueue {
    due: BTreeSet<(u64, u32)>,
    /// When each slot is due.
    of: Vec<Option<u64>>,
}

impl SegmentQueue {
    /// From now on the slot is due then; `None`: not at all. Call it whenever that may have changed: nothing happens if it has not.
    pub(crate) fn set(&mut self, slot: u32, due_ns: Option<u64>) {
        let index = slot as usize;
        let was = self.of.get(index).copied().flatten();
        if was == due_ns {
            return;
        }
        if let Some(was_ns) = was {
            self.due.remove(&(was_ns, slot));
        }
        if let Some(due_ns) = due_ns {
            self.due.insert((due_ns, slot));
        }
        if self.of.len() <= index {
            self.of.resize(index + 1, None);
        }
        self.of[index] = due_ns;
    }

    /// When to look again.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.due.first().map(|(due_ns, _)| *due_ns)
    }

    /// Takes the next slot that is due.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<u32> {
        let &(_, slot) = self.due.first().filter(|(due_ns, _)| *due_ns <= now_ns)?;
        self.set(slot, None);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn exactly_requested_segments_come_when_due() {
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

    proptest! {
        /// Against a plain list: slots come due at the time that was said last, connections come and go in them, and there are
        /// never more entries than slots.
        #[test]
        fn slot_is_due_at_last_set_time(
            steps in prop::collection::vec((0..4_u32, prop::option::of(0..40_u64), 0..3_u64), 1..200),
        ) {
            let (mut queue, mut list, mut now_ns) = (SegmentQueue::default(), [None; 4], 0);
            for (slot, after, passed) in steps {
                let due_ns = after.map(|after| now_ns + after);
                queue.set(slot, due_ns);
                list[slot as usize] = due_ns;
                now_ns += passed;
                prop_assert!(queue.due.len() <= list.len());
                prop_assert_eq!(queue.next_due_ns(), list.iter().flatten().min().copied());
                while let Some(slot) = queue.pop(now_ns) {
                    let due = list[slot as usize].take();
                    prop_assert!(due.is_some_and(|due| due <= now_ns), "{:?} at {}", due, now_ns);
                    prop_assert!(list.iter().flatten().all(|other| Some(*other) >= due), "the first of them");
                }
                prop_assert!(list.iter().flatten().all(|due| *due > now_ns), "none is left waiting");
            }
        }
    }
}
