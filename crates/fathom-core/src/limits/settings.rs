//! What a search is asked for.

use crate::event::OneWay;
use fathom_wire::Secret;

/// New connections in a second, at the most. xinetd stops a service that gets more than 50 (`cps` in xinetd.conf(5)).
pub const OPENINGS_A_SECOND: u32 = 40;

/// What a search is asked for.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What messages call the target.
    pub target: String,
    /// The longest idleness that is tried, in ns.
    pub up_to_ns: u64,
    /// Connections that are idle for each length.
    pub per_length: u32,
    /// How wide the bracket may be, as a share of the limit.
    pub resolution: f64,
    /// How often the kernel sends keepalives on idle connections, in ns. `None`: it sends none.
    pub keepalive_ns: Option<u64>,
    /// Traffic in one direction that idle connections have. `None`: they have none.
    pub one_way: Option<OneWay>,
    /// Connections that may be open at one time.
    pub connections: AtMost,
    /// A number that tells this run's requests from any other's.
    pub session: u32,
    /// What requests bear the code of.
    pub secret: Option<Secret>,
}

/// How many connections may be open at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtMost(pub usize);

/// A search needs more connections than it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany {
    /// So many.
    pub needed: usize,
}
