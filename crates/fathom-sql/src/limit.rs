//! How long a server is waited for.

use crate::Stop;
use fathom_os::clock::mono_ns;
use std::io;
use std::time::Duration;

/// A deadline, before which the user may lose patience: whoever waits polls for at most [`Limit::PIECE`], and then checks.
#[derive(Debug, Clone)]
pub(crate) struct Limit {
    until_ns: Option<u64>,
    within: Duration,
    stop: Stop,
    heeds: Heeds,
}

/// What ends it before its time.
#[derive(Debug, Clone, Copy)]
enum Heeds {
    /// So many requests to end the run, or the end of the run.
    Requests(u32),
    /// That nothing under way is waited for any more.
    Leaving,
}

/// It is waited for no longer, because the user ended the run (or it is over, which nobody is told): no fault of the other end.
#[derive(Debug, thiserror::Error)]
#[error("you ended the run")]
pub(crate) struct Ended;

/// Whether this is not the other end's doing.
pub(crate) fn is_ended(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(inner) if inner.is::<Ended>())
}

impl Limit {
    pub(crate) const PIECE: Duration = Duration::from_millis(50);

    /// From now on.
    pub(crate) fn within(within: Duration, stop: &Stop) -> Self {
        let until_ns = mono_ns().saturating_add(u64::try_from(within.as_nanos()).unwrap_or(u64::MAX));
        Self { until_ns: Some(until_ns), within, stop: stop.clone(), heeds: Heeds::Requests(2) }
    }

    /// Until then, on the monotonic clock; `None`: as long as the user waits.
    pub(crate) fn until(until_ns: Option<u64>, stop: &Stop) -> Self {
        let within = Duration::from_nanos(until_ns.map_or(0, |until_ns| until_ns.saturating_sub(mono_ns())));
        Self { until_ns, within, stop: stop.clone(), heeds: Heeds::Requests(2) }
    }

    /// The first request to end it is heard: nothing is lost by it.
    pub(crate) fn impatient(self) -> Self {
        Self { heeds: Heeds::Requests(1), ..self }
    }

    /// It may take longer than the run: so that what is nearly there is not taken for lost.
    pub(crate) fn lingering(self) -> Self {
        Self { heeds: Heeds::Leaving, ..self }
    }

    /// An error: it is not to be waited for any longer.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.check_for("whole answer")
    }

    /// The same of what did not come.
    pub(crate) fn check_for(&self, what: &str) -> io::Result<()> {
        let is_ended = match self.heeds {
            Heeds::Requests(times) => self.stop.times() >= times || self.stop.is_over(),
            Heeds::Leaving => self.stop.is_left(),
        };
        if is_ended {
            return Err(io::Error::other(Ended));
        }
        if self.until_ns.is_some_and(|until_ns| mono_ns() > until_ns) {
            let why = format!("no {what} within {:?}", self.within);
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        Ok(())
    }
}
