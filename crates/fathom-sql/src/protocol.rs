//! What a run needs of a database's protocol: `postgres`, `mysql` and `tds` give it, and nothing else here knows one.

use crate::channel::Channel;
use crate::error::Refusal;
use crate::login::Login;
use crate::{Config, Error};
use fathom_core::query::{Counted, ServerState};
use serde_json::Value;
use std::io;

/// What of an answer was read.
pub(crate) enum Step {
    /// So many rows; one, where each is worked on.
    Rows(u64),
    /// So many of the rows before were messages of a copy, in which the server counts so many rows: a header, and an end, are none.
    Counted { messages: u64, rows: u64 },
    /// The server says that the query failed; nothing more of its answer need come.
    Refused { refusal: Refusal, is_over: bool },
    /// What is to be sent, and answered: another turn.
    Turn(Vec<u8>),
    /// What is to be sent, and is nobody's turn.
    Also(Vec<u8>),
    /// The answer is whole.
    Over,
}

/// A session that waits for a query, or answers one.
pub(crate) trait Protocol: Send {
    fn channel(&mut self) -> &mut Channel;

    /// The whole query, as it goes to the server at once.
    fn request(&mut self, sql: &str, config: &Config) -> io::Result<Vec<u8>>;

    /// The next of what lies in the channel's inbox; `None`: more bytes are needed.
    fn step(&mut self, config: &Config) -> io::Result<Option<Step>>;

    /// Asks the server to end the query: by what is to be sent on this connection, or on one of its own. `None`: there is no way.
    fn cancel(&mut self, login: &Login) -> io::Result<Option<Vec<u8>>>;

    /// Why the server could not be asked on a connection of its own, where that is known.
    fn unasked(&self) -> Option<&Error> {
        None
    }

    /// What ends a query whose answer was whole, where something must; it is answered by [`Step::Over`].
    fn after(&mut self, config: &Config) -> Option<Vec<u8>>;

    /// Asks a question of ours whose answer is one row of texts; empty: no row.
    fn ask(&mut self, sql: &str, login: &Login) -> Result<Vec<Option<String>>, Error>;

    /// Asks the question of a watch.
    fn look(&mut self, watch: &Watch, login: &Login) -> Result<Vec<Option<String>>, Error> {
        self.ask(&watch.sql, login)
    }

    /// Whether the session waits for a question: not where the answer to one was not waited for, which would be taken for the next one's.
    fn is_ready(&self) -> bool;

    /// How another session can see what the server does for this one.
    fn watch(&mut self, login: &Login) -> Result<Watch, Error>;

    /// For how long the server had done, by its own clock, what this answer to [`Protocol::watch`]'s question says, when it took the
    /// question up; `None`: it does not tell.
    fn lasted(&self, _answer: &[Option<String>]) -> Option<Lasted> {
        None
    }

    /// A query for so many rows, which only reads.
    fn rows(&self, rows: u64, row_bytes: u64) -> String;

    /// What to do about this query, which failed so.
    fn remedy(&self, refusal: &Refusal, sql: &str, config: &Config) -> &'static str;

    /// What the login came to.
    fn facts(&mut self) -> Facts;
}

/// For how long a server had done something, by its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lasted {
    pub(crate) ns: i64,
    /// It tells no finer than by so much.
    pub(crate) within_ns: u64,
    /// It began when the last request was over.
    pub(crate) is_rest: bool,
}

/// A question to the server, and what its answer says.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(crate) sql: String,
    /// What is to stand for `$1` there: the question is prepared once, and asked of many. `None`: it has none.
    pub(crate) of: Option<String>,
    /// This session differs from the one that the login named: a pooler or balancer answers with it.
    pub(crate) is_anothers: bool,
    /// Of an answer that has a row.
    pub(crate) read: fn(Vec<Option<String>>) -> Result<Seen, Error>,
    /// What it means that there is none: where the server had not listed the session yet, and where it had.
    pub(crate) unlisted: String,
    pub(crate) gone: String,
    /// Who may not ask it is told by this code; and what lets him, as the server wants it to be written.
    pub(crate) grant: Option<(&'static str, String)>,
    /// What the server has counted for the session; `None`: servers of its kind count nothing.
    pub(crate) waits: Option<Waits>,
}

/// What the server has counted; `None`: it does not show the session.
pub(crate) type Shown = Option<Counted>;

/// The same of waits for path or client.
#[derive(Clone)]
pub(crate) struct Waits {
    pub(crate) sql: String,
    pub(crate) read: fn(Vec<Option<String>>) -> Result<Shown, Error>,
    /// Why it may not.
    pub(crate) unseen: &'static str,
}

/// What the server does, and what it waits for, where it waits for anything.
pub(crate) type Seen = (ServerState, Option<String>);

/// What is known of a session, besides its queries.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Facts {
    /// What the server says it is.
    pub(crate) version: Option<String>,
    pub(crate) encrypted: bool,
    /// The database, where the server chose it.
    pub(crate) database: Option<String>,
    /// Sizes of packets, asked, granted and seen; null: the protocol has none.
    pub(crate) packets: Value,
    /// What the user should know of the login.
    pub(crate) notes: Vec<String>,
}
