//! Errors that name the operation, the path and the remedy.

use crate::Begun;
use fathom_core::event::{LOST_FILE_LIMIT, LOST_NO_SPACE, LOST_STOPPED};
use std::io;
use std::path::{Path, PathBuf};

/// Why a recording could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory already holds a recording.
    #[error("{} already holds a recording; choose another directory, or move that one away", dir.display())]
    Exists {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory holds no recording.
    #[error(
        "{} holds no recording (it has no {}); give the directory that `fathom probe` named",
        dir.display(),
        crate::MANIFEST
    )]
    NotARecording {
        /// The directory.
        dir: PathBuf,
    },
    /// A probe has only begun it.
    #[error("{}: {begun}", dir.display())]
    Begun {
        /// The directory.
        dir: PathBuf,
        /// What there is.
        begun: Begun,
    },
    /// It is a file.
    #[error("{} is a file; give the directory of a recording{}", path.display(), theirs(path))]
    File {
        /// The file.
        path: PathBuf,
    },
    /// A probe is still writing it.
    #[error("{} is being written by a running probe; stop the probe first (reading is possible meanwhile)", dir.display())]
    Running {
        /// The directory.
        dir: PathBuf,
    },
    /// It was written in a format of the future.
    #[error(
        "{} has format version {found}, and this program reads up to version {}; use a newer fathom",
        path.display(),
        crate::FORMAT_VERSION
    )]
    FutureVersion {
        /// The manifest.
        path: PathBuf,
        /// The version it names.
        found: u64,
    },
    /// The manifest cannot be understood.
    #[error("cannot understand {}: {reason}; restore it from a copy", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A segment cannot be turned into Parquet, or Parquet not be read.
    #[error("cannot read {}: {reason}; `fathom recording verify` tells what can still be read", path.display())]
    Segment {
        /// The segment.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An event that is longer than the longest line that readers take.
    #[error(
        "an event `{kind}` is left out of {}: its line would be too long for readers (1 MiB; {bytes} B); this is a bug, please report it",
        path.display()
    )]
    TooLong {
        /// The event log.
        path: PathBuf,
        /// The kind of event.
        kind: &'static str,
        /// How long its line would be.
        bytes: u64,
    },
    /// The recording stopped earlier, for the reason given.
    #[error("the recording in {} stopped earlier: {reason}", dir.display())]
    Stopped {
        /// The directory.
        dir: PathBuf,
        /// The error that stopped it.
        reason: String,
    },
    /// Somebody removed it while it was written. What to do about it depends on the run: [`Error::with_advice`].
    #[error("{} was removed while it was recorded to, and what it held is gone", path.display())]
    Gone {
        /// The directory, or the file in it.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {operation} {}: {source}; {}", path.display(), remedy(source))]
    Io {
        /// What was being done, as a verb phrase.
        operation: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { operation, path, source }
    }

    /// Whether there is no space left to write to: the disk is full, a quota is, or the file has reached the limit of its size.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if full(source))
    }
}

impl Error {
    /// As it is told while the run goes on, with what to do about it, which most errors say themselves. `is_followed`: the run begins another
    /// recording before it ends.
    pub fn with_advice(&self, is_followed: bool) -> String {
        match self {
            Self::Gone { .. } if is_followed => format!("{self}; the next rotation begins a new recording"),
            Self::Gone { .. } => format!("{self}; start the run anew to record again"),
            _ => self.to_string(),
        }
    }

    /// The reason for rows that are lost by it ([`fathom_core::event::why_lost`]).
    pub(crate) fn why_lost(&self) -> &'static str {
        match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::FileTooLarge => LOST_FILE_LIMIT,
            error if error.is_full() => LOST_NO_SPACE,
            _ => LOST_STOPPED,
        }
    }

    /// Whether it may be tried again when there is room. A sync that found none has lost what was acknowledged before it.
    pub(crate) fn wants_room(&self) -> bool {
        self.is_full() && !matches!(self, Self::Io { operation: "sync", .. })
    }
}

fn is_link(error: &io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    #[cfg(not(unix))]
    return {
        let _ = error;
        false
    };
}

/// The recording that a file belongs to, in words.
fn theirs(file: &Path) -> String {
    let dir = file.parent().filter(|dir| dir.join(crate::MANIFEST).is_file());
    match dir {
        Some(dir) if dir.as_os_str().is_empty() => ", which is here: .".to_owned(),
        Some(dir) => format!(", which is here: {}", dir.display()),
        None => ", as `fathom probe` named it".to_owned(),
    }
}

fn full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// How to mend what the operating system refused.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        _ if is_link(error) => "a symbolic link stands in its place; remove it, or choose another directory",
        io::ErrorKind::FileTooLarge => {
            "raise the limit on the size of files (`ulimit -f`); what was written so far stays readable"
        }
        _ if full(error) => "free some space; what was written so far stays readable",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a directory that you may write to"
        }
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a file is in the way; choose another path"
        }
        _ => "check the disk",
    }
}
