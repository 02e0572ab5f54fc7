//! When the next block of a stream with a limited rate is due.

/// Holds a stream at its rate: never ahead of it, and after a hold-up as fast as it goes until it has caught up, so that
/// the mean is the rate that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacer {
    begun_ns: u64,
    bits_per_second: u64,
}

impl Pacer {
    /// A pace that begins at `begun_ns`; the rate must not be 0.
    pub fn new(begun_ns: u64, bits_per_second: u64) -> Self {
        Self { begun_ns, bits_per_second: bits_per_second.max(1) }
    }

    /// When the next byte is due after so many were sent, by the clock of `begun_ns`.
    pub fn due_ns(&self, sent: u64) -> u64 {
        let after = u128::from(sent) * 8 * 1_000_000_000 / u128::from(self.bits_per_second);
        self.begun_ns.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_pace_is_never_ahead_of_its_rate(rate in 1..1_u64 << 40, sent in 0..1_u64 << 40) {
            let due = u128::from(Pacer::new(0, rate).due_ns(sent));
            let bits = u128::from(sent) * 8 * 1_000_000_000;
            prop_assert!(due * u128::from(rate) <= bits && bits < (due + 1) * u128::from(rate));
        }
    }
}
