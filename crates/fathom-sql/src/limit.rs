//! How long a server is waited for.

use crate::Stop;
use crate::pauses::Pauses;
use crate::stood::Clock;
use fathom_os::clock::mono_ns;
use fathom_os::pause::Running;
use std::cell::RefCell;
use std::io;
use std::time::Duration;

/// A deadline, before which the user may lose patience: whoever waits polls for at most [`Limit::PIECE`], and then checks. What this
/// process does not run meanwhile puts it off.
#[derive(Debug)]
pub(crate) struct Limit {
    began_ns: u64,
    /// `None`: as long as the user waits.
    within: Option<Duration>,
    stop: Stop,
    heeds: Heeds,
    stood: RefCell<Stood>,
}

/// What is known of this process by the thread that waits.
#[derive(Debug)]
struct Stood {
    /// `None`: nobody knows when it does not run.
    running: Option<Running>,
    pauses: Pauses,
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
    pub(crate) fn within(within: Duration, stop: &Stop, clock: &Clock) -> Self {
        Self::of(mono_ns(), Some(within), stop, clock)
    }

    /// Until then, on the monotonic clock; `None`: as long as the user waits.
    pub(crate) fn until(until_ns: Option<u64>, stop: &Stop, clock: &Clock) -> Self {
        let now = mono_ns();
        let within = until_ns.map(|until_ns| Duration::from_nanos(until_ns.saturating_sub(now)));
        Self::of(now, within, stop, clock)
    }

    fn of(began_ns: u64, within: Option<Duration>, stop: &Stop, clock: &Clock) -> Self {
        let stood = Stood { running: clock.running(), pauses: Pauses::default() }.into();
        Self { began_ns, within, stop: stop.clone(), heeds: Heeds::Requests(2), stood }
    }

    /// The first request to end it is heard: nothing is lost by it.
    pub(crate) fn impatient(self) -> Self {
        Self { heeds: Heeds::Requests(1), ..self }
    }

    /// It may take longer than the run: so that what is nearly there is not taken for lost.
    pub(crate) fn lingering(self) -> Self {
        Self { heeds: Heeds::Leaving, ..self }
    }

    /// Whether the time is over.
    fn is_over(&self, within: Duration, now: u64) -> bool {
        self.stood.borrow_mut().runs_after(self.began_ns, within, now) < now
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
        match self.within {
            Some(within) if self.is_over(within, mono_ns()) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, format!("no {what} within {within:?}")))
            }
            _ => Ok(()),
        }
    }
}

impl Stood {
    /// So long after then, as this process ran until `now`.
    fn runs_after(&mut self, since_ns: u64, time: Duration, now: u64) -> u64 {
        let pauses = self.running.as_mut().map_or(&[][..], |running| running.runs(now));
        let mut pauses = pauses.to_vec();
        // As they were noticed.
        pauses.sort_unstable();
        for (from_ns, to_ns) in pauses {
            self.pauses.add(from_ns.max(since_ns), to_ns);
        }
        self.pauses.run_after(since_ns, time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stood::Standing;

    /// `fathom` is stopped while it logs in.
    #[test]
    fn process_pause_does_not_count_as_waiting() {
        const MS: u64 = 1_000_000;
        let (standing, within) = (Standing::begin(), Duration::from_millis(500));
        let limit = Limit::within(within, &Stop::default(), &standing.clock());
        // By this clock it ran for the first moment only.
        let stood_until = limit.began_ns + 700 * MS;
        let mut now = stood_until;
        assert!(!limit.is_over(within, now));
        while !limit.is_over(within, now) {
            now += 5 * MS;
        }
        // Of the 500 ms the first moment is over.
        let waited_ms = (now - stood_until) / MS;
        assert!(waited_ms <= 510, "{waited_ms} ms");
    }
}
