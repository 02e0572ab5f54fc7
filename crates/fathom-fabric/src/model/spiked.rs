//! Gamma with exponential spikes: the body of a delay, and now and then a longer wait on top of it.

use statrs::function::gamma::{gamma_lr, gamma_ur};

/// A sum of one or two alike and independent ways, each a Gamma(k, θ) with, at a probability p, an exponential spike of
/// mean τ added.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spiked {
    /// Shape of the sum of the bodies: k for one way, 2k for two.
    pub(crate) shape: f64,
    /// θ, ns.
    pub(crate) scale_ns: f64,
    /// τ, ns. Above θ.
    pub(crate) spike_mean_ns: f64,
    /// Probability of exactly one spike.
    pub(crate) one: f64,
    /// Probability of exactly two.
    pub(crate) two: f64,
}

impl Spiked {
    /// The share above `x` ns.
    ///
    /// P(G + E > x) = P(G > x) + ∫ g(y) S(x - y) dy over y from 0 to x, where S is the survival function of one spike,
    /// exp(-t/τ), or of two, exp(-t/τ)(1 + t/τ). There g(y) exp(y/τ) is again a gamma density, of scale
    /// θ* = θτ/(τ - θ), times (1 - θ/τ)^-k, so that the integral is an incomplete gamma function of that scale.
    pub(crate) fn exceeding(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return 1.0;
        }
        let (k, theta, tau) = (self.shape, self.scale_ns, self.spike_mean_ns);
        let body = gamma_ur(k, x / theta);
        if self.one <= 0.0 || tau <= theta {
            return body;
        }
        let tilted = theta * tau / (tau - theta);
        let weight = (-x / tau - k * (-theta / tau).ln_1p()).exp();
        let inside = gamma_lr(k, x / tilted);
        let first = weight * inside;
        let second = if self.two > 0.0 {
            weight * ((1.0 + x / tau) * inside - k * tilted / tau * gamma_lr(k + 1.0, x / tilted))
        } else {
            0.0
        };
        body + self.one * first + self.two * second
    }

    /// The value that a share of `above` exceeds, ns; by halving.
    pub(crate) fn upper_quantile_ns(&self, above: f64) -> f64 {
        if above >= 1.0 {
            return 0.0;
        }
        let mut high = self.shape.max(1.0) * self.scale_ns;
        while self.exceeding(high) > above {
            high *= 2.0;
        }
        let mut low = 0.0_f64;
        for _ in 0..100 {
            let middle = low.midpoint(high);
            if high - low <= 1e-9 * high {
                break;
            }
            if self.exceeding(middle) > above { low = middle } else { high = middle }
        }
        low.midpoint(high)
    }
}
