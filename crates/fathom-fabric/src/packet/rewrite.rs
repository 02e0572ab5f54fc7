//! What a middlebox changes in a packet that passes: addresses, ports, hops left. Checksums are kept right.

use std::net::{IpAddr, SocketAddr};

use super::checksum::adjusted;
use super::parse::{ICMP, ICMPV6, TCP, UDP};
use super::{Packet, Protocol};

/// An IPv4 packet cannot bear an IPv6 address, nor the other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot write an address of the other IP version into a packet")]
pub struct FamilyMismatch;

#[derive(Clone, Copy)]
enum End {
    Source,
    Destination,
}

impl Packet {
    /// Writes another source address and port. Of an ICMP echo the port is its identifier; packets without ports (later
    /// fragments, ICMP errors, other protocols) get the address only.
    pub fn set_source(&mut self, to: SocketAddr) -> Result<(), FamilyMismatch> {
        self.set(End::Source, to)
    }

    /// Writes another destination address and port, as [`Packet::set_source`] does.
    pub fn set_destination(&mut self, to: SocketAddr) -> Result<(), FamilyMismatch> {
        self.set(End::Destination, to)
    }

    fn set(&mut self, end: End, to: SocketAddr) -> Result<(), FamilyMismatch> {
        if to.is_ipv6() != self.is_ipv6() {
            return Err(FamilyMismatch);
        }
        let mut address = [0; 16];
        let length = match to.ip() {
            IpAddr::V4(v4) => {
                address[..4].copy_from_slice(&v4.octets());
                4
            }
            IpAddr::V6(v6) => {
                address = v6.octets();
                16
            }
        };
        self.set_address(end, &address[..length]);
        let port = self.set_port(end, to.port());
        match end {
            End::Source => self.flow.source = SocketAddr::new(to.ip(), port),
            End::Destination => self.flow.destination = SocketAddr::new(to.ip(), port),
        }
        if self.flow.protocol == Protocol::Icmp {
            self.flow.source.set_port(port);
            self.flow.destination.set_port(port);
        }
        Ok(())
    }

    fn set_address(&mut self, end: End, new: &[u8]) {
        // RFC 791 section 3.1 and RFC 8200 section 3.
        let at = match (new.len(), end) {
            (4, End::Source) => 12,
            (4, End::Destination) => 16,
            (_, End::Source) => 8,
            (_, End::Destination) => 24,
        };
        let mut old = [0; 16];
        let old = &mut old[..new.len()];
        old.copy_from_slice(&self.bytes[at..at + new.len()]);
        if new.len() == 4 {
            self.adjust(10, old, new);
        }
        // The pseudo header holds the addresses, but ICMP of IPv4 has none.
        if self.layout.number != ICMP {
            self.adjust_transport(old, new);
        }
        self.bytes[at..at + new.len()].copy_from_slice(new);
    }

    /// Writes the port if there is one to write; returns what the packet bears now.
    fn set_port(&mut self, end: End, port: u16) -> u16 {
        if !self.layout.headed {
            return 0;
        }
        let echo = match self.icmp_type() {
            None => false,
            Some((kind, _)) if self.is_ipv6() => matches!(kind, 128 | 129),
            Some((kind, _)) => matches!(kind, 0 | 8),
        };
        let offset = match (self.flow.protocol, end) {
            (Protocol::Tcp | Protocol::Udp, End::Source) => 0,
            (Protocol::Tcp | Protocol::Udp, End::Destination) => 2,
            (Protocol::Icmp, _) if echo && self.transport_bytes().len() >= 6 => 4,
            _ => return 0,
        };
        let at = usize::from(self.layout.transport) + offset;
        let old = [self.bytes[at], self.bytes[at + 1]];
        let new = port.to_be_bytes();
        self.adjust_transport(&old, &new);
        self.bytes[at..at + 2].copy_from_slice(&new);
        port
    }

    fn adjust_transport(&mut self, old: &[u8], new: &[u8]) {
        if !self.layout.headed {
            return;
        }
        let offset = match self.layout.number {
            TCP => 16,
            UDP => 6,
            ICMP | ICMPV6 => 2,
            _ => return,
        };
        let at = usize::from(self.layout.transport) + offset;
        if self.layout.number == UDP {
            // RFC 768: "an all zero transmitted checksum value means that the transmitter generated no checksum", and a
            // computed zero is sent as all ones.
            if self.bytes[at..at + 2] == [0, 0] {
                return;
            }
            self.adjust(at, old, new);
            if self.bytes[at..at + 2] == [0, 0] {
                self.bytes[at..at + 2].copy_from_slice(&[0xff, 0xff]);
            }
        } else {
            self.adjust(at, old, new);
        }
    }

    fn adjust(&mut self, at: usize, old: &[u8], new: &[u8]) {
        let checksum = u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]);
        self.bytes[at..at + 2].copy_from_slice(&adjusted(checksum, old, new).to_be_bytes());
    }

    /// Takes one hop off, as a router does before it forwards. False, and nothing changed, where none would be left.
    #[must_use]
    pub fn decrement_hop_limit(&mut self) -> bool {
        let at = if self.is_ipv6() { 7 } else { 8 };
        let left = self.bytes[at];
        if left <= 1 {
            return false;
        }
        if !self.is_ipv6() {
            // TTL shares a word of the header with the protocol's number.
            let protocol = self.bytes[9];
            self.adjust(10, &[left, protocol], &[left - 1, protocol]);
        }
        self.bytes[at] = left - 1;
        true
    }
}
