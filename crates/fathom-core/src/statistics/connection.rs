//! The life of a connection, as far as it is kept.

use crate::cause::ClosingCause;
use jiff::Timestamp;

/// Closed connections that keep their own line.
pub const CLOSED_KEPT: usize = 1_000;

/// The life of one connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    /// When it was established; `None` where the recording lost that event.
    pub opened_at: Option<Timestamp>,
    /// When it ended; `None`: it has not, or nobody saw it.
    pub closed_at: Option<Timestamp>,
    /// From established to closed, or to the last sample seen, in ns.
    pub age_ns: Option<u64>,
    /// Samples resolved on it.
    pub samples: u64,
    /// What ended it.
    pub cause: Option<ClosingCause>,
    /// What the evidence says about why.
    pub verdict: Option<String>,
    /// The system's error number at the end.
    pub errno: Option<i32>,
}

impl Connection {
    /// One of which nothing is known yet.
    pub(super) fn unseen() -> Self {
        Self {
            opened_at: None,
            closed_at: None,
            age_ns: None,
            samples: 0,
            cause: None,
            verdict: None,
            errno: None,
        }
    }
}
