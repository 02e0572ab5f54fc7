//! Deadlines by the timeout of the poll itself, on systems without timerfd.

use std::io;
use std::time::Duration;

/// Nothing is armed: each poll is given what remains. Windows rounds it up to its timer's step.
#[derive(Debug)]
pub(super) struct Alarm;

impl Alarm {
    #[expect(clippy::unnecessary_wraps, reason = "the sibling opens a timer, which can fail")]
    pub(super) fn new(_registry: &mio::Registry) -> io::Result<Self> {
        Ok(Self)
    }

    #[expect(
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "the sibling sets a timer, which can fail"
    )]
    pub(super) fn set(&mut self, deadline_mono_ns: Option<u64>) -> io::Result<Option<Duration>> {
        Ok(deadline_mono_ns.map(|at| Duration::from_nanos(at.saturating_sub(crate::clock::mono_ns()))))
    }

    #[expect(clippy::unused_self, reason = "the sibling notes that its timer must be set again")]
    pub(super) fn went_off(&mut self) {}
}
