//! An IP packet on its way through the fabric.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

/// The transport a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP, RFC 9293.
    Tcp,
    /// UDP, RFC 768.
    Udp,
    /// ICMP or ICMPv6; ports are zero (or the identifier of an echo).
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

/// A packet: its bytes from the IP header on, and what the fabric knows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Its number in the fabric, counted from 1 in order of arrival. Packets that a middlebox made have numbers too.
    pub id: u64,
    /// When it came in, ns.
    pub in_ns: u64,
    bytes: Vec<u8>,
    flow: Flow,
}

impl Packet {
    /// The five-tuple, as the packet bears it now.
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// From the IP header on.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
