//! Delay: echoes come, and take far longer than usual. A queue, or a slower path; no silence.

use super::ways::{Ways, between};
use crate::event::EventKind;
use crate::stream::Stamped;
use crate::verdict::{Confidence, Direction, Told, Verdict, is_a_part, is_most, paused_after};

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
    stamps: Option<Stamps>,
    in_time: u32,
}

/// What the reflector's stamps of a sample say, and how long the sample waited for the reflector to run.
#[derive(Debug, Clone, Copy)]
struct Stamps {
    echo: Stamped,
    /// How much longer than usual each way took.
    forward_ns: u64,
    back_ns: u64,
    /// Before the request was read.
    request_waited_ns: u64,
    /// After the echo was stamped, as a later one told. `None`: none has.
    echo_waited_ns: Option<Told>,
}

impl Stamps {
    /// `None`: they do not tell.
    fn of(echo: &Stamped, ways: &Ways) -> Option<Self> {
        let late = ways.late(echo)?;
        let (forward_ns, back_ns) = (late.forward_ns, late.back_ns);
        let request_waited_ns = ways.request_waited_ns(echo).min(forward_ns);
        Some(Self { echo: *echo, forward_ns, back_ns, request_waited_ns, echo_waited_ns: None })
    }

    /// An echo that was stamped later.
    fn later_echo(&mut self, later: &Stamped) {
        let waited_ns = self.echo.read_ns.saturating_sub(self.echo.sent_ns);
        if self.echo_waited_ns.is_none() {
            self.echo_waited_ns =
                between(&self.echo, later).and_then(|told| paused_after(waited_ns, self.back_ns, told));
        }
    }

    fn echo_waited_ns(&self) -> u64 {
        self.echo_waited_ns.and_then(Told::paused_ns).unwrap_or(0).min(self.back_ns)
    }

    /// When the request waited for the reflector to run, and when the echo did: from, to.
    fn waits(&self) -> [(u64, u64); 2] {
        let read_there_ns = self.echo.sent_ns + self.forward_ns;
        let stamped_ns = self.echo.read_ns.saturating_sub(self.back_ns);
        [
            (read_there_ns - self.request_waited_ns, read_there_ns),
            (stamped_ns, stamped_ns + self.echo_waited_ns()),
        ]
    }
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
        paused_ns: impl Fn(u64, u64) -> u64,
    ) -> Option<EventKind> {
        let Some(current) = &mut self.current else {
            if rtt_ns < threshold_ns {
                return None;
            }
            let began_ns = read_ns.saturating_sub(rtt_ns);
            let (last_ns, most_ns, slowest, slowest_read_ns) = (read_ns, rtt_ns, seq, read_ns);
            let (samples, stamps, in_time) = (1, None, 0);
            let new =
                Current { began_ns, last_ns, samples, most_ns, slowest, slowest_read_ns, stamps, in_time };
            self.current = Some(Box::new(new));
            return Some(EventKind::DelayBegan { seq, rtt_ns, threshold_ns });
        };
        if rtt_ns >= threshold_ns / OVER_BELOW {
            (current.in_time, current.last_ns) = (0, read_ns);
            current.samples += 1;
            if rtt_ns > current.most_ns {
                (current.most_ns, current.slowest, current.slowest_read_ns) = (rtt_ns, seq, read_ns);
                current.stamps = None;
            }
            return None;
        }
        current.in_time = current.in_time.saturating_add(1);
        if read_ns.saturating_sub(current.last_ns) < OVER_AFTER_NS {
            return None;
        }
        if current.in_time < OVER_AFTER && !current.was_a_pause(&paused_ns) {
            return None;
        }
        Some(self.current.take()?.told(paused_ns))
    }

    /// Its connection ends. Gives what is to be told of one that was a pause.
    pub(in crate::probe) fn ends(&mut self, paused_ns: impl Fn(u64, u64) -> u64) -> Option<EventKind> {
        Some(self.current.take().filter(|current| current.was_a_pause(&paused_ns))?.told(paused_ns))
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

    /// The stamps of the slowest sample tell which way it was, and those of a later one whether the reflector stood still before it
    /// sent the echo: they are looked at once their read is over.
    pub(in crate::probe) fn look(&mut self, stamped: Option<(Stamped, Stamped)>, ways: &Ways) {
        let Some((current, (first, last))) = self.current.as_mut().zip(stamped) else { return };
        if let Some(slowest) = [first, last].iter().find(|stamped| stamped.seq == current.slowest) {
            current.stamps = Stamps::of(slowest, ways);
        }
        if let Some(stamps) = current.stamps.as_mut().filter(|stamps| last.seq > stamps.echo.seq) {
            stamps.later_echo(&last);
        }
    }
}

impl Current {
    /// For how long this host did not run while the slowest sample was under way.
    fn local_ns(&self, paused_ns: &impl Fn(u64, u64) -> u64) -> u64 {
        paused_ns(self.slowest_read_ns.saturating_sub(self.most_ns), self.slowest_read_ns)
    }

    /// Who did not run for most of the slowest sample's time, if somebody did not. When neither did counts once.
    fn paused(&self, paused_ns: &impl Fn(u64, u64) -> u64) -> Option<Verdict> {
        let waits = self.stamps.map_or([(0, 0); 2], |stamps| stamps.waits());
        let there_ns: u64 = waits.iter().map(|(from, to)| to - from).sum();
        let both_ns: u64 = waits.iter().map(|&(from, to)| paused_ns(from, to)).sum();
        let local_ns = self.local_ns(paused_ns);
        let longer = if local_ns >= there_ns { Verdict::LocalPaused } else { Verdict::PeerPaused };
        is_most(local_ns + there_ns.saturating_sub(both_ns), self.most_ns).then_some(longer)
    }

    /// Whether a host did not run, and nothing was late after that: no more is needed to know that it was no delay of the path.
    fn was_a_pause(&self, paused_ns: &impl Fn(u64, u64) -> u64) -> bool {
        self.last_ns.saturating_sub(self.slowest_read_ns) < OVER_AFTER_NS && self.paused(paused_ns).is_some()
    }

    fn told(self, paused_ns: impl Fn(u64, u64) -> u64) -> EventKind {
        let paused = self.paused(&paused_ns);
        // Our own stamp of an echo that had come before we ran again tells of no way.
        let stamps = self.stamps.filter(|_| paused.is_none());
        // What waited for a host was on no way meanwhile.
        let ways = stamps.map(|stamps| {
            let [_, (stamped_ns, sent_ns)] = stamps.waits();
            let here_ns = paused_ns(sent_ns, self.slowest_read_ns);
            let back_ns = stamps.back_ns.saturating_sub(sent_ns - stamped_ns + here_ns);
            (stamps.forward_ns - stamps.request_waited_ns, back_ns)
        });
        // As of a silence: where a host did not run for a part of it, no way that this bears on is named.
        let doubtful = |part_ns: u64| is_a_part(part_ns, self.most_ns);
        let here = doubtful(self.local_ns(&paused_ns));
        let [there, before_back] = stamps
            .map_or([false; 2], |stamps| [stamps.request_waited_ns, stamps.echo_waited_ns()].map(doubtful));
        let direction = ways.filter(|_| !here).and_then(|(forward, back)| match forward + back {
            0 => None,
            all if is_most(forward, all) => Some(Direction::Forward).filter(|_| !there),
            all if is_most(back, all) => Some(Direction::Return).filter(|_| !before_back),
            _ => None,
        });
        let sure = paused.is_some() || ways.is_some() && !here && !there && !before_back;
        EventKind::DelayEnded {
            duration_ns: self.last_ns.saturating_sub(self.began_ns),
            samples: self.samples,
            most_ns: self.most_ns,
            forward_ns: ways.map(|(forward, _)| forward),
            back_ns: ways.map(|(_, back)| back),
            verdict: paused.unwrap_or(Verdict::Delayed),
            direction,
            confidence: if sure { Confidence::High } else { Confidence::Medium },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_wire::ReflectorStamps;

    const MS: u64 = 1_000_000;

    /// Of a reflector whose clock is this host's: when it read the request, when it sent the echo, for how long it has not run.
    fn stamped(seq: u64, [sent, received, answered, read]: [u64; 4], paused_ms: u64) -> Stamped {
        let stamps = ReflectorStamps {
            received_ns: received as i64,
            sent_ns: answered as i64,
            pause_us: paused_ms as u32 * 1_000,
            identity: 5,
            waited: paused_ms > 0,
            tells_pauses: true,
            ..ReflectorStamps::default()
        };
        Stamped { seq, sent_ns: sent, read_ns: read, stamps }
    }

    /// What an echo in time left behind.
    fn usual() -> Ways {
        let mut ways = Ways::default();
        ways.came(stamped(0, [0, MS / 2, MS / 2, MS], 0), true);
        ways
    }

    /// A sample of 4 s, sent at 10 s and stamped at these times, and five in time: what is told. `paused_ms`: what the reflector
    /// counts when it stamps that one, and a later one; `local`: when this host did not run.
    fn of_four_seconds(stamps_ms: [u64; 2], paused_ms: [u64; 2], local_ms: (u64, u64)) -> EventKind {
        let (mut delay, mut told) = (Delay::default(), None);
        let paused =
            |from: u64, to: u64| (local_ms.1 * MS).min(to).saturating_sub((local_ms.0 * MS).max(from));
        for seq in 1..=6 {
            let (sent, read) =
                if seq == 1 { (10_000, 14_000) } else { (13_000 + seq * 500, 13_001 + seq * 500) };
            told = told
                .or(delay.came(seq, (read - sent) * MS, read * MS, 1_000 * MS, paused).filter(|_| seq > 1));
            let [received, answered] = if seq == 1 { stamps_ms } else { [sent; 2] };
            let echo = stamped(
                seq,
                [sent, received, answered, read].map(|ms| ms * MS),
                paused_ms[usize::from(seq > 1)],
            );
            delay.look(Some((echo, echo)), &usual());
        }
        told.expect("it is over")
    }

    #[test]
    fn host_pauses_are_subtracted_from_each_direction() {
        let told = |stamps, paused, local| match of_four_seconds(stamps, paused, local) {
            EventKind::DelayEnded { verdict, direction, forward_ns, back_ns, confidence, .. } => {
                let seconds = |ns: Option<u64>| ns.map(|ns| (ns + 50 * MS) / (100 * MS));
                (verdict, direction, seconds(forward_ns), seconds(back_ns), confidence)
            }
            other => panic!("{other:?}"),
        };
        let (there, back) = ([13_000, 13_000], [10_000, 10_000]);
        let (high, medium) = (Confidence::High, Confidence::Medium);
        let none = (0, 0);
        // The reflector stood until 13 s, this host from 11 s on: each for three of four seconds.
        let paused = (Verdict::LocalPaused, None, None, None, high);
        assert_eq!(told(there, [3_000, 3_000], (11_000, 14_000)), paused);
        assert_eq!(told(there, [3_500, 3_500], (13_000, 14_000)).0, Verdict::PeerPaused);
        // The reflector stood after it had stamped the echo, which a later one tells.
        assert_eq!(told(back, [0, 3_000], (12_900, 14_000)).0, Verdict::PeerPaused);
        // Neither stood: a queue there and back.
        let queue = (Verdict::Delayed, None, Some(30), Some(10), high);
        assert_eq!(told(there, [0, 0], none), queue);
        assert_eq!(
            told([14_000; 2], [0, 0], none),
            (Verdict::Delayed, Some(Direction::Forward), Some(40), Some(0), high)
        );
        assert_eq!(
            told(back, [0, 0], none),
            (Verdict::Delayed, Some(Direction::Return), Some(0), Some(40), high)
        );
        // Half of each way is a host's.
        assert_eq!(
            told(there, [1_500, 1_500], (13_500, 14_000)),
            (Verdict::Delayed, None, Some(15), Some(5), medium)
        );
        // Both stood at one time, which counts once.
        assert_eq!(
            told(there, [2_000, 2_000], (11_000, 13_000)),
            (Verdict::Delayed, None, Some(10), Some(10), medium)
        );
    }

    #[test]
    fn growing_and_draining_queue_is_one_delay() {
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
            let echo = stamped(seq, [sent, sent + MS / 2, sent + MS / 2, sent + rtt], 0);
            delay.look(Some((echo, echo)), &usual());
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
    fn local_sleep_is_not_path_delay() {
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
            let echo = stamped(seq, [sent, sent + MS / 2, sent + MS / 2, now], 0);
            delay.look(Some((echo, echo)), &usual());
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
