//! What is known of the path by the last round trips beside the queries.

use fathom_core::query::{Rtt, Span};
use std::collections::VecDeque;
use std::time::Duration;

/// What is known of the path is what the last so many said.
const KEPT: usize = 16;
/// Before the first query.
pub(super) const FIRST: usize = 5;
/// So many of the longest are kept while a query runs: one that is shorter than as many others is not heeded.
const SLOWEST: usize = 16;
/// So many in a row tell that the path has become another.
const CHANGED: usize = 2;
/// See [`since_changed`].
const RARE: u64 = 120;
/// Of so many it is sure.
const SURE: u32 = 5;
/// None of so long was shorter than the least: as long as Linux keeps it (`tcp_min_rtt_wlen`, 300 s).
const LEAST_NS: u64 = 300_000_000_000;
/// The newest is of the path as it is for so many times as long as from one to the next.
const FRESH: u64 = 4;

/// A round trip, and when its answer came.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundTrip {
    pub(super) at_ns: u64,
    pub(super) ns: u64,
}

/// What the connections that ask share of it.
#[derive(Default)]
pub(super) struct Known {
    pub(super) round_trips: VecDeque<RoundTrip>,
    /// Those than which none that came later was shorter.
    least: VecDeque<RoundTrip>,
    pub(super) tries: usize,
    pub(super) failed: u64,
    /// The server lets nobody in who would measure.
    pub(super) is_refused: bool,
    /// When something of the other end came last, a refusal too; 0: nothing has.
    pub(super) heard_ns: u64,
    pub(super) is_over: bool,
    /// One is on the way since then.
    pub(super) since_ns: Option<u64>,
    /// The longest since each connection that asks last wanted to know, answered or not.
    pub(super) slowest: Vec<Vec<Span>>,
    /// Why the latest that came to nothing did.
    pub(super) why: Option<String>,
}

impl Known {
    /// Whether the first are still to come.
    pub(super) fn is_awaited(&self) -> bool {
        self.tries < FIRST && !self.is_refused
    }

    /// Takes one.
    pub(super) fn answered(&mut self, round_trip: RoundTrip, every: Duration) {
        if !self
            .round_trips
            .back()
            .is_none_or(|last| follows(last.at_ns, round_trip.at_ns, round_trip.ns, every))
        {
            self.least.clear();
        }
        while self.least.pop_back_if(|one| one.ns >= round_trip.ns).is_some() {}
        self.least.push_back(round_trip);
        while self.least.pop_front_if(|one| one.at_ns.saturating_add(LEAST_NS) < round_trip.at_ns).is_some() {
        }
        self.round_trips.push_back(round_trip);
        // The first of a run finds nothing warm.
        while self.round_trips.len() > KEPT || (self.tries == FIRST && self.round_trips.len() == FIRST) {
            self.round_trips.pop_front();
        }
    }

    /// Takes one that held so long, whatever came of it.
    pub(super) fn held(&mut self, span: Span) {
        for slowest in &mut self.slowest {
            slowest.push(span);
            if slowest.len() > SLOWEST {
                slowest.sort_by_key(|one| std::cmp::Reverse(one.ns()));
                slowest.truncate(SLOWEST);
            }
        }
    }

    /// The path's round trip now, by those that came in one after the other until now: what came before a gap, or where none
    /// comes any more, is of a path that was.
    pub(super) fn rtt(&self, now_ns: u64, every: Duration) -> Option<Rtt> {
        let mut later_ns = now_ns;
        let mut own_ns = self.round_trips.back().map_or(0, |newest| newest.ns);
        let fresh = self.round_trips.iter().rev().take_while(|one| {
            let is_fresh = follows(one.at_ns, later_ns, own_ns, every);
            (later_ns, own_ns) = (one.at_ns, one.ns);
            is_fresh
        });
        let newest_first: Vec<u64> = fresh.map(|one| one.ns).collect();
        let rtt = Rtt::of(&newest_first)?;
        let next = rtt.next(self.least.front().map_or(rtt.low_ns, |one| one.ns));
        // It may be any of those; usual is what it has become. Whether one was held up is not judged by what a few say that were slow.
        let changed = since_changed(&newest_first).and_then(|n| Rtt::of(&newest_first[..n]));
        Some(changed.map_or(next, |since| {
            let is_sure = since.of >= SURE;
            let deviation_ns =
                if is_sure { since.deviation_ns } else { since.deviation_ns.max(next.deviation_ns) };
            let well_ns = if is_sure { since.ns } else { since.ns.min(next.ns) };
            Rtt { ns: since.ns, well_ns, mean_ns: since.mean_ns, deviation_ns, of: since.of, ..next }
        }))
    }
}

/// How many of the newest are of what the path has become, if it has become another: all of them are longer than all before, or shorter. k
/// of n that are alike are so by chance in 2 of (n over k) cases: no more than one in sixty (so it is for two of 16).
fn since_changed(newest_first: &[u64]) -> Option<usize> {
    let total = newest_first.len() as u64;
    let is_rare = |n: &usize| (0..*n as u64).fold(1, |ways, i| ways * (total - i) / (i + 1)) >= RARE;
    let is_one = |&n: &usize| {
        let (since, before) = newest_first.split_at(n);
        let are_longer = |these: &[u64], those: &[u64]| these.iter().min() > those.iter().max();
        are_longer(since, before) || are_longer(before, since)
    };
    (CHANGED..=newest_first.len() / 2).filter(is_rare).find(is_one)
}

/// Whether no gap lies between an answer and a later one. From one to the next there lies the next one's own round trip too.
fn follows(at_ns: u64, later_ns: u64, own_ns: u64, every: Duration) -> bool {
    later_ns.saturating_sub(at_ns) <= FRESH * every.as_nanos() as u64 + own_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::ECHO_EVERY;

    const MS: u64 = 1_000_000;

    fn known(of: &[(u64, u64)]) -> Known {
        let mut known = Known { tries: FIRST + 1, ..Known::default() };
        for &(at_ns, ns) in of {
            known.answered(RoundTrip { at_ns, ns }, ECHO_EVERY);
        }
        known
    }

    #[test]
    fn the_path_is_what_the_last_moments_said() {
        let all: Vec<_> = (1..=20).map(|i| (i * 101 * MS, MS + i * 7 % 20)).collect();
        let rtt = known(&all).rtt(2_020 * MS + 50 * MS, ECHO_EVERY);
        // The last 16, from the fifth on, are 0 to 19 without four; a quarter of what lies between either end and the median is beyond it.
        let rtt = rtt.map(|rtt| (rtt.low_ns, rtt.ns, rtt.high_ns, rtt.of));
        assert_eq!(rtt, Some((MS - 2, MS + 10, MS + 21, 16)));
    }

    /// The reflector stopped answering ten seconds into a run of hours.
    #[test]
    fn rtt_is_unknown_after_measurements_stop() {
        let all: Vec<_> = (1..=20).map(|i| (i * 100 * MS, MS)).collect();
        let known = known(&all);
        assert!(known.rtt(2_100 * MS, ECHO_EVERY).is_some());
        assert_eq!(known.rtt(10_000 * MS, ECHO_EVERY), None);
        assert_eq!(known.rtt(8 * 3_600_000 * MS, ECHO_EVERY), None);
    }

    #[test]
    fn samples_before_a_gap_are_ignored() {
        let rtt =
            known(&[(100 * MS, MS), (200 * MS, MS), (60_000 * MS, 9 * MS)]).rtt(60_050 * MS, ECHO_EVERY);
        let alone = Rtt::of(&[9 * MS]).map(|rtt| rtt.next(9 * MS));
        assert_eq!((rtt, rtt.map(|rtt| rtt.low_ns)), (alone, Some(0)));
    }

    /// A path whose round trips vary: each query's own was shorter than all of the last 16 once in 17 times (a stranger).
    #[test]
    fn minimum_rtt_spans_minutes_without_gap() {
        let least = |gap: u64, later: u64| {
            let one_ms = (100 * MS, MS);
            let others = (2..=40).map(|i| ((i * 100 + gap + if i > 20 { later } else { 0 }) * MS, 5 * MS));
            let all: Vec<_> = std::iter::once(one_ms).chain(others).collect();
            let now_ns = all.last().unwrap().0;
            known(&all).rtt(now_ns, ECHO_EVERY).map(|rtt| rtt.low_ns / MS)
        };
        assert_eq!((least(0, 0), least(0, 2_000)), (Some(1), Some(5)));
        // Five minutes later it is of a path that was.
        let often = (0..3_050).map(|i| (i * 100 * MS, if i == 0 { MS } else { 5 * MS }));
        let rtt = known(&often.collect::<Vec<_>>()).rtt(304_900 * MS, ECHO_EVERY);
        assert_eq!(rtt.map(|rtt| rtt.low_ns), Some(5 * MS));
    }

    /// A path that has become slower: until half of 16 were, it was a server's (a stranger). One that was slow is none.
    #[test]
    fn two_slow_samples_shift_usual_rtt() {
        let usual = |slow: &[u64]| {
            let all: Vec<u64> =
                [2, 3, 2, 4, 2, 3, 2, 2, 3, 2, 2, 3, 2, 4].iter().chain(slow).copied().collect();
            let at = |(i, &ms): (usize, &u64)| ((i as u64 * 100 + 1_000) * MS, ms * MS);
            let all: Vec<_> = all.iter().enumerate().map(at).collect();
            let rtt = known(&all).rtt(all.last().unwrap().0, ECHO_EVERY).unwrap();
            // By which end it is known: whichever it may be is so as before.
            assert!(rtt.low_ns <= 2 * MS && rtt.high_ns >= rtt.ns, "{rtt:?}");
            // How much they vary is not known by two.
            assert!(slow.is_empty() || rtt.of >= SURE || rtt.deviation_ns > MS, "{rtt:?}");
            [rtt.ns / MS, rtt.well_ns / MS]
        };
        assert_eq!(
            [usual(&[]), usual(&[27]), usual(&[27, 26]), usual(&[27, 26, 28])],
            [[2, 2], [2, 2], [26, 2], [27, 3]]
        );
        assert_eq!(usual(&[27, 26, 28, 27, 26]), [27, 27]);
        // And again another.
        assert_eq!([usual(&[27, 26, 27, 28, 1, 1]), usual(&[27, 2, 26])], [[1, 1], [2, 2]]);
        // Of few, two are soon beyond all others by chance.
        let few = known(&[(100 * MS, 2 * MS), (200 * MS, 3 * MS), (300 * MS, 4 * MS), (400 * MS, 5 * MS)]);
        assert_eq!(few.rtt(400 * MS, ECHO_EVERY).map(|rtt| (rtt.ns, rtt.of)), Some((3 * MS, 4)));
    }

    /// A round trip that is longer than the pauses between is no gap.
    #[test]
    fn a_long_path_is_known() {
        let rtt = known(&[(2_000 * MS, 1_900 * MS), (4_000 * MS, 1_900 * MS)]).rtt(5_900 * MS, ECHO_EVERY);
        assert_eq!(rtt, Rtt::of(&[1_900 * MS, 1_900 * MS]).map(|rtt| rtt.next(1_900 * MS)));
    }
}
