//! A file of rows in another program's format (`--csv`, `--sockperf-log`) that finds no room any more: it ends, and is named; the probe and
//! the recording beside it go on.

use crate::support::probe::{Probe, assert_sound};
use crate::support::reflector::Echo;
use crate::support::rows::{events, number, of_kind, rows};
use std::thread;

/// It was reported as a recording that had stopped and was incomplete.
#[test]
fn full_row_file_is_named_recording_continues() {
    thread::scope(|scope| {
        for (option, recorded) in [("--csv", true), ("--sockperf-log", true), ("--csv", false)] {
            scope.spawn(move || row_file_is_full(option, recorded));
        }
    });
}

fn row_file_is_full(option: &str, recorded: bool) {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let kept = if recorded { "--record r" } else { "--no-record" };
    let line = format!("{} --every 10ms --count 100 {option} /dev/full {kept} --json", echo.address());
    let outcome = Probe::start(home.path(), &line).finish();
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    let file = format!("/dev/full ({option}) is incomplete: ");
    // Once when it happens, and at the end.
    let told: Vec<&str> = outcome.told().into_iter().filter(|line| line.contains(&file)).collect();
    assert_eq!(told.len(), 2, "{}", outcome.err);
    let on = if recorded { "probing and recording go on" } else { "probing goes on" };
    assert!(told[0].contains(on) && told[0].contains("free some space"), "{}", outcome.err);
    assert!(!outcome.err.contains("recording stopped"), "{}", outcome.err);
    assert!(!outcome.err.contains("the recording is incomplete"), "{}", outcome.err);
    let summary = outcome.objects().pop().expect("a summary");
    let samples = number(&summary, "samples");
    assert_eq!(samples + number(&summary, "not_sent"), 100, "{summary}");
    if recorded {
        let dir = home.path().join("r");
        assert_sound(&dir);
        assert_eq!(rows(&dir).len() as u64, samples);
        let log = events(&dir);
        let ended = of_kind(&log, "recording.ended");
        assert!(ended[0]["error"].is_null(), "{}", ended[0]);
    }
}
