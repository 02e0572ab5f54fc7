//! Silence that counts: an echo is expected, and does not come.

/// The shortest silence that counts as a stall. Linux retransmits after 200 ms at the earliest (`TCP_RTO_MIN`), so
/// a stall this long has seen at least one lost segment, or a path or host that stood still.
pub const FLOOR_NS: u64 = 200_000_000;
/// How far beyond its usual tail an echo must be.
pub const TIMES_P99: u64 = 4;

/// The silence that counts as a stall, for a path whose 99th percentile is known (or not yet).
pub fn threshold_ns(p99_ns: Option<u64>) -> u64 {
    // Before a percentile is known nothing says how far away the peer is: a second covers any place on Earth.
    p99_ns.map_or(1_000_000_000, |p99| (TIMES_P99 * p99).max(FLOOR_NS))
}

/// A stall that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// The sample whose echo is missing.
    pub seq: u64,
    /// When it was sent.
    pub sent_mono_ns: u64,
    /// Segments that the kernel had sent again on this connection before.
    pub retransmits_before: Option<u32>,
}

/// What the watch has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A stall began: silence has lasted for the threshold.
    Began(Stall),
    /// Still waiting; look again then.
    LookAt(u64),
    /// Nothing is outstanding, or the stall goes on.
    Quiet,
}

/// Watches one connection.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    current: Option<Stall>,
}

impl Watch {
    /// The stall that goes on, if one does.
    pub fn current(&self) -> Option<Stall> {
        self.current
    }

    /// Looks at the oldest sample without its echo: `(seq, sent_mono_ns)`.
    pub fn look(
        &mut self,
        now_ns: u64,
        threshold_ns: u64,
        oldest: Option<(u64, u64)>,
        retransmits: Option<u32>,
    ) -> Change {
        let Some((seq, sent_mono_ns)) = oldest else { return Change::Quiet };
        if self.current.is_some() {
            return Change::Quiet;
        }
        let limit = sent_mono_ns + threshold_ns;
        if now_ns < limit {
            return Change::LookAt(limit);
        }
        let stall = Stall { seq, sent_mono_ns, retransmits_before: retransmits };
        self.current = Some(stall);
        Change::Began(stall)
    }

    /// An echo came, or the connection ended: the stall that is over, if there was one.
    pub fn ended(&mut self) -> Option<Stall> {
        self.current.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_follows_tail_with_floor() {
        assert_eq!(threshold_ns(Some(450_000)), FLOOR_NS);
        assert_eq!(threshold_ns(Some(150_000_000)), 600_000_000);
        assert_eq!(threshold_ns(None), 1_000_000_000);
    }

    #[test]
    fn a_stall_begins_once_and_ends_once() {
        let mut watch = Watch::default();
        assert_eq!(watch.look(0, 200, None, None), Change::Quiet);
        assert_eq!(watch.look(150, 200, Some((7, 100)), None), Change::LookAt(300));
        let stall = Stall { seq: 7, sent_mono_ns: 100, retransmits_before: Some(1) };
        assert_eq!(watch.look(300, 200, Some((7, 100)), Some(1)), Change::Began(stall));
        assert_eq!(watch.look(900, 200, Some((7, 100)), Some(3)), Change::Quiet);
        assert_eq!(watch.ended(), Some(stall));
        assert_eq!(watch.ended(), None);
    }
}
