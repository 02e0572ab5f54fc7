//! `fathom probe --throughput` and `fathom echo --throughput`, against each other and against iperf3.

use crate::support::probe::{Probe, assert_sound, fathom, left_behind};
use crate::support::rows::{events, of_kind};
use crate::support::throughput::{Service, counted, guest, measure, parrot, wait_until_it_flows};
use serde_json::Value;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use tempfile::TempDir;

/// The ways a test can go: our options, iperf3's, and the ways that carry data.
const TESTS: [(&str, &[&str], &[&str]); 5] = [
    ("", &[], &["forward"]),
    ("--reverse", &["-R"], &["reverse"]),
    ("--bidirectional", &["--bidir"], &["forward", "reverse"]),
    ("--connections 2", &["-P", "2"], &["forward"]),
    ("--bidirectional --connections 2", &["--bidir", "-P", "2"], &["forward", "reverse"]),
];
const COOKIE: &[u8; 37] = b"abcdefghijklmnopqrstuvwxyz2345677777\0";

fn home() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Bytes of the intervals that one end of a stream recorded.
fn recorded(dir: &Path, way: &str) -> u64 {
    let log = events(dir);
    let intervals = of_kind(&log, "throughput.interval");
    intervals.iter().filter(|it| it["way"] == way).filter_map(|it| it["bytes"].as_u64()).sum()
}

/// Runs a test of our two ends in a direction, checks its summary against its recording, and gives the bytes that the server
/// sent and received.
fn check_both_ends(server: SocketAddr, options: &str, ways: &[&str]) -> [u64; 2] {
    let home = home();
    let outcome = measure(home.path(), server, &format!("{options} --for 1s --json --record r"));
    let summary = outcome.summary();
    let streams = if options.contains("connections") { 2 } else { 1 };
    assert_eq!(summary["ways"].as_array().map(Vec::len), Some(ways.len()), "{options}: {summary}");
    for (way, one) in ways.iter().zip(summary["ways"].as_array().expect("ways")) {
        assert_eq!(one["way"], *way, "{options}");
        assert_eq!(one["streams"].as_array().map(Vec::len), Some(streams), "{options}: {one}");
        // Both close their streams in the end, so that nothing is left in flight.
        assert_eq!(counted(&summary, way, "sent"), counted(&summary, way, "received"), "{options}: {one}");
        assert_ne!(counted(&summary, way, "sent"), 0, "{options}: {one}");
        if cfg!(target_os = "linux") {
            // Either end tells what its kernel knows where it sends.
            assert!(one["retransmits"].is_u64(), "{options}: {one}");
            assert!(one["srtt_us"]["count"].as_u64() > Some(0), "{options}: {one}");
            assert!(one["cwnd_bytes"]["max"].as_u64() > Some(0), "{options}: {one}");
        }
    }
    let dir = home.path().join("r");
    assert_sound(&dir);
    for (way, did) in [("forward", "sent"), ("reverse", "received")] {
        if ways.contains(&way) {
            assert_eq!(recorded(&dir, did), counted(&summary, way, did), "{options}");
        }
    }
    assert_eq!(of_kind(&events(&dir), "connection.closed").len(), ways.len() * streams, "{options}");
    // The recording tells the same.
    let mut again = fathom(home.path(), &["recording", "summary", "--json", "r"]).summary();
    again["recording"] = summary["recording"].clone();
    assert_eq!(again, summary, "{options}");
    let story = fathom(home.path(), &["recording", "explain", "r"]);
    assert_eq!(story.code(), 0, "{}", story.err);
    assert!(story.out.contains("tcp-throughput"), "{}", story.out);
    let of = |way: &str, did: &str| if ways.contains(&way) { counted(&summary, way, did) } else { 0 };
    [of("reverse", "sent"), of("forward", "received")]
}

/// A server for each test: it runs one at a time.
#[test]
fn both_ends_count_same_bytes_each_way() {
    thread::scope(|all| {
        for (options, _, ways) in TESTS {
            all.spawn(move || {
                let service = Service::start(&[]);
                let bytes = check_both_ends(service.address, &format!("{options} --bitrate 40Mbit"), ways);
                assert_served(service, 1, bytes);
            });
        }
    });
}

fn assert_served(service: Service, tests: usize, [sent, received]: [u64; 2]) {
    let served = service.stop();
    assert_eq!((&served["tests"], &served["tests_unfinished"]), (&tests.into(), &0.into()), "{served}");
    assert_eq!(
        (served["bytes_sent"].as_u64(), served["bytes_received"].as_u64()),
        (Some(sent), Some(received))
    );
}

#[test]
fn bitrate_is_kept_and_warm_up_excluded() {
    let service = Service::start(&[]);
    let home = home();
    let options = "--bitrate 40Mbit --size 4KiB --omit 1s --for 1s --json --record r";
    let summary = measure(home.path(), service.address, options).summary();
    let sent = counted(&summary, "forward", "sent");
    let limit =
        40_000_000 / 8 * summary["ways"][0]["sent"]["duration_ns"].as_u64().expect("ns") / 1_000_000_000;
    // The pacer counts from the beginning, so that it may catch up in one interval what it missed in another.
    assert!(sent <= limit + 40_000_000 / 8, "{sent} of {limit}: {summary}");
    assert_eq!(summary["bitrate_bits_per_second"], 40_000_000);
    let log = events(&home.path().join("r"));
    let intervals = of_kind(&log, "throughput.interval");
    let bytes = |omitted: bool| -> u64 {
        let of = intervals.iter().filter(|it| it["omitted"].as_bool().unwrap_or(false) == omitted);
        of.filter_map(|it| it["bytes"].as_u64()).sum()
    };
    assert!(bytes(true) > 0, "{intervals:?}");
    assert_eq!(bytes(false), sent, "{intervals:?}");
}

#[test]
fn second_test_is_refused_until_first_ends() {
    let service = Service::start(&[]);
    let home = home();
    let first = Probe::start(
        home.path(),
        &format!("{} --throughput --for 20s --bitrate 40Mbit --record r", service.address),
    );
    wait_until_it_flows(&home.path().join("r"));
    let second = measure(home.path(), service.address, "--no-record");
    assert_eq!(second.code(), 1);
    assert!(second.err.contains("runs another test"), "{}", second.err);
    first.signal("INT");
    let first = first.finish();
    assert_eq!(first.code(), 0, "{}", first.err);
    assert!(first.out.contains("interrupted here"), "{}", first.out);
    assert_sound(&home.path().join("r"));
    let ended = events(&home.path().join("r"));
    assert_eq!(of_kind(&ended, "throughput.ended")[0]["summary"]["ended_early"], "interrupted here");
    // The client said that it gave up: the reflector is free again.
    crate::support::wait_for("the reflector to be free", || {
        let third = measure(home.path(), service.address, "--for 1s --no-record");
        (third.code() == 0).then_some(())
    });
    let served = service.stop();
    assert_eq!(served["tests_unfinished"], 1, "{served}");
}

#[test]
fn server_of_other_protocol_is_named() {
    let home = home();
    let web = parrot(37, b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let closes = parrot(37, b"");
    let echo = crate::support::reflector::Echo::start("127.0.0.1");
    for server in [web, closes, echo.address()] {
        let outcome = measure(home.path(), server, "");
        assert_eq!(outcome.code(), 1);
        let remedy = "does not speak iperf3's protocol";
        assert!(outcome.err.contains(remedy) && outcome.err.contains("iperf3 -s"), "{}", outcome.err);
    }
    // It takes everything and says nothing.
    let silent = parrot(1 << 20, b"");
    let outcome = measure(home.path(), silent, "--timeout 200ms");
    assert!(outcome.err.contains("said nothing for 200ms"), "{}", outcome.err);
    let absent = SocketAddr::from(([127, 0, 0, 1], crate::support::free_port()));
    let outcome = measure(home.path(), absent, "");
    assert!(outcome.err.contains("cannot connect to"), "{}", outcome.err);
    assert_eq!(left_behind(home.path()), Vec::<std::path::PathBuf>::new(), "no recording of nothing");
}

#[test]
fn protocol_violation_and_refusal_are_distinguished() {
    let home = home();
    // PARAM_EXCHANGE and a state out of turn; then SERVER_ERROR with the number of an authorization that failed.
    for (says, part) in [
        (&[9, 14][..], "broke iperf3's protocol"),
        (&[9, 0xFE, 0, 0, 0, 142, 0, 0, 0, 0], "wants a user name"),
        (&[9, 0xFE, 0, 0], "vanished"),
        (&[0xFF], "runs another test"),
        (&[9, 11], "ended the test before its time"),
    ] {
        let outcome = measure(home.path(), parrot(37, says), "");
        assert_eq!(outcome.code(), 1);
        assert!(outcome.err.contains(part), "{says:?}: {}", outcome.err);
    }
}

/// Ends a server while a test runs; the test has what this end counted.
fn check_lost_server(server: SocketAddr, end: impl FnOnce(), part: &str) {
    let home = home();
    let probe = Probe::start(
        home.path(),
        &format!("{server} --throughput --for 20s --bitrate 40Mbit --record r --json"),
    );
    wait_until_it_flows(&home.path().join("r"));
    end();
    let outcome = probe.finish();
    assert_eq!(outcome.code(), 1);
    assert!(outcome.err.contains(part), "{}", outcome.err);
    let summary = &outcome.objects()[0];
    assert!(counted(summary, "forward", "sent") > 0, "{summary}");
    assert_eq!(summary["ways"][0]["received"], Value::Null, "the server's count is missing: {summary}");
    assert!(summary["ended_early"].as_str().is_some_and(|why| why.contains(part)), "{summary}");
    assert_sound(&home.path().join("r"));
}

#[test]
fn killed_server_leaves_partial_results() {
    let service = Service::start(&[]);
    check_lost_server(service.address, || drop(service), "vanished in mid-test");
}

#[test]
fn overlong_or_unallowed_test_is_refused() {
    let service = Service::start(&["--throughput-longest", "2s"]);
    let home = home();
    let outcome = measure(home.path(), service.address, "--for 3s");
    assert_eq!(outcome.code(), 1);
    assert!(outcome.err.contains("no test that long"), "{}", outcome.err);
    let served = service.stop();
    assert!(served["tests"] == 0, "{served}");
    assert!(served["tests_refused"].as_u64() >= Some(1), "{served}");

    let service = Service::start(&["--allow", "192.0.2.0/24"]);
    let outcome = measure(home.path(), service.address, "--for 1s");
    assert!(outcome.err.contains("does not speak"), "{}", outcome.err);
    assert_eq!(service.stop()["not_allowed"], 1);
}

#[test]
fn killed_client_frees_server() {
    let service = Service::start(&["--throughput-longest", "20s"]);
    let home = home();
    let probe = Probe::start(
        home.path(),
        &format!("{} --throughput --for 20s --bitrate 40Mbit --record r", service.address),
    );
    wait_until_it_flows(&home.path().join("r"));
    probe.kill_9();
    crate::support::wait_for("the reflector to be free", || {
        let next = measure(home.path(), service.address, "--for 1s --no-record");
        (next.code() == 0).then_some(())
    });
    // Interrupted, the recording has what this end had counted.
    let recovered = fathom(home.path(), &["recording", "recover", "r"]);
    assert_eq!(recovered.code(), 0, "{}", recovered.err);
    let summary = fathom(home.path(), &["recording", "summary", "--json", "r"]).summary();
    assert!(counted(&summary, "forward", "sent") > 0, "{summary}");
    let served = service.stop();
    assert_eq!(served["tests_unfinished"], 1, "{served}");
}

#[test]
fn server_answers_only_after_a_cookie() {
    let service = Service::start(&[]);
    for says in [&b"GET / HTTP/1.1\r\nHost: somewhere.example\r\n\r\n"[..], &[0; 37]] {
        let mut heard = Vec::new();
        // A reset is an end too.
        let _ = guest(service.address, says).read_to_end(&mut heard);
        assert_eq!(heard, b"", "{says:?}");
    }
    // A cookie begins a test; parameters that are none end it, and another can begin.
    for (says, heard_first) in [(&b"\0\0\0\x02[]"[..], 9), (b"\xFF\xFF\xFF\xFF", 9), (b"\0\0\0\x05{\"a", 9)] {
        let mut control = guest(service.address, COOKIE);
        std::io::Write::write_all(&mut control, says).expect("it fits");
        control.shutdown(std::net::Shutdown::Write).expect("open");
        let mut heard = Vec::new();
        let _ = control.read_to_end(&mut heard);
        assert_eq!(heard.first(), Some(&heard_first), "{says:?}: {heard:?}");
    }
    let served = service.stop();
    assert_eq!((&served["foreign"], &served["tests"]), (&2.into(), &0.into()), "{served}");
}

/// iperf3, and full speed.
mod acceptance {
    use super::*;
    use crate::support::needs;
    use crate::support::throughput::{IperfServer, iperf_client};

    #[test]
    fn one_server_runs_tests_at_full_speed() {
        let service = Service::start(&[]);
        let bytes = TESTS.map(|(options, _, ways)| check_both_ends(service.address, options, ways));
        let sums = bytes.iter().fold([0, 0], |[sent, received], of| [sent + of[0], received + of[1]]);
        assert_served(service, TESTS.len(), sums);
    }

    #[test]
    fn probe_measures_against_iperf3_server() {
        if !needs("iperf3") {
            return;
        }
        for (options, _, ways) in TESTS {
            let server = IperfServer::start();
            let home = home();
            let outcome =
                measure(home.path(), server.address, &format!("{options} --for 1s --json --record r"));
            let summary = outcome.summary();
            assert_eq!(summary["ended_early"], Value::Null, "{options}: {summary}");
            for way in ways {
                let (sent, received) = (counted(&summary, way, "sent"), counted(&summary, way, "received"));
                assert!(0 < received && received <= sent, "{options} {way}: {received} of {sent}");
            }
            assert_sound(&home.path().join("r"));
        }
    }

    #[test]
    fn iperf3_client_measures_against_our_server() {
        if !needs("iperf3") {
            return;
        }
        let service = Service::start(&[]);
        for (_, options, ways) in TESTS {
            let report = iperf_client(service.address, options);
            assert_eq!(report["error"], Value::Null, "{options:?}: {report}");
            let bytes = |key: &str| report["end"][key]["bytes"].as_u64().unwrap_or(0);
            // iperf3 names what goes against the client's own direction by itself only where both send.
            let sums: &[(&str, &str)] = if ways.len() == 2 {
                &[("sum_sent", "sum_received"), ("sum_sent_bidir_reverse", "sum_received_bidir_reverse")]
            } else {
                &[("sum_sent", "sum_received")]
            };
            for (sent, received) in sums {
                let (sent, received) = (bytes(sent), bytes(received));
                assert!(0 < received && received <= sent, "{options:?}: {received} of {sent}");
            }
        }
        let served = service.stop();
        assert_eq!(
            (&served["tests"], &served["tests_unfinished"]),
            (&TESTS.len().into(), &0.into()),
            "{served}"
        );
    }

    #[test]
    fn lost_iperf3_server_leaves_partial_results() {
        if !needs("iperf3") {
            return;
        }
        let server = IperfServer::start();
        check_lost_server(server.address, || server.kill(), "vanished in mid-test");
        // iperf3 says SERVER_TERMINATE when it is interrupted.
        let server = IperfServer::start();
        check_lost_server(server.address, || server.signal("INT"), "ended the test before its time");
    }

    #[test]
    fn iperf3_client_is_refused_with_reason() {
        if !needs("iperf3") {
            return;
        }
        let refused = |service: &Service, options: &[&str], part: &str| {
            let report = iperf_client(service.address, options);
            assert!(report["error"].as_str().is_some_and(|e| e.contains(part)), "{options:?}: {report}");
        };
        let service = Service::start(&["--throughput-longest", "2s"]);
        refused(&service, &["-u"], "not implemented");
        refused(&service, &["-t", "3"], "too long");
        assert_eq!(service.stop()["tests"], 0);

        let service = Service::start(&[]);
        let home = home();
        let first = Probe::start(
            home.path(),
            &format!("{} --throughput --for 20s --bitrate 40Mbit --record r", service.address),
        );
        wait_until_it_flows(&home.path().join("r"));
        refused(&service, &[], "busy");
        first.signal("INT");
        assert_eq!(first.finish().code(), 0);

        let service = Service::start(&["--throughput-longest", "1s"]);
        refused(&service, &["-n", "1T"], "terminated");
        let served = service.stop();
        assert_eq!((&served["tests"], &served["tests_unfinished"]), (&1.into(), &1.into()), "{served}");
    }
}
