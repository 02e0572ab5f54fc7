//! Removing old recordings of a rotation: those that have their end, and nothing else.

use crate::disk::{self, Disk};
use crate::{EVENTS, LOCK, MANIFEST, Manifest, PROGRESS, REMOVED, RESERVE, Recording, SEAM};
use crate::{segment_name, segment_ordinal};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Removes the recordings directly in `parent` that ended before this moment, of which all files are there, and that are of the rotation
/// that `is_ours` knows. One that ended on a full disk has rows in the files in which they were written (`.arrows`), and goes like
/// any other. What is removed is told, and what is ours and old and yet stays, with why. A removal that was interrupted is taken up.
pub fn remove_old(
    parent: &Path,
    before: Timestamp,
    is_ours: impl Fn(&Manifest) -> bool,
) -> (Vec<PathBuf>, Vec<(PathBuf, String)>) {
    remove_old_on(disk::real(false).as_ref(), parent, before, is_ours)
}

fn remove_old_on(
    disk: &dyn Disk,
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
        let (manifest, is_begun) = match Manifest::read(&dir) {
            Ok(manifest) => (Ok(manifest), false),
            Err(_) => (Manifest::read_file(&dir, REMOVED), true),
        };
        let Ok(manifest) = manifest else { continue };
        if !is_ours(&manifest) || manifest.ended_at.is_none_or(|ended| ended >= before) {
            continue;
        }
        let checked = if is_begun { Ok(()) } else { check(&dir) };
        match checked.and_then(|()| remove(disk, &dir)) {
            Ok(()) => removed.push(dir),
            Err(why) => left.push((dir, why)),
        }
    }
    (removed, left)
}

/// The files of a recording, and what is in its directory beside them as an error.
fn files_of(dir: &Path) -> Result<BTreeSet<String>, String> {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(dir).map_err(|e| e.to_string())? {
        let entry = entry.map_err(|e| e.to_string())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !is_of_an_ended(&name) || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            return Err(format!("{name} in it is not of a recording that has ended"));
        }
        files.insert(name);
    }
    Ok(files)
}

/// Whether a file of this name is of a recording that has its end, whatever the disk had room for then. What recovery has set aside is not:
/// somebody may want to look at it.
fn is_of_an_ended(name: &str) -> bool {
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    [MANIFEST, REMOVED, EVENTS, LOCK, RESERVE, SEAM, PROGRESS].contains(&name)
        || ["parquet", "arrows"].into_iter().any(|end| segment_ordinal(name, end).is_some())
}

/// Whether it may be removed: its files are all there, and no other, and nobody writes it.
fn check(dir: &Path) -> Result<(), String> {
    let recording = Recording::open(dir).map_err(|e| e.to_string())?;
    if recording.is_running() {
        return Err("somebody writes it".to_owned());
    }
    let files = files_of(dir)?;
    let listed = recording.listed().keys().map(|&ordinal| segment_name(ordinal, "parquet"));
    match listed.chain([EVENTS.to_owned()]).find(|name| !files.contains(name)) {
        Some(missing) => Err(format!("{missing} is missing")),
        None => Ok(()),
    }
}

/// Removes a recording that was looked at, or what an interrupted removal left of one. Its manifest gets another name first, which
/// says so: no reader takes what is left for a recording with damage, and the next removal knows that nobody else took its files
/// away. It goes last.
fn remove(disk: &dyn Disk, dir: &Path) -> Result<(), String> {
    let files = files_of(dir)?;
    if files.contains(MANIFEST) {
        disk.rename(&dir.join(MANIFEST), &dir.join(REMOVED)).map_err(|e| format!("{MANIFEST}: {e}"))?;
        disk.sync_dir(dir).map_err(|e| format!("its directory cannot be synced: {e}"))?;
    }
    let others = files.iter().map(String::as_str).filter(|name| ![MANIFEST, REMOVED].contains(name));
    for name in others.chain([REMOVED]) {
        disk.remove(&dir.join(name)).map_err(|e| format!("{name} cannot be removed: {e}"))?;
    }
    disk.remove_dir(dir).map_err(|e| format!("its directory cannot be removed: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::durable::{Fault, FaultyDisk};
    use crate::{Recorder, Tool, recordings_in};
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

    /// The log went first, and the next removals refused what was left for ever: "events.jsonl is missing".
    #[test]
    fn a_removal_that_is_interrupted_anywhere_is_taken_up() {
        let ours = |manifest: &Manifest| manifest.label == "ours";
        for sound in 0.. {
            let home = tempfile::tempdir().unwrap();
            let dir = home.path().join("old");
            recorded(&dir, "ours", Some(10));
            let (disk, disk_of_the_next) =
                (FaultyDisk::new(sound, Fault::Dead), FaultyDisk::new(u64::MAX, Fault::Dead));
            let (removed, _) = remove_old_on(disk.as_ref(), home.path(), at(50), ours);
            if !removed.is_empty() {
                assert_eq!(sound, 6, "a rename, a sync, three files, and the directory");
                break;
            }
            assert_eq!(dir.join(MANIFEST).exists(), sound == 0, "{sound}");
            // Where it is young yet, or another's, it stays.
            for (before, is_ours) in [(at(5), true), (at(50), false)] {
                let next = remove_old_on(disk_of_the_next.as_ref(), home.path(), before, |_| is_ours);
                assert_eq!(next, (vec![], vec![]), "{sound}");
            }
            // What lies there is no recording with damage.
            let is_recording = Recording::open(&recordings_in(home.path())[0]).is_ok();
            assert_eq!(is_recording, sound == 0, "{sound}");
            let next = remove_old_on(disk_of_the_next.as_ref(), home.path(), at(50), ours);
            if sound == 5 {
                // Empty, it could be anybody's.
                assert_eq!((next, fs::read_dir(&dir).unwrap().count()), ((vec![], vec![]), 0));
                continue;
            }
            assert_eq!(next, (vec![dir.clone()], vec![]), "{sound}");
            assert!(!dir.exists(), "{sound}");
        }
    }

    /// Somebody put a file there meanwhile.
    #[test]
    fn what_is_somebody_s_own_in_the_rest_of_a_removal_stays() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("old");
        recorded(&dir, "ours", Some(10));
        let disk = FaultyDisk::new(3, Fault::Dead);
        assert_eq!(remove_old_on(disk.as_ref(), home.path(), at(50), |_| true).0, Vec::<PathBuf>::new());
        fs::write(dir.join("notes.txt"), "mine").unwrap();
        let (removed, left) = remove_old(home.path(), at(50), |_| true);
        assert_eq!((removed.len(), left.len()), (0, 1), "{left:?}");
        assert!(dir.join("notes.txt").exists());
        fs::remove_file(dir.join("notes.txt")).unwrap();
        assert_eq!(remove_old(home.path(), at(50), |_| true), (vec![dir], vec![]));
    }
}
