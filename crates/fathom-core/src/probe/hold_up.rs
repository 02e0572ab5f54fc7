//! Samples that a silence of their connection held up.

/// The end of a silence, and whose round trips it made long.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HoldUp {
    /// Samples below were out while it lasted.
    below: u64,
    /// Later ones queue behind those, until round trips are as usual again, or until then: a path that is slower for good is
    /// to be learned.
    queued_until_ns: u64,
}

impl HoldUp {
    /// A silence of `duration_ns` ends at `now_ns`. `next`: the sample that will be sent next.
    pub(super) fn ended(now_ns: u64, duration_ns: u64, next: u64) -> Self {
        Self { below: next, queued_until_ns: now_ns + duration_ns }
    }

    /// Whether it held up the sample that was answered at `now_ns` after `rtt_ns`, or not in time (none). `usual_ns`: what a
    /// round trip takes at the most.
    pub(super) fn held_up(&mut self, now_ns: u64, seq: u64, rtt_ns: Option<u64>, usual_ns: u64) -> bool {
        let was_out = seq < self.below;
        if !was_out && rtt_ns.is_some_and(|rtt_ns| rtt_ns <= usual_ns) {
            self.queued_until_ns = 0;
        }
        was_out || now_ns < self.queued_until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sample 9 was the last that was out when 500 ns of silence ended at 1,000.
    #[test]
    fn what_was_out_and_what_queues_behind_it() {
        let mut hold_up = HoldUp::ended(1_000, 500, 10);
        assert!(hold_up.held_up(1_000, 9, Some(20), 50), "it was out, however short");
        assert!(hold_up.held_up(1_100, 10, Some(300), 50), "it queued");
        assert!(hold_up.held_up(1_200, 11, None, 50), "nothing shows that the queue has gone");
        assert!(!hold_up.held_up(1_300, 12, Some(50), 50), "as usual");
        assert!(!hold_up.held_up(1_300, 13, Some(300), 50), "and nothing queues any more");
        assert!(
            !HoldUp::ended(1_000, 500, 10).held_up(1_500, 10, Some(300), 50),
            "no longer than the silence"
        );
    }
}
