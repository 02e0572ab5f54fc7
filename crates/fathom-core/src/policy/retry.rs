//! How long to wait before a retry.

use super::settings::{Backoff, Jitter};
use fathom_wire::pattern::mix;

/// A source of numbers that are spread evenly; seeded, so that a run can be repeated.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// A number from `low` to `high`, both possible; `low` where there is none between.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        match high.saturating_sub(low).checked_add(1) {
            Some(span) => low + mix(self.0) % span,
            None => mix(self.0),
        }
    }
}

/// The waits of one request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Waits {
    retries: u32,
    last_ns: Option<u64>,
}

impl Waits {
    /// How long to wait before the next retry, given a way to draw a number between two.
    pub fn next_ns(&mut self, rule: &Backoff, draw: impl FnOnce(u64, u64) -> u64) -> u64 {
        let ceiling =
            rule.first_ns.checked_shl(self.retries).filter(|ns| ns >> self.retries == rule.first_ns);
        let ceiling = ceiling.unwrap_or(u64::MAX).min(rule.cap_ns);
        let (low, high) = match rule.jitter {
            Jitter::None => (ceiling, ceiling),
            Jitter::Full => (0, ceiling),
            Jitter::Equal => (ceiling - ceiling / 2, ceiling),
            Jitter::Decorrelated => (rule.first_ns, self.last_ns.unwrap_or(rule.first_ns).saturating_mul(3)),
        };
        let wait = draw(low, high).min(rule.cap_ns);
        self.retries += 1;
        self.last_ns = Some(wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    proptest! {
        /// Each formula against itself written out in wide integers.
        #[test]
        fn waits_lie_within_their_jitter(
            seed: u64, first in 1..3 * S, more in 0..100 * S, which in 0..4_usize
        ) {
            let jitter = [Jitter::None, Jitter::Full, Jitter::Equal, Jitter::Decorrelated][which];
            let rule = Backoff { first_ns: first, cap_ns: first + more, jitter };
            let (mut waits, mut dice) = (Waits::default(), Dice::new(seed));
            let mut before = first;
            for n in 0..70_u32 {
                let wait = waits.next_ns(&rule, |low, high| dice.between(low, high));
                let doubled = if n < 60 { u128::from(first) << n } else { u128::MAX };
                let ceiling = doubled.min(u128::from(rule.cap_ns)) as u64;
                let (low, high) = match jitter {
                    Jitter::None => (ceiling, ceiling),
                    Jitter::Full => (0, ceiling),
                    Jitter::Equal => (ceiling / 2, ceiling),
                    Jitter::Decorrelated => (first, (3 * before).min(rule.cap_ns)),
                };
                prop_assert!((low..=high).contains(&wait), "{jitter:?} {n}: {wait} not in {low}..={high}");
                before = wait;
            }
        }
    }

    /// The quartiles of 4,000 draws lie where those of an even spread do, within 4 %.
    #[test]
    fn waits_are_spread_evenly() {
        for (jitter, low, high) in
            [(Jitter::Full, 0.0, 1.0), (Jitter::Equal, 0.5, 1.0), (Jitter::Decorrelated, 1.0, 3.0)]
        {
            let rule = Backoff { first_ns: S, cap_ns: 60 * S, jitter };
            let mut dice = Dice::new(7);
            let mut draw = || Waits::default().next_ns(&rule, |low, high| dice.between(low, high));
            let mut waits: Vec<u64> = (0..4_000).map(|_| draw()).collect();
            waits.sort_unstable();
            for (at, share) in [(1_000, 0.25), (2_000, 0.5), (3_000, 0.75)] {
                let found = (waits[at] as f64 / S as f64 - low) / (high - low);
                assert!((found - share).abs() < 0.04, "{jitter:?}: {found} for {share}");
            }
        }
    }
}
