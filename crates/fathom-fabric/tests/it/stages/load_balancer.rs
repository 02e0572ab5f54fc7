//! The load balancer.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fathom_fabric::event::StageEvent;
use fathom_fabric::packet::{Flags, Flow, IcmpError, Packet};
use fathom_fabric::stage::Stage;
use fathom_fabric::stage::limits::{IdleLimits, OnExpiry, Unknown};
use fathom_fabric::stage::load_balancer::{
    DeadBackend, Distribution, Frontend, LoadBalancer, LoadBalancerConfig,
};
use fathom_fabric::truth::{DropReason, What};
use proptest::prelude::*;

use super::bench::{Bench, MINUTE, Outcome, SECOND, Talk, address, flow, tcp};

/// Two backends, one frontend, no probes.
fn config() -> LoadBalancerConfig {
    toml::from_str(
        "address = '10.0.0.100'\nbackends = ['a', 'b']\nfrontends = [{ port = 80, backend-port = 8080 }]",
    )
    .expect("valid")
}

fn resolve(name: &str) -> Option<IpAddr> {
    let last = 10 + name.bytes().next()? - b'a';
    Some(IpAddr::from([10, 0, 1, last]))
}

fn bench(config: LoadBalancerConfig) -> Bench<LoadBalancer> {
    Bench::new(config.build("lb", &resolve).expect("valid"))
}

fn client(port: u16) -> Flow {
    flow(&format!("10.0.0.1:{port}"), "10.0.0.100:80")
}

/// A flow whose SYN goes to this backend.
fn client_of(bench: &mut Bench<LoadBalancer>, backend: &str) -> Flow {
    let wanted = resolve(backend);
    let goes_there = |port: &u16| {
        let outcome = bench.packet(tcp(client(*port), 1, 0, Flags::SYN, &[]));
        Some(outcome.packet().flow().destination.ip()) == wanted
    };
    let port = (2_000..3_000).find(goes_there).expect("one in a thousand");
    bench.event(&StageEvent::FlushFlows).expect("it can");
    client(port)
}

fn failover(from: &str, forget: bool) -> StageEvent {
    StageEvent::Failover { from: from.to_owned(), forget }
}

#[test]
fn a_connection_is_translated_both_ways() {
    let mut bench = bench(config());
    let mut talk = Talk::open(&mut bench, client(4_000));
    assert_eq!(talk.server.source.port(), 8_080);
    assert_eq!(talk.server.destination, talk.client.source, "the backend sees the client's own address");
    talk.echo(&mut bench);
    assert_eq!(bench.claims.iter().copied().collect::<Vec<_>>(), [talk.server]);
    let opened = |what: &What| matches!(what, What::FlowOpened { flow, to: Some(_) } if *flow == talk.client);
    assert_eq!(bench.count(opened), 1);
    talk.close(&mut bench);
    bench.pass(120 * SECOND);
    assert_eq!(bench.forgotten(), [("closed", 120 * SECOND)]);
    assert!(bench.claims.is_empty(), "a connection that is over is not claimed");
    assert_eq!(bench.stage.next_due_ns(), None);
}

#[test]
fn another_port_than_the_frontends_is_refused() {
    let mut bench = bench(config());
    let elsewhere = flow("10.0.0.1:4000", "10.0.0.100:81");
    assert_eq!(bench.packet(tcp(elsewhere, 1, 0, Flags::SYN, &[])), Outcome::Dropped(DropReason::Refused));
    let mut every = bench_of_every_port();
    let there = every.packet(tcp(elsewhere, 1, 0, Flags::SYN, &[])).packet();
    assert_eq!(there.flow().destination.port(), 81);
}

fn bench_of_every_port() -> Bench<LoadBalancer> {
    bench(LoadBalancerConfig { frontends: Vec::new(), ..config() })
}

#[test]
fn several_frontends_lead_to_their_own_ports() {
    let frontends =
        vec![Frontend { port: 80, backend_port: Some(8_080) }, Frontend { port: 5_432, backend_port: None }];
    let mut bench = bench(LoadBalancerConfig { frontends, ..config() });
    for (port, expected) in [(80, 8_080), (5_432, 5_432)] {
        let talk = Talk::open(&mut bench, flow("10.0.0.1:4000", &format!("10.0.0.100:{port}")));
        assert_eq!(talk.server.source.port(), expected);
    }
}

/// Azure's default: at the idle limit nothing is said, and nothing later either.
#[test]
fn an_idle_connection_is_forgotten_in_silence() {
    let mut bench = bench(config());
    let mut talk = Talk::open(&mut bench, client(4_000));
    bench.pass(4 * MINUTE - 1);
    talk.echo(&mut bench);
    bench.pass(4 * MINUTE);
    assert_eq!(bench.forgotten(), [("idle", 4 * MINUTE)]);
    assert_eq!(talk.client_sends(&mut bench, b"x"), Outcome::Dropped(DropReason::UnknownFlow));
    assert!(
        bench.claims.contains(&talk.server),
        "the backend's answers must not reach the client in its own name"
    );
    assert_eq!(talk.server_sends(&mut bench, b"x"), Outcome::Dropped(DropReason::UnknownFlow));
    assert!(bench.sent.is_empty());
    bench.pass(20 * MINUTE);
    assert!(bench.claims.is_empty(), "in the end nobody sends any more");
}

/// Azure's "TCP reset on idle": both ends, at the limit.
#[test]
fn an_idle_connection_is_reset_both_ways() {
    let mut bench = bench(LoadBalancerConfig { on_expiry: OnExpiry::Reset, ..config() });
    let mut talk = Talk::open(&mut bench, client(4_000));
    talk.echo(&mut bench);
    let until_ns = bench.now_ns + 4 * MINUTE;
    bench.pass(10 * MINUTE);
    let [(at_client_ns, to_client), (at_server_ns, to_server)] = &bench.sent[..] else {
        panic!("two RSTs: {:?}", bench.sent)
    };
    talk.assert_reset_to_client(to_client);
    talk.assert_reset_to_server(to_server);
    assert_eq!([*at_client_ns, *at_server_ns], [until_ns; 2]);
    assert_eq!(bench.count(|what| matches!(what, What::ResetSent { .. })), 2);
}

/// A connection that never became one is not reset (Azure: established ones only).
#[test]
fn a_half_open_connection_ends_in_silence() {
    let mut bench = bench(LoadBalancerConfig { on_expiry: OnExpiry::Reset, ..config() });
    bench.packet(tcp(client(4_000), 1, 0, Flags::SYN, &[])).packet();
    bench.pass(10 * MINUTE);
    assert_eq!(bench.forgotten(), [("idle", 120 * SECOND)]);
    assert!(bench.sent.is_empty());
}

#[test]
fn unknown_flow_is_handled_as_configured() {
    let mut resets = bench(LoadBalancerConfig { unknown: Unknown::Reset, ..config() });
    let mut talk = Talk::open(&mut resets, client(4_000));
    resets.event(&StageEvent::FlushFlows).expect("it can");
    assert_eq!(talk.client_sends(&mut resets, b""), Outcome::Dropped(DropReason::UnknownFlow));
    assert_eq!(talk.server_sends(&mut resets, b""), Outcome::Dropped(DropReason::UnknownFlow));
    let [(_, to_client), (_, to_server)] = &resets.sent[..] else { panic!("{:?}", resets.sent) };
    talk.assert_reset_to_client(to_client);
    talk.assert_reset_to_server(to_server);

    let mut admits = bench(LoadBalancerConfig { unknown: Unknown::Admit, ..config() });
    let mut talk = Talk::open(&mut admits, client(4_000));
    for _ in 0..3 {
        admits.event(&StageEvent::FlushFlows).expect("it can");
        talk.echo(&mut admits);
        admits.event(&StageEvent::FlushFlows).expect("it can");
        let back = talk.server_sends(&mut admits, b"x").packet();
        assert_eq!(back.flow(), talk.client.reversed(), "the backend may be the first to send");
        talk.echo(&mut admits);
    }
}

/// A RST, or an answer to it, must never be answered with a RST.
#[test]
fn resets_are_not_answered() {
    for unknown in [Unknown::Drop, Unknown::Reset, Unknown::Admit] {
        let mut bench = bench(LoadBalancerConfig { unknown, ..config() });
        let reset = tcp(client(4_000), 1, 0, Flags::RST, &[]);
        assert_eq!(bench.packet(reset), Outcome::Dropped(DropReason::UnknownFlow));
        assert!(bench.sent.is_empty() && bench.truth.is_empty());
    }
}

/// "Conntrack entry deleted, backend changed": hashed as new, the packet meets a backend that knows nothing of it.
#[test]
fn flow_forgotten_by_failover_reaches_other_backend() {
    let mut bench = bench(LoadBalancerConfig { unknown: Unknown::Admit, ..config() });
    let flow = client_of(&mut bench, "a");
    let mut talk = Talk::open(&mut bench, flow);
    bench.event(&failover("a", true)).expect("a is a backend");
    let there = talk.client_sends(&mut bench, b"x").packet();
    assert_eq!(Some(there.flow().destination.ip()), resolve("b"));
    // Backend b's kernel answers with a RST, which reaches the client in the name of the virtual address.
    let reset = bench.packet(there.reset_for().expect("TCP")).packet();
    talk.assert_reset_to_client(&reset);
    assert_eq!(reset.segment().map(|segment| segment.flags), Some(Flags::RST));
}

#[test]
fn failover_keeps_old_flows_unless_forgetting() {
    let mut bench = bench(config());
    let flow = client_of(&mut bench, "a");
    let mut talk = Talk::open(&mut bench, flow);
    bench.event(&failover("a", false)).expect("a is a backend");
    talk.echo(&mut bench);
    for port in 5_000..5_100 {
        let there = bench.packet(tcp(client(port), 1, 0, Flags::SYN, &[])).packet();
        assert_eq!(Some(there.flow().destination.ip()), resolve("b"), "new flows avoid it");
    }
    bench.event(&failover("10.0.1.10", true)).expect("a by its address");
    assert_eq!(talk.client_sends(&mut bench, b""), Outcome::Dropped(DropReason::UnknownFlow));
    bench.event(&failover("b", true)).expect("b is a backend");
    let syn = tcp(client(6_000), 1, 0, Flags::SYN, &[]);
    assert_eq!(bench.packet(syn.clone()), Outcome::Dropped(DropReason::NoBackend));
    bench.event(&StageEvent::Restore { host: "a".to_owned() }).expect("a is a backend");
    assert_eq!(Some(bench.packet(syn).packet().flow().destination.ip()), resolve("a"));
    let changes = bench.truth.iter().filter_map(|truth| match &truth.what {
        What::BackendChanged { backend, healthy } => Some((backend.as_str(), *healthy)),
        _ => None,
    });
    let changes: Vec<_> = changes.collect();
    assert_eq!(changes, [("a", false), ("b", false), ("a", true)]);
}

#[test]
fn events_that_do_not_fit_say_why() {
    let mut bench = bench(config());
    let why = bench.event(&failover("c", true)).expect_err("there is no c");
    assert!(why.contains("no backend is called c; there are a, b"), "{why}");
    let why = bench.event(&StageEvent::ScaleIn { instances: 1 }).expect_err("it has none");
    assert!(why.contains("scale-in") && why.contains("firewall"), "{why}");
}

#[test]
fn new_idle_limit_applies_to_existing_flows() {
    let mut bench = bench(config());
    let mut talk = Talk::open(&mut bench, client(4_000));
    bench.pass(SECOND);
    bench.event(&StageEvent::IdleLimit { idle_ns: 10 * SECOND }).expect("it can");
    bench.pass(9 * SECOND - 1);
    talk.echo(&mut bench);
    bench.pass(10 * SECOND);
    assert_eq!(bench.forgotten(), [("idle", 10 * SECOND)]);
}

#[test]
fn port_is_reusable_after_close() {
    let mut bench = bench(config());
    let mut talk = Talk::open(&mut bench, client(4_000));
    talk.close(&mut bench);
    let mut again = Talk::open(&mut bench, client(4_000));
    again.echo(&mut bench);
    assert_eq!(bench.forgotten(), [("closed", 0)]);
    assert_eq!(bench.claims.len(), 1);
    // A SYN on a live connection is the ends' business (RFC 9293, 3.10.7.4: a challenge).
    bench.packet(tcp(client(4_000), 77, 0, Flags::SYN, &[])).packet();
    assert_eq!(bench.stage.status().flows, 1);
}

#[test]
fn the_table_is_bounded() {
    let mut bench = bench(LoadBalancerConfig { capacity: 2, ..config() });
    Talk::open(&mut bench, client(4_000));
    Talk::open(&mut bench, client(4_001));
    let third = tcp(client(4_002), 1, 0, Flags::SYN, &[]);
    assert_eq!(bench.packet(third), Outcome::Dropped(DropReason::FlowTableFull));
}

/// An ICMP error reaches the end whose packet it quotes, quoted as that end sent it.
#[test]
fn errors_find_the_sender() {
    let mut bench = bench(config());
    let mut talk = Talk::open(&mut bench, client(4_000));
    let router = address("10.9.9.9:0").ip();
    let too_big = IcmpError::TooBig { mtu: 1_280 };
    let back = talk.server_sends(&mut bench, &[7; 600]).packet();
    let error = bench.packet(back.icmp_error_for(router, too_big).expect("an error")).packet();
    assert_eq!(error.flow().destination.ip(), talk.server.source.ip());
    assert_eq!(error.quoted_flow(), Some(talk.server));
    let there = talk.client_sends(&mut bench, &[7; 600]).packet();
    let error = bench.packet(there.icmp_error_for(router, too_big).expect("an error")).packet();
    assert_eq!(error.flow().destination.ip(), talk.client.source.ip());
    assert_eq!(error.quoted_flow(), Some(talk.client));
    let stranger = tcp(flow("10.0.0.100:80", "10.0.0.3:9"), 1, 1, Flags::ACK, &[]);
    let error = stranger.icmp_error_for(router, too_big).expect("an error");
    assert_eq!(bench.packet(error), Outcome::Dropped(DropReason::UnknownFlow));
}

/// Two backends that answer probes or not, for a while.
fn probed(dead_backend: DeadBackend) -> Bench<LoadBalancer> {
    let probe = "source = '10.0.0.99'\nevery = '5s'\ntimeout = '1s'\nfailures = 2\nsuccesses = 3";
    let probe = Some(toml::from_str(probe).expect("valid"));
    bench(LoadBalancerConfig { probe, dead_backend, ..config() })
}

/// Lets a round of probes be answered by the backends of `open`, refused by those of `refusing`, and by no other.
fn round(bench: &mut Bench<LoadBalancer>, open: &[&str], refusing: &[&str]) -> Vec<Packet> {
    bench.sent.clear();
    bench.pass(0);
    let probes: Vec<_> = bench.sent.drain(..).map(|(_, probe)| probe).collect();
    let is_one = |names: &[&str], probe: &Packet| {
        names.iter().any(|name| resolve(name) == Some(probe.flow().destination.ip()))
    };
    for probe in &probes {
        assert!(probe.segment().is_some_and(|segment| segment.flags.opens()));
        assert_eq!(probe.flow().destination.port(), 8_080);
        if is_one(open, probe) {
            assert_eq!(bench.packet(probe.syn_ack_for(9).expect("a SYN")), Outcome::Taken);
        } else if is_one(refusing, probe) {
            assert_eq!(bench.packet(probe.reset_for().expect("a SYN")), Outcome::Taken);
        }
    }
    bench.pass(5 * SECOND - 1);
    bench.now_ns += 1;
    probes
}

fn health(bench: &Bench<LoadBalancer>) -> [bool; 2] {
    let backends = bench.stage.status().backends;
    [backends[0].healthy, backends[1].healthy]
}

#[test]
fn probes_find_living_backends() {
    let mut bench = probed(DeadBackend::Keep);
    assert_eq!(bench.stage.addresses().len(), 2);
    assert_eq!(round(&mut bench, &["a", "b"], &[]).len(), 2);
    // Each SYN-ACK is answered with a RST that the backend obeys.
    let resets: Vec<_> = bench.sent.iter().filter_map(|(_, packet)| packet.segment()).collect();
    assert_eq!(resets.len(), 2);
    assert!(resets.iter().all(|reset| reset.flags.has(Flags::RST) && reset.ack == 10));
    round(&mut bench, &["a"], &[]);
    assert_eq!(health(&bench), [true, true], "one failure is not two");
    round(&mut bench, &["a", "b"], &[]);
    round(&mut bench, &["a"], &[]);
    assert_eq!(health(&bench), [true, true], "nor are two that are not in a row");
    round(&mut bench, &["a"], &["b"]);
    assert_eq!(health(&bench), [true, false], "a refusal is a failure");
    round(&mut bench, &["a", "b"], &[]);
    round(&mut bench, &["a", "b"], &[]);
    assert_eq!(health(&bench), [true, false], "two successes are not three");
    round(&mut bench, &["a", "b"], &[]);
    assert_eq!(health(&bench), [true, true]);
    let changed = |what: &What| matches!(what, What::BackendChanged { backend, .. } if backend == "b");
    assert_eq!(bench.count(changed), 2);
}

#[test]
fn silent_backend_fails_after_second_probe_timeout() {
    let mut bench = probed(DeadBackend::Keep);
    let began_ns = bench.now_ns;
    bench.pass(6 * SECOND - 1);
    assert_eq!(health(&bench), [true, true]);
    bench.pass(1);
    assert_eq!(health(&bench), [false, false]);
    let at: Vec<_> = bench.truth.iter().map(|truth| truth.at_ns - began_ns).collect();
    assert_eq!(at, [6 * SECOND; 2], "the second probe at 5 s, given up a second later");
    let syn = tcp(client(6_000), 1, 0, Flags::SYN, &[]);
    assert_eq!(bench.packet(syn), Outcome::Dropped(DropReason::NoBackend));
}

#[test]
fn answers_that_answer_nothing_change_nothing() {
    let mut bench = probed(DeadBackend::Keep);
    bench.pass(0);
    let (_, probe) = bench.sent[0].clone();
    let flow = probe.flow().reversed();
    let seq = probe.segment().expect("TCP").seq;
    // Blind ones, with another number or from another port.
    for wrong in [seq, seq.wrapping_add(2)] {
        assert_eq!(bench.packet(tcp(flow, 1, wrong, Flags::SYN | Flags::ACK, &[])), Outcome::Taken);
    }
    bench.pass(6 * SECOND);
    assert_eq!(health(&bench), [false, false]);
}

#[test]
fn dead_backend_flows_are_kept_or_forgotten() {
    for (dead_backend, expected) in [(DeadBackend::Keep, 0), (DeadBackend::Forget, 1)] {
        let mut bench = probed(dead_backend);
        let flow = client_of(&mut bench, "b");
        Talk::open(&mut bench, flow);
        round(&mut bench, &["a"], &[]);
        round(&mut bench, &["a"], &[]);
        assert_eq!(health(&bench), [true, false]);
        assert_eq!(bench.forgotten().iter().filter(|(why, _)| *why == "failover").count(), expected);
    }
}

fn spread(config: LoadBalancerConfig, disabled: Option<&str>) -> BTreeMap<u16, IpAddr> {
    let mut bench = bench(config);
    if let Some(backend) = disabled {
        bench.event(&failover(backend, false)).expect("it is a backend");
    }
    let mut to =
        |port| bench.packet(tcp(client(port), 1, 0, Flags::SYN, &[])).packet().flow().destination.ip();
    (10_000..14_000).map(|port| (port, to(port))).collect()
}

#[test]
fn hash_spreads_evenly_and_moves_minimally() {
    let names = ["a", "b", "c", "d"];
    let config = LoadBalancerConfig { backends: names.map(str::to_owned).to_vec(), ..config() };
    let all = spread(config.clone(), None);
    for name in names {
        let share = all.values().filter(|address| Some(**address) == resolve(name)).count();
        // 1,000 expected; the standard deviation of a fair draw is 27.
        assert!((860..1_140).contains(&share), "{name} has {share} of 4,000 flows");
    }
    let without = spread(config.clone(), Some("b"));
    for (port, address) in &all {
        if Some(*address) == resolve("b") {
            assert_ne!(Some(without[port]), resolve("b"));
        } else {
            assert_eq!(without[port], *address, "a flow of a living backend has moved");
        }
    }
    assert_eq!(spread(config.clone(), None), all, "the same in every run");
    let mut listed_otherwise = config.clone();
    listed_otherwise.backends.reverse();
    assert_eq!(spread(listed_otherwise, None), all, "the order of the backends does not matter");
    assert_ne!(spread(LoadBalancerConfig { hash_seed: 1, ..config }, None), all);
}

#[test]
fn a_client_may_stay_with_its_backend() {
    for distribution in [Distribution::SourceIp, Distribution::SourceIpProtocol] {
        let all = spread(LoadBalancerConfig { distribution, ..config() }, None);
        assert!(all.values().all(|address| Some(address) == all.values().next()));
    }
}

/// The laws, in so many cases.
macro_rules! laws {
    ($cases:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases($cases))]

            /// Whatever two ends say through the balancer arrives as they said it, but for the address, and in order; and what the
            /// balancer does is the same in every run.
            #[test]
            fn what_passes_is_what_was_said(data in proptest::collection::vec((any::<bool>(), 0_usize..300, 0_u64..SECOND / 500), 1..40),
                                            ipv6 in any::<bool>()) {
                let config = LoadBalancerConfig {
                    address: if ipv6 { "fd00::100" } else { "10.0.0.100" }.parse().expect("an address"),
                    backends: if ipv6 { vec!["fd00::a".into(), "fd00::b".into()] } else { vec!["a".into(), "b".into()] },
                    idle: IdleLimits::established(SECOND),
                    transit: toml::from_str::<BTreeMap<String, _>>("t = { mean = '1ms', sd = '2ms' }").expect("valid")["t"],
                    ..config()
                };
                let run = || {
                    let mut bench = bench(config.clone());
                    let client = if ipv6 { flow("[fd00::1]:4000", "[fd00::100]:80") } else { client(4_000) };
                    let mut talk = Talk::open(&mut bench, client);
                    let mut left_ns = [0; 2];
                    for (from_client, length, wait_ns) in &data {
                        bench.pass(*wait_ns);
                        let said = vec![*length as u8; *length];
                        let outcome = if *from_client {
                            talk.client_sends(&mut bench, &said)
                        } else {
                            talk.server_sends(&mut bench, &said)
                        };
                        let Outcome::Forwarded(packet, transit_ns) = outcome else { panic!("{outcome:?}") };
                        let expected = if *from_client { talk.server } else { talk.client }.reversed();
                        assert_eq!(packet.flow(), expected);
                        assert!(packet.bytes().ends_with(&said));
                        let left_ns = &mut left_ns[usize::from(*from_client)];
                        assert!(bench.now_ns + transit_ns >= *left_ns, "it overtook the packet before it");
                        *left_ns = bench.now_ns + transit_ns;
                    }
                    (left_ns, bench.truth)
                };
                prop_assert_eq!(run(), run());
            }
        }
    };
}

laws!(16);

mod acceptance {
    use super::*;

    laws!(48);
}
