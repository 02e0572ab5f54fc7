//! Removing old recordings of a rotation: those that have their end, and nothing else.

use crate::begun::is_written;
use crate::disk::{self, Disk};
use crate::{EVENTS, LOCK, MANIFEST, Manifest, PROGRESS, REMOVED, RESERVE, Recording, SEAM};
use crate::{segment_name, segment_ordinal};
use fathom_core::clock::Anchor;
use fathom_core::rotation::Ages;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where it stands in a manifest.
const ROTATION: &str = "rotation";

/// The rotation that a recording is of, as its manifest says: by this a run knows what it recorded itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotation {
    /// How long each recording is, ns.
    pub every_ns: u64,
    /// How long one is kept after its end, ns; `None`: for ever.
    pub keep_ns: Option<u64>,
    /// The run: the id of its first recording of this path.
    pub run: String,
    /// The name of the directory that the run made for it. A copy beside it has another.
    pub directory: String,
}

impl Rotation {
    /// That of the first recording of a run, which has this manifest.
    pub fn begin(manifest: &mut Manifest, every: Duration, keep: Option<Duration>) {
        let ns = |duration: Duration| duration.as_nanos() as u64;
        let (every_ns, keep_ns) = (ns(every), keep.map(ns));
        let (run, directory) = (manifest.id.clone(), String::new());
        Self { every_ns, keep_ns, run, directory }.write_to(manifest);
    }

    /// Notes where the recording with this manifest will be, if it is of a rotation.
    pub fn place(manifest: &mut Manifest, dir: &Path) {
        if let Some(rotation) = Self::of(manifest) {
            Self { directory: name_of(dir), ..rotation }.write_to(manifest);
        }
    }

    /// As a manifest says it; `None`: it is of no rotation, or of one of a version that did not say which.
    pub fn of(manifest: &Manifest) -> Option<Self> {
        manifest.extra.get(ROTATION).and_then(|stated| Self::deserialize(stated).ok())
    }

    fn write_to(&self, manifest: &mut Manifest) {
        if let Ok(stated) = serde_json::to_value(self) {
            manifest.extra.insert(ROTATION.to_owned(), stated);
        }
    }
}

fn name_of(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Removes the recordings beside `dir` that `--keep` no longer keeps. The current run records in `dir`, and `current` is its
/// manifest; `ages` gives the ages. The result names removed recordings, and those that could not be removed, with the reason.
/// It removes
///
/// * what this run itself recorded: by the name of the run, in the directory that it made for it;
/// * what an earlier run of the same host recorded of the same target under the same label, in such a directory too, when the `--keep` of
///   that run is over as well: so a probe that is started again goes on with the same disk. A run is earlier when all that
///   is there of it was over before this one began, and nobody writes it.
///
/// So a copy stays, and what another probe records or has recorded beside this one; and what an earlier run was to keep for ever.
pub fn remove_old(
    current: &Manifest,
    dir: &Path,
    ages: &Ages,
    now: Anchor,
) -> (Vec<PathBuf>, Vec<(PathBuf, String)>) {
    let nothing = || (Vec::new(), Vec::new());
    let (Some(ours), Some(parent)) = (Rotation::of(current), dir.parent()) else { return nothing() };
    let Some(keep_ns) = ours.keep_ns else { return nothing() };
    let begun = i128::from(ages.begun().utc_ns);
    let subject = |m: &Manifest| {
        let host = |name: &str| m.host[name].clone();
        (m.label.clone(), m.path.clone(), m.reflector.address.clone(), host("machine_id"), host("name"))
    };
    let expected = subject(current);
    let of = |m: &Manifest| Rotation::of(m).filter(|_| subject(m) == expected);
    let beside: BTreeSet<String> = folders_in(parent)
        .into_iter()
        .filter_map(|dir| {
            // Asked first: one that ends between the two has its end in the manifest.
            let is_written = is_written(&dir);
            let (manifest, _) = manifest_in(&dir)?;
            let ended = manifest.ended_at.map(jiff::Timestamp::as_nanosecond);
            let goes_on =
                manifest.started_at.as_nanosecond() >= begun || ended.is_some_and(|ended| ended > begun);
            let rotation = of(&manifest).filter(|_| goes_on || is_written)?;
            Some(rotation.run)
        })
        .collect();
    let is_old = |dir: &Path, manifest: &Manifest| {
        let Some(theirs) = of(manifest).filter(|theirs| theirs.directory == name_of(dir)) else {
            return false;
        };
        let Some(ended) = manifest.ended_at.filter(|_| manifest.id != current.id) else { return false };
        match theirs.keep_ns {
            _ if theirs.run == ours.run => {
                ages.own_ns(&theirs.directory, now).is_some_and(|age| age > keep_ns)
            }
            Some(also) if !beside.contains(&theirs.run) => {
                let keep_ns = keep_ns.max(also);
                ages.earlier_ns(ended.as_nanosecond() as i64, keep_ns, now) > keep_ns
            }
            _ => false,
        }
    };
    remove_old_on(disk::real(false).as_ref(), parent, is_old)
}

/// The folders in one, by name. A link is somebody's own: it may lead anywhere.
fn folders_in(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    folders.sort_unstable();
    folders
}

/// The manifest of a recording, or of what an interrupted removal left of one, and which it is.
fn manifest_in(dir: &Path) -> Option<(Manifest, bool)> {
    match Manifest::read(dir) {
        Ok(manifest) => Some((manifest, false)),
        Err(_) => Some((Manifest::read_file(dir, REMOVED).ok()?, true)),
    }
}

/// Removes the recordings directly in `parent` that are old, of which all files are there. One that ended on a full disk has rows in
/// the files in which they were written (`.arrows`), and goes like any other. A removal that was interrupted is taken up.
pub(crate) fn remove_old_on(
    disk: &dyn Disk,
    parent: &Path,
    is_old: impl Fn(&Path, &Manifest) -> bool,
) -> (Vec<PathBuf>, Vec<(PathBuf, String)>) {
    let (mut removed, mut left) = (Vec::new(), Vec::new());
    for dir in folders_in(parent) {
        let Some((_, is_begun)) = manifest_in(&dir).filter(|(manifest, _)| is_old(&dir, manifest)) else {
            continue;
        };
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
mod tests;
