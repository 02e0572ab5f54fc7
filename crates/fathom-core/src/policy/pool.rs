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
use std::collections::VecDeque;

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
    /// What was sent on it so far.
    pub(super) asks: u64,
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
    /// Requests that wait, the oldest first.
    pub(super) waiting: VecDeque<u64>,
    /// Which places are taken.
    places: Vec<bool>,
    first_place: u32,
}

impl Pool {
    pub(super) fn new(rule: PoolRule, first_place: u32) -> Self {
        let places = vec![false; rule.max as usize];
        let (idle, waiting) = (VecDeque::new(), VecDeque::new());
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
        self.idle.retain(|idle| *idle != id);
    }

    /// Whether another connection is to be opened for those that wait.
    pub(super) fn wants_more(&self) -> bool {
        self.opening < self.waiting.len() && self.open < self.rule.max as usize
    }
}
