//! Sleeping, on systems whose accounts of a thread are not read.

use crate::clock::mono_ns;
use std::io;
use std::time::Duration;

/// Wakes the clock's thread, at each period: that a tick was put off it sees when it wakes.
#[derive(Debug)]
pub(super) struct Alarm;

impl Alarm {
    #[expect(clippy::unnecessary_wraps, reason = "the Linux sibling opens a timer")]
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    #[expect(clippy::unused_self, reason = "the Linux sibling sets its timer")]
    pub(super) fn set(&self, _at_mono_ns: u64) {}

    #[expect(clippy::unused_self, reason = "the Linux sibling sleeps by its timer")]
    pub(super) fn sleep_until(&self, at_mono_ns: u64) {
        std::thread::sleep(Duration::from_nanos(at_mono_ns.saturating_sub(mono_ns())));
    }
}

/// Knows nothing.
pub(super) struct Accounts;

impl Accounts {
    pub(super) fn open() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the Linux sibling reads its files")]
    pub(super) fn refresh(&mut self, _now: u64, _late_ns: u64) {}

    #[expect(clippy::unused_self, reason = "the Linux sibling reads its files")]
    pub(super) fn since_refresh(&mut self, _now: u64) -> (Option<u64>, Option<u64>) {
        (None, None)
    }
}

/// Nothing either.
#[derive(Debug)]
pub(super) struct Counts;

#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) ran_ns: u64,
    pub(super) waited_ns: u64,
}

impl Counts {
    pub(super) fn open() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the Linux sibling reads its file")]
    pub(super) fn read(&self) -> Option<Counted> {
        None
    }
}
