//! Checksums computed anew, by the plain sum of RFC 1071, and what translators change besides addresses.

use std::net::SocketAddr;

use fathom_fabric::packet::{Flags, Flow, IcmpError, Packet, Protocol};
use proptest::prelude::*;

use super::bench::{address, flow, tcp};

fn sum(parts: &[&[u8]]) -> u16 {
    let mut total = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            total += (u32::from(pair[0]) << 8) | u32::from(*pair.get(1).unwrap_or(&0));
        }
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

/// Every checksum of the packet must be right: with it the sum is zero.
pub(crate) fn assert_checksums(packet: &Packet) {
    assert_checksums_of(packet.bytes());
}

fn assert_checksums_of(bytes: &[u8]) {
    let (header, addresses, protocol) = if bytes[0] >> 4 == 6 {
        (40, &bytes[8..40], bytes[6])
    } else {
        let header = usize::from(bytes[0] & 0xf) * 4;
        assert_eq!(sum(&[&bytes[..header]]), 0, "the checksum of the IP header");
        (header, &bytes[12..20], bytes[9])
    };
    let transport = &bytes[header..];
    let length = (transport.len() as u32).to_be_bytes();
    let pseudo = [0, 0, 0, protocol];
    match protocol {
        6 | 17 | 58 => assert_eq!(sum(&[addresses, &length, &pseudo, transport]), 0, "protocol {protocol}"),
        1 => assert_eq!(sum(&[transport]), 0, "ICMP"),
        _ => {}
    }
}

fn socket(ipv6: bool) -> impl Strategy<Value = SocketAddr> {
    if ipv6 {
        (any::<[u8; 16]>(), 1_u16..).prop_map(SocketAddr::from).boxed()
    } else {
        (any::<[u8; 4]>(), 1_u16..).prop_map(SocketAddr::from).boxed()
    }
}

fn sockets() -> impl Strategy<Value = [SocketAddr; 4]> {
    any::<bool>().prop_flat_map(|ipv6| [socket(ipv6), socket(ipv6), socket(ipv6), socket(ipv6)])
}

/// A SYN with its largest segment after so many bytes of padding.
fn syn_offering(most: u16, padding: usize) -> Packet {
    let flow = flow("10.0.0.1:4000", "10.0.0.2:80");
    let plain = tcp(flow, 1, 0, Flags::SYN, &[]);
    let mut bytes = plain.into_bytes();
    bytes.extend(vec![1; padding]);
    bytes.extend([2, 4]);
    bytes.extend(most.to_be_bytes());
    bytes.extend(vec![0; (4 - (padding % 4)) % 4]);
    bytes[32] = (((bytes.len() - 20) / 4) << 4) as u8;
    let length = (bytes.len() as u16).to_be_bytes();
    bytes[2..4].copy_from_slice(&length);
    bytes[10..12].fill(0);
    let header = sum(&[&bytes[..20]]);
    bytes[10..12].copy_from_slice(&header.to_be_bytes());
    bytes[36..38].fill(0);
    let segment = (bytes.len() as u32 - 20).to_be_bytes();
    let checksum = sum(&[&bytes[12..20], &segment, &[0, 0, 0, 6], &bytes[20..]]);
    bytes[36..38].copy_from_slice(&checksum.to_be_bytes());
    let packet = Packet::parse(1, 0, bytes).expect("a SYN");
    assert_checksums(&packet);
    packet
}

/// From the first two ends to the others.
fn rewrite_a_quotation(
    [source, destination, new_source, new_destination]: [SocketAddr; 4],
    data: &[u8],
    udp: bool,
) {
    let router = destination.ip();
    let error_for = |source, destination| {
        let packet = if udp {
            Packet::udp(source, destination, data)
        } else {
            Packet::tcp(source, destination, 7, 9, Flags::ACK, data)
        };
        packet.expect("one family").icmp_error_for(router, IcmpError::TooBig { mtu: 1_280 })
    };
    // None: of or to a group.
    let (Some(before), Some(after)) =
        (error_for(source, destination), error_for(new_source, new_destination))
    else {
        return;
    };
    let mut error = before.clone();
    let protocol = if udp { Protocol::Udp } else { Protocol::Tcp };
    error
        .set_quoted_flow(Flow { protocol, source: new_source, destination: new_destination })
        .expect("one family");
    assert_checksums(&error);
    let quotation = |packet: &Packet| packet.bytes()[if packet.is_ipv6() { 48 } else { 28 }..].to_vec();
    assert_eq!(quotation(&error), quotation(&after));
    assert_eq!(error.flow(), before.flow());
}

/// Two ends and two others, of either family.
fn ends() -> [[SocketAddr; 4]; 2] {
    [
        ["10.0.0.1:4000", "10.0.0.2:80", "192.0.2.9:61000", "198.51.100.7:443"],
        ["[fd00::1]:4000", "[fd00::2]:80", "[2001:db8::9]:61000", "[2001:db8:1::7]:443"],
    ]
    .map(|ends| ends.map(|end| end.parse().expect("an address")))
}

/// The data with which a datagram has no checksum, where some of both addresses and ports are already the new ones.
fn data_without_checksum([source, destination, new_source, new_destination]: [SocketAddr; 4]) -> Vec<u16> {
    let mixed = |old: SocketAddr, new: SocketAddr, bits: u8| {
        SocketAddr::new(
            if bits & 1 == 0 { old.ip() } else { new.ip() },
            if bits & 2 == 0 { old.port() } else { new.port() },
        )
    };
    let checksum = |bits: u8| {
        let ends = (mixed(source, new_source, bits), mixed(destination, new_destination, bits >> 2));
        let packet = Packet::udp(ends.0, ends.1, &[0, 0]).expect("one family");
        let at = if packet.is_ipv6() { 46 } else { 26 };
        u16::from_be_bytes([packet.bytes()[at], packet.bytes()[at + 1]])
    };
    (0..16).map(checksum).collect()
}

/// Of UDP a checksum of zero between two of the changes was taken for none, and the changes that followed were not in it.
#[test]
fn quoted_packet_is_rewritten_through_checksum_zero() {
    for ends in ends() {
        for data in data_without_checksum(ends) {
            for data in data.saturating_sub(1)..=data.saturating_add(1) {
                rewrite_a_quotation(ends, &data.to_be_bytes(), true);
            }
        }
    }
}

mod acceptance {
    use super::*;

    #[test]
    fn quoted_packet_is_rewritten_for_every_checksum() {
        for ends in ends() {
            for data in 0..=u16::MAX {
                rewrite_a_quotation(ends, &data.to_be_bytes(), true);
            }
        }
    }
}

proptest! {
    /// The quotation of an ICMP error, rewritten, is what its packet would have been, and every checksum is right.
    #[test]
    fn a_quotation_is_rewritten(ends in sockets(),
                                data in proptest::collection::vec(any::<u8>(), 0..600),
                                udp in any::<bool>()) {
        rewrite_a_quotation(ends, &data, udp);
    }

    /// A SYN offers at most what the gateway lets it, wherever the option stands; else it is left alone.
    #[test]
    fn the_largest_segment_is_clamped(offered in 1_u16.., most in 1_u16.., padding in 0_usize..9) {
        let before = syn_offering(offered, padding);
        let mut packet = before.clone();
        prop_assert_eq!(packet.clamp_mss(most), offered > most);
        assert_checksums(&packet);
        if offered > most {
            prop_assert_eq!(packet, syn_offering(most, padding));
        } else {
            prop_assert_eq!(packet, before);
        }
    }
}

#[test]
fn only_a_syn_offers_a_largest_segment() {
    let mut bytes = syn_offering(1_460, 0).into_bytes();
    bytes[33] = 0x10;
    let mut packet = Packet::parse(1, 0, bytes).expect("an ACK");
    let before = packet.clone();
    assert!(!packet.clamp_mss(500));
    assert_eq!(packet, before);
}

#[test]
fn an_echo_quoted_gets_its_identifier() {
    let bytes = |identifier: u16, from: [u8; 4]| {
        let mut bytes = vec![0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 1, 0, 0];
        bytes.extend(from);
        bytes.extend([10, 0, 0, 9, 8, 0, 0, 0]);
        bytes.extend(identifier.to_be_bytes());
        bytes.extend([0, 1]);
        let header = sum(&[&bytes[..20]]).to_be_bytes();
        bytes[10..12].copy_from_slice(&header);
        let echo = sum(&[&bytes[20..]]).to_be_bytes();
        bytes[22..24].copy_from_slice(&echo);
        bytes
    };
    let router = address("10.9.9.9:0").ip();
    let of = |identifier, from| {
        let packet = Packet::parse(1, 0, bytes(identifier, from)).expect("an echo");
        packet.icmp_error_for(router, IcmpError::TimeExceeded).expect("an error")
    };
    let mut error = of(77, [10, 0, 0, 1]);
    let (source, destination) = (address("192.0.2.1:99"), address("10.0.0.9:99"));
    error.set_quoted_flow(Flow { protocol: Protocol::Icmp, source, destination }).expect("one family");
    assert_checksums(&error);
    assert_eq!(error.bytes()[28..], of(99, [192, 0, 2, 1]).bytes()[28..]);
}
