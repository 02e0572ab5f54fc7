//! Connections that never sent anything, in the order in which they came: where there is no room for another, the first
//! of them makes it.
//!
//! They are not closed by time alone: a probe that measures once an hour may have opened one an hour before it sends.

use std::collections::VecDeque;

/// One that is younger is still about to send.
const AGE_NS: u64 = 10_000_000_000;
/// So many entries more than connections are kept before those are left out that have sent since.
const SLACK: usize = 64;

/// A connection, named by its slot and the moment it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Came {
    slot: u32,
    at_ns: u64,
}

/// Who came and may never have sent.
#[derive(Debug, Default)]
pub(crate) struct Silent {
    came: VecDeque<Came>,
}

impl Silent {
    /// A connection came to `slot`; `is_silent` says whether the one that came there at that moment is there still and
    /// has sent nothing.
    pub(crate) fn came(&mut self, slot: u32, at_ns: u64, open: usize, is_silent: impl Fn(u32, u64) -> bool) {
        if self.came.len() >= 2 * open + SLACK {
            self.came.retain(|came| is_silent(came.slot, came.at_ns));
        }
        self.came.push_back(Came { slot, at_ns });
    }

    /// The slot that makes room; none: all have sent, or came a moment ago.
    pub(crate) fn makes_room(&mut self, now_ns: u64, is_silent: impl Fn(u32, u64) -> bool) -> Option<u32> {
        while let Some(first) = self.came.front() {
            let stands = is_silent(first.slot, first.at_ns);
            if stands && now_ns.saturating_sub(first.at_ns) < AGE_NS {
                return None;
            }
            let first = self.came.pop_front()?;
            if stands {
                return Some(first.slot);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_silent_connection_yields_when_old_enough() {
        let mut silent = Silent::default();
        for slot in 0..4 {
            silent.came(slot, u64::from(slot) + 1, 4, |_, _| true);
        }
        let is_silent = |slot, at| slot % 2 == 1 && at == u64::from(slot) + 1;
        assert_eq!(silent.makes_room(AGE_NS, is_silent), None, "a moment ago");
        assert_eq!(silent.makes_room(AGE_NS + 2, is_silent), Some(1));
        assert_eq!(silent.makes_room(AGE_NS + 4, is_silent), Some(3));
        assert_eq!(silent.makes_room(AGE_NS + 4, is_silent), None);
    }

    #[test]
    fn connections_that_come_and_go_leave_nothing() {
        let mut silent = Silent::default();
        for now in 0..100_000 {
            silent.came(0, now, 1, |slot, at| slot == 0 && at + 1 == now);
        }
        assert!(silent.came.len() <= 2 + SLACK);
    }
}
