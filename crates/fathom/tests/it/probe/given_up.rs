//! Several targets of which some cannot be reached: the others are measured to the end, and the exit code and one line
//! name the targets that were given up, and why.

use crate::support::free_port;
use crate::support::probe::{Outcome, Probe, assert_sound};
use crate::support::reflector::Echo;
use crate::support::rows::{events, of_kind};
use std::path::Path;

const SAMPLES: usize = 5;

fn run(home: &Path, targets: &[&str], options: &str) -> Outcome {
    let targets = targets.join(" ");
    Probe::start(
        home,
        &format!("{targets} --count {SAMPLES} --every 20ms --quiet --json --record r {options}"),
    )
    .finish()
}

/// The one line on standard error.
fn line(outcome: &Outcome) -> &str {
    assert_eq!(outcome.err.lines().count(), 1, "{}", outcome.err);
    outcome.err.trim_end()
}

/// How many samples each path has answered, by its reflector.
fn answered(outcome: &Outcome) -> Vec<u64> {
    outcome.objects().iter().map(|summary| summary["answered"].as_u64().expect("a number")).collect()
}

#[test]
fn refusing_target_is_reported_others_continue() {
    let echo = Echo::start("127.0.0.1");
    let (good, bad) = (echo.address().to_string(), format!("127.0.0.1:{}", free_port()));
    for targets in [[&*good, &*bad], [&*bad, &*good]] {
        let home = tempfile::tempdir().expect("a directory");
        let outcome = run(home.path(), &targets, "");
        assert_eq!(outcome.code(), 1, "{outcome:?}");
        let told = line(&outcome);
        assert!(told.starts_with("fathom: ") && told.contains(&bad) && !told.contains(&good), "{told}");
        let mut expected = vec![SAMPLES as u64, 0];
        if targets[0] == bad {
            expected.reverse();
        }
        assert_eq!(answered(&outcome), expected, "{}", outcome.out);
        // Both recordings hold, and the one says why it is empty.
        for summary in outcome.objects() {
            let dir = home.path().join(summary["recording"].as_str().expect("recorded"));
            assert_sound(&dir);
            let all = events(&dir);
            let (opened, refused) = (of_kind(&all, "connection.opened"), of_kind(&all, "connection.refused"));
            let is_bad = summary["answered"] == 0;
            assert_eq!((opened.len(), refused.len()), if is_bad { (0, 1) } else { (1, 0) }, "{all:#?}");
        }
    }
}

#[test]
fn unresolvable_name_is_reported() {
    let echo = Echo::start("127.0.0.1");
    let good = echo.address().to_string();
    let home = tempfile::tempdir().expect("a directory");
    // RFC 6761: names below .invalid do not exist.
    let outcome = run(home.path(), &[&good, "no-such-host.invalid:7"], "");
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    assert!(line(&outcome).contains("no-such-host.invalid"), "{}", outcome.err);
    assert_eq!(answered(&outcome), [SAMPLES as u64, 0]);
}

#[test]
fn each_unreachable_target_is_reported_once() {
    let echo = Echo::start("127.0.0.1");
    let good = echo.address().to_string();
    let bad = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let home = tempfile::tempdir().expect("a directory");
    let outcome = run(home.path(), &[&bad[0], &good, &bad[1]], "--connections 3");
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    for target in &bad {
        assert_eq!(line(&outcome).matches(target.as_str()).count(), 1, "{}", outcome.err);
    }
    assert_eq!(answered(&outcome), [0, 3 * SAMPLES as u64, 0]);
}

#[test]
fn run_without_targets_keeps_nothing() {
    let bad = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let home = tempfile::tempdir().expect("a directory");
    let outcome = run(home.path(), &[&bad[0], &bad[1]], "");
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    assert!(bad.iter().any(|target| line(&outcome).contains(target.as_str())), "{}", outcome.err);
    assert_eq!((outcome.out.as_str(), crate::support::probe::left_behind(home.path()).len()), ("", 0));
}

/// Each thread has lanes of one target only, so none of them knew that no target was left: "ended before there was a
/// connection" was all that was said.
#[test]
fn threads_without_targets_report_reason_once() {
    let bad = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let home = tempfile::tempdir().expect("a directory");
    let arguments =
        format!("{} {} --ping-pong --threads 2 --count 5 --quiet --json --record r", bad[0], bad[1]);
    let outcome = Probe::start(home.path(), &arguments).finish();
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    // The first thread that has none left ends the run: the other may not have heard of its own by then.
    let counts = bad.each_ref().map(|target| line(&outcome).matches(target.as_str()).count());
    assert!(counts.contains(&1) && counts.iter().all(|&count| count <= 1), "{}", outcome.err);
}

#[test]
fn reaching_all_targets_exits_zero() {
    let (one, other) = (Echo::start("127.0.0.1"), Echo::start("127.0.0.1"));
    let home = tempfile::tempdir().expect("a directory");
    let targets = [one.address().to_string(), other.address().to_string()];
    let outcome = run(home.path(), &[&targets[0], &targets[1]], "");
    assert_eq!((outcome.code(), outcome.err.as_str()), (0, ""));
    assert_eq!(answered(&outcome), [SAMPLES as u64; 2]);
}
