//! A distribution as a table of quantiles over the standard normal's axis.
//!
//! Jitter is drawn by a Gaussian copula: a standard normal `z` (which may be correlated with the one before it) becomes
//! the quantile of the wanted distribution at Φ(z). The table holds that quantile at evenly spaced `z`, so a draw is one
//! normal number and one interpolation, whatever the distribution. What lies beyond ±6.4 (one in 10^10) counts as there.

use std::sync::Arc;

use statrs::function::erf::{erfc, erfc_inv};

const POINTS: usize = 4_097;
const REACH: f64 = 6.4;
const STEP: f64 = 2.0 * REACH / (POINTS - 1) as f64;

/// Φ(z): the share of a standard normal below `z`.
pub(super) fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}

/// The inverse of Φ.
pub(super) fn normal_quantile(p: f64) -> f64 {
    -std::f64::consts::SQRT_2 * erfc_inv(2.0 * p)
}

fn normal_density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Quantiles at `z` from -6.4 to 6.4; never falling, never negative.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table(Arc<[f64]>);

impl Table {
    /// Of a function that gives the quantile at Φ(z), called with rising `z`.
    pub(super) fn new(mut quantile: impl FnMut(f64) -> f64) -> Self {
        let mut last = 0.0_f64;
        let values = (0..POINTS).map(|i| {
            last = last.max(quantile(STEP.mul_add(i as f64, -REACH)));
            last
        });
        Self(values.collect())
    }

    /// The quantile at Φ(z).
    pub(super) fn at(&self, z: f64) -> f64 {
        let place = ((z + REACH) / STEP).clamp(0.0, (POINTS - 1) as f64);
        let cell = (place as usize).min(POINTS - 2);
        let (low, high) = (self.0[cell], self.0[cell + 1]);
        (high - low).mul_add(place - cell as f64, low)
    }

    /// The value that a share `p` does not exceed.
    pub(super) fn quantile(&self, p: f64) -> f64 {
        if p <= 0.0 {
            self.0[0]
        } else if p >= 1.0 {
            self.0[POINTS - 1]
        } else {
            self.at(normal_quantile(p))
        }
    }

    /// The mean of what [`Table::at`] gives for normal `z`: each cell is linear in z, and ∫ (a + b z) φ(z) dz is
    /// a (Φ(z1) - Φ(z0)) + b (φ(z0) - φ(z1)).
    pub(super) fn mean(&self) -> f64 {
        let cell = |i: usize| {
            let (z0, z1) = (STEP.mul_add(i as f64, -REACH), STEP.mul_add((i + 1) as f64, -REACH));
            let slope = (self.0[i + 1] - self.0[i]) / STEP;
            let start = (-slope).mul_add(z0, self.0[i]);
            // On the upper side from the upper tail, where Φ is too near 1 to subtract.
            let mass =
                if z0 > 0.0 { normal_cdf(-z0) - normal_cdf(-z1) } else { normal_cdf(z1) - normal_cdf(z0) };
            start.mul_add(mass, slope * (normal_density(z0) - normal_density(z1)))
        };
        let beyond = normal_cdf(-REACH) * (self.0[0] + self.0[POINTS - 1]);
        (0..POINTS - 1).map(cell).sum::<f64>() + beyond
    }

    /// Shares below `x`, and at or below it: they differ where the distribution has a step.
    pub(super) fn shares(&self, x: f64) -> (f64, f64) {
        let z_at = |i: usize| STEP.mul_add(i as f64, -REACH);
        let share = |i: usize| match i {
            0 => 0.0,
            POINTS => 1.0,
            // Between two points the inverse of the interpolation.
            i if self.0[i] > self.0[i - 1] => {
                let part = (x - self.0[i - 1]) / (self.0[i] - self.0[i - 1]);
                normal_cdf(part.clamp(0.0, 1.0).mul_add(STEP, z_at(i - 1)))
            }
            i => normal_cdf(z_at(i)),
        };
        (share(self.0.partition_point(|&v| v < x)), share(self.0.partition_point(|&v| v <= x)))
    }

    /// The table of a mixture of weighted tables: its distribution function is known at every point of every part, and
    /// is inverted by going along them.
    pub(super) fn mixture(parts: &[(f64, Self)]) -> Self {
        let total: f64 = parts.iter().map(|(weight, _)| weight).sum();
        let mut values: Vec<f64> = parts.iter().flat_map(|(_, table)| table.0.iter().copied()).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        // Two knots per value, so that steps stay steps.
        let mut knots = Vec::with_capacity(2 * values.len());
        for x in values {
            let (mut below, mut up_to) = (0.0, 0.0);
            for (weight, table) in parts {
                let (b, u) = table.shares(x);
                below += weight * b;
                up_to += weight * u;
            }
            knots.push((below / total, x));
            knots.push((up_to / total, x));
        }
        let mut next = 0;
        Self::new(|z| {
            let p = normal_cdf(z);
            while next < knots.len() && knots[next].0 < p {
                next += 1;
            }
            let Some(&(high_p, high)) = knots.get(next) else { return knots[knots.len() - 1].1 };
            let Some(&(low_p, low)) = next.checked_sub(1).and_then(|i| knots.get(i)) else { return high };
            if high_p > low_p { (high - low).mul_add((p - low_p) / (high_p - low_p), low) } else { high }
        })
    }
}
