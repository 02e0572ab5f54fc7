//! How long busy connections lived, and whether an age limit ended them.
//!
//! An age limit ends connections of one age, at moments as different as those at which they began. What ends all connections
//! at one moment has been set aside before (`run/settling.rs`). What ends them by chance ends few of them within a narrow window
//! of ages: how few, a constant hazard says, which is estimated from the deaths outside of the window.

use crate::event::Death;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fewer deaths of one age are no evidence.
const FEWEST: usize = 8;
/// Deaths are of one age within this share of it, or within what they are known to.
const SHARE: f64 = 0.04;
/// A window that chance would make so often is none. It is asked after each death, of the window behind each death: the
/// number of windows is counted in, the number of times is not, but each time knows what the one before knew.
const BY_CHANCE: f64 = 1e-3;

/// How long one connection lived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// When it began, in ns after the search did.
    pub began_after_ns: u64,
    /// It lived for so long at the least, in ns: until it was sent the last request that it answered.
    pub least_ns: u64,
    /// It had lived for so long at the most when it died, in ns. Absent: it did not die of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_ns: Option<u64>,
    /// How it died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<Death>,
}

/// Which ages of connections that live have been told, and when.
#[derive(Debug, Default)]
pub(super) struct Noted {
    pub(super) lives: BTreeMap<u32, u64>,
    pub(super) at_ns: u64,
}

/// Connections that died at one age.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Window {
    /// Their places among the lives.
    pub(super) died: Vec<usize>,
    /// Those that became older.
    pub(super) older: usize,
}

/// The window of ages in which an age limit ended connections; `None`: there is none, or it could be chance.
///
/// `near_ns`: ages this near to each other are not told apart.
pub(super) fn window(lives: &[Life], near_ns: u64) -> Option<Window> {
    let deaths: Vec<u64> =
        lives.iter().filter(|life| life.most_ns.is_some()).map(|life| life.least_ns).collect();
    let found = deaths.iter().filter_map(|&from_ns| unlikely(lives, from_ns, near_ns, deaths.len()));
    found.max_by_key(|window| window.died.len())
}

/// The window that begins at this age, where chance would hardly make it.
fn unlikely(lives: &[Life], from_ns: u64, near_ns: u64, windows: usize) -> Option<Window> {
    let to_ns = from_ns + near_ns.max((from_ns as f64 * SHARE) as u64);
    let within = |life: &Life| (from_ns..=to_ns).contains(&life.least_ns);
    let died: Vec<usize> =
        (0..lives.len()).filter(|&at| within(&lives[at]) && lives[at].most_ns.is_some()).collect();
    // Of those that were seen for no longer it is not known whether they would have died in it.
    let older = lives.iter().filter(|life| life.least_ns > to_ns).count();
    if died.len() < FEWEST || died.len() <= older {
        return None;
    }
    // A limit that is one ends few at ages near to it: what ends connections around some age is another thing.
    let near = lives.iter().filter(|life| life.most_ns.is_some() && life.least_ns >= from_ns / 2).count();
    if died.len() * 4 < near * 3 {
        return None;
    }
    let outside = |at: &usize| !died.contains(at);
    let others: Vec<&Life> = (0..lives.len()).filter(outside).map(|at| &lives[at]).collect();
    let deaths = others.iter().filter(|life| life.most_ns.is_some()).count();
    let ends_ns = died.iter().filter_map(|&at| lives[at].most_ns).max().unwrap_or(to_ns);
    let window_ns = ends_ns - from_ns;
    // Time under observation outside of the window.
    let lived_ns: u64 = lives.iter().map(|life| life.least_ns.min(from_ns)).sum();
    let after_ns: u64 = others.iter().map(|life| life.least_ns.saturating_sub(ends_ns)).sum();
    let hazard = (deaths + 1) as f64 / (lived_ns + after_ns).max(1) as f64;
    let one = 1.0 - (-hazard * window_ns as f64).exp();
    let chance = windows as f64 * at_least(died.len(), died.len() + older, one);
    (chance < BY_CHANCE).then_some(Window { died, older })
}

/// The chance of so many hits or more in so many trials of this chance each.
fn at_least(hits: usize, trials: usize, one: f64) -> f64 {
    // ln of the binomial coefficient, summed up: there are tens of trials.
    let mut ln_ways = 0.0;
    let (ln_hit, ln_miss) = (one.max(1e-300).ln(), (-one).ln_1p());
    let mut sum = 0.0;
    for k in 0..=trials {
        if k > 0 {
            ln_ways += ((trials - k + 1) as f64 / k as f64).ln();
        }
        if k >= hits {
            let misses = if k == trials { 0.0 } else { (trials - k) as f64 * ln_miss };
            sum += (ln_ways + k as f64 * ln_hit + misses).exp();
        }
    }
    sum.min(1.0)
}

/// An age, how many connections became that old, or died by then, and of how many.
pub(super) type Bound = (u64, u32, u32);

impl Window {
    /// The highest age that most of those in it became, and the lowest by which most of them had died: none of them was older
    /// than the limit for certain at the one, none was younger for certain at the other.
    pub(super) fn bounds(&self, lives: &[Life]) -> (Bound, Bound) {
        let half = self.died.len() / 2;
        // By then most of all that became so old, not only of those that died, had died.
        let all = self.died.len() + self.older;
        let most_died = all / 2;
        let mut least: Vec<u64> = self.died.iter().map(|&at| lives[at].least_ns).collect();
        least.sort_unstable_by(|a, b| b.cmp(a));
        let mut most: Vec<u64> = self.died.iter().filter_map(|&at| lives[at].most_ns).collect();
        most.sort_unstable();
        let (low_ns, high_ns) = (least[half], most[most_died.min(most.len() - 1)]);
        let died = most.iter().filter(|age| **age <= high_ns).count() as u32;
        (lived(lives, low_ns), (high_ns, died, died + self.older as u32))
    }
}

/// How many lived for so long, of those and the ones that died before.
fn lived(lives: &[Life], age_ns: u64) -> Bound {
    let older = lives.iter().filter(|life| life.least_ns >= age_ns).count();
    let died = lives.iter().filter(|life| life.most_ns.is_some_and(|most| most <= age_ns)).count();
    (age_ns, older as u32, (older + died) as u32)
}

/// Without a limit: the highest age, of those up to this one, that more connections became than had died before.
pub(super) fn survived(lives: &[Life], up_to_ns: u64) -> Option<Bound> {
    let ages = lives.iter().map(|life| life.least_ns.min(up_to_ns)).filter(|age| *age > 0);
    let bounds = ages.map(|age| lived(lives, age)).filter(|(_, hits, of)| hits * 2 > *of);
    bounds.max_by_key(|(age, ..)| *age)
}

/// The highest age that all became: that at which the first to die was last seen.
pub(super) fn survived_by_all(lives: &[Life]) -> Option<Bound> {
    let first = lives.iter().filter(|life| life.most_ns.is_some()).map(|life| life.least_ns).min()?;
    (first > 0).then(|| lived(lives, first))
}

/// How many died, and how many became so old.
pub(in super::super) fn died_and_became(lives: &[Life], age_ns: u64) -> (u32, u32) {
    let died = lives.iter().filter(|life| life.most_ns.is_some()).count();
    let became = lives.iter().filter(|life| life.most_ns.is_none() && life.least_ns >= age_ns).count();
    (died as u32, became as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::plan::S;

    fn life(least_s: f64, died: bool) -> Life {
        let least_ns = (least_s * 1e9) as u64;
        let most_ns = died.then_some(least_ns + S);
        Life { began_after_ns: 0, least_ns, most_ns, how: died.then_some(Death::Silent) }
    }

    /// Against the definition: figures of `SciPy`'s `binom.sf(k - 1, n, p)`, and the ends.
    #[test]
    fn the_chance_of_so_many_is_the_binomials() {
        for (hits, trials, one, chance) in [
            (3, 5, 0.06, 0.001_970),
            (6, 24, 0.01, 1.153_034e-7),
            (1, 10, 0.1, 0.651_322),
            (5, 5, 0.5, 0.031_25),
        ] {
            let found = at_least(hits, trials, one);
            assert!((found / chance - 1.0).abs() < 2e-3, "{hits} of {trials} at {one}: {found}");
        }
        assert!((at_least(0, 7, 0.3) - 1.0).abs() < 1e-12);
        assert!((at_least(4, 4, 1.0) - 1.0).abs() < 1e-12 && at_least(3, 4, 0.0) < 1e-200);
    }

    #[test]
    fn only_enough_clustered_deaths_are_a_limit() {
        let one_age = |n| (0..n).map(|i| life(60.0 + 0.1 * f64::from(i), true)).collect::<Vec<_>>();
        assert_eq!(window(&one_age(7), S), None, "too few");
        let found = window(&one_age(8), S).expect("a window");
        assert_eq!((found.died.len(), found.older), (8, 0));
        let ((low, lived, of), (high, died, all)) = found.bounds(&one_age(8));
        assert_eq!((low, lived, of), (60_300_000_000, 5, 5));
        assert_eq!((high, died, all), (61_400_000_000, 5, 5));
        // As many became older.
        let mut half = one_age(8);
        half.extend((0..8).map(|_| life(90.0, false)));
        assert_eq!(window(&half, S), None);
        // As many died at other ages near to it.
        let mut around = one_age(8);
        around.extend((0..8).map(|i| life(40.0 + 5.0 * f64::from(i), true)));
        assert_eq!(window(&around, S), None);
        // Spread over all ages.
        let spread: Vec<Life> = (1..=24).map(|i| life(f64::from(i) * 5.0, true)).collect();
        assert_eq!(window(&spread, S), None);
        // One that died earlier by chance changes nothing.
        let mut stray = one_age(8);
        stray.push(life(12.0, true));
        assert_eq!(window(&stray, S).map(|window| window.died.len()), Some(8));
    }

    #[test]
    fn survived_age_is_reached_by_most() {
        let lives = [life(70.0, false), life(61.0, false), life(30.0, true), life(5.0, false)];
        assert_eq!(survived(&lives, 60 * S), Some((60 * S, 2, 3)));
        assert_eq!(survived(&[life(30.0, true)], 60 * S), Some((30 * S, 1, 1)));
        assert_eq!(survived(&[], 60 * S), None);
    }
}
