//! The private endpoint.

use fathom_fabric::event::StageEvent;
use fathom_fabric::packet::Flags;
use fathom_fabric::stage::Stage;
use fathom_fabric::stage::private_endpoint::{PrivateEndpoint, PrivateEndpointConfig};
use fathom_fabric::truth::DropReason;

use super::bench::{Bench, MINUTE, Outcome, Talk, address, flow, tcp};

fn bench(config: &str) -> Bench<PrivateEndpoint> {
    let text = format!("address = '10.0.0.5'\ntarget = 'db'\n{config}");
    let config: PrivateEndpointConfig = toml::from_str(&text).expect("valid");
    let resolve = |name: &str| (name == "db").then(|| address("172.16.0.9:0").ip());
    Bench::new(config.build("pe", &resolve).expect("valid"))
}

#[test]
fn an_address_stands_for_a_host_behind_it() {
    let mut bench = bench("transit = '40us'\nports = [5432]");
    let mut talk = Talk::open(&mut bench, flow("10.0.0.1:4000", "10.0.0.5:5432"));
    assert_eq!(talk.server.source, address("172.16.0.9:5432"));
    talk.echo(&mut bench);
    assert!(matches!(talk.client_sends(&mut bench, b""), Outcome::Forwarded(_, 40_000)));
    let elsewhere = tcp(flow("10.0.0.1:4000", "10.0.0.5:22"), 1, 0, Flags::SYN, &[]);
    assert_eq!(bench.packet(elsewhere), Outcome::Dropped(DropReason::Refused));
    bench.pass(5 * MINUTE);
    assert_eq!(bench.forgotten(), [("idle", 5 * MINUTE)]);
    assert_eq!(talk.client_sends(&mut bench, b""), Outcome::Dropped(DropReason::UnknownFlow));
}

#[test]
fn what_is_not_for_it_ends_there() {
    let mut bench = bench("");
    let stray = tcp(flow("172.16.0.9:5432", "10.0.0.1:4000"), 1, 1, Flags::ACK, &[]);
    assert_eq!(bench.packet(stray), Outcome::Dropped(DropReason::UnknownFlow));
    let why = bench.event(&StageEvent::ScaleIn { instances: 1 }).expect_err("it has none");
    assert!(why.contains("private endpoint"), "{why}");
    assert_eq!(bench.stage.status().flows, 0);
}
