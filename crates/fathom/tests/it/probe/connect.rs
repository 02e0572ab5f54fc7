//! `fathom probe --connect`: connections as samples, against listeners that are no reflectors.

use crate::support::net::Net;
use crate::support::probe::{Probe, assert_sound, fathom};
use crate::support::reflector::{Echo, Reflector, Xinetd};
use crate::support::rows::{Row, UNANSWERED, WARM_UP, events, has_kind, of_kind, rows};
use crate::support::{FATHOM, faults, needs, needs_root};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread::{self, JoinHandle};

const COUNT: usize = 20;

/// How a connection ended for the listener: in order, or by a RST; and how many bytes came.
type Ending = (std::io::Result<usize>, u16);

/// A listener that takes so many connections, says something on each, and notes how each ends and its peer's port.
fn listener(greeting: &'static [u8], connections: usize) -> (SocketAddr, JoinHandle<Vec<Ending>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let take = move || {
        let (mut stream, peer) = listener.accept().expect("a probe connects");
        stream.write_all(greeting).expect("the kernel takes it");
        (stream.read_to_end(&mut Vec::new()), peer.port())
    };
    (address, thread::spawn(move || (0..connections).map(|_| take()).collect()))
}

/// A full accept queue, as long as what comes with its address is held: Linux drops further SYNs, and their sender
/// hears nothing (`net.ipv4.tcp_abort_on_overflow` 0).
fn full_queue() -> (SocketAddr, (socket2::Socket, TcpStream)) {
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("loopback");
    full.listen(0).expect("listens");
    let address = full.local_addr().expect("bound").as_socket().expect("an address");
    let held = TcpStream::connect(address).expect("the one that the queue takes");
    (address, (full, held))
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn run(home: &Path, target: &dyn std::fmt::Display, options: &str) -> crate::support::probe::Outcome {
    Probe::start(home, &format!("{target} --connect --quiet --json --record r {options}")).finish()
}

fn manifest(home: &Path) -> Value {
    let text = std::fs::read_to_string(home.join("r/recording.json")).expect("a manifest");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn each_sample_opens_and_closes_one_connection() {
    // One that greets, too: bytes unread at the close would make the kernel send a RST.
    for greeting in [&b""[..], b"SSH-2.0-somebody\r\n"] {
        let (address, server) = listener(greeting, COUNT);
        let home = home();
        let summary =
            run(home.path(), &address, &format!("--every 4ms --count {COUNT} --warm-up 3")).summary();
        let endings = server.join().expect("it ended in order");
        assert!(endings.iter().all(|(read, _)| matches!(read, Ok(0))), "a FIN and no byte: {endings:?}");
        agree(home.path(), &summary, &address);
        // The ports that the listener saw are those in the events, each once.
        let seen: BTreeSet<String> = endings.iter().map(|(_, port)| format!("127.0.0.1:{port}")).collect();
        let events = events(&home.path().join("r"));
        let opened = of_kind(&events, "connection.opened");
        let told: BTreeSet<String> =
            opened.iter().map(|event| event["local"].as_str().expect("an address").to_owned()).collect();
        assert_eq!((told.len(), &told), (COUNT, &seen));
        let warm = rows(&home.path().join("r")).iter().filter(|row| row.has(WARM_UP)).count();
        assert_eq!(
            (warm, &summary["warm_up"], &summary["rtt_ns"]["count"]),
            (3, &3.into(), &(COUNT - 3).into())
        );
    }
}

/// What the run says and what it recorded, where every connection was established.
fn agree(home: &Path, summary: &Value, address: &SocketAddr) {
    let case = format!("{summary}");
    assert_eq!((&summary["samples"], &summary["answered"]), (&COUNT.into(), &COUNT.into()), "{case}");
    assert_eq!((&summary["mode"], &summary["size"]), (&"connect".into(), &0.into()), "{case}");
    assert_eq!(summary["reflector"], address.to_string(), "{case}");
    let dir = home.join("r");
    assert_sound(&dir);
    let rows = rows(&dir);
    assert_eq!(rows.len(), COUNT, "{case}");
    let events = events(&dir);
    let (opened, closed) = (of_kind(&events, "connection.opened"), of_kind(&events, "connection.closed"));
    assert_eq!((opened.len(), closed.len()), (COUNT, COUNT), "{case}");
    for row in &rows {
        assert_eq!((row.at("size"), row.at("seq")), (0, 0), "{case}");
        let of = |event: &&&Value| event["connection"] == row.at("connection");
        let opened: Vec<_> = opened.iter().filter(of).collect();
        assert_eq!(opened.len(), 1, "{case}");
        assert_eq!(opened[0]["connect_ns"].as_i64(), row.rtt_ns(), "{case}");
        let closed = closed.iter().find(of).unwrap_or_else(|| panic!("{case}"));
        assert_eq!(closed["cause"], "finished", "{case}");
    }
    let rtts = || rows.iter().filter(|row| !row.has(WARM_UP)).filter_map(Row::rtt_ns);
    assert_eq!(summary["rtt_ns"]["min"].as_i64(), rtts().min(), "{case}");
    assert_eq!(summary["rtt_ns"]["max"].as_i64(), rtts().max(), "{case}");
    assert!(rtts().all(|ns| ns > 0), "{case}");
    let manifest = manifest(home);
    assert_eq!((&manifest["probe"]["mode"], &manifest["probe"]["size"]), (&"connect".into(), &0.into()));
    let read = fathom(home, &["recording", "summary", "r", "--json"]).summary();
    for field in ["mode", "size", "samples", "answered", "rtt_ns", "latency_ns", "interval_ns"] {
        assert_eq!(read[field], summary[field], "{field}");
    }
}

#[test]
fn explain_reports_connections() {
    let (address, server) = listener(b"", 5);
    let home = home();
    run(home.path(), &address, "--every 4ms --count 5").summary();
    server.join().expect("it ended in order");
    let story = fathom(home.path(), &["recording", "explain", "r"]);
    assert_eq!(story.code(), 0, "{}", story.err);
    assert!(story.out.contains("measured with a connection every 4 ms (connect)"), "{}", story.out);
    assert!(story.out.contains("5 connections (5 finished)"), "{}", story.out);
}

#[test]
fn reflectors_are_listeners_too() {
    let echo = Echo::start("127.0.0.1");
    let home_of_echo = home();
    let summary =
        run(home_of_echo.path(), &echo.address(), &format!("--every 4ms --count {COUNT}")).summary();
    agree(home_of_echo.path(), &summary, &echo.address());
    let served = echo.stop();
    assert_eq!((&served["connections"], &served["bytes"]), (&COUNT.into(), &0.into()), "{served}");
    if needs("xinetd") {
        let xinetd = Xinetd::start("127.0.0.1");
        let home = home();
        let summary = run(home.path(), &xinetd.address(), &format!("--every 4ms --count {COUNT}")).summary();
        agree(home.path(), &summary, &xinetd.address());
    }
}

#[test]
fn refusal_is_event_and_unanswered_sample() {
    let unused = TcpListener::bind("127.0.0.1:0").expect("loopback").local_addr().expect("bound");
    let home = home();
    let outcome = run(home.path(), &unused, "--every 4ms --count 5");
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    assert!(outcome.err.contains("accepted no connection"), "{}", outcome.err);
    let summary = outcome.objects().remove(0);
    let counted = ["samples", "answered", "unanswered"].map(|name| summary[name].as_u64());
    assert_eq!(counted, [Some(5), Some(0), Some(5)], "{summary}");
    let dir = home.path().join("r");
    assert_sound(&dir);
    assert!(rows(&dir).iter().all(|row| row.rtt_ns().is_none() && row.has(UNANSWERED)));
    let events = events(&dir);
    let refused = of_kind(&events, "connection.refused");
    assert_eq!(refused.len(), 5, "{events:?}");
    // ECONNREFUSED is 111 on Linux (asm-generic/errno.h).
    assert!(refused.iter().all(|event| event["errno"] == 111), "{refused:?}");
    assert!(!has_kind(&events, "connection.opened"), "{events:?}");
}

#[test]
fn returning_listener_is_measured_again() {
    let first = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = first.local_addr().expect("bound");
    let home = home();
    let probe =
        Probe::start(home.path(), &format!("{address} --connect --every 10ms --quiet --json --record r"));
    let dir = home.path().join("r");
    let count = |kind: &'static str, more_than: usize| {
        crate::support::probe::wait_for_events(&dir, kind, |events| of_kind(events, kind).len() > more_than)
    };
    let opened = of_kind(&count("connection.opened", 0), "connection.opened").len();
    drop(first);
    let events = count("connection.refused", 2);
    let opened = of_kind(&events, "connection.opened").len().max(opened);
    let again = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    again.set_reuse_address(true).expect("set");
    again.bind(&address.into()).expect("its port is free again");
    again.listen(128).expect("listens");
    count("connection.opened", opened + 2);
    probe.signal("INT");
    let summary = probe.finish().summary();
    let number = |name: &str| summary[name].as_u64().expect("a count");
    assert!(number("unanswered") > 2, "{summary}");
    assert_eq!(number("answered") + number("unanswered"), number("samples"), "{summary}");
    assert_sound(&dir);
}

/// It was exit code 0, and of a reflector that goes away it is 1.
#[test]
fn server_gone_for_good_exits_one() {
    let server = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = server.local_addr().expect("bound");
    let home = home();
    let probe =
        Probe::start(home.path(), &format!("{address} --connect --every 10ms --quiet --json --record r"));
    let wait_for = |kind: &'static str| {
        let dir = home.path().join("r");
        crate::support::probe::wait_for_events(&dir, kind, |events| of_kind(events, kind).len() > 2)
    };
    wait_for("connection.opened");
    drop(server);
    let refused = wait_for("connection.refused");
    probe.signal("INT");
    let outcome = probe.finish();
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    let gone = format!("{address} accepted no connection from ");
    assert!(outcome.err.contains(&gone), "{}", outcome.err);
    // Whatever listens there, it is no reflector.
    let error = of_kind(&refused, "connection.refused")[0]["error"].as_str().map(str::to_owned);
    assert!(error.is_some_and(|error| error.contains("nothing listens") && !error.contains("fathom echo")));
}

#[test]
fn unanswered_syn_does_not_delay_schedule() {
    let (address, _held) = full_queue();
    let home = home();
    let outcome = run(home.path(), &address, "--every 5ms --count 30 --timeout 100ms");
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    let dir = home.path().join("r");
    let mut rows = rows(&dir);
    rows.sort_by_key(|row| row.at("connection"));
    assert_eq!(rows.len(), 30);
    assert!(rows.iter().all(|row| row.rtt_ns().is_none() && row.has(UNANSWERED)));
    // All were sent though none came back, each due when the schedule says.
    let events = events(&dir);
    let refused = of_kind(&events, "connection.refused");
    assert_eq!(refused.len(), 30, "{events:?}");
    let said =
        |event: &&Value| event["error"].as_str().is_some_and(|error| error.contains("does not answer"));
    assert!(refused.iter().all(said), "{refused:?}");
    assert!(!has_kind(&events, "schedule.overrun"), "{events:?}");
    let dues: Vec<i64> = rows.iter().map(Row::due_ns).collect();
    assert!(dues.windows(2).all(|two| two[1] - two[0] == 5_000_000), "on their grid: {dues:?}");
}

/// It waited for the last handshakes by asking again and again: 563,401 calls in ten seconds.
#[test]
fn last_attempts_are_awaited_without_spinning() {
    if !needs("strace") {
        return;
    }
    let (address, _held) = full_queue();
    let home = home();
    let address = address.to_string();
    let line = [
        "probe",
        &address,
        "--connect",
        "--every",
        "10ms",
        "--count",
        "5",
        "--timeout",
        "1s",
        "--quiet",
        "--record",
        "r",
    ];
    let mut strace = std::process::Command::new("strace");
    strace.args(["-f", "-qq", "-o", "calls", "-e", "trace=epoll_wait,epoll_pwait,epoll_pwait2,poll,ppoll"]);
    let outcome = Probe::spawn(strace.arg(FATHOM).args(line).current_dir(home.path())).finish();
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    assert_eq!(rows(&home.path().join("r")).len(), 5);
    let calls = std::fs::read_to_string(home.path().join("calls")).expect("written").lines().count();
    assert!((2..500).contains(&calls), "{calls} waits for five attempts");
}

#[test]
fn give_up_ends_attempt_and_run_continues() {
    let (address, _held) = full_queue();
    let home = home();
    let line = format!("{address} --connect --give-up 30ms --every 10ms --quiet --json --record r");
    let probe = Probe::start(home.path(), &line);
    let dir = home.path().join("r");
    crate::support::probe::wait_for_events(&dir, "three given up", |events| {
        of_kind(events, "connection.refused").len() >= 3
    });
    probe.signal("INT");
    let outcome = probe.finish();
    assert_eq!(outcome.code(), 1, "nothing was accepted: {outcome:?}");
    assert_sound(&dir);
}

#[test]
fn text_shows_connections_and_no_bytes() {
    let (address, server) = listener(b"", 3);
    let home = home();
    let line = format!("{address} --connect --every 4ms --count 3 --plain --no-record");
    let outcome = Probe::start(home.path(), &line).finish();
    server.join().expect("it ended in order");
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    for connection in 0..3 {
        let told = format!("connected to {address}: connection={connection} time=");
        assert!(outcome.out.contains(&told), "{}", outcome.out);
    }
    assert!(outcome.out.contains("a connection every 4ms, connect"), "{}", outcome.out);
    assert!(!outcome.out.contains("bytes"), "{}", outcome.out);
    assert!(outcome.err.contains("a connection every 4ms, 3 times"), "{}", outcome.err);
    assert!(!outcome.err.contains("closed after"), "{}", outcome.err);
}

#[test]
fn invalid_connect_options_are_rejected() {
    let home = home();
    for (options, code, part) in [
        ("127.0.0.1 --connect --ping-pong", 2, "cannot be used with"),
        ("127.0.0.1 --connect --size 64", 2, "cannot be used with"),
        ("192.0.2.1:443 --connect --every 1ms", 2, "--allow-high-rate"),
        ("no-such-host.invalid:443 --connect", 1, "does not resolve"),
    ] {
        let outcome = Probe::start(home.path(), options).finish();
        assert_eq!(outcome.code(), code, "{options}: {}", outcome.err);
        assert!(outcome.err.contains(part), "{options}: {}", outcome.err);
    }
    assert_eq!(std::fs::read_dir(home.path()).expect("a directory").count(), 0, "nothing is left behind");
}

/// "Availability 25 %, is its server still there?", of a host with ten ports.
#[test]
fn missing_source_ports_are_local() {
    if !needs_root() {
        return;
    }
    let net = Net::new();
    let target = net.reflector_v4();
    let _reflector = faults::Reflector::start(&net.reflector, target);
    let ports = "net.ipv4.ip_local_port_range=40000 40009";
    let set = net.probe.command("sysctl").args(["-q", "-w", ports]).status().expect("it runs");
    assert!(set.success(), "{set}");
    let home = home();
    let options = "--connect --every 10ms --count 15 --json --quiet --record r";
    let out = Probe::start_on(&net.probe, home.path(), &format!("{target} {options}")).finish();
    assert_eq!(out.code(), 1, "{}", out.err);
    assert!(
        out.err.contains("this host has no free source port") && !out.err.contains("still there"),
        "{}",
        out.err
    );
    let summary = &out.objects()[0];
    assert_eq!((&summary["samples"], &summary["answered"]), (&10.into(), &10.into()));
    assert_eq!((&summary["availability"], &summary["not_sent_by"]["local"]), (&1.0.into(), &5.into()));
    assert_eq!((&summary["local"]["not_sent"], &summary["outages"][0]["local"]), (&5.into(), &true.into()));
    assert_sound(&home.path().join("r"));
    let read = fathom(home.path(), &["recording", "summary", "r", "--json"]).summary();
    for field in ["samples", "availability", "not_sent_by", "outages"] {
        assert_eq!(read[field], summary[field], "{field}");
    }
    let story = fathom(home.path(), &["recording", "explain", "r"]).out;
    assert!(story.contains("Verdict: local"), "{story}");
}

/// A name whose first address is silent: no connection was made, and `fathom limits` refused to search.
#[test]
fn second_address_serves_setup_modes() {
    if !needs_root() {
        return;
    }
    let net = Net::new();
    let target = net.reflector_v4();
    let _reflector = faults::Reflector::start(&net.reflector, target);
    // A host that is not there, of which this one does not know that. Neither address is nearer to the probe's own, so that they
    // are tried in the order of the file.
    let silent = net.v4(3);
    faults::on(&net.probe, &format!("ip neighbour add {silent} lladdr 02:00:00:00:00:99 dev cable"));
    let home = home();
    let hosts = format!("{silent} db.fc.example\n{} db.fc.example\n", target.ip());
    std::fs::write(home.path().join("hosts"), hosts).expect("a file");
    let fathom = |arguments: &str| {
        let bind = "mount --bind hosts /etc/hosts && exec \"$@\"";
        let mut command = net.probe.command("unshare");
        command.args(["-m", "sh", "-c", bind, "sh", FATHOM]).args(arguments.split_whitespace());
        Probe::spawn(command.current_dir(home.path())).finish()
    };
    let target = "db.fc.example:7007";
    let out =
        fathom(&format!("probe {target} --connect --every 10ms --count 10 --give-up 1s --json --quiet"));
    let summary = out.summary();
    assert_eq!((&summary["samples"], &summary["answered"]), (&10.into(), &10.into()), "{summary}");
    assert_eq!(summary["outages"][0]["remote"], format!("{silent}:7007"), "{summary}");
}
