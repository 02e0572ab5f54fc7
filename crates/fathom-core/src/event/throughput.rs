//! What the events of a throughput test tell of its streams.

use serde::{Deserialize, Serialize};

/// The mode of a throughput test, as recordings and summaries name it.
pub const THROUGHPUT_MODE: &str = "tcp-throughput";

/// A stretch of one stream (about a second).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThroughputInterval {
    /// `sent` or `received`: what this end did on the stream.
    pub way: String,
    /// How long it was, in ns; it ends at `mono_ns`.
    pub interval_ns: u64,
    /// Bytes written to, or read from, the stream in it.
    pub bytes: u64,
    /// Segments sent again in it. Absent: this end receives, or its system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u32>,
    /// The congestion window at its end, bytes. Absent as `retransmits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwnd_bytes: Option<u64>,
    /// The smoothed round-trip time at its end, µs. Absent as `retransmits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub srtt_us: Option<u32>,
    /// It belongs to the warm-up and counts in no total.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub omitted: bool,
}
