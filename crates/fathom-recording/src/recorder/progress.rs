//! How many samples had fallen due while some were out without an answer. Those have no rows yet: a kill would take them
//! without a trace, though they were sent minutes ago. So while a silence lasts the count stands in a file of its own,
//! replaced once a second, and recovery tells what it counts and has no row.

use crate::disk::Disk;
use crate::{Error, PROGRESS};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::Path;

/// More than the file ever holds, in bytes.
const LONGEST: u64 = 1 << 10;

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Progress {
    /// Samples of the path that had fallen due, sent or given up.
    due: u64,
}

/// Replaces the count. It is not synced: it is for a process that is killed, not for a host that loses its power.
pub(super) fn write(disk: &dyn Disk, dir: &Path, due: u64) -> Result<(), Error> {
    let (path, temporary) = (dir.join(PROGRESS), dir.join(format!("{PROGRESS}.tmp")));
    let text = format!("{}\n", serde_json::json!(Progress { due }));
    let file = disk.create(&temporary).map_err(Error::io("create", &temporary))?;
    disk.write(&file, &[text.as_bytes()]).map_err(Error::io("write", &temporary))?;
    disk.rename(&temporary, &path).map_err(Error::io("replace", &path))
}

/// The count that a killed probe left; none where it left none that can be read.
pub(crate) fn read(dir: &Path) -> Option<u64> {
    let mut text = String::new();
    crate::plain::open(&dir.join(PROGRESS)).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok().map(|Progress { due }| due)
}

/// Removes it: from here on the event log tells what is missing.
pub(crate) fn remove(disk: &dyn Disk, dir: &Path) {
    for name in [PROGRESS.to_owned(), format!("{PROGRESS}.tmp")] {
        // A leftover counts no more than what is told.
        let _ = disk.remove(&dir.join(name));
    }
}
