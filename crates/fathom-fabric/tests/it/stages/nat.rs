//! The NAT gateway.

use std::collections::BTreeMap;

use fathom_fabric::event::StageEvent;
use fathom_fabric::packet::{Flags, Flow, IcmpError, Packet};
use fathom_fabric::stage::Stage;
use fathom_fabric::stage::nat::{Nat, NatConfig};
use fathom_fabric::truth::{DropReason, What};
use proptest::prelude::*;

use super::bench::{Bench, MINUTE, Outcome, SECOND, Talk, address, flow, tcp};

const UNKNOWN: Outcome = Outcome::Dropped(DropReason::UnknownFlow);

fn bench(config: &str) -> Bench<Nat> {
    let config: NatConfig = toml::from_str(&format!("addresses = ['192.0.2.1']\n{config}")).expect("valid");
    Bench::new(config.build("nat").expect("valid"))
}

fn inside(port: u16) -> Flow {
    flow(&format!("10.0.0.1:{port}"), "198.51.100.7:443")
}

#[test]
fn what_goes_out_leaves_in_the_outer_name() {
    let mut bench = bench("");
    let mut talk = Talk::open(&mut bench, inside(4_000));
    assert_eq!(talk.server.destination.ip(), bench.stage.addresses()[0]);
    assert!(talk.server.destination.port() >= 1_024);
    talk.echo(&mut bench);
    let outer = talk.server.destination.to_string();
    assert_eq!(bench.count(|what| matches!(what, What::FlowOpened { to: Some(to), .. } if *to == outer)), 1);
    assert!(bench.claims.is_empty(), "answers come to its own address anyway");
}

/// Azure and AWS: silence at the limit, then a RST to whoever sends next, and only to that end.
#[test]
fn expired_flow_resets_only_the_next_sender() {
    let mut bench = bench("idle = '350s'");
    let mut talk = Talk::open(&mut bench, inside(4_000));
    talk.echo(&mut bench);
    bench.pass(350 * SECOND);
    assert!(bench.sent.is_empty());
    assert_eq!(bench.forgotten(), [("idle", 350 * SECOND)]);
    assert_eq!(talk.client_sends(&mut bench, b""), UNKNOWN);
    let [(_, reset)] = &bench.sent[..] else { panic!("{:?}", bench.sent) };
    talk.assert_reset_to_client(reset);
    assert_eq!(talk.server_sends(&mut bench, b""), UNKNOWN, "and so from the other side");
    talk.assert_reset_to_server(&bench.sent[1].1);
}

#[test]
fn a_silent_one_stays_silent() {
    let mut bench = bench("unknown = 'drop'");
    let mut talk = Talk::open(&mut bench, inside(4_000));
    bench.pass(4 * MINUTE);
    assert_eq!(talk.client_sends(&mut bench, b"x"), UNKNOWN);
    assert!(bench.sent.is_empty());
}

/// What nobody inside has asked for ends here, a SYN too.
#[test]
fn nothing_comes_in_unasked() {
    let mut bench = bench("unknown = 'admit'");
    let outside = flow("198.51.100.7:443", "192.0.2.1:2000");
    for flags in [Flags::SYN, Flags::ACK] {
        assert_eq!(bench.packet(tcp(outside, 1, 1, flags, &[])), Outcome::Dropped(DropReason::Refused));
    }
    let talk = Talk::open(&mut bench, inside(4_000));
    let stranger = Flow { source: address("198.51.100.8:443"), ..talk.server };
    let outcome = bench.packet(tcp(stranger, 1, 1, Flags::ACK, &[]));
    assert_eq!(outcome, Outcome::Dropped(DropReason::Refused), "a port is open to its own destination only");
}

#[test]
fn ports_run_out_for_each_destination() {
    let mut bench = bench("ports = [1024, 1027]");
    for port in 4_000..4_004 {
        Talk::open(&mut bench, inside(port));
    }
    let fifth = tcp(inside(4_004), 1, 0, Flags::SYN, &[]);
    assert_eq!(bench.packet(fifth.clone()), Outcome::Dropped(DropReason::NoPort));
    // Another destination may use the same ports.
    Talk::open(&mut bench, flow("10.0.0.1:4000", "198.51.100.8:443"));
    bench.event(&StageEvent::FlushFlows).expect("it can");
    bench.packet(fifth).packet();
}

/// Azure holds a port after the connection's end: 65 s after FIN, 16 s after RST; here with a cool-down besides.
#[test]
fn a_port_is_held_for_a_while() {
    for (how, held) in [("fin", 65), ("rst", 16), ("idle", 240)] {
        let mut bench = bench("ports = [1024, 1024]\ncool-down = '5s'");
        let mut talk = Talk::open(&mut bench, inside(4_000));
        match how {
            "fin" => talk.close(&mut bench),
            "rst" => {
                bench.packet(tcp(inside(4_000), 1_001, 0, Flags::RST, &[])).packet();
            }
            _ => {}
        }
        let syn = tcp(inside(4_001), 1, 0, Flags::SYN, &[]);
        bench.pass((held + 5) * SECOND - 1);
        assert_eq!(bench.packet(syn.clone()), Outcome::Dropped(DropReason::NoPort), "{how}");
        bench.pass(1);
        bench.packet(syn).packet();
    }
}

#[test]
fn port_without_cooldown_is_free_immediately() {
    let mut bench = bench("ports = [1024, 1024]");
    Talk::open(&mut bench, inside(4_000));
    bench.pass(4 * MINUTE - 1);
    let syn = tcp(inside(4_001), 1, 0, Flags::SYN, &[]);
    assert_eq!(bench.packet(syn.clone()), Outcome::Dropped(DropReason::NoPort));
    bench.pass(1);
    bench.packet(syn).packet();
}

#[test]
fn errors_find_the_sender() {
    let mut bench = bench("");
    let mut talk = Talk::open(&mut bench, inside(4_000));
    let router = address("203.0.113.9:0").ip();
    let too_big = IcmpError::TooBig { mtu: 1_280 };
    let out = talk.client_sends(&mut bench, &[7; 600]).packet();
    let error = bench.packet(out.icmp_error_for(router, too_big).expect("an error")).packet();
    assert_eq!(error.flow().destination.ip(), talk.client.source.ip());
    assert_eq!(error.quoted_flow(), Some(talk.client));
    let back = talk.server_sends(&mut bench, &[7; 600]).packet();
    let inner = address("10.0.0.254:0").ip();
    let error = bench.packet(back.icmp_error_for(inner, too_big).expect("an error")).packet();
    assert_eq!(error.quoted_flow(), Some(talk.server));
    assert_eq!(
        error.flow().source.ip(),
        talk.server.destination.ip(),
        "nothing of the inside is seen outside"
    );
}

/// The identifier of an echo is its port.
#[test]
fn echoes_are_translated_by_their_identifier() {
    let mut bench = bench("ports = [7, 8]");
    let echo = |kind: u8, source: [u8; 4], destination: [u8; 4], identifier: u16| {
        let mut bytes = vec![0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 1, 0, 0];
        bytes.extend(source);
        bytes.extend(destination);
        bytes.extend([kind, 0, 0, 0]);
        bytes.extend(identifier.to_be_bytes());
        bytes.extend([0, 1]);
        for (from, to, at) in [(0, 20, 10), (20, 28, 22)] {
            let words = bytes[from..to].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
            let sum = words.sum::<u32>();
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        Packet::parse(1, 0, bytes).expect("an echo")
    };
    let mut outer = Vec::new();
    for source in [[10, 0, 0, 1], [10, 0, 0, 2]] {
        let out = bench.packet(echo(8, source, [198, 51, 100, 7], 500)).packet();
        let identifier = out.flow().source.port();
        let back = bench.packet(echo(0, [198, 51, 100, 7], [192, 0, 2, 1], identifier)).packet();
        assert_eq!(back.bytes(), echo(0, [198, 51, 100, 7], source, 500).bytes());
        outer.push(identifier);
    }
    outer.sort_unstable();
    assert_eq!(outer, [7, 8], "the same identifier of two hosts becomes two");
}

/// The laws, in so many cases.
macro_rules! laws {
    ($cases:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases($cases))]

            /// Two flows never share an outer port towards one destination, and what comes back finds the end that asked.
            #[test]
            fn a_mapping_is_one_to_one(packets in proptest::collection::vec((0_u8..4, 0_u16..6, 0_u8..3, 0_u64..90), 1..150),
                                       cool_down in 0_u64..100) {
                let mut bench = bench(&format!("ports = [1024, 1033]\ncool-down = '{cool_down}s'"));
                let mut open: BTreeMap<Flow, Flow> = BTreeMap::new();
                for (host, port, destination, wait) in packets {
                    bench.pass(wait * SECOND);
                    let forgotten: Vec<_> = bench.truth.drain(..).filter_map(|truth| match truth.what {
                        What::FlowForgotten { flow, .. } => Some(flow),
                        _ => None,
                    }).collect();
                    for flow in forgotten {
                        prop_assert!(open.remove(&flow).is_some(), "{flow} was not known");
                    }
                    let sent = flow(&format!("10.0.0.{host}:{}", 4_000 + port), &format!("198.51.100.{destination}:443"));
                    match bench.packet(tcp(sent, 1, 0, Flags::SYN, &[])) {
                        Outcome::Forwarded(packet, _) => {
                            let outer = packet.flow();
                            prop_assert_eq!(outer.destination, sent.destination);
                            if let Some(known) = open.insert(sent, outer) {
                                prop_assert_eq!(known, outer, "a mapping stays as long as its flow");
                            }
                            let twice = open.values().filter(|other| **other == outer).count();
                            prop_assert_eq!(twice, 1, "{} is used twice", outer);
                            let back = bench.packet(packet.syn_ack_for(5).expect("a SYN")).packet();
                            prop_assert_eq!(back.flow(), sent.reversed());
                        }
                        outcome => {
                            prop_assert_eq!(outcome, Outcome::Dropped(DropReason::NoPort));
                            let used = open.keys().filter(|flow| flow.destination == sent.destination).count();
                            prop_assert!(cool_down > 0 || used == 10, "{used} of 10 ports are used");
                        }
                    }
                    prop_assert_eq!(bench.stage.status().flows, open.len());
                }
            }
        }
    };
}

laws!(80);

mod acceptance {
    use super::*;

    laws!(256);
}
