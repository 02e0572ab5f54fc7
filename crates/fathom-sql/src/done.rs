//! Since when a server has been done with a request, as looks at it say while it is answered, and one that is asked for afterwards.

use crate::looks::Look;
use fathom_core::query::{Served, ServerState, Since};

/// Since when a server has been done with the latest request, as looks say.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Done {
    pub(crate) requested_ns: u64,
    pub(crate) least_rtt_ns: u64,
    /// A usual one.
    pub(crate) rtt_ns: u64,
    pub(crate) most_rtt_ns: u64,
    /// The look that was asked for afterwards took so long.
    pub(crate) look_ns: u64,
    pub(crate) since: Option<Since>,
    /// The latest look that saw it at work was asked for then.
    pub(crate) worked_ns: u64,
}

impl Done {
    pub(crate) fn seen(&mut self, state: ServerState, look: &Look) {
        let rests = look.since.filter(|_| look.is_rest);
        match (state, rests) {
            // What is older than the request says nothing of it.
            (ServerState::Before, _) => {}
            // The surest of those that may be of the same moment; a later moment shows that the one before was not the end.
            (ServerState::Done, Some(rests)) => {
                let same = self.since.filter(|since| since.latest_ns >= rests.earliest_ns);
                let surer = same.filter(|since| since.latest_ns <= rests.latest_ns);
                self.since = surer.or(Some(rests));
            }
            _ => {
                self.since = None;
                self.worked_ns = look.asked_ns;
            }
        }
    }

    /// A look came that was asked for once the answer was whole: that the server is done is sure then, and it came to it after the request. One
    /// that says otherwise is of a clock that was set, or of another session.
    pub(crate) fn seen_after(&mut self, look: &Look) {
        // There and back it took no less than a round trip.
        self.look_ns = look.at_ns.saturating_sub(look.asked_ns);
        self.least_rtt_ns = self.least_rtt_ns.min(self.look_ns);
        if look.since.is_some_and(|since| since.latest_ns >= self.requested_ns.max(self.worked_ns)) {
            self.seen(look.state, look);
        }
    }

    /// What the server said of the query, in which it was blocked on sending for so long; `None`: nothing.
    pub(crate) fn served(&self, blocked_ns: Option<u64>) -> Option<Served> {
        let Self { least_rtt_ns, rtt_ns, most_rtt_ns, look_ns, .. } = *self;
        Some(Served { since: self.since?, least_rtt_ns, rtt_ns, most_rtt_ns, look_ns, blocked_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A look of a request of 1 s, which says so since then.
    fn look(asked_ms: u64, state: ServerState, since_ms: u64, is_rest: bool) -> Look {
        let (asked_ns, at_ns) = (asked_ms * MS, (asked_ms + 2) * MS);
        let since = Some(Since { earliest_ns: since_ms * MS, latest_ns: since_ms * MS + 2 * MS });
        Look { at_ns, asked_ns, state, since, is_rest, wait: None }
    }

    fn since_ms(done: &Done) -> Option<u64> {
        done.served(None).map(|served| served.since.earliest_ns / MS)
    }

    /// Nor is a backend done that waits for more of a batch.
    #[test]
    fn backend_that_works_again_was_not_done() {
        let began =
            Done { requested_ns: 1_000 * MS, least_rtt_ns: 2 * MS, most_rtt_ns: 3 * MS, ..Done::default() };
        for (looks, expected) in [
            (vec![look(1_010, ServerState::Done, 1_005, true)], Some(1_005)),
            (vec![look(1_010, ServerState::Done, 1_005, false)], None),
            (
                vec![
                    look(1_010, ServerState::Done, 1_005, true),
                    look(1_020, ServerState::Working, 0, false),
                ],
                None,
            ),
            (
                vec![
                    look(1_010, ServerState::Done, 1_005, true),
                    look(1_020, ServerState::Sending, 0, false),
                ],
                None,
            ),
            (
                vec![look(1_010, ServerState::Done, 1_005, true), look(1_020, ServerState::Before, 0, false)],
                Some(1_005),
            ),
            // The same moment, less surely; and a later one.
            (
                vec![
                    look(1_010, ServerState::Done, 1_005, true),
                    look(1_020, ServerState::Done, 1_006, true),
                ],
                Some(1_005),
            ),
            (
                vec![
                    look(1_010, ServerState::Done, 1_005, true),
                    look(1_020, ServerState::Done, 1_015, true),
                ],
                Some(1_015),
            ),
        ] {
            let mut done = began;
            for look in &looks {
                done.seen(look.state, look);
            }
            assert_eq!(since_ms(&done), expected, "{looks:?}");
        }
        // What is said afterwards counts, but for what a look that saw it at work contradicts: behind a pooler it may be another's.
        let mut done = began;
        done.seen(ServerState::Working, &look(1_500, ServerState::Working, 0, false));
        done.seen_after(&look(2_000, ServerState::Done, 1_100, true));
        assert_eq!(since_ms(&done), None);
        done.seen_after(&look(2_000, ServerState::Done, 1_900, true));
        assert_eq!(since_ms(&done), Some(1_900));
    }

    /// Round trips that were measured while others filled the queue are no bound of one that was quicker.
    #[test]
    fn quicker_observation_lowers_minimum_rtt() {
        let mut done = Done { requested_ns: 0, least_rtt_ns: 100 * MS, ..Done::default() };
        done.seen_after(&look(100, ServerState::Done, 98, true));
        assert_eq!(done.served(None).map(|served| served.least_rtt_ns), Some(2 * MS));
    }
}
