use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;

use super::*;

/// RFC 1071, section 4.1, as the RFC writes it: the sum of 16-bit words, an odd byte padded with zero, carries folded.
/// Valid data with its checksum in place sums to all ones. Not the code under test, which only ever adjusts.
fn rfc1071(parts: &[&[u8]]) -> u16 {
    let mut sum: u64 = 0;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&b| u64::from(b));
        }
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Whether every checksum of the packet is right, seen from its bytes alone.
pub(crate) fn checksums_right(bytes: &[u8]) -> bool {
    let (header, payload, protocol, pseudo): (usize, &[u8], u8, Vec<u8>) = if bytes[0] >> 4 == 4 {
        let header = usize::from(bytes[0] & 15) * 4;
        let payload = &bytes[header..];
        let mut pseudo = bytes[12..20].to_vec();
        pseudo.extend([0, bytes[9]]);
        pseudo.extend((payload.len() as u16).to_be_bytes());
        (header, payload, bytes[9], pseudo)
    } else {
        let payload = &bytes[40..];
        let mut pseudo = bytes[8..40].to_vec();
        pseudo.extend((payload.len() as u32).to_be_bytes());
        pseudo.extend([0, 0, 0, bytes[6]]);
        (40, payload, bytes[6], pseudo)
    };
    let ip = header == 40 && bytes[0] >> 4 == 6 || rfc1071(&[&bytes[..header]]) == 0xffff;
    let transport = match protocol {
        6 | 58 => rfc1071(&[&pseudo, payload]) == 0xffff,
        17 => payload[6..8] == [0, 0] || rfc1071(&[&pseudo, payload]) == 0xffff,
        1 => rfc1071(&[payload]) == 0xffff,
        _ => true,
    };
    ip && transport
}

fn socket(ipv6: bool) -> BoxedStrategy<SocketAddr> {
    if ipv6 {
        any::<([u8; 16], u16)>()
            .prop_map(|(mut ip, port)| {
                // Neither a group nor unspecified.
                ip[0] = 0xfd;
                SocketAddr::from((ip, port))
            })
            .boxed()
    } else {
        any::<([u8; 3], u16)>().prop_map(|([b, c, d], port)| SocketAddr::from(([10, b, c, d], port))).boxed()
    }
}

fn sockets() -> impl Strategy<Value = [SocketAddr; 4]> {
    any::<bool>().prop_flat_map(|ipv6| [socket(ipv6), socket(ipv6), socket(ipv6), socket(ipv6)])
}

fn flags() -> impl Strategy<Value = Flags> {
    (0u8..32).prop_map(Flags)
}

fn echo(source: IpAddr, destination: IpAddr, identifier: u16, data: &[u8]) -> Packet {
    let mut bytes = Vec::new();
    match (source, destination) {
        (IpAddr::V4(a), IpAddr::V4(b)) => etherparse::PacketBuilder::ipv4(a.octets(), b.octets(), 9)
            .icmpv4_echo_request(identifier, 7)
            .write(&mut bytes, data),
        (IpAddr::V6(a), IpAddr::V6(b)) => etherparse::PacketBuilder::ipv6(a.octets(), b.octets(), 9)
            .icmpv6_echo_request(identifier, 7)
            .write(&mut bytes, data),
        _ => unreachable!(),
    }
    .unwrap();
    Packet::parse(1, 2, bytes).unwrap()
}

fn v4(last: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], port))
}

proptest! {
    #[test]
    fn garbage_is_refused_or_read_and_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..200), version in 0u8..3) {
        // Half of it looks like IP at first sight.
        if let Some(first) = bytes.first_mut() {
            match version { 0 => *first = 0x45, 1 => *first = 0x60, _ => {} }
        }
        if bytes.len() >= 20 && bytes[0] == 0x45 {
            let length = bytes.len() as u16;
            bytes[2..4].copy_from_slice(&length.to_be_bytes());
            if version == 0 { bytes[6..8].copy_from_slice(&[0, 0]); }
        }
        if bytes.len() >= 40 && bytes[0] == 0x60 {
            let length = bytes.len() as u16 - 40;
            bytes[4..6].copy_from_slice(&length.to_be_bytes());
        }
        use_everything(bytes);
    }

    #[test]
    fn a_sound_packet_with_broken_bytes_never_panics(
        [a, b, ..] in sockets(), flags in flags(), at in 0usize..60, to in any::<u8>(), cut in 0usize..80,
    ) {
        let mut bytes = Packet::tcp(a, b, 1, 2, flags, b"hello").unwrap().into_bytes();
        let length = bytes.len();
        bytes[at % length] = to;
        bytes.truncate(length.saturating_sub(cut.saturating_sub(60)));
        use_everything(bytes);
    }

    #[test]
    fn what_is_made_is_read_back(
        [a, b, ..] in sockets(), seq in any::<u32>(), ack in any::<u32>(), flags in flags(), data in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let tcp = Packet::tcp(a, b, seq, ack, flags, &data).unwrap();
        prop_assert_eq!(tcp.flow(), Flow { protocol: Protocol::Tcp, source: a, destination: b });
        let segment = tcp.segment().unwrap();
        prop_assert_eq!((segment.seq, segment.flags, segment.payload_len as usize), (seq, flags, data.len()));
        prop_assert_eq!(segment.ack, if flags.has(Flags::ACK) { ack } else { 0 });
        prop_assert!(checksums_right(tcp.bytes()));
        let udp = Packet::udp(a, b, &data).unwrap();
        prop_assert_eq!(udp.flow(), Flow { protocol: Protocol::Udp, source: a, destination: b });
        prop_assert!(checksums_right(udp.bytes()));
        let echo = echo(a.ip(), b.ip(), 77, &data);
        prop_assert_eq!(echo.flow().source, SocketAddr::new(a.ip(), 77));
        prop_assert_eq!(echo.flow().destination, SocketAddr::new(b.ip(), 77));
        prop_assert!(echo.is_echo_request() && checksums_right(echo.bytes()));
    }

    #[test]
    fn rewriting_endpoints_keeps_checksums_valid(
        [a, b, to, from] in sockets(), flags in flags(), seq in any::<u32>(), data in prop::collection::vec(any::<u8>(), 0..50), kind in 0..3,
    ) {
        let mut packet = match kind {
            0 => Packet::tcp(a, b, seq, !seq, flags, &data).unwrap(),
            1 => Packet::udp(a, b, &data).unwrap(),
            _ => echo(a.ip(), b.ip(), a.port(), &data),
        };
        let (before, hops) = (packet.clone(), packet.hop_limit());
        packet.set_destination(to).unwrap();
        packet.set_source(from).unwrap();
        prop_assert!(packet.decrement_hop_limit());
        prop_assert!(checksums_right(packet.bytes()), "{:02x?}", packet.bytes());
        prop_assert_eq!(packet.hop_limit(), hops - 1);
        let again = Packet::parse(packet.id, packet.in_ns, packet.bytes().to_vec()).unwrap();
        prop_assert_eq!(&again, &packet, "what it believes is what its bytes say");
        prop_assert_eq!(packet.flow().addresses(), (from.ip(), to.ip()));
        packet.set_destination(before.flow().destination).unwrap();
        packet.set_source(before.flow().source).unwrap();
        prop_assert_eq!(packet.flow(), before.flow());
        prop_assert_eq!(&packet.bytes()[20..], &before.bytes()[20..], "and there is a way back");
    }

    #[test]
    fn a_broken_checksum_stays_broken([a, b, to, _] in sockets(), flip in 1u16..) {
        let mut bytes = Packet::udp(a, b, b"x").unwrap().into_bytes();
        let at = bytes.len() - 3;
        let broken = u16::from_be_bytes([bytes[at], bytes[at + 1]]) ^ flip;
        // 0 would say "no checksum"; 0 and all ones are the same number.
        prop_assume!(broken != 0 && broken != 0xffff && broken ^ flip != 0xffff);
        bytes[at..at + 2].copy_from_slice(&broken.to_be_bytes());
        let mut packet = Packet::parse(0, 0, bytes).unwrap();
        prop_assert!(!checksums_right(packet.bytes()));
        packet.set_destination(to).unwrap();
        prop_assert!(!checksums_right(packet.bytes()));
    }

    #[test]
    fn an_absent_udp_checksum_stays_absent(to in socket(false)) {
        let mut bytes = Packet::udp(v4(1, 5), v4(2, 6), b"abc").unwrap().into_bytes();
        bytes[26..28].copy_from_slice(&[0, 0]);
        let mut packet = Packet::parse(0, 0, bytes).unwrap();
        packet.set_source(to).unwrap();
        prop_assert_eq!(&packet.bytes()[26..28], &[0, 0]);
        prop_assert!(checksums_right(packet.bytes()));
    }

    #[test]
    fn a_udp_checksum_never_becomes_absent(port in any::<u16>(), data in any::<u16>()) {
        let mut packet = Packet::udp(v4(1, 5), v4(2, 6), &data.to_be_bytes()).unwrap();
        // The port that makes the sum all ones, so that its complement is 0: found by asking the checksum with port 0.
        packet.set_source(v4(1, 0)).unwrap();
        let sum = u16::from_be_bytes([packet.bytes()[26], packet.bytes()[27]]);
        for port in [port, sum] {
            packet.set_source(v4(1, port)).unwrap();
            prop_assert_ne!(&packet.bytes()[26..28], &[0, 0]);
            prop_assert!(checksums_right(packet.bytes()));
        }
    }

    #[test]
    fn resets_are_as_rfc_9293_says(
        [a, b, ..] in sockets(), seq in any::<u32>(), ack in any::<u32>(), flags in flags(), data in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let packet = Packet::tcp(a, b, seq, ack, flags, &data).unwrap();
        let Some(reset) = packet.reset_for() else {
            prop_assert!(flags.has(Flags::RST));
            return Ok(());
        };
        prop_assert!(!flags.has(Flags::RST));
        prop_assert_eq!(reset.flow(), packet.flow().reversed());
        prop_assert!(checksums_right(reset.bytes()));
        let it = reset.segment().unwrap();
        if flags.has(Flags::ACK) {
            prop_assert_eq!((it.seq, it.flags), (ack, Flags::RST));
        } else {
            let length = data.len() as u32 + u32::from(flags.0 & 2 != 0) + u32::from(flags.0 & 1 != 0);
            prop_assert_eq!((it.seq, it.ack, it.flags), (0, seq.wrapping_add(length), Flags::RST | Flags::ACK));
        }
        prop_assert_eq!(reset.reset_for(), None, "never a RST for a RST");
    }

    #[test]
    fn icmp_errors_quote_what_they_are_about([a, b, from, _] in sockets(), data in prop::collection::vec(any::<u8>(), 0..1500)) {
        let packet = Packet::udp(a, b, &data).unwrap();
        let errors = [
            (IcmpError::NetworkUnreachable, (3, 0), (1, 0)), (IcmpError::HostUnreachable, (3, 1), (1, 3)),
            (IcmpError::PortUnreachable, (3, 3), (1, 4)), (IcmpError::Prohibited, (3, 13), (1, 1)),
            (IcmpError::TooBig { mtu: 1_400 }, (3, 4), (2, 0)), (IcmpError::TimeExceeded, (11, 0), (3, 0)),
        ];
        for (error, ipv4, ipv6) in errors {
            let told = packet.icmp_error_for(from.ip(), error).unwrap();
            prop_assert_eq!(told.flow().addresses(), (from.ip(), a.ip()));
            prop_assert_eq!(told.icmp_type(), Some(if a.is_ipv6() { ipv6 } else { ipv4 }));
            prop_assert!(told.is_icmp_error() && checksums_right(told.bytes()));
            prop_assert_eq!(told.quoted_flow(), Some(packet.flow()));
            let most = if a.is_ipv6() { 1_280 } else { 576 };
            prop_assert!(told.len() <= most);
            let at = told.len() - packet.len().min(told.len() - if a.is_ipv6() { 48 } else { 28 });
            prop_assert_eq!(&told.bytes()[at..], &packet.bytes()[..told.len() - at]);
            if let IcmpError::TooBig { mtu } = error {
                // RFC 1191 section 4: the low 16 bits of the second word; RFC 4443 section 3.2: all 32.
                prop_assert_eq!(&told.bytes()[at - 4..at], &u32::from(mtu).to_be_bytes());
            }
            prop_assert_eq!(told.icmp_error_for(b.ip(), error), None, "never an error about an error");
        }
    }

    #[test]
    fn fragments_make_up_the_packet(length in 0usize..4_000, mtu in 68u16..1_500, again in 68u16..400) {
        let data: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
        let mut bytes = Packet::udp(v4(1, 5), v4(2, 6), &data).unwrap().into_bytes();
        bytes[6] &= !0x40;
        let checksum = !rfc1071(&[&bytes[..10], &bytes[12..20]]);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        let whole = Packet::parse(3, 4, bytes).unwrap();
        let Some(fragments) = whole.fragments(mtu) else {
            prop_assert!(whole.len() <= usize::from(mtu));
            return Ok(());
        };
        let fragments: Vec<_> = fragments.into_iter().flat_map(|f| f.fragments(again).unwrap_or_else(|| vec![f])).collect();
        let mut together = vec![0; whole.len() - 20];
        for (i, fragment) in fragments.iter().enumerate() {
            prop_assert!(fragment.len() <= usize::from(mtu) && fragment.is_fragment());
            prop_assert_eq!(rfc1071(&[&fragment.bytes()[..20]]), 0xffff);
            prop_assert_eq!(fragment.is_later_fragment(), i > 0);
            prop_assert_eq!(fragment.flow().source.port(), if i > 0 { 0 } else { 5 });
            prop_assert_eq!(fragment.bytes()[6] & 0x20 != 0, i + 1 < fragments.len(), "more follow");
            let at = usize::from(u16::from_be_bytes([fragment.bytes()[6] & 0x1f, fragment.bytes()[7]])) * 8;
            together[at..at + fragment.len() - 20].copy_from_slice(&fragment.bytes()[20..]);
        }
        prop_assert_eq!(&together, &whole.bytes()[20..]);
        // Rewritten piece by piece, the whole is right again.
        let mut rewritten = whole.bytes().to_vec();
        for mut fragment in fragments {
            fragment.set_source(v4(99, 1_234)).unwrap();
            let at = usize::from(u16::from_be_bytes([fragment.bytes()[6] & 0x1f, fragment.bytes()[7]])) * 8;
            rewritten[20 + at..at + fragment.len()].copy_from_slice(&fragment.bytes()[20..]);
            prop_assert_eq!(rfc1071(&[&fragment.bytes()[..20]]), 0xffff);
        }
        let mut ends = whole.clone();
        ends.set_source(v4(99, 1_234)).unwrap();
        rewritten[..20].copy_from_slice(&ends.bytes()[..20]);
        prop_assert!(checksums_right(&rewritten));
    }
}

/// Everything that a packet can be asked or made to do; panics are what this looks for.
fn use_everything(bytes: Vec<u8>) {
    let Ok(mut packet) = Packet::parse(1, 0, bytes) else { return };
    let _ = (packet.segment(), packet.quoted_flow(), packet.is_echo_request(), packet.reset_for());
    let _ = (packet.syn_ack_for(1), packet.ack_for(), packet.fragments(68));
    let _ = packet.icmp_error_for(v4(1, 0).ip(), IcmpError::TimeExceeded);
    let flow = packet.flow();
    packet.set_source(flow.destination).unwrap();
    packet.set_destination(flow.source).unwrap();
    let _ = packet.decrement_hop_limit();
    let again = Packet::parse(1, 0, packet.bytes().to_vec()).unwrap();
    assert_eq!(again, packet);
}

#[test]
fn checksum_matches_published_examples() {
    // The example of RFC 1071, section 3: 0001 f203 f4f5 f6f7 sums to ddf2.
    assert_eq!(rfc1071(&[&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]]), 0xddf2);
    // A packet caught in the wild (Wikipedia's "IPv4 header checksum" example).
    let header =
        [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
    assert_eq!(rfc1071(&[&header]), 0xffff);
}

#[test]
fn a_handshake_of_made_segments_adds_up() {
    let syn = Packet::syn(v4(1, 40_000), v4(2, 80), u32::MAX).unwrap();
    let syn_ack = syn.syn_ack_for(500).unwrap();
    let ack = syn_ack.ack_for().unwrap();
    let (it, last) = (syn_ack.segment().unwrap(), ack.segment().unwrap());
    assert_eq!((it.seq, it.ack, it.flags), (500, 0, Flags::SYN | Flags::ACK));
    assert_eq!((last.seq, last.ack, last.flags), (0, 501, Flags::ACK));
    assert_eq!(ack.flow(), syn.flow());
    assert_eq!(syn_ack.syn_ack_for(1), None);
    let reset = Packet::reset_towards(syn.flow(), last.seq, Some(last.ack)).unwrap().segment().unwrap();
    assert_eq!((reset.seq, reset.ack, reset.flags), (0, 501, Flags::RST | Flags::ACK));
}

#[test]
fn families_do_not_mix() {
    let six: SocketAddr = "[fd00::1]:1".parse().unwrap();
    assert_eq!(Packet::syn(v4(1, 1), six, 1), None);
    let mut packet = Packet::syn(v4(1, 1), v4(2, 2), 1).unwrap();
    let before = packet.clone();
    assert_eq!(packet.set_source(six), Err(FamilyMismatch));
    assert_eq!(packet, before);
    assert_eq!(packet.icmp_error_for(six.ip(), IcmpError::TimeExceeded), None);
}

#[test]
fn the_last_hop_is_kept() {
    let mut packet = echo(v4(1, 0).ip(), v4(2, 0).ip(), 1, &[]);
    for left in (1..9).rev() {
        assert!(packet.decrement_hop_limit());
        assert_eq!(packet.hop_limit(), left);
        assert!(checksums_right(packet.bytes()));
    }
    let before = packet.clone();
    assert!(!packet.decrement_hop_limit());
    assert_eq!(packet, before);
}

#[test]
fn ipv6_extensions_are_passed_over_and_fragments_known() {
    // A fragment header (RFC 8200, section 4.5) before UDP: offset 0 with more to follow, then offset 8.
    let udp = Packet::udp("[fd00::1]:5".parse().unwrap(), "[fd00::2]:6".parse().unwrap(), &[7; 8]).unwrap();
    let fragment = |offset_and_more: u16, part: &[u8]| {
        let mut bytes = udp.bytes()[..40].to_vec();
        bytes[4..6].copy_from_slice(&(8 + part.len() as u16).to_be_bytes());
        bytes[6] = 44;
        bytes.extend([17, 0]);
        bytes.extend(offset_and_more.to_be_bytes());
        bytes.extend([0, 0, 0, 9]);
        bytes.extend(part);
        Packet::parse(1, 0, bytes).unwrap()
    };
    let first = fragment(1, &udp.bytes()[40..48]);
    assert_eq!((first.flow(), first.is_fragment(), first.is_later_fragment()), (udp.flow(), true, false));
    let second = fragment(8, &udp.bytes()[48..]);
    assert_eq!((second.flow().source.port(), second.is_later_fragment()), (0, true));
    assert_eq!(second.flow().protocol, Protocol::Udp);
    assert_eq!(
        (second.reset_for(), second.icmp_error_for("fd00::9".parse().unwrap(), IcmpError::TimeExceeded)),
        (None, None)
    );
}

#[test]
fn bytes_after_the_packet_are_cut_off() {
    let packet = Packet::udp(v4(1, 5), v4(2, 6), b"abc").unwrap();
    let mut bytes = packet.bytes().to_vec();
    bytes.extend([0; 9]);
    assert_eq!(Packet::parse(0, 0, bytes).unwrap(), packet);
}
