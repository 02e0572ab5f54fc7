//! What is known of a connection when it ends.

use serde::{Deserialize, Serialize};

/// What was known of a connection when it ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// Samples sent on it.
    pub sent: u64,
    /// Samples answered.
    pub answered: u64,
    /// The last sample whose echo came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_answered_seq: Option<u64>,
    /// Samples without their echo at the end.
    pub outstanding: u64,
    /// From the last byte received to the end, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_ns: Option<u64>,
    /// The error's text, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The kernel's view at the last sample before the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Box<TcpInfo>>,
}

/// The part of the kernel's `TCP_INFO` that explains things. Linux; other systems fill what they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpInfo {
    /// Smoothed round-trip time, µs.
    pub srtt_us: u32,
    /// Its variation, µs.
    pub rttvar_us: u32,
    /// The smallest seen, µs.
    pub min_rtt_us: u32,
    /// Retransmission timeout in force, µs.
    pub rto_us: u32,
    /// Consecutive retransmission timeouts of the data now outstanding.
    pub retransmits: u8,
    /// Exponential back-off of the timer.
    pub backoff: u8,
    /// Segments sent again over the connection's life.
    pub total_retrans: u32,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Bytes that wait in this host, because they could not be sent or the peer had no room. 0 in recordings and on
    /// systems without it.
    #[serde(default)]
    pub notsent_bytes: u32,
    /// Congestion window, segments.
    pub snd_cwnd: u32,
    /// Payload bytes of a full segment to the peer. 0 in recordings and on systems without it.
    #[serde(default)]
    pub snd_mss: u32,
    /// Reordering degree the kernel assumes, segments.
    pub reordering: u32,
    /// Since data was last received, ms.
    pub last_data_recv_ms: u32,
    /// Since an acknowledgement was last received, ms.
    pub last_ack_recv_ms: u32,
    /// Bytes acknowledged over the connection's life (Linux counts the SYN too). 0 in recordings and on systems without it.
    #[serde(default)]
    pub bytes_acked: u64,
    /// Segments that came while data before them was missing. 0 in recordings and on systems without it.
    #[serde(default)]
    pub rcv_ooopack: u32,
    /// Bytes that came over the connection's life, those behind a gap not counted. 0 in recordings and on systems without it.
    #[serde(default)]
    pub bytes_received: u64,
    /// Segments with data that came, also those that had come before. 0 in recordings and on systems without it.
    #[serde(default)]
    pub data_segs_in: u32,
}
