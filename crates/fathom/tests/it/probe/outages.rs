//! A reflector that dies: every sample that was due is counted, the outage is told with how it ended, and a connection that
//! was lost for good is exit code 1.

use crate::support::probe::{Outcome, Probe, assert_sound, fathom, wait_for_events};
use crate::support::reflector::Echo;
use crate::support::rows::{has_kind, number, of_kind, recordings};
use crate::support::{all_stand, wait_for};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const FRAME: usize = 64;

/// Echoes so many frames on one connection, and then is gone: nothing listens there any more.
fn echo_frames(listener: TcpListener, frames: usize) {
    let (mut stream, _) = listener.accept().expect("a probe connects");
    drop(listener);
    // What the kernel still held back when the connection is reset would never be sent.
    stream.set_nodelay(true).expect("set");
    let mut frame = [0; FRAME];
    for _ in 0..frames {
        if stream.read_exact(&mut frame).and_then(|()| stream.write_all(&frame)).is_err() {
            return;
        }
    }
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

/// Each due sample is in one of the counts, in the run's own summary and in that of its recording.
fn assert_all_are_counted(outcome: &Outcome, home: &Path, due: u64) -> Value {
    let summary = outcome.objects().pop().expect("a summary");
    let again = fathom(home, &["recording", "summary", "r", "--json"]).summary();
    for summary in [&summary, &again] {
        let of = |name: &str| summary[name].as_u64().unwrap_or_else(|| panic!("{name}: {summary}"));
        assert_eq!(of("due"), due, "{summary}");
        assert_eq!(of("answered") + of("unanswered") + of("not_sent"), due, "{summary}");
        assert_eq!(summary["not_sent_by"]["unconnected"], of("not_sent"), "{summary}");
        assert_eq!(summary["availability"].as_f64(), Some(of("answered") as f64 / due as f64), "{summary}");
    }
    assert_eq!(summary["outages"], again["outages"]);
    assert_sound(&home.join("r"));
    summary
}

/// "27 samples, 27 answered, 0 unanswered", nothing of what was not sent, and exit code 0.
#[test]
fn lost_reflector_exits_one() {
    let home = tempfile::tempdir().expect("a directory");
    let (listener, address) = listener();
    let reflector = thread::spawn(move || echo_frames(listener, 50));
    let line = format!("{address} --every 10ms --for 1s --record r --json --quiet");
    let outcome = Probe::start(home.path(), &line).finish();
    reflector.join().expect("in order");
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    let told: Vec<&str> = outcome.err.lines().collect();
    assert_eq!(told.len(), 1, "{}", outcome.err);
    assert!(told[0].contains(&address.to_string()) && told[0].contains("did not come back"), "{}", told[0]);
    let summary = assert_all_are_counted(&outcome, home.path(), 100);
    assert_eq!(summary["answered"], 50, "{summary}");
    let outages = summary["outages"].as_array().expect("a list");
    assert_eq!(outages.len(), 1, "{summary}");
    assert_eq!((&outages[0]["over"], &outages[0]["connection"]), (&false.into(), &0.into()), "{summary}");
    assert!(outages[0]["uncertain_ns"].is_null() && !outages[0]["cause"].is_null(), "{summary}");
    // It lasted from about the fiftieth sample to the end, as the schedule has it.
    let lasted_ns = outages[0]["lasted_ns"].as_u64().expect("a number");
    let missing = summary["not_sent"].as_u64().expect("a number");
    assert!(lasted_ns >= (missing - 1) * 10_000_000, "{summary}");
    let text = fathom(home.path(), &["recording", "summary", "r"]).out;
    for part in ["  not sent     ", " no connection\n", "  availability 50.000 %\n", "not over after "] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

/// What was answered before a reset lies in this host's kernel, and is read before the connection's end is told: also by a
/// probe that wakes late and finds the end by sending the next sample.
#[test]
fn echoes_before_reset_are_answered() {
    let home = tempfile::tempdir().expect("a directory");
    let (listener, address) = listener();
    let (asked, was_asked) = mpsc::channel();
    let (answer, may_answer) = mpsc::channel::<()>();
    let reflector = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a probe connects");
        drop(listener);
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("set");
        let mut frames = [0; 20 * FRAME];
        stream.read_exact(&mut frames).expect("the probe sends");
        asked.send(()).expect("the test waits");
        may_answer.recv().expect("the test goes on");
        stream.write_all(&frames).expect("the probe's kernel takes it");
    });
    let line = format!("{address} --every 10ms --spin --for 1s --record r --json --quiet");
    let probe = Probe::start(home.path(), &line);
    was_asked.recv().expect("the reflector has read");
    probe.signal("STOP");
    wait_for("the probe to stand still", || all_stand(probe.pid()).then_some(()));
    answer.send(()).expect("the reflector waits");
    reflector.join().expect("in order");
    // The next sample is to be due when the probe goes on.
    thread::sleep(Duration::from_millis(50));
    probe.signal("CONT");
    let outcome = probe.finish();
    let summary = assert_all_are_counted(&outcome, home.path(), 100);
    assert_eq!(summary["answered"], 20, "{summary}");
    assert_eq!(summary["connections"][0]["cause"], "reset", "{summary}");
}

#[test]
fn returning_reflector_ends_outage_with_uncertainty() {
    let home = tempfile::tempdir().expect("a directory");
    let (first, address) = listener();
    let reflector = thread::spawn(move || echo_frames(first, 50));
    let line =
        format!("{address} --every 10ms --for 2500ms --reconnect-at-most 100ms --record r --json --quiet");
    let probe = Probe::start(home.path(), &line);
    reflector.join().expect("in order");
    let dir = home.path().join("r");
    wait_for_events(&dir, "an attempt that fails", |events| has_kind(events, "connection.refused"));
    let second = wait_for("the port", || TcpListener::bind(address).ok());
    let reflector = thread::spawn(move || echo_frames(second, usize::MAX));
    let outcome = probe.finish();
    reflector.join().expect("in order");
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let summary = assert_all_are_counted(&outcome, home.path(), 250);
    let outages = summary["outages"].as_array().expect("a list");
    assert_eq!(outages.len(), 1, "{summary}");
    let of = |name: &str| outages[0][name].as_u64().unwrap_or_else(|| panic!("{name}: {summary}"));
    assert_eq!((&outages[0]["over"], of("next_connection")), (&true.into(), 1), "{summary}");
    // The latest attempt that failed was begun within the outage.
    let log = crate::support::rows::events(&dir);
    let opened = of_kind(&log, "connection.opened");
    let failed = of_kind(&log, "connection.opening");
    let failed = failed[failed.len() - 2]["mono_ns"].as_u64().expect("a number");
    let back = opened[1]["mono_ns"].as_u64().expect("a number");
    assert_eq!(of("uncertain_ns"), back - failed, "{summary}");
    assert!(of("uncertain_ns") <= of("lasted_ns"), "{summary}");
}

/// Over UDP every attempt is "established" at once: a run without an answer looked connected.
#[test]
fn lost_udp_reflector_exits_one() {
    let home = tempfile::tempdir().expect("a directory");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = socket.local_addr().expect("bound");
    let reflector = thread::spawn(move || {
        let mut frame = [0; FRAME];
        for _ in 0..50 {
            let (n, peer) = socket.recv_from(&mut frame).expect("a datagram");
            socket.send_to(&frame[..n], peer).expect("sent");
        }
    });
    let line = format!("{address} --udp --every 10ms --for 1s --record r --json --quiet");
    let outcome = Probe::start(home.path(), &line).finish();
    reflector.join().expect("in order");
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    assert!(outcome.err.contains("did not come back"), "{}", outcome.err);
    let summary = assert_all_are_counted(&outcome, home.path(), 100);
    let outages = summary["outages"].as_array().expect("a list");
    assert_eq!((outages.len(), &outages[0]["over"]), (1, &false.into()), "{summary}");
}

/// The second of two targets never answered, and with `--keep-trying` the exit code was 0.
#[test]
fn unreached_target_exits_one_despite_keep_trying() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let good = echo.address();
    let absent = SocketAddr::new(good.ip(), crate::support::free_port());
    let check = |options: &str, told: &str, targets: [SocketAddr; 2]| {
        let [one, other] = targets;
        let line = format!("{one} {other} {options} --keep-trying --for 1s --no-record --json --quiet");
        let outcome = Probe::start(home.path(), &line).finish();
        assert_eq!(outcome.code(), 1, "{options}: {outcome:?}");
        assert!(outcome.err.contains(&format!("{absent} {told}")), "{options}: {}", outcome.err);
        let went_on = outcome.objects().iter().any(|summary| summary["answered"].as_u64() > Some(0));
        assert!(went_on, "the other went on: {options}: {outcome:?}");
    };
    thread::scope(|all| {
        for (options, told) in [
            ("--every 20ms", "was never reached"),
            ("--udp --every 20ms", "answered nothing"),
            ("--connect --every 20ms", "accepted no connection"),
        ] {
            for targets in [[good, absent], [absent, good]] {
                all.spawn(move || check(options, told, targets));
            }
        }
    });
}

/// Datagrams need no connection: with `--keep-trying` too they are sent from the start, and unanswered ones are counted.
#[test]
fn udp_time_counts_from_the_start() {
    let home = tempfile::tempdir().expect("a directory");
    let address = SocketAddr::new("127.0.0.1".parse().expect("an address"), crate::support::free_port());
    let line = format!(
        "{address} --udp --every 20ms --for 2500ms --keep-trying --reconnect-at-most 50ms --record r --json --quiet"
    );
    let probe = Probe::start(home.path(), &line);
    wait_for_events(&home.path().join("r"), "a closed port", |events| has_kind(events, "connection.closed"));
    let echo = Echo::start_on(&crate::support::net::Host::this(), address);
    let outcome = probe.finish();
    drop(echo);
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let summary = assert_all_are_counted(&outcome, home.path(), 125);
    let of = |name: &str| summary[name].as_u64().expect("a number");
    assert!(of("answered") > 0 && of("answered") < 125, "{summary}");
}

/// What was due in an outage was counted when it was over: until then it was 100 % available, and for good where the probe was
/// killed in it.
#[test]
fn running_outage_is_counted() {
    let home = tempfile::tempdir().expect("a directory");
    let (listener, address) = listener();
    let reflector = thread::spawn(move || echo_frames(listener, 50));
    let probe = Probe::start(home.path(), &format!("{address} --every 10ms --record r --quiet"));
    let dir = home.path().join("r");
    let not_sent = |events: &[Value]| -> u64 {
        let told = of_kind(events, "schedule.overrun").into_iter();
        told.filter(|event| event["reason"] == "unconnected").map(|event| number(event, "skipped")).sum()
    };
    wait_for_events(&dir, "a second of an outage", |events| not_sent(events) >= 100);
    let running = fathom(home.path(), &["recording", "summary", "r", "--json"]).summary();
    assert!(number(&running, "not_sent") >= 100, "{running}");
    probe.kill_9();
    reflector.join().expect("in order");
    fathom(home.path(), &["recording", "recover", "r"]);
    assert_sound(&dir);
    let summary = fathom(home.path(), &["recording", "summary", "r", "--json"]).summary();
    let (samples, unsent) = (number(&summary, "samples"), number(&summary, "not_sent"));
    assert_eq!(number(&summary, "due"), samples + unsent, "{summary}");
    assert!(unsent >= 100 && summary["availability"].as_f64() < Some(0.5), "{summary}");
}

/// It had no samples and no availability at all, as if nothing had been asked of it.
#[test]
fn samples_due_on_unreached_target_are_counted() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let (good, absent) =
        (echo.address(), SocketAddr::new([127, 0, 0, 1].into(), crate::support::free_port()));
    let line = format!("{absent} {good} --keep-trying --every 10ms --for 1s --record r --json --quiet");
    let outcome = Probe::start(home.path(), &line).finish();
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    let summaries = outcome.objects();
    let of = |target: SocketAddr| {
        let is = |summary: &&Value| summary["label"] == target.to_string();
        summaries.iter().find(is).unwrap_or_else(|| panic!("{target}: {summaries:?}"))
    };
    let never = of(absent);
    // One every 10 ms from the start on; the first after 10 ms.
    assert_eq!((number(never, "due"), number(never, "not_sent")), (99, 99), "{never}");
    assert_eq!(never["availability"].as_f64(), Some(0.0), "{never}");
    assert_eq!(
        number(of(good), "due"),
        100,
        "one that is reached at once owes nothing before: {summaries:?}"
    );
    for dir in recordings(&home.path().join("r")) {
        assert_sound(&dir);
    }
}
