//! Connections that are lost together come back one after another, at `--connect-rate`.

use crate::support::probe::{Probe, assert_sound, wait_for_events};
use crate::support::reflector::Echo;
use crate::support::rows::{events, of_kind};

const CONNECTIONS: usize = 60;
const RATE: u64 = 60;

/// By the probe's own clock, whatever this machine does: no stretch of time has more attempts than the ceiling and its
/// burst allow, at the beginning and when all come back.
#[test]
fn reconnections_obey_connect_rate() {
    let (home, echo) = (tempfile::tempdir().expect("a directory"), Echo::start("127.0.0.1"));
    let (address, dir) = (echo.address(), home.path().join("r"));
    let options =
        format!("--connections {CONNECTIONS} --connect-rate {RATE} --every 1s --record r --json --quiet");
    let probe = Probe::start(home.path(), &format!("{address} {options}"));
    let opened = |times| {
        let all = move |events: &Vec<_>| of_kind(events, "connection.opened").len() >= times * CONNECTIONS;
        wait_for_events(&dir, "all connections", all);
    };
    opened(1);
    echo.kill();
    // The port is free: what connected to it is gone.
    let again = Echo::start_on(&crate::support::net::Host::this(), address);
    opened(2);
    probe.signal("TERM");
    probe.finish().summary();
    drop(again);
    assert_sound(&dir);
    let events = events(&dir);
    let opening = of_kind(&events, "connection.opening");
    assert!(opening.len() >= 2 * CONNECTIONS, "{}", opening.len());
    let times: Vec<u64> = opening.iter().map(|e| e["mono_ns"].as_u64().expect("a time")).collect();
    for (n, from) in times.iter().enumerate() {
        for (m, to) in times.iter().enumerate().skip(n) {
            // A tenth of a second's worth at once, and one turn that was waited for and used late.
            let most = (to - from) * RATE / 1_000_000_000 + RATE / 10 + 2;
            assert!((m - n) as u64 <= most, "{} attempts in {} ns", m - n + 1, to - from);
        }
    }
    let mut lanes: Vec<u64> = opening.iter().map(|e| e["lane"].as_u64().expect("a lane")).collect();
    lanes.sort_unstable();
    lanes.dedup();
    assert_eq!(lanes.len(), CONNECTIONS, "each lane had its turn");
}
