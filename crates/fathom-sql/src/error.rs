//! Why something could not be done: one line that names it, says what is wrong and how to mend it.

use postgres_protocol::message::backend::ErrorResponseBody;

/// See the module.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The command line is at fault.
    #[error("{0}")]
    Usage(String),
    /// The world is at fault.
    #[error("{0}")]
    Run(String),
    /// It is, and may not be in a while: a server that begins, ends or is full, or where nobody listens any more.
    #[error("{0}")]
    Passing(String),
}

impl Error {
    pub(crate) fn run(line: impl Into<String>) -> Self {
        Self::Run(line.into())
    }

    /// The same of what passes, where it does.
    pub(crate) fn of(passes: bool, line: String) -> Self {
        if passes { Self::Passing(line) } else { Self::Run(line) }
    }

    /// Whether another try may come to more.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Self::Passing(_))
    }
}

/// What a server's `ErrorResponse` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// SQLSTATE: <https://www.postgresql.org/docs/15/errcodes-appendix.html>.
    pub(crate) code: String,
    pub(crate) message: String,
    /// The connection is at its end.
    pub(crate) is_fatal: bool,
    /// Where in its source a server says so, which is in no language; empty: it does not tell.
    pub(crate) routine: String,
}

impl Refusal {
    pub(crate) fn of(body: &ErrorResponseBody) -> Self {
        use fallible_iterator::FallibleIterator;
        let mut refusal = Self::default();
        let mut fields = body.fields();
        while let Ok(Some(field)) = fields.next() {
            let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'C' => refusal.code = value,
                b'M' => refusal.message = value,
                b'R' => refusal.routine = value,
                b'V' => refusal.is_fatal = value != "ERROR",
                _ => {}
            }
        }
        refusal
    }

    /// Whether the server may let somebody in later: it ends by an administrator or after a crash, begins, or has no room (57P01, 57P02,
    /// 57P03, 53300).
    pub(crate) fn passes(&self) -> bool {
        matches!(self.code.as_str(), "57P01" | "57P02" | "57P03" | "53300")
    }

    /// The message with its code.
    pub(crate) fn words(&self) -> String {
        format!("{} ({})", self.message, self.code)
    }
}

/// Why a query has no whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The server says so.
    Refused(Refusal),
    /// The connection is lost.
    Lost(String),
    /// The user did not want to wait for the answer; the server did not say either that it cancelled it, where it is unanswered.
    Stopped { is_unanswered: bool },
    /// It took longer than it may; the server did not say either that it cancelled it, where it is unanswered.
    Late { why: String, is_unanswered: bool },
}
