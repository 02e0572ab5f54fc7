//! The directory of a recording: who may write in it, and what is removed when nobody does.

use super::{progress, seam};
use crate::begun::is_recorded;
use crate::disk::Disk;
use crate::{Error, LOCK, RESERVE};
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// Whoever reads asks by the lock whether somebody writes, and has it for some µs: it is tried for so often.
const READERS: u32 = 20;

pub(super) fn is_there(dir: &Path) -> bool {
    dir.as_os_str().is_empty() || dir.symlink_metadata().is_ok()
}

/// Makes directories durable that were made: the name of each stands in the one above it.
pub(super) fn sync_above(disk: &dyn Disk, made: &[&Path]) -> Result<(), Error> {
    for dir in made.iter().filter_map(|dir| dir.parent()) {
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        match disk.sync_dir(dir) {
            // One that may be written to and not be listed.
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                tracing::debug!(dir = %dir.display(), "its names cannot be synced");
            }
            synced => synced.map_err(Error::io("sync", dir))?,
        }
    }
    Ok(())
}

/// Takes the lock that a writer of `dir` holds.
pub(crate) fn lock(disk: &dyn Disk, dir: &Path) -> Result<File, Error> {
    let path = dir.join(LOCK);
    let file = disk.append_to(&path).map_err(Error::io("create", &path))?;
    for _ in 0..READERS {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", &path)(e)),
        }
    }
    Err(Error::Running { dir: dir.to_owned() })
}

/// Removes what only a running recording needs. A leftover does no harm.
pub(crate) fn tidy(disk: &dyn Disk, dir: &Path) {
    // Without `.progress` it would say something else.
    seam::remove(disk, dir);
    progress::remove(disk, dir);
    give_up(disk, dir);
}

/// Removes what is nobody's once the writer is gone.
pub(super) fn give_up(disk: &dyn Disk, dir: &Path) {
    let _ = disk.remove(&dir.join(RESERVE));
    let _ = disk.remove(&dir.join(LOCK));
}

pub(super) fn holds_recording(dir: &Path) -> Result<bool, Error> {
    let entries = std::fs::read_dir(dir).map_err(Error::io("list", dir))?;
    for entry in entries {
        let name = entry.map_err(Error::io("list", dir))?.file_name();
        if is_recorded(&name.to_string_lossy()) {
            return Ok(true);
        }
    }
    Ok(false)
}
