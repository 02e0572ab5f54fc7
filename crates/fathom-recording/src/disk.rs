//! Every operation that changes the disk, behind one small trait, so that tests can make each of them fail in turn.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::path::Path;
use std::sync::Arc;

/// What a writer asks of a disk. The provided methods are the real ones.
pub(crate) trait Disk: fmt::Debug + Send + Sync {
    /// Whether other accounts of this host may read what is made, as far as the process's umask lets them. Recordings name
    /// hosts: by default they are their owner's alone.
    fn is_readable(&self) -> bool {
        false
    }

    /// Makes a directory and those above it, as far as they are missing. One that is there keeps its mode.
    fn create_dirs(&self, dir: &Path) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, if self.is_readable() { 0o777 } else { 0o700 });
        builder.recursive(true).create(dir)
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
        with_mode(&mut options, self.is_readable()).open(path)
    }

    /// Makes a new file, in the place of one (or of a link) that is there.
    fn create(&self, path: &Path) -> io::Result<File> {
        match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        with_mode(OpenOptions::new().write(true).create_new(true), self.is_readable()).open(path)
    }

    /// Writes all parts, one after the other, by as few calls of the system as it takes: a thread that waits for the disk once
    /// disturbs the one that measures less than one that waits for each part.
    fn write(&self, mut file: &File, parts: &[&[u8]]) -> io::Result<()> {
        let mut slices: Vec<IoSlice> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut left = slices.as_mut_slice();
        // Empty ones at the beginning would read as a disk that takes nothing.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match file.write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut left, written),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Whether what is written from here on passes the system's cache by (`O_DIRECT`), or not; false: it cannot be told.
    fn set_direct(&self, file: &File, direct: bool) -> bool {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
            fcntl_getfl(file).is_ok_and(|mut flags| {
                flags.set(OFlags::DIRECT, direct);
                fcntl_setfl(file, flags).is_ok()
            })
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (file, direct);
            false
        }
    }

    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Whether syncs may take seconds, so that it is worth a thread not to wait for them.
    fn takes_its_time(&self) -> bool {
        false
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

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    /// Makes the names in a directory durable. Only Unix lets a directory be opened and synced; elsewhere a rename
    /// is as durable as the file system makes it.
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
    }
}

/// With the mode that a new file gets.
fn with_mode(options: &mut OpenOptions, is_readable: bool) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, if is_readable { 0o666 } else { 0o600 });
    options
}

/// The operating system's.
#[derive(Debug)]
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn takes_its_time(&self) -> bool {
        true
    }
}

/// The same, for a recording that others may read.
#[derive(Debug)]
struct ReadableDisk;

impl Disk for ReadableDisk {
    fn takes_its_time(&self) -> bool {
        true
    }

    fn is_readable(&self) -> bool {
        true
    }
}

/// The operating system's, for a recording that others may read or not.
pub(crate) fn real(is_readable: bool) -> Arc<dyn Disk> {
    if is_readable { Arc::new(ReadableDisk) } else { Arc::new(RealDisk) }
}

/// The operating system's, for more files of a recording: others may read them if they may read this one.
pub(crate) fn like(file: &Path) -> Arc<dyn Disk> {
    #[cfg(unix)]
    let others =
        fs::symlink_metadata(file).is_ok_and(|m| std::os::unix::fs::MetadataExt::mode(&m) & 0o044 != 0);
    #[cfg(not(unix))]
    let others = file.exists();
    real(others)
}
