//! From the published figures of a round trip to a model of each way.
//!
//! The family: one way takes half the minimum, plus a Gamma(k, θ) body, plus, with probability p, a spike that is
//! exponential with mean τ. Both ways are independent and alike, so that a round trip is the minimum plus Gamma(2k, θ)
//! plus none, one or two spikes, and its distribution function has a closed form. What is published decides how many of
//! (k, θ, p, τ) are solved for; see [`Published`]. The largest value is a fact of one sample, not of a distribution: it
//! is checked against the other figures and not reproduced.

mod laws;
mod solve;

use crate::model::spiked::Spiked;
use crate::model::{Jitter, PathModel};

/// Published figures of a round trip, ns. What is absent was not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Published {
    /// The smallest. Absent: four fifths of the smaller of mean and median are assumed.
    pub min_ns: Option<u64>,
    /// The arithmetic mean.
    pub mean_ns: Option<u64>,
    /// The standard deviation.
    pub sd_ns: Option<u64>,
    /// The median.
    pub p50_ns: Option<u64>,
    /// The 95th percentile.
    pub p95_ns: Option<u64>,
    /// The 99th percentile.
    pub p99_ns: Option<u64>,
    /// The largest.
    pub max_ns: Option<u64>,
}

/// Shape of the body of a round trip where a single figure was published.
const DEFAULT_SHAPE: f64 = 4.0;
/// Probability of a spike each way where the figures do not suffice to solve for it.
const DEFAULT_SPIKE: f64 = 0.01;
/// A fit must meet every published figure this closely, relative to it.
const TOLERANCE: f64 = 0.005;

/// The model of a round trip whose two ways are alike and independent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundTrip {
    /// Both ways together, ns: what every round trip takes at least.
    pub min_ns: f64,
    /// Shape k of one way's body; 0 where the round trip is constant.
    pub shape: f64,
    /// Scale θ of the body, ns.
    pub scale_ns: f64,
    /// Probability p of a spike, each way.
    pub spike_probability: f64,
    /// Mean τ of a spike, ns.
    pub spike_mean_ns: f64,
}

impl RoundTrip {
    /// The model that has the published figures, or why there is none.
    pub fn fit(published: &Published) -> Result<Self, String> {
        laws::check(published)?;
        solve::solve(published)
    }

    /// The mean, ns.
    pub fn mean_ns(&self) -> f64 {
        self.min_ns + 2.0 * self.shape * self.scale_ns + 2.0 * self.spike_probability * self.spike_mean_ns
    }

    /// The standard deviation, ns.
    pub fn sd_ns(&self) -> f64 {
        let (p, tau) = (self.spike_probability, self.spike_mean_ns);
        (2.0 * self.shape * self.scale_ns.powi(2) + 2.0 * (2.0 * p - p * p) * tau * tau).sqrt()
    }

    /// The share of round trips that take longer than `ns`.
    pub fn exceeding(&self, ns: f64) -> f64 {
        let x = ns - self.min_ns;
        if x < 0.0 {
            return 1.0;
        }
        if self.shape <= 0.0 {
            return 0.0;
        }
        self.both_ways().exceeding(x)
    }

    fn both_ways(&self) -> Spiked {
        let p = self.spike_probability;
        Spiked {
            shape: 2.0 * self.shape,
            scale_ns: self.scale_ns,
            spike_mean_ns: self.spike_mean_ns,
            one: 2.0 * p * (1.0 - p),
            two: p * p,
        }
    }

    /// The value that a share of `p` of round trips does not exceed, ns.
    pub fn quantile_ns(&self, p: f64) -> f64 {
        if self.shape <= 0.0 {
            return self.min_ns;
        }
        self.min_ns + self.both_ways().upper_quantile_ns(1.0 - p)
    }

    /// The model of one way.
    pub fn way(&self) -> PathModel {
        let mean_ns = self.shape * self.scale_ns;
        let sd_ns = self.shape.sqrt() * self.scale_ns;
        let jitter = if self.shape <= 0.0 {
            Jitter::None
        } else if self.spike_probability <= 0.0 {
            Jitter::Gamma { mean_ns, sd_ns }
        } else {
            let (probability, spike_mean_ns) = (self.spike_probability, self.spike_mean_ns);
            Jitter::SpikedGamma { mean_ns, sd_ns, probability, spike_mean_ns }
        };
        PathModel { delay_ns: (self.min_ns / 2.0).round() as u64, jitter, ..PathModel::default() }
    }
}

#[cfg(test)]
mod tests;
