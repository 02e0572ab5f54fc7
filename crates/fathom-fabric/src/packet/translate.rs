//! What address translators and gateways change besides addresses: the packet that an ICMP error quotes, and the largest
//! segment that a SYN offers.

use std::net::{IpAddr, SocketAddr};

use super::checksum::adjusted;
use super::parse::{ICMP, TCP, UDP};
use super::{Flags, Flow, Packet, Protocol, rewrite::FamilyMismatch};

/// Where the quotation of an ICMP error begins, after the error's header.
const QUOTED: usize = 8;

impl Packet {
    /// Writes other addresses and ports into the packet that an ICMP error quotes, so that its receiver knows it for its
    /// own (RFC 5508, section 4.2, asks this of a NAT). The header checksum of a quoted IPv4 packet is kept right; that of
    /// its transport is too where the quotation holds it. No effect where this quotes nothing.
    pub fn set_quoted_flow(&mut self, flow: Flow) -> Result<(), FamilyMismatch> {
        let Some(old) = self.quoted_flow() else { return Ok(()) };
        if flow.source.is_ipv6() != self.is_ipv6() || flow.destination.is_ipv6() != self.is_ipv6() {
            return Err(FamilyMismatch);
        }
        let start = usize::from(self.layout.transport) + QUOTED;
        let mut quoted = self.bytes[start..].to_vec();
        let (header, number, at) = if self.is_ipv6() {
            (40, quoted[6], [8, 24])
        } else {
            (usize::from(quoted[0] & 0xf) * 4, quoted[9], [12, 16])
        };
        let checksum = match number {
            TCP => Some(header + 16),
            UDP => Some(header + 6),
            _ => None,
        };
        // Checksums of the quoted packet follow each change of it; where the quotation is too short there is none.
        let mut replace = |at: usize, new: &[u8], checksums: &[Option<usize>]| {
            if quoted.len() < at + new.len() {
                return;
            }
            let old = quoted[at..at + new.len()].to_vec();
            for &sum in checksums.iter().flatten() {
                let Some(&[high, low]) = quoted.get(sum..sum + 2) else { continue };
                // RFC 768: a zero says that there is none, and a computed zero is sent as all ones.
                let is_of_udp = number == UDP && Some(sum) == checksum;
                if !is_of_udp || [high, low] != [0, 0] {
                    let now = adjusted(u16::from_be_bytes([high, low]), &old, new);
                    let now = if is_of_udp && now == 0 { 0xffff } else { now };
                    quoted[sum..sum + 2].copy_from_slice(&now.to_be_bytes());
                }
            }
            quoted[at..at + new.len()].copy_from_slice(new);
        };
        let ip_sum = (!self.is_ipv6()).then_some(10);
        for (end, at) in [flow.source, flow.destination].into_iter().zip(at) {
            replace(at, &octets(end.ip()), &[ip_sum, checksum]);
        }
        let has_ports = |end: SocketAddr| end.port() != 0;
        if matches!(flow.protocol, Protocol::Tcp | Protocol::Udp) && has_ports(old.source) {
            replace(header, &flow.source.port().to_be_bytes(), &[checksum]);
            replace(header + 2, &flow.destination.port().to_be_bytes(), &[checksum]);
        } else if flow.protocol == Protocol::Icmp && has_ports(old.source) {
            replace(header + 4, &flow.source.port().to_be_bytes(), &[Some(header + 2)]);
        }
        // The error's own checksum covers the quotation, which stands at an even offset in it.
        let sum = usize::from(self.layout.transport) + 2;
        let even = |bytes: &[u8]| [bytes, &[0][..bytes.len() % 2]].concat();
        let checksum = u16::from_be_bytes([self.bytes[sum], self.bytes[sum + 1]]);
        let now = adjusted(checksum, &even(&self.bytes[start..]), &even(&quoted));
        self.bytes[sum..sum + 2].copy_from_slice(&now.to_be_bytes());
        self.bytes[start..].copy_from_slice(&quoted);
        debug_assert!(self.layout.number == ICMP || self.is_ipv6());
        Ok(())
    }

    /// Lowers the largest segment that a SYN (or its answer) offers to `most`, where it offers more (RFC 9293, section
    /// 3.7.1). Whether it did.
    pub fn clamp_mss(&mut self, most: u16) -> bool {
        let Some(segment) = self.segment() else { return false };
        if !segment.flags.has(Flags::SYN) {
            return false;
        }
        let start = usize::from(self.layout.transport);
        let end = (start + usize::from(self.bytes[start + 12] >> 4) * 4).min(self.bytes.len());
        let mut at = start + 20;
        while at < end {
            match self.bytes[at] {
                0 => return false,
                1 => at += 1,
                2 if at + 4 <= end => {
                    let old = [self.bytes[at + 2], self.bytes[at + 3]];
                    if u16::from_be_bytes(old) <= most {
                        return false;
                    }
                    let sum = start + 16;
                    let checksum = u16::from_be_bytes([self.bytes[sum], self.bytes[sum + 1]]);
                    // A word at an odd offset counts with its bytes exchanged (RFC 1071, section 2 B).
                    let (was, is) = (u16::from_be_bytes(old), most);
                    let turn = |word: u16| if (at - start) % 2 == 0 { word } else { word.swap_bytes() };
                    let now = adjusted(checksum, &turn(was).to_be_bytes(), &turn(is).to_be_bytes());
                    self.bytes[sum..sum + 2].copy_from_slice(&now.to_be_bytes());
                    self.bytes[at + 2..at + 4].copy_from_slice(&most.to_be_bytes());
                    return true;
                }
                _ => match self.bytes.get(at + 1) {
                    Some(&length) if length >= 2 => at += usize::from(length),
                    _ => return false,
                },
            }
        }
        false
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}
