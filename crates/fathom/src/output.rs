//! Standard output and standard error. `println!` and `eprintln!` panic where the reader has gone away; these do not.
//! What is printed may hold text of others (labels, events): nothing of it that a terminal would obey gets through.

use crate::exit::Failure;
use fathom_core::text::lines_cleaned;
use std::io::{self, Write};

/// A line on standard error. Where nobody can read it, there is nothing better to do than to go on.
macro_rules! tell {
    ($($argument:tt)*) => {
        $crate::output::line_on_stderr(format_args!($($argument)*))
    };
}
pub(crate) use tell;

pub(crate) fn line_on_stderr(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{}", lines_cleaned(&line.to_string()));
}

/// Writes to standard output, at once; whether somebody still reads it. A reader that has gone away has seen enough: that
/// is no failure. Anything else is: `what` says what could not be printed.
pub(crate) fn print(what: &str, text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    let outcome = out.write_all(lines_cleaned(text).as_bytes()).and_then(|()| out.flush());
    let read = outcome.is_ok();
    written(what, outcome).map(|()| read)
}

/// How writing `what` to standard output went.
pub(crate) fn written(what: &str, outcome: io::Result<()>) -> Result<(), Failure> {
    match outcome {
        Err(e) if !reader_is_gone(&e) => {
            Err(Failure::run(format!("cannot print {what}: {e}; see that standard output can be written to")))
        }
        _ => Ok(()),
    }
}

/// Whether nobody reads what is written any more: a pipe that was closed, or a terminal that went away (which is an I/O
/// error, EIO, on Unix).
pub(crate) fn reader_is_gone(error: &io::Error) -> bool {
    use std::io::IsTerminal;
    error.kind() == io::ErrorKind::BrokenPipe
        || (cfg!(unix) && error.raw_os_error() == Some(5) && !io::stdout().is_terminal())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_pipe_succeeds_full_disk_is_error() {
        assert!(written("it", Ok(())).is_ok());
        assert!(written("it", Err(io::ErrorKind::BrokenPipe.into())).is_ok());
        let failure = written("the summary", Err(io::ErrorKind::StorageFull.into())).expect_err("a failure");
        let line = failure.to_string();
        assert!(line.starts_with("cannot print the summary: ") && !line.contains('\n'), "{line}");
    }
}
