//! A recording directory that somebody removes while the probe writes to it: told in one line, and the probe goes on.

use crate::support::probe::{Probe, wait_for_events};
use crate::support::reflector::Echo;
use crate::support::rows::{has_kind, of_kind, recordings};
use crate::support::wait_for;

#[test]
fn removed_directory_is_reported_and_probe_continues() {
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

/// "Start the probe anew to record again" was said where the next rotation records again without that, and of a run that was over.
#[test]
fn removed_file_advice_depends_on_rotation() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    for (name, option, advice) in [
        ("alone", "", "; start the run anew to record again"),
        ("turned", "--rotate 1d", "; the next rotation begins a new recording"),
    ] {
        let line = format!("{} --every 5ms --record {name} {option} --json", echo.address());
        let probe = Probe::start(home.path(), &line);
        let above = home.path().join(name);
        let dir = wait_for("a recording", || match option {
            "" => above.join("recording.json").exists().then(|| above.clone()),
            _ => recordings(&above).pop(),
        });
        wait_for("the rows to go", || std::fs::remove_file(dir.join("samples-00000.arrows")).ok());
        let log = wait_for_events(&dir, "its end", |log| has_kind(log, "recording.ended"));
        probe.signal("TERM");
        let outcome = probe.finish();
        assert_eq!(outcome.code(), 1, "{outcome:?}");
        let gone = "samples-00000.arrows was removed while it was recorded to, and what it held is gone";
        let told = outcome.told();
        assert_eq!(told.len(), 2, "{}", outcome.err);
        assert!(told[0].ends_with(&format!("{gone}{advice}")), "{}", told[0]);
        assert!(told[1].contains("the recording is incomplete") && told[1].ends_with(gone), "{}", told[1]);
        let ended = of_kind(&log, "recording.ended")[0]["error"].as_str().expect("why");
        assert!(ended.ends_with(gone), "it is read later: {ended}");
    }
}
