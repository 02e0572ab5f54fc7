//! Seeded numbers, and shares of runs.

use std::ops::Range;

/// Fewer runs prove no percentage.
const MANY: u64 = 60;

/// Number of runs with these seeds.
pub(crate) fn runs(seeds: &Range<u64>) -> u64 {
    seeds.end - seeds.start
}

/// Whether there are enough runs for a percentage.
pub(crate) fn is_many(runs: u64) -> bool {
    runs >= MANY
}

/// At least this percentage of the runs; of few runs, half.
pub(crate) fn is_usual(done: u64, runs: u64, percent: u64) -> bool {
    done * 100 >= runs * if is_many(runs) { percent } else { 50 }
}

/// At most this percentage of the runs; of few runs, a quarter or one.
pub(crate) fn is_rare(done: u64, runs: u64, percent: u64) -> bool {
    if is_many(runs) { done * 100 <= runs * percent } else { done <= (runs / 4).max(1) }
}

/// A seeded sequence of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        fathom_wire::pattern::mix(self.0)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        percent > 0 && self.below(100) < percent
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}
