//! How long a server is waited for.

use crate::Stop;
use fathom_os::clock::mono_ns;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A deadline, before which the user may lose patience: whoever waits polls for at most [`Limit::PIECE`], and then checks.
#[derive(Debug, Clone)]
pub(crate) struct Limit {
    until_ns: Option<u64>,
    within: Duration,
    stop: Stop,
    heeds: Heeds,
    /// When it was last checked, and for how long whoever waits did not run.
    checked_ns: Arc<AtomicU64>,
    stood_ns: Arc<AtomicU64>,
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
    /// Who checks no more often than that did not run.
    const STOOD: Duration = Duration::from_millis(250);

    /// From now on.
    pub(crate) fn within(within: Duration, stop: &Stop) -> Self {
        let until_ns = mono_ns().saturating_add(u64::try_from(within.as_nanos()).unwrap_or(u64::MAX));
        Self::of(Some(until_ns), within, stop)
    }

    /// Until then, on the monotonic clock; `None`: as long as the user waits.
    pub(crate) fn until(until_ns: Option<u64>, stop: &Stop) -> Self {
        let within = Duration::from_nanos(until_ns.map_or(0, |until_ns| until_ns.saturating_sub(mono_ns())));
        Self::of(until_ns, within, stop)
    }

    fn of(until_ns: Option<u64>, within: Duration, stop: &Stop) -> Self {
        let (checked_ns, stood_ns) = (Arc::new(mono_ns().into()), Arc::default());
        Self { until_ns, within, stop: stop.clone(), heeds: Heeds::Requests(2), checked_ns, stood_ns }
    }

    /// The first request to end it is heard: nothing is lost by it.
    pub(crate) fn impatient(self) -> Self {
        Self { heeds: Heeds::Requests(1), ..self }
    }

    /// It may take longer than the run: so that what is nearly there is not taken for lost.
    pub(crate) fn lingering(self) -> Self {
        Self { heeds: Heeds::Leaving, ..self }
    }

    /// Whether the time is over, of which there is more by what whoever waits did not run: it is not the other end's.
    fn is_over(&self, until_ns: u64, now: u64) -> bool {
        let since_ns = now.saturating_sub(self.checked_ns.swap(now, Ordering::Relaxed));
        let stood_ns = since_ns.saturating_sub(Self::STOOD.as_nanos() as u64);
        let stood_ns = self.stood_ns.fetch_add(stood_ns, Ordering::Relaxed) + stood_ns;
        now > until_ns.saturating_add(stood_ns)
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
        if self.until_ns.is_some_and(|until_ns| self.is_over(until_ns, mono_ns())) {
            let why = format!("no {what} within {:?}", self.within);
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `fathom` was stopped for a minute while it logged in: the server was said not to answer.
    #[test]
    fn what_this_process_did_not_run_is_not_waited() {
        const S: u64 = 1_000_000_000;
        let limit = Limit::of(Some(10 * S), Duration::from_secs(10), &Stop::default());
        limit.checked_ns.store(9 * S, Ordering::Relaxed);
        let mut now = 70 * S;
        assert!(!limit.is_over(10 * S, now), "it had a second left");
        while !limit.is_over(10 * S, now) {
            now += S / 20;
        }
        // But for what a check may come late by and still run.
        assert!((71 * S - S / 4..=71 * S).contains(&now), "{now}");
    }
}
