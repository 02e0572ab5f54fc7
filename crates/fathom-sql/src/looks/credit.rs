//! How many looks a run may ask of a server. One takes it a quarter of a millisecond of a processor where that does other things in
//! between (docs/benchmarks.md), and where all processors work on queries those take so much longer. In the long run that is one part in
//! 220 of a processor for one connection, and one in 45 for five and more, which work on as many queries meanwhile.

const MS: u64 = 1_000_000;
/// From one look to the next in the long run, of one connection.
const EACH_NS: u64 = 50 * MS;
/// The same of all connections together, however many there are.
const LEAST_NS: u64 = 10 * MS;
/// Looks that may be made sooner: a run of few queries looks as often as it likes.
const AT_ONCE: u64 = 200;

/// Looks that may be made now.
#[derive(Debug)]
pub(super) struct Credit {
    each_ns: u64,
    /// Of looks that were not made, in ns, and when that was so.
    saved: u64,
    at: u64,
}

impl Credit {
    pub(super) fn new(connections: usize, now_ns: u64) -> Self {
        let each_ns = (EACH_NS / connections.max(1) as u64).max(LEAST_NS);
        Self { each_ns, saved: AT_ONCE * each_ns, at: now_ns }
    }

    /// One was made; when the next may be.
    pub(super) fn take(&mut self, now_ns: u64) -> u64 {
        let saved = self.saved + now_ns.saturating_sub(self.at);
        self.saved = saved.min(AT_ONCE * self.each_ns).saturating_sub(self.each_ns);
        self.at = now_ns;
        now_ns + self.each_ns.saturating_sub(self.saved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Of whoever looks as soon as he may, or later.
        #[test]
        fn credit_allows_burst_plus_rate(
            connections in 1_usize..70,
            idle_ms in prop::collection::vec(0_u64..3, 1..2_000),
        ) {
            let (mut credit, mut times, mut now) = (Credit::new(connections, 0), vec![], 0);
            for ms in idle_ms {
                now += ms * MS;
                times.push(now);
                now = credit.take(now).max(now);
            }
            for (at, from) in times.iter().enumerate().step_by(97) {
                for (to_at, to) in times.iter().enumerate().skip(at).step_by(31) {
                    let may_be = AT_ONCE + 1 + (to - from) / credit.each_ns;
                    prop_assert!((to_at - at) as u64 <= may_be, "{} in {} ms", to_at - at, (to - from) / MS);
                }
            }
            // And it gives what the time gives: whoever is not idle is held up by nothing else.
            let last = *times.last().unwrap();
            prop_assert!(last <= 3 * MS * times.len() as u64 + credit.each_ns * (times.len() as u64).saturating_sub(AT_ONCE - 1));
        }
    }
}
