//! What a probe that was killed at once leaves in place of a recording.

use crate::{EVENTS, LOCK, MANIFEST, PROGRESS, REMOVED, RESERVE, SEAM};
use std::fmt;
use std::fs;
use std::path::Path;

/// What there is of a recording that has not as much as a manifest: a probe's lock, and nothing of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// Its probe is there.
    Running,
    /// Its probe was killed, and the directory holds nothing else.
    Empty,
    /// Its probe was killed, and what else is in the directory is somebody's own.
    Shared,
}

impl Begun {
    /// What there is in `dir`; `None`: a recording, or nothing of a probe.
    pub fn of(dir: &Path) -> Option<Self> {
        let names =
            fs::read_dir(dir).ok()?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let names: Vec<String> = names.collect();
        // What a removal left is no beginning.
        let recorded = |name: &String| name == REMOVED || is_recorded(name);
        if !names.iter().any(|name| name == LOCK) || names.iter().any(recorded) {
            return None;
        }
        let begins = |name: &String| {
            let name = name.strip_suffix(".tmp").unwrap_or(name);
            [LOCK, RESERVE, MANIFEST, SEAM, PROGRESS].contains(&name)
        };
        Some(match names.iter().all(begins) {
            _ if is_written(dir) => Self::Running,
            true => Self::Empty,
            false => Self::Shared,
        })
    }
}

impl fmt::Display for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NOTHING: &str = "nothing was recorded: its probe ended as soon as it had begun";
        match self {
            Self::Running => f.write_str("nothing is recorded yet: its probe is only beginning"),
            Self::Empty => write!(f, "{NOTHING}; the directory holds nothing, and may be removed"),
            Self::Shared => f.write_str(NOTHING),
        }
    }
}

/// Whether a file of this name makes a directory a recording.
pub(crate) fn is_recorded(name: &str) -> bool {
    name == MANIFEST || name == EVENTS || name.starts_with("samples-")
}

/// Whether a probe writes the recording that is in `dir`.
pub(crate) fn is_written(dir: &Path) -> bool {
    crate::plain::open(&dir.join(LOCK))
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
}
