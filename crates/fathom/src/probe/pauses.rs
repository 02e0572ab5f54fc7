//! The times in which this host did not run, as the probing thread needs them: to flag samples and to judge silences.

use fathom_os::pause::{DEFAULT_THRESHOLD, Gap, Pause, PauseCause, PauseClock};
use fathom_os::reactor::Waker;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Pauses remembered, to be laid against silences that end later.
const REMEMBERED: usize = 64;

pub(super) struct Pauses {
    /// Keeps the clock's thread alive.
    _clock: PauseClock,
    gap: Gap,
    told: Receiver<Pause>,
    /// Heard of, to be recorded.
    heard: VecDeque<Pause>,
    /// From, to; oldest first.
    recent: VecDeque<(u64, u64)>,
}

impl Pauses {
    /// Starts the pause clock; each pause wakes the probing thread, so that it is recorded at once.
    pub(super) fn start(period: Duration, waker: Waker) -> io::Result<Self> {
        let (tell, told) = channel();
        let clock = PauseClock::start(period, DEFAULT_THRESHOLD.max(period), move |pause| {
            // Nobody listens any more once the run is over.
            let _ = tell.send(pause);
            let _ = waker.wake();
        })?;
        Ok(Self { gap: clock.gap(), _clock: clock, told, heard: VecDeque::new(), recent: VecDeque::new() })
    }

    /// The next pause that has not been recorded.
    pub(super) fn next(&mut self) -> Option<Pause> {
        self.hear();
        self.heard.pop_front()
    }

    fn hear(&mut self) {
        while let Ok(pause) = self.told.try_recv() {
            self.heard.push_back(pause);
            self.recent.push_back((pause.began_mono_ns, pause.ended_mono_ns));
            if self.recent.len() > REMEMBERED {
                self.recent.pop_front();
            }
        }
    }

    /// A pause that ends now and that the clock has not told; what it has told is among the recent ones.
    fn untold(&mut self, now: u64) -> Option<(u64, u64)> {
        // In this order: a clock that is punctual again has told before.
        let gap = self.gap.now(now);
        self.hear();
        gap.filter(|(began, _)| self.recent.back().is_none_or(|(_, ended)| ended <= began))
    }

    /// The latest pause up to now, one included that the clock has not come to tell.
    pub(super) fn latest(&mut self, now: u64) -> Option<(u64, u64)> {
        self.untold(now).or_else(|| self.recent.back().copied())
    }

    /// For how long this host did not run between two moments.
    pub(super) fn within(&mut self, from: u64, to: u64) -> u64 {
        let untold = self.untold(to);
        let all = self.recent.iter().copied().chain(untold);
        all.map(|(began, ended)| ended.min(to).saturating_sub(began.max(from))).sum()
    }
}

/// The word for the reason in recordings; `None` where the host's accounts do not say.
pub(super) fn reason(pause: &Pause) -> Option<String> {
    match pause.cause() {
        PauseCause::Stopped => Some("stopped".to_owned()),
        PauseCause::HostScheduling => Some("host_scheduling".to_owned()),
        PauseCause::Steal => Some("steal".to_owned()),
        PauseCause::Unknown => None,
    }
}
