//! How many samples had fallen due and were sent while some were out without an answer. Those have no rows yet: a kill would take
//! them without a trace, though they were sent minutes ago. So while a silence lasts these counts stand in a file of their own,
//! replaced once a second, and recovery tells what they count and has no row.
//!
//! A count of the whole run alone does not do: samples of one connection that were sent later and have rows would stand for those
//! of another that have none.

use crate::disk::Disk;
use crate::{Error, PROGRESS};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

/// More than the file ever holds, in bytes: a million connections (as many as `--connections` allows), each of 34 at most.
const LONGEST: u64 = 64 << 20;

/// The content of the file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Samples of the path that had fallen due, sent or given up; 0: nobody knows.
    pub(crate) due: u64,
    /// Samples that were sent on connections, at the least.
    #[serde(default)]
    pub(crate) sent: BTreeMap<u32, u64>,
    /// Connections that have ended since.
    #[serde(skip)]
    over: BTreeSet<u32>,
}

impl Progress {
    pub(super) fn is_nothing(&self) -> bool {
        self.due == 0 && self.sent.is_empty()
    }

    /// What a probing thread tells, or rows do at a seam. What was told earlier stays true.
    pub(super) fn add(&mut self, due: u64, sent: &BTreeMap<u32, u64>) {
        self.due = self.due.max(due);
        for (&connection, &sent) in sent {
            let told = self.sent.entry(connection).or_default();
            *told = sent.max(*told);
        }
    }

    /// A connection has ended; its end says how many were sent on it.
    pub(super) fn note_end(&mut self, connection: u32) {
        if self.sent.contains_key(&connection) {
            self.over.insert(connection);
        }
    }

    pub(super) fn forget_those_over(&mut self) {
        for connection in std::mem::take(&mut self.over) {
            self.sent.remove(&connection);
        }
    }

    /// Replaces the file. It is not synced: it is for a process that is killed, not for a host that loses its power.
    pub(super) fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
        let (path, temporary) = (dir.join(PROGRESS), dir.join(format!("{PROGRESS}.tmp")));
        let text = format!("{}\n", serde_json::json!(self));
        let file = disk.create(&temporary).map_err(Error::io("create", &temporary))?;
        disk.write(&file, &[text.as_bytes()]).map_err(Error::io("write", &temporary))?;
        disk.rename(&temporary, &path).map_err(Error::io("replace", &path))
    }
}

/// What a killed probe left; none where it left none that can be read.
pub(crate) fn read(dir: &Path) -> Option<Progress> {
    let mut text = String::new();
    crate::plain::open(&dir.join(PROGRESS)).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Removes it: from here on the event log tells what is missing.
pub(crate) fn remove(disk: &dyn Disk, dir: &Path) {
    for name in [PROGRESS.to_owned(), format!("{PROGRESS}.tmp")] {
        // A leftover counts no more than what is told.
        let _ = disk.remove(&dir.join(name));
    }
}
