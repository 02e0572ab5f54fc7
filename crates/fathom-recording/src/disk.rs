//! Every operation that changes the disk, behind one small trait, so that tests can make each of them fail in turn.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// What a writer asks of a disk. The provided methods are the real ones.
pub(crate) trait Disk: fmt::Debug + Send + Sync {
    fn create_dirs(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    /// Opens for writing at the end, creating the file where there is none. A symbolic link in its place is an error: in a
    /// directory that somebody else prepared it leads to a file that is none of ours.
    fn append_to(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        // A pipe in its place would be waited for.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut options,
            (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits() as i32,
        );
        options.open(path)
    }

    /// Makes a new file, in the place of one (or of a link) that is there.
    fn create(&self, path: &Path) -> io::Result<File> {
        match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        OpenOptions::new().write(true).create_new(true).open(path)
    }

    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Makes the names in a directory durable. Only Unix lets a directory be opened and synced; elsewhere a rename
    /// is as durable as the file system makes it.
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
    }
}

/// The operating system's.
#[derive(Debug)]
pub(crate) struct RealDisk;

impl Disk for RealDisk {}
