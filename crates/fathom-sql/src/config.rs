//! What is to be done.

use crate::Target;
use fathom_core::query::{COUNT, Logins};
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

/// One of the settings that are asked in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// As [`Config::fetch_size`].
    pub fetch_size: Option<u32>,
    /// As [`Config::packet_size`].
    pub packet_size: Option<u16>,
}

impl Turn {
    /// Each of these (0 rows of a round trip: all of them) with each of those, where there are any.
    pub fn each(fetch_sizes: &[u32], packet_sizes: &[u16]) -> Vec<Self> {
        let rows: Vec<_> = fetch_sizes.iter().map(|&rows| Some(rows).filter(|rows| *rows > 0)).collect();
        let rows = if rows.is_empty() { vec![None] } else { rows };
        let packets: Vec<_> = packet_sizes.iter().copied().map(Some).collect();
        let packets = if packets.is_empty() { vec![None] } else { packets };
        let with = |fetch_size| packets.iter().map(move |&packet_size| Self { fetch_size, packet_size });
        rows.into_iter().flat_map(with).collect()
    }

    /// How often each of these is asked where nobody says it: enough for a p95 and for an interval.
    pub fn usual_count(sweep: &[Self]) -> u64 {
        let log_in_anew = sweep.len() > 1 && sweep.iter().all(|turn| turn.packet_size.is_some());
        if log_in_anew { Logins::usual_count(sweep.len()) } else { COUNT }
    }
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
    /// Queries, of each setting and on each connection; `None`: until the time is over.
    pub count: Option<u64>,
    /// For so long.
    pub lasts: Option<Duration>,
    /// A query that has no whole answer after so long, without the time that [`think`](Self::think) took, is given up; `None`: it is
    /// waited for, but where [`lasts`](Self::lasts) is over only for as long as the server says anything.
    pub timeout: Option<Duration>,
    /// So is, after this, a session that is not there, and a question of ours.
    pub connect_timeout: Duration,
    /// So many ask side by side, each as is said here: so often, and so far from one to the next.
    pub connections: u64,
    /// From one query's due to the next; `None`: one after the other.
    pub every: Option<Duration>,
    /// Rows of a round trip; `None`: all.
    pub fetch_size: Option<u32>,
    /// The simple protocol.
    pub simple: bool,
    /// The size of TDS packets to ask for; `None`: SQL Server's default.
    pub packet_size: Option<u16>,
    /// Settings that are asked in turn, each once in a round, instead of the two before; empty: these.
    pub sweep: Vec<Turn>,
    /// An echo server on the database's host: `HOST:PORT`.
    pub reflector: Option<String>,
    /// Where it is recorded.
    pub recording: Option<Recording>,
    /// Tells somebody who is there to see it.
    pub tell: fn(&str),
    /// Nothing is told but trouble.
    pub quiet: bool,
}

impl Config {
    /// Of each setting the configuration of its queries.
    pub(crate) fn each(&self) -> Vec<Self> {
        if self.sweep.is_empty() {
            return vec![self.clone()];
        }
        let one = |turn: &Turn| Self {
            fetch_size: turn.fetch_size,
            packet_size: turn.packet_size,
            sweep: vec![],
            ..self.clone()
        };
        self.sweep.iter().map(one).collect()
    }
}
