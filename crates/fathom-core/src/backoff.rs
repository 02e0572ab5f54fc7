//! Waiting before the next attempt to connect: exponential backoff with full jitter (Brooker, "Exponential Backoff
//! And Jitter", AWS Architecture Blog, 2015): uniform between nothing and the doubled ceiling, so that clients that
//! lost their connections together do not come back together.

use fathom_wire::pattern::mix;

/// The first ceiling: 100 ms.
pub const FIRST_NS: u64 = 100_000_000;

/// The waits of one connection; seeded, so that a run can be repeated.
#[derive(Debug, Clone)]
pub struct Backoff {
    attempts: u32,
    state: u64,
}

impl Backoff {
    /// A fresh sequence.
    pub fn new(seed: u64) -> Self {
        Self { attempts: 0, state: mix(seed) }
    }

    /// Failures since the last success.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// A failure: how long to wait before trying again, in ns, and never longer than `at_most_ns`.
    pub fn next_wait_ns(&mut self, at_most_ns: u64) -> u64 {
        let ceiling = FIRST_NS.checked_shl(self.attempts).filter(|&c| c < at_most_ns && self.attempts < 32);
        self.attempts = self.attempts.saturating_add(1);
        self.state = self.state.wrapping_add(1);
        mix(self.state) % (ceiling.unwrap_or(at_most_ns).saturating_add(1))
    }

    /// A success: the next failure starts at the first ceiling again.
    pub fn succeeded(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CEILING_NS: u64 = 30_000_000_000;

    proptest! {
        #[test]
        fn waits_stay_below_their_doubling_ceiling(seed: u64) {
            let mut backoff = Backoff::new(seed);
            for attempt in 0..100 {
                let ceiling = if attempt < 9 { (FIRST_NS << attempt).min(CEILING_NS) } else { CEILING_NS };
                prop_assert!(backoff.next_wait_ns(CEILING_NS) <= ceiling);
            }
            backoff.succeeded();
            prop_assert!(backoff.next_wait_ns(CEILING_NS) <= FIRST_NS);
        }
    }

    #[test]
    fn clients_that_fail_together_come_back_apart() {
        let mut waits: Vec<u64> = (0..1_000)
            .map(|seed| {
                let mut backoff = Backoff::new(seed);
                (0..12).map(|_| backoff.next_wait_ns(CEILING_NS)).last().unwrap()
            })
            .collect();
        waits.sort_unstable();
        // Full jitter is uniform below the ceiling: the quartiles of 1,000 draws lie within 5 % of the ceiling.
        for (i, share) in [(250, 0.25), (500, 0.5), (750, 0.75)] {
            let found = waits[i] as f64 / CEILING_NS as f64;
            assert!((found - share).abs() < 0.05, "{found} for {share}");
        }
    }
}
