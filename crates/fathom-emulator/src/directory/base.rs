//! Directories in which the fabrics of a user stand, opened only where nobody else could have put anything.
//!
//! What lies there names processes to end and network names to delete, and root obeys it. So each directory is opened
//! component by component without following a symlink, and its owner and mode are looked at **each time**; everything in
//! it is opened by the descriptor that was looked at, never by a path that may lead elsewhere by now.

use crate::error::Error;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RawMode};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// No file that a fabric reads again is longer: the state of thousands of hosts.
const LONGEST_FILE: u64 = 64 << 20;
const OPEN_DIR: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);
const OWNER_ONLY: Mode = Mode::RWXU;

/// Whose directories they must be, asked at each look: a daemon that enters a user namespace of its own is another user
/// there, and so are its files.
pub(super) type Owner = fn() -> u32;

/// Where a base directory may be: below a directory of the system's (or of the user's session) the components that are
/// ours to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) system: PathBuf,
    pub(super) ours: Vec<String>,
}

impl Candidate {
    pub(super) fn new(system: impl Into<PathBuf>, ours: &[&str]) -> Self {
        Self { system: system.into(), ours: ours.iter().map(|&name| name.to_owned()).collect() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.ours.iter().fold(self.system.clone(), |path, name| path.join(name))
    }
}

/// A directory that only its owner can look into and write to, as was seen when it was opened.
#[derive(Debug)]
pub(super) struct SafeDir {
    path: PathBuf,
    fd: OwnedFd,
    owner: Owner,
}

impl SafeDir {
    /// Opens a base directory; none where it is not there. An error where it is somebody else's to change.
    pub(super) fn open(candidate: &Candidate, owner: Owner) -> Result<Option<Self>, Error> {
        Self::walk(candidate, owner, false)
    }

    /// Opens a base directory, and makes what is not there of it.
    pub(super) fn make(candidate: &Candidate, owner: Owner) -> Result<Self, Error> {
        let missing = || unsafe_directory(&candidate.path(), "it is not there");
        Self::walk(candidate, owner, true)?.ok_or_else(missing)
    }

    fn walk(candidate: &Candidate, owner: Owner, make: bool) -> Result<Option<Self>, Error> {
        let mut path = candidate.system.clone();
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let mut fd = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) if !make => return Ok(None),
            Err(e) => return Err(unsafe_directory(&path, io::Error::from(e))),
        };
        for (index, name) in candidate.ours.iter().enumerate() {
            path.push(name);
            if make {
                match rustix::fs::mkdirat(&fd, name, OWNER_ONLY) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(e) => return Err(unsafe_directory(&path, io::Error::from(e))),
                }
            }
            fd = match rustix::fs::openat(&fd, name, OPEN_DIR, Mode::empty()) {
                Ok(fd) => fd,
                Err(Errno::NOENT) if !make => return Ok(None),
                Err(e) => return Err(unsafe_directory(&path, io::Error::from(e))),
            };
            // Others may look at what leads to it (a service manager makes /run/fathom so), never into it.
            let forbidden = if index + 1 == candidate.ours.len() { 0o077 } else { 0o022 };
            check(&fd, &path, owner, forbidden)?;
        }
        Ok(Some(Self { path, fd, owner }))
    }

    /// A directory in it, opened and looked at in the same way; none where it is not there.
    pub(super) fn dir(&self, name: &str) -> Result<Option<Self>, Error> {
        let path = self.path.join(name);
        let fd = match rustix::fs::openat(&self.fd, name, OPEN_DIR, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(unsafe_directory(&path, io::Error::from(e))),
        };
        check(&fd, &path, self.owner, 0o077)?;
        Ok(Some(Self { path, fd, owner: self.owner }))
    }

    pub(super) fn make_dir(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.fd, name, OWNER_ONLY)?)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A new file for its owner only. One that is there already is an error, as is a symlink.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDWR;
        Ok(rustix::fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// A file that is there: a plain one, and never by a symlink.
    pub(super) fn open_file(&self, name: &str) -> io::Result<File> {
        // Not blocking, so that a FIFO that stands there holds nobody up.
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::RDWR;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?;
        if FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode as RawMode) != FileType::RegularFile {
            return Err(io::Error::new(ErrorKind::InvalidData, "it is no plain file"));
        }
        Ok(fd.into())
    }

    pub(super) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_file(name)?.take(LONGEST_FILE).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes a file whole or not at all.
    pub(super) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = format!("{name}.tmp");
        self.remove_file(&temporary)?;
        self.create(&temporary)?.write_all(bytes)?;
        Ok(rustix::fs::renameat(&self.fd, &temporary, &self.fd, name)?)
    }

    /// Removes a name, never what it points to; nothing there is no error.
    pub(super) fn remove_file(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Device and inode of a name, of a symlink its own.
    pub(super) fn identity(&self, name: &str) -> io::Result<(u64, u64)> {
        let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// The names of the directories in it.
    pub(super) fn dirs(&self) -> Vec<String> {
        let Ok(entries) = Dir::read_from(self.fd.as_fd()) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| {
            let name = OsStr::to_str(std::os::unix::ffi::OsStrExt::from_bytes(entry.file_name().to_bytes()));
            name.map(str::to_owned)
        });
        names.filter(|name| !name.starts_with('.') && matches!(self.dir(name), Ok(Some(_)))).collect()
    }

    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { path: self.path.clone(), fd: self.fd.try_clone()?, owner: self.owner })
    }
}

fn check(fd: &OwnedFd, path: &Path, owner: Owner, forbidden: u32) -> Result<(), Error> {
    let stat = rustix::fs::fstat(fd).map_err(|e| unsafe_directory(path, io::Error::from(e)))?;
    if stat.st_uid != owner() {
        return Err(unsafe_directory(path, format!("it belongs to user {}", stat.st_uid)));
    }
    if stat.st_mode & forbidden != 0 {
        return Err(unsafe_directory(
            path,
            format!("others have rights there (mode {:o})", stat.st_mode & 0o777),
        ));
    }
    Ok(())
}

fn unsafe_directory(path: &Path, cause: impl std::fmt::Display) -> Error {
    let remedy =
        "it must be a directory that only you can use: remove it, or set XDG_RUNTIME_DIR to one of your own";
    Error::path("keep fabrics in", path, cause, remedy)
}
