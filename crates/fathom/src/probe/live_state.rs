//! What the views show: kept up to date by the recording thread, read by the viewing thread, never touched by the
//! probing thread.

use fathom_core::event::Event;
use fathom_core::sample::{Flags, Sample};
use fathom_core::statistics::Statistics;
use fathom_core::summary::clock_time;
use fathom_core::units::duration_compact as duration;
use jiff::Timestamp;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Seconds to an entry of each strip, and how many entries are kept: ten minutes, an hour and a half, six hours.
pub(super) const STRIPS: [(i64, usize); 3] = [(1, 600), (10, 540), (60, 360)];
/// Events kept for the view.
pub(super) const EVENTS_KEPT: usize = 100;

/// A second of a path's life, or ten, or a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Second {
    /// When it began, in seconds since the Unix epoch.
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

    fn add(&mut self, sample: &Sample) {
        self.samples += 1;
        match sample.rtt_ns {
            Some(rtt_ns) => {
                self.min_ns = self.min_ns.min(rtt_ns);
                self.max_ns = self.max_ns.max(rtt_ns);
                self.sum_ns = self.sum_ns.saturating_add(rtt_ns);
                self.late += u32::from(sample.flags.contains(Flags::ANSWERED_LATE));
            }
            None => self.unanswered += 1,
        }
    }
}

/// The last minutes or hours of a path, oldest first; times without samples are absent.
#[derive(Debug, Clone, Default)]
pub(super) struct Strip(VecDeque<Second>);

impl Strip {
    pub(super) fn seconds(&self) -> impl ExactSizeIterator<Item = Second> {
        self.0.iter().copied()
    }

    /// The entry of a moment; a late echo finds the one in which it was sent, while that is still kept.
    fn entry(&mut self, utc_s: i64, kept: usize) -> &mut Second {
        // Nearly always it is the latest one.
        if self.0.back().is_some_and(|latest| latest.utc_s == utc_s) {
            let latest = self.0.len() - 1;
            return &mut self.0[latest];
        }
        let at = match self.0.binary_search_by_key(&utc_s, |s| s.utc_s) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, Second::new(utc_s));
                if self.0.len() > kept {
                    self.0.pop_front();
                    at.saturating_sub(1)
                } else {
                    at
                }
            }
        };
        &mut self.0[at]
    }
}

/// One path as it stands.
#[derive(Debug, Clone, Default)]
pub(super) struct LiveState {
    /// Everything so far.
    pub(super) statistics: Statistics,
    /// What came since the live view was asked to begin anew, and when that was.
    pub(super) since: Option<(Timestamp, Box<Statistics>)>,
    /// The latest resolved sample.
    pub(super) last: Option<Sample>,
    /// In the order of [`STRIPS`].
    pub(super) strips: [Strip; STRIPS.len()],
    /// The latest events, oldest first.
    pub(super) events: VecDeque<Event>,
    /// Where it is recorded; `None`: nowhere.
    pub(super) recording: Option<PathBuf>,
    /// When its recording, the first of several, began and the last one ended, by the monotonic clock: how long the run took,
    /// as the recording says it too.
    pub(super) recorded_ns: (Option<u64>, Option<u64>),
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

    /// How long it was recorded; `None`: it was not, or its recording has not ended.
    pub(super) fn recorded_for_ns(&self) -> Option<u64> {
        let (began_ns, ended_ns) = self.recorded_ns;
        Some(ended_ns?.saturating_sub(began_ns?))
    }

    /// Adds a resolved sample.
    pub(super) fn sample(&mut self, sample: &Sample) {
        self.statistics.sample(sample);
        if let Some((_, since)) = &mut self.since {
            since.sample(sample);
        }
        self.last = Some(*sample);
        let utc_s = sample.sent_ns.div_euclid(1_000_000_000);
        for (strip, (step_s, kept)) in self.strips.iter_mut().zip(STRIPS) {
            strip.entry(utc_s.div_euclid(step_s) * step_s, kept).add(sample);
        }
    }

    /// The finest strip that is not finer than this many seconds.
    pub(super) fn strip(&self, step_s: i64) -> &Strip {
        let which = STRIPS.iter().position(|(step, _)| *step >= step_s).unwrap_or(STRIPS.len() - 1);
        &self.strips[which]
    }

    /// What the live view shows: all of the run, or what came since it was asked to begin anew.
    pub(super) fn shown(&self) -> &Statistics {
        self.since.as_ref().map_or(&self.statistics, |(_, since)| since)
    }

    /// Since when that is, where it is not all.
    pub(super) fn shown_since(&self) -> Option<Timestamp> {
        self.since.as_ref().map(|(at, _)| *at)
    }

    /// What the live view shows begins anew. The statistics of the run are untouched.
    pub(super) fn reset(&mut self, now: Timestamp) {
        self.since = Some((now, Box::default()));
    }

    /// Adds an event.
    pub(super) fn event(&mut self, event: &Event) {
        use fathom_core::event::EventKind::{ConnectionClosed, ConnectionOpened, StallBegan, StallEnded};
        self.statistics.event(event);
        if let Some((_, since)) = &mut self.since {
            since.event(event);
        }
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

    fn sample(s: i64, rtt_ns: i64) -> Sample {
        Sample { sent_ns: s * 1_000_000_000 + 5, rtt_ns: Some(rtt_ns), ..Sample::default() }
    }

    #[test]
    fn the_strip_keeps_ten_minutes_and_late_echoes_find_their_second() {
        let mut state = LiveState::default();
        for s in 0..1_000 {
            state.sample(&sample(s, 100));
        }
        let strip = state.strip(1);
        assert_eq!(strip.seconds().len(), STRIPS[0].1);
        assert_eq!(strip.seconds().next().unwrap().utc_s, 400);
        state.sample(&sample(990, 300));
        let second = state.strip(1).seconds().find(|s| s.utc_s == 990).unwrap();
        assert_eq!(
            (second.samples, second.min_ns, second.max_ns, second.mean_ns()),
            (2, 100, 300, Some(200))
        );
    }

    #[test]
    fn coarser_strips_go_further_back_and_each_counts_every_sample_it_keeps() {
        let mut state = LiveState::default();
        for s in -30..30_000 {
            state.sample(&sample(s, 100 + s.rem_euclid(60)));
        }
        for (step_s, kept) in STRIPS {
            let seconds: Vec<Second> = state.strip(step_s).seconds().collect();
            assert_eq!(seconds.len(), kept);
            assert_eq!(seconds[0].utc_s, 30_000 - step_s * kept as i64);
            assert!(seconds.iter().all(|s| i64::from(s.samples) == step_s && s.utc_s % step_s == 0));
        }
        let minute = state.strip(60).seconds().last().unwrap();
        assert_eq!((minute.min_ns, minute.max_ns), (100, 159));
    }

    #[test]
    fn beginning_anew_changes_what_is_shown_and_nothing_else() {
        let mut state = LiveState::default();
        for s in 0..10 {
            state.sample(&sample(s, 900));
        }
        assert_eq!((state.shown().samples, state.shown_since()), (10, None));
        let now = Timestamp::from_second(10).unwrap();
        state.reset(now);
        assert_eq!((state.shown().samples, state.shown_since()), (0, Some(now)));
        state.sample(&sample(10, 100));
        assert_eq!((state.shown().samples, state.shown().rtt.max()), (1, Some(100)));
        assert_eq!((state.statistics.samples, state.statistics.rtt.max()), (11, Some(900)));
        assert_eq!(state.strip(1).seconds().len(), 11, "what was is still to be seen in time");
        state.reset(now);
        assert_eq!(state.shown().samples, 0, "a second time too");
    }
}
