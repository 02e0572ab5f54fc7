//! A setting's time by that of the first one, in the median of units that are independent of each other, with the interval that
//! order statistics give it: it assumes nothing else of them (Hoefler & Belli 2015; David & Nagaraja 2003, Order Statistics, 7.1).
//! It is `median_of_runs` of the report (`python/src/fathometer/stats/runs.py`), and both have the same table in their tests.

use crate::histogram::{Histogram, bucket_range};
use crate::text::count;
use serde_json::{Value, json};

/// The level of a family.
const ALPHA: f64 = 0.05;
/// A ratio of 1 in the unit that the histogram counts in: its buckets are narrower than 0.05 %.
const ONE: f64 = 1e9;

/// The level of each interval, so that in 95 % of runs of so many settings without any difference none is shown (Bonferroni).
pub(super) fn level(settings: usize) -> f64 {
    1.0 - ALPHA / settings.saturating_sub(1).max(1) as f64
}

/// So many units the interval needs.
pub(super) fn needed(settings: usize) -> u64 {
    let level = level(settings);
    (1..=64).find(|&n| ranks(n, level).0 > 0).unwrap_or(u64::MAX)
}

/// As it is counted.
pub(super) fn record(ratios: &mut Histogram, ratio: f64) {
    ratios.record((ratio * ONE).round() as i64);
}

/// What the units are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// The settings share a session: each round is one.
    Round,
    /// Each logs in anew now and then, and one connection is not like another: what they were asked between two logins is one.
    Login,
}

/// A setting's time by that of the first, in the median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ratio {
    median: Option<f64>,
    /// Its interval, of that level; `None`: there are too few.
    pub(super) within: Option<(f64, f64)>,
    level: f64,
    unit: Unit,
    pub(super) units: u64,
    needed: u64,
    /// Rounds in which both were asked warm.
    pub(super) rounds: u64,
}

impl Ratio {
    pub(super) fn of(ratios: &Histogram, settings: usize, unit: Unit, rounds: u64) -> Self {
        let units = ratios.count();
        let (rank, covered) = ranks(units, level(settings));
        // A ratio is known no better than its bucket.
        let low = ends(ratios, rank).map(|(low, _)| low);
        let high = ends(ratios, (units + 1).saturating_sub(rank)).map(|(_, high)| high);
        Self {
            median: middle(ratios),
            within: low.zip(high).filter(|_| rank > 0),
            level: covered,
            unit,
            units,
            needed: needed(settings),
            rounds,
        }
    }

    pub(super) fn verdict(&self) -> &'static str {
        match self.within {
            None => "cannot be decided",
            Some((low, _)) if low > 1.0 => "slower",
            Some((_, high)) if high < 1.0 => "faster",
            Some(_) => "no difference shown",
        }
    }

    pub(super) fn words(&self) -> String {
        let share = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0);
        match (self.median, self.within) {
            (Some(at), Some((low, high))) => {
                let verdict =
                    if self.verdict() == "no difference shown" { "; no difference shown" } else { "" };
                let level = format!("{:.1}", self.level * 100.0);
                let level = level.trim_end_matches(".0");
                format!("{} % ({level} %: {} to {} %){verdict}", share(at), share(low), share(high))
            }
            (Some(at), None) => format!("{} %; {}", share(at), self.too_few()),
            (None, _) => "-".to_owned(),
        }
    }

    fn too_few(&self) -> String {
        // The first round finds nothing warm, nor does the first after each login.
        let (unit, enough) = match self.unit {
            Unit::Round => ("round", self.needed + 1),
            Unit::Login => ("login", self.needed * 2),
        };
        let units = count(self.units, unit);
        let are = if self.units == 1 { "is" } else { "are" };
        format!("{units} {are} too few to say more: --count {enough}")
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "value": self.median,
            "low": self.within.map(|(low, _)| low),
            "high": self.within.map(|(_, high)| high),
            "level": self.within.map(|_| self.level),
            "rounds": self.rounds,
            "logins": (self.unit == Unit::Login).then_some(self.units),
            "verdict": self.verdict(),
        })
    }
}

/// The median on the scale of logarithms: of an even number the geometric mean of the two in the middle, so that a setting that takes
/// twice as long as another and one that takes half as long say the same.
fn middle(ratios: &Histogram) -> Option<f64> {
    let units = ratios.count();
    let ln = |rank: u64| ends(ratios, rank).map(|(low, high)| f64::midpoint(low, high).ln());
    Some(f64::midpoint(ln(units.div_ceil(2))?, ln(units / 2 + 1)?).exp())
}

/// The ends of the bucket of the value of this rank, from 1.
fn ends(ratios: &Histogram, rank: u64) -> Option<(f64, f64)> {
    let mut seen = 0;
    ratios.buckets().find_map(|(bucket, count)| {
        seen += count;
        (seen >= rank).then(|| {
            let (low, width) = bucket_range(bucket);
            (low as f64 / ONE, (low + width - 1) as f64 / ONE)
        })
    })
}

/// The rank from below (and from above) between whose values the median of so many lies with at least this confidence, and with which;
/// 0: there are too few.
fn ranks(n: u64, level: f64) -> (u64, f64) {
    // ln P(X = k) of the binomial distribution of n and a half, from its beginning.
    let (mut ln, mut below) = (-(n as f64) * std::f64::consts::LN_2, 0.0);
    let mut covered = 0.0;
    for k in 0..n / 2 {
        below += f64::exp(ln);
        if 1.0 - 2.0 * below < level {
            return (k, covered);
        }
        covered = 1.0 - 2.0 * below;
        ln += ((n - k) as f64 / (k + 1) as f64).ln();
    }
    (n / 2, covered)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the report's `median_of_runs` is held against, too (`python/tests/findings/test_sweeps.py`): ranks and coverage by
    /// the binomial distribution (n, 1/2), reckoned by hand for 6 (1 - 2/64) and by scipy.stats.binom for the others.
    #[test]
    fn the_ranks_are_those_of_the_binomial() {
        for (n, level, rank, covered) in [
            (5, 0.95, 0, 0.0),
            (6, 0.95, 1, 0.968_75),
            (20, 0.95, 6, 0.958_610_534_667_968_7),
            (20, 1.0 - 0.05 / 3.0, 5, 0.988_182_067_871_093_8),
            (1_000, 0.95, 469, 0.953_708_802_639_501_9),
        ] {
            let (got, with) = ranks(n, level);
            assert_eq!(got, rank, "{n}");
            assert!((with - covered).abs() < 1e-9, "{n}: {with}");
        }
    }

    /// By hand: of an even number the lower one of the two in the middle was told, which is always the quicker one.
    #[test]
    fn even_count_median_is_between_middle_two() {
        let of = |all: &[f64]| {
            let mut ratios = Histogram::default();
            for &ratio in all {
                record(&mut ratios, ratio);
            }
            middle(&ratios)
        };
        assert_eq!(of(&[]), None);
        for (all, wanted) in
            [(&[3.0][..], 3.0), (&[1.0, 4.0], 2.0), (&[9.0, 1.0, 2.0], 2.0), (&[32.0, 0.5, 2.0, 8.0], 4.0)]
        {
            let at = of(all).unwrap();
            assert!((at / wanted - 1.0).abs() < 1e-3, "{all:?}: {at}");
        }
    }

    /// 1 - 2 / 2^n is to be at least 1 - 0.05 / (k - 1): by hand for two settings (6), four (7: 98.44 of 98.33 %) and seven (8).
    #[test]
    fn many_settings_need_more() {
        assert_eq!([2, 3, 4, 5, 7, 8].map(needed), [6, 7, 7, 8, 8, 9]);
    }
}
