//! What can go wrong.

use std::fmt;

/// Why a simulation could not be, or not be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// What was asked for cannot be: a scenario with a mistake, say.
    Asked(String),
    /// It failed on the way: the disk was full, say.
    Failed(String),
}

impl Error {
    pub(crate) fn failed(error: impl fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Asked(message) | Self::Failed(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for Error {}
