//! What is to happen when.

use std::collections::{BTreeMap, BTreeSet};

/// What a moment is for. Each has one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A request's try times out, or its wait is over.
    Request(u64),
    /// A connection is too old, was idle for too long, or did not answer.
    Connection(u32),
    /// The pool may try again to have as many as it should.
    Pool,
    /// The recovery monitor's next check, or the end of its time.
    Recovery,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Timers {
    due: BTreeSet<(u64, Timer)>,
    at: BTreeMap<Timer, u64>,
}

impl Timers {
    pub(super) fn set(&mut self, timer: Timer, at_ns: Option<u64>) {
        if let Some(before) = self.at.remove(&timer) {
            self.due.remove(&(before, timer));
        }
        if let Some(at_ns) = at_ns {
            self.at.insert(timer, at_ns);
            self.due.insert((at_ns, timer));
        }
    }

    pub(super) fn next_ns(&self) -> Option<u64> {
        self.due.first().map(|(at, _)| *at)
    }

    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.at.contains_key(&timer)
    }

    /// Takes one that is due.
    pub(super) fn take(&mut self, now: u64) -> Option<Timer> {
        let (_, timer) = self.due.first().filter(|(at, _)| *at <= now).copied()?;
        self.set(timer, None);
        Some(timer)
    }
}
