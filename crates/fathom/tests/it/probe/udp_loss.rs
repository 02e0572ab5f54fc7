//! `fathom probe --udp`: the direction in which datagrams were lost, by the reflector's count, against what was done to
//! them. Cases run side by side: each waits for its time-out.

use crate::support::net::{Host, Net};
use crate::support::probe::{Probe, assert_sound, fathom, wait_for_events};
use crate::support::reflector::Echo;
use crate::support::relay::{Fault, NONE, Relay};
use crate::support::rows::{UNANSWERED, events, of_kind, rows};
use crate::support::{must, needs_root, wait_for};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;

/// Samples of a run.
const COUNT: u64 = 60;

fn measure(home: &Path, target: SocketAddr, options: &str) -> Value {
    let line = format!(
        "{target} --udp --every 10ms --timeout 2s --count {COUNT} --record r --json --quiet {options}"
    );
    let summary = Probe::start(home, &line).finish().summary();
    let dir = home.join("r");
    assert_sound(&dir);
    let lost = rows(&dir).iter().filter(|row| row.has(UNANSWERED)).count() as u64;
    let loss = &summary["loss"];
    assert_eq!(count(loss, "forward") + count(loss, "backward") + count(loss, "unknown"), lost, "{summary}");
    assert_eq!(count(&summary, "unanswered"), lost, "{summary}");
    // The recording says the same, and so does the sum of its events.
    let read = fathom(home, &["recording", "summary", "r", "--json"]).summary();
    assert_eq!(&read["loss"], loss);
    let log = events(&dir);
    let told = of_kind(&log, "loss.attributed");
    for way in ["forward", "backward", "duplicates", "reordered"] {
        assert_eq!(
            told.iter().map(|event| count(event, way)).sum::<u64>(),
            count(loss, way),
            "{way}: {told:?}"
        );
    }
    summary
}

fn count(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("{name}: {of}"))
}

/// Measures through a relay with this fault; the summary's losses, and what the relay lost.
fn through(reflector: SocketAddr, fault: Fault, options: &str) -> (Value, (u64, u64)) {
    let home = tempfile::tempdir().expect("a directory");
    let relay = Relay::start(reflector, fault);
    let summary = measure(home.path(), relay.address, options);
    (summary["loss"].clone(), relay.end())
}

#[test]
fn every_loss_has_its_direction() {
    let echo = Echo::start("127.0.0.1");
    // Each lets the last sample come back: what is lost behind the last echo cannot be known.
    let cases = [
        ("none", NONE),
        ("there", Fault { there: |n| n % 5 == 1, ..NONE }),
        ("back", Fault { back: |n| n % 5 == 1, ..NONE }),
        ("both", Fault { there: |n| n % 7 < 2, back: |n| n % 5 == 2, ..NONE }),
        ("in rows", Fault { there: |n| (5..20).contains(&n), back: |n| (20..40).contains(&n), ..NONE }),
    ];
    let check = |name: &str, fault| {
        let (loss, (there, back)) = through(echo.address(), fault, "");
        assert_eq!((count(&loss, "forward"), count(&loss, "backward")), (there, back), "{name}: {loss}");
        assert_eq!(count(&loss, "unknown"), 0, "{name}: {loss}");
        assert_eq!((count(&loss, "duplicates"), count(&loss, "reordered")), (0, 0), "{name}: {loss}");
    };
    thread::scope(|all| {
        for (name, fault) in cases {
            all.spawn(move || check(name, fault));
        }
    });
}

#[test]
fn loss_after_last_echo_has_unknown_direction() {
    let echo = Echo::start("127.0.0.1");
    let check = |fault| {
        let (loss, _) = through(echo.address(), fault, "");
        let ways = ["forward", "backward", "unknown"].map(|way| count(&loss, way));
        assert_eq!(ways, [0, 0, 10], "{loss}");
    };
    thread::scope(|all| {
        for fault in
            [Fault { there: |n| n >= COUNT - 10, ..NONE }, Fault { back: |n| n >= COUNT - 10, ..NONE }]
        {
            all.spawn(move || check(fault));
        }
    });
}

#[test]
fn overtaken_and_doubled_datagrams_are_no_losses() {
    let echo = Echo::start("127.0.0.1");
    let (loss, _) = through(echo.address(), Fault { late: |n| n % 10 == 3, ..NONE }, "");
    assert_eq!(count(&loss, "reordered"), COUNT / 10, "{loss}");
    let (loss, _) = through(echo.address(), Fault { times: |n| 1 + usize::from(n % 10 == 3), ..NONE }, "");
    assert_eq!(count(&loss, "duplicates"), COUNT / 10, "{loss}");
    assert_eq!(["forward", "backward", "unknown"].map(|way| count(&loss, way)), [0; 3], "{loss}");
}

/// Loses datagrams in both directions.
const LOSSY: Fault = Fault { there: |n| n % 5 == 1, back: |n| n % 5 == 2, ..NONE };

/// Below 64 bytes nothing carries a count.
#[test]
fn loss_without_counts_has_unknown_direction() {
    let echo = Echo::start("127.0.0.1");
    let (loss, (there, back)) = through(echo.address(), LOSSY, "--size 32");
    let [forward, backward, unknown] = ["forward", "backward", "unknown"].map(|way| count(&loss, way));
    // Some of what the relay loses may be of a canary connection.
    assert!((forward, backward) == (0, 0) && (1..=there + back).contains(&unknown), "{loss}");
}

/// Back to back, each lost datagram was waited for for a minute: this run took five.
#[test]
fn back_to_back_run_continues_after_loss() {
    let check = |options: &str| {
        let (echo, stamp) = Echo::start_stamp(&Host::this(), ([127, 0, 0, 1], 0).into(), &[]);
        let reflector = if options.contains("--stamp") { stamp } else { echo.address() };
        let relay = Relay::start(reflector, Fault { there: |n| n % 40 == 7, ..NONE });
        let home = tempfile::tempdir().expect("a directory");
        let line = format!("{} {options} --count 40 --timeout 1s --record r --json --quiet", relay.address);
        let summary = Probe::start(home.path(), &line).finish().summary();
        let (there, _) = relay.end();
        assert_sound(&home.path().join("r"));
        assert_eq!(count(&summary, "samples"), 40, "{line}: {summary}");
        // Some of what the relay lost may be a canary connection's.
        assert!((1..=there).contains(&count(&summary, "unanswered")), "{there} lost: {line}: {summary}");
    };
    thread::scope(|all| {
        for options in [
            "--udp --ping-pong",
            "--udp --idle-gap 1ms,5ms",
            "--stamp --ping-pong",
            "--profile sockperf --for 1m",
        ] {
            all.spawn(move || check(options));
        }
    });
}

#[test]
fn text_summary_names_direction_of_loss() {
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    let relay = Relay::start(echo.address(), Fault { there: |n| n == 4, back: |n| n == 9, ..NONE });
    let line =
        format!("{} --udp --every 10ms --timeout 1500ms --count 20 --no-record --quiet", relay.address);
    let outcome = Probe::start(home.path(), &line).finish();
    relay.end();
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    let said = "1 lost on the way there, 1 lost on the way back\n";
    assert!(outcome.out.contains(said), "{}", outcome.out);
}

/// Without a route sending itself fails, and no poll reports anything: connections once stayed lost for the rest of the run.
#[test]
fn every_connection_returns_after_route_outage() {
    if !needs_root() {
        return;
    }
    let net = Net::new();
    let target = net.reflector_v4();
    let _echo = Echo::start_on(&net.reflector, target);
    let home = tempfile::tempdir().expect("a directory");
    let line = format!(
        "{target} --udp --connections 3 --every 50ms --reconnect-at-most 200ms --record r --json --quiet"
    );
    let probe = Probe::start_on(&net.probe, home.path(), &line);
    let dir = home.path().join("r");
    let count = |events: &[Value], kind: &str| of_kind(events, kind).len();
    let cable =
        |state: &str| must("ip", &["netns", "exec", net.probe.name(), "ip", "link", "set", "cable", state]);
    wait_for_events(&dir, "connections", |events| count(events, "connection.opened") == 3);
    cable("down");
    wait_for_events(&dir, "their ends", |events| count(events, "connection.closed") == 3);
    cable("up");
    wait_for_events(&dir, "their return", |events| count(events, "connection.opened") == 6);
    // A datagram socket is open whatever is there: each of them is back with its first answer.
    wait_for("an answer on each", || {
        let rows = rows(&dir);
        let answers = |connection: i64| {
            rows.iter().any(|row| row.at("connection") == connection && row.rtt_ns().is_some())
        };
        (3..6).all(answers).then_some(())
    });
    probe.signal("INT");
    assert_eq!(probe.finish().code(), 0);
    assert_sound(&dir);
    for closed in &of_kind(&events(&dir), "connection.closed")[..3] {
        let error = closed["evidence"]["error"].as_str();
        assert!(error.is_some_and(|error| error.to_lowercase().contains("unreachable")), "{closed}");
    }
}

/// Real firewalls and peers.
mod acceptance {
    use super::*;
    use crate::support::needs;
    use crate::support::net::Direction;
    use crate::support::reflector::{Reflector, Xinetd};

    #[test]
    fn xinetd_leaves_direction_of_loss_unknown() {
        if !needs("xinetd") {
            return;
        }
        let xinetd = Xinetd::start("127.0.0.1");
        // It may lose some of its own.
        let (loss, _) = through(xinetd.address(), LOSSY, "");
        let [forward, backward, unknown] = ["forward", "backward", "unknown"].map(|way| count(&loss, way));
        assert!((forward, backward) == (0, 0) && unknown > 0, "{loss}");
    }

    #[test]
    fn one_way_loss_reports_its_direction() {
        if !needs_root() || !needs("nft") {
            return;
        }
        let check = |direction| {
            let net = Net::new();
            let target = net.reflector_v4();
            let _echo = Echo::start_on(&net.reflector, target);
            // Every fourth, from the fourth on.
            net.drop_some(direction, "udp", 4);
            let home = tempfile::tempdir().expect("a directory");
            let line = format!(
                "{target} --udp --every 10ms --timeout 3s --count {COUNT} --record r --json --quiet --stall-after 5s"
            );
            let summary = Probe::start_on(&net.probe, home.path(), &line).finish().summary();
            let loss = &summary["loss"];
            let (lossy, clean) = match direction {
                Direction::ToReflector => ("forward", "backward"),
                Direction::FromReflector => ("backward", "forward"),
            };
            let lost = count(&summary, "unanswered");
            assert!(lost >= COUNT / 5, "{summary}");
            assert_eq!(count(loss, clean), 0, "{direction:?}: {loss}");
            // The last ones may be among those that are not known.
            assert!(count(loss, "unknown") <= 1 && count(loss, lossy) + 1 >= lost, "{direction:?}: {loss}");
        };
        thread::scope(|all| {
            for direction in [Direction::ToReflector, Direction::FromReflector] {
                all.spawn(move || check(direction));
            }
        });
    }
}
