//! The most telling of the faults (`deaths.rs`, `stalls.rs`) again over IPv6: the kernel has other code for
//! it, and `ICMPv6` other errors. `FATHOM_REPEAT=10` makes each ten times.

use crate::support::faults::{self, Fault, Run, Site, assert_closed, long_stall, make_all, on, restore};
use crate::support::net::Host;
use crate::support::rows::{has_kind, of_kind};
use std::thread;
use std::time::{Duration, Instant};

/// The kernel gives a silent connection up after three seconds instead of a quarter of an hour.
const SOON: &str = "--user-timeout 3s";

const FAULTS: &[Fault] = &[
    ("IPv6: reflector exits", reflector_exits),
    ("IPv6: RST injected", rst_injected),
    ("IPv6: FIN", fin),
    ("IPv6: address vanishes", address_vanishes),
    ("IPv6: address vanishes behind a router", address_vanishes_behind_a_router),
    ("IPv6: way there blackholed for good", forward_for_good),
    ("IPv6: way back blackholed for good", return_for_good),
    ("IPv6: this flow's way there blackholed for 3 s", flow_forward),
    ("IPv6: this flow's way back blackholed for 3 s", flow_return),
    ("ICMPv6 no route", icmp_no_route),
    ("ICMPv6 address unreachable", icmp_address_unreachable),
    ("ICMPv6 admin prohibited", icmp_admin_prohibited),
];

/// From now on packets that match have this done to them where they arrive at this host.
fn rule(host: &Host, rule: &str) {
    on(host, "nft add table ip6 fathom");
    on(host, "nft add chain ip6 fathom input { type filter hook input priority 0; }");
    on(host, &format!("nft add rule ip6 fathom input {rule}"));
}

fn reflector_exits() {
    faults::reflector_exits(Site::cable_v6());
}

fn rst_injected() {
    let run = Run::start(Site::cable_v6(), "");
    rule(&run.site.net.reflector, &format!("tcp sport {} reject with tcp reset", run.port));
    run.wait_for_closing();
    let (events, _) = run.end();
    assert_closed(&events, "reset", "flow_forgotten", "echoed");
}

fn fin() {
    faults::fin("::1");
}

/// The link-local address stays, and the neighbours still know the hardware address: silence.
fn address_vanishes() {
    let run = Run::start(Site::cable_v6(), SOON);
    on(&run.site.net.reflector, "ip -6 address flush dev cable scope global");
    run.wait_for_closing();
    let (events, _) = run.end();
    assert_closed(&events, "timed_out", "path_down", "no_answer");
}

/// The router asks for the hardware address, gets no answer, and says so.
fn address_vanishes_behind_a_router() {
    let run = Run::start(Site::routed_v6(), "--user-timeout 8s");
    on(&run.site.net.reflector, "ip -6 address flush dev cable scope global");
    run.site.router().on("ip -6 neighbour flush dev right");
    run.wait_for_closing();
    let (events, _) = run.end();
    assert_closed(&events, "unreachable", "unknown", "no_host");
}

fn blackhole_for_good(receiver: fn(&Run) -> &Host) {
    let run = Run::start(Site::cable_v6(), SOON);
    rule(receiver(&run), "meta l4proto tcp drop");
    run.wait_for_closing();
    restore(receiver(&run));
    run.wait_for("a new connection", |events| of_kind(events, "connection.opened").len() == 2);
    let (events, _) = run.end();
    assert_closed(&events, "timed_out", "path_down", "no_answer");
}

fn forward_for_good() {
    blackhole_for_good(|run| &run.site.net.reflector);
}

fn return_for_good() {
    blackhole_for_good(|run| &run.site.net.probe);
}

fn flow_blackhole(receiver: fn(&Run) -> &Host, port: &str, direction: &str) {
    let run = Run::start(Site::cable_v6(), "");
    rule(receiver(&run), &format!("tcp {port} {} drop", run.port));
    let began = Instant::now();
    run.wait_for("a stall", |events| has_kind(events, "stall.began"));
    // The length of the fault is what is tried here.
    thread::sleep(Duration::from_secs(3).saturating_sub(began.elapsed()));
    restore(receiver(&run));
    run.wait_for("the end of the stall", |events| {
        of_kind(events, "stall.ended").iter().any(|e| e["duration_ns"].as_u64() > Some(2_000_000_000))
    });
    let (events, _) = run.end();
    let explained = long_stall(&events, Duration::from_millis(2_500));
    assert_eq!([&explained["verdict"], &explained["direction"]], ["path_down", direction], "{explained}");
    assert_eq!(explained["fresh"], "echoed", "others got through meanwhile: {explained}");
    assert_eq!(of_kind(&events, "connection.closed")[0]["cause"], "finished", "the connection survives");
}

fn flow_forward() {
    flow_blackhole(|run| &run.site.net.reflector, "sport", "forward");
}

fn flow_return() {
    flow_blackhole(|run| &run.site.net.probe, "dport", "return");
}

/// A router refuses to forward and says why.
fn icmp(reason: &str, verdict: &str, fresh: &str) {
    let run = Run::start(Site::routed_v6(), SOON);
    let router = run.site.router();
    router.on("nft add table ip6 fathom");
    router.on("nft add chain ip6 fathom forward { type filter hook forward priority 0; }");
    let target = run.site.target.ip();
    router
        .on(&format!("nft add rule ip6 fathom forward ip6 daddr {target} reject with icmpv6 type {reason}"));
    run.wait_for_closing();
    let (events, _) = run.end();
    assert_closed(&events, "unreachable", verdict, fresh);
}

fn icmp_no_route() {
    icmp("no-route", "path_down", "no_route");
}

fn icmp_address_unreachable() {
    icmp("addr-unreachable", "unknown", "no_host");
}

/// Its error number is one that IPv4 never gives here: EACCES.
fn icmp_admin_prohibited() {
    icmp("admin-prohibited", "path_down", "forbidden");
}

mod acceptance {
    use super::*;

    #[test]
    fn every_fault_is_recorded_over_ipv6() {
        make_all(FAULTS);
    }
}
