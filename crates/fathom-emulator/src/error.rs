//! Why something about a fabric could not be done.

use std::io;
use std::path::Path;

/// One line that names the thing, says what is wrong with it and how to mend it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be: a name that is none, a choice that is not made.
    #[error("{0}")]
    Usage(String),
    /// The world is at fault.
    #[error("{0}")]
    Run(String),
}

impl Error {
    pub(crate) fn run(message: impl Into<String>) -> Self {
        Self::Run(message.into())
    }

    /// A file or directory that could not be used.
    pub(crate) fn path(what: &str, path: &Path, cause: impl std::fmt::Display, remedy: &str) -> Self {
        Self::Run(format!("cannot {what} {}: {cause}; {remedy}", path.display()))
    }

    pub(crate) fn thread(cause: &io::Error) -> Self {
        Self::Run(format!("cannot start a thread: {cause}"))
    }
}

/// Says a line on the daemon's standard error: the terminal at first, the fabric's log later.
pub(crate) fn warn(line: impl std::fmt::Display) {
    eprintln!("fathom: {line}");
}
