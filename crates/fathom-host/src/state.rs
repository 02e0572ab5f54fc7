//! How a job is.

use serde::{Deserialize, Serialize};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How a job is, or how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum State {
    /// Its supervisor runs.
    Running,
    /// It ended by itself.
    Exited { code: i32 },
    /// A signal ended it.
    Killed { signal: i32 },
    /// Its time was over, and so it was ended.
    Expired,
    /// It ended and left no word.
    Lost,
}

impl From<ExitStatus> for State {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited { code },
            (None, Some(signal)) => Self::Killed { signal },
            (None, None) => Self::Lost,
        }
    }
}
