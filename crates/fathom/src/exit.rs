//! Exit codes, and the one place where an error becomes one.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | it did what was asked (a run ended by Ctrl-C or SIGTERM too) |
//! | 1 | it could not: no connection, nothing answered, the recording stopped, damage was found |
//! | 2 | the command line cannot be used as it stands |

use std::fmt;
use std::process::ExitCode;

/// Why a command ended without doing what was asked: one line that names the thing, says what is wrong with it and
/// how to mend it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is at fault: exit code 2.
    Usage(String),
    /// The world is at fault: exit code 1.
    Run(String),
    /// The failure has been told already: exit code 1 without another word.
    Told,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    pub(crate) fn run(message: impl Into<String>) -> Self {
        Self::Run(message.into())
    }

    /// Writes the line to standard error and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Usage(_) | Self::Run(_) => eprintln!("fathom: {self}"),
            Self::Told => {}
        }
        ExitCode::from(if matches!(self, Self::Usage(_)) { 2 } else { 1 })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Run(message) => f.write_str(message),
            Self::Told => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}
