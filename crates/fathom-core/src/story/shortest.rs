//! The shortest round trip of a run, with and without the reflector's own time.

/// The shortest round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortest {
    /// The whole round trip, in ns.
    pub whole_ns: u64,
    /// The shortest round trip without the reflector's own time, in ns.
    pub besides_server_ns: u64,
    /// True if each round trip has that time.
    pub is_stamped: bool,
}

impl Shortest {
    /// Adds a round trip.
    pub(super) fn and(earlier: Option<Self>, rtt_ns: u64, reflector_ns: Option<u64>) -> Self {
        let besides_server_ns = rtt_ns.saturating_sub(reflector_ns.unwrap_or(0));
        let this = Self { whole_ns: rtt_ns, besides_server_ns, is_stamped: reflector_ns.is_some() };
        earlier.map_or(this, |earlier| Self {
            whole_ns: earlier.whole_ns.min(this.whole_ns),
            besides_server_ns: earlier.besides_server_ns.min(this.besides_server_ns),
            is_stamped: earlier.is_stamped && this.is_stamped,
        })
    }
}
