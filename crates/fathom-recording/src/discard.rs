//! Taking back a recording that never came to hold a sample.

use crate::{EVENTS, LOCK, MANIFEST, PROGRESS, RESERVE, SEAM};
use std::fs;
use std::path::Path;

/// Removes the files of a recording without samples, and its directory if nothing else is in it. Does nothing where
/// there is a segment, and leaves files that are not a recording's: what somebody recorded or put there is not ours
/// to remove.
pub fn discard_empty(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    if entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("samples-")) {
        return;
    }
    for name in [EVENTS, LOCK, SEAM, PROGRESS, RESERVE, MANIFEST] {
        // What cannot be removed stays, and is then found by whoever looks.
        let _ = fs::remove_file(dir.join(name));
    }
    let _ = fs::remove_dir(dir);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Begun, Error, Manifest, Recorder, Recording, Tool, recordings_in, recover, verify};
    use fathom_core::sample::Sample;
    use jiff::Timestamp;

    fn recorder(dir: &Path) -> Recorder {
        let tool = Tool { version: "0".into(), revision: None };
        Recorder::create(dir, Manifest::new("x", Timestamp::UNIX_EPOCH, tool)).unwrap()
    }

    #[test]
    fn discard_keeps_samples_and_foreign_files() {
        let home = tempfile::tempdir().unwrap();
        let [empty, full, shared] = ["empty", "full", "shared"].map(|name| home.path().join(name));
        recorder(&empty).finish(Timestamp::UNIX_EPOCH, 1).unwrap();
        let mut with_sample = recorder(&full);
        with_sample.push(&Sample::default()).unwrap();
        with_sample.finish(Timestamp::UNIX_EPOCH, 1).unwrap();
        drop(recorder(&shared));
        fs::write(shared.join("notes.txt"), "mine").unwrap();
        for dir in [&empty, &full, &shared] {
            discard_empty(dir);
        }
        assert!(!empty.exists());
        assert!(full.join(MANIFEST).exists());
        let left: Vec<_> = fs::read_dir(&shared).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, ["notes.txt"]);
    }

    /// What was said of it: that it "holds no recording", or over a directory of recordings nothing at all.
    #[test]
    fn just_begun_recording_has_its_own_error() {
        let home = tempfile::tempdir().unwrap();
        let [whole, begun, study] = ["a", "b", "c"].map(|name| home.path().join(name));
        recorder(&whole).finish(Timestamp::UNIX_EPOCH, 1).unwrap();
        fs::create_dir(&begun).unwrap();
        fs::write(begun.join(LOCK), "").unwrap();
        // A lock of somebody else beside recordings, and beside nothing of a probe.
        recorder(&study.join("r")).finish(Timestamp::UNIX_EPOCH, 1).unwrap();
        fs::write(study.join(LOCK), "").unwrap();
        assert_eq!(recordings_in(home.path()), [whole.clone(), begun.clone(), study.join("r")]);
        assert_eq!(
            [&whole, &begun, &study].map(|dir| Begun::of(dir)),
            [None, Some(Begun::Empty), Some(Begun::Shared)]
        );
        let said = Recording::open(&begun).unwrap_err().to_string();
        assert!(said.contains("nothing was recorded") && said.contains("may be removed"), "{said}");
        let said = Recording::open(&study).unwrap_err().to_string();
        assert!(said.contains("nothing was recorded") && !said.contains("may be removed"), "{said}");
        let running = fs::File::open(begun.join(LOCK)).unwrap();
        running.lock().unwrap();
        let said = Recording::open(&begun).unwrap_err().to_string();
        assert!(said.contains("only beginning") && !said.contains("may be removed"), "{said}");
        // A run of a rotation is beginning it: it is a recording in a moment.
        assert_eq!(recordings_in(home.path()), [whole, study.join("r")]);
    }

    /// A kill within the first 30 ms left a lock and 64 KiB, and `recover` failed: "holds no recording".
    #[test]
    fn recovery_cleans_up_just_begun_recording() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path();
        for name in [LOCK, RESERVE, "recording.json.tmp", "notes.txt"] {
            fs::write(dir.join(name), name).unwrap();
        }
        // The second time nothing changes.
        for _ in 0..2 {
            assert!(verify(dir, |_| {}).unwrap().is_sound());
            let recovery = recover(dir, Timestamp::now()).unwrap();
            assert_eq!((recovery.rows, recovery.ended_at), (0, None));
            let mut left: Vec<_> = fs::read_dir(dir).unwrap().flatten().map(|e| e.file_name()).collect();
            left.sort();
            assert_eq!(left, [LOCK, "notes.txt"]);
        }
        // One that a probe is beginning is left alone.
        fs::write(dir.join(RESERVE), "").unwrap();
        let running = fs::File::open(dir.join(LOCK)).unwrap();
        running.lock().unwrap();
        assert!(matches!(recover(dir, Timestamp::now()), Err(Error::Running { .. })));
        assert!(dir.join(RESERVE).exists());
        // Without the lock nobody began anything.
        fs::remove_file(dir.join(LOCK)).unwrap();
        assert!(matches!(recover(dir, Timestamp::now()), Err(Error::NotARecording { .. })));
        assert!(matches!(verify(dir, |_| {}), Err(Error::NotARecording { .. })));
    }
}
