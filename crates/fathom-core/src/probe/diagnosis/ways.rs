//! What the reflector's stamps say of a late echo: which way took longer than usual, by two monotonic clocks whose
//! difference is known from the samples before.

use crate::stream::{Stamped, pause_gained_ns};
use crate::verdict::{Datagrams, Late};

/// What clocks and readings may be off by...
const SLACK_NS: i64 = 20_000_000;
/// ...and what part of the round trip beside.
const SLACK_PART: i64 = 20;

/// A sample that took so much longer than the shortest of late has not waited for anything to be sent again (Linux waits
/// 200 ms at the least, `TCP_RTO_MIN`), and neither kernel holds the next one back.
const IN_TIME_NS: u64 = 150_000_000;
/// Of late: within so many reads, or twice as many.
const LATELY: u32 = 32;

/// What was usual, and what came last.
#[derive(Debug, Default)]
pub(in crate::probe) struct Ways {
    usual: Option<Usual>,
    last: Option<Last>,
    /// The shortest round trips of the reads before the latest [`LATELY`], and of these so far.
    shortest: [Option<u64>; 2],
    reads: u32,
    /// Whether the latest echo had come in time.
    calm: bool,
    /// The reflector that stamps.
    identity: Option<u32>,
    tells_pauses: bool,
}

/// Differences of the two clocks on a sample that nothing held up.
#[derive(Debug, Clone, Copy)]
struct Usual {
    forward_ns: i64,
    back_ns: i64,
    identity: u32,
    epoch: u8,
}

/// What the reflector counted when the latest echo came.
#[derive(Debug, Clone, Copy)]
struct Last {
    seq: u64,
    frames: u32,
    identity: u32,
    pause_us: u32,
}

fn differences(sample: &Stamped) -> (i64, i64) {
    let forward_ns = sample.stamps.received_ns.wrapping_sub(sample.sent_ns as i64);
    (forward_ns, (sample.read_ns as i64).wrapping_sub(sample.stamps.sent_ns))
}

/// What two echoes of one reflector say of the time between its stamps of them: how long it did not run, and how long that
/// time was. `None`: they are two reflectors', or its clock was set in between.
pub(in crate::probe) fn between(first: &Stamped, last: &Stamped) -> Option<(u64, u64)> {
    let (first, last) = (&first.stamps, &last.stamps);
    let apart_ns = u64::try_from(last.sent_ns.wrapping_sub(first.sent_ns)).ok()?;
    ((first.identity, first.epoch) == (last.identity, last.epoch))
        .then(|| (pause_gained_ns(first.pause_us, last.pause_us), apart_ns))
}

impl Ways {
    /// The reflector that served the connection, where its echoes tell.
    pub(in crate::probe) fn identity(&self) -> Option<u32> {
        self.identity
    }

    /// Whether it notices its pauses and tells them.
    pub(in crate::probe) fn tells_pauses(&self) -> bool {
        self.tells_pauses
    }

    /// Whether a sample took no longer than others of late.
    fn is_in_time(&mut self, sample: &Stamped) -> bool {
        let took_ns = sample.read_ns.saturating_sub(sample.sent_ns);
        if self.reads.is_multiple_of(LATELY) {
            self.shortest = [self.shortest[1], None];
        }
        self.reads = self.reads.wrapping_add(1);
        self.shortest[1] = Some(self.shortest[1].map_or(took_ns, |shortest| shortest.min(took_ns)));
        let shortest = self.shortest.into_iter().flatten().min();
        shortest.is_some_and(|shortest| took_ns < shortest + IN_TIME_NS)
    }

    /// Echoes came. `free`: no stall or delay held them up.
    pub(in crate::probe) fn came(&mut self, last: Stamped, free: bool) {
        let usual = self.is_in_time(&last) && free;
        let (forward_ns, back_ns) = differences(&last);
        let (identity, epoch) = (last.stamps.identity, last.stamps.epoch);
        // After its clock was set there is no other reference than what comes.
        let anew = self.usual.is_none_or(|usual| usual.identity != identity);
        if usual || anew {
            self.usual = Some(Usual { forward_ns, back_ns, identity, epoch });
        }
        let (seq, frames, pause_us) = (last.seq, last.stamps.frames, last.stamps.pause_us);
        (self.last, self.calm) = (Some(Last { seq, frames, identity, pause_us }), usual);
        self.tells_pauses = last.stamps.tells_pauses;
        self.identity = Some(identity).filter(|&identity| identity != 0).or(self.identity);
    }

    /// How late the first echo after a silence was on each way. `None`: there is nothing to compare it with, or a clock
    /// was set in between.
    pub(in crate::probe) fn late(&self, first: &Stamped) -> Option<Late> {
        let stamps = &first.stamps;
        let same = |usual: &Usual| usual.identity == stamps.identity && usual.epoch == stamps.epoch;
        let usual = self.usual.filter(same)?;
        let (forward, back) = differences(first);
        let (forward, back) = (forward.wrapping_sub(usual.forward_ns), back.wrapping_sub(usual.back_ns));
        let slack = SLACK_NS + (first.read_ns - first.sent_ns) as i64 / SLACK_PART;
        let whole = forward.saturating_add(back);
        // No way is shorter than usual, nor longer than both together.
        let bounded = |way: i64| (-slack..=whole.saturating_add(slack)).contains(&way);
        let ways = |way: i64| way.max(0) as u64;
        let (forward_ns, back_ns, calm) = (ways(forward), ways(back), self.calm);
        (bounded(forward) && bounded(back)).then_some(Late { forward_ns, back_ns, calm })
    }

    /// For how long the reflector did not run, up to when it read the request, which waited for that; by what it had counted when
    /// the latest echo came.
    pub(in crate::probe) fn request_waited_ns(&self, sample: &Stamped) -> u64 {
        let stamps = &sample.stamps;
        let last = self.last.filter(|last| stamps.waited && last.identity == stamps.identity);
        last.map_or(0, |last| pause_gained_ns(last.pause_us, stamps.pause_us))
    }

    /// UDP: of the datagrams between the last echo before a silence and the first after it, how many the reflector
    /// received, by its count. `counts`: it is known to count; one that does not repeats the number of each sample, as
    /// though nothing had been lost on the way there.
    pub(in crate::probe) fn counted(&self, first: &Stamped, counts: bool) -> Option<Datagrams> {
        if !counts && first.stamps.frames == first.seq as u32 {
            return None;
        }
        let last = self.last.filter(|last| last.identity == first.stamps.identity)?;
        let missing = first.seq.checked_sub(last.seq + 1)?;
        let received = first.stamps.frames.wrapping_sub(last.frames).checked_sub(1)?;
        // More than there were: it counts others too, or began anew.
        (u64::from(received) <= missing).then_some(Datagrams { missing, received: received.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_wire::ReflectorStamps;

    const MS: i64 = 1_000_000;
    /// The reflector's clock is ahead by this.
    const AHEAD: i64 = 1_700_000_000_000 * MS;

    fn sample(seq: u64, sent: i64, received: i64, answered: i64, read: i64) -> Stamped {
        let stamps = ReflectorStamps {
            received_ns: AHEAD + received * MS,
            sent_ns: AHEAD + answered * MS,
            frames: seq as u32,
            identity: 5,
            ..ReflectorStamps::default()
        };
        Stamped { seq, sent_ns: (sent * MS) as u64, read_ns: (read * MS) as u64, stamps }
    }

    fn usual() -> Ways {
        let mut ways = Ways::default();
        ways.came(sample(0, 0, 1, 1, 2), true);
        ways
    }

    #[test]
    fn each_direction_is_compared_with_usual() {
        let late =
            |first| usual().late(&first).map(|late| (late.forward_ns / MS as u64, late.back_ns / MS as u64));
        assert_eq!(late(sample(1, 100, 3_101, 3_101, 3_102)), Some((3_000, 0)));
        assert_eq!(late(sample(1, 100, 101, 101, 3_102)), Some((0, 3_000)));
        // In the reflector itself it took 3 s.
        assert_eq!(late(sample(1, 100, 101, 3_101, 3_102)), Some((0, 0)));
    }

    #[test]
    fn impossible_delays_mean_a_clock_step() {
        // Row 12: a way that took 16.5 s within 6.5 s.
        for step in [-10_000, -4_000, 4_000, 10_000] {
            let first = sample(1, 100, 101 + step, 101 + step, 6_602);
            let late = usual().late(&first);
            assert!(late.is_none() || step == 4_000, "{step}: {late:?}");
        }
        // One that fits is told by the reflector: its clock is of another epoch.
        let mut first = sample(1, 100, 101 + 4_000, 101 + 4_000, 6_602);
        first.stamps.epoch = 1;
        assert_eq!(usual().late(&first), None);
    }

    #[test]
    fn echo_after_late_echo_is_not_calm() {
        let mut ways = usual();
        ways.came(sample(1, 100, 2_001, 2_001, 4_002), false);
        let late =
            ways.late(&sample(2, 150, 4_101, 4_101, 4_102)).expect("it is compared with what is usual");
        assert!(!late.calm && usual().late(&sample(1, 100, 3_101, 3_101, 3_102)).expect("so is this").calm);
    }

    #[test]
    fn count_tells_how_many_datagrams_arrived() {
        let counted = |frames| {
            let mut first = sample(10, 900, 901, 901, 902);
            first.stamps.frames = frames;
            usual().counted(&first, true).map(|datagrams| (datagrams.missing, datagrams.received))
        };
        assert_eq!(counted(1), Some((9, 0)), "lost on the way there");
        assert_eq!(counted(10), Some((9, 9)), "on the way back");
        assert_eq!(counted(4), Some((9, 3)));
        assert_eq!(counted(40), None, "the count is not of this connection alone");
        let mut other = sample(10, 900, 901, 901, 902);
        other.stamps.identity = 6;
        assert_eq!(usual().counted(&other, true), None, "another reflector's count");
    }
    #[test]
    fn count_equal_to_sequence_is_ambiguous() {
        let counted = |frames| {
            let mut first = sample(10, 900, 901, 901, 902);
            first.stamps.frames = frames;
            usual().counted(&first, false).map(|datagrams| (datagrams.missing, datagrams.received))
        };
        assert_eq!(counted(10), None, "a stateless STAMP reflector repeats it, whichever way was lost");
        assert_eq!(counted(1), Some((9, 0)), "this one does not");
    }
}
