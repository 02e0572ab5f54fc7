//! The pause clock as the probing thread reads it.

use fathom_core::probe::Input;
use fathom_os::pause::{DEFAULT_THRESHOLD, Gap, Pause, PauseCause, PauseClock};
use fathom_os::reactor::Waker;
use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

pub(super) struct Pauses {
    /// Keeps the clock's thread alive.
    _clock: PauseClock,
    gap: Gap,
    ended: Receiver<Pause>,
}

impl Pauses {
    /// Starts the pause clock; each pause wakes the probing thread, so that it is recorded at once.
    pub(super) fn start(period: Duration, waker: Waker) -> io::Result<Self> {
        let (pass_on, ended) = channel();
        let clock = PauseClock::start(period, DEFAULT_THRESHOLD.max(period), move |pause| {
            // Nobody receives any more once the run is over.
            let _ = pass_on.send(pause);
            let _ = waker.wake();
        })?;
        Ok(Self { gap: clock.gap(), _clock: clock, ended })
    }

    /// The next pause that the clock has told.
    pub(super) fn next(&self) -> Option<Input<'static>> {
        let pause = self.ended.try_recv().ok()?;
        let (began_ns, ended_ns) = (pause.began_mono_ns, pause.ended_mono_ns);
        Some(Input::Paused { began_ns, ended_ns, reason: reason(&pause) })
    }

    /// A pause that ends now and that the clock has not come to tell. Ask before [`Pauses::next`]: a clock that is
    /// punctual again has told before. Where there is none, that this thread asks shows that the process runs.
    pub(super) fn going_on(&self, now: u64) -> Option<Input<'static>> {
        let Some((began_ns, ended_ns)) = self.gap.now(now) else {
            self.gap.ran(now);
            return None;
        };
        Some(Input::Pausing { began_ns, ended_ns })
    }
}

/// The name of the reason in recordings; `None` where the host's accounts do not say.
fn reason(pause: &Pause) -> Option<String> {
    match pause.cause() {
        PauseCause::Stopped => Some("stopped".to_owned()),
        PauseCause::HostScheduling => Some("host_scheduling".to_owned()),
        PauseCause::Steal => Some("steal".to_owned()),
        PauseCause::Unknown => None,
    }
}
