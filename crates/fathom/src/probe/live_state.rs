//! What the views show: kept up to date by the recording thread, read by the viewing thread, never touched by the
//! probing thread.

use fathom_core::event::Event;
use fathom_core::sample::Sample;
use fathom_core::statistics::Statistics;
use fathom_core::summary::clock_time;
use fathom_core::units::duration_compact as duration;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Seconds of history in the strip: ten minutes.
pub(super) const STRIP_SECONDS: usize = 600;
/// Events kept for the view.
pub(super) const EVENTS_KEPT: usize = 100;

/// One second of a path's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Second {
    /// Which second since the Unix epoch.
    pub(super) utc_s: i64,
    /// Samples resolved that were sent in it.
    pub(super) samples: u32,
    /// Of those, without an intact echo.
    pub(super) unanswered: u32,
    /// Of those, late.
    pub(super) late: u32,
    /// Smallest round trip, ns; `i64::MAX` where none.
    pub(super) min_ns: i64,
    /// Largest round trip, ns; 0 where none.
    pub(super) max_ns: i64,
    /// Sum of round trips, ns.
    pub(super) sum_ns: i64,
}

impl Second {
    fn new(utc_s: i64) -> Self {
        Self { utc_s, samples: 0, unanswered: 0, late: 0, min_ns: i64::MAX, max_ns: 0, sum_ns: 0 }
    }

    /// Samples with a round trip.
    pub(super) fn answered(&self) -> u32 {
        self.samples - self.unanswered
    }

    /// Mean round trip, ns.
    pub(super) fn mean_ns(&self) -> Option<i64> {
        (self.answered() > 0).then(|| self.sum_ns / i64::from(self.answered()))
    }
}

/// One path as it stands.
#[derive(Debug, Default)]
pub(super) struct LiveState {
    /// Everything so far.
    pub(super) statistics: Statistics,
    /// The latest resolved sample.
    pub(super) last: Option<Sample>,
    /// The last minutes, second by second, oldest first; seconds without samples are absent.
    pub(super) strip: VecDeque<Second>,
    /// The latest events, oldest first.
    pub(super) events: VecDeque<Event>,
    /// Where it is recorded; `None`: nowhere.
    pub(super) recording: Option<PathBuf>,
    /// Why recording stopped, if it did.
    pub(super) recording_error: Option<String>,
    /// Connections open now.
    pub(super) open: u32,
    /// Address of the reflector in use.
    pub(super) remote: Option<String>,
    /// Whether a stall is going on (connections in it).
    pub(super) stalled: u32,
}

impl LiveState {
    /// A path's, with silences of these lengths in ns, if it is to have any.
    pub(super) fn new(idle_gaps_ns: &[u64]) -> Self {
        Self { statistics: Statistics::with_gaps(idle_gaps_ns), ..Self::default() }
    }

    /// Adds a resolved sample.
    pub(super) fn sample(&mut self, sample: &Sample) {
        self.statistics.sample(sample);
        self.last = Some(*sample);
        let utc_s = sample.sent_ns.div_euclid(1_000_000_000);
        let second = self.second(utc_s);
        second.samples += 1;
        match sample.rtt_ns {
            Some(rtt_ns) => {
                second.min_ns = second.min_ns.min(rtt_ns);
                second.max_ns = second.max_ns.max(rtt_ns);
                second.sum_ns += rtt_ns;
                second.late += u32::from(sample.flags.contains(fathom_core::sample::Flags::ANSWERED_LATE));
            }
            None => second.unanswered += 1,
        }
    }

    /// The entry of a second; a late echo finds the second it was sent in, while that is still kept.
    fn second(&mut self, utc_s: i64) -> &mut Second {
        // Nearly always it is the latest one.
        if self.strip.back().is_some_and(|latest| latest.utc_s == utc_s) {
            let latest = self.strip.len() - 1;
            return &mut self.strip[latest];
        }
        let at = match self.strip.binary_search_by_key(&utc_s, |s| s.utc_s) {
            Ok(at) => at,
            Err(at) => {
                self.strip.insert(at, Second::new(utc_s));
                if self.strip.len() > STRIP_SECONDS {
                    self.strip.pop_front();
                    at.saturating_sub(1)
                } else {
                    at
                }
            }
        };
        &mut self.strip[at]
    }

    /// Adds an event.
    pub(super) fn event(&mut self, event: &Event) {
        use fathom_core::event::EventKind::{ConnectionClosed, ConnectionOpened, StallBegan, StallEnded};
        self.statistics.event(event);
        match &event.kind {
            ConnectionOpened { remote, .. } => {
                self.open += 1;
                self.remote = Some(remote.clone());
            }
            ConnectionClosed { .. } => self.open = self.open.saturating_sub(1),
            StallBegan { .. } => self.stalled += 1,
            StallEnded { .. } => self.stalled = self.stalled.saturating_sub(1),
            _ => {}
        }
        self.events.push_back(event.clone());
        if self.events.len() > EVENTS_KEPT {
            self.events.pop_front();
        }
    }
}

impl LiveState {
    /// Since when this path has had no connection that answers, in words, where it has none now.
    pub(super) fn outage(&self, now_ns: u64) -> Option<String> {
        let outage = self.statistics.outages.current()?;
        let lasted = duration(outage.lasted_ns(now_ns) / 1_000_000_000 * 1_000_000_000);
        Some(format!("no connection since {} UTC ({lasted})", clock_time(outage.began_at)))
    }
}

/// How each path stands, shared with the view.
pub(super) type LiveStates = Arc<Mutex<Vec<LiveState>>>;

/// Locks the live states; a view that panicked leaves them as they are.
pub(super) fn lock(live: &LiveStates) -> MutexGuard<'_, Vec<LiveState>> {
    live.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strip_keeps_ten_minutes_and_late_echoes_find_their_second() {
        let mut state = LiveState::default();
        let sample = |s: i64, rtt_ns| Sample {
            sent_ns: s * 1_000_000_000 + 5,
            rtt_ns: Some(rtt_ns),
            ..Sample::default()
        };
        for s in 0..1_000 {
            state.sample(&sample(s, 100));
        }
        assert_eq!(state.strip.len(), STRIP_SECONDS);
        assert_eq!(state.strip[0].utc_s, 400);
        state.sample(&sample(990, 300));
        let second = state.strip.iter().find(|s| s.utc_s == 990).unwrap();
        assert_eq!(
            (second.samples, second.min_ns, second.max_ns, second.mean_ns()),
            (2, 100, 300, Some(200))
        );
    }
}
