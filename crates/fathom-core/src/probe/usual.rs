//! What round trips of a path usually take, and so from when on a silence is a stall.
//!
//! Round trips that a stall held up say how long the stall was and nothing about the path: learned from, they would
//! hide the next one. A path that has become slower for good shows itself in another way: nearly every round trip is
//! held up, by one short stall after another. Then those are the usual ones.

use crate::histogram::Histogram;
use crate::stall;
use std::collections::VecDeque;

/// The window is this many slices...
const SLICES: usize = 10;
/// ...of a minute at the least, ten minutes in all...
const SLICE_NS: u64 = 60_000_000_000;
/// ...and longer where a minute has fewer round trips than a percentile of the window needs: 10 x 30 are the 299 that
/// p99 needs (see [`crate::histogram::supports`]).
const SLICE_COUNT: u64 = 30;
/// Fewer round trips than this say nothing about a path.
const FEW: u64 = 10;
/// A path has changed when of so many round trips...
const LATEST: usize = 32;
/// ...so many were held up...
const HELD_UP: usize = 24;
/// ...by this many stalls, one after another: a single one holds up any number of samples and connections.
const STALLS: usize = 8;
/// The percentile is computed anew when there are this many more round trips (a part of those counted), since it is
/// not free.
const RECOUNT_PART: u64 = 16;

/// The window over a path's round trips.
#[derive(Debug, Default)]
pub(super) struct Usual {
    slices: VecDeque<Histogram>,
    slice_began_ns: u64,
    /// Of the latest round trips: how long, and which stall held it up.
    latest: VecDeque<(i64, Option<u64>)>,
    /// Stalls of the path that did not overlap.
    stalls: u64,
    stalled_until_ns: u64,
    counted: u64,
    recount_at: u64,
    p99_ns: Option<u64>,
}

impl Usual {
    /// A round trip ended at `now_ns`. `held_up`: its sample waited in a stall that is over.
    pub(super) fn add(&mut self, now_ns: u64, rtt_ns: i64, held_up: bool) {
        let stall = held_up.then_some(self.stalls);
        if self.latest.len() == LATEST {
            self.latest.pop_front();
        }
        self.latest.push_back((rtt_ns, stall));
        if held_up {
            return self.see_whether_it_changed(now_ns);
        }
        self.turn_slices(now_ns);
        if let Some(slice) = self.slices.back_mut() {
            slice.record(rtt_ns);
            self.counted += 1;
        }
    }

    /// A stall of one of the path's connections is over.
    pub(super) fn stall_ended(&mut self, began_ns: u64, ended_ns: u64) {
        if began_ns >= self.stalled_until_ns {
            self.stalls += 1;
        }
        self.stalled_until_ns = self.stalled_until_ns.max(ended_ns);
    }

    /// The silence that counts as a stall.
    pub(super) fn threshold_ns(&self) -> u64 {
        stall::threshold_ns(self.p99_ns)
    }

    /// The 99th percentile of the window; the largest round trip, while there are too few for it; `None`: there are
    /// too few for anything.
    pub(super) fn p99_ns(&self) -> Option<u64> {
        self.p99_ns
    }

    /// Computes the percentile anew where enough has come since. Once a second is often enough.
    pub(super) fn refresh(&mut self) {
        if self.counted < self.recount_at {
            return;
        }
        let mut all = Histogram::default();
        self.slices.iter().for_each(|slice| all.merge(slice));
        self.recount_at = self.counted + (all.count() / RECOUNT_PART).max(1);
        let largest = all.max().filter(|_| all.count() >= FEW);
        self.p99_ns = all.supported_quantile(0.99).or(largest);
    }

    fn turn_slices(&mut self, now_ns: u64) {
        let full = self.slices.back().is_none_or(|slice| {
            now_ns.saturating_sub(self.slice_began_ns) >= SLICE_NS && slice.count() >= SLICE_COUNT
        });
        if full {
            self.slice_began_ns = now_ns;
            self.slices.push_back(Histogram::default());
            if self.slices.len() > SLICES {
                self.slices.pop_front();
            }
        }
    }

    fn see_whether_it_changed(&mut self, now_ns: u64) {
        let stalls: Vec<u64> = self.latest.iter().filter_map(|(_, stall)| *stall).collect();
        let distinct = stalls.windows(2).filter(|pair| pair[0] != pair[1]).count() + 1;
        if stalls.len() < HELD_UP || distinct < STALLS {
            return;
        }
        let mut slice = Histogram::default();
        let latest = self.latest.drain(..).filter(|(_, stall)| stall.is_some());
        latest.for_each(|(rtt_ns, _)| slice.record(rtt_ns));
        self.counted += slice.count();
        self.slices = VecDeque::from([slice]);
        self.slice_began_ns = now_ns;
        self.recount_at = 0;
        self.refresh();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const S: u64 = 1_000 * MS;

    fn steady(usual: &mut Usual, from_ns: u64, every_ns: u64, rtt_ns: u64, count: u64) -> u64 {
        for i in 0..count {
            usual.add(from_ns + i * every_ns, rtt_ns as i64, false);
            usual.refresh();
        }
        from_ns + count * every_ns
    }

    /// Late echoes of a stall come back: samples were sent every so often in it.
    fn stall(usual: &mut Usual, from_ns: u64, duration_ns: u64, every_ns: u64) -> u64 {
        let to_ns = from_ns + duration_ns;
        usual.stall_ended(from_ns, to_ns);
        for sent in (from_ns..to_ns).step_by(every_ns as usize) {
            usual.add(to_ns, (to_ns - sent) as i64, true);
        }
        usual.refresh();
        to_ns
    }

    #[test]
    fn the_echoes_of_a_stall_do_not_hide_the_next() {
        for every in [S, 50 * MS, 5 * MS] {
            let mut usual = Usual::default();
            let mut now = steady(&mut usual, 0, every, MS, 60 * S / every);
            for _ in 0..5 {
                now = stall(&mut usual, now, 5 * S, every);
                assert_eq!(usual.threshold_ns(), stall::FLOOR_NS, "every {every} ns");
                now = steady(&mut usual, now, every, MS, 2 * S / every);
            }
            let now = stall(&mut usual, now, 30 * S, every);
            steady(&mut usual, now, every, MS, 1);
            assert_eq!(usual.threshold_ns(), stall::FLOOR_NS, "every {every} ns");
        }
    }

    #[test]
    fn a_freeze_of_many_connections_is_one_stall() {
        let mut usual = Usual::default();
        let now = steady(&mut usual, 0, 10 * MS, MS, 1_000);
        for _ in 0..100 {
            // Each connection's own, all at the same time, each with one sample.
            usual.stall_ended(now, now + 5 * S);
            usual.add(now + 5 * S, (5 * S) as i64, true);
        }
        usual.refresh();
        assert_eq!(usual.threshold_ns(), stall::FLOOR_NS);
    }

    #[test]
    fn a_path_that_became_slower_for_good_is_usual_after_some_round_trips() {
        let mut usual = Usual::default();
        let mut now = steady(&mut usual, 0, S, 100 * MS, 600);
        assert_eq!(usual.threshold_ns(), 400 * MS);
        // At ten times the round trip every sample is a short stall of its own.
        let mut stalls = 0;
        while usual.threshold_ns() < S && stalls < 1_000 {
            usual.stall_ended(now, now + S - 1);
            usual.add(now + S - 1, S as i64, true);
            now += S;
            stalls += 1;
        }
        assert!(stalls < 40, "{stalls} stalls before it was usual");
        assert!((3_900 * MS..4_100 * MS).contains(&usual.threshold_ns()), "{}", usual.threshold_ns());
    }

    #[test]
    fn a_path_that_became_faster_is_usual_when_the_window_has_passed() {
        let mut usual = Usual::default();
        let now = steady(&mut usual, 0, S, 500 * MS, 600);
        assert_eq!(usual.threshold_ns(), 2_000 * MS);
        steady(&mut usual, now, S, 100 * MS, 11 * 60);
        assert_eq!(usual.threshold_ns(), 400 * MS);
    }
}
