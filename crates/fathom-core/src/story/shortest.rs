//! The shortest round trip of a run, with and without the reflector's own time.

/// The shortest round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortest {
    /// All of it, in ns.
    pub whole_ns: u64,
    /// The shortest without the time in a stamping reflector, in ns.
    pub besides_server_ns: u64,
    /// Each round trip says that time.
    pub is_stamped: bool,
}

impl Shortest {
    /// Of one more round trip.
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
