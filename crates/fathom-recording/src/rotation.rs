//! Removing old recordings of a rotation: whole ones, and nothing else.

use crate::{EVENTS, MANIFEST, Manifest, Recording, segment_name, segment_ordinal};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Removes the recordings directly in `parent` that are whole, ended before this moment and are of the rotation that `is_ours`
/// knows. What is removed is told, and what is ours and old and yet stays, with why.
pub fn remove_old(
    parent: &Path,
    before: Timestamp,
    is_ours: impl Fn(&Manifest) -> bool,
) -> (Vec<PathBuf>, Vec<(PathBuf, String)>) {
    let (mut removed, mut left) = (Vec::new(), Vec::new());
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    // A link is somebody's own: it may lead anywhere.
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    folders.sort_unstable();
    for dir in folders {
        let Ok(manifest) = Manifest::read(&dir) else { continue };
        if !is_ours(&manifest) || manifest.ended_at.is_none_or(|ended| ended >= before) {
            continue;
        }
        match remove(&dir) {
            Ok(()) => removed.push(dir),
            Err(why) => left.push((dir, why)),
        }
    }
    (removed, left)
}

/// Removes a recording whose files are all there, and no other; the manifest last, so that one that was removed in part is
/// still known for what it is.
fn remove(dir: &Path) -> Result<(), String> {
    let recording = Recording::open(dir).map_err(|e| e.to_string())?;
    if recording.is_running() {
        return Err("somebody writes it".to_owned());
    }
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(dir).map_err(|e| e.to_string())? {
        let entry = entry.map_err(|e| e.to_string())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let known =
            [MANIFEST, EVENTS].contains(&name.as_str()) || segment_ordinal(&name, "parquet").is_some();
        if !known || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            return Err(format!("{name} in it is not of a whole recording"));
        }
        files.insert(name);
    }
    let listed = recording.listed().keys().map(|&ordinal| segment_name(ordinal, "parquet"));
    if let Some(missing) = listed.chain([EVENTS.to_owned()]).find(|name| !files.contains(name)) {
        return Err(format!("{missing} is missing"));
    }
    let (last, first): (Vec<&String>, Vec<&String>) = files.iter().partition(|name| *name == MANIFEST);
    for name in first.into_iter().chain(last) {
        fs::remove_file(dir.join(name)).map_err(|e| format!("{name} cannot be removed: {e}"))?;
    }
    fs::remove_dir(dir).map_err(|e| format!("its directory cannot be removed: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Recorder, Tool};
    use fathom_core::sample::Sample;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A recording of one sample that ended then.
    fn recorded(dir: &Path, label: &str, ended: Option<i64>) {
        let tool = Tool { version: "0".into(), revision: None };
        let mut recorder = Recorder::create(dir, Manifest::new(label, at(0), tool)).unwrap();
        recorder.push(&Sample { size: 64, ..Sample::default() }).unwrap();
        recorder.flush(1).unwrap();
        if let Some(ended) = ended {
            recorder.finish(at(ended), 2).unwrap();
        }
    }

    #[test]
    fn only_old_whole_recordings_of_the_rotation_go() {
        let home = tempfile::tempdir().unwrap();
        let dir = |name: &str| home.path().join(name);
        recorded(&dir("old"), "ours", Some(10));
        recorded(&dir("young"), "ours", Some(99));
        recorded(&dir("another's"), "theirs", Some(10));
        recorded(&dir("interrupted"), "ours", None);
        recorded(&dir("with notes"), "ours", Some(10));
        fs::write(dir("with notes").join("notes.txt"), "mine").unwrap();
        recorded(&dir("with a folder"), "ours", Some(10));
        fs::create_dir(dir("with a folder").join("x")).unwrap();
        recorded(&dir("torn"), "ours", Some(10));
        fs::remove_file(dir("torn").join("samples-00000.parquet")).unwrap();
        fs::create_dir(dir("deeper")).unwrap();
        recorded(&dir("deeper").join("old"), "ours", Some(10));
        fs::write(dir("a file"), "mine").unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        recorded(&elsewhere.path().join("r"), "ours", Some(10));
        #[cfg(unix)]
        std::os::unix::fs::symlink(elsewhere.path().join("r"), dir("link")).unwrap();

        let (removed, left) = remove_old(home.path(), at(50), |manifest| manifest.label == "ours");
        assert_eq!(removed, [dir("old")]);
        let left: Vec<_> = left.iter().map(|(dir, _)| dir.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(left, ["torn", "with a folder", "with notes"]);
        for stays in
            ["young", "another's", "interrupted", "with notes", "with a folder", "torn", "deeper/old"]
        {
            assert!(dir(stays).join(MANIFEST).exists() && dir(stays).join(EVENTS).exists(), "{stays}");
        }
        assert!(dir("a file").exists() && elsewhere.path().join("r").join("samples-00000.parquet").exists());
        assert!(!dir("old").exists());
    }
}
