//! Distributions of what is added to the propagation delay.

use fathom_core::histogram::{Histogram, bucket_range};
use serde::{Deserialize, Serialize};
use statrs::function::gamma::{gamma_lr, gamma_ur, ln_gamma};

use super::spiked::Spiked;
use super::table::{Table, normal_cdf, normal_quantile};

/// A distribution on 0 and above, in ns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "distribution", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Jitter {
    /// Nothing is added.
    #[default]
    None,
    /// Always the same.
    Constant {
        /// ns.
        value_ns: f64,
    },
    /// Anything between, equally likely.
    Uniform {
        /// Least, ns.
        low_ns: f64,
        /// Most, ns.
        high_ns: f64,
    },
    /// Normal, with what would be negative left out (drawn again, so to speak), which raises its mean.
    Normal {
        /// Mean of the normal before the truncation, ns.
        mean_ns: f64,
        /// Its standard deviation, ns.
        sd_ns: f64,
    },
    /// Gamma: skewed as queues are; its shape is (mean / sd)².
    Gamma {
        /// ns.
        mean_ns: f64,
        /// ns.
        sd_ns: f64,
    },
    /// Gamma, and at a probability an exponential spike on top of it: a queue that is now and then long.
    SpikedGamma {
        /// Of the gamma alone, ns.
        mean_ns: f64,
        /// Of the gamma alone, ns.
        sd_ns: f64,
        /// Of a spike, 0 to 1.
        probability: f64,
        /// Mean of a spike, ns; above sd² / mean, the gamma's scale.
        spike_mean_ns: f64,
    },
    /// Lognormal, by the mean and standard deviation of the values themselves, not of their logarithms.
    Lognormal {
        /// ns.
        mean_ns: f64,
        /// ns.
        sd_ns: f64,
    },
    /// A heavy tail from 0 on: Pareto of the second kind (Lomax), P(X > x) = (1 + x / scale)^-shape; mean scale / (shape - 1).
    Pareto {
        /// ns.
        scale_ns: f64,
        /// Above 1, or there is no mean; 2 and below has no variance.
        shape: f64,
    },
    /// One of several, by weight. With correlation, neighbouring packets tend to be of neighbouring quantiles of the whole.
    Mixture {
        /// At least one.
        parts: Vec<Part>,
    },
    /// As a recording's histogram has it: buckets of [`fathom_core::histogram`] with their counts, evenly spread within each.
    /// A recording is of round trips: give it to one direction and a constant delay (or none) to the other.
    Empirical {
        /// Rising bucket numbers with counts.
        buckets: Vec<(u16, u64)>,
    },
}

/// A part of a [`Jitter::Mixture`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Its share is its weight over the sum of weights.
    pub weight: f64,
    /// What it is.
    #[serde(flatten)]
    pub jitter: Jitter,
}

fn positive(what: &str, value: f64) -> Result<(), String> {
    if value > 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(format!("{what} is {value}; it must be above 0"))
    }
}

fn not_negative(what: &str, value: f64) -> Result<(), String> {
    if value >= 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(format!("{what} is {value}; it must be 0 or above"))
    }
}

impl Jitter {
    /// What a histogram of a recording holds.
    pub fn empirical(histogram: &Histogram) -> Self {
        Self::Empirical { buckets: histogram.buckets().collect() }
    }

    pub(super) fn validate(&self) -> Result<(), String> {
        match self {
            Self::None => Ok(()),
            Self::Constant { value_ns } => not_negative("the jitter's constant", *value_ns),
            Self::Uniform { low_ns, high_ns } => {
                not_negative("the jitter's low", *low_ns)?;
                not_negative("the jitter's high", *high_ns)?;
                if low_ns <= high_ns {
                    Ok(())
                } else {
                    Err("the jitter's low lies above its high".to_owned())
                }
            }
            Self::Normal { mean_ns, sd_ns } => {
                not_negative("the jitter's mean", *mean_ns)?;
                positive("the jitter's sd", *sd_ns)
            }
            Self::Gamma { mean_ns, sd_ns } | Self::Lognormal { mean_ns, sd_ns } => {
                positive("the jitter's mean", *mean_ns)?;
                positive("the jitter's sd", *sd_ns)?;
                // Beyond this the mean rests on values rarer than one in 10^10, which no run would ever draw.
                if *sd_ns <= 10.0 * mean_ns {
                    Ok(())
                } else {
                    Err("the jitter's sd is more than ten times its mean; use a mixture or a pareto tail"
                        .to_owned())
                }
            }
            Self::SpikedGamma { mean_ns, sd_ns, probability, spike_mean_ns } => {
                Self::Gamma { mean_ns: *mean_ns, sd_ns: *sd_ns }.validate()?;
                super::share("the probability of the jitter's spikes", *probability)?;
                if *spike_mean_ns > sd_ns * sd_ns / mean_ns && spike_mean_ns.is_finite() {
                    Ok(())
                } else {
                    Err("the mean of the jitter's spikes must lie above sd² / mean, the gamma's own scale"
                        .to_owned())
                }
            }
            Self::Pareto { scale_ns, shape } => {
                positive("the jitter's scale", *scale_ns)?;
                if *shape > 1.0 && shape.is_finite() {
                    Ok(())
                } else {
                    Err(format!(
                        "the pareto's shape is {shape}; above 1 there is a mean, below there is none"
                    ))
                }
            }
            Self::Mixture { parts } => {
                if parts.is_empty() {
                    return Err("the mixture has no parts".to_owned());
                }
                parts.iter().try_for_each(|part| {
                    positive("the weight of a mixture's part", part.weight)?;
                    part.jitter.validate()
                })
            }
            Self::Empirical { buckets } => {
                if !buckets.is_sorted_by(|a, b| a.0 < b.0) {
                    return Err("the buckets of the empirical jitter do not rise".to_owned());
                }
                if buckets.iter().any(|&(_, count)| count > 0) {
                    Ok(())
                } else {
                    Err("the empirical jitter counts nothing".to_owned())
                }
            }
        }
    }

    /// Its quantiles. None where nothing is added. Of a valid one only.
    pub(super) fn table(&self) -> Option<Table> {
        Some(match self {
            Self::None => return None,
            Self::Constant { value_ns } => Table::new(|_| *value_ns),
            Self::Uniform { low_ns, high_ns } => {
                Table::new(|z| (high_ns - low_ns).mul_add(normal_cdf(z), *low_ns))
            }
            Self::Normal { mean_ns, sd_ns } => {
                // From the upper side: what remains above is the share above z of what was above 0.
                let kept = normal_cdf(mean_ns / sd_ns);
                Table::new(|z| (mean_ns - sd_ns * normal_quantile(normal_cdf(-z) * kept)).max(0.0))
            }
            Self::Gamma { mean_ns, sd_ns } => {
                let shape = (mean_ns / sd_ns).powi(2);
                let scale = mean_ns / shape;
                Table::new(|z| scale * gamma_quantile(shape, z))
            }
            Self::SpikedGamma { mean_ns, sd_ns, probability, spike_mean_ns } => {
                let shape = (mean_ns / sd_ns).powi(2);
                let (scale_ns, spike_mean_ns) = (mean_ns / shape, *spike_mean_ns);
                let way = Spiked { shape, scale_ns, spike_mean_ns, one: *probability, two: 0.0 };
                Table::new(|z| way.upper_quantile_ns(normal_cdf(-z)))
            }
            Self::Lognormal { mean_ns, sd_ns } => {
                let variance = (sd_ns / mean_ns).powi(2).ln_1p();
                let (mu, sigma) = (mean_ns.ln() - variance / 2.0, variance.sqrt());
                Table::new(|z| sigma.mul_add(z, mu).exp())
            }
            Self::Pareto { scale_ns, shape } => {
                Table::new(|z| scale_ns * (normal_cdf(-z).powf(-1.0 / shape) - 1.0))
            }
            Self::Mixture { parts } => {
                let zero = || Table::new(|_| 0.0);
                let parts: Vec<_> =
                    parts.iter().map(|p| (p.weight, p.jitter.table().unwrap_or_else(zero))).collect();
                Table::mixture(&parts)
            }
            Self::Empirical { buckets } => empirical(buckets),
        })
    }
}

/// The quantile of a gamma distribution of scale 1 at Φ(z): Newton's steps with Halley's correction on the regularised
/// incomplete gamma function, from the cube-root approximation of Wilson and Hilferty ("The distribution of chi-square",
/// 1931) or, for small shapes and quantiles, from the first term of its series.
fn gamma_quantile(shape: f64, z: f64) -> f64 {
    let p = normal_cdf(z);
    let ninth = 1.0 / (9.0 * shape);
    let cube = ninth.sqrt().mul_add(z, 1.0 - ninth);
    let first = ((p.ln() + ln_gamma(shape + 1.0)) / shape).exp();
    let mut x = if cube > 0.3 { shape * cube.powi(3) } else { first };
    for _ in 0..32 {
        if x < 1e-300 {
            return 0.0;
        }
        // On the upper side from the upper tail, where p is too near 1 to subtract.
        let error = if z > 0.0 { normal_cdf(-z) - gamma_ur(shape, x) } else { gamma_lr(shape, x) - p };
        let density = ((shape - 1.0).mul_add(x.ln(), -x) - ln_gamma(shape)).exp();
        let newton = error / density;
        let halley = newton / (1.0 - (0.5 * newton * ((shape - 1.0) / x - 1.0)).min(0.9)).max(0.1);
        let next = if x - halley > 0.0 { x - halley } else { x / 2.0 };
        let done = (next - x).abs() <= 1e-10 * next;
        x = next;
        if done || !x.is_finite() {
            break;
        }
    }
    x
}

fn empirical(buckets: &[(u16, u64)]) -> Table {
    let total: u64 = buckets.iter().map(|&(_, count)| count).sum();
    let mut counted = buckets.iter().copied().filter(|&(_, count)| count > 0);
    let mut here = counted.next().unwrap_or((0, 1));
    let mut before = 0_u64;
    Table::new(|z| {
        let rank = normal_cdf(z) * total as f64;
        while rank > (before + here.1) as f64 {
            let Some(next) = counted.next() else { break };
            before += here.1;
            here = next;
        }
        let (low, width) = bucket_range(here.0);
        let part = ((rank - before as f64) / here.1 as f64).clamp(0.0, 1.0);
        // A bucket of one value is that value; a wider one goes from its first to its last.
        ((width - 1) as f64).mul_add(part, low as f64)
    })
}
