//! Faults that end a connection, each made for real between namespaces: the recorded cause and verdict must be right,
//! every time (`FATHOM_REPEAT=10` makes each ten times). `docs/faults.md` tells what each looks like on the wire.

use crate::support::faults::{
    self, ECONNREFUSED, Fault, Reflector, Run, Site, assert_closed, assert_said, explanations, make_all, on,
    restore, rule,
};
use crate::support::rows::{ended_with_its_peer, has_kind, of_kind};
use std::thread;
use std::time::Duration;

/// The kernel gives a silent connection up after three seconds instead of a quarter of an hour.
const SOON: &str = "--user-timeout 3s";

const FAULTS: &[Fault] = &[
    ("reflector exits", reflector_exits),
    ("connection refused on reconnect", refused_on_reconnect),
    ("restarted beside a new address", restarted_beside_a_new_address),
    ("address vanishes", address_vanishes),
    ("address vanishes behind a router", address_vanishes_behind_a_router),
    ("RST injected", rst_injected),
    ("FIN", fin),
    ("way there blackholed for good", forward_for_good),
    ("way back blackholed for good", return_for_good),
    ("both ways blackholed for good", both_for_good),
    ("both ways blackholed until just before the kernel gives up", both_until_the_end),
    ("conntrack entry deleted", conntrack_entry_deleted),
    ("idle limit of a firewall", idle_limit),
    ("ICMP host unreachable", icmp_host_unreachable),
    ("ICMP net unreachable", icmp_net_unreachable),
    ("ICMP admin prohibited", icmp_admin_prohibited),
    ("no route on the probe's host", no_route_here),
    ("own address gone", own_address_gone),
];

pub(super) fn reflector_exits() {
    faults::reflector_exits(Site::cable());
}

/// The reflector dies with requests that it has not read, so its kernel sends a RST and not a FIN; the probe comes
/// back when it does.
fn refused_on_reconnect() {
    let mut run = Run::start(Site::cable(), "");
    let reflector = run.reflector.take().expect("it runs");
    on(&run.site.net.reflector, &format!("kill -STOP {}", reflector.pid()));
    run.wait_for("unread requests", |events| has_kind(events, "stall.began"));
    reflector.kill();
    run.wait_for_closing();
    run.wait_for("a refusal", |events| has_kind(events, "connection.refused"));
    run.reflector = Some(Reflector::start(&run.site.net.reflector, run.site.target));
    run.wait_for("a new connection", |events| of_kind(events, "connection.opened").len() == 2);
    run.wait_for_word();
    let (events, _) = run.end();
    let explained = assert_closed(&events, "reset", "peer_down", "refused");
    assert_eq!(explained["reflector"]["standing"], "not_known", "it was started anew: {explained}");
    let refused = of_kind(&events, "connection.refused");
    assert!(refused.iter().all(|event| event["errno"] == ECONNREFUSED), "{refused:?}");
    assert!(refused.iter().all(|event| event["retry_in_ns"].is_u64()), "{refused:?}");
}

/// A host that has got another address is the same place: "a reflector at another place answers".
fn restarted_beside_a_new_address() {
    let mut run = Run::start(Site::cable(), "");
    on(&run.site.net.reflector, "ip address add 198.51.100.7/32 dev lo");
    run.reflector.take().expect("it runs").kill();
    run.wait_for_closing();
    run.reflector = Some(Reflector::start(&run.site.net.reflector, run.site.target));
    run.wait_for("a new connection", |events| of_kind(events, "connection.opened").len() == 2);
    run.wait_for_word();
    let (events, _) = run.end();
    let cause = ended_with_its_peer(of_kind(&events, "connection.closed")[0]);
    let last = assert_closed(&events, cause, "peer_down", "refused");
    assert!(!last.to_string().contains("another place"), "{last}");
}

/// The host's neighbours still know its hardware address, so its frames arrive and are dropped there: silence.
fn address_vanishes() {
    let run = Run::start(Site::cable(), SOON);
    on(&run.site.net.reflector, "ip address flush dev cable");
    run.wait_for_closing();
    let (events, _) = run.end();
    assert_closed(&events, "timed_out", "path_down", "no_answer");
}

/// The router asks for the hardware address, gets no answer, and says so.
fn address_vanishes_behind_a_router() {
    let run = Run::start(Site::routed(), "--user-timeout 8s");
    on(&run.site.net.reflector, "ip address flush dev cable");
    run.site.router().on("ip neighbour flush dev right");
    run.wait_for_closing();
    let (events, _) = run.end();
    // The router says so; whether it is the host or the way to it, nobody does.
    let explained = assert_closed(&events, "unreachable", "unknown", "no_host");
    assert_eq!(explained["could_be"], serde_json::json!(["peer_down", "path_down"]), "{explained}");
}

pub(super) fn rst_injected() {
    let run = Run::start(Site::cable(), "");
    rule(&run.site.net.reflector, &format!("tcp sport {} reject with tcp reset", run.port));
    run.wait_for_closing();
    let (events, _) = run.end();
    let explained = assert_closed(&events, "reset", "flow_forgotten", "echoed");
    assert_eq!(explained["reflector"]["standing"], "open", "{explained}");
    assert!(explained.get("direction").is_none(), "no way was silent: {explained}");
}

fn fin() {
    faults::fin("127.0.0.1");
}

/// Everything that arrives at these hosts vanishes until the connection is lost. When the path is back, the reflector
/// tells what it had received.
fn blackhole(there: bool, back: bool, direction: &str) {
    let run = Run::start(Site::cable(), SOON);
    if there {
        rule(&run.site.net.reflector, "meta l4proto tcp drop");
    }
    if back {
        rule(&run.site.net.probe, "meta l4proto tcp drop");
    }
    run.wait_for_closing();
    restore(&run.site.net.probe);
    restore(&run.site.net.reflector);
    run.wait_for("a new connection", |events| of_kind(events, "connection.opened").len() == 2);
    run.wait_for_word();
    let (events, _) = run.end();
    let explained = assert_closed(&events, "timed_out", "path_down", "no_answer");
    assert_eq!(explained["direction"], direction, "{explained}");
}

fn forward_for_good() {
    blackhole(true, false, "forward");
}

fn return_for_good() {
    blackhole(false, true, "return");
}

/// The way there is broken first, so nothing arrives whose echo could be lost: that is what can be told.
fn both_for_good() {
    blackhole(true, true, "forward");
}

/// The path comes back between the kernel's last attempt (it doubles its wait: 0.2, 0.6, 1.4, 3 and 6.2 s) and its
/// giving up after 5 s. That fresh connections work then does not mean that they did.
fn both_until_the_end() {
    let run = Run::start(Site::cable(), "--user-timeout 5s");
    for host in [&run.site.net.reflector, &run.site.net.probe] {
        rule(host, "meta l4proto tcp drop");
    }
    // The length of the fault is what is tried here.
    thread::sleep(Duration::from_millis(4_200));
    restore(&run.site.net.reflector);
    restore(&run.site.net.probe);
    run.wait_for_closing();
    let (events, _) = run.end();
    let explained = explanations(&events, "closing")[0];
    assert_eq!(of_kind(&events, "connection.closed")[0]["cause"], "timed_out");
    if explained["verdict"] == "unknown" {
        // A fresh connection that was tried in the last of the silence was answered: then it may have been the flow.
        let could_be = explained["could_be"].as_array().expect("verdicts");
        return assert!(could_be.contains(&"path_down".into()), "{explained}");
    }
    assert_eq!(explained["verdict"], "path_down", "{explained}");
    if explained.get("reflector").is_some() {
        assert_eq!(explained["direction"], "forward", "the way there was broken first: {explained}");
    }
}

fn conntrack_entry_deleted() {
    let run = Run::start(Site::firewalled(), SOON);
    run.site.router().on(&format!("conntrack -D -p tcp --orig-port-src {}", run.port));
    run.wait_for_closing();
    let (events, _) = run.end();
    let explained = assert_closed(&events, "timed_out", "flow_forgotten", "echoed");
    assert_said(explained, "open", "forward");
}

/// The first time nothing shows that it was the quiet: a firewall may have been reloaded. The second time it does.
fn idle_limit() {
    let site = Site::firewalled();
    site.router().on("sysctl -q -w net.netfilter.nf_conntrack_tcp_timeout_established=2");
    let run = Run::start(site, &format!("--every 6s --count 6 {SOON}"));
    run.wait_for("two explanations", |events| explanations(events, "closing").len() >= 2);
    let (events, _) = run.end();
    let verdicts: Vec<_> = explanations(&events, "closing").iter().map(|e| e["verdict"].clone()).collect();
    assert_eq!(verdicts[..2], ["flow_forgotten", "idle_expired"], "{events:#?}");
    let explained = explanations(&events, "closing")[1];
    assert_eq!(explained["fresh"], "echoed", "{explained}");
    // Its first sample may be the one that was lost: then the reflector has nothing of the connection to tell.
    assert!(explained["direction"].is_null() || explained["direction"] == "forward", "{explained}");
}

/// A router refuses to forward and says why.
fn icmp(reason: &str, verdict: &str, fresh: &str) {
    let run = Run::start(Site::routed(), SOON);
    run.site.router().rule(&format!("ip daddr {} reject with icmp type {reason}", run.site.target.ip()));
    run.wait_for_closing();
    let (events, _) = run.end();
    assert_closed(&events, "unreachable", verdict, fresh);
}

fn icmp_host_unreachable() {
    icmp("host-unreachable", "unknown", "no_host");
}

fn icmp_net_unreachable() {
    icmp("net-unreachable", "path_down", "no_route");
}

fn icmp_admin_prohibited() {
    icmp("admin-prohibited", "path_down", "forbidden");
}

/// Nothing leaves this host, so no ICMP message comes back, and all that the kernel can say in the end is that time ran
/// out.
fn no_route_here() {
    let run = Run::start(Site::routed(), SOON);
    on(&run.site.net.probe, &format!("ip route add unreachable {}", run.site.target.ip()));
    run.wait_for_closing();
    let (events, _) = run.end();
    assert_closed(&events, "timed_out", "local", "no_route");
    let tcp = &of_kind(&events, "connection.closed")[0]["evidence"]["tcp"];
    assert!(tcp["unacked"] == 0 && tcp["notsent_bytes"].as_u64() > Some(0), "nothing was sent: {tcp}");
}

/// A fresh connection works, from another address of this host: the flow was taken for forgotten.
fn own_address_gone() {
    let run = Run::start(Site::routed(), SOON);
    for line in [
        "sysctl -qw net.ipv4.conf.cable.promote_secondaries=1",
        "ip address add 10.78.1.2/24 dev cable",
        "ip route replace default via 10.78.1.254 src 10.78.1.2",
        "ip address del 10.78.1.1/24 dev cable",
    ] {
        on(&run.site.net.probe, line);
    }
    run.wait_for_closing();
    let (events, _) = run.end();
    let explained = explanations(&events, "closing")[0];
    assert_eq!([&explained["verdict"], &explained["confidence"]], ["local", "high"], "{explained}");
}

mod acceptance {
    use super::*;

    #[test]
    fn every_end_has_its_cause_and_verdict() {
        make_all(FAULTS);
    }
}
