//! The first echo after a silence: how long a connection stays silent before which sample.
//!
//! A round has every gap once, in an order of its own, as a sweep of sizes has. After each gap one sample goes out, and
//! when its echo is back [`WARM`] more, one after another, to compare it with: the connection is warm then, and the
//! time of day the same.
//!
//! A recording needs no more than its samples to tell which gap preceded one: see [`gap_before`].

use crate::interleave::Interleave;

/// Samples back to back after the first one behind a gap.
pub const WARM: u32 = 3;
/// A silence within this part of a gap of the plan is that gap. Clock anchors move both ends of it by less.
const TOLERANCE_PART: u64 = 20;
/// The shortest gap between two that [`gap_before`] can tell apart is this many times the other.
pub const APART: f64 = 1.25;

/// The silences of one lane.
#[derive(Debug, Clone)]
pub struct GapPlan {
    gaps_ns: Vec<u64>,
    order: Interleave,
    /// Samples of this burst that are still to be answered.
    left: u32,
    /// The burst is the one that follows the handshake, and no silence.
    opening: bool,
}

impl GapPlan {
    /// Gaps in random rounds, after an opening burst.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(gaps_ns: &[u64], seed: u64) -> Self {
        assert!(!gaps_ns.is_empty(), "a plan of gaps has some");
        let indices: Vec<u32> = (0..gaps_ns.len() as u32).collect();
        Self {
            gaps_ns: gaps_ns.to_vec(),
            order: Interleave::new(&indices, seed),
            left: 1 + WARM,
            opening: true,
        }
    }

    /// A new connection took the place of the old one: a burst without a silence before it comes first.
    pub fn opened(&mut self) {
        (self.left, self.opening) = (1 + WARM, true);
    }

    /// Whether the sample that is to be sent follows a handshake and not a silence of the plan.
    pub fn is_opening(&self) -> bool {
        self.opening
    }

    /// How long to stay silent after the echo that has just come, in ns.
    pub fn after_echo(&mut self) -> u64 {
        self.left -= 1;
        if self.left > 0 {
            return 0;
        }
        (self.left, self.opening) = (1 + WARM, false);
        let gap_ns = self.order.current().map_or(0, |index| self.gaps_ns[index as usize]);
        self.order.advance();
        gap_ns
    }
}

/// The gap that came to its end when a sample was due: `silent_ns` is from the receipt of the sample before it on its
/// connection to its due (`sent_ns - lateness_ns`). Gives the index of the gap; `None`: it is none of the plan.
pub fn gap_before(gaps_ns: &[u64], silent_ns: i64) -> Option<usize> {
    let silent_ns = u64::try_from(silent_ns).ok()?;
    gaps_ns.iter().position(|&gap| silent_ns.abs_diff(gap) <= gap / TOLERANCE_PART)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    /// The silences before the samples of a connection whose echoes all take a millisecond.
    fn silences(plan: &mut GapPlan, samples: usize) -> Vec<u64> {
        (0..samples).map(|_| plan.after_echo()).collect()
    }

    #[test]
    fn burst_follows_handshake_and_each_gap() {
        let mut plan = GapPlan::new(&[5 * MS], 1);
        assert!(plan.is_opening());
        assert_eq!(silences(&mut plan, 8), [0, 0, 0, 5 * MS, 0, 0, 0, 5 * MS]);
        assert!(!plan.is_opening());
        plan.after_echo();
        plan.opened();
        assert!(plan.is_opening());
        assert_eq!(silences(&mut plan, 4), [0, 0, 0, 5 * MS]);
    }

    #[test]
    fn silence_matches_gap_within_tolerance() {
        let gaps = [10 * MS, 1_000 * MS];
        for (silent_ms, gap) in [(0, None), (10, Some(0)), (11, None), (980, Some(1)), (1_100, None)] {
            assert_eq!(gap_before(&gaps, silent_ms * MS as i64), gap, "{silent_ms} ms");
        }
        assert_eq!(gap_before(&gaps, -1), None, "the wall clock was set back");
    }

    proptest! {
        #[test]
        fn every_round_has_each_gap_once(n in 1u64..12, seed: u64, rounds in 1usize..6) {
            let gaps: Vec<u64> = (1..=n).map(|i| i * 100 * MS).collect();
            let mut plan = GapPlan::new(&gaps, seed);
            let burst = 1 + WARM as usize;
            for _ in 0..rounds {
                let all = silences(&mut plan, burst * gaps.len());
                let mut silent: Vec<u64> = all.iter().copied().filter(|gap| *gap > 0).collect();
                prop_assert!(all.chunks(burst).all(|burst| burst[..WARM as usize].iter().all(|gap| *gap == 0)));
                silent.sort_unstable();
                prop_assert_eq!(&silent, &gaps);
            }
        }

        #[test]
        fn gaps_that_are_apart_are_never_confused(a in MS..60_000 * MS, error in -0.04f64..0.04) {
            let b = (a as f64 * APART) as u64 + 1;
            for (index, gap) in [a, b].into_iter().enumerate() {
                let silent = (gap as f64 * (1.0 + error)) as i64;
                prop_assert_eq!(gap_before(&[a, b], silent), Some(index));
            }
        }
    }
}
