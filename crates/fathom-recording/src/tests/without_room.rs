//! What a kill leaves on a full disk: nothing of it can be written then, and the reserve's length tells.

use super::room::{Filling, kinds};
use super::*;
use crate::disk::Disk;
use crate::recover::recover_on;
use crate::{RESERVE, Recorder, recover, verify};
use fathom_core::event::{Event, EventKind, KILLED_WITHOUT_ROOM};
use std::sync::Arc;

fn begun(disk: &Arc<Filling>, dir: &Path) -> Recorder {
    let mut probed = manifest();
    probed.probe = serde_json::json!({ "mode": "tcp" });
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    let mut recorder = Recorder::create_on(disk, dir, probed, Options::default()).unwrap();
    (0..100).for_each(|n| recorder.push(&sample(n)).unwrap());
    recorder.flush(SECOND).unwrap();
    recorder
}

fn notes(dir: &Path) -> usize {
    let is_note = |kind: &EventKind| matches!(kind, EventKind::Note { text } if text == KILLED_WITHOUT_ROOM);
    kinds(dir).iter().filter(|kind| is_note(kind)).count()
}

/// What is said of a recording that was left as it is: by who reads it, by recovery, and afterwards.
fn assert_told(dir: &Path, is_told: bool) {
    assert_eq!(Recording::open(dir).unwrap().was_killed_without_room(), is_told);
    let found = verify(dir, |_| {}).unwrap();
    let says = found.findings.iter().any(|finding| finding.first.contains("no room for it then"));
    assert_eq!(says, is_told, "{found:?}");
    let recovery = recover(dir, manifest().started_at).unwrap();
    assert_eq!((recovery.without_room, notes(dir)), (is_told, usize::from(is_told)), "{recovery:?}");
    assert!(recovery.is_in_order(), "{recovery:?}");
    let again = recover(dir, manifest().started_at).unwrap();
    assert_eq!((again.needed, notes(dir)), (false, usize::from(is_told)));
}

/// A probe that was killed while the disk was full left a story without a word of the disk.
#[test]
fn kill_on_full_disk_is_reported() {
    for (fills, empties) in [(false, false), (true, false), (true, true)] {
        let (home, disk) = (tempfile::tempdir().unwrap(), Arc::new(Filling::default()));
        let dir = home.path().join("r");
        let mut recorder = begun(&disk, &dir);
        if fills {
            disk.fill();
            recorder.push(&sample(100)).unwrap();
            recorder.flush(2 * SECOND).unwrap_err();
            assert!(recorder.waits_for_room());
        }
        if empties {
            disk.empty();
            recorder.flush(3 * SECOND).unwrap();
        }
        drop(recorder);
        assert_told(&dir, fills && !empties);
    }
}

/// An event.
fn note(recorder: &mut Recorder) {
    let kind = EventKind::Note { text: "something".to_owned() };
    recorder.event(&Event { at: manifest().started_at, mono_ns: 1, connection: None, kind }).unwrap();
}

/// An event takes room of the reserve, and there is room again before anything had to wait: the reserve stayed cut for good.
#[test]
fn reserve_refills_when_room_returns() {
    let (home, disk) = (tempfile::tempdir().unwrap(), Arc::new(Filling::default()));
    let dir = home.path().join("r");
    let mut recorder = begun(&disk, &dir);
    let length = || dir.join(RESERVE).metadata().unwrap().len();
    let whole = length();
    disk.fill();
    note(&mut recorder);
    assert!(length() < whole && !recorder.waits_for_room());
    disk.empty();
    recorder.flush(2 * SECOND).unwrap();
    assert_eq!(length(), whole);
    drop(recorder);
    assert_told(&dir, false);
}

/// Rows go on being written while an event has taken the reserve's room: nothing waits, and a kill was said to have cost what was sent
/// meanwhile. And each flush took all room that was left, for a moment.
#[test]
fn short_reserve_alone_reports_no_waiting_rows() {
    let (home, disk) = (tempfile::tempdir().unwrap(), Arc::new(Filling::default()));
    let dir = home.path().join("r");
    let mut recorder = begun(&disk, &dir);
    let length = || dir.join(RESERVE).metadata().unwrap().len();
    let whole = length();
    disk.fill();
    note(&mut recorder);
    let (cut, before) = (length(), disk.failed());
    // Room for rows, and not for the reserve.
    disk.fill_but(32 << 10);
    for turn in 0..4 {
        recorder.push(&sample(100 + turn)).unwrap();
        recorder.flush((2 + turn) * SECOND).unwrap();
        assert_eq!((length(), disk.failed(), recorder.waits_for_room()), (cut, before + 1, false), "{turn}");
    }
    recorder.flush(12 * SECOND).unwrap();
    assert_eq!((length(), disk.failed()), (cut, before + 2));
    // Rows that wait are told all the same, though there is nothing more to give.
    disk.fill();
    recorder.push(&sample(104)).unwrap();
    recorder.flush(13 * SECOND).unwrap_err();
    assert!(Recording::open(&dir).unwrap().manifest().ended_at.is_none() && length() == cut - 1);
    disk.fill_but(64 << 20);
    recorder.flush(14 * SECOND).unwrap();
    assert_eq!(length(), whole);
    // And once more, at the end of which it is killed.
    disk.fill();
    note(&mut recorder);
    disk.fill_but(32 << 10);
    recorder.push(&sample(105)).unwrap();
    recorder.flush(15 * SECOND).unwrap();
    drop(recorder);
    assert_told(&dir, false);
}

#[test]
fn failed_recoveries_add_only_one_note() {
    let (home, disk) = (tempfile::tempdir().unwrap(), Arc::new(Filling::default()));
    let dir = home.path().join("r");
    let mut recorder = begun(&disk, &dir);
    disk.fill();
    recorder.push(&sample(100)).unwrap();
    recorder.flush(2 * SECOND).unwrap_err();
    drop(recorder);
    let without = Filling::without_parquet();
    for _ in 0..2 {
        recover_on(&without, &dir, manifest().started_at).unwrap_err();
    }
    // When the probe was there last is said by nothing that recovery wrote.
    let ended_at = recover(&dir, Timestamp::now()).unwrap().ended_at;
    assert!(ended_at < Some(Timestamp::now() - jiff::SignedDuration::from_hours(1)), "{ended_at:?}");
    assert_eq!(notes(&dir), 1);
}
