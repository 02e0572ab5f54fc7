//! What the views show: kept up to date by the recording thread, read by the viewing thread, never touched by the
//! probing thread.

use fathom_core::event::Event;
use fathom_core::sample::Sample;
use fathom_core::statistics::{Batch, Statistics};
use fathom_core::strip::Strips;
use fathom_core::summary::clock_time;
use fathom_core::units::duration_compact as duration;
use jiff::Timestamp;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Events kept for the view.
pub(super) const EVENTS_KEPT: usize = 100;

/// One path as it stands.
#[derive(Debug, Clone, Default)]
pub(super) struct LiveState {
    /// Everything so far.
    pub(super) statistics: Statistics,
    /// What came since the live view was asked to begin anew, and when that was.
    pub(super) since: Option<(Timestamp, Box<Statistics>)>,
    /// The latest resolved sample.
    pub(super) last: Option<Sample>,
    /// Its last minutes and hours.
    pub(super) strips: Strips,
    /// The latest events, oldest first.
    pub(super) events: VecDeque<Event>,
    /// Where it is recorded; `None`: nowhere.
    pub(super) recording: Option<PathBuf>,
    /// When its recording, the first of several, began and the last one ended, by the monotonic clock: how long the run took,
    /// as the recording says it too.
    pub(super) recorded_ns: (Option<u64>, Option<u64>),
    /// Why recording stopped, if it did.
    pub(super) recording_error: Option<String>,
    /// Files of rows (`--csv`) that are not written any more, each with why.
    pub(super) table_errors: Vec<String>,
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

    /// What of that which is kept of this path is not whole, in words.
    pub(super) fn incomplete(&self) -> impl Iterator<Item = String> {
        let recording =
            self.recording_error.iter().map(|error| format!("the recording is incomplete: {error}"));
        recording.chain(self.table_errors.iter().cloned())
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
        self.strips.sample(sample);
    }

    /// Adds samples that were counted by who took them.
    pub(super) fn batch(&mut self, batch: &Batch) {
        self.statistics.batch(batch);
        if let Some((_, since)) = &mut self.since {
            since.batch(batch);
        }
        self.last = batch.last().copied().or(self.last);
        batch.seconds().for_each(|second| self.strips.add(&second));
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

/// True if anything was measured on any path. With `--connect` a connection that failed is a sample, too.
pub(super) fn has_begun(live: &[LiveState]) -> bool {
    live.iter().any(|state| !state.statistics.connections.is_empty() || state.statistics.samples > 0)
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
    fn reset_changes_only_displayed_figures() {
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
        assert_eq!(state.strips.of(1).seconds().len(), 11, "what was is still to be seen in time");
        state.reset(now);
        assert_eq!(state.shown().samples, 0, "a second time too");
    }
}
