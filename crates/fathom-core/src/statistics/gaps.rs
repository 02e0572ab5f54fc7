//! What the first echo after a silence costs, gap by gap.

use super::group::Group;
use crate::gaps::gap_before;
use crate::sample::Sample;
use std::collections::BTreeMap;

/// Connections that are remembered, so that a run that connects anew for weeks takes bounded memory: only the latest
/// sample of each is needed, and only while it lives.
const CONNECTIONS_KEPT: usize = 4_096;

/// The samples around one gap.
#[derive(Debug, Clone, Default)]
pub struct Gap {
    /// Its length, in ns.
    pub gap_ns: u64,
    /// The first samples after it.
    pub first: Group,
    /// Those that followed back to back.
    pub warm: Group,
}

/// The samples of a run with silences, by the gap before them.
#[derive(Debug, Clone, Default)]
pub struct Gaps {
    /// A gap each, as asked for. Empty: the run has no silences.
    pub all: Vec<Gap>,
    lengths_ns: Vec<u64>,
    /// When the latest sample of each connection was answered, and the gap that it belongs to.
    latest: BTreeMap<u32, (i64, Option<usize>)>,
}

impl Gaps {
    /// Gaps of these lengths, in ns.
    pub fn new(lengths_ns: &[u64]) -> Self {
        let gap = |&gap_ns| Gap { gap_ns, ..Gap::default() };
        Self {
            all: lengths_ns.iter().map(gap).collect(),
            lengths_ns: lengths_ns.to_vec(),
            latest: BTreeMap::new(),
        }
    }

    /// Adds a resolved sample; those of a connection come in their order. One whose silence is no gap of the plan (it
    /// follows a handshake, or the wall clock was set meanwhile) is of no gap, and those that follow it are not either.
    pub(super) fn sample(&mut self, sample: &Sample) {
        let before = self.latest.remove(&sample.connection);
        let due_ns = sample.sent_ns - sample.lateness_ns;
        let silent_ns = before.map(|(answered_ns, _)| due_ns - answered_ns);
        let first = silent_ns.and_then(|ns| gap_before(&self.lengths_ns, ns));
        let follows = silent_ns.is_some_and(|ns| ns.unsigned_abs() <= self.shortest_ns() / 2);
        let warm = before.filter(|_| follows).and_then(|(_, gap)| gap);
        match (first, warm) {
            (Some(gap), _) => self.all[gap].first.sample(sample),
            (None, Some(gap)) => self.all[gap].warm.sample(sample),
            (None, None) => {}
        }
        if let Some(rtt_ns) = sample.rtt_ns {
            self.latest.insert(sample.connection, (sample.sent_ns + rtt_ns, first.or(warm)));
        }
        if self.latest.len() > CONNECTIONS_KEPT {
            self.latest.pop_first();
        }
    }

    fn shortest_ns(&self) -> u64 {
        self.lengths_ns.iter().copied().min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaps::{GapPlan, WARM};
    use crate::sample::Flags;
    use crate::schedule::{Pace, Schedule};

    const MS: u64 = 1_000_000;

    /// A connection's samples as a probe would send them: the first after a silence takes 9 ms, another 1 ms, and each
    /// is sent 200 us after it was due.
    fn samples(connection: u32, gaps_ns: &[u64], count: u64, step_at: Option<(u64, i64)>) -> Vec<Sample> {
        let mut plan = GapPlan::new(gaps_ns, 7);
        let mut schedule = Schedule::new(Pace::PingPong, 0, Some(count), None);
        let mut wait = 0;
        let sample = |seq| {
            let due = schedule.next_due_ns().unwrap();
            let sent = due + MS / 5;
            assert_eq!(schedule.take(sent), Some(due));
            let rtt = if wait > 0 { 9 * MS } else { MS };
            let flags = if plan.is_opening() { Flags::WARM_UP } else { Flags::default() };
            wait = plan.after_echo();
            schedule.resolved(sent + rtt + wait);
            let step = step_at.filter(|(at, _)| seq >= *at).map_or(0, |(_, step)| step);
            Sample {
                connection,
                seq,
                sent_ns: sent as i64 + step,
                lateness_ns: (MS / 5) as i64,
                rtt_ns: Some(rtt as i64),
                flags,
                ..Sample::default()
            }
        };
        (0..count).map(sample).collect()
    }

    #[test]
    fn first_and_warm_samples_find_their_gap() {
        let lengths = [10 * MS, 100 * MS, 1_000 * MS];
        let mut gaps = Gaps::new(&lengths);
        let rounds = 5;
        let count = (1 + u64::from(WARM)) * (1 + 3 * rounds);
        // Two connections, one a sample behind the other.
        let (one, other) = (samples(0, &lengths, count, None), samples(1, &lengths, count, None));
        for (one, other) in one.iter().zip(&other) {
            gaps.sample(one);
            gaps.sample(other);
        }
        for gap in &gaps.all {
            assert_eq!((gap.first.samples, gap.warm.samples), (2 * rounds, 2 * rounds * u64::from(WARM)));
            assert_eq!((gap.first.rtt.min(), gap.first.rtt.max()), (Some(9 * MS), Some(9 * MS)));
            assert_eq!((gap.warm.rtt.min(), gap.warm.rtt.max()), (Some(MS), Some(MS)));
        }
    }

    #[test]
    fn unknown_silence_excludes_its_burst() {
        let lengths = [1_000 * MS];
        let mut gaps = Gaps::new(&lengths);
        // The wall clock is set by an hour before the second burst after a gap.
        for sample in samples(0, &lengths, 16, Some((8, 3_600_000_000_000))) {
            gaps.sample(&sample);
        }
        assert_eq!((gaps.all[0].first.samples, gaps.all[0].warm.samples), (2, 6), "of three bursts");
    }
}
