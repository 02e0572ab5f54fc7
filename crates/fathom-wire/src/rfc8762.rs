//! STAMP, the Simple Two-Way Active Measurement Protocol, in its unauthenticated mode (RFC 8762, section 4), with the
//! session identifier and the type-length-value extensions of RFC 8972 as far as both ends must know them.
//!
//! ```text
//!        Session-Sender (section 4.2.1)       Session-Reflector (section 4.3.1)
//!   0  4 sequence number                      sequence number: answers before, or as the sender's (stateless)
//!   4  8 timestamp                            timestamp: just before it was sent back
//!  12  2 error estimate                       error estimate
//!  14  2 session identifier (RFC 8972)        session identifier, as it came
//!  16  8 zero                                 receive timestamp
//!  24  4 zero                                 the sender's sequence number
//!  28  8 zero                                 the sender's timestamp
//!  36  2 zero                                 the sender's error estimate
//!  38  2 zero                                 zero
//!  40  1 zero                                 TTL or hop limit with which the sender's packet came
//!  41  3 zero                                 zero
//!  44    extensions                           the same, with their flags set
//! ```
//!
//! A TWAMP Light end (RFC 5357, appendix I) understands the same packets (RFC 8762, section 4.6).

use crate::frame::{u32_at, u64_at};

/// Where a Session-Reflector listens unless told otherwise (RFC 8762, section 4.1).
pub const PORT: u16 = 862;
/// Bytes of a packet without extensions, and so the smallest.
pub const PACKET_LEN: usize = 44;
/// Bytes of a reflected packet without which it is none. TWAMP's ends with the TTL (RFC 5357, section 4.2.1), and
/// that of a TWAMP Light responder that was met (twampy 1.0) before it.
pub const REFLECTED_LEN: usize = 38;
/// Bytes of an extension before its value (RFC 8972, section 4).
pub const TLV_HEADER_LEN: usize = 4;

/// Flag of an extension that its reader does not know.
const UNRECOGNIZED: u8 = 0x80;
/// Flag of an extension that cannot be as it stands.
const MALFORMED: u8 = 0x40;
/// Flag of an extension whose integrity could not be verified.
const INTEGRITY: u8 = 0x20;
/// The one extension that is understood here: bytes without a meaning (RFC 8972, section 4.1).
const EXTRA_PADDING: u8 = 1;

/// Seconds from the NTP epoch, 1900, to the Unix epoch, 1970 (RFC 5905, figure 4).
const NTP_TO_UNIX_S: i64 = 2_208_988_800;
const NS: i64 = 1_000_000_000;

/// How a packet's timestamps are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimeFormat {
    /// Seconds and 2^-32 of a second since 1900 (RFC 5905).
    #[default]
    Ntp,
    /// Seconds and nanoseconds, the low 32 bits of each, of IEEE 1588-2008. Its timescale is TAI; what systems send by
    /// it is not always so, and no receiver can tell: differences within one clock mean something, others do not.
    Ptp,
}

impl TimeFormat {
    /// A moment, ns since the Unix epoch, as it is written.
    pub fn encode(self, utc_ns: i64) -> u64 {
        let (seconds, ns) = (utc_ns.div_euclid(NS), utc_ns.rem_euclid(NS) as u64);
        match self {
            // To the nearest, so that reading gives the same nanosecond: 2^-32 s is 0.23 ns.
            Self::Ntp => {
                let fraction = ((ns << 32) + NS as u64 / 2) / NS as u64;
                u64::from((seconds + NTP_TO_UNIX_S) as u32) << 32 | fraction
            }
            Self::Ptp => u64::from(seconds as u32) << 32 | ns,
        }
    }

    /// A written moment, ns since the Unix epoch. Of NTP's eras it is the one between 1968 and 2104 (RFC 4330, section 3).
    pub fn decode(self, written: u64) -> i64 {
        let (high, low) = ((written >> 32) as u32, written & u64::from(u32::MAX));
        match self {
            Self::Ptp => i64::from(high) * NS + low as i64,
            Self::Ntp => {
                let era = if high >> 31 == 0 { 1_i64 << 32 } else { 0 };
                let ns = ((low * NS as u64) + (1 << 31)) >> 32;
                (i64::from(high) + era - NTP_TO_UNIX_S) * NS + ns as i64
            }
        }
    }
}

/// How far a packet's timestamps may be from the truth (RFC 4656, section 4.1.2; its Z bit: RFC 8762, section 4.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorEstimate {
    /// Whether the clock is synchronised to UTC by an external source.
    pub synchronized: bool,
    /// How the packet's timestamps are written.
    pub format: TimeFormat,
    /// The error is `multiplier * 2^(scale - 32)` seconds; up to 63.
    pub scale: u8,
    /// See `scale`. It is never 0: a packet that has it so says nothing of its error.
    pub multiplier: u8,
}

impl ErrorEstimate {
    /// The smallest estimate that is not below an error in ns; `None`: the clock is not synchronised.
    pub fn of(error_ns: Option<u64>) -> Self {
        let unknown = Self { synchronized: false, format: TimeFormat::Ntp, scale: 63, multiplier: u8::MAX };
        let Some(error_ns) = error_ns else { return unknown };
        let units = ((u128::from(error_ns) << 32).div_ceil(NS as u128)).max(1);
        let scale = (128 - units.leading_zeros()).saturating_sub(8);
        let multiplier = units.div_ceil(1 << scale);
        // Rounding up may need one bit more.
        let (scale, multiplier) = if multiplier > 255 { (scale + 1, 128) } else { (scale, multiplier as u8) };
        if scale > 63 {
            unknown
        } else {
            Self { synchronized: true, scale: scale as u8, multiplier, ..unknown }
        }
    }

    /// The error, in ns; `None`: not known, because the clock is not synchronised or the estimate is none.
    pub fn bound_ns(self) -> Option<u64> {
        let units = u128::from(self.multiplier) << self.scale;
        let known = self.synchronized && self.multiplier > 0;
        known.then(|| u64::try_from((units * NS as u128).div_ceil(1 << 32)).unwrap_or(u64::MAX))
    }

    fn encode(self) -> [u8; 2] {
        let format = if self.format == TimeFormat::Ptp { 0x40 } else { 0 };
        [if self.synchronized { 0x80 } else { 0 } | format | self.scale & 0x3F, self.multiplier]
    }

    fn decode([high, multiplier]: [u8; 2]) -> Self {
        Self {
            synchronized: high & 0x80 != 0,
            format: if high & 0x40 == 0 { TimeFormat::Ntp } else { TimeFormat::Ptp },
            scale: high & 0x3F,
            multiplier,
        }
    }
}

/// What a Session-Sender writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Ordinal of the packet in its session, from 0, wrapping.
    pub sequence: u32,
    /// As written, by the format that `error` names.
    pub timestamp: u64,
    /// The error of the timestamp.
    pub error: ErrorEstimate,
    /// Names the session among those of the same addresses and ports; 0: not used (RFC 8972, section 3).
    pub session: u16,
}

impl Sent {
    /// Writes a packet as long as `out`; what is longer than [`PACKET_LEN`] is one extension, Extra Padding.
    ///
    /// # Panics
    /// If `out` is shorter than a packet, or by one to three bytes longer, which hold no extension.
    pub fn encode(&self, out: &mut [u8]) {
        assert!(is_length(out.len()), "{} bytes hold no packet and extension", out.len());
        out.fill(0);
        out[0..4].copy_from_slice(&self.sequence.to_be_bytes());
        out[4..12].copy_from_slice(&self.timestamp.to_be_bytes());
        out[12..14].copy_from_slice(&self.error.encode());
        out[14..16].copy_from_slice(&self.session.to_be_bytes());
        // One extension's length has 16 bits; a datagram's has no more.
        if let Some(length) = out.len().checked_sub(PACKET_LEN + TLV_HEADER_LEN) {
            out[PACKET_LEN] = UNRECOGNIZED;
            out[PACKET_LEN + 1] = EXTRA_PADDING;
            out[PACKET_LEN + 2..PACKET_LEN + 4].copy_from_slice(&(length as u16).to_be_bytes());
        }
    }

    /// Writes another timestamp and its error into a packet that is written.
    ///
    /// # Panics
    /// If it is shorter than a packet.
    pub fn stamp_again(packet: &mut [u8], timestamp: u64, error: ErrorEstimate) {
        packet[4..12].copy_from_slice(&timestamp.to_be_bytes());
        packet[12..14].copy_from_slice(&error.encode());
    }

    /// Reads one; `None`: too short for a packet.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= PACKET_LEN).then(|| Self {
            sequence: u32_at(bytes, 0),
            timestamp: u64_at(bytes, 4),
            error: ErrorEstimate::decode([bytes[12], bytes[13]]),
            session: u16::from_be_bytes([bytes[14], bytes[15]]),
        })
    }
}

/// Whether a Session-Reflector has answered this packet already: where a sender writes zeros, or padding (RFC 5357,
/// section 4.1.2), it says when it received the packet, by the clock that gave the timestamp of the answer.
pub fn is_reflected(packet: &[u8]) -> bool {
    /// No reflector keeps a packet for longer; random padding looks like this once in 10^8 packets.
    const KEPT_S: u64 = 10;
    if packet.len() < PACKET_LEN {
        return false;
    }
    let (sent_s, received_s) = (u64::from(u32_at(packet, 4)), u64::from(u32_at(packet, 16)));
    received_s != 0 && sent_s.wrapping_sub(received_s) <= KEPT_S
}

/// Whether a Session-Sender can make a packet of this length.
pub fn is_length(length: usize) -> bool {
    length == PACKET_LEN || length >= PACKET_LEN + TLV_HEADER_LEN
}

/// What a Session-Reflector answers, as far as it is not what the sender wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reflection {
    /// Answers of this session before this one, wrapping; `None`: it is stateless, and repeats the sender's number.
    pub sequence: Option<u32>,
    /// When the packet came, ns since the Unix epoch.
    pub received_ns: i64,
    /// Just before the answer is sent; the same clock.
    pub sent_ns: i64,
    /// The error of both, and how they are written.
    pub error: ErrorEstimate,
    /// The TTL or hop limit with which the packet came; 0: not known.
    pub ttl: u8,
}

impl Reflection {
    /// Makes a sender's packet its own answer, of the same length. False: it is too short for a packet, and stays as
    /// it came.
    pub fn write(&self, packet: &mut [u8]) -> bool {
        if packet.len() < PACKET_LEN {
            return false;
        }
        packet.copy_within(0..14, 24);
        if let Some(sequence) = self.sequence {
            packet[0..4].copy_from_slice(&sequence.to_be_bytes());
        }
        let format = self.error.format;
        packet[4..12].copy_from_slice(&format.encode(self.sent_ns).to_be_bytes());
        packet[12..14].copy_from_slice(&self.error.encode());
        packet[16..24].copy_from_slice(&format.encode(self.received_ns).to_be_bytes());
        packet[38..40].fill(0);
        packet[40] = self.ttl;
        packet[41..44].fill(0);
        mark_extensions(&mut packet[PACKET_LEN..]);
        true
    }
}

/// Says of each extension whether it was understood (RFC 8972, section 4): the value stays as it came.
fn mark_extensions(mut rest: &mut [u8]) {
    while rest.len() >= TLV_HEADER_LEN {
        let length = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        let known = rest[1] == EXTRA_PADDING;
        rest[0] &= !(UNRECOGNIZED | MALFORMED | INTEGRITY);
        if TLV_HEADER_LEN + length > rest.len() {
            rest[0] |= MALFORMED;
            return;
        }
        if !known {
            rest[0] |= UNRECOGNIZED;
        }
        rest = &mut rest[TLV_HEADER_LEN + length..];
    }
}

/// A Session-Reflector's answer, as its sender reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reflected {
    /// The reflector's own number.
    pub sequence: u32,
    /// When the sender's packet came there: ns since the Unix epoch, by the format that `error` names.
    pub received_ns: i64,
    /// Just before the answer was sent: the same clock.
    pub sent_ns: i64,
    /// The error of both.
    pub error: ErrorEstimate,
    /// The sender's number.
    pub sender_sequence: u32,
    /// The sender's timestamp, as it was written.
    pub sender_timestamp: u64,
    /// The TTL or hop limit with which the sender's packet came; 0: not told.
    pub sender_ttl: u8,
}

impl Reflected {
    /// Reads an answer; `None`: too short for one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < REFLECTED_LEN {
            return None;
        }
        let error = ErrorEstimate::decode([bytes[12], bytes[13]]);
        Some(Self {
            sequence: u32_at(bytes, 0),
            received_ns: error.format.decode(u64_at(bytes, 16)),
            sent_ns: error.format.decode(u64_at(bytes, 4)),
            error,
            sender_sequence: u32_at(bytes, 24),
            sender_timestamp: u64_at(bytes, 28),
            sender_ttl: bytes.get(40).copied().unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests;
