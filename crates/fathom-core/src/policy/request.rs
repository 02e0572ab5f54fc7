//! One request, from due to its one end.

use super::breaker::Permit;
use super::pool::Ticket;
use super::retry::Waits;

/// How far a try is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It waits for a connection of the pool, not longer than until then, in this place of the queue.
    Waiting(u64, Ticket),
    /// This connection, which it is to have, is asked whether it works, not longer than until then.
    Validating(u64, u32),
    /// It was sent on this connection.
    Sent(u32),
    /// It will be tried again.
    Resting,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) due_ns: u64,
    /// The caller waits no longer.
    pub(super) deadline_ns: u64,
    pub(super) stage: Stage,
    /// Tries that were begun.
    pub(super) tries: u32,
    pub(super) retries: u32,
    pub(super) waits: Waits,
    /// The first target or the fallback's.
    pub(super) target: usize,
    /// When this try wanted a connection, or was sent.
    pub(super) since_ns: u64,
    /// Something was sent of which nobody knows whether it was done.
    pub(super) maybe_done: bool,
    /// A retry was decided on and never made.
    pub(super) retry_not_made: bool,
    pub(super) permit: Option<Permit>,
}

impl Request {
    pub(super) fn new(due_ns: u64, deadline_ns: u64) -> Self {
        Self {
            due_ns,
            deadline_ns,
            stage: Stage::Resting,
            tries: 0,
            retries: 0,
            waits: Waits::default(),
            target: 0,
            since_ns: due_ns,
            maybe_done: false,
            retry_not_made: false,
            permit: None,
        }
    }
}
