//! `fathom sql --record` on a disk that stays full: the recording has its end, and says how many queries it lacks.
use crate::support::probe::{Probe, assert_sound, fathom, left_behind};
use crate::support::reflector::Echo;
use crate::support::rows::{events, of_kind};
use crate::support::small_disk::{Small, wait_until_it_waits};
use crate::support::{FATHOM, must, needs_root, wait_for};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The numbers of queries that the recording has and lacks, by its summary.
fn summary(home: &Path, dir: &Path) -> (Value, Value) {
    let of = fathom(home, &["recording", "summary", "--json", &dir.display().to_string()]).summary();
    (of["queries"]["queries"].clone(), of["queries"]["unrecorded"].clone())
}

/// A half-written file of queries does not take the room that is reserved for the recording's end.
#[test]
fn full_disk_recording_counts_lost_queries() {
    if !needs_root() {
        return;
    }
    let (disk, home) = (Small::mount(), tempfile::tempdir().unwrap());
    let (_echo, server) = Echo::start_tds(&[]);
    let dir = disk.path().join("r");
    let mut command = Command::new(FATHOM);
    command.args(["sql", &format!("mssql://reader@{server}/sales?sslmode=disable"), "--quiet", "--json"]);
    command.args(["--rows", "1", "--row-bytes", "10", "--connections", "2", "--for", "10m", "--record"]);
    let run = Probe::spawn(command.arg(&dir).env("FATHOM_CLOUD", "off"));
    wait_for("queries", || dir.join("queries-00000.parquet").is_file().then_some(()));
    disk.fill();
    wait_until_it_waits(&dir);
    // Others take the room that it makes for events.
    disk.fill();
    run.signal("INT");
    let outcome = run.finish();
    assert_eq!(outcome.code(), 1, "{}", outcome.err);
    let live: Value = serde_json::from_str(&outcome.out).unwrap();
    let (asked, lost) = (live["queries"].as_u64().unwrap(), live["unrecorded"].as_u64().unwrap());
    assert!(0 < lost && lost < asked, "{live:#}");
    let told = outcome.told();
    let last = told.last().unwrap();
    let wanted = format!("fathom: the recording is not whole, {lost} queries not in it: ");
    assert!(last.starts_with(&wanted) && last.contains("No space left"), "{}", outcome.err);

    let left = left_behind(&dir);
    assert!(!left.iter().any(|file| file.extension().is_some_and(|end| end == "tmp")), "{left:?}");
    let log = events(&dir);
    let [ended] = of_kind(&log, "sql.ended")[..] else { panic!("{log:#?}") };
    assert_eq!(ended["result"]["unrecorded"], lost, "{ended:#}");
    let [ended] = of_kind(&log, "recording.ended")[..] else { panic!("{log:#?}") };
    assert!(ended["error"].as_str().is_some_and(|error| error.contains("No space left")), "{ended:#}");
    assert_sound(&dir);
    let counts = (Value::from(asked - lost), Value::from(lost));
    assert_eq!(summary(home.path(), &dir), counts);

    let roomy = home.path().join("roomy");
    must("cp", &["-r", &dir.display().to_string(), &roomy.display().to_string()]);
    let recovered = fathom(home.path(), &["recording", "recover", "roomy"]);
    assert_eq!(recovered.code(), 0, "{recovered:?}");
    assert_sound(&roomy);
    assert_eq!(summary(home.path(), &roomy), counts);
}
