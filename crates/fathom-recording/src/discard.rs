//! Taking back a recording that never came to hold a sample.

use crate::{EVENTS, LOCK, MANIFEST, PROGRESS, RESERVE};
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
    for name in [EVENTS, LOCK, PROGRESS, RESERVE, MANIFEST] {
        // What cannot be removed stays, and is then found by whoever looks.
        let _ = fs::remove_file(dir.join(name));
    }
    let _ = fs::remove_dir(dir);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Manifest, Recorder, Tool};
    use fathom_core::sample::Sample;
    use jiff::Timestamp;

    fn recorder(dir: &Path) -> Recorder {
        let tool = Tool { version: "0".into(), revision: None };
        Recorder::create(dir, Manifest::new("x", Timestamp::UNIX_EPOCH, tool)).unwrap()
    }

    #[test]
    fn only_an_empty_recording_goes_and_only_its_own_files() {
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
}
