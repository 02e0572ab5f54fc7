//! Bytes that may be an IP packet: refused, or read, asked and rewritten. No panic; what a packet believes of itself is
//! what its bytes say, before and after; a sound header checksum stays sound.
#![no_main]

use fathom_fabric::packet::{IcmpError, Packet};
use libfuzzer_sys::fuzz_target;

/// RFC 1071, over a header whose length is even.
fn sums_to_ones(header: &[u8]) -> bool {
    let mut sum: u32 =
        header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff
}

fn header_is_sound(packet: &Packet) -> bool {
    let bytes = packet.bytes();
    packet.is_ipv6() || sums_to_ones(&bytes[..usize::from(bytes[0] & 15) * 4])
}

fn agrees_with_its_bytes(packet: &Packet) {
    let again = Packet::parse(packet.id, packet.in_ns, packet.bytes().to_vec()).expect("it was read before");
    assert_eq!(&again, packet);
}

fuzz_target!(|data: &[u8]| {
    let Ok(mut packet) = Packet::parse(1, 2, data.to_vec()) else { return };
    agrees_with_its_bytes(&packet);
    let sound = header_is_sound(&packet);
    let flow = packet.flow();
    let made = [
        packet.reset_for(),
        packet.syn_ack_for(7),
        packet.ack_for(),
        packet.icmp_error_for(flow.destination.ip(), IcmpError::TimeExceeded),
        packet.icmp_error_for(flow.destination.ip(), IcmpError::TooBig { mtu: 1_280 }),
    ];
    for made in made.iter().flatten() {
        assert!(header_is_sound(made));
        agrees_with_its_bytes(made);
    }
    if let Some(quoted) = packet.quoted_flow() {
        packet.set_quoted_flow(quoted.reversed()).ok();
        agrees_with_its_bytes(&packet);
    }
    for fragment in packet.fragments(68).into_iter().flatten() {
        assert!(fragment.len() <= 68 && (!sound || header_is_sound(&fragment)));
        agrees_with_its_bytes(&fragment);
    }
    packet.set_source(flow.destination).expect("of the same family");
    packet.set_destination(flow.source).expect("of the same family");
    agrees_with_its_bytes(&packet);
    let left = packet.hop_limit();
    assert_eq!(packet.decrement_hop_limit(), left > 1);
    agrees_with_its_bytes(&packet);
    if sound {
        assert!(header_is_sound(&packet));
    }
});
