//! Delay: echoes come, and take far longer than usual. A queue, or a slower path; no silence.

use crate::event::EventKind;
use crate::stream::Stamped;
use crate::verdict::{Confidence, Direction, Late, Verdict, is_most};

/// A delay is over after so many samples in a row that were not late...
const OVER_AFTER: u32 = 5;
/// ...which are those that took less than this part of what counts as late...
const OVER_BELOW: u64 = 2;
/// ...and so long after the last that was late: by then it is known whether this host had paused.
const OVER_AFTER_NS: u64 = 100_000_000;
/// What is late for so long is what is usual now.
const USUAL_AFTER_NS: u64 = 30_000_000_000;

/// One connection's delay.
#[derive(Debug, Default)]
pub(in crate::probe) struct Delay {
    current: Option<Box<Current>>,
}

#[derive(Debug, Clone, Copy)]
struct Current {
    began_ns: u64,
    last_ns: u64,
    samples: u64,
    most_ns: u64,
    /// The number of that sample, and when it was read.
    slowest: u64,
    slowest_read_ns: u64,
    late: Option<Late>,
    in_time: u32,
}

impl Delay {
    /// A sample came back that no stall held up. Gives what is to be told. `threshold_ns`: what counts as late;
    /// `paused_ns`: for how long this host did not run between two moments.
    pub(in crate::probe) fn came(
        &mut self,
        seq: u64,
        rtt_ns: u64,
        read_ns: u64,
        threshold_ns: u64,
        paused_ns: impl FnOnce(u64, u64) -> u64,
    ) -> Option<EventKind> {
        let Some(current) = &mut self.current else {
            if rtt_ns < threshold_ns {
                return None;
            }
            let began_ns = read_ns.saturating_sub(rtt_ns);
            let (last_ns, most_ns, slowest, slowest_read_ns) = (read_ns, rtt_ns, seq, read_ns);
            let (samples, late, in_time) = (1, None, 0);
            let new =
                Current { began_ns, last_ns, samples, most_ns, slowest, slowest_read_ns, late, in_time };
            self.current = Some(Box::new(new));
            return Some(EventKind::DelayBegan { seq, rtt_ns, threshold_ns });
        };
        if rtt_ns >= threshold_ns / OVER_BELOW {
            (current.in_time, current.last_ns) = (0, read_ns);
            current.samples += 1;
            if rtt_ns > current.most_ns {
                (current.most_ns, current.slowest, current.slowest_read_ns) = (rtt_ns, seq, read_ns);
                current.late = None;
            }
            return None;
        }
        current.in_time = current.in_time.saturating_add(1);
        if current.in_time < OVER_AFTER || read_ns.saturating_sub(current.last_ns) < OVER_AFTER_NS {
            return None;
        }
        let over = self.current.take()?;
        let paused_ns = paused_ns(over.slowest_read_ns.saturating_sub(over.most_ns), over.slowest_read_ns);
        Some(over.told(paused_ns))
    }

    /// Whether one goes on.
    pub(in crate::probe) fn goes_on(&self) -> bool {
        self.current.is_some()
    }

    /// The longest round trip so far of a delay in which what comes says nothing about what is usual.
    pub(in crate::probe) fn unusual_ns(&self, now: u64) -> Option<u64> {
        let recent = |current: &&Current| now.saturating_sub(current.began_ns) < USUAL_AFTER_NS;
        self.current.as_deref().filter(recent).map(|current| current.most_ns)
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
    fn told(self, paused_ns: u64) -> EventKind {
        // Our own stamp of an echo that had come before we ran again tells of no way.
        let paused = is_most(paused_ns, self.most_ns);
        let ways = self.late.filter(|_| !paused).map(|late| (late.forward_ns, late.back_ns));
        let direction = ways.and_then(|(forward, back)| match forward + back {
            0 => None,
            all if is_most(forward, all) => Some(Direction::Forward),
            all if is_most(back, all) => Some(Direction::Return),
            _ => None,
        });
        EventKind::DelayEnded {
            duration_ns: self.last_ns.saturating_sub(self.began_ns),
            samples: self.samples,
            most_ns: self.most_ns,
            forward_ns: ways.map(|(forward, _)| forward),
            back_ns: ways.map(|(_, back)| back),
            verdict: if paused { Verdict::LocalPaused } else { Verdict::Delayed },
            direction,
            confidence: if ways.is_some() || paused { Confidence::High } else { Confidence::Medium },
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
            told.extend(delay.came(seq, rtt, sent + rtt, 200 * MS, |_, _| 0));
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
            told += u32::from(delay.came(seq, rtt, sent + rtt, 200 * MS, |_, _| 0).is_some());
        }
        assert_eq!((told, delay.goes_on()), (1, true));
    }

    /// A stopped probe reads what came long before: told as a queue on the way back, with high confidence.
    #[test]
    fn what_this_host_slept_through_is_no_delay_of_the_path() {
        let mut delay = Delay::default();
        let mut told = Vec::new();
        // Back to back, from 1 s on; this host sleeps after the hundredth, which is known 20 ms after it wakes.
        let (slept, woke) = (1_101 * MS, 2_600 * MS);
        for seq in 0..2_000 {
            let (sent, now) = match seq {
                0..100 => ((1_000 + seq) * MS, (1_001 + seq) * MS),
                100 => (1_100 * MS, woke),
                _ => (woke + (seq - 101) * MS, woke + (seq - 100) * MS),
            };
            let known = now > woke + 20 * MS;
            let paused = |from: u64, to: u64| {
                if known { woke.min(to).saturating_sub(slept.max(from)) } else { 0 }
            };
            told.extend(delay.came(seq, now - sent, now, 200 * MS, paused));
            let stamps = ReflectorStamps::default();
            let stamped = Stamped { seq, sent_ns: sent, read_ns: now, stamps };
            let late = |_: &Stamped| Some(Late { forward_ns: 0, back_ns: now - sent, calm: true });
            delay.look(Some((stamped, stamped)), late);
        }
        let [
            EventKind::DelayBegan { seq: 100, .. },
            EventKind::DelayEnded { verdict, direction, back_ns, .. },
        ] = &told[..]
        else {
            panic!("{told:?}")
        };
        assert_eq!((*verdict, *direction, *back_ns), (Verdict::LocalPaused, None, None));
    }
}
