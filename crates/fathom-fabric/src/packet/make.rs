//! Packets that a middlebox (or a leg) sends of its own.

use std::net::{IpAddr, SocketAddr};

use etherparse::{IpHeaders, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, PacketBuilder, TcpHeader};

use super::{Flags, Flow, Packet};

/// Hops that made packets start with: what Linux uses by default (`net.ipv4.ip_default_ttl`).
const HOPS: u8 = 64;

/// Most that an ICMP error of IPv4 is long, its own header included: RFC 1812, section 4.3.2.3, "as much of the original
/// datagram as possible without the length of the ICMP datagram exceeding 576 bytes".
const ICMP_LEN_MAX: usize = 576;

/// The same for ICMPv6: "without the error message packet exceeding the minimum IPv6 MTU" (RFC 4443, section 2.4 c).
const ICMPV6_LEN_MAX: usize = 1_280;

/// Why a packet did not arrive, as ICMP says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpError {
    /// RFC 792: type 3 code 0; RFC 4443: type 1 code 0.
    NetworkUnreachable,
    /// RFC 792: type 3 code 1; RFC 4443: type 1 code 3.
    HostUnreachable,
    /// RFC 792: type 3 code 3; RFC 4443: type 1 code 4.
    PortUnreachable,
    /// RFC 1812: type 3 code 13; RFC 4443: type 1 code 1.
    Prohibited,
    /// RFC 1191, section 4: type 3 code 4 with the next hop's MTU; RFC 8201 and RFC 4443: type 2 with the MTU.
    TooBig {
        /// Most bytes the next leg takes, the IP header included.
        mtu: u16,
    },
    /// RFC 792: type 11 code 0; RFC 4443: type 3 code 0.
    TimeExceeded,
}

impl IcmpError {
    fn type_and_code(self, ipv6: bool) -> (u8, u8) {
        let (v4, v6) = match self {
            Self::NetworkUnreachable => ((3, 0), (1, 0)),
            Self::HostUnreachable => ((3, 1), (1, 3)),
            Self::PortUnreachable => ((3, 3), (1, 4)),
            Self::Prohibited => ((3, 13), (1, 1)),
            Self::TooBig { .. } => ((3, 4), (2, 0)),
            Self::TimeExceeded => ((11, 0), (3, 0)),
        };
        if ipv6 { v6 } else { v4 }
    }
}

fn ip_headers(source: IpAddr, destination: IpAddr, protocol: IpNumber) -> Option<IpHeaders> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut header =
                Ipv4Header::new(0, HOPS, protocol, source.octets(), destination.octets()).ok()?;
            header.dont_fragment = true;
            Some(IpHeaders::Ipv4(header, etherparse::Ipv4Extensions::default()))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = Ipv6Header {
                traffic_class: 0,
                flow_label: Ipv6FlowLabel::ZERO,
                payload_length: 0,
                next_header: protocol,
                hop_limit: HOPS,
                source: source.octets(),
                destination: destination.octets(),
            };
            Some(IpHeaders::Ipv6(header, etherparse::Ipv6Extensions::default()))
        }
        _ => None,
    }
}

impl Packet {
    /// A TCP segment. None where the addresses are of two IP versions, or the payload is longer than IP can say.
    pub fn tcp(
        source: SocketAddr,
        destination: SocketAddr,
        seq: u32,
        ack: u32,
        flags: Flags,
        payload: &[u8],
    ) -> Option<Self> {
        let mut header = TcpHeader::new(source.port(), destination.port(), seq, u16::MAX);
        if flags.has(Flags::ACK) {
            header.acknowledgment_number = ack;
            header.ack = true;
        }
        header.fin = flags.has(Flags::FIN);
        header.syn = flags.has(Flags::SYN);
        header.rst = flags.has(Flags::RST);
        header.psh = flags.has(Flags::PSH);
        if header.rst {
            header.window_size = 0;
        }
        let builder =
            PacketBuilder::ip(ip_headers(source.ip(), destination.ip(), IpNumber::TCP)?).tcp_header(header);
        let mut bytes = Vec::with_capacity(builder.size(payload.len()));
        builder.write(&mut bytes, payload).ok()?;
        Self::parse(0, 0, bytes).ok()
    }

    /// A UDP datagram. None as for [`Packet::tcp`].
    pub fn udp(source: SocketAddr, destination: SocketAddr, payload: &[u8]) -> Option<Self> {
        let builder = PacketBuilder::ip(ip_headers(source.ip(), destination.ip(), IpNumber::UDP)?)
            .udp(source.port(), destination.port());
        let mut bytes = Vec::with_capacity(builder.size(payload.len()));
        builder.write(&mut bytes, payload).ok()?;
        Self::parse(0, 0, bytes).ok()
    }

    /// A SYN, as a health probe sends it first.
    pub fn syn(source: SocketAddr, destination: SocketAddr, seq: u32) -> Option<Self> {
        Self::tcp(source, destination, seq, 0, Flags::SYN, &[])
    }

    /// The answer of somebody who accepts: SYN and ACK for this SYN. None where this opens nothing.
    pub fn syn_ack_for(&self, seq: u32) -> Option<Self> {
        let segment = self.segment().filter(|s| s.flags.opens())?;
        let flow = self.flow().reversed();
        Self::tcp(flow.source, flow.destination, seq, segment.next_seq(), Flags::SYN | Flags::ACK, &[])
    }

    /// A bare acknowledgement of all that this segment holds, from the number that it acknowledges. None where it is no
    /// TCP segment with ACK.
    pub fn ack_for(&self) -> Option<Self> {
        let segment = self.segment().filter(|s| s.flags.has(Flags::ACK))?;
        let flow = self.flow().reversed();
        Self::tcp(flow.source, flow.destination, segment.ack, segment.next_seq(), Flags::ACK, &[])
    }

    /// The RST with which a host without such a connection answers this segment, addressed to its sender. RFC 9293,
    /// section 3.10.7.1: an arriving RST is discarded; "if the ACK bit is off, sequence number zero is used,
    /// <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>", and "if the ACK bit is on, <SEQ=SEG.ACK><CTL=RST>". None also for what is
    /// no TCP segment, or a later fragment.
    pub fn reset_for(&self) -> Option<Self> {
        let segment = self.segment().filter(|s| !s.flags.has(Flags::RST))?;
        let flow = self.flow().reversed();
        if segment.flags.has(Flags::ACK) {
            Self::tcp(flow.source, flow.destination, segment.ack, 0, Flags::RST, &[])
        } else {
            let flags = Flags::RST | Flags::ACK;
            Self::tcp(flow.source, flow.destination, 0, segment.next_seq(), flags, &[])
        }
    }

    /// A RST towards `flow.destination`, as if `flow.source` had sent it. To be believed it must bear exactly the next
    /// sequence number that the receiver expects from the source ("RCV.NXT", RFC 9293 section 3.10.7.4 and RFC 5961): the
    /// last [`super::Segment::next_seq`] seen from the source, or the last ACK seen from the destination. With `ack` (the
    /// next number of the other direction) the RST also acknowledges.
    pub fn reset_towards(flow: Flow, seq: u32, ack: Option<u32>) -> Option<Self> {
        let flags = if ack.is_some() { Flags::RST | Flags::ACK } else { Flags::RST };
        Self::tcp(flow.source, flow.destination, seq, ack.unwrap_or(0), flags, &[])
    }

    /// The ICMP error about this packet, from `from` to its sender. None where RFC 1122 (section 3.2.2) or RFC 4443 (section
    /// 2.4 e) forbid one: about an ICMP error, a later fragment, or a packet from or to a group; and where `from` is an
    /// address of the other IP version.
    pub fn icmp_error_for(&self, from: IpAddr, error: IcmpError) -> Option<Self> {
        let (source, destination) = self.flow().addresses();
        let group = |address: IpAddr| match address {
            IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast() || v4.is_unspecified(),
            IpAddr::V6(v6) => v6.is_multicast() || v6.is_unspecified(),
        };
        // Too big may be told of a packet to a group in IPv6 (RFC 4443, section 2.4 e.3); the fabric routes no groups.
        if self.is_icmp_error() || self.is_later_fragment() || group(source) || group(destination) {
            return None;
        }
        let ipv6 = self.is_ipv6();
        let (kind, code) = error.type_and_code(ipv6);
        let detail =
            if let IcmpError::TooBig { mtu } = error { u32::from(mtu).to_be_bytes() } else { [0; 4] };
        let (number, most) = if ipv6 {
            (IpNumber::IPV6_ICMP, ICMPV6_LEN_MAX - 48)
        } else {
            (IpNumber::ICMP, ICMP_LEN_MAX - 28)
        };
        let quoted = &self.bytes()[..self.len().min(most)];
        let builder = PacketBuilder::ip(ip_headers(from, source, number)?);
        let mut bytes = Vec::with_capacity(quoted.len() + 48);
        if ipv6 {
            builder.icmpv6_raw(kind, code, detail).write(&mut bytes, quoted).ok()?;
        } else {
            builder.icmpv4_raw(kind, code, detail).write(&mut bytes, quoted).ok()?;
        }
        Self::parse(0, 0, bytes).ok()
    }
}
