//! When a run goes on in another recording, and what it carries over the seam. Time is an argument.

mod ages;

pub use ages::Ages;

use crate::event::{Carried, CarriedConnection, CarriedStall, CarriedStallOver, Event, EventKind};
use crate::sample::Sample;
use crate::statistics::Outages;
use std::collections::BTreeMap;

/// The moments of a rotation: whole multiples of its period since the Unix epoch, so that a period of a day ends at midnight
/// UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boundaries {
    every_ns: i64,
    next_ns: i64,
}

impl Boundaries {
    /// The first boundary is the first one after now.
    pub fn new(every_ns: u64, utc_ns: i64) -> Self {
        let every_ns = i64::try_from(every_ns).unwrap_or(i64::MAX).max(1);
        let mut made = Self { every_ns, next_ns: 0 };
        made.next_ns = made.after(utc_ns);
        made
    }

    fn after(&self, utc_ns: i64) -> i64 {
        utc_ns.div_euclid(self.every_ns).saturating_add(1).saturating_mul(self.every_ns)
    }

    /// When the next one is, in UTC.
    pub fn next_ns(&self) -> i64 {
        self.next_ns
    }

    /// True if a boundary was crossed, which then counts as taken. A clock that is set back by at most one period
    /// crosses no boundary twice, and one that is set forward over many crosses them at once. A clock that is set back
    /// further, as after it had been wrong for a while, gets its next boundary from there.
    pub fn is_crossed(&mut self, utc_ns: i64) -> bool {
        if self.next_ns.saturating_sub(utc_ns) > self.every_ns.saturating_mul(2) {
            self.next_ns = self.after(utc_ns);
        }
        let crossed = utc_ns >= self.next_ns;
        if crossed {
            self.next_ns = self.after(utc_ns);
        }
        crossed
    }
}

/// Counts what of a run stands in its recordings so far: given every sample and every event of a path, as the recorder is.
#[derive(Debug, Default)]
pub struct Tally {
    samples: u64,
    not_sent: u64,
    /// By the schedules that have ended, of which each probing thread has one.
    due: u64,
    lost_of_several: u64,
    /// Connections that are open.
    open: BTreeMap<u32, Open>,
    outages: Outages,
}

/// What is known of an open connection.
#[derive(Debug)]
struct Open {
    samples: u64,
    /// One more than the highest number of those that have a row.
    next_seq: u64,
    answered: bool,
    lane: Option<u32>,
    remote: String,
    stall: Option<CarriedStall>,
    stall_over: Option<StallOver>,
}

/// The latest stall that was over.
#[derive(Debug)]
struct StallOver {
    told: CarriedStallOver,
    /// Samples below were out then.
    below: u64,
    /// A later one that takes less than this found nothing queueing any more, and there was one.
    in_time_ns: i64,
    in_time: bool,
}

impl StallOver {
    /// A sample that has a row.
    fn row(&mut self, sample: &Sample) {
        self.in_time |=
            sample.seq >= self.below && sample.rtt_ns.is_some_and(|rtt_ns| rtt_ns < self.in_time_ns);
    }

    /// What is to be told of it after a seam at this time: samples that it held up are out, others queue behind those (for no longer than it
    /// lasted), or why it came is not said. `next_seq`: one more than the highest number of those that have a row; one that was lost will
    /// never have.
    fn carried(&self, next_seq: u64, now_ns: u64) -> Option<CarriedStallOver> {
        let told = CarriedStallOver { waiting: self.below.saturating_sub(next_seq), ..self.told };
        let lasted_ns = told.over_ns.saturating_sub(told.since_ns);
        let queues = !self.in_time && now_ns < told.over_ns.saturating_add(lasted_ns);
        Some(told).filter(|told| told.waiting > 0 || queues || told.verdict.is_none())
    }
}

impl Tally {
    /// A sample that the recorder was given: it has a row, or the recorder tells its loss.
    pub fn sample(&mut self, sample: &Sample) {
        self.add(Some(sample.connection), 1);
        if let Some(open) = self.open.get_mut(&sample.connection) {
            open.answered |= sample.rtt_ns.is_some();
            open.next_seq = open.next_seq.max(sample.seq.saturating_add(1));
            if let Some(over) = &mut open.stall_over {
                over.row(sample);
            }
        }
    }

    /// An event that the recorder was given.
    pub fn event(&mut self, event: &Event) {
        self.outages.event(event);
        match (&event.kind, event.connection) {
            (EventKind::ConnectionOpened { lane, remote, .. }, Some(connection)) => {
                let (lane, remote) = (*lane, remote.clone());
                let (samples, next_seq, answered, stall, stall_over) = (0, 0, false, None, None);
                let open = Open { samples, next_seq, answered, lane, remote, stall, stall_over };
                self.open.insert(connection, open);
            }
            (EventKind::ConnectionClosed { .. }, Some(connection)) => {
                self.open.remove(&connection);
            }
            (EventKind::StallBegan { seq, outstanding, threshold_ns }, Some(connection)) => {
                if let Some(open) = self.open.get_mut(&connection) {
                    let since_ns = event.mono_ns.saturating_sub(*threshold_ns);
                    let (seq, outstanding, threshold_ns) = (*seq, *outstanding, *threshold_ns);
                    open.stall = Some(CarriedStall { seq, outstanding, threshold_ns, since_ns });
                }
            }
            (EventKind::StallEnded { duration_ns, samples, recovered, .. }, Some(connection)) => {
                if let Some(open) = self.open.get_mut(&connection) {
                    let stall = open.stall.take().filter(|_| *recovered);
                    let (over_ns, waiting) = (event.mono_ns, 0);
                    let since_ns = over_ns.saturating_sub(*duration_ns);
                    let told =
                        CarriedStallOver { since_ns, over_ns, waiting, verdict: None, confidence: None };
                    open.stall_over = stall.map(|stall| StallOver {
                        told,
                        below: stall.seq + samples,
                        in_time_ns: i64::try_from(stall.threshold_ns / 2).unwrap_or(i64::MAX),
                        in_time: false,
                    });
                }
            }
            (EventKind::ConnectionExplained { about, explanation, .. }, Some(connection))
                if about == "stall" =>
            {
                let open = self.open.get_mut(&connection);
                if let Some(over) = open.and_then(|open| open.stall_over.as_mut()) {
                    (over.told.verdict, over.told.confidence) =
                        (Some(explanation.verdict), explanation.confidence);
                }
            }
            (
                EventKind::RecordingOverflowed { lost: n, .. } | EventKind::SamplesInFlight { samples: n },
                connection,
            ) => self.add(connection, *n),
            (EventKind::ScheduleOverrun { skipped, .. }, _) => self.not_sent += skipped,
            (EventKind::ScheduleEnded { due }, _) => self.due += due,
            _ => {}
        }
    }

    fn add(&mut self, connection: Option<u32>, samples: u64) {
        self.samples += samples;
        match connection {
            Some(connection) => {
                if let Some(open) = self.open.get_mut(&connection) {
                    open.samples += samples;
                }
            }
            None => self.lost_of_several += samples,
        }
    }

    /// How many samples were sent at the least on each open connection of which some that were sent before others have no row.
    pub fn sent_with_gaps(&self) -> BTreeMap<u32, u64> {
        let with_gaps = self.open.iter().filter(|(_, open)| open.next_seq > open.samples);
        with_gaps.map(|(&connection, open)| (connection, open.next_seq)).collect()
    }

    /// What stands before a seam that is made now, at this time of the monotonic clock.
    pub fn carried(&self, now_ns: u64) -> Carried {
        let connection = |(&connection, open): (&u32, &Open)| CarriedConnection {
            connection,
            samples: open.samples,
            lane: open.lane,
            remote: Some(open.remote.clone()),
            stall: open.stall,
            stall_over: open.stall_over.as_ref().and_then(|over| over.carried(open.next_seq, now_ns)),
        };
        Carried {
            samples: self.samples,
            not_sent: self.not_sent,
            due: self.due,
            lost_of_several: self.lost_of_several,
            connections: self.open.iter().map(connection).collect(),
            outages: self.outages.carried(|id| self.open.get(&id).is_some_and(|open| open.answered)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::statistics::Statistics;
    use crate::verdict::{Confidence, Verdict};

    const DAY_NS: u64 = 86_400_000_000_000;

    fn utc(text: &str) -> i64 {
        text.parse::<jiff::Timestamp>().unwrap().as_nanosecond() as i64
    }

    #[test]
    fn day_ends_at_midnight_utc() {
        let mut days = Boundaries::new(DAY_NS, utc("2026-11-21T15:04:05.5Z"));
        assert!(!days.is_crossed(utc("2026-11-21T23:59:59.999999999Z")));
        assert!(days.is_crossed(utc("2026-11-22T00:00:00Z")));
        assert!(!days.is_crossed(utc("2026-11-22T00:00:00.3Z")));
        assert!(!days.is_crossed(utc("2026-11-22T23:59:59Z")));
        assert!(days.is_crossed(utc("2026-11-23T00:00:00.2Z")));
    }

    #[test]
    fn clock_step_makes_at_most_one_rotation() {
        let mut days = Boundaries::new(DAY_NS, utc("2026-11-21T15:00:00Z"));
        assert!(days.is_crossed(utc("2026-11-22T00:00:01Z")));
        // Set back by an hour: midnight comes a second time.
        assert!(!days.is_crossed(utc("2026-11-21T23:00:01Z")));
        assert!(!days.is_crossed(utc("2026-11-22T00:00:01Z")));
        // Set forward by four days.
        assert!(days.is_crossed(utc("2026-11-26T12:00:00Z")));
        assert!(!days.is_crossed(utc("2026-11-26T12:00:01Z")));
        assert!(days.is_crossed(utc("2026-11-27T00:00:00Z")));
        // One that begins on a boundary has a whole period before it; and before 1970 days are days too.
        assert!(
            !Boundaries::new(DAY_NS, utc("2026-11-22T00:00:00Z")).is_crossed(utc("2026-11-22T12:00:00Z"))
        );
        assert!(Boundaries::new(DAY_NS, -1).is_crossed(0));
        assert!(!Boundaries::new(u64::MAX, 0).is_crossed(i64::MAX - 1));
    }

    /// The clock was an hour ahead for a while, and then no five-second recording ended for an hour.
    #[test]
    fn clock_set_right_rotates_again() {
        let second = |s: i64| s * 1_000_000_000;
        let mut boundaries = Boundaries::new(5_000_000_000, second(1_000));
        assert!(boundaries.is_crossed(second(1_005)));
        assert!(boundaries.is_crossed(second(4_607)));
        assert!(!boundaries.is_crossed(second(1_009)));
        assert!(boundaries.is_crossed(second(1_010)));
        assert!(!boundaries.is_crossed(second(1_014)));
    }

    #[test]
    fn gaps_in_rows_reveal_samples_sent() {
        let opened = EventKind::ConnectionOpened {
            target: String::new(),
            local: String::new(),
            remote: String::new(),
            connect_ns: 0,
            tls_ns: None,
            interface: None,
            lane: Some(0),
        };
        let mut tally = Tally::default();
        for connection in [0, 1] {
            let (at, kind) = (jiff::Timestamp::UNIX_EPOCH, opened.clone());
            tally.event(&Event { at, mono_ns: 1, connection: Some(connection), kind });
        }
        // The last row is not the one that was sent last.
        for (connection, seq) in [(0, 0), (0, 1), (1, 0), (1, 4), (1, 2)] {
            tally.sample(&Sample { connection, seq, ..Sample::default() });
        }
        assert_eq!(tally.sent_with_gaps(), BTreeMap::from([(1, 5)]));
    }

    #[test]
    fn ended_stall_is_carried_until_samples_arrive() {
        let event =
            |mono_ns, kind| Event { at: jiff::Timestamp::UNIX_EPOCH, mono_ns, connection: Some(0), kind };
        let opened = EventKind::ConnectionOpened {
            target: String::new(),
            local: String::new(),
            remote: String::new(),
            connect_ns: 0,
            tls_ns: None,
            interface: None,
            lane: Some(0),
        };
        let explained = r#"{"about": "stall", "verdict": "path_down", "because": [], "confidence": "low",
            "fresh": "echoed", "kind": "connection.explained"}"#;
        let mut tally = Tally::default();
        let over_at = |tally: &Tally, now_ns| tally.carried(now_ns).connections[0].stall_over;
        let over = |tally: &Tally| over_at(tally, 500);
        let row = |tally: &mut Tally, seq| {
            tally.sample(&Sample { seq, rtt_ns: Some(100), ..Sample::default() });
        };
        tally.event(&event(1, opened));
        (0..4).for_each(|seq| row(&mut tally, seq));
        tally.event(&event(400, EventKind::StallBegan { seq: 4, outstanding: 3, threshold_ns: 200 }));
        row(&mut tally, 4);
        assert_eq!(over(&tally), None, "it goes on");
        let (duration_ns, samples, recovered, retransmits) = (300, 5, true, None);
        tally.event(&event(500, EventKind::StallEnded { duration_ns, samples, recovered, retransmits }));
        let mut left =
            CarriedStallOver { since_ns: 200, over_ns: 500, waiting: 4, verdict: None, confidence: None };
        assert_eq!(over(&tally), Some(left));
        tally.event(&event(500, serde_json::from_str(explained).unwrap()));
        (left.verdict, left.confidence) = (Some(Verdict::PathDown), Some(Confidence::Low));
        assert_eq!(over(&tally), Some(left));
        // Number 5 was lost on its way to the recorder: it never has a row.
        row(&mut tally, 7);
        left.waiting = 1;
        assert_eq!(over(&tally), Some(left));
        row(&mut tally, 8);
        left.waiting = 0;
        assert_eq!(over(&tally), Some(left), "later ones may queue");
        assert_eq!(over_at(&tally, 800), None, "no longer than it lasted");
        row(&mut tally, 9);
        assert_eq!(over(&tally), Some(left), "one that is late");
        tally.sample(&Sample { seq: 10, rtt_ns: Some(99), ..Sample::default() });
        assert_eq!(over(&tally), None);
    }

    /// Two probing threads, and a seam between the ends of their schedules: what was due in either recording is what was sent there.
    #[test]
    fn ended_thread_schedule_is_carried_over_rotation() {
        let event =
            |connection, kind| Event { at: jiff::Timestamp::UNIX_EPOCH, mono_ns: 1, connection, kind };
        let lost = |lost| event(None, EventKind::RecordingOverflowed { lost, reason: None });
        let ended = |due| event(None, EventKind::ScheduleEnded { due });
        let (mut tally, mut due) = (Tally::default(), Vec::new());
        let mut carried = Carried::default();
        for told in [vec![lost(60)], vec![lost(40), ended(70)], vec![lost(10), ended(40)]] {
            let mut statistics = Statistics::read_back(&[]);
            let previous = String::new();
            statistics
                .event(&event(None, EventKind::RecordingContinues { previous, carried: carried.clone() }));
            for one in &told {
                tally.event(one);
                statistics.event(one);
            }
            carried = tally.carried(1);
            if due.len() < 2 {
                let next = String::new();
                statistics
                    .event(&event(None, EventKind::RecordingRotated { next, carried: carried.clone() }));
            }
            due.push(statistics.due());
        }
        assert_eq!((carried.due, carried.samples), (110, 110));
        // Those before the last had 0: what was lost in them, as on a full disk, was due as well.
        assert_eq!(due, [60, 40, 10]);
    }
}
