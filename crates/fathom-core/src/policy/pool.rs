//! The connections to one target: how many there are, which one is next, and who waits for one.
//!
//! ```text
//!              connected              a request takes it
//!     opening -----------> idle ------------------------------> busy
//!        |                 |  ^   ^                              |  |
//!        |                 |  |   +--------- answered -----------+  | no answer in time, or lost:
//!        |                 v  | answered                            v closed
//!        |              checking: idle for long, or a check is due
//!        v                 |
//!      closed <------------+ no answer; or idle: too old, idle for too long
//! ```

use super::settings::{Order, PoolRule};
use std::collections::{BTreeMap, VecDeque};

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Opening,
    /// Since when nobody has needed it.
    Idle {
        since_ns: u64,
    },
    /// It was asked whether it works, for a request or because it was time.
    Checking {
        ask: u64,
        request: Option<u64>,
        since_ns: u64,
    },
    Busy {
        ask: u64,
        request: u64,
    },
}

/// A connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Connection {
    pub(super) target: usize,
    pub(super) place: u32,
    pub(super) state: State,
    /// No request is sent on it from then on.
    pub(super) retire_ns: Option<u64>,
    /// When it was last known to work.
    pub(super) worked_ns: u64,
    /// It has answered something.
    pub(super) has_answered: bool,
    /// What was sent on it so far.
    pub(super) asks: u64,
}

/// A place in the queue for a connection.
pub(super) type Ticket = i64;

/// Requests that wait for a connection, the oldest first. Each may leave at any time, at the cost of a search: in an outage a
/// hundred thousand wait, and all of them leave.
#[derive(Debug, Clone, Default)]
struct Queue(BTreeMap<Ticket, u64>);

impl Queue {
    fn take(&mut self, request: u64, first: bool) -> Ticket {
        let ticket = if first {
            self.0.first_key_value().map_or(0, |(ticket, _)| ticket - 1)
        } else {
            self.0.last_key_value().map_or(0, |(ticket, _)| ticket + 1)
        };
        self.0.insert(ticket, request);
        ticket
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) rule: PoolRule,
    /// Those that are not idle are here too.
    pub(super) open: usize,
    pub(super) opening: usize,
    /// In the order in which they became idle.
    pub(super) idle: VecDeque<u32>,
    waiting: Queue,
    /// Which places are taken.
    places: Vec<bool>,
    first_place: u32,
}

impl Pool {
    pub(super) fn new(rule: PoolRule, first_place: u32) -> Self {
        let places = vec![false; rule.max as usize];
        let (idle, waiting) = (VecDeque::new(), Queue::default());
        Self { rule, open: 0, opening: 0, idle, waiting, places, first_place }
    }

    /// A place for a connection that is to be opened; `None`: there are as many as there may be.
    pub(super) fn take_place(&mut self) -> Option<u32> {
        let free = self.places.iter().position(|taken| !taken)?;
        self.places[free] = true;
        (self.open, self.opening) = (self.open + 1, self.opening + 1);
        Some(self.first_place + free as u32)
    }

    /// A connection has gone.
    pub(super) fn gone(&mut self, id: u32, connection: &Connection) {
        self.places[(connection.place - self.first_place) as usize] = false;
        self.open -= 1;
        match connection.state {
            State::Opening => self.opening -= 1,
            State::Idle { .. } => self.not_idle(id),
            State::Checking { .. } | State::Busy { .. } => {}
        }
    }

    /// The idle connection that is next.
    pub(super) fn next_idle(&self) -> Option<u32> {
        match self.rule.order {
            Order::Fifo => self.idle.front().copied(),
            Order::Lifo => self.idle.back().copied(),
        }
    }

    pub(super) fn not_idle(&mut self, id: u32) {
        // Most leave at the end that `next_idle` names: there may be thousands.
        if self.idle.back() == Some(&id) {
            self.idle.pop_back();
        } else if let Some(at) = self.idle.iter().position(|idle| *idle == id) {
            self.idle.remove(at);
        }
    }

    /// A request waits from here on, behind all others or before them. Its ticket, by which it leaves.
    pub(super) fn wait(&mut self, request: u64, first: bool) -> Ticket {
        self.waiting.take(request, first)
    }

    pub(super) fn leave(&mut self, ticket: Ticket) {
        self.waiting.0.remove(&ticket);
    }

    /// The request that waited for longest.
    pub(super) fn next_waiting(&self) -> Option<u64> {
        self.waiting.0.first_key_value().map(|(_, request)| *request)
    }

    /// Whether another connection is to be opened for those that wait.
    pub(super) fn wants_more(&self) -> bool {
        self.opening < self.waiting.0.len() && self.open < self.rule.max as usize
    }
}
