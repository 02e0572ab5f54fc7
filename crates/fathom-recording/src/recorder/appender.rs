//! A file that only ever holds whole records.

use crate::Error;
use crate::disk::Disk;
use crate::stream::BLOCK;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// Appends whole records to a file. A write that fails half-way is taken back.
#[derive(Debug)]
pub(crate) struct Appender {
    pub(crate) path: PathBuf,
    /// Shared with who syncs it.
    file: Arc<File>,
    /// Bytes of whole records.
    len: u64,
    /// Part of a record may stand after them.
    torn: bool,
    /// Something was written since the last sync.
    dirty: bool,
    /// The file system refused a write past the system's cache: none is tried again.
    cached: bool,
}

impl Appender {
    pub(crate) fn open(disk: &dyn Disk, path: PathBuf) -> Result<Self, Error> {
        let file = disk.append_to(&path).map_err(Error::io("create", &path))?;
        let len = file.metadata().map_err(Error::io("read", &path))?.len();
        Ok(Self { path, file: Arc::new(file), len, torn: false, dirty: false, cached: false })
    }

    pub(crate) fn append(&mut self, disk: &dyn Disk, record: &[u8]) -> Result<(), Error> {
        self.append_all(disk, &[record])
    }

    fn append_all(&mut self, disk: &dyn Disk, records: &[&[u8]]) -> Result<(), Error> {
        if self.torn {
            self.truncate(disk, self.len)?;
        }
        self.dirty = true;
        match disk.write(&self.file, records) {
            Ok(()) => {
                self.len += records.iter().map(|record| record.len() as u64).sum::<u64>();
                Ok(())
            }
            Err(e) => {
                self.torn = true;
                // Should this fail too, the next record tries again, and the end of the recording does. Until then whole records
                // may stand there that are told as lost.
                let _ = self.truncate(disk, self.len);
                Err(Error::io("write to", &self.path)(e))
            }
        }
    }

    /// As [`Appender::append`], of records that are whole blocks in memory too: past the system's cache where that goes. It takes
    /// a quarter of the processor's time (`dd` on ext4), and the thread that measures may share that processor.
    pub(crate) fn append_blocks(&mut self, disk: &dyn Disk, records: &[&[u8]]) -> Result<(), Error> {
        if self.cached || !self.len.is_multiple_of(BLOCK as u64) || !disk.set_direct(&self.file, true) {
            return self.append_all(disk, records);
        }
        let appended = self.append_all(disk, records);
        disk.set_direct(&self.file, false);
        match appended {
            // The flag is known, and such a write may not be: EINVAL, EOPNOTSUPP or what else a file system says. What is
            // wrong with the disk itself is told by the next attempt too.
            Err(error) if !error.wants_room() => {
                self.cached = true;
                self.append_all(disk, records)
            }
            other => other,
        }
    }

    /// Tries again to take back the part of a record that a failed write left: that failed too.
    pub(crate) fn take_back(&mut self, disk: &dyn Disk) {
        if self.torn {
            let _ = self.truncate(disk, self.len);
        }
    }

    pub(crate) fn truncate(&mut self, disk: &dyn Disk, len: u64) -> Result<(), Error> {
        disk.truncate(&self.file, len).map_err(Error::io("truncate", &self.path))?;
        self.len = len;
        self.torn = false;
        Ok(())
    }

    /// Takes back whatever is in it.
    pub(crate) fn empty(&mut self, disk: &dyn Disk) -> Result<(), Error> {
        if self.len > 0 { self.truncate(disk, 0) } else { Ok(()) }
    }

    /// Whether somebody removed the file: what is written to it is nowhere once it is closed. (Over NFS that is not to be seen.)
    pub(crate) fn is_removed(&self) -> bool {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let Ok(facts) = self.file.metadata() else { return false };
            // A file system that counts no links says 0 of each: there the name says more.
            facts.nlink() == 0
                && match self.path.symlink_metadata() {
                    Ok(there) => (there.dev(), there.ino()) != (facts.dev(), facts.ino()),
                    Err(e) => e.kind() == std::io::ErrorKind::NotFound,
                }
        }
        #[cfg(not(unix))]
        false
    }

    /// The file, for who syncs it instead; `None`: nothing was written since that was last done.
    pub(crate) fn take_unsynced(&mut self) -> Option<(Arc<File>, PathBuf)> {
        std::mem::take(&mut self.dirty).then(|| (Arc::clone(&self.file), self.path.clone()))
    }

    pub(crate) fn sync(&mut self, disk: &dyn Disk) -> Result<(), Error> {
        if self.dirty {
            disk.sync(&self.file).map_err(Error::io("sync", &self.path))?;
            self.dirty = false;
        }
        Ok(())
    }
}
