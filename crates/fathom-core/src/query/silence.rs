//! Waits in which nothing came for long, though the server said that it was sending. One that is blocked on sending has filled
//! its kernel's buffer, and its kernel goes on without it: a path that is well carries what it holds within round trips. What is
//! silent for longer was lost on the way, or the server stands still and goes on saying what it said last.

/// So many of the longest are kept: a result of ten million rows needs no more memory than one of ten.
const KEPT: usize = 32;
/// So much slower than in the mean may a read's bytes have come without being called silent.
const PACES: u64 = 4;

/// The longest waits for later bytes of a query.
#[derive(Debug, Clone, Default)]
pub(super) struct Silences {
    /// For how long, and the bytes that ended it.
    longest: Vec<(u64, u64)>,
    waits_ns: u64,
    bytes: u64,
}

impl Silences {
    /// Later bytes, and how long they were waited for.
    pub(super) fn waited(&mut self, ns: u64, bytes: u64) {
        self.waits_ns = self.waits_ns.saturating_add(ns);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.longest.len() < KEPT {
            self.longest.push((ns, bytes));
        } else if let Some(least) = self.longest.iter_mut().min()
            && least.0 < ns
        {
            *least = (ns, bytes);
        }
    }

    /// For how long it was silent beyond what round trips took meanwhile. What comes slowly all the time is no silence, unless it is
    /// longer than the time after which a kernel sends again.
    pub(super) fn beyond(&self, round_trip_ns: u64, again_ns: u64) -> u64 {
        let beyond = |&(ns, bytes): &(u64, u64)| {
            let pace_ns = u128::from(PACES) * u128::from(bytes) * u128::from(self.waits_ns)
                / u128::from(self.bytes.max(1));
            let beyond_ns = ns.saturating_sub(round_trip_ns);
            if u128::from(beyond_ns) > pace_ns.min(u128::from(again_ns)) { beyond_ns } else { 0 }
        };
        self.longest.iter().map(beyond).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn long_wait_is_silence_slow_line_is_not() {
        let mut silences = Silences::default();
        for _ in 0..10_000 {
            silences.waited(12 * MS, 1_448);
        }
        assert_eq!(silences.beyond(MS, 200 * MS), 0, "1 Mbit/s");
        silences.waited(150 * MS, 1_448);
        silences.waited(2_000 * MS, 65_536);
        assert_eq!(silences.beyond(MS, 200 * MS), 149 * MS + 1_999 * MS);
        assert_eq!(silences.beyond(1_500 * MS, 200 * MS), 500 * MS, "round trips took as long");
    }

    #[test]
    fn small_reply_silence_must_exceed_kernel_wait() {
        let mut silences = Silences::default();
        silences.waited(190 * MS, 100);
        assert_eq!(silences.beyond(MS, 200 * MS), 0);
        silences.waited(900 * MS, 100);
        assert_eq!(silences.beyond(MS, 200 * MS), 899 * MS);
        silences.waited(700 * MS, 0);
        assert_eq!(silences.beyond(MS, 200 * MS), 899 * MS + 699 * MS, "and what nothing ended");
    }
}
