//! How much of a load of a given rate is due: an open loop, as far as the connections take it.

/// The most that one write carries, in bytes.
const LARGEST_CHUNK: u64 = 64 << 10;
/// The least: a full packet on Ethernet with TCP's timestamp option.
const SMALLEST_CHUNK: u64 = 1_448;
/// A chunk is about a millisecond's worth: finer would be a wake-up more often, coarser a burst.
const CHUNKS_PER_S: u64 = 1_000;
/// A backlog beyond so many chunks is forgiven: what a connection refused to take, or this host to send, for longer
/// than about 10 ms is not made good in one burst.
const CHUNKS_OWED: u64 = 10;

/// The bytes due of one load.
#[derive(Debug, Clone)]
pub struct Pacer {
    bits_per_s: u64,
    began_ns: u64,
    /// Bytes sent, or forgiven, since it began.
    spent: u64,
}

impl Pacer {
    /// A load of so many bits a second (at least 1) from now on.
    pub fn new(bits_per_s: u64, now_ns: u64) -> Self {
        Self { bits_per_s: bits_per_s.max(1), began_ns: now_ns, spent: 0 }
    }

    /// Bytes of one write.
    pub fn chunk(&self) -> u64 {
        (self.bits_per_s / 8 / CHUNKS_PER_S).clamp(SMALLEST_CHUNK, LARGEST_CHUNK)
    }

    /// Bytes that are due and not sent; an older backlog is forgiven.
    pub fn due(&mut self, now_ns: u64) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(self.began_ns);
        let all = u128::from(elapsed_ns) * u128::from(self.bits_per_s) / 8_000_000_000;
        let all = u64::try_from(all).unwrap_or(u64::MAX);
        let most = (self.bits_per_s / 8 / CHUNKS_PER_S).max(self.chunk()) * CHUNKS_OWED;
        self.spent = self.spent.max(all.saturating_sub(most));
        all.saturating_sub(self.spent)
    }

    /// So many bytes were sent.
    pub fn sent(&mut self, bytes: u64) {
        self.spent += bytes;
    }

    /// When the next chunk is due, by the clock of `now_ns`.
    pub fn next_ns(&self) -> u64 {
        let bytes = u128::from(self.spent + self.chunk());
        let after_ns = (bytes * 8_000_000_000).div_ceil(u128::from(self.bits_per_s));
        self.began_ns.saturating_add(u64::try_from(after_ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    /// Sends whole chunks as they fall due, woken when the pacer asks for it, until a moment.
    fn run(bits_per_s: u64, until_ns: u64) -> u64 {
        let mut pacer = Pacer::new(bits_per_s, 0);
        let mut sent = 0;
        while pacer.next_ns() <= until_ns {
            let now = pacer.next_ns();
            assert!(pacer.due(now) >= pacer.chunk(), "woken too early at {now}");
            while pacer.due(now) >= pacer.chunk() {
                pacer.sent(pacer.chunk());
                sent += pacer.chunk();
            }
        }
        sent
    }

    #[test]
    fn a_chunk_is_a_millisecond_within_bounds() {
        for (bits_per_s, chunk) in
            [(1, 1_448), (100_000_000, 12_500), (1_000_000_000, 65_536), (u64::MAX, 65_536)]
        {
            assert_eq!(Pacer::new(bits_per_s, 0).chunk(), chunk, "{bits_per_s}");
        }
    }

    #[test]
    fn an_hour_has_its_bytes() {
        let seconds = 3_600;
        let bytes = 12_500_000 * seconds;
        let sent = run(100_000_000, seconds * S);
        assert!(bytes - sent < 12_500, "{sent} of {bytes}");
    }

    #[test]
    fn what_was_refused_for_long_is_forgiven() {
        let mut pacer = Pacer::new(80_000_000, 0);
        assert_eq!(pacer.due(5 * S / 1_000), 50_000);
        assert_eq!(pacer.due(60 * S), 100_000, "10 ms of it");
        pacer.sent(100_000);
        assert_eq!(pacer.due(60 * S), 0);
        assert_eq!(pacer.due(60 * S + 1_000_000), 10_000);
    }

    proptest! {
        #[test]
        fn punctual_pacer_keeps_the_rate(
            bits_per_s in 1_000_000u64..100_000_000_000, ms in 1u64..500,
        ) {
            let until = ms * 1_000_000;
            let due = (u128::from(bits_per_s) * u128::from(until) / 8_000_000_000) as u64;
            let sent = run(bits_per_s, until);
            prop_assert!(sent <= due && due - sent <= LARGEST_CHUNK, "{} of {}", sent, due);
        }

        #[test]
        fn irregular_wakes_never_exceed_the_rate(
            bits_per_s in 1u64..10_000_000_000, waits in prop::collection::vec(0u64..50_000_000, 1..40),
        ) {
            let mut pacer = Pacer::new(bits_per_s, 7);
            let (mut now, mut sent) = (7, 0);
            for wait in waits {
                now += wait;
                let bytes = pacer.due(now);
                pacer.sent(bytes);
                sent += bytes;
                prop_assert_eq!(pacer.due(now), 0);
                prop_assert!(u128::from(sent) <= u128::from(now - 7) * u128::from(bits_per_s) / 8_000_000_000);
                prop_assert!(pacer.next_ns() > now);
            }
        }
    }
}
