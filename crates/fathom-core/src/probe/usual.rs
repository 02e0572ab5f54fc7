//! The usual round trips of a path, and the silence that counts as a stall.
//!
//! A round trip that a silence held up measures the silence, not the path. Learned from, it would hide the next silence. But
//! where every round trip is long, a long one is no silence. So every round trip is kept, with the silence that it waited in,
//! and the threshold is found from below: starting at the median, it is four times the p99 of the round trips whose silences
//! were shorter. One silence is one observation, however many samples waited in it. The threshold depends on what was
//! measured, not on its order.
//!
//! A path that becomes slower for good holds up nearly every round trip, by one short stall after another. Those then become
//! the usual ones.

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

/// Round trips of a part of the window, by the class of the silence that they waited in.
#[derive(Debug, Default)]
struct RoundTrips {
    classes: BTreeMap<u32, HeldUp>,
}

/// Round trips that waited in silences of about one length.
#[derive(Debug, Default)]
struct HeldUp {
    /// The first round trip of each silence.
    firsts: Histogram,
    /// All round trips, those of many samples and connections in one silence included.
    all: u64,
}

impl RoundTrips {
    fn record(&mut self, rtt_ns: i64, silence_ns: u64, is_new: bool) {
        let held_up = self.classes.entry(class_of(silence_ns)).or_default();
        held_up.all += 1;
        if is_new {
            held_up.firsts.record(rtt_ns);
        }
    }

    fn merge(&mut self, other: &Self) {
        for (class, held_up) in &other.classes {
            let mine = self.classes.entry(*class).or_default();
            mine.firsts.merge(&held_up.firsts);
            mine.all += held_up.all;
        }
    }

    fn count(&self) -> u64 {
        self.classes.values().map(|held_up| held_up.all).sum()
    }

    /// Half of the silences take this or less.
    fn median_ns(&self) -> Option<u64> {
        let mut all = Histogram::default();
        self.classes.values().for_each(|held_up| all.merge(&held_up.firsts));
        (self.count() >= FEW).then(|| all.quantile(0.5)).flatten()
    }

    /// The p99 of the silences that are shorter than four times it; the largest, while there are too few for it.
    fn usual_p99_ns(self) -> Option<u64> {
        let mut p99_ns = self.median_ns()?;
        let mut usual = Histogram::default();
        for (class, held_up) in self.classes {
            if from_ns(class + 1) > stall::TIMES_P99 * p99_ns {
                break;
            }
            usual.merge(&held_up.firsts);
            p99_ns = p99_ns.max(tail_of(&usual));
        }
        Some(p99_ns)
    }
}

fn tail_of(round_trips: &Histogram) -> u64 {
    round_trips.supported_quantile(0.99).or(round_trips.max()).unwrap_or(0)
}

/// The class of a silence: four an octave.
fn class_of(silence_ns: u64) -> u32 {
    let silence_ns = silence_ns.max(4);
    let octave = silence_ns.ilog2();
    4 * octave + (silence_ns >> (octave - 2)) as u32 % 4
}

/// The shortest silence of a class.
fn from_ns(class: u32) -> u64 {
    u64::from(4 + class % 4) << (class / 4 - 2)
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
    /// The last sample: when it was sent, and when its echo came.
    sent_ns: u64,
    came_ns: u64,
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
        let held_up =
            self.duration_ns > FLOOR_NS && self.hold_up.held_up(now_ns, seq, Some(rtt_ns), usual_ns);
        let behind = self.is_behind(now_ns, rtt_ns) || held_up && rtt_ns <= self.duration_ns;
        (self.sent_ns, self.came_ns) = (now_ns.saturating_sub(rtt_ns), now_ns);
        if behind {
            return Waited { silence_ns: self.duration_ns, first: false };
        }
        self.duration_ns = rtt_ns;
        if rtt_ns > FLOOR_NS {
            self.hold_up = HoldUp::ended(now_ns, rtt_ns, next);
        }
        Waited::for_itself(rtt_ns)
    }

    /// Whether the echo came right after the one before, though the sample was sent well after it: both waited for one thing.
    fn is_behind(&self, now_ns: u64, rtt_ns: u64) -> bool {
        let sent_ns = now_ns.saturating_sub(rtt_ns);
        let sent_apart_ns = sent_ns.saturating_sub(self.sent_ns);
        sent_ns < self.came_ns && 2 * now_ns.saturating_sub(self.came_ns) < sent_apart_ns
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

    /// The stalls of one connection with a sample each 10 ms, whose reflector freezes at these times for so long.
    fn stalls_of(freezes: &[(u64, u64)], rtt_ns: u64) -> Vec<u64> {
        let (mut usual, mut last, mut stalls) = (Usual::default(), LastSilence::default(), Vec::new());
        let every = 10 * MS;
        let end = freezes.iter().map(|(at, _)| at + 2 * S).max().unwrap_or(0);
        for seq in 0..end / every {
            let sent = seq * every;
            let frozen = freezes.iter().find(|(at, ns)| (*at..at + ns).contains(&sent));
            let came = frozen.map_or(sent, |(at, ns)| at + ns) + rtt_ns;
            let held_up = frozen.is_some_and(|(_, ns)| ns + rtt_ns >= usual.threshold_ns());
            if let Some((at, ns)) = frozen.filter(|(at, _)| held_up && sent < at + every) {
                stalls.push(*ns);
                usual.stall_ended(*at, came);
            }
            let usual_ns = usual.p99_ns().unwrap_or(S);
            let waited = last.came(came, seq, came - sent, came / every + 1, usual_ns);
            usual.add(came, (came - sent) as i64, waited, held_up);
            usual.refresh();
        }
        stalls
    }

    #[test]
    fn smaller_freeze_hides_no_later_one() {
        let length = |n| if n == 0 { 150 * MS } else { 350 * MS };
        let freezes: Vec<_> = (0..13).map(|n| (S + n * 500 * MS, length(n))).collect();
        assert_eq!(stalls_of(&freezes, MS / 5), vec![350 * MS; 12]);
    }

    /// The laws, in so many cases.
    macro_rules! laws {
        ($cases:expr) => {
            proptest! {
                #![proptest_config(ProptestConfig::with_cases($cases))]

                /// Every freeze above the floor is a stall, in any order of the freezes.
                #[test]
                fn stalls_do_not_depend_on_fault_order(
                    lengths in vec(prop_oneof![5_u64..190, 210_u64..1_500], 1..40),
                    apart_ms in 1_600_u64..5_000,
                    rtt_us in 50_u64..1_000,
                ) {
                    let freezes: Vec<_> =
                        lengths.iter().enumerate().map(|(n, ms)| (S + n as u64 * apart_ms * MS, ms * MS)).collect();
                    let longer: Vec<_> = lengths.iter().map(|ms| ms * MS).filter(|ns| *ns > FLOOR_NS).collect();
                    prop_assert_eq!(stalls_of(&freezes, rtt_us * 1_000), longer);
                }

                /// The threshold agrees with itself: no silence of its length is a part of it. It is the same in every order of silences.
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
                    prop_assert!(2 * shorter.len() >= silences.len());
                    silences.sort_by_key(|&(silence, behind)| silence.wrapping_mul(seed | 1).rotate_left(17) ^ behind);
                    prop_assert_eq!(threshold(&silences).threshold_ns(), before.threshold_ns());
                    let of_shorter = threshold(&shorter).threshold_ns();
                    prop_assert!(of_shorter <= before.threshold_ns(), "{} of {}", of_shorter, before.threshold_ns());
                }
            }
        };
    }

    laws!(50);

    mod acceptance {
        use super::*;

        laws!(256);
    }
}
