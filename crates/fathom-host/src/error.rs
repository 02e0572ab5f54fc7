//! Why a question could not be answered.

use std::io;
use std::path::Path;

/// One line for the study's runner, which puts the host's name before it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is not one.
    #[error("the request is not understood: {0}")]
    Request(String),
    /// The world is at fault.
    #[error("{0}")]
    Run(String),
}

impl Error {
    /// The exit code of the call.
    pub fn code(&self) -> u8 {
        match self {
            Self::Request(_) => 2,
            Self::Run(_) => 1,
        }
    }

    pub(crate) fn run(message: impl Into<String>) -> Self {
        Self::Run(message.into())
    }

    /// For `map_err`: a file or directory that could not be used.
    pub(crate) fn path<'a>(what: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |cause| Self::Run(format!("cannot {what} {}: {cause}", path.display()))
    }
}
