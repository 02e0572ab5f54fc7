//! The firewall.

use fathom_fabric::event::StageEvent;
use fathom_fabric::packet::{Flags, IcmpError, Packet};
use fathom_fabric::stage::Stage;
use fathom_fabric::stage::firewall::{Firewall, FirewallConfig};
use fathom_fabric::truth::DropReason;

use super::bench::{Bench, MINUTE, Outcome, SECOND, Talk, address, flow, tcp};

const UNKNOWN: Outcome = Outcome::Dropped(DropReason::UnknownFlow);

fn bench(config: &str) -> Bench<Firewall> {
    let config: FirewallConfig = toml::from_str(config).expect("valid");
    Bench::new(config.build("fw").expect("valid"))
}

fn talk(bench: &mut Bench<Firewall>) -> Talk {
    Talk::open(bench, flow("10.0.0.1:4000", "10.1.0.2:80"))
}

#[test]
fn what_is_known_passes_and_nothing_else() {
    let mut bench = bench("idle = '4m'");
    assert!(bench.stage.addresses().is_empty());
    let mut talk = talk(&mut bench);
    talk.echo(&mut bench);
    let stranger = flow("10.0.0.1:5000", "10.1.0.2:80");
    assert_eq!(bench.packet(tcp(stranger, 1, 1, Flags::ACK, b"x")), UNKNOWN);
    assert_eq!(bench.packet(tcp(stranger.reversed(), 1, 1, Flags::SYN | Flags::ACK, b"")), UNKNOWN);
    bench.pass(4 * MINUTE);
    assert_eq!(talk.client_sends(&mut bench, b"x"), UNKNOWN);
    assert_eq!(talk.server_sends(&mut bench, b"x"), UNKNOWN);
    assert!(bench.sent.is_empty());
    assert_eq!(bench.forgotten(), [("idle", 4 * MINUTE)]);
}

/// `nf_conntrack_tcp_loose` = 1: the flow is taken up where it is, by whichever end sends first.
#[test]
fn loose_firewall_adopts_flows_midstream() {
    let mut bench = bench("unknown = 'admit'\nidle = '10s'\non-expiry = 'reset'");
    let mut talk = talk(&mut bench);
    for from_client in [true, false] {
        bench.event(&StageEvent::FlushFlows).expect("it can");
        let outcome = if from_client {
            talk.client_sends(&mut bench, b"x")
        } else {
            talk.server_sends(&mut bench, b"x")
        };
        outcome.packet();
        talk.echo(&mut bench);
    }
    // It knows enough of it to end it.
    bench.pass(10 * SECOND);
    let [(_, first), (_, second)] = &bench.sent[..] else { panic!("{:?}", bench.sent) };
    talk.assert_reset_to_server(first);
    talk.assert_reset_to_client(second);
}

#[test]
fn unknown_packet_can_be_answered_with_reset() {
    let mut bench = bench("unknown = 'reset'");
    let mut talk = talk(&mut bench);
    bench.event(&StageEvent::FlushFlows).expect("it can");
    assert_eq!(talk.server_sends(&mut bench, b""), UNKNOWN);
    let [(_, reset)] = &bench.sent[..] else { panic!("{:?}", bench.sent) };
    talk.assert_reset_to_server(reset);
}

#[test]
fn counted_direction_is_configured() {
    for (counts, client_keeps, server_keeps) in [
        ("either", true, true),
        ("originator", true, false),
        ("responder", false, true),
        ("each", false, false),
    ] {
        for from_client in [true, false] {
            let mut bench = bench(&format!("idle = {{ established = '10s', counts = '{counts}' }}"));
            let mut talk = talk(&mut bench);
            for _ in 0..5 {
                bench.pass(4 * SECOND);
                if bench.forgotten().is_empty() {
                    if from_client {
                        talk.client_sends(&mut bench, b"x").packet();
                    } else {
                        talk.server_sends(&mut bench, b"x").packet();
                    }
                }
            }
            let kept = if from_client { client_keeps } else { server_keeps };
            assert_eq!(bench.forgotten().is_empty(), kept, "{counts}, client sends: {from_client}");
        }
    }
}

#[test]
fn each_state_has_its_limit() {
    let limits = "{ opening = '1s', established = '9s', half-closed = '3s', closed = '2s', reset = '4s' }";
    let bench = || bench(&format!("idle = {limits}"));
    let client = flow("10.0.0.1:4000", "10.1.0.2:80");
    let mut opening = bench();
    opening.packet(tcp(client, 1, 0, Flags::SYN, &[])).packet();
    opening.pass(MINUTE);
    assert_eq!(opening.forgotten(), [("idle", SECOND)]);
    let mut established = bench();
    talk(&mut established);
    established.pass(MINUTE);
    assert_eq!(established.forgotten(), [("idle", 9 * SECOND)]);
    for (flags, expected) in [(Flags::FIN | Flags::ACK, ("idle", 3)), (Flags::RST, ("closed", 4))] {
        let mut bench = bench();
        talk(&mut bench);
        bench.packet(tcp(client, 1_001, 5_001, flags, &[])).packet();
        bench.pass(MINUTE);
        assert_eq!(bench.forgotten(), [(expected.0, expected.1 * SECOND)]);
    }
    let mut closed = bench();
    talk(&mut closed).close(&mut closed);
    closed.pass(MINUTE);
    assert_eq!(closed.forgotten(), [("closed", 2 * SECOND)]);
}

/// Azure Firewall: north-south flows 4 min and RSTs both ways, east-west ones 5 min and silence.
#[test]
fn rules_may_have_limits_of_their_own() {
    let mut bench = bench(
        "idle = '4m'\non-expiry = 'reset'\n\
         rules = [{ from = '10.0.0.0/8', to = '10.0.0.0/8', idle = '5m', on-expiry = 'silent' }]",
    );
    talk(&mut bench);
    Talk::open(&mut bench, flow("10.0.0.1:4001", "192.0.2.7:443"));
    bench.pass(4 * MINUTE);
    assert_eq!((bench.forgotten().len(), bench.sent.len()), (1, 2));
    bench.pass(MINUTE);
    assert_eq!(bench.forgotten(), [("idle", 4 * MINUTE), ("idle", 5 * MINUTE)]);
    assert_eq!(bench.sent.len(), 2);
}

#[test]
fn only_one_end_may_be_reset() {
    for (on_expiry, to_client) in [("reset-originator", true), ("reset-responder", false)] {
        let mut bench = bench(&format!("idle = '1m'\non-expiry = '{on_expiry}'"));
        let talk = talk(&mut bench);
        bench.pass(MINUTE);
        let [(_, reset)] = &bench.sent[..] else { panic!("{:?}", bench.sent) };
        if to_client {
            talk.assert_reset_to_client(reset);
        } else {
            talk.assert_reset_to_server(reset);
        }
    }
}

#[test]
fn the_first_rule_that_fits_decides() {
    let mut bench = bench(
        "rules = [{ to = '10.1.0.2', port = 80 }, { from = '10.0.0.9', action = 'reject' }, { action = 'deny' }]",
    );
    talk(&mut bench).echo(&mut bench);
    let refused = Outcome::Dropped(DropReason::Refused);
    let syn = |from: &str| tcp(flow(from, "10.1.0.2:81"), 6, 0, Flags::SYN, &[]);
    assert_eq!(bench.packet(syn("10.0.0.1:4000")), refused);
    assert!(bench.sent.is_empty());
    assert_eq!(bench.packet(syn("10.0.0.9:4000")), refused);
    let [(_, reset)] = &bench.sent[..] else { panic!("{:?}", bench.sent) };
    let segment = reset.segment().expect("TCP");
    assert!(segment.flags.has(Flags::RST | Flags::ACK));
    assert_eq!(segment.ack, 7, "RFC 9293: a RST for a SYN acknowledges it");
    let datagram = Packet::udp(address("10.0.0.9:1"), address("10.1.0.2:81"), b"x").expect("one family");
    assert_eq!(bench.packet(datagram), refused);
    assert_eq!(bench.sent.len(), 1);
}

#[test]
fn datagrams_are_flows_too() {
    let mut bench = bench("idle = { datagram = '30s' }");
    let (a, b) = (address("10.0.0.1:4000"), address("10.1.0.2:7007"));
    let there = || Packet::udp(a, b, b"x").expect("one family");
    let back = || Packet::udp(b, a, b"x").expect("one family");
    bench.packet(there()).packet();
    bench.packet(back()).packet();
    assert_eq!(bench.stage.status().flows, 1);
    bench.pass(30 * SECOND);
    assert_eq!(bench.stage.status().flows, 0);
    // Datagrams have no middle: whoever sends opens, if the rules let it.
    bench.packet(back()).packet();
    assert_eq!(bench.stage.status().flows, 1);
}

#[test]
fn icmp_errors_pass_only_for_known_flows() {
    let mut bench = bench("");
    let mut talk = talk(&mut bench);
    let router = address("10.9.9.9:0").ip();
    for packet in [talk.client_sends(&mut bench, b"x"), talk.server_sends(&mut bench, b"x")] {
        let error = packet.packet().icmp_error_for(router, IcmpError::HostUnreachable).expect("an error");
        bench.packet(error).packet();
    }
    let stranger = tcp(flow("10.0.0.1:5000", "10.1.0.2:80"), 1, 1, Flags::ACK, b"x");
    let error = stranger.icmp_error_for(router, IcmpError::HostUnreachable).expect("an error");
    assert_eq!(bench.packet(error), UNKNOWN);
}

/// Flows on the instances that go are forgotten, the others do not notice.
#[test]
fn scale_in_forgets_flows_of_removed_instances() {
    let mut bench = bench("instances = 4");
    let open = |port: u16| flow(&format!("10.0.0.1:{port}"), "10.1.0.2:80");
    let mut talks: Vec<_> = (4_000..4_400).map(|port| Talk::open(&mut bench, open(port))).collect();
    bench.event(&StageEvent::ScaleIn { instances: 3 }).expect("it can");
    let gone = bench.forgotten().len();
    assert!(bench.forgotten().iter().all(|(why, _)| *why == "scale-in"));
    // A quarter of 400; the standard deviation of a fair draw is 9.
    assert!((60..140).contains(&gone), "{gone} of 400");
    let lost = talks.iter_mut().filter_map(|talk| match talk.client_sends(&mut bench, b"x") {
        Outcome::Forwarded(..) => None,
        dropped => Some(dropped),
    });
    let lost: Vec<_> = lost.collect();
    assert_eq!(lost.len(), gone);
    assert!(lost.iter().all(|outcome| *outcome == UNKNOWN));
    for instances in [0, 3, 4] {
        assert!(bench.event(&StageEvent::ScaleIn { instances }).is_err(), "{instances} of 3");
    }
    // New flows go to those that stay: a second scale-in finds some on each.
    for port in 5_000..5_100 {
        Talk::open(&mut bench, open(port));
    }
    bench.event(&StageEvent::ScaleIn { instances: 1 }).expect("it can");
    assert!(bench.stage.status().flows > 0);
}

/// The transit time varies, packets of one flow keep their order.
#[test]
fn the_transit_time_is_as_configured() {
    let mut bench = bench("transit = { min = '100us', mean = '300us', sd = '150us' }");
    let mut talk = talk(&mut bench);
    let mut sum_ns = 0;
    let (count, mut least_ns) = (4_000, u64::MAX);
    for _ in 0..count {
        bench.pass(SECOND / 100);
        let Outcome::Forwarded(_, transit_ns) = talk.client_sends(&mut bench, b"x") else {
            panic!("it is known")
        };
        sum_ns += transit_ns;
        least_ns = least_ns.min(transit_ns);
    }
    assert!(least_ns >= 100_000, "{least_ns}");
    // The standard error of the mean is 2.4 µs.
    assert!((290_000..310_000).contains(&(sum_ns / count)), "{}", sum_ns / count);
}
