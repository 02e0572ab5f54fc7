//! What is to be done.

use crate::Target;
use fathom_recording::Tool;
use std::path::PathBuf;
use std::time::Duration;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Rows that the server makes up, by a query that only reads.
    Rows {
        /// How many.
        rows: u64,
        /// Bytes of each.
        row_bytes: u64,
    },
    /// The user's own.
    Text {
        /// SQL.
        sql: String,
        /// It may stand in the recording.
        is_shown: bool,
    },
}

/// Where and how a run is recorded.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The directory.
    pub dir: PathBuf,
    /// What writes it.
    pub tool: Tool,
    /// The command line, without secrets.
    pub command: String,
}

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Config {
    /// The database.
    pub target: Target,
    /// What is asked.
    pub source: Source,
    /// This side works on each row for so long.
    pub think: Duration,
    /// Queries; `None`: until the time is over.
    pub count: Option<u64>,
    /// For so long.
    pub lasts: Option<Duration>,
    /// From one query's due to the next; `None`: one after the other.
    pub every: Option<Duration>,
    /// Rows of a round trip; `None`: all.
    pub fetch_size: Option<u32>,
    /// The simple protocol.
    pub simple: bool,
    /// The size of TDS packets to ask for; `None`: SQL Server's default.
    pub packet_size: Option<u16>,
    /// An echo server on the database's host: `HOST:PORT`.
    pub reflector: Option<String>,
    /// Where it is recorded.
    pub recording: Option<Recording>,
    /// Tells somebody who is there to see it.
    pub tell: fn(&str),
    /// Nothing is told but trouble.
    pub quiet: bool,
}
