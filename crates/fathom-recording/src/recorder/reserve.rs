//! Room that is kept back on the disk: some for what happens while it is full, and some for the last words of the recording, which
//! nothing else takes. Real bytes: a hole would reserve nothing.
//!
//! Its length says whether rows wait for room: a byte less than a whole number of KiB while they do. Nothing else that is on the disk tells
//! of that when a probe is killed.

use crate::disk::Disk;
use crate::{Error, Manifest, RESERVE};
use std::path::{Path, PathBuf};

/// For events while the disk is full.
const MEANWHILE: u64 = 64 << 10;
/// For the last events, and for the manifest, which stands there twice while it is replaced.
const LAST: u64 = 64 << 10;
/// For what the result of `fathom sql` says of each connection, or setting.
const OF_EACH: u64 = 2 << 10;
/// No event is longer than that.
const LAST_AT_MOST: u64 = LAST + (1 << 20);

/// What lengths are multiples of while no row waits; also those of earlier versions.
const KIB: u64 = 1 << 10;
/// From one attempt to fill it to the next, while the recording does not wait: each takes what room is left, for a moment, which others on
/// the same disk may want.
const FILL_EVERY_NS: u64 = 10_000_000_000;

/// Whether the recording in `dir` waits for room, or did when its probe was killed. Not where the reserve is gone, as in last words.
pub(crate) fn has_given_way(dir: &Path) -> bool {
    dir.join(RESERVE).symlink_metadata().is_ok_and(|file| !file.len().is_multiple_of(KIB))
}

/// `.reserve` of a recording that is being written.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    last: u64,
    has_given_way: bool,
    /// It is not filled again before that, but by a recording that goes on.
    fills_again_ns: u64,
}

impl Reserve {
    /// Keeps room back for a recording that begins.
    pub(super) fn begin(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<Self, Error> {
        let sql = &manifest.probe["sql"];
        let settings = sql["settings"].as_array().map_or(0, Vec::len) as u64;
        let each = sql["connections"].as_u64().unwrap_or(0).max(settings);
        let last = each.saturating_mul(OF_EACH).saturating_add(LAST).min(LAST_AT_MOST);
        let reserve = Self { path: dir.join(RESERVE), last, has_given_way: false, fills_again_ns: 0 };
        let file = disk.create(&reserve.path).map_err(Error::io("create", &reserve.path))?;
        reserve.write(disk, &file, 0)?;
        Ok(reserve)
    }

    /// What is kept back of it for the last words, in bytes.
    pub(super) fn of_last_words(&self) -> u64 {
        self.last
    }

    /// Keeps all of it back again. Where there is no room for that it stays as it is.
    pub(super) fn fill(&mut self, disk: &dyn Disk) -> Result<(), Error> {
        let file = disk.append_to(&self.path).map_err(Error::io("create", &self.path))?;
        let has = file.metadata().map_err(Error::io("read", &self.path))?.len();
        self.write(disk, &file, has).inspect_err(|_| _ = disk.truncate(&file, has))?;
        self.has_given_way = false;
        Ok(())
    }

    /// The same where an event had taken room of it and nothing else wanted for any: the recording has not waited. Where there is still none
    /// that is tried again, though not at once.
    pub(super) fn fill_again(&mut self, disk: &dyn Disk, now_ns: u64) {
        if self.has_given_way && now_ns >= self.fills_again_ns {
            self.fills_again_ns = now_ns.saturating_add(FILL_EVERY_NS);
            let _ = self.fill(disk);
        }
    }

    fn write(&self, disk: &dyn Disk, file: &std::fs::File, has: u64) -> Result<(), Error> {
        let missing = (MEANWHILE + self.last).saturating_sub(has) as usize;
        disk.write(file, &[&vec![0x46; missing]]).map_err(Error::io("reserve space in", &self.path))?;
        disk.sync(file).map_err(Error::io("sync", &self.path))
    }

    /// Makes room for what happens while the disk is full, and tells by its length where rows wait for room from now on.
    pub(super) fn give_way(&mut self, disk: &dyn Disk, rows_wait: bool) {
        self.has_given_way = true;
        let Ok(length) = self.path.symlink_metadata().map(|file| file.len()) else { return };
        let left = length.min(self.last);
        let left = left - u64::from(rows_wait && left > 0 && left.is_multiple_of(KIB));
        if left < length {
            let shrunk = disk.append_to(&self.path).and_then(|file| disk.truncate(&file, left));
            if shrunk.is_err() {
                self.give_up(disk);
            }
        }
    }

    /// Makes room for the last words.
    pub(super) fn give_up(&self, disk: &dyn Disk) {
        // Where it cannot be removed they may fit nevertheless.
        let _ = disk.remove(&self.path);
    }
}
