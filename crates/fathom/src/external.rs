//! Commands of the Python half: `fathom report` becomes `fathometer report`, as git does with its external commands.
//!
//! The process is replaced where the system allows it, so that signals, exit code and terminal are the other program's own.

use crate::exit::Failure;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The program that answers them.
const PROGRAM: &str = "fathometer";

/// Whatever stands after the command, `--help` included, is the other program's.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    rest: Vec<OsString>,
}

/// Hands over; returns only where that fails, or where processes cannot be replaced.
pub(crate) fn run(name: &str, args: &Args) -> Result<ExitCode, Failure> {
    let program = beside_us().unwrap_or_else(|| PathBuf::from(PROGRAM));
    let mut command = Command::new(&program);
    command.arg(name).args(&args.rest);
    let error = match hand_over(&mut command) {
        Ok(code) => return Ok(code),
        Err(error) => error,
    };
    if error.kind() == std::io::ErrorKind::NotFound {
        return Err(Failure::run(format!(
            "`fathom {name}` belongs to the Python half, which is not installed here: pip install fathometer \
             (Python 3.11 or newer; in a checkout: make python)"
        )));
    }
    Err(Failure::run(format!(
        "cannot start {}: {error}; reinstall it: pip install fathometer",
        program.display()
    )))
}

/// A `fathometer` installed in the same directory (one wheel's scripts) comes before any other on PATH.
fn beside_us() -> Option<PathBuf> {
    let sibling = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    sibling.is_file().then_some(sibling)
}

#[cfg(unix)]
fn hand_over(command: &mut Command) -> std::io::Result<ExitCode> {
    use std::os::unix::process::CommandExt as _;
    // An interpreter that is interrupted while it starts shows a traceback. `fathometer/early.py` lets Ctrl-C through.
    fathom_os::signals::hold_interrupts();
    Err(command.exec())
}

#[cfg(not(unix))]
fn hand_over(command: &mut Command) -> std::io::Result<ExitCode> {
    let status = command.status()?;
    Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)))
}
