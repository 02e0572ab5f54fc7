//! Which policy did better, and how sure that is.
//!
//! In each run all policies meet the same events, so two are compared by what they differ by in each. Of several runs that is
//! told with a 95 % interval of the mean by Student's t (n - 1 degrees of freedom; NIST/SEMATECH e-Handbook of Statistical
//! Methods, 7.2.2.1 and 7.3.1). The runs of a scenario differ by their seed alone: its events come at the same times. So
//! an interval says how much was chance in *this* scenario, and nothing of other ones.

use crate::clients::{Comparison, Outcome};
use fathom_core::policy::Amounts;
use fathom_core::text::count;
use fathom_core::units::duration_compact;
use serde_json::{Value, json};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::fmt::Write as _;

/// What matters most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weigh {
    /// Requests that were neither answered nor served by a fallback.
    #[default]
    Failed,
    /// How long callers waited: the 99th percentile, or the longest where any run is too short for one.
    Latency,
    /// What it costs the server: connections in place of others, and tries after the first.
    Load,
}

impl Weigh {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Failed => "requests that were not served",
            Self::Latency => "how long callers waited (p99)",
            Self::Load => "connections and tries more than needed, per 1,000 requests",
        }
    }

    /// `whole`: all runs have enough requests for a 99th percentile, which is not to be held against the longest of another.
    fn of(self, outcome: &Outcome, whole: bool) -> f64 {
        match self {
            Self::Failed => unserved(outcome),
            Self::Latency => waited(outcome, whole),
            Self::Load => load(outcome),
        }
    }

    /// By how much the values can differ at the least: by one request, or one connection or try. 0: by anything.
    fn step(self, outcomes: &[Vec<Outcome>]) -> f64 {
        let due = outcomes.iter().flatten().map(|outcome| outcome.amounts.counts.due.max(1)).min();
        let one = 1.0 / due.unwrap_or(1) as f64;
        match self {
            Self::Failed => one,
            Self::Latency => 0.0,
            Self::Load => 1e3 * one,
        }
    }
}

/// A mean over runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Its 95 % interval. `None`: there was one run.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// Of these values, one a run. Of none it is no number.
    pub fn of(values: &[f64]) -> Self {
        Self::wrong_by(values, 0.05, 0.0)
    }

    /// With an interval that lacks the mean by chance in this share of cases. Values are whole numbers of `step`: two runs that
    /// differ by one request each show no certainty, though their differences are equal. So what rounding hides is added to
    /// their variance: a twelfth of the square of the step (Sheppard) of each of the two that differ. No difference at all has none.
    fn wrong_by(values: &[f64], share: f64, step: f64) -> Self {
        let n = values.len() as f64;
        let mean = match values {
            // Their sum may be rounded, and they would seem to differ.
            [first, others @ ..] if others.iter().all(|other| other.total_cmp(first).is_eq()) => *first,
            _ => values.iter().sum::<f64>() / n,
        };
        let interval = (values.len() > 1).then(|| {
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let nothing = values.iter().all(|value| *value == 0.0);
            let variance = if nothing { 0.0 } else { variance + step * step / 6.0 };
            // It fails for no number of degrees of freedom above 0.
            let t =
                StudentsT::new(0.0, 1.0, n - 1.0).map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - share / 2.0));
            let half = if variance > 0.0 { t * (variance / n).sqrt() } else { 0.0 };
            (mean - half, mean + half)
        });
        Self { mean, interval }
    }

    /// Whether it is above 0, as far as it can be told.
    fn is_positive(&self) -> bool {
        self.interval.map_or(self.mean, |(low, _)| low) > 0.0
    }
}

/// A policy's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranked {
    /// Which of the policies.
    pub policy: usize,
    /// From 1. Policies that cannot be told from the first of a rank share it.
    pub rank: usize,
}

/// The policies by what matters, the best first. `values`: by policy, and then by run; less is better. Which two are compared
/// depends on how they came out, so each two could have been: with tests of 5 % each, two in five comparisons of eight equal
/// policies would tell some apart. Together all tests are wrong in 5 % at the most (Dunn, "Multiple comparisons among means",
/// 1961). `step`: by how much values can differ at the least.
fn ranks(values: &[Vec<f64>], step: f64) -> Vec<Ranked> {
    let mean = |policy: usize| Estimate::of(&values[policy]).mean;
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| mean(a).total_cmp(&mean(b)));
    let pairs = values.len() * values.len().saturating_sub(1) / 2;
    let mut ranked: Vec<Ranked> = Vec::new();
    let mut first = 0;
    for (place, policy) in order.into_iter().enumerate() {
        let best = ranked.get(first).map(|best: &Ranked| best.policy);
        let worse = best.is_some_and(|best| {
            let differences: Vec<f64> =
                values[policy].iter().zip(&values[best]).map(|(one, other)| one - other).collect();
            Estimate::wrong_by(&differences, 0.05 / pairs as f64, step).is_positive()
        });
        if worse {
            first = place;
        }
        ranked.push(Ranked { policy, rank: first + 1 });
    }
    ranked
}

/// Figures that are shares of the requests that were due.
const SHARES: [&str; 5] = ["unserved", "ambiguous", "shed", "fallback", "unservable"];

/// The share of requests that were neither answered nor served otherwise.
fn unserved(outcome: &Outcome) -> f64 {
    let counts = outcome.amounts.counts;
    (counts.due - counts.answered - counts.fallback) as f64 / counts.due.max(1) as f64
}

fn waited(outcome: &Outcome, whole: bool) -> f64 {
    let waited = outcome.amounts.waited;
    waited.p99_ns.filter(|_| whole).or(waited.max_ns).unwrap_or(0) as f64
}

fn load(outcome: &Outcome) -> f64 {
    let amounts = &outcome.amounts;
    1e3 * (amounts.extra_connections + amounts.retries) as f64 / amounts.counts.due.max(1) as f64
}

impl Comparison {
    /// The policies in order.
    pub fn ranked(&self, weigh: Weigh) -> Vec<Ranked> {
        let whole = self.outcomes.iter().flatten().all(|outcome| outcome.amounts.waited.p99_ns.is_some());
        let values: Vec<Vec<f64>> =
            self.outcomes.iter().map(|runs| runs.iter().map(|run| weigh.of(run, whole)).collect()).collect();
        ranks(&values, weigh.step(&self.outcomes))
    }

    fn estimate(&self, policy: usize, of: impl Fn(&Outcome) -> f64) -> Estimate {
        Estimate::of(&self.outcomes[policy].iter().map(of).collect::<Vec<_>>())
    }

    /// A time, over the runs in which it is known.
    fn known(&self, policy: usize, of: impl Fn(&Amounts) -> Option<u64>) -> Estimate {
        let known = self.outcomes[policy].iter().filter_map(|outcome| of(&outcome.amounts));
        Estimate::of(&known.map(|ns| ns as f64).collect::<Vec<_>>())
    }

    /// The figures of one policy: their names, and what they are.
    fn figures(&self, policy: usize) -> [(&'static str, Estimate); 11] {
        let of = |value: fn(&Outcome) -> f64| self.estimate(policy, value);
        let share = |o: &Outcome, n: u64| n as f64 / o.amounts.counts.due.max(1) as f64;
        [
            ("unserved", of(unserved)),
            ("ambiguous", self.estimate(policy, |o| share(o, o.amounts.counts.ambiguous))),
            ("shed", self.estimate(policy, |o| share(o, o.amounts.counts.shed))),
            ("fallback", self.estimate(policy, |o| share(o, o.amounts.counts.fallback))),
            ("unservable", self.estimate(policy, |o| share(o, o.unservable))),
            ("waited_p99_ns", self.known(policy, |amounts| amounts.waited.p99_ns)),
            ("notice_p50_ns", self.known(policy, |amounts| amounts.notice.p50_ns)),
            ("retries", of(|o| o.amounts.retries as f64)),
            ("extra_connections", of(|o| o.amounts.extra_connections as f64)),
            ("load", of(load)),
            ("reconnections_a_second", of(|o| o.amounts.reconnections_a_second as f64)),
        ]
    }

    /// One object.
    pub fn json(&self, weigh: Weigh) -> Value {
        // Shares, times and counts are never below 0, and shares not above 1.
        let value = |name: &str, e: &Estimate| {
            let most = if SHARES.contains(&name) { 1.0 } else { f64::INFINITY };
            let (low, high) = e.interval.map(|(low, high)| (low.max(0.0), high.min(most))).unzip();
            json!({"mean": e.mean, "low": low, "high": high})
        };
        let policies: Vec<Value> = self
            .ranked(weigh)
            .iter()
            .map(|ranked| {
                let mut one = json!({"name": self.policies[ranked.policy], "rank": ranked.rank});
                one["due"] =
                    json!(self.outcomes[ranked.policy].iter().map(|o| o.amounts.counts.due).sum::<u64>());
                for (name, estimate) in self.figures(ranked.policy) {
                    one[name] = value(name, &estimate);
                }
                one
            })
            .collect();
        json!({
            "format": 1,
            "kind": "policies",
            "marks": ["simulated"],
            "path": self.path,
            "runs": self.outcomes.first().map_or(0, Vec::len),
            "weigh": match weigh { Weigh::Failed => "failed", Weigh::Latency => "latency", Weigh::Load => "load" },
            "policies": policies,
        })
    }

    /// For people.
    pub fn text(&self, weigh: Weigh) -> String {
        let runs = self.outcomes.first().map_or(0, Vec::len);
        let due = self.outcomes.iter().flatten().map(|o| o.amounts.counts.due).max().unwrap_or(0);
        let mut out = format!(
            "SIMULATED: {}, {} of up to {} each, by {}\n",
            self.path,
            count(runs as u64, "run"),
            count(due, "request"),
            weigh.words()
        );
        let head = [
            "",
            "policy",
            "not served",
            "nobody could",
            "ambiguous",
            "waited p99",
            "noticed after",
            if weigh == Weigh::Load { "load" } else { "reconnected" },
        ];
        let mut rows = vec![head.map(str::to_owned)];
        for ranked in self.ranked(weigh) {
            let figures = self.figures(ranked.policy);
            let cell = |name: &str, text: fn(f64) -> String| {
                figures.iter().find(|(n, _)| *n == name).map_or_else(String::new, |(_, e)| shown(*e, text))
            };
            let share = |v: f64| format!("{:.3} %", 100.0 * v);
            let time = |v: f64| duration_compact(v as u64);
            rows.push([
                ranked.rank.to_string(),
                self.policies[ranked.policy].clone(),
                cell("unserved", share),
                cell("unservable", share),
                cell("ambiguous", share),
                cell("waited_p99_ns", time),
                cell("notice_p50_ns", time),
                if weigh == Weigh::Load {
                    cell("load", |v| format!("{v:.1}"))
                } else {
                    cell("extra_connections", |v| format!("{v:.0}"))
                },
            ]);
        }
        let widths: Vec<usize> = (0..head.len())
            .map(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0))
            .collect();
        for row in &rows {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
            let _ = writeln!(out, "{}", cells.join("  ").trim_end());
        }
        if runs > 1 {
            out += "Means of the runs, with 95 % intervals.\n";
            out += "Policies of one rank cannot be told apart by these runs.\n";
        } else {
            out += "One run: what is chance is not known; --repeat 20 tells.\n";
        }
        out
    }
}

/// A mean and, where it is not nothing, half of its interval.
fn shown(estimate: Estimate, text: impl Fn(f64) -> String) -> String {
    if estimate.mean.is_nan() {
        return "-".to_owned();
    }
    let half = estimate.interval.map_or(0.0, |(_, high)| high - estimate.mean);
    let mean = text(estimate.mean);
    if text(half) == text(0.0) { mean } else { format!("{mean} ±{}", text(half)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: the mean of 1, 2 and 3 is 2, their standard deviation 1, and t of 2 degrees of freedom at 97.5 % is 4.303
    /// (NIST/SEMATECH e-Handbook, table 1.3.6.7.2): 4.303 / sqrt(3) = 2.484.
    #[test]
    fn an_interval_is_students() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0]);
        let (low, high) = estimate.interval.expect("three runs");
        assert!((estimate.mean - 2.0).abs() < 1e-12);
        assert!((high - 4.484).abs() < 0.001 && (low + 0.484).abs() < 0.001, "{estimate:?}");
        assert_eq!(Estimate::of(&[5.0]), Estimate { mean: 5.0, interval: None });
        // The same table, of 1 and of 19 degrees of freedom: 12.706 * sqrt(2) / sqrt(2) of 0 and 2, whose deviation is sqrt(2).
        let (_, high) = Estimate::of(&[0.0, 2.0]).interval.expect("two runs");
        assert!((high - (1.0 + 12.706)).abs() < 0.001, "{high}");
        let twenty: Vec<f64> = (0..20).map(|i| f64::from(i % 2)).collect();
        let deviation = (20.0 * 0.25 / 19.0_f64).sqrt();
        let (low, _) = Estimate::of(&twenty).interval.expect("twenty runs");
        assert!((low - (0.5 - 2.093 * deviation / 20.0_f64.sqrt())).abs() < 0.001, "{low}");
        // Without any difference there is no doubt, and of nothing nothing is known.
        assert_eq!(Estimate::of(&[0.1; 3]).interval.map(|(low, high)| high - low), Some(0.0));
        assert!(Estimate::of(&[]).mean.is_nan() && Estimate::of(&[]).interval.is_none());
    }

    #[test]
    fn indistinguishable_policies_share_a_rank() {
        let rank = |values: &[&[f64]]| -> Vec<(usize, usize)> {
            let values: Vec<Vec<f64>> = values.iter().map(|runs| runs.to_vec()).collect();
            ranks(&values, 0.0).iter().map(|ranked| (ranked.policy, ranked.rank)).collect()
        };
        // The second is always 1 below the first, however much the runs differ.
        assert_eq!(rank(&[&[3.0, 9.0, 30.0], &[2.0, 8.0, 29.0]]), [(1, 1), (0, 2)]);
        // Now one is better, now the other.
        assert_eq!(rank(&[&[3.0, 1.0, 3.0], &[1.0, 3.0, 2.0]]), [(1, 1), (0, 1)]);
        assert_eq!(rank(&[&[2.0, 2.0], &[2.0, 2.0], &[5.0, 5.0]]), [(0, 1), (1, 1), (2, 3)]);
        assert_eq!(rank(&[&[2.0], &[1.0]]), [(1, 1), (0, 2)]);
    }

    /// Some of eight equal policies were told apart in two comparisons of five.
    #[test]
    fn equal_policies_rarely_differ() {
        let mut state = 5_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        for runs in [2, 5, 20] {
            let mut wrong = 0;
            for _ in 0..500 {
                // The sum of twelve is close to normal.
                let mut value = || (0..12).map(|_| uniform()).sum::<f64>();
                let values: Vec<Vec<f64>> = (0..8).map(|_| (0..runs).map(|_| value()).collect()).collect();
                wrong += u32::from(ranks(&values, 0.0).iter().any(|ranked| ranked.rank > 1));
            }
            // 5 % are 25; 40 and more would come in one of 500 tests.
            assert!(wrong < 40, "{wrong} of 500, of {runs} runs");
        }
    }

    /// Of eight equal policies that lose one request of a run on average, some were told apart in seven of ten comparisons of
    /// two runs: two that lost one request less in both had differences without any variance.
    #[test]
    fn equal_low_loss_policies_are_rarely_distinguished() {
        let mut state = 7_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        for runs in [2, 3, 4] {
            let mut wrong = 0;
            for _ in 0..500 {
                // Of ten requests each is lost with one chance in ten.
                let mut value = || f64::from((0..10).map(|_| u8::from(uniform() < 0.1)).sum::<u8>()) / 1e3;
                let values: Vec<Vec<f64>> = (0..8).map(|_| (0..runs).map(|_| value()).collect()).collect();
                wrong += u32::from(ranks(&values, 1e-3).iter().any(|ranked| ranked.rank > 1));
            }
            assert!(wrong < 40, "{wrong} of 500, of {runs} runs");
        }
        // And what differs by more than a few in each run still is.
        assert_eq!(ranks(&[vec![0.030; 4], vec![0.010; 4]], 1e-3)[1].rank, 2);
    }
}
