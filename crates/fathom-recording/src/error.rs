//! Errors that name the operation, the path and the remedy.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a recording could not be written or read.
#[derive(Debug)]
pub enum Error {
    /// The directory already holds a recording.
    Exists {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory holds no recording.
    NotARecording {
        /// The directory.
        dir: PathBuf,
    },
    /// A probe is still writing it.
    Running {
        /// The directory.
        dir: PathBuf,
    },
    /// It was written in a format of the future.
    FutureVersion {
        /// The manifest.
        path: PathBuf,
        /// The version it names.
        found: u64,
    },
    /// The manifest cannot be understood.
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A segment cannot be turned into Parquet, or Parquet not be read.
    Segment {
        /// The segment.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The recording stopped earlier, for the reason given.
    Stopped {
        /// The directory.
        dir: PathBuf,
        /// The error that stopped it.
        reason: String,
    },
    /// The operating system refused.
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

    /// Whether there is no space left to write to.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if full(source))
    }
}

impl Error {
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

fn full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists { dir } => write!(
                f,
                "{} already holds a recording; choose another directory, or move that one away",
                dir.display()
            ),
            Self::NotARecording { dir } => write!(
                f,
                "{} holds no recording (it has no {}); give the directory that `fathom probe` named",
                dir.display(),
                crate::MANIFEST
            ),
            Self::Running { dir } => write!(
                f,
                "{} is being written by a running probe; stop the probe first (reading is possible meanwhile)",
                dir.display()
            ),
            Self::FutureVersion { path, found } => write!(
                f,
                "{} has format version {found}, and this program reads version {}; use a newer fathom",
                path.display(),
                crate::FORMAT_VERSION
            ),
            Self::Manifest { path, reason } => {
                write!(f, "cannot understand {}: {reason}; restore it from a copy", path.display())
            }
            Self::Segment { path, reason } => write!(
                f,
                "cannot read {}: {reason}; `fathom recording verify` tells what can still be read",
                path.display()
            ),
            Self::Stopped { dir, reason } => {
                write!(f, "the recording in {} stopped earlier: {reason}", dir.display())
            }
            Self::Io { operation, path, source } => {
                write!(f, "cannot {operation} {}: {source}; ", path.display())?;
                f.write_str(match source.kind() {
                    _ if is_link(source) => {
                        "a symbolic link stands in its place; remove it, or choose another directory"
                    }
                    _ if full(source) => "free some space; what was written so far stays readable",
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                        "choose a directory that you may write to"
                    }
                    io::ErrorKind::NotFound => "check the path",
                    io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                        "a file is in the way; choose another path"
                    }
                    _ => "check the disk",
                })
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
