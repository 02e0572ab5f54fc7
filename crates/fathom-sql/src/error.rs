//! Why something could not be done: one line that names it, says what is wrong and how to mend it.

use crate::violation::is_of_this_side;
use postgres_protocol::message::backend::ErrorResponseBody;
use std::sync::{Arc, OnceLock};

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
    /// The server lets the user in no more, or not by this password: another try comes to the same, and may shut the user out.
    #[error("{0}")]
    Barred(String),
    /// The server has room for nobody more.
    #[error("{0}")]
    Full(String),
    /// A session is not there any more that the server had listed before.
    #[error("{0}")]
    Gone(String),
    /// The server does not answer a question of ours.
    #[error("{message} ({code})")]
    Refused {
        /// By which it says why: SQLSTATE of `PostgreSQL` and `MySQL`, `error N` of SQL Server.
        code: String,
        /// What it says.
        message: String,
    },
}

impl Error {
    pub(crate) fn run(line: impl Into<String>) -> Self {
        Self::Run(line.into())
    }

    /// Whether the server refused it by this code.
    pub(crate) fn is_refusal(&self, by: &str) -> bool {
        matches!(self, Self::Refused { code, .. } if code == by)
    }

    /// The same of what passes, where it does.
    pub(crate) fn of(passes: bool, line: String) -> Self {
        if passes { Self::Passing(line) } else { Self::Run(line) }
    }

    /// Whether another try may come to more.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Self::Passing(_) | Self::Full(_))
    }

    /// Whether nobody is to try again.
    pub(crate) fn is_barred(&self) -> bool {
        matches!(self, Self::Barred(_))
    }

    /// Whether a login was refused so.
    pub(crate) fn is_of_a_login(&self) -> bool {
        matches!(self, Self::Barred(_) | Self::Full(_))
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused { code: refusal.code, message: refusal.message }
    }
}

/// Why a server could not be asked to end a query, once that is known.
pub(crate) type Unasked = Arc<OnceLock<Error>>;

/// What a server's `ErrorResponse` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// SQLSTATE: <https://www.postgresql.org/docs/15/errcodes-appendix.html>.
    pub(crate) code: String,
    pub(crate) message: String,
    /// The connection is at its end.
    pub(crate) is_fatal: bool,
    /// How grave SQL Server says that it is; 0: the server tells no such thing.
    pub(crate) severity: u8,
    /// The number by which `MySQL` and `MariaDB` say it; 0: the server tells no such thing.
    pub(crate) number: u16,
    /// Where in its source a server says so, which is in no language; empty: it does not tell, which `PostgreSQL` always does.
    pub(crate) routine: String,
    /// It lets no session idle for so long: `ERRCODE_IDLE_SESSION_TIMEOUT` (57P05), `ER_CLIENT_INTERACTION_TIMEOUT` (4031).
    pub(crate) was_idle: bool,
}

impl Refusal {
    pub(crate) fn of(body: &ErrorResponseBody) -> Self {
        use fallible_iterator::FallibleIterator;
        let mut refusal = Self::default();
        let mut fields = body.fields();
        let mut severity = None;
        while let Ok(Some(field)) = fields.next() {
            let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'C' => refusal.code = value,
                b'M' => refusal.message = value,
                b'R' => refusal.routine = value,
                // Poolers, and servers before 9.6, have no V; S may be in another language.
                b'S' => refusal.is_fatal = severity.unwrap_or(matches!(value.as_str(), "FATAL" | "PANIC")),
                b'V' => {
                    refusal.is_fatal = value != "ERROR";
                    severity = Some(refusal.is_fatal);
                }
                _ => {}
            }
        }
        refusal.was_idle = refusal.code == "57P05";
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

/// How a session was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The server says why it ended it.
    Told(Refusal),
    /// The other end closed the connection, and says nothing.
    Closed,
    /// The connection broke; or this side cannot go on with it ([`is_of_this_side`]).
    Broke { kind: std::io::ErrorKind, words: String },
    /// What came over it is not understood here, and so nothing that follows.
    NotUnderstood { words: String },
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Told(refusal) => f.write_str(&refusal.words()),
            Self::Closed => f.write_str("the connection was closed at the other end"),
            Self::Broke { kind, words } if is_of_this_side(*kind) => {
                write!(f, "fathom cannot go on: {words}")
            }
            Self::Broke { words, .. } => write!(f, "the connection broke: {words}"),
            Self::NotUnderstood { words } => write!(f, "fathom does not understand what came: {words}"),
        }
    }
}

/// Why a query has no whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The server says so.
    Refused(Refusal),
    /// The session is lost.
    Lost(Loss),
    /// The user did not want to wait for the answer; the server did not say either that it cancelled it, where it is unanswered.
    Stopped { is_unanswered: bool },
    /// The same, and the server could not be asked to cancel it.
    Left { why: String },
    /// It took longer than it may; the server did not say either that it cancelled it, where it is unanswered.
    Late { why: String, is_unanswered: bool },
}

#[cfg(test)]
mod tests {
    use super::*;
    use postgres_protocol::message::backend::Message;

    /// `ErrorResponse` with these fields: <https://www.postgresql.org/docs/15/protocol-error-fields.html>.
    fn refusal(fields: &[(u8, &str)]) -> Refusal {
        let mut body = vec![];
        for (tag, value) in fields {
            body.push(*tag);
            body.extend_from_slice(value.as_bytes());
            body.push(0);
        }
        body.push(0);
        let mut message = vec![b'E'];
        message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        message.extend_from_slice(&body);
        match Message::parse(&mut bytes::BytesMut::from(message.as_slice())) {
            Ok(Some(Message::ErrorResponse(body))) => Refusal::of(&body),
            _ => panic!("no ErrorResponse"),
        }
    }

    /// `V` is never translated, and may be missing (`PgBouncer`, servers before 9.6): then `S` says it, unless it is in another language.
    #[test]
    fn untranslated_severity_decides_session_end() {
        let (fatal, error, panic) = ("FATAL", "ERROR", "PANIC");
        for (fields, is_fatal) in [
            (&[(b'S', fatal), (b'V', fatal)][..], true),
            (&[(b'S', "FATAAL"), (b'V', panic)], true),
            (&[(b'S', "FEHLER"), (b'V', error)], false),
            (&[(b'V', error), (b'S', fatal)], false),
            (&[(b'V', fatal), (b'S', error)], true),
            (&[(b'S', fatal)], true),
            (&[(b'S', panic)], true),
            (&[(b'S', error)], false),
            (&[], false),
        ] {
            let told =
                refusal(&[fields, &[(b'C', "57P05"), (b'M', "idle"), (b'R', "ProcessInterrupts")]].concat());
            assert_eq!((told.is_fatal, told.was_idle), (is_fatal, true), "{fields:?}");
            assert_eq!((told.words().as_str(), told.routine.as_str()), ("idle (57P05)", "ProcessInterrupts"));
        }
        assert!(!refusal(&[(b'S', fatal), (b'C', "57P01")]).was_idle);
    }
}
