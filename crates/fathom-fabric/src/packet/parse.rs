//! Bytes to packet, once.

use std::net::{IpAddr, SocketAddr};

use etherparse::{IpSlice, Ipv4HeaderSlice, Ipv6ExtensionSlice, Ipv6HeaderSlice};

use super::{Flow, Layout, Malformed, Packet, Protocol};

pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMPV6: u8 = 58;

/// The shortest transport header that must be there: RFC 9293 section 3.1, RFC 768, RFC 792 and RFC 4443 section 2.1.
fn least_header(number: u8) -> usize {
    match number {
        TCP => 20,
        UDP | ICMP => 8,
        ICMPV6 => 4,
        _ => 0,
    }
}

fn protocol(number: u8, ipv6: bool) -> Protocol {
    match number {
        TCP => Protocol::Tcp,
        UDP => Protocol::Udp,
        ICMP if !ipv6 => Protocol::Icmp,
        ICMPV6 if ipv6 => Protocol::Icmp,
        other => Protocol::Other(other),
    }
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Both ports as the start of a transport header says; of ICMP the identifier of an echo, twice.
fn ports(protocol: Protocol, transport: &[u8], ipv6: bool) -> (u16, u16) {
    match protocol {
        Protocol::Tcp | Protocol::Udp if transport.len() >= 4 => (word(transport, 0), word(transport, 2)),
        Protocol::Icmp if transport.len() >= 6 => {
            let echo = if ipv6 { matches!(transport[0], 128 | 129) } else { matches!(transport[0], 0 | 8) };
            let identifier = if echo { word(transport, 4) } else { 0 };
            (identifier, identifier)
        }
        _ => (0, 0),
    }
}

impl Packet {
    /// Reads a packet, from its IP header on. Bytes after the length that the header states are cut off. Checksums are
    /// not verified: a broken packet travels on and its receiver drops it, as in a real network.
    pub fn parse(id: u64, in_ns: u64, mut bytes: Vec<u8>) -> Result<Self, Malformed> {
        let ip = IpSlice::from_slice(&bytes).map_err(|e| Malformed(e.to_string()))?;
        let (number, payload_len, end_of_headers, later, more_follow) = match &ip {
            IpSlice::Ipv4(v4) => {
                let header = v4.header();
                let extensions = v4.extensions().auth.as_ref().map_or(0, |auth| auth.slice().len());
                let end = header.slice().len() + extensions;
                let later = header.fragments_offset().value() > 0;
                (v4.payload_ip_number().0, v4.payload().payload.len(), end, later, header.more_fragments())
            }
            IpSlice::Ipv6(v6) => {
                let extensions = v6.extensions();
                // RFC 8200, section 4.5: 13 bits of offset, two reserved, and "more". Read here, since etherparse 0.19
                // takes other bits for both.
                let place = extensions.clone().into_iter().find_map(|extension| match extension {
                    Ipv6ExtensionSlice::Fragment(fragment) => Some(word(fragment.slice(), 2)),
                    _ => None,
                });
                let place = place.unwrap_or(0);
                let end = 40 + extensions.slice().len();
                (v6.payload().ip_number.0, v6.payload().payload.len(), end, place >> 3 > 0, place & 1 > 0)
            }
        };
        let ipv6 = ip.ipv6().is_some();
        let (source, destination) = (ip.source_addr(), ip.destination_addr());
        let protocol = protocol(number, ipv6);
        let headed = !later && !matches!(protocol, Protocol::Other(_));
        if headed && payload_len < least_header(number) {
            return Err(Malformed(format!("{payload_len} bytes are no header of protocol {number}")));
        }
        let length = end_of_headers + payload_len;
        let transport = u16::try_from(end_of_headers)
            .map_err(|_| Malformed(format!("{end_of_headers} bytes of IP extensions")))?;
        let (source_port, destination_port) =
            if headed { ports(protocol, &bytes[end_of_headers..length], ipv6) } else { (0, 0) };
        bytes.truncate(length);
        Ok(Self {
            id,
            in_ns,
            bytes,
            flow: Flow {
                protocol,
                source: SocketAddr::new(source, source_port),
                destination: SocketAddr::new(destination, destination_port),
            },
            layout: Layout { transport, number, headed, fragment: later || more_follow },
        })
    }

    /// The flow of the packet that an ICMP error quotes, as its sender wrote it. None where this is no error, or the
    /// quotation is too short. The quotation itself is never rewritten.
    pub fn quoted_flow(&self) -> Option<Flow> {
        if !self.is_icmp_error() {
            return None;
        }
        let quoted = self.transport_bytes().get(8..)?;
        let (number, source, destination, header, later): (u8, IpAddr, IpAddr, usize, bool) =
            if quoted.first()? >> 4 == 4 {
                let header = Ipv4HeaderSlice::from_slice(quoted).ok()?;
                let later = header.fragments_offset().value() > 0;
                let (source, destination) = (header.source_addr().into(), header.destination_addr().into());
                (header.protocol().0, source, destination, header.slice().len(), later)
            } else {
                let header = Ipv6HeaderSlice::from_slice(quoted).ok()?;
                let (source, destination) = (header.source_addr().into(), header.destination_addr().into());
                (header.next_header().0, source, destination, 40, false)
            };
        let ipv6 = source.is_ipv6();
        let protocol = protocol(number, ipv6);
        let transport = if later { &[][..] } else { &quoted[header..] };
        let (source_port, destination_port) = ports(protocol, transport, ipv6);
        Some(Flow {
            protocol,
            source: SocketAddr::new(source, source_port),
            destination: SocketAddr::new(destination, destination_port),
        })
    }
}
