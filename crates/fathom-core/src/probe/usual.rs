//! What round trips of a path usually take, and so from when on a silence is a stall.
//!
//! Round trips that a silence held up say how long the silence was and nothing about the path: learned from, they would
//! hide the next one. Yet where every round trip is long, being long is no silence. So all are kept, each with the silence
//! that it waited in, and the threshold is the smallest one that agrees with itself: four times the p99 of the round trips
//! whose silences were shorter than it, found from below (four times the median). It depends on what was measured and not
//! on the order in which it came: equal paths have equal thresholds.
//!
//! A path that has become slower for good shows itself in another way: nearly every round trip is held up, by one short
//! stall after another. Then those are the usual ones.

use super::hold_up::HoldUp;
use crate::histogram::Histogram;
use crate::stall::{self, FLOOR_NS};
use std::collections::{BTreeMap, VecDeque};

/// The window is this many slices...
const SLICES: usize = 10;
/// ...of a minute at the least, ten minutes in all...
const SLICE_NS: u64 = 60_000_000_000;
/// ...and longer where a minute has fewer round trips than a percentile of the window needs: 10 x 30 are the 299 that
/// p99 needs (see [`crate::histogram::supports`]).
const SLICE_COUNT: u64 = 30;
/// Fewer round trips than this say nothing about a path.
const FEW: u64 = 10;
/// A path has changed when of so many round trips...
const LATEST: usize = 32;
/// ...so many were held up...
const HELD_UP: usize = 24;
/// ...by this many stalls, one after another: a single one holds up any number of samples and connections.
const STALLS: usize = 8;
/// The percentile is computed anew when there are this many more round trips (a part of those counted), since it is
/// not free.
const RECOUNT_PART: u64 = 16;

/// The window over a path's round trips.
#[derive(Debug, Default)]
pub(super) struct Usual {
    slices: VecDeque<RoundTrips>,
    slice_began_ns: u64,
    /// Of the latest round trips: how long, and which stall held it up.
    latest: VecDeque<(i64, Option<u64>)>,
    /// Stalls of the path that did not overlap.
    stalls: u64,
    stalled_until_ns: u64,
    silent_until_ns: u64,
    counted: u64,
    recount_at: u64,
    p99_ns: Option<u64>,
}

/// Round trips of a part of the window, by the silence that they waited in: those of none that is longer than the floor, and
/// the others by its class.
#[derive(Debug, Default)]
struct RoundTrips {
    short: Histogram,
    long: BTreeMap<u32, HeldUp>,
}

/// Round trips that silences of about one length held up.
#[derive(Debug, Default)]
struct HeldUp {
    all: Histogram,
    /// How many silences: however many samples and connections one held up, it is one.
    silences: u64,
}

impl RoundTrips {
    fn record(&mut self, rtt_ns: i64, silence_ns: u64, is_new: bool) {
        if silence_ns <= FLOOR_NS {
            return self.short.record(rtt_ns);
        }
        let held_up = self.long.entry(class_of(silence_ns)).or_default();
        held_up.all.record(rtt_ns);
        held_up.silences += u64::from(is_new);
    }

    fn merge(&mut self, other: &Self) {
        self.short.merge(&other.short);
        for (class, held_up) in &other.long {
            let mine = self.long.entry(*class).or_default();
            mine.all.merge(&held_up.all);
            mine.silences += held_up.silences;
        }
    }

    fn count(&self) -> u64 {
        self.short.count() + self.long.values().map(|held_up| held_up.all.count()).sum::<u64>()
    }

    /// Half of them take this or less, where a silence counts once.
    fn median_ns(&self) -> Option<u64> {
        let short = self.short.count();
        let all = short + self.long.values().map(|held_up| held_up.silences).sum::<u64>();
        let (half, mut seen) = (all.div_ceil(2), short);
        if all < FEW {
            return None;
        }
        if half <= short {
            return self.short.quantile(half as f64 / short as f64);
        }
        let within = |(class, held_up): (&u32, &HeldUp)| {
            seen += held_up.silences;
            (seen >= half).then(|| from_ns(*class))
        };
        self.long.iter().find_map(within)
    }

    /// The p99 of those whose silences were shorter than four times it, whatever came in stalls; the largest, while there are too
    /// few for it.
    fn usual_p99_ns(self) -> Option<u64> {
        let mut p99_ns = self.median_ns()?;
        let mut usual = self.short;
        for (class, held_up) in self.long {
            p99_ns = p99_ns.max(tail_of(&usual));
            // No silence of the class is a stall.
            if from_ns(class + 1) > stall::threshold_ns(Some(p99_ns)) {
                return Some(p99_ns);
            }
            usual.merge(&held_up.all);
        }
        Some(p99_ns.max(tail_of(&usual)))
    }
}

fn tail_of(round_trips: &Histogram) -> u64 {
    round_trips.supported_quantile(0.99).or(round_trips.max()).unwrap_or(0)
}

/// Of a silence longer than the floor. Four classes an octave.
fn class_of(silence_ns: u64) -> u32 {
    (4.0 * (silence_ns as f64 / FLOOR_NS as f64).log2()) as u32
}

/// The shortest silence of a class.
fn from_ns(class: u32) -> u64 {
    (FLOOR_NS as f64 * (f64::from(class) / 4.0).exp2()) as u64
}

/// The silence that a sample waited in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waited {
    silence_ns: u64,
    /// It is the one whose echo ended it.
    first: bool,
}

/// The silence of a connection that samples waited in last, whatever counts as a stall just then.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LastSilence {
    duration_ns: u64,
    hold_up: HoldUp,
}

impl Waited {
    /// A round trip that waited for no other.
    pub(super) fn for_itself(rtt_ns: u64) -> Self {
        Self { silence_ns: rtt_ns, first: true }
    }

    /// The same, where more than its own silence is known to be unusual.
    pub(super) fn at_least(self, silence_ns: u64) -> Self {
        Self { silence_ns: self.silence_ns.max(silence_ns), first: self.first }
    }
}

impl LastSilence {
    /// The echo of a sample came. `next`: the sample that will be sent next. `usual_ns`: what a round trip takes at the most.
    pub(super) fn came(&mut self, now_ns: u64, seq: u64, rtt_ns: u64, next: u64, usual_ns: u64) -> Waited {
        let held_up = self.hold_up.held_up(now_ns, seq, Some(rtt_ns), usual_ns);
        if held_up && rtt_ns <= self.duration_ns {
            return Waited { silence_ns: self.duration_ns, first: false };
        }
        if rtt_ns > FLOOR_NS {
            *self = Self { duration_ns: rtt_ns, hold_up: HoldUp::ended(now_ns, rtt_ns, next) };
        }
        Waited::for_itself(rtt_ns)
    }
}

impl Usual {
    /// A round trip ended at `now_ns`. `held_up`: it waited in what counts as a stall.
    pub(super) fn add(&mut self, now_ns: u64, rtt_ns: i64, waited: Waited, held_up: bool) {
        if self.latest.len() == LATEST {
            self.latest.pop_front();
        }
        self.latest.push_back((rtt_ns, held_up.then_some(self.stalls)));
        self.turn_slices(now_ns);
        let Waited { silence_ns, first } = waited;
        let is_new = first && now_ns.saturating_sub(silence_ns) >= self.silent_until_ns;
        if first && silence_ns > FLOOR_NS {
            self.silent_until_ns = now_ns;
        }
        if let Some(slice) = self.slices.back_mut() {
            slice.record(rtt_ns, silence_ns, is_new);
            self.counted += 1;
        }
        if held_up {
            self.see_whether_it_changed(now_ns);
        }
        // The first ones are not left for the next second.
        if self.p99_ns.is_none() {
            self.refresh();
        }
    }

    /// A stall of one of the path's connections is over.
    pub(super) fn stall_ended(&mut self, began_ns: u64, ended_ns: u64) {
        if began_ns >= self.stalled_until_ns {
            self.stalls += 1;
        }
        self.stalled_until_ns = self.stalled_until_ns.max(ended_ns);
    }

    /// The silence that counts as a stall.
    pub(super) fn threshold_ns(&self) -> u64 {
        stall::threshold_ns(self.p99_ns)
    }

    /// The 99th percentile of what is usual in the window; the largest, while there are too few for it; `None`: there
    /// are too few for anything.
    pub(super) fn p99_ns(&self) -> Option<u64> {
        self.p99_ns
    }

    /// Computes the percentile anew where enough has come since. Once a second is often enough.
    pub(super) fn refresh(&mut self) {
        if self.counted < self.recount_at {
            return;
        }
        let mut all = RoundTrips::default();
        self.slices.iter().for_each(|slice| all.merge(slice));
        self.recount_at = self.counted + (all.count() / RECOUNT_PART).max(1);
        self.p99_ns = all.usual_p99_ns();
    }

    fn turn_slices(&mut self, now_ns: u64) {
        let full = self.slices.back().is_none_or(|slice| {
            now_ns.saturating_sub(self.slice_began_ns) >= SLICE_NS && slice.count() >= SLICE_COUNT
        });
        if full {
            self.slice_began_ns = now_ns;
            self.slices.push_back(RoundTrips::default());
            if self.slices.len() > SLICES {
                self.slices.pop_front();
            }
        }
    }

    fn see_whether_it_changed(&mut self, now_ns: u64) {
        let stalls: Vec<u64> = self.latest.iter().filter_map(|(_, stall)| *stall).collect();
        let distinct = stalls.windows(2).filter(|pair| pair[0] != pair[1]).count() + 1;
        if stalls.len() < HELD_UP || distinct < STALLS {
            return;
        }
        let mut slice = RoundTrips::default();
        let latest = self.latest.drain(..).filter(|(_, stall)| stall.is_some());
        latest.for_each(|(rtt_ns, _)| slice.record(rtt_ns, 0, true));
        self.counted += slice.count();
        self.slices = VecDeque::from([slice]);
        self.slice_began_ns = now_ns;
        self.recount_at = 0;
        self.refresh();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const S: u64 = 1_000 * MS;

    fn steady(usual: &mut Usual, from_ns: u64, every_ns: u64, rtt_ns: u64, count: u64) -> u64 {
        for i in 0..count {
            usual.add(from_ns + i * every_ns, rtt_ns as i64, Waited::for_itself(rtt_ns), false);
            usual.refresh();
        }
        from_ns + count * every_ns
    }

    /// Late echoes of a stall come back: samples were sent every so often in it.
    fn stall(usual: &mut Usual, from_ns: u64, duration_ns: u64, every_ns: u64) -> u64 {
        let to_ns = from_ns + duration_ns;
        usual.stall_ended(from_ns, to_ns);
        for sent in (from_ns..to_ns).step_by(every_ns as usize) {
            let waited = Waited { silence_ns: duration_ns, first: sent == from_ns };
            usual.add(to_ns, (to_ns - sent) as i64, waited, true);
        }
        usual.refresh();
        to_ns
    }

    #[test]
    fn stall_echoes_do_not_hide_next_stall() {
        for every in [S, 50 * MS, 5 * MS] {
            let mut usual = Usual::default();
            let mut now = steady(&mut usual, 0, every, MS, 60 * S / every);
            for _ in 0..5 {
                now = stall(&mut usual, now, 5 * S, every);
                assert_eq!(usual.threshold_ns(), FLOOR_NS, "every {every} ns");
                now = steady(&mut usual, now, every, MS, 2 * S / every);
            }
            let now = stall(&mut usual, now, 30 * S, every);
            steady(&mut usual, now, every, MS, 1);
            assert_eq!(usual.threshold_ns(), FLOOR_NS, "every {every} ns");
        }
    }

    #[test]
    fn a_freeze_of_many_connections_is_one_stall() {
        let mut usual = Usual::default();
        let now = steady(&mut usual, 0, 10 * MS, MS, 1_000);
        for _ in 0..100 {
            // Each connection's own, all at the same time, each with one sample.
            usual.stall_ended(now, now + 5 * S);
            usual.add(now + 5 * S, (5 * S) as i64, Waited::for_itself(5 * S), true);
        }
        usual.refresh();
        assert_eq!(usual.threshold_ns(), FLOOR_NS);
    }

    #[test]
    fn slower_path_becomes_usual() {
        let mut usual = Usual::default();
        let mut now = steady(&mut usual, 0, S, 100 * MS, 600);
        assert_eq!(usual.threshold_ns(), 400 * MS);
        // At ten times the round trip every sample is a short stall of its own.
        let mut stalls = 0;
        while usual.threshold_ns() < S && stalls < 1_000 {
            usual.stall_ended(now, now + S - 1);
            usual.add(now + S - 1, S as i64, Waited::for_itself(S), true);
            now += S;
            stalls += 1;
        }
        assert!(stalls < 40, "{stalls} stalls before it was usual");
        assert!((3_900 * MS..4_100 * MS).contains(&usual.threshold_ns()), "{}", usual.threshold_ns());
    }

    #[test]
    fn faster_path_becomes_usual_after_window() {
        let mut usual = Usual::default();
        let now = steady(&mut usual, 0, S, 500 * MS, 600);
        assert_eq!(usual.threshold_ns(), 2_000 * MS);
        steady(&mut usual, now, S, 100 * MS, 11 * 60);
        assert_eq!(usual.threshold_ns(), 400 * MS);
    }

    /// Of a lossy path most echoes come after a millisecond; some come after the sender's timeout, and others waited behind
    /// those. Six runs over one path told of 14, 0, 16, 17, 14 and 0 stalls: the early ones, from before anything was usual,
    /// were learned from or not.
    #[test]
    fn stall_count_is_independent_of_first_loss() {
        for first in 0..40 {
            let (mut usual, mut last, mut now, mut stalls) = (Usual::default(), LastSilence::default(), 0, 0);
            let mut seq = 0;
            while seq < 2_000 {
                // Every fortieth is lost, and held up four of 50 ms that follow.
                let lost = seq >= first && (seq - first) % 40 == 0;
                let (sent, waiting) = (now, if lost { 5 } else { 1 });
                let rtt = if lost { 210 * MS } else { MS };
                let held_up = rtt >= usual.threshold_ns();
                stalls += u64::from(held_up);
                for k in 0..waiting {
                    let rtt = rtt - k * 50 * MS;
                    let waited = last.came(sent + 210 * MS, seq + k, rtt, seq + waiting, MS);
                    usual.add(sent + 210 * MS, rtt as i64, waited, held_up);
                }
                if held_up {
                    usual.stall_ended(sent, sent + rtt);
                }
                usual.refresh();
                (seq, now) = (seq + waiting, now + waiting * 50 * MS);
            }
            assert_eq!(usual.threshold_ns(), FLOOR_NS, "first {first}");
            assert!((45..=50).contains(&stalls), "first {first}: {stalls}");
        }
    }

    #[test]
    fn long_round_trips_are_not_silences() {
        for rtt in [150, 201, 300, 800, 2_000] {
            let (mut usual, mut last) = (Usual::default(), LastSilence::default());
            // A hundred a second, so that many are under way.
            for seq in 0..3_000 {
                let now = seq * 10 * MS + rtt * MS;
                let usual_ns = usual.p99_ns().unwrap_or(S);
                let waited = last.came(now, seq, rtt * MS, now / (10 * MS) + 1, usual_ns);
                usual.add(now, (rtt * MS) as i64, waited, false);
                usual.refresh();
            }
            assert!(
                (3_990 * rtt..=4_000 * rtt).contains(&(usual.threshold_ns() / 1_000)),
                "{rtt}: {}",
                usual.threshold_ns()
            );
        }
    }

    proptest! {
        /// The threshold is one that agrees with itself: what came in silences of that length is no part of it; and it is the same
        /// in whatever order the silences came.
        #[test]
        fn threshold_ignores_stalls_and_order(
            mut silences in vec((prop_oneof![1_u64..30, 190_u64..2_000], 0_u64..5), 20..250),
            seed in any::<u64>(),
        ) {
            let threshold = |silences: &[(u64, u64)]| {
                let mut usual = Usual::default();
                for (at, (silence, behind)) in silences.iter().enumerate() {
                    // None overlaps with the one before, and all are in the window, in whatever order.
                    let now = at as u64 * 2_000 * MS;
                    for k in 0..=*behind {
                        let rtt = silence * MS * (*behind + 1 - k) / (*behind + 1);
                        usual.add(now, rtt as i64, Waited { silence_ns: silence * MS, first: k == 0 }, false);
                    }
                }
                usual.recount_at = 0;
                usual.refresh();
                usual
            };
            let before = threshold(&silences);
            let mut shorter = silences.clone();
            shorter.retain(|(silence, _)| silence * MS < before.threshold_ns());
            // One that counts as none is as many as its samples.
            let weight = |some: &[(u64, u64)]| -> u64 {
                some.iter().map(|&(silence, behind)| if silence * MS <= FLOOR_NS { 1 + behind } else { 1 }).sum()
            };
            prop_assert!(2 * weight(&shorter) >= weight(&silences));
            silences.sort_by_key(|&(silence, behind)| silence.wrapping_mul(seed | 1).rotate_left(17) ^ behind);
            prop_assert_eq!(threshold(&silences).threshold_ns(), before.threshold_ns());
            let of_shorter = threshold(&shorter).threshold_ns();
            prop_assert!(of_shorter <= before.threshold_ns(), "{} of {}", of_shorter, before.threshold_ns());
        }
    }
}
