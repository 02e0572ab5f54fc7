//! Ages of the recordings that a rotation may remove. Time is an argument.
//!
//! Age is elapsed time by the run's monotonic clock, so setting the wall clock makes nothing older. For recordings of
//! earlier runs, only the wall clock gives their age when this run began. That age is used while the wall clock keeps
//! pace with the monotonic one. After a step, they count as old as this run until the clock is set right again.

use crate::clock::Anchor;
use std::collections::BTreeMap;

/// Tolerance of the wall clock, as for a leap second, ...
const OFF_NS: u64 = 1_000_000_000;
/// ...and this share of the time for which recordings are kept, which makes no recording noticeably older.
const OFF_PART: u64 = 100;

/// The ages of a run's recordings, and of those that earlier runs left.
#[derive(Debug, Clone)]
pub struct Ages {
    /// Start of the run.
    begun: Anchor,
    /// End of each recording of this run by the monotonic clock, by the name of its directory.
    ended_ns: BTreeMap<String, u64>,
}

impl Ages {
    /// The ages for a run that begins now.
    pub fn new(begun: Anchor) -> Self {
        Self { begun, ended_ns: BTreeMap::new() }
    }

    /// When the run began.
    pub fn begun(&self) -> Anchor {
        self.begun
    }

    /// Notes that this run's recording in the directory of this name has ended.
    pub fn ended(&mut self, directory: String, mono_ns: u64) {
        self.ended_ns.insert(directory, mono_ns);
    }

    /// Forgets the directory of this name, which is gone.
    pub fn forget(&mut self, directory: &str) {
        self.ended_ns.remove(directory);
    }

    /// The age of a recording of this run, in ns. `None`: this run did not end it.
    pub fn own_ns(&self, directory: &str, now: Anchor) -> Option<u64> {
        self.ended_ns.get(directory).map(|ended_ns| now.mono_ns.saturating_sub(*ended_ns))
    }

    /// The minimum age of a recording of an earlier run, in ns. It is to be kept for `keep_ns` after its end.
    pub fn earlier_ns(&self, ended_utc_ns: i64, keep_ns: u64, now: Anchor) -> u64 {
        let at_begin_ns = u64::try_from(self.begun.utc_ns.saturating_sub(ended_utc_ns)).unwrap_or(0);
        let known_ns = if self.is_plausible(keep_ns, now) { at_begin_ns } else { 0 };
        now.mono_ns.saturating_sub(self.begun.mono_ns).saturating_add(known_ns)
    }

    /// Distance of the wall clock from the elapsed time, in ns; positive if it is ahead.
    pub fn off_ns(&self, now: Anchor) -> i64 {
        now.utc_ns.saturating_sub(self.begun.utc_of(now.mono_ns))
    }

    /// True if the wall clock keeps pace with the monotonic one, as closely as `keep_ns` needs.
    pub fn is_plausible(&self, keep_ns: u64, now: Anchor) -> bool {
        self.off_ns(now).unsigned_abs() <= (keep_ns / OFF_PART).saturating_add(OFF_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;
    const HOUR: i64 = 3_600 * S as i64;
    const BEGUN: Anchor = Anchor { mono_ns: 1_000 * S, utc_ns: 1_800_000_000 * S as i64 };

    /// A moment this long after the beginning, with a wall clock that was set by this much.
    fn after(elapsed_s: u64, set_ns: i64) -> Anchor {
        let mono_ns = BEGUN.mono_ns + elapsed_s * S;
        Anchor { mono_ns, utc_ns: BEGUN.utc_of(mono_ns) + set_ns }
    }

    /// With `--keep 1m`, a clock set an hour forward removed what had ended 5 s before.
    #[test]
    fn clock_step_makes_nothing_older() {
        let mut ages = Ages::new(BEGUN);
        ages.ended("a".to_owned(), BEGUN.mono_ns + 20 * S);
        for set_ns in [0, HOUR, -HOUR] {
            assert_eq!(ages.own_ns("a", after(25, set_ns)), Some(5 * S), "set by {set_ns}");
        }
        assert_eq!(ages.own_ns("b", after(25, 0)), None);
    }

    #[test]
    fn earlier_recordings_wait_for_plausible_clock() {
        let (ages, minute) = (Ages::new(BEGUN), 60 * S);
        let ended_utc_ns = BEGUN.utc_ns - 50 * S as i64;
        let age_s = |now| ages.earlier_ns(ended_utc_ns, minute, now) / S;
        assert_eq!(age_s(after(9, 0)), 59);
        assert_eq!(age_s(after(11, 0)), 61);
        assert_eq!(age_s(after(11, HOUR)), 11, "only the time of this run is certain");
        assert_eq!(age_s(after(61, HOUR)), 61, "a clock that is never set back holds nothing for ever");
        assert_eq!(age_s(after(11, HOUR - HOUR)), 61, "set right again");
        // A recording that ends in the future by the clock of the beginning.
        assert_eq!(ages.earlier_ns(BEGUN.utc_ns + HOUR, minute, after(30, 0)), 30 * S);
    }

    proptest! {
        /// No setting of the wall clock makes a recording older than it is.
        #[test]
        fn no_step_makes_recordings_older(
            ended_s in 0..100_000_u64,
            waited_s in 0..100_000_u64,
            before_s in 0..100_000_i64,
            set_ns in -1_000 * HOUR..1_000 * HOUR,
            keep_s in 1..1_000_000_u64,
        ) {
            let mut ages = Ages::new(BEGUN);
            ages.ended("a".to_owned(), BEGUN.mono_ns + ended_s * S);
            let now = after(ended_s + waited_s, set_ns);
            prop_assert_eq!(ages.own_ns("a", now), Some(waited_s * S));
            let earlier_ns = ages.earlier_ns(BEGUN.utc_ns - before_s * S as i64, keep_s * S, now);
            prop_assert!(earlier_ns <= (ended_s + waited_s + before_s as u64) * S);
        }
    }
}
