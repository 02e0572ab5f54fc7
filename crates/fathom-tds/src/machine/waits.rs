//! How long sending was held up, and what SQL Server would have made of that.

use serde::Serialize;

/// SQL Server ends a wait of this kind after so long and counts a new one, so that its longest is never longer, and its count is
/// no count of stalls (Microsoft's workshop material on waits, `ASYNC_NETWORK_IO`).
pub const CUT_NS: u64 = 2_000_000_000;

/// Waits for the network: what really was, and how SQL Server shows the same as `ASYNC_NETWORK_IO`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// How often sending was held up.
    pub blocks: u64,
    /// How long in all.
    pub blocked_ns: u64,
    /// How long at the most.
    pub longest_ns: u64,
    /// `waiting_tasks_count`: a wait that is cut counts again.
    pub shown_count: u64,
    /// `max_wait_time_ms`, in ns: never above [`CUT_NS`].
    pub shown_longest_ns: u64,
}

impl Waits {
    /// Sending was held up for so long.
    pub fn add(&mut self, length_ns: u64) {
        self.blocks += 1;
        self.blocked_ns += length_ns;
        self.longest_ns = self.longest_ns.max(length_ns);
        self.shown_count += length_ns.div_ceil(CUT_NS).max(1);
        self.shown_longest_ns = self.shown_longest_ns.max(length_ns.min(CUT_NS));
    }

    /// Those of another session too.
    pub fn merge(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.blocked_ns += other.blocked_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.shown_count += other.shown_count;
        self.shown_longest_ns = self.shown_longest_ns.max(other.shown_longest_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_wait_of_five_seconds_shows_as_three() {
        let mut waits = Waits::default();
        waits.add(5_000_000_000);
        let whole = (waits.blocks, waits.longest_ns, waits.shown_count, waits.shown_longest_ns);
        assert_eq!(whole, (1, 5_000_000_000, 3, 2_000_000_000));
    }

    proptest! {
        /// The time is kept whatever is cut; what is shown counts no fewer waits than there were, and none longer than the cut.
        #[test]
        fn cutting_loses_no_time(lengths in proptest::collection::vec(0_u64..20_000_000_000, 0..50)) {
            let mut waits = Waits::default();
            for &length in &lengths {
                waits.add(length);
            }
            prop_assert_eq!(waits.blocked_ns, lengths.iter().sum::<u64>());
            prop_assert_eq!(waits.blocks, lengths.len() as u64);
            prop_assert!(waits.shown_count >= waits.blocks);
            prop_assert!(waits.shown_longest_ns <= CUT_NS);
            prop_assert!(waits.blocked_ns <= waits.shown_count * CUT_NS);
        }
    }
}
