//! The round trips that a scenario's paths are made for, without load and without what middleboxes add.

use super::{Path, Scenario};
use crate::model::PathModel;
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};

/// Equally likely delays of one way, of which its variance is taken.
const STEPS: u32 = 20_000;
/// Standard errors within which samples are expected: 99.73 % of a normal distribution.
const ERRORS: f64 = 3.0;

/// What one path is made for. Times are of round trips.
#[derive(Debug, Serialize)]
pub struct PathFigures<'a> {
    /// Its label.
    pub path: &'a str,
    /// Its first node.
    pub from: &'a str,
    /// The address that a probe of this path sends from; absent where `from` has none.
    pub source: Option<IpAddr>,
    /// Its last node.
    pub to: &'a str,
    /// Where a probe of this path connects to.
    pub target: SocketAddr,
    /// Scenario `source`: where the figures come from; empty where the file does not say.
    pub figures: &'a str,
    /// Round trips without load.
    pub rtt_ns: Figures,
    /// Only with `--samples`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chance: Option<Chance>,
}

/// Of round trips, ns.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Their mean.
    pub mean: u64,
    /// Their standard deviation.
    pub stddev: u64,
    /// Their median.
    pub p50: u64,
    /// Their 95th percentile.
    pub p95: u64,
    /// Their 99th percentile.
    pub p99: u64,
}

/// Least and most that is expected of so many samples, in ns.
#[derive(Debug, Serialize)]
pub struct Chance {
    /// How many.
    pub samples: u64,
    /// Of their mean.
    pub mean: [u64; 2],
    /// Of their 95th percentile.
    pub p95: [u64; 2],
}

impl<'a> PathFigures<'a> {
    /// The figures of a path; with `samples`, how far so many independent ones may be off by chance.
    pub fn of(scenario: &Scenario, path: &'a Path, samples: Option<u64>) -> Result<Self, String> {
        let whole = |ns: f64| ns.round().max(0.0) as u64;
        let quantile = |p: f64| path.round_trip_quantile_ns(p).map(whole);
        let mean = path.round_trip_mean_ns();
        // The two ways are independent.
        let stddev = (variance(&path.forward)? + variance(&path.backward)?).sqrt();
        let chance = samples
            .map(|samples| {
                let mean_error = ERRORS * stddev / (samples as f64).sqrt();
                // How many of n samples lie below a quantile is binomial, whatever the distribution (David and Nagaraja,
                // Order Statistics, 7.1): so an interval of shares becomes one of times by the quantiles themselves.
                let share_error = ERRORS * (0.95 * 0.05 / samples as f64).sqrt();
                Ok::<_, String>(Chance {
                    samples,
                    mean: [whole(mean - mean_error), whole(mean + mean_error)],
                    p95: [quantile((0.95 - share_error).max(0.0))?, quantile((0.95 + share_error).min(1.0))?],
                })
            })
            .transpose()?;
        Ok(Self {
            path: &path.label,
            from: &path.from,
            source: path.from_addresses.first().copied(),
            to: &path.to,
            target: scenario.target(path),
            figures: &path.source,
            rtt_ns: Figures {
                mean: whole(mean),
                stddev: whole(stddev),
                p50: quantile(0.5)?,
                p95: quantile(0.95)?,
                p99: quantile(0.99)?,
            },
            chance,
        })
    }
}

/// Of one way, in ns².
fn variance(model: &PathModel) -> Result<f64, String> {
    let (delay, mean) = (model.delay()?, model.mean_ns());
    let steps = (0..STEPS).map(|i| (f64::from(i) + 0.5) / f64::from(STEPS));
    let squares: f64 = steps.map(|p| (delay.quantile_ns(p) - mean).powi(2)).sum();
    Ok(squares / f64::from(STEPS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Jitter;

    fn uniform(delay_ns: u64, width_ns: f64) -> PathModel {
        PathModel {
            delay_ns,
            jitter: Jitter::Uniform { low_ns: 0.0, high_ns: width_ns },
            ..PathModel::default()
        }
    }

    #[test]
    fn a_variance_is_the_textbooks() {
        let found = variance(&uniform(1_000, 12_000.0)).expect("a model");
        // width² / 12.
        assert!((found / 12e6 - 1.0).abs() < 1e-3, "{found}");
        assert_eq!(variance(&PathModel::constant(1_000)), Ok(0.0));
    }

    #[test]
    fn the_figures_of_two_uniform_ways() {
        let text = "format = 1\n[[host]]\nname = \"a\"\naddress = \"10.0.0.1\"\n[[host]]\nname = \"b\"\naddress = \
                    \"10.0.0.2\"\n[[path]]\nlabel = \"p\"\nfrom = \"a\"\nto = \"b\"\nboth = { delay = \"1us\", jitter = { \
                    distribution = \"uniform\", low = \"0\", high = \"12us\" } }\n";
        let scenario = Scenario::parse(text, "t.toml").expect("a scenario");
        let path = &scenario.paths()[0];
        let model = PathFigures::of(&scenario, path, Some(900)).expect("figures");
        // The sum of two uniforms is triangular on 2 to 26 µs: mean 14 µs, variance 2 × 12 µs², and from
        // 1 - (26 - x)² / 288 = 0.95 its p95 is 22.21 µs.
        let close = |found: u64, expected: f64| (found as f64 - expected).abs() < 25.0;
        assert!(close(model.rtt_ns.mean, 14_000.0), "{model:?}");
        assert!(close(model.rtt_ns.stddev, 4_899.0), "{model:?}");
        assert!(close(model.rtt_ns.p95, 22_205.3), "{model:?}");
        // Three standard errors of 900 samples: a tenth of the deviation, and ±0.0218 of the share.
        let chance = model.chance.expect("asked for");
        assert!(close(chance.mean[0], 13_510.1) && close(chance.mean[1], 14_489.9), "{chance:?}");
        assert!(close(chance.p95[0], 21_452.0) && close(chance.p95[1], 23_150.7), "{chance:?}");
    }
}
