//! Faults of which somebody says something: the gateway or the host on the own network that no longer answers for its
//! hardware address, an interface without a carrier, a filter that refuses with ICMP in place of the host. Who said it
//! must be told, and the verdict must be no more than that allows. `docs/faults.md` lists them.

use crate::support::faults::{Fault, Run, Site, assert_closed, explanations, make_all, on};
use crate::support::rows::of_kind;
use serde_json::Value;
use std::thread;
use std::time::Duration;

/// Longer than the 3 s in which the kernel asks in vain for a hardware address.
const LATER: &str = "--user-timeout 8s";

const FAULTS: &[Fault] = &[
    ("gateway gone", gateway_gone),
    ("gateway gone, at the end of the run", gateway_gone_at_the_end),
    ("host gone from the own network", neighbour_gone),
    ("no carrier", no_carrier),
    ("refused by a filter before the host", refused_by_a_filter),
    ("UDP refused by a filter before the host", datagrams_refused_by_a_filter),
    ("UDP refused by the host", datagrams_refused_by_the_host),
    ("host unreachable, says a router", host_unreachable_says_a_router),
];

fn says(explained: &Value, words: &str) {
    let because = explained["because"].as_array().expect("a list");
    let said = because.iter().any(|sentence| sentence.as_str().is_some_and(|text| text.contains(words)));
    assert!(said, "nobody says {words:?}: {explained}");
}

/// The gateway no longer answers for its hardware address, and this host has forgotten it.
fn without_gateway(site: &Site) {
    site.router().on("ip address flush dev left");
    on(&site.net.probe, "ip neighbour flush dev cable");
}

fn gateway_gone() {
    let run = Run::start(Site::routed(), LATER);
    without_gateway(&run.site);
    run.wait_for_closing();
    let (events, _) = run.end();
    let explained = assert_closed(&events, "unreachable", "path_down", "no_host");
    assert_eq!(explained["confidence"], "high", "{explained}");
    says(explained, "the gateway 10.78.1.254 did not answer for its hardware address");
}

/// The stall goes on when the run ends: what is known of it by then is told.
fn gateway_gone_at_the_end() {
    let run = Run::start(Site::routed(), "--user-timeout 60s");
    without_gateway(&run.site);
    // The length of the fault is what is tried here: a fresh connection is tried after 1 s, and fails 3 s later.
    thread::sleep(Duration::from_secs(6));
    let (events, _) = run.end();
    let stalls = explanations(&events, "stall");
    let explained = stalls.last().expect("an explanation");
    assert_eq!([&explained["verdict"], &explained["confidence"]], ["path_down", "high"], "{explained}");
    says(explained, "the gateway 10.78.1.254");
}

/// It may be the host, or the switch between: nobody says which.
fn neighbour_gone() {
    let run = Run::start(Site::cable(), LATER);
    on(&run.site.net.reflector, "ip address flush dev cable");
    on(&run.site.net.probe, "ip neighbour flush dev cable");
    run.wait_for_closing();
    let (events, _) = run.end();
    let explained = assert_closed(&events, "unreachable", "unknown", "no_host");
    assert_eq!(explained["could_be"], serde_json::json!(["peer_down", "path_down"]), "{explained}");
    says(explained, "on this host's own network, and nobody there answers for its hardware address");
}

fn no_carrier() {
    let run = Run::start(Site::routed(), LATER);
    run.site.router().on("ip link set left down");
    run.wait_for_closing();
    let (events, _) = run.end();
    let explained = explanations(&events, "closing")[0];
    assert_eq!([&explained["verdict"], &explained["confidence"]], ["path_down", "high"], "{explained}");
    says(explained, "the interface towards the target is down or has no carrier");
}

/// What firewalls do that reject without saying more: ICMP port unreachable, also for TCP.
fn refused_by_a_filter() {
    let run = Run::start(Site::routed(), "--user-timeout 3s");
    run.site.router().rule(&format!("ip daddr {} meta l4proto tcp reject", run.site.target.ip()));
    run.wait_for_closing();
    let (events, _) = run.end();
    let cause = of_kind(&events, "connection.closed")[0]["cause"].as_str().expect("a cause").to_owned();
    let explained = assert_closed(&events, &cause, "path_down", "refused");
    assert_eq!(explained["confidence"], "medium", "{explained}");
    says(explained, "refused by 10.78.1.254 (ICMP), which is not the target");
}

fn datagrams_refused_by_a_filter() {
    let run = Run::start(Site::routed(), "--udp");
    run.site.router().rule(&format!("ip daddr {} meta l4proto udp reject", run.site.target.ip()));
    run.wait_for_closing();
    let (events, _) = run.end();
    let explained = explanations(&events, "closing")[0];
    assert_eq!([&explained["verdict"], &explained["confidence"]], ["path_down", "medium"], "{explained}");
    says(explained, "refused by 10.78.1.254 (ICMP)");
}

fn datagrams_refused_by_the_host() {
    let mut run = Run::start(Site::routed(), "--udp");
    run.reflector.take().expect("it runs").kill();
    run.wait_for_closing();
    let (events, _) = run.end();
    let explained = explanations(&events, "closing")[0];
    assert_eq!([&explained["verdict"], &explained["confidence"]], ["peer_down", "medium"], "{explained}");
    says(explained, "by an ICMP message of the target's own address");
}

/// Routers say so of hosts that run: it stays open.
fn host_unreachable_says_a_router() {
    let run = Run::start(Site::routed(), "--user-timeout 3s");
    let rule = format!("ip daddr {} reject with icmp type host-unreachable", run.site.target.ip());
    run.site.router().rule(&rule);
    run.wait_for_closing();
    let (events, _) = run.end();
    let explained = assert_closed(&events, "unreachable", "unknown", "no_host");
    says(explained, "10.78.1.254 says that it does not reach that address");
}

mod acceptance {
    use super::*;

    #[test]
    fn verdict_names_error_source_and_nothing_more() {
        make_all(FAULTS);
    }
}
