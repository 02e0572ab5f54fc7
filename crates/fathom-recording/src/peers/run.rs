//! What the formats of other tools say of a run.

use fathom_core::histogram::Histogram;

/// What the formats of other tools say of a run, beside its samples.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Run {
    /// What was connected to.
    pub reflector: String,
    /// Over UDP; otherwise over TCP.
    pub udp: bool,
    /// Each sample is the opening of a connection; otherwise a message on one.
    pub connects: bool,
    /// Payload bytes of every sample; none: a sample is no message.
    pub size: Option<u32>,
    /// From one sample to the next; none: back to back.
    pub interval_ns: Option<u64>,
    /// When it began, ns since the Unix epoch.
    pub started_utc_ns: i64,
}

/// What was measured in a run, without its warm-up.
#[derive(Debug, Clone, Copy)]
pub struct Totals<'a> {
    /// Round trips, or times to connect.
    pub rtt: &'a Histogram,
    /// Samples sent, answered or not.
    pub sent: u64,
    /// Samples of the warm-up, which are in none of the others.
    pub warm_up: u64,
}
