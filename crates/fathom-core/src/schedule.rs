//! When samples are due: open loop, on a fixed grid, whatever the network does.

/// How samples follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// One every so many ns, whether or not the last came back.
    Every(u64),
    /// The next as soon as the last came back: closed loop, as latte, sockperf and netperf's `TCP_RR` do by default.
    PingPong,
}

/// A backlog older than this is not sent any more (see [`Schedule::skip_overdue`]).
const BACKLOG_NS: u64 = 1_000_000_000;

/// The dues of one connection lane; it outlives the connections on it.
#[derive(Debug, Clone)]
pub struct Schedule {
    pace: Pace,
    next_due_ns: Option<u64>,
    remaining: Option<u64>,
    until_ns: Option<u64>,
    /// Samples that fell due and were taken or given up.
    due: u64,
}

/// Samples that were due and will not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skipped {
    /// How many.
    pub count: u64,
    /// How late the earliest was when it was given up, in ns.
    pub behind_ns: u64,
}

impl Schedule {
    /// A schedule whose first sample is due at `first_due_ns`; ends after `count` sent samples, or when the next
    /// would be due at `until_ns` or later.
    pub fn new(pace: Pace, first_due_ns: u64, count: Option<u64>, until_ns: Option<u64>) -> Self {
        let mut schedule = Self { pace, next_due_ns: Some(first_due_ns), remaining: count, until_ns, due: 0 };
        schedule.end_if_over();
        schedule
    }

    /// When the next sample is due. `None`: nothing is due until an echo comes (ping-pong), or ever again.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.next_due_ns
    }

    /// How many samples have fallen due so far, sent or given up.
    pub fn due(&self) -> u64 {
        self.due
    }

    /// Whether no further sample will be due.
    pub fn is_over(&self) -> bool {
        self.remaining == Some(0) || (self.next_due_ns.is_none() && !matches!(self.pace, Pace::PingPong))
    }

    /// Takes the next due, if it is due by `now_ns`, as sent.
    pub fn take(&mut self, now_ns: u64) -> Option<u64> {
        let due = self.next_due_ns.filter(|&due| due <= now_ns)?;
        self.remaining = self.remaining.map(|n| n - 1);
        self.due += 1;
        self.next_due_ns = match self.pace {
            Pace::Every(every) => Some(due + every),
            Pace::PingPong => None,
        };
        self.end_if_over();
        Some(due)
    }

    /// The echo that a ping-pong waits for has come, or will not.
    pub fn resolved(&mut self, now_ns: u64) {
        if self.pace == Pace::PingPong {
            self.next_due_ns = Some(now_ns);
            self.end_if_over();
        }
    }

    /// Gives up dues that this host or a full send buffer kept from being sent for longer than a second (or one
    /// interval, if that is longer): late by less they are sent, with their lateness, so that a hiccup hides
    /// nothing; but a process that wakes after an hour does not fire an hour's samples at once.
    pub fn skip_overdue(&mut self, now_ns: u64) -> Option<Skipped> {
        match self.pace {
            Pace::Every(every) => self.skip_before(now_ns.saturating_sub(BACKLOG_NS.max(every)), now_ns),
            Pace::PingPong => None,
        }
    }

    /// Gives up every due up to `now_ns`: there was no connection to send them on.
    pub fn skip_unconnected(&mut self, now_ns: u64) -> Option<Skipped> {
        match self.pace {
            Pace::Every(_) => self.skip_before(now_ns, now_ns),
            Pace::PingPong => {
                self.resolved(now_ns);
                None
            }
        }
    }

    fn skip_before(&mut self, limit_ns: u64, now_ns: u64) -> Option<Skipped> {
        let Pace::Every(every) = self.pace else { return None };
        // What lies beyond the end was never due.
        let limit_ns = self.until_ns.map_or(limit_ns, |until| limit_ns.min(until));
        let due = self.next_due_ns.filter(|&due| due < limit_ns)?;
        let count = (limit_ns - due).div_ceil(every);
        self.next_due_ns = Some(due + count * every);
        self.due += count;
        self.end_if_over();
        Some(Skipped { count, behind_ns: now_ns - due })
    }

    fn end_if_over(&mut self) {
        let late = |due| self.until_ns.is_some_and(|until| due >= until);
        if self.remaining == Some(0) {
            self.next_due_ns = None;
        } else if self.next_due_ns.is_some_and(late) {
            self.next_due_ns = None;
            self.remaining = Some(0);
        }
    }
}

/// The phase of lane `index` of `lanes`: lanes share each interval evenly, so that every path is sampled at its own
/// moment and all within the same interval.
pub fn phase_ns(pace: Pace, index: usize, lanes: usize) -> u64 {
    match pace {
        Pace::Every(every) => (u128::from(every) * index as u128 / lanes.max(1) as u128) as u64,
        Pace::PingPong => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn late_sends_keep_grid_due_times() {
        let mut schedule = Schedule::new(Pace::Every(10 * MS), 100 * MS, Some(4), None);
        assert_eq!(schedule.take(99 * MS), None);
        assert_eq!(schedule.take(137 * MS), Some(100 * MS));
        assert_eq!(schedule.take(137 * MS), Some(110 * MS));
        assert_eq!(schedule.take(137 * MS), Some(120 * MS));
        assert_eq!(schedule.take(137 * MS), Some(130 * MS));
        assert_eq!(schedule.take(u64::MAX), None);
        assert!(schedule.is_over());
    }

    #[test]
    fn a_run_of_eleven_hours_has_its_samples() {
        let hours = 11 * 3_600 * 1_000 * MS;
        let mut schedule = Schedule::new(Pace::Every(1_000 * MS), 0, None, Some(hours));
        let mut sent = 0;
        while let Some(due) = schedule.next_due_ns() {
            schedule.take(due);
            sent += 1;
        }
        assert_eq!(sent, 39_600);
        assert!(schedule.is_over());
    }

    #[test]
    fn long_pause_sends_only_last_second() {
        let mut schedule = Schedule::new(Pace::Every(100 * MS), 0, None, None);
        let now = 10_050 * MS;
        assert_eq!(schedule.skip_overdue(now), Some(Skipped { count: 91, behind_ns: now }));
        assert_eq!(schedule.take(now), Some(9_100 * MS));
        assert_eq!(schedule.skip_overdue(now), None);
    }

    #[test]
    fn a_slow_schedule_keeps_its_latest_due() {
        let mut schedule = Schedule::new(Pace::Every(60_000 * MS), 0, None, None);
        schedule.skip_overdue(150_000 * MS);
        assert_eq!(schedule.take(150_000 * MS), Some(120_000 * MS));
    }

    #[test]
    fn what_lies_beyond_the_end_was_never_due() {
        let mut schedule = Schedule::new(Pace::Every(100 * MS), 0, None, Some(1_000 * MS));
        assert_eq!(schedule.skip_unconnected(5_000 * MS).map(|skipped| skipped.count), Some(10));
        assert!(schedule.is_over());
    }

    #[test]
    fn ping_pong_waits_for_its_echo() {
        let mut schedule = Schedule::new(Pace::PingPong, 0, Some(2), None);
        assert_eq!(schedule.take(5), Some(0));
        assert_eq!(schedule.next_due_ns(), None);
        assert!(!schedule.is_over());
        schedule.resolved(9);
        assert_eq!(schedule.take(9), Some(9));
        schedule.resolved(12);
        assert!(schedule.is_over());
        assert_eq!(schedule.next_due_ns(), None);
    }

    proptest! {
        #[test]
        fn lanes_share_the_interval(every in 1u64..10_000_000_000, lanes in 1usize..20_000) {
            let phases: Vec<u64> = (0..lanes).map(|i| phase_ns(Pace::Every(every), i, lanes)).collect();
            prop_assert!(phases.windows(2).all(|w| w[0] <= w[1] && w[1] - w[0] <= every / lanes as u64 + 1));
            prop_assert!(phases[lanes - 1] < every);
        }

        #[test]
        fn every_due_is_sent_or_skipped_exactly_once(
            every in 1u64..3_000, wakes in prop::collection::vec((1u64..5_000, any::<bool>()), 1..60),
        ) {
            let (every, mut now) = (every * MS, 0);
            let mut schedule = Schedule::new(Pace::Every(every), 0, None, None);
            let (mut sent, mut skipped) = (0, 0);
            for (wait, connected) in wakes {
                now += wait * MS;
                let gone = if connected { schedule.skip_overdue(now) } else { schedule.skip_unconnected(now) };
                skipped += gone.map_or(0, |s| s.count);
                while connected && schedule.take(now).is_some() {
                    sent += 1;
                }
                prop_assert_eq!(schedule.next_due_ns(), Some((sent + skipped) * every));
            }
        }
    }
}
