//! What `fathom probe` says when it cannot do what was asked: one line that names the thing and the remedy, exit code
//! 2 for the command line and 1 for the world, and nothing left behind on disk.

use crate::support::net::{Direction, Net};
use crate::support::probe::{Outcome, Probe, fathom, left_behind, wait_for_events};
use crate::support::reflector::Echo;
use crate::support::rows::{events, number, of_kind, recordings};
use crate::support::{FATHOM, free_port, needs, needs_root, wait_for};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread;
use tempfile::TempDir;

fn home() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Asserts how a command failed: its code, one line on standard error with all of these words, and not a byte on
/// standard output.
fn failed(outcome: &Outcome, code: i32, words: &[&str]) {
    assert_eq!(outcome.code(), code, "{outcome:?}");
    // A busy host adds notes of its own pauses.
    let mut lines = outcome.err.lines().filter(|line| !line.contains("did not run for"));
    assert!(lines.next().is_some_and(|line| line.starts_with("fathom: ")), "{}", outcome.err);
    assert_eq!(lines.next(), None, "{}", outcome.err);
    assert_eq!(outcome.out, "");
    for word in words {
        assert!(outcome.err.contains(word), "no {word:?}: {}", outcome.err);
    }
}

/// The same, where nothing may be left in the directory it ran in.
fn failed_in(home: &TempDir, outcome: &Outcome, code: i32, words: &[&str]) {
    failed(outcome, code, words);
    assert_eq!(left_behind(home.path()), Vec::<&Path>::new(), "left behind by: {}", outcome.err);
}

#[test]
fn unusable_arguments_are_rejected() {
    for (arguments, words) in [
        ("--size 0", &["--size 0", "smallest is 1"][..]),
        ("--size 100MiB", &["--size", "64MiB"]),
        ("--size 65508 --udp", &["--size 65508", "65507"]),
        ("--every 0", &["--every 0", "--ping-pong"]),
        ("--for 0", &["--for 0", "Ctrl-C"]),
        ("--timeout 0", &["--timeout 0", "5s"]),
        ("-4 --source ::1", &["--source ::1", "-4"]),
        ("other --csv x.csv", &["--csv", "export"]),
        ("--cpu 1023", &["--cpu 1023", "may use (0"]),
        ("--recorder-cpu 1023", &["--recorder-cpu 1023", "may use (0"]),
    ] {
        let home = home();
        let outcome = Probe::start(home.path(), &format!("127.0.0.1 {arguments}")).finish();
        failed_in(&home, &outcome, 2, words);
    }
    for target in ["127.0.0.1:0", "127.0.0.1:99999", "[::1", ":7"] {
        let home = home();
        let outcome = Probe::start(home.path(), target).finish();
        failed_in(&home, &outcome, 2, &[target, "HOST:PORT"]);
    }
}

/// An allocation that failed ended it, in the middle of a run, or it never ended.
#[test]
fn small_address_space_is_one_line_error() {
    let home = home();
    let within = |kib: u32| {
        let line = format!("ulimit -v {kib}; exec {FATHOM} probe 127.0.0.1:1 --record r");
        Command::new("sh").args(["-c", &line]).current_dir(home.path()).output().expect("it runs")
    };
    // The first in which it comes to say something: how large the program itself is depends on how it was built.
    let said =
        (16..256).step_by(4).map(|mib| within(mib << 10)).find(|output| output.status.code() == Some(1));
    let err = String::from_utf8(said.expect("one with which it starts").stderr).expect("text");
    assert!(err.starts_with("fathom: ") && err.lines().count() == 1, "{err}");
    assert!(err.contains("address space") && err.contains("ulimit -v"), "{err}");
    assert_eq!(left_behind(home.path()), Vec::<&Path>::new());
}

#[test]
fn unreadable_arguments_are_rejected() {
    // The parser's own messages take a few lines; the first says what is wrong.
    for (arguments, word) in [
        ("probe", "TARGET"),
        ("probe h --every -1s", "negative"),
        ("probe h --for=-1s", "negative"),
        ("probe h --every 5", "write 5s, 5ms"),
        ("probe h --every soon", "as in"),
        ("probe h --size -1", "negative"),
        ("probe h --size big", "64, 64KiB"),
        ("probe h --count 0", "--count"),
        ("probe h --dscp 64", "0..=63"),
        ("probe h --source nowhere", "--source"),
        ("probe h --tag novalue", "vm=D3v2"),
        ("probe h --spin --priority", "cannot be used with"),
        ("probe h --plain --quiet", "cannot be used with"),
        ("probe h -4 -6", "cannot be used with"),
        ("probe h --record r --no-record", "cannot be used with"),
        ("probe h --unheard-of", "--unheard-of"),
        ("echo --allow 10.0.0.0/40", "10.0.0.0/40"),
        ("echo --listen 99999", "99999"),
        ("recording", "Usage"),
        ("sail", "sail"),
    ] {
        let home = home();
        let words: Vec<&str> = arguments.split(' ').collect();
        let outcome = fathom(home.path(), &words);
        assert_eq!(outcome.code(), 2, "{arguments}: {outcome:?}");
        assert!(outcome.err.contains(word), "{arguments}: no {word:?}: {}", outcome.err);
        assert!(
            !outcome.err.contains("panicked") && outcome.err.lines().count() < 20,
            "{arguments}: {}",
            outcome.err
        );
        assert_eq!((outcome.out.as_str(), left_behind(home.path()).len()), ("", 0), "{arguments}");
    }
}

#[test]
fn disturbing_rates_need_allow_high_rate() {
    // 192.0.2.0/24 is for documentation (RFC 5737): refused before a packet is sent there.
    for (arguments, words) in [
        ("192.0.2.1 --every 100us", &["10000 samples/s", "--allow-high-rate"][..]),
        ("192.0.2.1 --every 1ms --connections 60", &["60000 samples/s", "--allow-high-rate"]),
        ("192.0.2.1 --ping-pong", &["--ping-pong", "--allow-high-rate"]),
    ] {
        let home = home();
        failed_in(&home, &Probe::start(home.path(), arguments).finish(), 2, words);
    }
}

#[test]
fn refused_connection_is_one_line_error() {
    let port = free_port();
    for target in [format!("127.0.0.1:{port}"), format!("localhost:{port}")] {
        for option in ["", "--record r", "--csv x.csv", "--json", "--plain"] {
            let home = home();
            let outcome = Probe::start(home.path(), &format!("{target} {option}")).finish();
            failed_in(&home, &outcome, 1, &[&target, "refused", "fathom echo", "HOST:PORT"]);
        }
    }
}

#[test]
fn closed_udp_port_is_one_line_error() {
    let home = home();
    let target = format!("127.0.0.1:{}", free_port());
    let outcome = Probe::start(
        home.path(),
        &format!("{target} --udp --every 50ms --count 3 --timeout 200ms --quiet --json"),
    )
    .finish();
    // A datagram socket connects to anything: missing answers show in the samples, which are kept.
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    assert_eq!(outcome.err.lines().count(), 1, "{}", outcome.err);
    assert!(outcome.err.contains(&target) && outcome.err.contains("fathom echo"), "{}", outcome.err);
    let summary = outcome.objects().pop().expect("a summary");
    assert_eq!(summary["answered"], 0, "{summary}");
    assert_eq!(summary["connections"][0]["cause"], "unreachable", "{summary}");
}

#[test]
fn unresolvable_name_is_one_line_error() {
    let home = home();
    // RFC 6761: names below .invalid never exist.
    let outcome = Probe::start(home.path(), "no-such-host.invalid").finish();
    failed_in(&home, &outcome, 1, &["no-such-host.invalid", "does not resolve", "spelling"]);
    let outcome = Probe::start(home.path(), "127.0.0.1 -6").finish();
    failed_in(&home, &outcome, 1, &["127.0.0.1", "no IPv6 address", "-6"]);
}

#[test]
fn foreign_source_address_is_one_line_error() {
    let echo = Echo::start("127.0.0.1");
    let home = home();
    let outcome = Probe::start(home.path(), &format!("{} --source 192.0.2.7", echo.address())).finish();
    failed_in(&home, &outcome, 1, &["no such source address"]);
}

#[test]
fn unroutable_and_rejecting_hosts_are_errors() {
    if !needs_root() || !needs("nft") {
        return;
    }
    let net = Net::new();
    let home = home();
    let outcome = Probe::start_on(&net.probe, home.path(), "192.0.2.1").finish();
    failed_in(&home, &outcome, 1, &["192.0.2.1:7007", "has no way there", "routes"]);
    // A firewall that says no, by ICMP.
    net.reject_connections();
    let target = net.reflector_v4().to_string();
    let outcome = Probe::start_on(&net.probe, home.path(), &target).finish();
    failed_in(&home, &outcome, 1, &[&target]);
}

#[test]
fn unwritable_directory_is_one_line_error() {
    let echo = Echo::start("127.0.0.1");
    let target = echo.address();
    let home = home();
    fs::write(home.path().join("file"), "").expect("written");
    let outcome = Probe::start(home.path(), &format!("{target} --record file/r --count 1")).finish();
    failed(&outcome, 1, &["file/r", "another path"]);
    let outcome = Probe::start(home.path(), &format!("{target} --record file --count 1")).finish();
    failed(&outcome, 1, &["file", "another path"]);
    let outcome =
        Probe::start(home.path(), &format!("{target} --record r --csv missing/x.csv --count 1")).finish();
    failed(&outcome, 1, &["missing/x.csv", "--csv"]);
    assert_eq!(left_behind(home.path()), [Path::new("file")]);
    assert_eq!(echo.stop()["connections"], 0, "it connected before it knew where to record");
}

#[test]
fn unpermitted_directory_is_one_line_error() {
    if !needs_root() || !needs("setpriv") {
        return;
    }
    let echo = Echo::start("127.0.0.1");
    // Below /tmp, and a binary that anybody may run: the build's directories may be root's alone.
    let home = home();
    let binary = home.path().join("fathom");
    fs::copy(FATHOM, &binary).expect("copied");
    let owned = home.path().join("owned");
    fs::create_dir(&owned).expect("made");
    for path in [home.path(), &owned] {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(binary);
    command
        .args(["probe", &echo.address().to_string(), "--count", "1", "--record", "owned/r"])
        .current_dir(home.path());
    failed(&Probe::spawn(&mut command).finish(), 1, &["owned/r", "Permission denied", "may write to"]);
    assert_eq!(left_behind(&owned), Vec::<&Path>::new());
}

#[test]
fn existing_recording_is_never_overwritten() {
    let echo = Echo::start("127.0.0.1");
    let home = home();
    let record = |extra: &str| {
        Probe::start(home.path(), &format!("{} --every 5ms --count 3 {extra}", echo.address())).finish()
    };
    assert_eq!(record("--record r --quiet").code(), 0);
    let contents = || {
        let mut files = left_behind(home.path());
        files.sort();
        files
            .into_iter()
            .map(|file| (fs::read(home.path().join(&file)).unwrap_or_default(), file))
            .collect::<Vec<_>>()
    };
    let before = contents();
    failed(&record("--record r"), 1, &["r already holds a recording", "another directory"]);
    failed(&record("--record r --csv x.csv"), 1, &["r already holds a recording", "another directory"]);
    assert!(contents() == before, "something changed: {:?}", left_behind(home.path()));
    // Of two targets the second's directory is taken: the first's recording is not begun either.
    fs::create_dir(home.path().join("both")).expect("made");
    fs::rename(home.path().join("r"), home.path().join("both/b-127.0.0.1-7")).expect("moved");
    let before = contents();
    let outcome = record("127.0.0.1:7 --label b --record both");
    failed(&outcome, 1, &["both/b-127.0.0.1-7 already holds a recording"]);
    assert!(contents() == before, "something changed: {:?}", left_behind(home.path()));
}

#[test]
fn server_without_echo_ends_run() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a probe connects");
        stream.write_all(b"220 mail.example ESMTP\r\n").expect("sent");
        // The probe ends it.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let home = home();
    let outcome =
        Probe::start(home.path(), &format!("{address} --every 20ms --no-record --quiet --json")).finish();
    server.join().expect("it ended in order");
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    assert_eq!(outcome.err.lines().count(), 1, "{}", outcome.err);
    for word in [address.to_string().as_str(), "does not echo", "220 mail.example", "fathom echo"] {
        assert!(outcome.err.contains(word), "no {word:?}: {}", outcome.err);
    }
    let summary = outcome.objects().pop().expect("a summary");
    assert_eq!(summary["connections"][0]["cause"], "local_error", "{summary}");
}

/// A database that gets bytes which are none of its protocol closes the connection, and writes that into its log: a probe
/// without an end did that to it every second.
#[test]
fn closing_server_gets_only_three_connections() {
    // It reads what came and closes; it closes without reading, which resets; it closes before anything can be sent.
    for (bytes, waits) in [(64, true), (1, true), (0, false)] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                // A canary connection sends nothing, and closes.
                thread::spawn(move || waits.then(|| std::io::Read::read(&mut stream, &mut vec![0; bytes])));
            }
        });
        let home = home();
        let outcome =
            Probe::start(home.path(), &format!("{address} --every 20ms --no-record --json")).finish();
        assert_eq!(outcome.code(), 1, "{outcome:?}");
        let last = outcome.err.lines().last().expect("a line");
        for word in ["closed each of 3 connections", "no echo server", "fathom echo", "--key"] {
            assert!(last.contains(word), "no {word:?}: {last}");
        }
        assert!(last.contains(&format!("`fathom probe {address} --connect`")), "{last}");
        let summary = outcome.objects().pop().expect("a summary");
        assert_eq!(summary["connections"].as_array().map(Vec::len), Some(3), "{summary}");
    }
}

/// A full reflector closes the other connections: a probe that is answered on one goes on.
#[test]
fn reflector_at_its_limit_is_still_measured() {
    let echo = Echo::start_as(&["--max-connections", "1"]);
    let home = home();
    let line = format!("{} --connections 4 --every 20ms --record r --json", echo.address());
    let probe = Probe::start(home.path(), &line);
    // Three that are closed in a row end a run without answers.
    wait_for_events(&home.path().join("r"), "four ends", |log| of_kind(log, "connection.closed").len() >= 4);
    wait_for("a sample", || {
        let export = fathom(home.path(), &["recording", "export", "r"]);
        (export.out.lines().count() > 1).then_some(())
    });
    probe.signal("INT");
    let outcome = probe.finish();
    let summary = outcome.objects().pop().expect("a summary");
    assert!(!outcome.err.contains("closed each of"), "{outcome:?}");
    assert!(summary["answered"].as_u64() >= Some(1), "{summary}");
}

#[test]
fn missing_recording_is_one_line_error() {
    let home = home();
    fs::create_dir(home.path().join("empty")).expect("made");
    for command in ["summary", "verify", "recover", "export"] {
        for dir in ["empty", "missing"] {
            let outcome = fathom(home.path(), &["recording", command, dir]);
            failed(&outcome, 1, &[dir, if dir == "empty" { "fathom probe" } else { "check the path" }]);
        }
    }
    assert_eq!(left_behind(home.path()), [Path::new("empty")]);
}

/// A server that speaks first: what it said first is shown, not the end of its banner.
#[test]
fn mail_server_is_identified_by_banner_start() {
    let banner = b"220 mail.example.com ESMTP Postfix (Debian/GNU) and a long line of courtesies for whoever connects\r\n";
    for chunks in [1, 2] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a probe connects");
            // The banner comes after the first sample has been sent: its beginning then stands where an echo would.
            let mut frame = [0; 64];
            std::io::Read::read_exact(&mut stream, &mut frame).expect("a sample");
            for part in banner.chunks(banner.len().div_ceil(chunks)) {
                // The probe may have hung up after the first.
                let _ = stream.write_all(part);
            }
            let _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
        });
        let home = home();
        let outcome =
            Probe::start(home.path(), &format!("{address} --every 1s --no-record --quiet")).finish();
        server.join().expect("in order");
        assert_eq!(outcome.code(), 1, "{outcome:?}");
        assert!(outcome.err.contains("(it sent \"220 mail.example.com ESMTP"), "{}", outcome.err);
        assert!(outcome.err.contains(&format!("fathom probe {address} --connect")), "{}", outcome.err);
    }
}

/// Only the first was named; and where no other was reached, none.
#[test]
fn each_unreached_target_is_named() {
    let home = home();
    let echo = Echo::start("127.0.0.1");
    let dead: Vec<String> = (0..2).map(|_| format!("127.0.0.1:{}", free_port())).collect();
    for alive in [Some(echo.address().to_string()), None] {
        let mut line = vec!["probe", &dead[0], &dead[1]];
        line.extend(alive.as_deref());
        line.extend(["--keep-trying", "--for", "300ms", "--every", "10ms", "--quiet", "--no-record"]);
        let outcome = fathom(home.path(), &line);
        assert_eq!(outcome.code(), 1, "{outcome:?}");
        for target in &dead {
            assert!(outcome.err.contains(&format!("{target} was never reached")), "{}", outcome.err);
        }
    }
}

/// A file of an earlier run is the user's.
#[test]
fn failed_start_leaves_csv_as_it_was() {
    let home = home();
    let csv = home.path().join("x.csv");
    let before =
        "packet_num,timestamp,send_time_ns,receive_time_ns,rtt_us\n1,2026-01-02T03:04:05,1,2,0.001\n";
    fs::write(&csv, before).expect("written");
    let outcome = Probe::start(home.path(), "127.0.0.1:1 --count 1 --csv x.csv").finish();
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    assert_eq!(fs::read_to_string(&csv).expect("it stays"), before);
}

/// `/dev/full` and `/dev/stdout` were "File exists"; and what this run did not make it does not remove.
#[test]
fn rows_go_into_an_existing_pipe() {
    let home = home();
    let echo = Echo::start("127.0.0.1");
    let pipe = home.path().join("pipe");
    crate::support::must("mkfifo", &[&pipe.display().to_string()]);
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).expect("rows")
    });
    let (target, csv) = (echo.address().to_string(), pipe.display().to_string());
    let line = ["probe", &target, "--count", "3", "--every", "10ms", "--no-record", "--quiet", "--csv", &csv];
    let outcome = fathom(home.path(), &line);
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let rows = reader.join().expect("it ends with the run");
    assert!(rows.lines().count() >= 3, "{rows}");
    assert!(pipe.exists());
}

/// A run once took longer by its own summary than by its recording, and the last of several targets took longer by the time
/// to close the recordings of the others.
#[test]
fn summary_and_recording_agree_on_duration() {
    let home = home();
    let echoes = ["127.0.0.1", "127.0.0.2"].map(Echo::start);
    let [one, other] = echoes.each_ref().map(Echo::address);
    let line = format!("{one} {other} --count 5 --every 10ms --record r --json --quiet");
    let told = Probe::start(home.path(), &line).finish().summaries();
    let recorded = fathom(home.path(), &["recording", "summary", "r", "--json"]).summaries();
    let lengths = |all: &[Value]| all.iter().map(|one| one["duration_ns"].clone()).collect::<Vec<_>>();
    assert_eq!(lengths(&told), lengths(&recorded), "{told:#?}");
    let mut ends = Vec::new();
    for dir in recordings(&home.path().join("r")) {
        let log = events(&dir);
        let at = |kind: &str| number(of_kind(&log, kind).last().expect("it"), "mono_ns");
        ends.push([at("schedule.ended"), at("recording.ended")]);
    }
    assert_eq!(ends.len(), 2);
    let last = ends.iter().map(|[measured, _]| *measured).max();
    assert!(ends.iter().all(|[_, ended]| Some(*ended) == last), "measured until, and ended at: {ends:?}");
}

/// The kernel gives up after seconds.
mod acceptance {
    use super::*;

    #[test]
    fn absent_and_silent_hosts_are_errors() {
        if !needs_root() || !needs("nft") {
            return;
        }
        let net = Net::new();
        // Without a neighbour of this address the kernel reports it unreachable.
        let absent = SocketAddr::new(net.v4(99), 7007);
        // A firewall swallows what comes to this one.
        net.drop_packets(Direction::ToReflector);
        let silent = net.reflector_v4();
        let homes = [home(), home()];
        let targets = [absent, silent].map(|target| target.to_string());
        // Over seconds this machine may well pause, which a probe tells on standard error too.
        let line = |i: usize| format!("{} --pause-clock off", targets[i]);
        let [to_absent, to_silent] = [0, 1].map(|i| Probe::start_on(&net.probe, homes[i].path(), &line(i)));
        let outcome = to_absent.finish();
        failed_in(&homes[0], &outcome, 1, &[&targets[0], "cannot be reached", "check the address"]);
        failed_in(&homes[1], &to_silent.finish(), 1, &[&targets[1], "does not answer", "firewalls"]);
    }
}
