//! The gateway.

use fathom_fabric::event::StageEvent;
use fathom_fabric::packet::Flags;
use fathom_fabric::stage::Stage;
use fathom_fabric::stage::gateway::{Gateway, GatewayConfig};
use fathom_fabric::truth::DropReason;
use proptest::prelude::*;

use super::bench::{Bench, MINUTE, Outcome, SECOND, Talk, flow, tcp};

fn bench(config: &str) -> Bench<Gateway> {
    let config: GatewayConfig = toml::from_str(config).expect("valid");
    Bench::new(config.build("gw").expect("valid"))
}

fn switchover(forget: bool) -> StageEvent {
    StageEvent::Switchover { outage_ns: 12 * SECOND, forget }
}

#[test]
fn without_a_memory_everything_passes() {
    let mut bench = bench("transit = '1ms'");
    let stranger = tcp(flow("10.0.0.1:4000", "10.1.0.2:80"), 1, 1, Flags::ACK, b"x");
    assert_eq!(bench.packet(stranger.clone()), Outcome::Forwarded(stranger, 1_000_000));
    assert_eq!(bench.stage.next_due_ns(), None);
    assert!(bench.event(&StageEvent::FlushFlows).is_err());
}

#[test]
fn oversized_packet_is_reported_to_sender() {
    let mut bench = bench("address = '10.9.9.9'\nmtu = 1400");
    let flow = flow("10.0.0.1:4000", "10.1.0.2:80");
    bench.packet(tcp(flow, 1, 1, Flags::ACK, &[0; 1_360])).packet();
    let outcome = bench.packet(tcp(flow, 1, 1, Flags::ACK, &[0; 1_361]));
    assert_eq!(outcome, Outcome::Dropped(DropReason::TooBig));
    let [(_, error)] = &bench.sent[..] else { panic!("{:?}", bench.sent) };
    assert_eq!((error.icmp_type(), error.quoted_flow()), (Some((3, 4)), Some(flow)));
    assert_eq!(error.flow().destination.ip(), flow.source.ip());
    assert_eq!(error.bytes()[26..28], 1_400_u16.to_be_bytes());
    // Without an address it cannot say so: a black hole, as there are.
    let mut mute = self::bench("mtu = 1400");
    let outcome = mute.packet(tcp(flow, 1, 1, Flags::ACK, &[0; 1_361]));
    assert_eq!(outcome, Outcome::Dropped(DropReason::TooBig));
    assert!(mute.sent.is_empty());
}

/// The second of two that overlap ended the outage of the first.
#[test]
fn short_switchover_does_not_shorten_longer_one() {
    let mut bench = bench("memory = { idle = '5m' }");
    let mut talk = Talk::open(&mut bench, flow("10.0.0.1:4000", "10.1.0.2:80"));
    bench.event(&switchover(false)).expect("it can");
    bench.event(&StageEvent::Switchover { outage_ns: SECOND, forget: false }).expect("it can");
    bench.pass(12 * SECOND - 1);
    assert_eq!(talk.client_sends(&mut bench, b""), Outcome::Dropped(DropReason::Outage));
    bench.pass(1);
    talk.echo(&mut bench);
}

#[test]
fn switchover_is_outage_and_may_forget_flows() {
    for (forget, after) in [(false, None), (true, Some(DropReason::UnknownFlow))] {
        let mut bench = bench("memory = { idle = '5m' }");
        let mut talk = Talk::open(&mut bench, flow("10.0.0.1:4000", "10.1.0.2:80"));
        bench.event(&switchover(forget)).expect("it can");
        assert_eq!(talk.client_sends(&mut bench, b""), Outcome::Dropped(DropReason::Outage));
        bench.pass(12 * SECOND - 1);
        assert_eq!(talk.server_sends(&mut bench, b""), Outcome::Dropped(DropReason::Outage));
        bench.pass(1);
        match after {
            None => talk.echo(&mut bench),
            Some(reason) => assert_eq!(talk.client_sends(&mut bench, b""), Outcome::Dropped(reason)),
        }
    }
    let mut stateless = bench("");
    stateless.event(&switchover(true)).expect("it can, though there is nothing to forget");
}

#[test]
fn a_memory_has_its_limit_and_its_events() {
    let mut bench = bench("memory = { idle = '5m', on-expiry = 'reset', unknown = 'reset' }");
    let talk = Talk::open(&mut bench, flow("10.0.0.1:4000", "10.1.0.2:80"));
    bench.event(&StageEvent::IdleLimit { idle_ns: MINUTE }).expect("it can");
    bench.pass(MINUTE);
    talk.assert_reset_to_client(&bench.sent[0].1);
    talk.assert_reset_to_server(&bench.sent[1].1);
    let mut again = Talk::open(&mut bench, flow("10.0.0.1:4001", "10.1.0.2:80"));
    bench.event(&StageEvent::FlushFlows).expect("it can");
    assert_eq!(again.client_sends(&mut bench, b""), Outcome::Dropped(DropReason::UnknownFlow));
    assert_eq!(bench.sent.len(), 3);
}

/// The laws, in so many cases.
macro_rules! laws {
    ($cases:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases($cases))]

            /// At its rate the gateway sends one packet after another, never early, idle only when nothing waits; and no more than
            /// its queue waits.
            #[test]
            fn load_raises_the_latency(packets in proptest::collection::vec((0_u64..3_000, 0_usize..1_400), 1..200)) {
                // 8 Gbit/s: a byte a ns.
                let mut bench = bench("rate = '8Gbit/s'\nqueue = '5KiB'");
                let flow = flow("10.0.0.1:4000", "10.1.0.2:80");
                let mut free_ns = 0;
                for (wait_ns, length) in packets {
                    bench.pass(wait_ns);
                    let packet = tcp(flow, 1, 1, Flags::ACK, &vec![0; length]);
                    let length_ns = packet.len() as u64;
                    let waiting_ns = u64::saturating_sub(free_ns, bench.now_ns);
                    match bench.packet(packet) {
                        Outcome::Forwarded(_, transit_ns) => {
                            prop_assert!(waiting_ns <= 5_120);
                            prop_assert_eq!(transit_ns, waiting_ns + length_ns);
                            free_ns = bench.now_ns + transit_ns;
                        }
                        outcome => {
                            prop_assert_eq!(outcome, Outcome::Dropped(DropReason::QueueFull));
                            prop_assert!(waiting_ns > 5_120);
                        }
                    }
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
