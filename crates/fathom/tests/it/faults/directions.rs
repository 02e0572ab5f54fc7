//! Which way was lost, by what the reflector says when it is asked, and that nothing is claimed where nobody can say:
//! each fault is made for real between namespaces (`FATHOM_REPEAT=10` makes each ten times).

use crate::support::faults::{
    Fault, Run, Site, assert_closed, assert_said, long_stall, make_all, on, restore, rule,
};
use crate::support::reflector::Xinetd;
use crate::support::rows::{Events, has_kind, of_kind};
use std::thread;
use std::time::{Duration, Instant};

const SOON: &str = "--user-timeout 3s";
/// How long packets vanish where the connection is to survive.
const LENGTH: Duration = Duration::from_secs(3);

const FAULTS: &[Fault] = &[
    ("this flow's way there blackholed for good", || flow_for_good("sport", "forward")),
    ("this flow's way back blackholed for good", || flow_for_good("dport", "return")),
    ("this UDP flow's way there blackholed for 3 s", || datagrams("sport", "forward")),
    ("this UDP flow's way back blackholed for 3 s", || datagrams("dport", "return")),
    ("the reflector's idle timeout", idle_timeout),
    ("xinetd, way there blackholed for good", || xinetd_for_good(true)),
    ("xinetd, way back blackholed for good", || xinetd_for_good(false)),
    ("xinetd, this flow's way there blackholed for 3 s", || xinetd_stalls("sport")),
    ("xinetd, this flow's way back blackholed for 3 s", || xinetd_stalls("dport")),
];

/// From now on one flow's packets vanish where they arrive: from its port at the reflector, or to it at the probe.
fn lose(run: &Run, protocol: &str, port: &str) {
    let host = if port == "sport" { &run.site.net.reflector } else { &run.site.net.probe };
    rule(host, &format!("{protocol} {port} {} drop", run.port));
}

/// A fresh connection works all the time, so the reflector is asked at once, and only it can tell the direction.
fn flow_for_good(port: &str, direction: &str) {
    let run = Run::start(Site::cable(), SOON);
    lose(&run, "tcp", port);
    run.wait_for_closing();
    let (events, _) = run.end();
    let explained = assert_closed(&events, "timed_out", "flow_forgotten", "echoed");
    assert_said(explained, "open", direction);
    // Where the way there is lost, the acknowledgement of the last echo may be among what is lost.
    let unacked = explained["reflector"]["unacked"].as_u64();
    assert!(unacked > Some(0) || direction == "forward", "its echoes wait for acknowledgement: {explained}");
}

/// No kernel sends a datagram again: what tells the direction is the reflector alone.
fn datagrams(port: &str, direction: &str) {
    let run = Run::start(Site::cable(), "--udp --every 100ms");
    let explained = stall(&run, "udp", port);
    let (verdict, fresh) = (&explained["verdict"], &explained["fresh"]);
    assert_eq!([verdict, fresh, &explained["direction"]], ["path_down", "echoed", direction], "{explained}");
    let (events, _) = run.end();
    assert_eq!(of_kind(&events, "connection.opened").len(), 1);
}

/// The reflector closes what was idle for a second, and says so when it is asked.
fn idle_timeout() {
    let site = Site::cable();
    let reflector =
        crate::support::faults::Reflector::start_with(&site.net.reflector, site.target, "--idle-timeout 1s");
    let run = Run::start_against(site, Some(reflector), "--every 4s --count 4");
    run.wait_for_closing();
    let (events, _) = run.end();
    let explained = assert_closed(&events, "peer_closed", "idle_expired", "echoed");
    assert_eq!(explained["reflector"]["standing"], "closed_idle", "{explained}");
}

fn xinetd(arguments: &str) -> (Run, Xinetd) {
    let site = Site::cable();
    let xinetd = Xinetd::start_on(&site.net.reflector, site.target);
    (Run::start_against(site, None, &format!("--keep-trying {arguments}")), xinetd)
}

fn assert_not_known(explained: &serde_json::Value) {
    assert!(explained.get("direction").is_none() && explained.get("reflector").is_none(), "{explained}");
    if explained["verdict"] == "unknown" {
        // A server without stamps tells no pauses either.
        let could_be = explained["could_be"].as_array().expect("verdicts");
        return assert!(could_be.contains(&"path_down".into()), "{explained}");
    }
    assert_eq!(explained["verdict"], "path_down", "{explained}");
    let because = explained["because"].as_array().expect("facts");
    assert!(because.contains(&"which way was lost is not known".into()), "{explained}");
}

fn xinetd_for_good(there: bool) {
    let (run, _xinetd) = xinetd(SOON);
    let net = &run.site.net;
    rule(if there { &net.reflector } else { &net.probe }, "meta l4proto tcp drop");
    run.wait_for_closing();
    restore(&net.probe);
    restore(&net.reflector);
    run.wait_for("a new connection", |events| of_kind(events, "connection.opened").len() == 2);
    // Long enough to be asked, were there anybody to answer.
    run.wait_for_samples_on(1, 5);
    let (events, _) = run.end();
    assert_not_known(assert_closed(&events, "timed_out", "path_down", "no_answer"));
}

fn xinetd_stalls(port: &str) {
    let (run, _xinetd) = xinetd("");
    let explained = stall(&run, "tcp", port);
    assert_eq!(explained["fresh"], "echoed", "{explained}");
    assert_not_known(&explained);
    run.end();
}

/// Loses one flow's packets one way for three seconds; the explanation of the stall.
fn stall(run: &Run, protocol: &str, port: &str) -> serde_json::Value {
    lose(run, protocol, port);
    let began = Instant::now();
    run.wait_for("a stall", |events| has_kind(events, "stall.began"));
    thread::sleep(LENGTH.saturating_sub(began.elapsed()));
    on(&run.site.net.reflector, "nft flush ruleset");
    on(&run.site.net.probe, "nft flush ruleset");
    let long = |event: &&serde_json::Value| event["duration_ns"].as_u64() > Some(2_000_000_000);
    let events: Events = run.wait_for("an explanation of the stall", |events| {
        let ended = events.iter().position(|event| event["kind"] == "stall.ended" && long(&event));
        ended.is_some_and(|at| has_kind(&events[at..], "connection.explained"))
    });
    long_stall(&events, Duration::from_secs(2)).clone()
}

mod acceptance {
    use super::*;

    #[test]
    fn fault_direction_requires_reflector_report() {
        if crate::support::needs("xinetd") {
            make_all(FAULTS);
        }
    }
}
