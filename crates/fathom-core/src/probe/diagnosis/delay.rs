//! Delay: echoes come, and take far longer than usual. A queue, or a slower path; no silence.

use crate::event::EventKind;
use crate::stream::Stamped;
use crate::verdict::{Confidence, Direction, Late, Verdict};

/// A delay is over after so many samples in a row that were not late...
const OVER_AFTER: u32 = 5;
/// ...which are those that took less than this part of what counts as late.
const OVER_BELOW: u64 = 2;
/// What is late for so long is what is usual now.
const USUAL_AFTER_NS: u64 = 30_000_000_000;
/// One way was the slow one where it took so much of what the slowest sample was late by: 4 of 5.
const MOST: (u64, u64) = (4, 5);

/// One connection's delay.
#[derive(Debug, Default)]
pub(in crate::probe) struct Delay {
    current: Option<Current>,
}

#[derive(Debug, Clone, Copy)]
struct Current {
    began_ns: u64,
    last_ns: u64,
    samples: u64,
    most_ns: u64,
    /// The number of that sample.
    slowest: u64,
    late: Option<Late>,
    in_time: u32,
}

impl Delay {
    /// A sample came back that no stall held up. Gives what is to be told. `threshold_ns`: what counts as late.
    pub(in crate::probe) fn came(
        &mut self,
        seq: u64,
        rtt_ns: u64,
        read_ns: u64,
        threshold_ns: u64,
    ) -> Option<EventKind> {
        let Some(current) = &mut self.current else {
            if rtt_ns < threshold_ns {
                return None;
            }
            let began_ns = read_ns.saturating_sub(rtt_ns);
            let (last_ns, most_ns, slowest) = (read_ns, rtt_ns, seq);
            let new = Current { began_ns, last_ns, samples: 1, most_ns, slowest, late: None, in_time: 0 };
            self.current = Some(new);
            return Some(EventKind::DelayBegan { seq, rtt_ns, threshold_ns });
        };
        if rtt_ns >= threshold_ns / OVER_BELOW {
            (current.in_time, current.last_ns) = (0, read_ns);
            current.samples += 1;
            if rtt_ns > current.most_ns {
                (current.most_ns, current.slowest, current.late) = (rtt_ns, seq, None);
            }
            return None;
        }
        current.in_time += 1;
        if current.in_time < OVER_AFTER {
            return None;
        }
        let over = *current;
        self.current = None;
        Some(over.told())
    }

    /// Whether one goes on.
    pub(in crate::probe) fn goes_on(&self) -> bool {
        self.current.is_some()
    }

    /// Whether what comes now says nothing about what is usual.
    pub(in crate::probe) fn is_unusual(&self, now: u64) -> bool {
        self.current.is_some_and(|current| now.saturating_sub(current.began_ns) < USUAL_AFTER_NS)
    }

    /// The stamps of the slowest sample tell which way it was: they are looked at once its read is over.
    pub(in crate::probe) fn look(
        &mut self,
        stamped: Option<(Stamped, Stamped)>,
        late: impl FnOnce(&Stamped) -> Option<Late>,
    ) {
        if let Some(current) = &mut self.current
            && let Some((first, last)) = stamped
            && let Some(slowest) = [first, last].iter().find(|stamped| stamped.seq == current.slowest)
        {
            current.late = late(slowest);
        }
    }
}

impl Current {
    fn told(self) -> EventKind {
        let ways = self.late.map(|late| (late.forward_ns, late.back_ns));
        let most = |part: u64, all: u64| part * MOST.1 >= all * MOST.0;
        let direction = ways.and_then(|(forward, back)| match forward + back {
            0 => None,
            all if most(forward, all) => Some(Direction::Forward),
            all if most(back, all) => Some(Direction::Return),
            _ => None,
        });
        EventKind::DelayEnded {
            duration_ns: self.last_ns.saturating_sub(self.began_ns),
            samples: self.samples,
            most_ns: self.most_ns,
            forward_ns: ways.map(|(forward, _)| forward),
            back_ns: ways.map(|(_, back)| back),
            verdict: Verdict::Delayed,
            direction,
            confidence: if ways.is_some() { Confidence::High } else { Confidence::Medium },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_wire::ReflectorStamps;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_queue_that_grows_and_empties_is_one_delay() {
        let mut delay = Delay::default();
        let mut told = Vec::new();
        for seq in 0..200 {
            let sent = seq * 50 * MS;
            let rtt = match seq {
                20..60 => (seq - 20) * 25 * MS,
                60..100 => (100 - seq) * 25 * MS,
                _ => MS,
            };
            told.extend(delay.came(seq, rtt, sent + rtt, 200 * MS));
            let (sent_ns, read_ns) = (sent, sent + rtt);
            let stamped = Stamped { seq, sent_ns, read_ns, stamps: ReflectorStamps::default() };
            let late = |_: &Stamped| Some(Late { forward_ns: 3 * MS, back_ns: rtt, calm: true });
            delay.look(Some((stamped, stamped)), late);
        }
        let [EventKind::DelayBegan { seq: 28, .. }, EventKind::DelayEnded { most_ns, direction, .. }] =
            &told[..]
        else {
            panic!("{told:?}")
        };
        assert_eq!((*most_ns, *direction), (1_000 * MS, Some(Direction::Return)));
        assert!(!delay.goes_on());
    }

    #[test]
    fn a_few_that_are_in_time_end_none() {
        let mut delay = Delay::default();
        let mut told = 0;
        for seq in 0..100 {
            let sent = seq * 50 * MS;
            let rtt = if seq % u64::from(OVER_AFTER) == 0 { 300 * MS } else { MS };
            told += u32::from(delay.came(seq, rtt, sent + rtt, 200 * MS).is_some());
        }
        assert_eq!((told, delay.goes_on()), (1, true));
    }
}
