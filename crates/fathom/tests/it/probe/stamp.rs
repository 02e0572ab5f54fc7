//! STAMP (RFC 8762): `fathom probe --stamp` and `fathom echo --stamp`, against each other and against a peer that was
//! written from the text of the RFC alone (`support/stamp_peer.py`).

use crate::support::net::{Host, Net};
use crate::support::probe::{Probe, assert_sound, fathom};
use crate::support::reflector::Echo;
use crate::support::relay::{Fault, NONE, Relay};
use crate::support::rows::{events, has_kind, of_kind, rows};
use crate::support::{Kept, PATIENCE, needs, needs_root};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

const COUNT: u64 = 40;
const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/stamp_peer.py");

fn here(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// `fathom echo --stamp` on this host.
fn ours(options: &[&str]) -> (Echo, SocketAddr) {
    Echo::start_stamp(&Host::this(), here(0), options)
}

/// The other implementation's reflector.
fn theirs(kind: &str, format: &str) -> (Kept, SocketAddr) {
    let mut command = Command::new("python3");
    command.args([PEER, "reflect", kind, format]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Kept(command.spawn().expect("python3 runs"));
    let mut port = String::new();
    BufReader::new(child.0.stdout.take().expect("piped")).read_line(&mut port).expect("a port");
    (child, here(port.trim().parse().expect("a port")))
}

fn measure(home: &Path, target: SocketAddr, options: &str) -> Value {
    let line = format!(
        "{target} --stamp --every 10ms --timeout 2s --count {COUNT} --record r --json --quiet {options}"
    );
    let summary = Probe::start(home, &line).finish().summary();
    let dir = home.join("r");
    assert_sound(&dir);
    let read = fathom(home, &["recording", "summary", "r", "--json"]).summary();
    for field in ["mode", "size", "samples", "answered", "loss", "rtt_ns", "clock_error_ns"] {
        assert_eq!(read[field], summary[field], "{field}");
    }
    let rows = rows(&dir);
    assert_eq!(rows.len() as u64, COUNT);
    assert!(rows.iter().all(|row| row.rtt_ns().is_none_or(|ns| ns > 0)));
    // Differences of two clocks stand there with their error, or not at all.
    let bounded = has_kind(&events(&dir), "clock.bounded");
    assert_eq!(summary["clock_error_ns"].is_u64(), bounded, "{summary}");
    let compared = rows.iter().filter(|row| row.get("forward_ns").is_some()).count();
    assert_eq!(compared > 0, bounded, "{compared} rows");
    summary
}

fn losses(summary: &Value) -> [u64; 3] {
    ["forward", "backward", "unknown"].map(|way| summary["loss"][way].as_u64().expect("a count"))
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn our_ends_measure_each_other() {
    for (options, size) in [("", 44), ("--size 44", 44), ("--size 48", 48), ("--size 1400", 1_400)] {
        let (echo, address) = ours(&[]);
        let home = home();
        let summary = measure(home.path(), address, options);
        assert_eq!((&summary["mode"], &summary["size"]), (&"stamp".into(), &size.into()), "{summary}");
        assert_eq!((&summary["answered"], losses(&summary)), (&COUNT.into(), [0; 3]), "{summary}");
        assert!(rows(&home.path().join("r")).iter().all(|row| row.get("reflector_ns") >= Some(0)));
        let manifest = std::fs::read_to_string(home.path().join("r/recording.json")).expect("a manifest");
        let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
        assert_eq!(
            (&manifest["probe"]["mode"], &manifest["reflector"]["stamps"]),
            (&"stamp".into(), &true.into())
        );
        let served = echo.stop();
        assert_eq!(
            (&served["stamp_packets"], &served["bytes"]),
            (&COUNT.into(), &(COUNT * size).into()),
            "{served}"
        );
    }
}

#[test]
fn stamp_runs_back_to_back_and_in_sweeps() {
    let (_echo, address) = ours(&[]);
    let line = format!("{address} --stamp --ping-pong --count 200 --no-record --json --quiet");
    let summary = Probe::start(home().path(), &line).finish().summary();
    assert_eq!(
        (&summary["mode"], &summary["answered"]),
        (&"stamp-ping-pong".into(), &200.into()),
        "{summary}"
    );
    let line =
        format!("{address} --stamp --sizes 44,48,1KiB --every 2ms --count 60 --no-record --json --quiet");
    let summary = Probe::start(home().path(), &line).finish().summary();
    let sizes: Vec<_> =
        summary["sizes"].as_array().expect("sizes").iter().map(|of| of["size"].as_u64()).collect();
    assert_eq!(
        (sizes, &summary["answered"]),
        (vec![Some(44), Some(48), Some(1_024)], &60.into()),
        "{summary}"
    );
}

/// Losses both ways; each case waits for its time-out, so they run side by side.
#[test]
fn stateful_reflector_reveals_loss_direction() {
    let there = Fault { there: |n| n % 5 == 1, ..NONE };
    let back = Fault { back: |n| n % 5 == 1, ..NONE };
    let both = Fault { there: |n| n % 7 == 3, back: |n| n % 5 == 2, ..NONE };
    let check = |fault, reflector: &[&str], options: &str, expected: fn(u64, u64) -> [u64; 3]| {
        let (_echo, address) = ours(reflector);
        let relay = Relay::start(address, fault);
        let summary = measure(home().path(), relay.address, options);
        let (there, back) = relay.end();
        assert_eq!(losses(&summary), expected(there, back), "{reflector:?} {options}: {summary}");
    };
    let stateful = "--stamp-reflector stateful";
    let known: fn(u64, u64) -> [u64; 3] = |there, back| [there, back, 0];
    let unknown: fn(u64, u64) -> [u64; 3] = |there, back| [0, 0, there + back];
    thread::scope(|all| {
        for (fault, reflector, options, expected) in [
            (there, &[][..], stateful, known),
            (back, &[], stateful, known),
            (both, &[], stateful, known),
            // The probe knows it once a number and a count differ.
            (there, &[], "", known),
            (both, &[], "", known),
            (back, &[], "", unknown),
            (both, &["--stamp-stateless"], "", unknown),
        ] {
            all.spawn(move || check(fault, reflector, options, expected));
        }
    });
}

#[test]
fn another_implementations_reflector_is_measured() {
    if !needs("python3") {
        return;
    }
    let check = |kind: &str, format: &str| {
        let (_peer, address) = theirs(kind, format);
        let fault = Fault { there: |n| n % 7 == 3, ..NONE };
        let relay = Relay::start(address, fault);
        let home = home();
        let summary = measure(home.path(), relay.address, "");
        let (there, _) = relay.end();
        let expected = if kind == "stateful" { [there, 0, 0] } else { [0, 0, there] };
        assert_eq!(losses(&summary), expected, "{kind}: {summary}");
        let rows = rows(&home.path().join("r"));
        let answered: Vec<_> = rows.iter().filter(|row| row.rtt_ns().is_some()).collect();
        assert_eq!(answered.len() as u64, COUNT - there);
        assert!(answered.iter().all(|row| row.get("reflector_ns") >= Some(0)), "{format} is read");
        assert!(answered.iter().all(|row| row.get("reflector_ns") <= row.rtt_ns()), "{format} is read");
        if format == "ptp" {
            assert!(summary["clock_error_ns"].is_null(), "TAI or not is unknown: {summary}");
        }
    };
    thread::scope(|all| {
        for (kind, format) in [("stateful", "ntp"), ("stateful", "ptp"), ("stateless", "ntp")] {
            all.spawn(move || check(kind, format));
        }
    });
}

#[test]
fn another_implementations_sender_is_answered() {
    if !needs("python3") {
        return;
    }
    // Nothing; Extra Padding; Location and Extra Padding; a length beyond the end (RFC 8972, section 4).
    for (sent, back) in [
        ("", ""),
        ("800100040000ffff", "000100040000ffff"),
        ("8002000107800100021234", "8002000107000100021234"),
        ("80020009aabb", "40020009aabb"),
    ] {
        let (_echo, address) = ours(&[]);
        let out =
            Command::new("python3").args([PEER, "send", &address.port().to_string(), "5", sent]).output();
        let out = out.expect("python3 runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let answers: Vec<Value> = out
            .stdout
            .split(|b| *b == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).expect("JSON"))
            .collect();
        assert_eq!(answers.len(), 5);
        for (at, answer) in answers.iter().enumerate() {
            assert_eq!((&answer["own"], &answer["of"]), (&at.into(), &at.into()), "{answer}");
            assert_eq!((&answer["length"], &answer["session"]), (&0.into(), &0xBEEF.into()), "{answer}");
            assert_eq!(answer["extensions"], back, "{answer}");
            for holds in ["repeats", "in_order", "zeros"] {
                assert_eq!(answer[holds], true, "{holds}: {answer}");
            }
            assert!(answer["multiplier"].as_u64() > Some(0) && answer["ptp"] == false, "{answer}");
            assert_eq!(answer["ttl"], 77, "as it came: {answer}");
        }
    }
}

#[test]
fn short_stamp_packets_get_no_answer() {
    let (echo, address) = ours(&[]);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    socket.connect(address).expect("loopback");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    for length in [0, 14, 43] {
        socket.send(&vec![0; length]).expect("sent");
    }
    // Datagrams of loopback keep their order: when this is answered, the others have been judged.
    // Where a sender writes zeros a reflection would say when it was received.
    let mut packet = [1; 44];
    packet[16..].fill(0);
    socket.send(&packet).expect("sent");
    let mut answer = [0; 100];
    assert_eq!(socket.recv(&mut answer).expect("an answer"), 44);
    assert_eq!(answer[24..28], [1; 4], "that of the last");
    let served = echo.stop();
    assert_eq!(
        (&served["datagrams_refused"]["short"], &served["stamp_packets"]),
        (&3.into(), &1.into()),
        "{served}"
    );
}

#[test]
fn stamp_defaults_to_port_862() {
    if !needs_root() {
        return;
    }
    let net = Net::new();
    for target in [net.reflector_v4(), net.reflector_v6()] {
        let address = SocketAddr::new(target.ip(), 862);
        let (_echo, bound) = Echo::start_stamp(&net.reflector, address, &[]);
        assert_eq!(bound.port(), 862);
        let line = format!("{} --stamp --every 10ms --count 10 --no-record --json --quiet", target.ip());
        let summary = Probe::start_on(&net.probe, home().path(), &line).finish().summary();
        assert_eq!((&summary["answered"], &summary["reflector"]), (&10.into(), &address.to_string().into()));
    }
}

#[test]
fn lost_reflector_port_closes_connection_as_unreachable() {
    let (echo, address) = ours(&[]);
    let home = home();
    let line = format!("{address} --stamp --every 10ms --stall-after 200ms --record r --json --quiet");
    let probe = Probe::start(home.path(), &line);
    let dir = home.path().join("r");
    crate::support::wait_for("samples", || {
        let export = fathom(home.path(), &["recording", "export", "r"]);
        (export.out.lines().count() > 5).then_some(())
    });
    echo.kill();
    // An ICMP port unreachable ends it.
    let log = crate::support::probe::wait_for_events(&dir, "its explanation", |log| {
        has_kind(log, "connection.explained")
    });
    assert_eq!(of_kind(&log, "connection.closed")[0]["cause"], "unreachable", "{log:?}");
    // A socket of the next attempt may be open as the run ends: without an answer it is no return.
    crate::support::probe::wait_for_events(&dir, "another attempt", |log| {
        of_kind(log, "connection.opening").len() > 1
    });
    probe.signal("INT");
    let outcome = probe.finish();
    assert_eq!(outcome.code(), 1, "it was lost, and did not come back: {}", outcome.err);
    let summary: Value = serde_json::from_str(&outcome.out).expect("JSON");
    assert!(summary["answered"].as_u64() > Some(0), "{summary}");
}

#[test]
fn invalid_stamp_options_are_rejected() {
    let home = home();
    for (options, code, part) in [
        ("127.0.0.1 --stamp --udp", 2, "cannot be used with"),
        ("127.0.0.1 --stamp --size 46", 2, "44 bytes"),
        ("127.0.0.1:9 --stamp --count 1 --every 1ms --timeout 50ms --no-record", 1, "fathom echo --stamp"),
    ] {
        let outcome = Probe::start(home.path(), options).finish();
        assert_eq!(outcome.code(), code, "{options}: {}", outcome.err);
        assert!(outcome.err.contains(part), "{options}: {}", outcome.err);
    }
    for (options, part) in [
        (&["--stamp", "--tcp-only"][..], "STAMP is UDP"),
        (&["--stamp-stateless"], "--stamp"),
        (&["--stamp", "nowhere"], "862"),
    ] {
        let outcome = fathom(home.path(), &[&["echo"], options].concat());
        assert_eq!(outcome.code(), 2, "{options:?}");
        assert!(outcome.err.contains(part), "{options:?}: {}", outcome.err);
    }
}
