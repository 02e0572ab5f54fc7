//! What the first article saw, made to happen by its preset: a live migration, whose end is the end of every old
//! connection. The truth says why, and what the probes recorded never claims more than their evidence.
use crate::support::fabric::{Fabric, Truth, preset, utc_ns};
use crate::support::faults::{assert_closed, explanations, long_stall};
use crate::support::probe::{assert_sound, fathom, wait_for_events};
use crate::support::rate::assert_rate;
use crate::support::rows::{Events, Row, events, of_kind, rows};
use crate::support::wait_for;
use serde_json::Value;
use std::time::Duration;

/// Hosts with a probe, by the labels of their paths.
const CLIENTS: [(&str, &str); 3] =
    [("same-zone", "lm-zone1"), ("cross-zone", "lm-zone2"), ("cross-region", "lm-ukwest")];
/// The phases of the preset in seconds instead of minutes, and its shifts tall enough for a busy machine.
const EVENT: &str = "live-migration --host lm-server --brownout 4s --brownout-added 8ms --freeze 1500ms --redirect 4s \
                     --redirect-added 6ms --then silent";
const BROWNOUT_NS: i64 = 8_000_000;
const REDIRECT_NS: i64 = 6_000_000;
/// Less than the freeze: the first sample that it holds is sent a little after it begins.
const STALL: Duration = Duration::from_secs(1);

/// When the phases began and ended, by the truth; UTC in ns.
struct Phases {
    brownout: [i64; 2],
    freeze: [i64; 2],
    redirect: [i64; 2],
}

/// How many samples stand in a recording that is being written.
fn exported(fabric: &Fabric, label: &str) -> usize {
    // Refused while there is no recording yet.
    let export = fathom(fabric.home(), &["recording", "export", label]);
    export.out.lines().count().saturating_sub(1)
}

fn phases(truth: &Truth) -> Phases {
    let at = |kind: &str, phase: &str| {
        let lines: Vec<_> = truth.of_kind(kind).into_iter().filter(|line| line["event"] == phase).collect();
        assert_eq!(lines.len(), 1, "{kind} {phase}: {lines:?}");
        assert_eq!(lines[0]["place"], "lm-server", "{}", lines[0]);
        utc_ns(lines[0])
    };
    let of = |phase: &str| {
        let phase = format!("live-migration {phase}");
        [at("event.began", &phase), at("event.ended", &phase)]
    };
    let phases = Phases { brownout: of("brownout"), freeze: of("freeze"), redirect: of("redirect") };
    let order = [phases.brownout, phases.freeze, phases.redirect].concat();
    assert!(order.is_sorted(), "one after the other: {order:?}");
    phases
}

/// The level of the round trips changes when the brownout begins, and is another again on the detour.
fn assert_shifts(label: &str, rows: &[Row], phases: &Phases) {
    let old = |row: &&Row| row.at("connection") == 0;
    // The fastest of each: what a busy machine adds comes and goes, and what the fabric adds is in all of them.
    let level = |when: &dyn Fn(i64) -> bool| {
        let within = rows.iter().filter(old).filter(|row| when(row.at("sent_ns")));
        within.filter_map(Row::rtt_ns).min().expect("some were answered")
    };
    let before = level(&|ns| ns < phases.brownout[0]);
    let brownout = level(&|ns| (phases.brownout[0]..phases.brownout[1]).contains(&ns));
    let redirect = level(&|ns| (phases.redirect[0]..phases.redirect[1]).contains(&ns));
    // Twice what was added one way, were this machine alone; half of it on any.
    assert!(brownout > before + BROWNOUT_NS, "{label}: {before} to {brownout} ns");
    assert!(redirect > before + REDIRECT_NS, "{label}: {before} to {redirect} ns");
}

/// What the fabric itself did to the packets of a path: exactly so much more each way.
fn assert_moved(label: &str, host: &str, truth: &Truth, phases: &Phases) {
    for from in [host, "lm-server"] {
        let level = |[began, ended]: [i64; 2]| {
            let within = truth.packets.iter().filter(|packet| packet.path == label && packet.from == from);
            let within = within.filter(|packet| (began..ended).contains(&packet.in_ns));
            median(within.map(|packet| packet.due_ns - packet.in_ns).collect())
        };
        let before = level([0, phases.brownout[0]]);
        for (phase, added_ns) in [(phases.brownout, BROWNOUT_NS), (phases.redirect, REDIRECT_NS)] {
            // Medians of so few packets differ by part of the path's own spread, which is below 1 ms.
            let moved = level(phase) - before;
            assert!(
                (moved - added_ns).abs() < added_ns / 5,
                "{label} from {from}: {moved} for {added_ns} ns"
            );
        }
    }
}

/// The freeze is a stall that the connection survives, and the reflector tells whose doing it was: it did not run either.
fn assert_stall(events: &Events, phases: &Phases) {
    let stall = long_stall(events, STALL);
    assert_eq!(stall["verdict"], "peer_paused", "{stall}");
    assert!(utc_ns(stall) >= phases.freeze[1], "it ends when the host goes on: {stall}");
    let remote = of_kind(events, "pause").into_iter().filter(|event| event["host"] == "remote");
    let longest = remote.map(|event| event["duration_ns"].as_i64().expect("a length")).max();
    // Where the processes are, is looked up when the freeze has begun.
    let freeze_ns = phases.freeze[1] - phases.freeze[0];
    assert!(longest.is_some_and(|ns| ns > freeze_ns / 2), "{longest:?} of {freeze_ns} ns");
}

/// Old connections die after the detour has expired, all within seconds.
fn assert_ends(closed_ns: &[i64], phases: &Phases) {
    let (first, last) = (closed_ns.iter().min().expect("three"), closed_ns.iter().max().expect("three"));
    assert!(*first > phases.redirect[1], "{closed_ns:?}");
    // TCP_USER_TIMEOUT is two seconds for each of them.
    assert!(last - first < 5_000_000_000, "{closed_ns:?}");
}

/// Only packets of the old connections are dropped, only since then, and for that reason.
fn assert_drops(truth: &Truth, old: &[String], phases: &Phases) {
    let dropped = truth.of_kind("packet.dropped");
    for connection in old {
        let of_it = |line: &&&Value| line["flow"]["source"] == **connection;
        assert!(dropped.iter().filter(of_it).count() > 0, "{connection} lost nothing");
    }
    for line in dropped {
        assert_eq!(
            (&line["reason"], &line["place"]),
            (&"redirect-expired".into(), &"lm-server".into()),
            "{line}"
        );
        assert!(utc_ns(line) >= phases.redirect[1], "{line}");
        let ends = ["source", "destination"].map(|end| line["flow"][end].as_str().expect("an address"));
        assert!(old.iter().any(|connection| ends.contains(&connection.as_str())), "{line}");
    }
}

/// The probe's end of its first connection.
fn local(events: &Events) -> String {
    of_kind(events, "connection.opened")[0]["local"].as_str().expect("an address").to_owned()
}

/// When the first connection ended.
fn closed_ns(events: &Events) -> i64 {
    utc_ns(of_kind(events, "connection.closed")[0])
}

fn median(mut values: Vec<i64>) -> i64 {
    assert!(values.len() >= 10, "only {} to take the median of", values.len());
    values.sort_unstable();
    values[values.len() / 2]
}

/// One middlebox of `azure-idle-limits`, and what becomes of a connection that is idle past its limit.
struct Idle {
    label: &'static str,
    place: &'static str,
    source: &'static str,
    target: &'static str,
    limit_ns: u64,
    cause: &'static str,
    verdict: &'static str,
    resets: Resets,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resets {
    /// It says nothing, and drops what comes.
    Never,
    /// Both ends are told when the limit is reached.
    AtTheLimit,
    /// The next packet is answered.
    OnTheNextPacket,
}

/// Nothing was outstanding when a middlebox ended a connection at its limit: that a limit was the reason is not to be
/// seen then, only that the flow was forgotten.
#[rustfmt::skip]
const IDLE: [Idle; 5] = [
    Idle { label: "lb-silent", place: "lb-silent", source: "10.70.1.4", target: "10.71.0.100", limit_ns: 2_000_000_000,
        cause: "timed_out", verdict: "flow_forgotten", resets: Resets::Never },
    Idle { label: "lb-reset", place: "lb-reset", source: "10.70.1.14", target: "10.71.0.101", limit_ns: 2_000_000_000,
        cause: "reset", verdict: "flow_forgotten", resets: Resets::AtTheLimit },
    Idle { label: "firewall", place: "firewall-reset", source: "10.70.1.24", target: "10.71.1.24", limit_ns: 2_000_000_000,
        cause: "reset", verdict: "flow_forgotten", resets: Resets::AtTheLimit },
    Idle { label: "nat", place: "nat-gateway", source: "10.70.1.34", target: "10.71.1.34", limit_ns: 2_000_000_000,
        cause: "reset", verdict: "flow_forgotten", resets: Resets::OnTheNextPacket },
    Idle { label: "private-link", place: "private-link", source: "10.70.1.44", target: "10.70.0.104",
        limit_ns: 2_500_000_000, cause: "timed_out", verdict: "flow_forgotten", resets: Resets::Never },
];

/// The truth of the first connection: the middlebox forgot it because it was idle, for as long as the scenario says, and
/// said so as configured.
fn assert_forgotten(idle: &Idle, events: &Events, truth: &Truth) {
    let (ours, closed_ns) = (local(events), closed_ns(events));
    let of_it = |line: &&Value| {
        line["place"] == idle.place
            && ["source", "destination"].iter().any(|end| line["flow"][end] == ours.as_str())
    };
    let of_kind = |kind: &str| -> Vec<&Value> { truth.of_kind(kind).into_iter().filter(of_it).collect() };
    assert_eq!(of_kind("flow.opened").len(), 1, "{}", idle.label);
    let forgotten = of_kind("flow.forgotten");
    assert_eq!(forgotten.len(), 1, "{}: {forgotten:?}", idle.label);
    assert_eq!(
        (&forgotten[0]["why"], &forgotten[0]["idle_ns"]),
        (&"idle".into(), &idle.limit_ns.into()),
        "{}",
        forgotten[0]
    );
    let forgotten_ns = utc_ns(forgotten[0]);
    assert!(forgotten_ns < closed_ns, "{}", idle.label);
    let resets: Vec<i64> = of_kind("reset.sent").into_iter().map(utc_ns).collect();
    match idle.resets {
        Resets::Never => {
            assert!(resets.is_empty(), "{}: {resets:?}", idle.label);
            let dropped = of_kind("packet.dropped");
            assert!(dropped.len() > 1, "the sample and its retransmissions: {}: {dropped:?}", idle.label);
            assert!(dropped.iter().all(|line| utc_ns(line) > forgotten_ns), "{dropped:?}");
        }
        Resets::AtTheLimit => assert_eq!(resets, [forgotten_ns; 2], "both ends, at once: {}", idle.label),
        Resets::OnTheNextPacket => {
            assert_eq!(resets.len(), 1, "{}", idle.label);
            assert!(forgotten_ns < resets[0] && resets[0] < closed_ns, "{}: {resets:?}", idle.label);
        }
    }
}

fn migrate() {
    // The preset's hosts and paths; its event is made to happen now, when the probes have measured for a while.
    let preset = preset("azure-live-migration");
    let (standing, event) = preset.split_once("[[event]]").expect("an event");
    for key in ["live-migration", "lm-server", "brownout", "freeze", "redirect", "then = \"silent\""] {
        assert!(event.contains(key), "the preset's event is another: {key} in {event}");
    }
    let Some(fabric) = Fabric::up(standing) else { return };
    let _reflector = fabric.reflector("lm-server");
    let probes: Vec<_> = CLIENTS
        .iter()
        .map(|(label, host)| fabric.probe(host, label, "lm-server:7 --every 50ms --user-timeout 2s"))
        .collect();
    for (label, _) in CLIENTS {
        wait_for("samples", || (exported(&fabric, label) >= 60).then_some(()));
    }
    fabric.must("event", EVENT);
    for (label, _) in CLIENTS {
        wait_for_events(&fabric.path(label), "the end of the old connection", |events| {
            explanations(events, "closing").iter().any(|event| event["connection"] == 0)
        });
        // And then something on the new one.
        let so_far = exported(&fabric, label);
        wait_for("new samples", || (exported(&fabric, label) >= so_far + 20).then_some(()));
    }
    for probe in probes {
        probe.signal("TERM");
        let outcome = probe.finish();
        assert_eq!(outcome.code(), 0, "{}", outcome.err);
    }
    let truth = fabric.down();
    let phases = phases(&truth);
    let recorded = CLIENTS.map(|(label, host)| {
        assert_sound(&fabric.path(label));
        (label, host, events(&fabric.path(label)), rows(&fabric.path(label)))
    });
    for (label, host, events, rows) in &recorded {
        assert_shifts(label, rows, &phases);
        assert_moved(label, host, &truth, &phases);
        assert_stall(events, &phases);
        assert_closed(events, "timed_out", "flow_forgotten", "echoed");
        assert!(rows.iter().any(|row| row.at("connection") == 1 && row.rtt_ns().is_some()), "{label}");
    }
    assert_ends(&recorded.each_ref().map(|(_, _, events, _)| closed_ns(events)), &phases);
    let old: Vec<String> = recorded.iter().map(|(_, _, events, _)| local(events)).collect();
    assert_drops(&truth, &old, &phases);
}

/// `fathom-fabric` tests the model in virtual time; these tests use a kernel's sockets and real time.
mod acceptance {
    use super::*;

    #[test]
    fn live_migration_ends_only_old_connections() {
        // Shifts by milliseconds and a freeze of 1.5 s, measured on a machine that may be busy.
        assert_rate(1, 2, migrate);
    }

    #[test]
    fn middlebox_ends_idle_connections_as_configured() {
        // Seconds for minutes.
        let text = preset("azure-idle-limits").replace("\"4m\"", "\"2s\"").replace("\"5m\"", "\"2500ms\"");
        let Some(fabric) = Fabric::up(&text) else { return };
        let _reflector = fabric.reflector("idle-server");
        let probes: Vec<_> = IDLE
            .iter()
            .map(|idle| {
                let target =
                    format!("{}:7 --source {} --every 5s --user-timeout 2s", idle.target, idle.source);
                fabric.probe("idle-client", idle.label, &target)
            })
            .collect();
        for idle in &IDLE {
            wait_for_events(&fabric.path(idle.label), idle.label, |events| {
                explanations(events, "closing").iter().any(|event| event["connection"] == 0)
            });
        }
        for probe in probes {
            probe.signal("TERM");
            let outcome = probe.finish();
            assert_eq!(outcome.code(), 0, "{}", outcome.err);
        }
        let truth = fabric.down();
        for idle in &IDLE {
            let events = events(&fabric.path(idle.label));
            // No quiet was survived on this path before: that the limit is what ended it is not known yet.
            assert_closed(&events, idle.cause, idle.verdict, "echoed");
            assert_forgotten(idle, &events, &truth);
        }
    }
}
