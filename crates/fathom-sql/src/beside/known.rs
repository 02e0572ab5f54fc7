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
    pub(super) fn answered(&mut self, round_trip: RoundTrip) {
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
        let every_ns = every.as_nanos() as u64;
        let mut later_ns = now_ns;
        // From one answer to the next there lies the next one's own round trip too.
        let mut own_ns = self.round_trips.back().map_or(0, |newest| newest.ns);
        let fresh = self.round_trips.iter().rev().take_while(|one| {
            let is_fresh = later_ns.saturating_sub(one.at_ns) <= FRESH * every_ns + own_ns;
            (later_ns, own_ns) = (one.at_ns, one.ns);
            is_fresh
        });
        Rtt::of(&fresh.map(|one| one.ns).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::ECHO_EVERY;

    const MS: u64 = 1_000_000;

    fn known(of: &[(u64, u64)]) -> Known {
        let mut known = Known { tries: FIRST + 1, ..Known::default() };
        for &(at_ns, ns) in of {
            known.answered(RoundTrip { at_ns, ns });
        }
        known
    }

    #[test]
    fn the_path_is_what_the_last_moments_said() {
        let all: Vec<_> = (1..=20).map(|i| (i * 101 * MS, MS + i)).collect();
        let rtt = known(&all).rtt(2_020 * MS + 50 * MS, ECHO_EVERY);
        // The last 16, from the fifth on.
        let rtt = rtt.map(|rtt| (rtt.low_ns, rtt.ns, rtt.high_ns, rtt.of));
        assert_eq!(rtt, Some((MS + 5, MS + 12, MS + 20, 16)));
    }

    /// The reflector stopped answering ten seconds into a run of hours.
    #[test]
    fn a_path_that_nobody_measures_any_more_is_not_known() {
        let all: Vec<_> = (1..=20).map(|i| (i * 100 * MS, MS)).collect();
        let known = known(&all);
        assert!(known.rtt(2_100 * MS, ECHO_EVERY).is_some());
        assert_eq!(known.rtt(10_000 * MS, ECHO_EVERY), None);
        assert_eq!(known.rtt(8 * 3_600_000 * MS, ECHO_EVERY), None);
    }

    #[test]
    fn after_a_gap_what_was_before_it_does_not_count() {
        let rtt =
            known(&[(100 * MS, MS), (200 * MS, MS), (60_000 * MS, 9 * MS)]).rtt(60_050 * MS, ECHO_EVERY);
        assert_eq!(rtt, Rtt::of(&[9 * MS]));
    }

    /// A round trip that is longer than the pauses between is no gap.
    #[test]
    fn a_long_path_is_known() {
        let rtt = known(&[(2_000 * MS, 1_900 * MS), (4_000 * MS, 1_900 * MS)]).rtt(5_900 * MS, ECHO_EVERY);
        assert_eq!(rtt, Rtt::of(&[1_900 * MS, 1_900 * MS]));
    }
}
