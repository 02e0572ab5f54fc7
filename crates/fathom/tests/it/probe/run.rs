//! A run of `fathom probe` from its first line to its last: its end, its output and its files.

use crate::support::counting::{Counting, Leave};
use crate::support::probe::{Probe, assert_sound, left_behind, wait_for_events};
use crate::support::reflector::Echo;
use crate::support::rows::{
    FIRST_ON_CONNECTION, Row, UNANSWERED, ended_with_its_peer, events, has_kind, of_kind, rows,
};
use crate::support::{free_port, needs_ipv6, wait_for};
use serde_json::Value;
use std::fs;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::thread;
use tempfile::TempDir;

/// The flag of an echo that differs from what was sent, from `schema/recording.md`.
const CORRUPTED: i64 = 128;

fn home() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Waits until a recording that is being written holds some samples.
fn wait_for_samples(dir: &Path) {
    wait_for("samples on disk", || {
        let export = crate::support::probe::fathom(dir, &["recording", "export", "."]);
        (export.out.lines().count() > 3).then_some(())
    });
}

#[test]
fn ctrl_c_and_sigterm_end_run_cleanly() {
    let echo = Echo::start("127.0.0.1");
    for signal in ["INT", "TERM"] {
        let home = home();
        let probe = Probe::start(home.path(), &format!("{} --every 20ms --record r", echo.address()));
        let dir = home.path().join("r");
        wait_for_events(&dir, "connection", |events| has_kind(events, "connection.opened"));
        wait_for_samples(&dir);
        probe.signal(signal);
        let outcome = probe.finish();
        assert_eq!(outcome.code(), 0, "SIG{signal}: {}", outcome.err);
        let rows = rows(&dir);
        let counts = format!("{0} samples, {0} answered, 0 late, 0 unanswered", rows.len());
        assert!(outcome.out.contains(&counts), "SIG{signal}: not {counts}: {}", outcome.out);
        for word in ["rtt", "latency", "connect", "first sample", "mean", "finished", "recording"] {
            assert!(outcome.out.contains(word), "SIG{signal}: no {word:?}: {}", outcome.out);
        }
        assert_sound(&dir);
        let log = events(&dir);
        assert_eq!(of_kind(&log, "connection.closed")[0]["cause"], "finished");
        assert_eq!(of_kind(&log, "recording.ended")[0]["samples"], rows.len());
    }
}

#[test]
fn run_ends_after_count_or_duration() {
    let echo = Echo::start("127.0.0.1");
    let home = home();
    let run = |arguments: &str| {
        Probe::start(home.path(), &format!("{} --json --quiet --no-record {arguments}", echo.address()))
            .finish()
            .summary()
    };
    assert_eq!(run("--every 10ms --count 7")["samples"], 7);
    let timed = run("--every 100ms --for 1s");
    // Due at 0, 100, … 900 ms. One that this machine could not send in time is counted too.
    let due = timed["samples"].as_u64().zip(timed["not_sent"].as_u64()).map(|(sent, not)| sent + not);
    assert_eq!(due, Some(10), "{timed}");
    let ping_pong = run("--ping-pong --count 500");
    assert_eq!((&ping_pong["samples"], &ping_pong["mode"]), (&500.into(), &"tcp-ping-pong".into()));
    assert!(ping_pong["interval_ns"].is_null(), "{ping_pong}");
    assert_eq!(left_behind(home.path()), Vec::<&Path>::new(), "--no-record records");
}

#[test]
fn default_recording_is_named_by_label_and_time() {
    let echo = Echo::start("127.0.0.1");
    let home = home();
    let labels = "--label zone-1 --from az1 --to az2 --via peering --tag vm=D3v2 --tag team=db";
    let probe = Probe::start(
        home.path(),
        &format!("{} --every 10ms --count 3 --json --quiet {labels}", echo.address()),
    );
    let summary = probe.finish().summary();
    let entries: Vec<_> = fs::read_dir(home.path().join("recordings"))
        .expect("made")
        .map(|e| e.expect("listed").path())
        .collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    let name = entries[0].file_name().expect("a name").to_string_lossy().into_owned();
    let time = name.strip_prefix("zone-1-").unwrap_or_else(|| panic!("{name}"));
    let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    assert_eq!(shape, "99999999T999999Z", "{name}");
    assert_eq!(summary["recording"], format!("recordings/{name}"));

    let manifest = fs::read_to_string(entries[0].join("recording.json")).expect("a manifest");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    assert_eq!((&manifest["format_version"], &manifest["label"]), (&2.into(), &"zone-1".into()));
    let path = serde_json::json!({"from": "az1", "to": "az2", "via": "peering", "tags": {"vm": "D3v2", "team": "db"}});
    assert_eq!((&manifest["path"], &summary["path"]), (&path, &path));
    assert_eq!(manifest["reflector"]["address"], echo.address().to_string());
    assert_eq!(manifest["reflector"]["resolved"], echo.address().to_string());
    assert_eq!(manifest["probe"]["interval_ns"], 10_000_000);
    for fact in ["started_at", "ended_at", "id"] {
        assert!(manifest[fact].is_string(), "{fact}: {manifest}");
    }
    assert!(manifest["host"]["os"].is_string() || manifest["host"]["kernel"].is_string(), "{manifest}");
    assert!(manifest["clock_anchors"].as_array().is_some_and(|anchors| !anchors.is_empty()), "{manifest}");
}

#[test]
fn csv_has_the_articles_columns() {
    let echo = Echo::start("127.0.0.1");
    let home = home();
    let arguments =
        format!("{} --every 5ms --count 20 --csv tcp_echo_results.csv --record r --quiet", echo.address());
    assert_eq!(Probe::start(home.path(), &arguments).finish().code(), 0);
    let csv = fs::read_to_string(home.path().join("tcp_echo_results.csv")).expect("written");
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("packet_num,timestamp,send_time_ns,receive_time_ns,rtt_us"));
    let rows = rows(&home.path().join("r"));
    assert_eq!(rows.len(), 20);
    for (i, row) in rows.iter().enumerate() {
        let line = lines.next().expect("a line a sample");
        let fields: Vec<&str> = line.split(',').collect();
        let number = |field: usize| fields[field].parse::<i64>().expect("an integer");
        assert_eq!((number(0), number(2)), (i as i64 + 1, row.at("sent_ns")), "{line}");
        assert_eq!(Some(number(3) - number(2)), row.rtt_ns(), "{line}");
        let rtt_us: f64 = fields[4].parse().expect("a number");
        assert_eq!(Some((rtt_us * 1_000.0).round() as i64), row.rtt_ns(), "{line}");
        let at: jiff::civil::DateTime = fields[1].parse().expect("a time as Python's isoformat() writes it");
        let since_epoch = at.to_zoned(jiff::tz::TimeZone::UTC).expect("UTC").timestamp().as_microsecond();
        assert_eq!(since_epoch, row.at("sent_ns") / 1_000, "{line}");
    }
    assert_eq!(lines.next(), None);
    // A restarted service could not begin, because the file existed.
    let again = Probe::start(home.path(), &arguments.replace("--record r", "--no-record")).finish();
    assert_eq!(again.code(), 0, "{}", again.err);
    let both = fs::read_to_string(home.path().join("tcp_echo_results.csv")).expect("written");
    assert!(both.starts_with(&csv), "what was there stays");
    assert_eq!(both.lines().count(), 41);
    fs::write(home.path().join("tcp_echo_results.csv"), "sent,rtt\n1,2\n").expect("written");
    let other = Probe::start(home.path(), &arguments.replace("--record r", "--no-record")).finish();
    assert_eq!((other.code(), other.err.lines().count()), (1, 1), "{}", other.err);
    assert!(other.err.contains("tcp_echo_results.csv") && other.err.contains("--csv"), "{}", other.err);
}

#[test]
fn plain_prints_a_line_a_sample() {
    let echo = Echo::start("127.0.0.1");
    let home = home();
    let address = echo.address();
    let outcome =
        Probe::start(home.path(), &format!("{address} --every 5ms --count 9 --no-record --plain")).finish();
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    let start = format!("64 bytes from {address}: seq=");
    let lines: Vec<&str> = outcome.out.lines().filter_map(|line| line.strip_prefix(&start)).collect();
    assert_eq!(lines.len(), 9, "{}", outcome.out);
    for (i, line) in lines.iter().enumerate() {
        assert!(line.starts_with(&format!("{i} rtt=")), "{line}");
        assert_eq!(line.contains("first on its connection"), i == 0, "{line}");
    }
}

#[test]
fn connections_share_one_evenly_spaced_schedule() {
    const INTERVAL: i64 = 300_000_000;
    let [a, b] = [Echo::start("127.0.0.1"), Echo::start("127.0.0.1")];
    let home = home();
    let arguments = format!(
        "{} {} --connections 3 --every 300ms --count 5 --record both --json --quiet",
        a.address(),
        b.address()
    );
    let outcome = Probe::start(home.path(), &arguments).finish();
    let summaries = outcome.summaries();
    assert_eq!(summaries.len(), 2, "{}", outcome.out);
    let mut phases = Vec::new();
    for (summary, echo) in summaries.iter().zip([&a, &b]) {
        assert_eq!(summary["reflector"], echo.address().to_string(), "{summary}");
        assert_eq!(summary["connections"].as_array().map(Vec::len), Some(3), "{summary}");
        let dir = home.path().join(summary["recording"].as_str().expect("a recording each"));
        assert_sound(&dir);
        let rows = rows(&dir);
        assert_eq!((rows.len(), &summary["samples"]), (15, &15.into()));
        for connection in 0..3 {
            let lane: Vec<&Row> = rows.iter().filter(|row| row.at("connection") == connection).collect();
            assert_eq!(lane.len(), 5);
            phases.push(lane[0].due_ns().rem_euclid(INTERVAL));
            let steady = lane.windows(2).all(|pair| pair[1].due_ns() - pair[0].due_ns() == INTERVAL);
            assert!(steady, "connection {connection} of {} lost its phase", echo.address());
        }
    }
    assert_ne!(summaries[0]["recording"], summaries[1]["recording"]);
    assert_ne!(summaries[0]["label"], summaries[1]["label"]);
    phases.sort_unstable();
    let mut gaps: Vec<i64> = phases.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.push(phases[0] + INTERVAL - phases[5]);
    assert_eq!(gaps, [INTERVAL / 6; 6], "the samples of an interval are not spread evenly over it");
}

#[test]
fn requested_address_family_and_source_are_used() {
    let home = home();
    let v4 = Echo::start("127.0.0.1");
    let run = |target: &str, arguments: &str, name: &str| {
        let arguments = format!("{target} --every 10ms --count 2 --quiet --record {name} {arguments}");
        let outcome = Probe::start(home.path(), &arguments).finish();
        assert_eq!(outcome.code(), 0, "{}", outcome.err);
        let log = events(&home.path().join(name));
        let opened = of_kind(&log, "connection.opened")[0];
        let address =
            |end: &str| opened[end].as_str().and_then(|a| a.parse::<SocketAddr>().ok()).expect("an address");
        (address("local"), address("remote"))
    };
    let (local, remote) = run(&format!("localhost:{}", v4.address().port()), "-4", "v4");
    assert!(local.is_ipv4() && remote == v4.address(), "{local} {remote}");
    let (local, _) = run(&v4.address().to_string(), "--source 127.0.0.9", "source");
    assert_eq!(local.ip().to_string(), "127.0.0.9");
    let (local, _) = run(&v4.address().to_string(), "--udp --source 127.0.0.9 --dscp 46", "udp");
    assert_eq!(local.ip().to_string(), "127.0.0.9");
    if needs_ipv6() {
        let v6 = Echo::start("::1");
        let (local, remote) = run(&v6.address().to_string(), "-6", "v6");
        assert!(local.is_ipv6() && remote == v6.address(), "{local} {remote}");
    }
}

#[test]
fn no_reconnect_ends_the_run_with_the_connection() {
    let reflector = Counting::start(64, Leave::ByFin(5));
    let home = home();
    let arguments = format!("{} --every 20ms --record r --json --no-reconnect", reflector.address);
    let outcome = Probe::start(home.path(), &arguments).finish();
    assert_eq!(outcome.code(), 1, "{}", outcome.err);
    assert!(
        outcome.err.lines().last().is_some_and(|line| line.contains("--no-reconnect")),
        "{}",
        outcome.err
    );
    let summary = outcome.objects().pop().expect("a summary");
    assert_eq!(summary["answered"], 5, "{summary}");
    let connections = summary["connections"].as_array().expect("a list");
    assert_eq!((connections.len(), &connections[0]["cause"]), (1, &"peer_closed".into()), "{summary}");
    assert_sound(&home.path().join("r"));
    assert_eq!(of_kind(&events(&home.path().join("r")), "connection.opening").len(), 1);
}

#[test]
fn returning_reflector_is_found_again() {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let host = crate::support::net::Host::this();
    let first = Echo::start_on(&host, address);
    let home = home();
    let dir = home.path().join("r");
    let probe = Probe::start(home.path(), &format!("{address} --every 20ms --record r --json --quiet"));
    wait_for_events(&dir, "connection", |events| has_kind(events, "connection.opened"));
    wait_for_samples(&dir);
    first.kill();
    wait_for_events(&dir, "refusals", |events| of_kind(events, "connection.refused").len() >= 2);
    let _second = Echo::start_on(&host, address);
    wait_for_events(&dir, "second connection", |events| of_kind(events, "connection.opened").len() == 2);
    // Until something is answered on it the reflector has not come back, and the run would end with 1.
    wait_for("its first sample", || rows(&dir).iter().any(|row| row.at("connection") == 1).then_some(()));
    probe.signal("TERM");
    let summary = probe.finish().summary();
    assert_sound(&dir);

    let log = events(&dir);
    let opened = of_kind(&log, "connection.opened");
    let numbers: Vec<_> =
        opened.iter().map(|event| event["connection"].as_u64().expect("a number")).collect();
    assert_eq!(numbers, [0, 1]);
    for event in &opened {
        let local: SocketAddr = event["local"].as_str().and_then(|a| a.parse().ok()).expect("an address");
        assert!(local.ip().is_loopback() && local.port() != 0, "{event}");
        assert_eq!(
            (&event["remote"], &event["target"]),
            (&address.to_string().into(), &address.to_string().into())
        );
    }
    assert_ne!(opened[0]["local"], opened[1]["local"], "each connection has a port of its own");
    let closed = of_kind(&log, "connection.closed");
    ended_with_its_peer(closed[0]);
    assert_eq!(closed[1]["cause"], "finished", "{}", closed[1]);
    // ECONNREFUSED is 111 on Linux. The wait never exceeds 30 s, whatever the dice.
    for refused in of_kind(&log, "connection.refused") {
        assert_eq!(
            (&refused["errno"], &refused["remote"]),
            (&111.into(), &address.to_string().into()),
            "{refused}"
        );
        assert!(refused["retry_in_ns"].as_u64().is_some_and(|wait| wait <= 30_000_000_000), "{refused}");
        assert!(refused["error"].as_str().is_some_and(|e| e.contains("nothing listens there")), "{refused}");
    }
    let attempts: Vec<_> = of_kind(&log, "connection.opening")
        .iter()
        .map(|e| e["attempt"].as_u64().expect("a number"))
        .collect();
    assert_eq!(attempts[0], 1);
    assert_eq!(
        attempts[1..],
        (1..attempts.len() as u64).collect::<Vec<_>>(),
        "attempts since the loss count from 1"
    );

    let rows = rows(&dir);
    for connection in [0, 1] {
        let first: Vec<i64> =
            rows.iter().filter(|r| r.at("connection") == connection).map(|r| r.at("seq")).take(1).collect();
        assert_eq!(first, [0], "a connection counts its samples from 0");
    }
    assert!(rows.iter().all(|row| row.has(FIRST_ON_CONNECTION) == (row.at("seq") == 0)));
    let missed: u64 =
        of_kind(&log, "schedule.overrun").iter().map(|e| e["skipped"].as_u64().expect("a number")).sum();
    assert!(
        missed > 0 && summary["not_sent"] == missed,
        "what was due without a connection is counted: {summary}"
    );
    assert_eq!(summary["connections"].as_array().map(Vec::len), Some(2), "{summary}");
}

#[test]
fn corrupted_echo_is_event_and_unanswered() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    // Every third echo has one bit turned over.
    let corrupting = thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().expect("a probe connects");
        let mut frame = [0; 64];
        for number in 0.. {
            if stream.read_exact(&mut frame).is_err() {
                return;
            }
            frame[20] ^= u8::from(number % 3 == 1);
            stream.write_all(&frame).expect("sent");
        }
    });
    let home = home();
    let summary =
        Probe::start(home.path(), &format!("{address} --every 10ms --count 30 --record r --json --quiet"))
            .finish()
            .summary();
    corrupting.join().expect("it ended in order");
    let counts = ["samples", "answered", "corrupt"].map(|name| summary[name].as_u64());
    assert_eq!(counts, [Some(30), Some(20), Some(10)], "{summary}");
    let dir = home.path().join("r");
    assert_sound(&dir);
    for row in rows(&dir) {
        let corrupted = row.at("seq") % 3 == 1;
        assert_eq!(
            (row.has(CORRUPTED), row.has(UNANSWERED), row.rtt_ns().is_none()),
            (corrupted, corrupted, corrupted),
            "{row:?}"
        );
    }
    let log = events(&dir);
    let told = of_kind(&log, "echo.corrupted");
    assert_eq!(told[0]["seq"], 1, "{}", told[0]);
    assert_eq!(told.iter().filter_map(|event| event["count"].as_u64()).sum::<u64>(), 10);
}

#[test]
fn foreign_and_duplicate_datagrams_are_only_events() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = socket.local_addr().expect("bound");
    // Each echo comes twice, and with a datagram that nobody asked for.
    let chatty = thread::spawn(move || {
        let mut datagram = [0; 64];
        for _ in 0..20 {
            let (n, probe) = socket.recv_from(&mut datagram).expect("a sample");
            for answer in [&datagram[..n], &datagram[..n], b"who goes there?"] {
                socket.send_to(answer, probe).expect("sent");
            }
        }
    });
    let home = home();
    let arguments = format!("{address} --udp --every 10ms --count 20 --record r --json --quiet");
    let summary = Probe::start(home.path(), &arguments).finish().summary();
    chatty.join().expect("it ended in order");
    assert_eq!((&summary["samples"], &summary["answered"]), (&20.into(), &20.into()), "{summary}");
    let dir = home.path().join("r");
    assert_sound(&dir);
    assert_eq!(rows(&dir).len(), 20);
    let log = events(&dir);
    let sum =
        |kind: &str| of_kind(&log, kind).iter().filter_map(|event| event["count"].as_u64()).sum::<u64>();
    // What follows the last echo may come when nobody listens any more.
    assert!((19..=20).contains(&sum("echo.duplicated")), "{log:?}");
    assert!((19..=20).contains(&sum("echo.foreign")), "{log:?}");
    assert_eq!(of_kind(&log, "echo.foreign")[0]["first"], "who goes there?");
}

mod acceptance {
    use super::*;

    #[test]
    fn non_terminal_prints_status_every_ten_seconds() {
        let echo = Echo::start("127.0.0.1");
        let home = home();
        let arguments = format!("{} --every 50ms --count 225 --no-record --label there", echo.address());
        let outcome = Probe::start(home.path(), &arguments).finish();
        assert_eq!(outcome.code(), 0, "{}", outcome.err);
        let state: Vec<&str> = outcome.err.lines().filter(|line| line.contains(" there: ")).collect();
        assert_eq!(state.len(), 1, "{}", outcome.err);
        for word in ["samples", "last", "p50", "0 unanswered"] {
            assert!(state[0].contains(word), "no {word:?}: {}", state[0]);
        }
        assert!(!outcome.out.contains("seq="), "{}", outcome.out);
    }
}
