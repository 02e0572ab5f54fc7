//! What a middlebox wants to know of a TCP segment.

use std::fmt;

use super::{Packet, Protocol};

/// The control bits of a TCP header (RFC 9293, section 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push function.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement field is valid.
    pub const ACK: Self = Self(0x10);

    /// Whether all bits of `other` are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Opens a connection: SYN without ACK.
    pub fn opens(self) -> bool {
        self.has(Self::SYN) && !self.has(Self::ACK)
    }
}

impl std::ops::BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names =
            [(Self::SYN, 'S'), (Self::FIN, 'F'), (Self::RST, 'R'), (Self::PSH, 'P'), (Self::ACK, '.')];
        names.iter().filter(|(flag, _)| self.has(*flag)).try_for_each(|(_, name)| write!(f, "{name}"))
    }
}

/// A TCP segment's header, as far as middleboxes care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte (or of the SYN).
    pub seq: u32,
    /// What the sender expects next; meaningless without [`Flags::ACK`].
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// As in the header, not scaled.
    pub window: u16,
    /// Bytes of payload.
    pub payload_len: u32,
}

impl Segment {
    /// SEG.LEN of RFC 9293: the payload, and one each for SYN and FIN.
    pub fn len(&self) -> u32 {
        self.payload_len + u32::from(self.flags.has(Flags::SYN)) + u32::from(self.flags.has(Flags::FIN))
    }

    /// Whether it takes no sequence number: a bare acknowledgement, or a RST.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sequence number after it: what its sender will send next.
    pub fn next_seq(&self) -> u32 {
        self.seq.wrapping_add(self.len())
    }
}

impl Packet {
    /// The TCP header, where there is one. The payload length of a first fragment counts what is in that fragment.
    pub fn segment(&self) -> Option<Segment> {
        if self.flow.protocol != Protocol::Tcp || !self.layout.headed {
            return None;
        }
        let tcp = self.transport_bytes();
        let word = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
        let header = usize::from(tcp[12] >> 4) * 4;
        Some(Segment {
            seq: word(4),
            ack: word(8),
            flags: Flags(tcp[13]),
            window: u16::from_be_bytes([tcp[14], tcp[15]]),
            payload_len: tcp.len().saturating_sub(header.max(20)) as u32,
        })
    }
}
