//! How sure a share of few trials is.

/// The standard normal's quantile for 95 %, both sides.
const Z: f64 = 1.959_963_984_540_054;

/// The interval of 95 % for a share of `hits` in `trials` (Wilson, "Probable inference, the law of succession, and
/// statistical inference", JASA 22, 1927; recommended for few trials by Brown, Cai and Das Gupta, "Interval estimation for
/// a binomial proportion", Statistical Science 16, 2001). Of no trial: anything.
pub fn wilson(hits: u32, trials: u32) -> (f64, f64) {
    if trials == 0 {
        return (0.0, 1.0);
    }
    let (n, p) = (f64::from(trials), f64::from(hits) / f64::from(trials));
    let scale = 1.0 + Z * Z / n;
    let middle = (p + Z * Z / (2.0 * n)) / scale;
    let half = Z / scale * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of `SciPy`'s `binomtest(k, n).proportion_ci(method="wilson")`, and the closed form for n of n: n/(n + z²).
    #[test]
    fn it_is_wilsons() {
        for (hits, trials, low, high) in [
            (3, 3, 0.438_503, 1.0),
            (0, 3, 0.0, 0.561_497),
            (2, 3, 0.207_660, 0.938_508),
            (9, 10, 0.595_850, 0.982_124),
        ] {
            let (l, h) = wilson(hits, trials);
            assert!((l - low).abs() < 1e-6 && (h - high).abs() < 1e-6, "{hits} of {trials}: {l} {h}");
        }
        for n in 1..200 {
            let (low, high) = wilson(n, n);
            let closed = f64::from(n) / (f64::from(n) + Z * Z);
            assert!((low - closed).abs() < 1e-12 && (high - 1.0).abs() < 1e-12);
            let (l, h) = wilson(n / 3, n);
            assert!(l <= f64::from(n / 3) / f64::from(n) && f64::from(n / 3) / f64::from(n) <= h);
        }
        assert_eq!(wilson(0, 0), (0.0, 1.0));
    }
}
