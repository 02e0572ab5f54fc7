//! The pause clock as the probing thread reads it.

use fathom_core::probe::Input;
use fathom_os::assist;
use fathom_os::pause::{DEFAULT_THRESHOLD, Pause, PauseCause, PauseClock, Running};
use fathom_os::reactor::Waker;
use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

pub(super) struct Pauses {
    /// The clock's thread lives as long.
    clock: Option<PauseClock>,
    running: Running,
    ended: Receiver<Pause>,
}

impl Pauses {
    /// Starts the pause clock; each pause wakes the probing thread, so that it is recorded at once.
    pub(super) fn start(period: Duration, waker: Waker) -> io::Result<Self> {
        let (pass_on, ended) = channel();
        let tell = move |pause| {
            // Nobody receives any more once the run is over.
            let _ = pass_on.send(pause);
            let _ = waker.wake();
        };
        // `--cpu` is for the probing thread alone.
        let clock = assist::unpinned(|| PauseClock::start(period, DEFAULT_THRESHOLD.max(period), tell))?;
        Ok(Self { running: Running::new(clock.gap()), clock: Some(clock), ended })
    }

    /// The next pause that the clock has told.
    pub(super) fn next(&self) -> Option<Input<'static>> {
        let pause = self.ended.try_recv().ok()?;
        let (began_ns, ended_ns) = (pause.began_mono_ns, pause.ended_mono_ns);
        Some(Input::Paused { began_ns, ended_ns, reason: reason(&pause) })
    }

    /// The probing thread runs: the pauses that it learns of now. Ask before [`Pauses::next`]: what the clock told before is not
    /// told again.
    pub(super) fn going_on(&mut self, now: u64) -> Vec<Input<'static>> {
        let pausing = |&(began_ns, ended_ns): &(u64, u64)| Input::Pausing { began_ns, ended_ns };
        self.running.runs(now).iter().map(pausing).collect()
    }

    /// The probing thread waits for something, at most until then.
    pub(super) fn rests_until(&mut self, at: u64) {
        self.running.rests_until(at);
    }

    /// The probing thread has time.
    pub(super) fn put_off(&mut self, now: u64) {
        self.running.put_off(now);
    }

    /// Ends the clock: [`Pauses::next`] then gives what is left.
    pub(super) fn end(&mut self) {
        self.clock = None;
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
