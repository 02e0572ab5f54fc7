//! What comes to a stream from its driver, and what it makes of that.

use crate::clock::ClockMap;
use crate::sample::Sample;
use fathom_wire::ReflectorStamps;

/// What the kernel knows of a connection at the moment an echo is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelView {
    /// Smoothed RTT, µs; `None`: it is not known.
    pub srtt_us: Option<u32>,
    /// Segments sent again over the connection's life.
    pub total_retrans: u32,
}

/// When and by which clocks something was read.
#[derive(Debug, Clone, Copy)]
pub struct Receipt<'a> {
    /// Just after the read returned.
    pub mono_ns: u64,
    /// The mapping to UTC in force.
    pub clock: &'a ClockMap,
    /// The kernel's view, where it was asked.
    pub kernel: Option<KernelView>,
    /// The latest time in which this host did not run: from, to.
    pub local_pause: Option<(u64, u64)>,
    /// Wall clock when the bytes came to the driver, by the kernel's stamp, and just after the read returned.
    pub stamps: Option<(i64, i64)>,
}

/// The reflector's stamps of an echo, beside this host's monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Stamped {
    /// The sample.
    pub seq: u64,
    /// When it was sent, and its echo read, by the monotonic clock.
    pub sent_ns: u64,
    /// As above.
    pub read_ns: u64,
    /// What the reflector wrote.
    pub stamps: ReflectorStamps,
}

/// The stamps of the first echo of a read, and of its last; `None`: it had none.
pub type ReadStamps = Option<(Stamped, Stamped)>;

/// What became of received bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrival<'a> {
    /// A sample is resolved: answered, or corrupted (then without an RTT).
    Resolved(Sample),
    /// Bytes that are no echo of anything outstanding.
    Foreign(&'a [u8]),
    /// An echo that had already come (UDP).
    Duplicate(u64),
}

/// What the kernel numbers its send stamps by; both counts wrap at 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// TCP: bytes, from the start of the connection.
    Bytes,
    /// UDP: datagrams.
    Datagrams,
}
