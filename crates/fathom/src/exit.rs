//! Exit codes, and the one place where an error becomes one.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | it did what was asked (a run ended by Ctrl-C or SIGTERM too) |
//! | 1 | it could not: no connection, nothing answered, the recording stopped, damage was found |
//! | 2 | the command line cannot be used as it stands |
//! | 3, 4 | `fathom report` (the Python half's, docs/report.md): a goal is not met; one cannot be decided |
//! | 129 | the terminal that it ran on hung up (SIGHUP), which ended the run in order |
//! | other | `fathom fabric exec` and `run`: the command's own |

use crate::command_line::without_passwords;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;

/// The exit code of a run that ended with its terminal: 128 and SIGHUP, as a shell has it.
pub(crate) const HUNG_UP: u8 = 129;

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
    /// A command that was run for the user ended with this code, or told why not: the same code, without a word.
    Passed(u8),
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
            // Where nobody can read it, there is nothing better to do than to go on.
            Self::Usage(line) | Self::Run(line) => {
                let line = fathom_core::text::lines_cleaned(&without_passwords(line)).to_string();
                _ = writeln!(std::io::stderr().lock(), "fathom: {line}");
            }
            Self::Told | Self::Passed(_) => {}
        }
        ExitCode::from(match self {
            Self::Usage(_) => 2,
            Self::Run(_) | Self::Told => 1,
            Self::Passed(code) => *code,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Run(message) => f.write_str(message),
            Self::Told | Self::Passed(_) => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

impl From<fathom_reflector::Error> for Failure {
    fn from(error: fathom_reflector::Error) -> Self {
        Self::Run(error.to_string())
    }
}

#[cfg(target_os = "linux")]
impl From<fathom_emulator::Error> for Failure {
    fn from(error: fathom_emulator::Error) -> Self {
        match error {
            fathom_emulator::Error::Usage(line) => Self::Usage(line),
            fathom_emulator::Error::Run(line) => Self::Run(line),
        }
    }
}
