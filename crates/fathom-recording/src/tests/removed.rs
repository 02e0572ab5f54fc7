//! A recording whose files somebody removes while it is written.

use super::*;
use crate::{EVENTS, Error, Recorder, verify};
use fathom_core::event::{Carried, Event, EventKind};
use std::collections::BTreeMap;
use std::fs;

fn begun(dir: &Path) -> Recorder {
    let mut recorder = Recorder::create(dir, manifest()).unwrap();
    (0..40).for_each(|n| recorder.push(&sample(n)).unwrap());
    recorder.flush(SECOND / 4).unwrap();
    recorder
}

/// It was noticed when the segment closed, up to an hour later: all samples until then were gone.
#[test]
fn removed_directory_is_noticed_at_next_flush() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    let mut recorder = begun(&dir);
    fs::remove_dir_all(&dir).unwrap();
    recorder.push(&sample(40)).unwrap();
    let error = recorder.flush(SECOND / 2).unwrap_err();
    assert!(matches!(&error, Error::Gone { path } if *path == dir), "{error}");
    let words = error.to_string();
    assert!(words.contains("was removed while it was recorded to"), "{words}");
    assert_eq!(recorder.stopped(), Some(words.as_str()));
    assert!(!recorder.waits_for_room());
    assert!(recorder.finish(manifest().started_at, SECOND).is_err());
    assert!(!dir.exists());
}

#[test]
fn a_file_that_is_removed_is_named() {
    for name in [EVENTS, "samples-00000.arrows"] {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("r");
        let mut recorder = begun(&dir);
        fs::remove_file(dir.join(name)).unwrap();
        let error = recorder.flush(SECOND / 2).unwrap_err();
        assert!(matches!(&error, Error::Gone { path } if *path == dir.join(name)), "{error}");
    }
}

/// The end of the first wrote its manifest over the other's, and removed its lock.
#[test]
fn what_has_its_place_since_is_left_alone() {
    for noticed in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("r");
        let mut first = begun(&dir);
        fs::remove_dir_all(&dir).unwrap();
        let mut second = begun(&dir);
        let id = second.manifest().id.clone();
        if noticed {
            first.flush(SECOND / 2).unwrap_err();
        }
        assert!(first.finish(manifest().started_at, SECOND).is_err());
        assert!(dir.join(crate::LOCK).exists() && dir.join(crate::RESERVE).exists());
        second.push(&sample(40)).unwrap();
        second.flush(SECOND / 2).unwrap();
        second.finish(manifest().started_at, SECOND).unwrap();
        assert_eq!(Manifest::read(&dir).unwrap().id, id);
        assert_eq!(read(&dir).len(), 41);
        assert!(verify(&dir, |_| {}).unwrap().is_sound());
    }
}

/// `--rotate`: the next one has what a kill is to leave told.
#[test]
fn a_run_goes_on_in_another_recording() {
    let home = tempfile::tempdir().unwrap();
    let (dir, next) = (home.path().join("a"), home.path().join("b"));
    let mut first = begun(&dir);
    fs::remove_dir_all(&dir).unwrap();
    first.flush(SECOND / 2).unwrap_err();
    let mut second = begun(&next);
    let at = manifest().started_at;
    let rotated = EventKind::RecordingRotated { next: String::new(), carried: Carried::default() };
    let rotated = Event { at, mono_ns: SECOND, connection: None, kind: rotated };
    assert!(first.goes_on_in(&mut second, &BTreeMap::new(), &rotated).is_err());
    assert!(first.finish(at, SECOND).is_err());
    assert!(!dir.exists());
    second.finish(at, SECOND).unwrap();
    assert_eq!(read(&next).len(), 40);
}
