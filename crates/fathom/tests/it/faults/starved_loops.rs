//! Loops that a busy host keeps from running while a light thread of their process runs at once, and the other way round: what a
//! loop could not do is told as a pause, and nothing that it did is in one.
use crate::support::probe::{Probe, wait_for_events};
use crate::support::rate::assert_rate;
use crate::support::reflector::Echo;
use crate::support::rows::{Row, events, has_kind, number, of_kind, rows};
use crate::support::{Kept, all_stand, needs_root, wait_for};
use jiff::Timestamp;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const MS: i64 = 1_000_000;
/// Longer between two sends back to back is a time in which somebody did not run.
const GAP_NS: i64 = 60 * MS;
/// A pause of a process that rested begins somewhere in half a period of its clock (12 ms).
const BEGIN_NS: i64 = 7 * MS;

/// Keeps a processor busy as long as it is kept.
fn burn(cpu: &str) -> Kept {
    let mut command = Command::new("taskset");
    command.args(["-c", cpu, "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
    Kept(command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}")))
}

/// Lets everything else of this host run before each thread of a process.
fn humble(pid: u32) {
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs") {
        let task = task.expect("listed").path();
        let tid = task.file_name().and_then(|name| name.to_str()).expect("a number");
        let told = Command::new("chrt").args(["--idle", "--pid", "0", tid]).output().expect("util-linux");
        // A thread may have ended since it was listed.
        assert!(told.status.success() || !task.exists(), "{told:?}");
    }
}

/// From, to, ns since the Unix epoch.
fn pauses(events: &[Value], host: &str) -> Vec<(i64, i64)> {
    let of_host = of_kind(events, "pause").into_iter().filter(|event| event["host"] == host);
    let span = |event: &Value| {
        let at: Timestamp = event["at"].as_str().expect("a time").parse().expect("RFC 3339");
        let ended = i64::try_from(at.as_nanosecond()).expect("of our time");
        (ended - number(event, "duration_ns").cast_signed(), ended)
    };
    of_host.map(span).collect()
}

fn ended(row: &Row) -> Option<i64> {
    row.rtt_ns().map(|rtt| row.at("sent_ns") + rtt)
}

/// The first law of a run back to back: no pause has a round trip in it.
fn assert_nothing_in_pauses(dir: &Path) {
    let rows = rows(dir);
    for (from, to) in pauses(&events(dir), "local") {
        let inside =
            |row: &&Row| row.at("sent_ns") > from + BEGIN_NS && ended(row).is_some_and(|at| at < to - MS);
        let whole = rows.iter().filter(inside).count();
        assert_eq!(whole, 0, "round trips in a pause of {} ms", (to - from) / MS);
    }
}

/// The second one: what nobody ran for is in pauses. Returns how many gaps there were.
fn assert_gaps_are_pauses(dir: &Path) -> usize {
    assert_nothing_in_pauses(dir);
    let (rows, events) = (rows(dir), events(dir));
    let (local, remote) = (pauses(&events, "local"), pauses(&events, "remote"));
    let mut sent: Vec<i64> = rows.iter().map(|row| row.at("sent_ns")).collect();
    // The last one may have been kept until the end.
    sent.extend(rows.iter().filter_map(ended).max());
    sent.sort_unstable();
    let gaps: Vec<&[i64]> = sent.windows(2).filter(|pair| pair[1] - pair[0] > GAP_NS).collect();
    let mut all = (0, 0);
    for gap in &gaps {
        let covered = |&(from, to): &(i64, i64)| (to.min(gap[1]) - from.max(gap[0])).max(0);
        all.0 += gap[1] - gap[0];
        all.1 += local.iter().chain(&remote).map(covered).sum::<i64>();
    }
    // Several times in a row that are each too short for a pause are a gap too.
    assert!(4 * all.1 >= 3 * all.0, "of {} ms without a send {} are in pauses", all.0 / MS, all.1 / MS);
    gaps.len()
}

/// As long as the run is to take.
const FOR: Duration = Duration::from_secs(5);

fn starve_spinning_probe() {
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    let line = format!("{} --ping-pong --spin --cpu 0 --for 5s --record r --json --quiet", echo.address());
    let probe = Probe::start(home.path(), &line);
    wait_for_events(&home.path().join("r"), "a connection", |e| has_kind(e, "connection.opened"));
    let burner = burn("0");
    humble(probe.pid());
    // For so long it is kept from running. On a machine without other load it is hardly let come to its end either.
    std::thread::sleep(FOR);
    drop(burner);
    let summary = probe.finish().summary();
    assert!(assert_gaps_are_pauses(&home.path().join("r")) > 0, "it was not kept from running: {summary}");
    let events = events(&home.path().join("r"));
    for explained in of_kind(&events, "connection.explained") {
        assert_ne!(explained["verdict"], "path_down", "{explained}");
    }
}

fn starve_spinning_reflector() {
    let echo = Echo::start_as(&["--spin", "--cpu", "0"]);
    let home = tempfile::tempdir().expect("a directory");
    let line = format!("{} --ping-pong --for 5s --record r --json --quiet", echo.address());
    let probe = Probe::start(home.path(), &line);
    wait_for_events(&home.path().join("r"), "a connection", |e| has_kind(e, "connection.opened"));
    let burner = burn("0");
    humble(echo.pid());
    // For so long it is kept from running. On a machine without other load it is hardly let come to its end either.
    std::thread::sleep(FOR);
    drop(burner);
    let summary = probe.finish().summary();
    assert!(assert_gaps_are_pauses(&home.path().join("r")) > 0, "it was not kept from running: {summary}");
}

/// A loop that runs before all others keeps the clock's own thread from running for as long as it has work.
fn starve_pause_clock() {
    if !needs_root() {
        return;
    }
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    let options =
        "--ping-pong --cpu 0 --priority --connections 256 --allow-high-rate --for 4s --json --quiet";
    let line = format!("{} {options} --record r", echo.address());
    Probe::start(home.path(), &line).finish().summary();
    assert_nothing_in_pauses(&home.path().join("r"));
}

/// Nobody watches this host, so what its own stop looks like is not said of the path for sure.
fn stop_without_pause_clock() {
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    let line = format!("{} --ping-pong --pause-clock off --for 8s --record r --json --quiet", echo.address());
    let probe = Probe::start(home.path(), &line);
    let dir = home.path().join("r");
    wait_for_events(&dir, "a connection", |e| has_kind(e, "connection.opened"));
    for _ in 0..4 {
        probe.signal("STOP");
        wait_for("all its threads to stand", || all_stand(probe.pid()).then_some(()));
        // The length of the stop, and of the time to the next, are what is tried here.
        std::thread::sleep(Duration::from_millis(900));
        probe.signal("CONT");
        std::thread::sleep(Duration::from_millis(700));
    }
    probe.finish().summary();
    let events = events(&dir);
    assert!(pauses(&events, "local").is_empty());
    let said: Vec<_> =
        of_kind(&events, "delay.ended").into_iter().chain(of_kind(&events, "connection.explained")).collect();
    assert!(!said.is_empty(), "none of the stops showed");
    for said in said {
        let sure = ["high", "medium"].contains(&said["confidence"].as_str().expect("it says how sure"));
        assert!(!sure || said["verdict"] == "peer_paused", "{said}");
    }
}

/// A busy machine may fail one of three runs.
mod acceptance {
    use super::*;

    #[test]
    fn starved_spinning_probe_reports_pauses() {
        assert_rate(2, 3, starve_spinning_probe);
    }

    #[test]
    fn starved_spinning_reflector_reports_pauses() {
        assert_rate(2, 3, starve_spinning_reflector);
    }

    #[test]
    fn starved_pause_clock_reports_no_false_pause() {
        assert_rate(2, 3, starve_pause_clock);
    }

    #[test]
    fn without_pause_clock_path_verdicts_stay_uncertain() {
        assert_rate(2, 3, stop_without_pause_clock);
    }
}
