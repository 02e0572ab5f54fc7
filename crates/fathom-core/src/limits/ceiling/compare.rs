//! Whether a step is worse than those below it.
//!
//! Two things must hold. The windows of the step are higher than those below by the rank-sum test of Mann and Whitney ("On a
//! test of whether one of two random variables is stochastically larger than the other", Annals of Mathematical Statistics 18,
//! 1947), which asks nothing of how they are distributed, so that a few windows of a stall count for little. And the difference
//! is one that matters: [`LOSS`] and twice the loss below, or [`DELAY_NS`] and a quarter of the delay below, without the worst
//! quarter of the windows on either side.
//!
//! A connection that backs off loses little and late, because TCP joins what it may not send yet: packets become fewer, not later.
//! How many it joined is compared as losses are, and is the path's doing where a larger share of them is lost than below, by the
//! test of two shares; [`HELD_BACK`] of them matter.

use super::tally::Measured;
use crate::event::Began;

/// How far beyond chance, in standard deviations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beyond {
    /// Of ranks.
    ranks: f64,
    /// Of shares that were lost.
    shares: f64,
}

/// One in 100: far enough to try again.
pub(super) const DOUBT: Beyond = Beyond { ranks: 2.326_347_874_040_841, shares: 2.326_347_874_040_841 };
/// One in 2,000 of ranks, and one in 20,000 of shares, which losses by chance put to the proof at every step.
pub(super) const SURE: Beyond = Beyond { ranks: 3.290_526_731_491_926, shares: 3.890_591_886_413_094 };
/// The same where one of two tries was chosen because it was bad: one in 200,000 of shares.
pub(super) const CHOSEN: Beyond = Beyond { ranks: SURE.ranks, shares: 4.417_173_413_469_022 };

/// The loss that matters.
const LOSS: f64 = 0.01;
/// The share of packets which TCP joined with others that matters, where more is lost too...
const HELD_BACK: f64 = 0.05;
/// ...and that from which a rate was not reached, whatever is lost.
const NOT_REACHED: f64 = 0.1;
/// The delay that matters.
const DELAY_NS: f64 = 2_000_000.0;
/// This share of the windows, the worst, is left out of a mean: a moment is no ceiling.
const LEFT_OUT: f64 = 0.25;

/// Whether these windows are worse than those below.
pub(super) fn worse(below: &[Measured], step: &[Measured], sure: Beyond) -> Option<Began> {
    let (loss, delay) = (losses(below, step), delays(below, step));
    began(surely_above(&loss, sure) && more_lost(&loss), surely_above(&delay, sure) && later(&delay))
}

/// Whether TCP joined packets in these windows, and lost a larger share of them than in all below. `sure`: of both.
pub(super) fn held_back(all: &[Measured], step: &[Measured], sure: Beyond) -> Option<Began> {
    let joined = [all, step].map(|windows| windows.iter().map(|window| window.joined).collect::<Vec<_>>());
    let shares = Shares::of(all, step);
    let held = surely_above(&joined, sure) && usual(&joined[1]) >= HELD_BACK;
    // Three times, as in `worse_than_any`; both must be so, so that less is asked of each.
    (held && shares.more() >= sure.ranks * shares.spread && shares.is_three_times())
        .then_some(Began::HeldBack)
}

/// Whether TCP joined so many packets in most of these windows that the rate was not reached.
pub(super) fn is_not_reached(step: &[Measured]) -> bool {
    joined(step) >= NOT_REACHED
}

fn joined(step: &[Measured]) -> f64 {
    usual(&step.iter().map(|window| window.joined).collect::<Vec<_>>())
}

/// What was lost below and in a step, of all packets that were due.
#[derive(Debug, Clone, Copy)]
struct Shares {
    below: f64,
    step: f64,
    /// The standard deviation of their difference where both lose alike.
    spread: f64,
}

impl Shares {
    fn of(all: &[Measured], step: &[Measured]) -> Self {
        let [(lost_below, below), (lost, due)] = [all, step].map(|windows| {
            let due: f64 = windows.iter().map(|window| window.due as f64).sum();
            (windows.iter().map(|window| window.loss * window.due as f64).sum::<f64>(), due)
        });
        let pooled = (lost_below + lost) / (below + due);
        let spread = (pooled * (1.0 - pooled).max(0.0) * (1.0 / below + 1.0 / due)).sqrt();
        Self { below: lost_below / below, step: lost / due, spread }
    }

    fn more(self) -> f64 {
        self.step - self.below
    }

    /// What is below was chosen because it was good.
    fn is_three_times(self) -> bool {
        self.step >= 3.0 * self.below && self.step > 0.0
    }
}

/// Whether they are worse than those at the lowest rates in their delay, or than all below them in what is lost.
///
/// A window at a low rate has so few packets that its loss is mostly none and sometimes much, and a connection that backs off
/// loses in few windows: what was lost is compared in all, by the normal approximation of two shares. So a moment counts;
/// whoever calls tries again.
pub(super) fn worse_than_any(
    lowest: &[Measured],
    all: &[Measured],
    step: &[Measured],
    sure: Beyond,
) -> Option<Began> {
    let delay = delays(lowest, step);
    let shares = Shares::of(all, step);
    let more = shares.more() >= (sure.shares * shares.spread).max(LOSS) && shares.is_three_times();
    began(more, surely_above(&delay, sure) && later(&delay))
}

/// Whether the difference would matter, if it were sure.
pub(super) fn matters(below: &[Measured], step: &[Measured]) -> bool {
    began(more_lost(&losses(below, step)), later(&delays(below, step))).is_some() || joined(step) >= HELD_BACK
}

fn losses(below: &[Measured], step: &[Measured]) -> [Vec<f64>; 2] {
    [below, step].map(|windows| windows.iter().map(|window| window.loss).collect())
}

fn delays(below: &[Measured], step: &[Measured]) -> [Vec<f64>; 2] {
    [below, step].map(|windows| windows.iter().map(|window| window.delay_ns as f64).collect())
}

fn more_lost([below, step]: &[Vec<f64>; 2]) -> bool {
    let (below, step) = (usual(below), usual(step));
    step - below >= LOSS && step >= 2.0 * below
}

fn later([below, step]: &[Vec<f64>; 2]) -> bool {
    let (below, step) = (usual(below), usual(step));
    step - below >= DELAY_NS.max(below / 4.0)
}

fn surely_above([below, step]: &[Vec<f64>; 2], sure: Beyond) -> bool {
    rank_sum(below, step) >= sure.ranks
}

fn began(lost: bool, delayed: bool) -> Option<Began> {
    match (lost, delayed) {
        (false, false) => None,
        (true, false) => Some(Began::Loss),
        (false, true) => Some(Began::Delay),
        (true, true) => Some(Began::Both),
    }
}

/// The mean without the worst.
pub(super) fn usual(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.truncate(sorted.len() - (sorted.len() as f64 * LEFT_OUT) as usize);
    if sorted.is_empty() { 0.0 } else { sorted.iter().sum::<f64>() / sorted.len() as f64 }
}

/// By how many standard deviations the second sample's ranks are above what chance gives (with the correction for ties).
fn rank_sum(below: &[f64], step: &[f64]) -> f64 {
    let (m, n) = (below.len() as f64, step.len() as f64);
    let mut all: Vec<(f64, bool)> = below.iter().map(|value| (*value, false)).collect();
    all.extend(step.iter().map(|value| (*value, true)));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut ranks, mut ties, mut before) = (0.0, 0.0, 0.0);
    for equal in all.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        let times = equal.len() as f64;
        let rank = before + f64::midpoint(times, 1.0);
        ranks += rank * equal.iter().filter(|(_, is_step)| *is_step).count() as f64;
        ties += times * times * times - times;
        before += times;
    }
    let total = m + n;
    let spread = m * n / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if spread > 0.0 { (ranks - n * (total + 1.0) / 2.0) / spread.sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of `SciPy`'s `mannwhitneyu(x, y, use_continuity=False, method="asymptotic")`, whose p is of this z.
    #[test]
    fn ranks_are_those_of_mann_and_whitney() {
        for (below, step, z) in RANKS {
            let found = rank_sum(below, step);
            assert!((found - z).abs() < 1e-6, "{below:?} {step:?}: {found}");
        }
        assert!(rank_sum(&[1.0; 9], &[1.0; 5]).abs() < 1e-12);
    }

    type Ranks = (&'static [f64], &'static [f64], f64);
    const RANKS: [Ranks; 3] = [
        (&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0], 2.611_165),
        (&[0.0, 0.0, 0.0, 1.0, 0.0, 2.0], &[0.0, 3.0, 1.0, 1.0], 1.153_164),
        (&[5.0, 6.0, 7.0], &[1.0, 2.0, 9.0, 3.0], -1.060_660),
    ];

    fn windows(delays_ms: &[u64], loss: f64) -> Vec<Measured> {
        delays_ms
            .iter()
            .map(|ms| Measured { due: 100, loss, delay_ns: ms * 1_000_000, joined: 0.0 })
            .collect()
    }

    #[test]
    fn held_back_needs_joined_packets_and_loss() {
        let windows = |joined: f64, loss: f64| vec![Measured { due: 100, loss, delay_ns: 1, joined }; 20];
        let below = windows(0.0, 0.000_5).repeat(5);
        assert_eq!(held_back(&below, &windows(0.38, 0.005), SURE), Some(Began::HeldBack));
        // Nothing is lost, or no more than below; or next to nothing was joined.
        assert_eq!(held_back(&below, &windows(0.38, 0.0), DOUBT), None);
        assert_eq!(held_back(&windows(0.0, 0.005), &windows(0.38, 0.005), DOUBT), None);
        assert_eq!(held_back(&below, &windows(0.04, 0.005), DOUBT), None);
        // A moment: five windows of twenty, which lost all there was to lose.
        let moment = [windows(0.0, 0.0).split_off(5), windows(0.9, 0.02).split_off(15)].concat();
        assert!(!is_not_reached(&moment) && held_back(&below, &moment, DOUBT).is_none());
        // It was as bad below: none of this step's doing.
        assert_eq!(held_back(&windows(0.38, 0.000_5), &windows(0.38, 0.005), SURE), None);
    }

    #[test]
    fn only_lasting_change_is_worse() {
        let below = windows(&[1; 40], 0.0);
        let moment: Vec<u64> = (0..20).map(|n| if n < 5 { 900 } else { 1 }).collect();
        assert_eq!(worse(&below, &windows(&moment, 0.0), SURE), None);
        assert_eq!(worse(&below, &windows(&[4; 20], 0.0), SURE), Some(Began::Delay));
        assert_eq!(worse(&below, &windows(&[1; 20], 0.02), SURE), Some(Began::Loss));
        assert_eq!(worse(&below, &windows(&[9; 20], 0.2), SURE), Some(Began::Both));
        // What is sure and does not matter.
        assert_eq!(worse(&below, &windows(&[2; 20], 0.009), SURE), None);
        assert_eq!(worse(&windows(&[100; 40], 0.0), &windows(&[110; 20], 0.0), SURE), None);
    }
}
