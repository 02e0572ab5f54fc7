//! An IP packet on its way through the fabric.
//!
//! [`Packet::parse`] reads the headers once; afterwards the five-tuple, the place of the transport header and whether
//! the packet is a fragment are known without looking again. What a middlebox may change ([`Packet::set_source`],
//! [`Packet::decrement_hop_limit`]) is in `rewrite`, what it may send of its own ([`Packet::tcp`], [`Packet::reset_for`],
//! [`Packet::icmp_error_for`]) in `make`.

mod checksum;
mod fragment;
mod make;
mod parse;
mod rewrite;
mod segment;
#[cfg(test)]
pub(crate) mod tests;
mod translate;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

pub use make::IcmpError;
pub use rewrite::FamilyMismatch;
pub use segment::{Flags, Segment};

/// The transport a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP, RFC 9293.
    Tcp,
    /// UDP, RFC 768.
    Udp,
    /// ICMP or ICMPv6. Both ports are the identifier of an echo (so that request and reply are one flow); else zero.
    Icmp,
    /// Anything else; ports are zero.
    Other(u8),
}

/// The five-tuple of a packet, as its sender writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Flow {
    /// Transport.
    pub protocol: Protocol,
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
}

impl Flow {
    /// The flow of the answer.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { protocol: self.protocol, source: self.destination, destination: self.source }
    }

    /// Both addresses, for routing.
    pub fn addresses(&self) -> (IpAddr, IpAddr) {
        (self.source.ip(), self.destination.ip())
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            Protocol::Tcp => f.write_str("tcp ")?,
            Protocol::Udp => f.write_str("udp ")?,
            Protocol::Icmp => f.write_str("icmp ")?,
            Protocol::Other(number) => write!(f, "ip-{number} ")?,
        }
        write!(f, "{} > {}", self.source, self.destination)
    }
}

/// A packet: its bytes from the IP header on, and what the fabric knows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Its number in the fabric, counted from 1 in order of arrival. Packets that a middlebox made have numbers too, which
    /// the world gives them; before that the number is 0.
    pub id: u64,
    /// When it came in (or was made), ns.
    pub in_ns: u64,
    bytes: Vec<u8>,
    flow: Flow,
    layout: Layout,
}

/// Where things are in the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    /// Offset of the transport header: the length of the IP header with its options or extensions.
    transport: u16,
    /// Transport protocol by its number in the registry of IANA.
    number: u8,
    /// Whether the transport header is here: not so in later fragments.
    headed: bool,
    /// Whether this is a fragment, first or later.
    fragment: bool,
}

/// Bytes that are not an IP packet which the fabric can read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a readable IP packet: {0}")]
pub struct Malformed(String);

impl Packet {
    /// The five-tuple, as the packet bears it now. In an IPv4 or IPv6 fragment after the first the ports are zero.
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// From the IP header on.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes alone, for whoever writes them to a device.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Length in bytes, the IP header included: what a leg's rate and MTU count.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never: an IP packet has a header.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether it is IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.bytes[0] >> 4 == 6
    }

    /// Whether it is a fragment, the first included.
    pub fn is_fragment(&self) -> bool {
        self.layout.fragment
    }

    /// Whether it is a fragment after the first, which bears no transport header.
    pub fn is_later_fragment(&self) -> bool {
        self.layout.fragment && !self.layout.headed
    }

    /// Hops left: TTL of IPv4, hop limit of IPv6.
    pub fn hop_limit(&self) -> u8 {
        if self.is_ipv6() { self.bytes[7] } else { self.bytes[8] }
    }

    /// Whether routers may cut it up: IPv4 without "don't fragment". IPv6 forbids it (RFC 8200, section 4.5).
    pub fn may_fragment(&self) -> bool {
        !self.is_ipv6() && self.bytes[6] & 0x40 == 0
    }

    fn is_icmp(&self) -> bool {
        self.flow.protocol == Protocol::Icmp && self.layout.headed
    }

    /// Type and code, where this is ICMP or ICMPv6.
    pub fn icmp_type(&self) -> Option<(u8, u8)> {
        let at = usize::from(self.layout.transport);
        self.is_icmp().then(|| (self.bytes[at], self.bytes[at + 1]))
    }

    /// Whether it is an error message of ICMP (RFC 792: types 3, 4, 5, 11, 12; RFC 4443: types below 128).
    pub fn is_icmp_error(&self) -> bool {
        let ipv6 = self.is_ipv6();
        self.icmp_type()
            .is_some_and(|(kind, _)| if ipv6 { kind < 128 } else { matches!(kind, 3 | 4 | 5 | 11 | 12) })
    }

    /// Whether it is the request of an echo.
    pub fn is_echo_request(&self) -> bool {
        self.icmp_type().is_some_and(|(kind, _)| kind == if self.is_ipv6() { 128 } else { 8 })
    }

    fn transport_bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.layout.transport)..]
    }
}
