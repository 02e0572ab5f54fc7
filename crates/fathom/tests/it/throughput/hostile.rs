//! `fathom echo --throughput` and hostile clients.

use crate::support::throughput::{Service, counted, document, guest, measure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

const COOKIE: &[u8; 37] = b"strangerstrangerstrangerstranger2345\0";
/// What a hostile client may cost (issue 16), in KiB.
const ROOM_KIB: u64 = 64 << 10;
/// Address space for a reflector whose bound does not hold: enough for 256 threads, and a small part of what was asked.
const SPACE_KIB: u32 = 2 << 20;

fn home() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Gives a cookie and asks for a test; the connection, and what the reflector answers to the question.
fn ask(server: SocketAddr, parameters: &str) -> (TcpStream, u8) {
    let mut control = guest(server, COOKIE);
    let mut state = [0];
    control.read_exact(&mut state).expect("PARAM_EXCHANGE");
    assert_eq!(state, [9]);
    control.write_all(&document(parameters)).expect("it fits");
    control.read_exact(&mut state).expect("an answer");
    (control, state[0])
}

/// `"parallel":4294967295` was refused and then allocated: the reflector died, and with it every probe's connection.
/// Requests are checked before anything is sized by them.
#[test]
#[cfg(target_os = "linux")]
fn refused_test_costs_nothing() {
    let service = Service::start_within(SPACE_KIB, &[]);
    let before = service.memory_peak_kib();
    let asked = [
        r#"{"tcp":true,"time":10,"parallel":4294967295,"len":131072,"bidirectional":true,"client_version":"3.12"}"#,
        r#"{"tcp":true,"time":10,"parallel":4294967295}"#,
        r#"{"tcp":true,"time":4294967295,"omit":4294967295}"#,
        r#"{"tcp":true,"time":10,"len":4294967295}"#,
        r#"{"tcp":true,"time":10,"parallel":1e300}"#,
        r#"{"tcp":true,"time":10,"parallel":129}"#,
    ];
    for parameters in asked {
        let (mut control, answer) = ask(service.address, parameters);
        assert_eq!(answer, 0xFE, "SERVER_ERROR: {parameters}");
        let mut numbers = Vec::new();
        control.read_to_end(&mut numbers).expect("the reflector closes in order");
        assert_eq!(numbers.len(), 8, "{parameters}: {numbers:?}");
    }
    let home = home();
    let next = measure(home.path(), service.address, "--for 1s --no-record --json");
    assert!(counted(&next.summary(), "forward", "received") > 0);
    // The kernel counts by processor and sums up now and then: a peak may read as some pages less than before.
    let grown = service.memory_peak_kib().saturating_sub(before);
    assert!(grown < ROOM_KIB, "{grown} KiB");
    let served = service.stop();
    assert_eq!((&served["tests_refused"], &served["tests"]), (&asked.len().into(), &1.into()), "{served}");
}

/// Allowed tests are bounded too: 64 streams each way with the largest blocks once had a buffer of 1 MiB each.
#[test]
#[cfg(target_os = "linux")]
fn maximum_test_stays_within_memory_limit() {
    let service = Service::start(&[]);
    let before = service.memory_peak_kib();
    let home = home();
    let options = "--connections 64 --bidirectional --size 1MiB --for 1s --no-record --json";
    let summary = measure(home.path(), service.address, options).summary();
    for way in ["forward", "reverse"] {
        assert_eq!(counted(&summary, way, "sent"), counted(&summary, way, "received"), "{summary}");
    }
    // The kernel counts by processor and sums up now and then: a peak may read as some pages less than before.
    let grown = service.memory_peak_kib().saturating_sub(before);
    assert!(grown < ROOM_KIB, "{grown} KiB");
    assert_eq!(service.stop()["tests_unfinished"], 0);
}

/// The server gives an idle test five seconds; `fathom-iperf3` has the law in virtual time.
mod acceptance {
    use super::*;
    use crate::support::probe::Probe;
    use crate::support::throughput::wait_until_it_flows;

    /// A client that opened its streams and then said nothing once had the only place for `--throughput-longest`, 61 s by
    /// default. The next client gets the place once nothing has moved for five seconds.
    #[test]
    fn idle_client_gives_way() {
        let service = Service::start(&["--throughput-longest", "1h"]);
        let (mut control, answer) = ask(service.address, r#"{"tcp":true,"time":3600,"parallel":1}"#);
        assert_eq!(answer, 10, "CREATE_STREAMS");
        let _stream = guest(service.address, COOKIE);
        let mut states = [0; 2];
        control.read_exact(&mut states).expect("TEST_START, TEST_RUNNING");
        assert_eq!(states, [1, 2]);
        let home = home();
        let refused = measure(home.path(), service.address, "--for 1s --no-record");
        assert!(refused.err.contains("runs another test"), "{}", refused.err);
        crate::support::wait_for("the idle client to give way", || {
            let next = measure(home.path(), service.address, "--for 1s --no-record");
            (next.code() == 0).then_some(())
        });
        control.read_exact(&mut states[..1]).expect("the reason");
        assert_eq!(states[0], 11, "SERVER_TERMINATE");
        let served = service.stop();
        assert_eq!((&served["tests"], &served["tests_unfinished"]), (&2.into(), &1.into()), "{served}");
    }

    /// A test that moves keeps its place, however long others wait.
    #[test]
    fn moving_test_keeps_its_place() {
        let service = Service::start(&[]);
        let home = home();
        let options = "--throughput --bitrate 1Mbit --size 1KiB --for 8s --json --record r";
        let running = Probe::start(home.path(), &format!("{} {options}", service.address));
        wait_until_it_flows(&home.path().join("r"));
        let mut denied = 0;
        let last = crate::support::wait_for("the test to end", || {
            let other = measure(home.path(), service.address, "--for 1s --no-record");
            denied += u64::from(other.err.contains("runs another test"));
            (other.code() == 0).then_some(other)
        });
        assert_eq!(last.code(), 0);
        assert_ne!(denied, 0, "no client waited");
        let summary = running.finish().summary();
        assert_eq!(summary["ended_early"], serde_json::Value::Null, "{summary}");
        let served = service.stop();
        assert_eq!((&served["tests_unfinished"], &served["busy"]), (&0.into(), &denied.into()), "{served}");
    }
}
