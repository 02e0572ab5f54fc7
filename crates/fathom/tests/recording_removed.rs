//! A recording directory that somebody removes while the probe writes to it: told in one line, and the probe goes on.

mod support;

use support::probe::{Probe, wait_for_events};
use support::reflector::Echo;
use support::rows::has_kind;
use support::wait_for;

#[test]
fn a_directory_that_is_removed_is_told_and_the_probe_goes_on() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let line = format!("{} --every 5ms --record r --json", echo.address());
    let probe = Probe::start(home.path(), &line);
    let dir = home.path().join("r");
    wait_for_events(&dir, "a connection", |log| has_kind(log, "connection.opened"));
    // A file that is made meanwhile is in the way.
    wait_for("the directory to go", || std::fs::remove_dir_all(&dir).ok());
    probe.signal("TERM");
    let outcome = probe.finish();
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    let told = outcome.told();
    assert_eq!(told.len(), 2, "{}", outcome.err);
    // The directory is named, or the first of its files that was found gone.
    let removed = "was removed while it was recorded to";
    for (line, what) in
        told.iter().zip(["recording stopped, probing goes on: r", "the recording is incomplete: r"])
    {
        assert!(line.contains(what) && line.contains(removed), "{}", outcome.err);
    }
    assert!(outcome.objects().pop().expect("a summary")["samples"].as_u64() > Some(0));
    assert!(!dir.exists(), "nothing is made anew in its place");
}
