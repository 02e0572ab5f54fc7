//! Whether connections died of chance, at any age alike.
//!
//! With a hazard that is the same at all ages the total time that all connections were on test when each of them died is uniform
//! between nothing and that of the last death (Barlow and Proschan, "A note on tests for monotone failure rate based on incomplete
//! data", Ann. Math. Stat. 40, 1969). Two tests of that, each at half of the rate: their sum, which an age limit makes large (its
//! distribution is Irwin's and Hall's, 1927), and the largest distance from a uniform distribution, which several ages make large
//! (Massart's bound, "The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality", Ann. Probab. 18, 1990).

use super::lives::Life;

/// Deaths by chance are called otherwise in no more than so many cases.
const WRONG: f64 = 0.01;
/// Of fewer deaths the ages say nothing.
const FEWEST: usize = 3;
/// Of more the sum's distribution cannot be computed as it is here, and the distance suffices.
const MOST_SUMMED: usize = 20;

/// Whether these connections may have died of chance; `None`: there are too few deaths to tell.
pub(in super::super) fn may_be_chance(lives: &[Life]) -> Option<bool> {
    let mut ages: Vec<u64> = lives.iter().filter_map(|life| life.most_ns).collect();
    ages.sort_unstable();
    let (last, before) = ages.split_last()?;
    if ages.len() < FEWEST {
        return None;
    }
    let on_test = |age_ns: u64| {
        lives.iter().map(|life| life.most_ns.unwrap_or(life.least_ns).min(age_ns) as f64).sum::<f64>()
    };
    let all = on_test(*last);
    let shares: Vec<f64> = before.iter().map(|age_ns| on_test(*age_ns) / all.max(1.0)).collect();
    Some(late(&shares).min(scattered(&shares)) * 2.0 >= WRONG)
}

/// The chance of a sum of uniform numbers that is so large.
fn late(shares: &[f64]) -> f64 {
    let n = shares.len();
    if n > MOST_SUMMED {
        return 1.0;
    }
    let rest = n as f64 - shares.iter().sum::<f64>();
    // Below `rest` lies as much as above the sum: Σ (-1)^k C(n, k) (rest - k)^n / n!, over k up to it.
    let (mut sum, mut ways) = (0.0, 1.0);
    for k in 0..=n {
        let over = rest - k as f64;
        if over < 0.0 {
            break;
        }
        sum += ways * (1..=n).map(|i| over / i as f64).product::<f64>();
        ways *= -((n - k) as f64) / (k + 1) as f64;
    }
    sum.clamp(0.0, 1.0)
}

/// A bound of the chance that sorted uniform numbers lie so far from an even distribution.
fn scattered(shares: &[f64]) -> f64 {
    let n = shares.len() as f64;
    let far = |(i, share): (usize, &f64)| ((i + 1) as f64 / n - share).max(share - i as f64 / n);
    let furthest = shares.iter().enumerate().map(far).fold(0.0, f64::max);
    (2.0 * (-2.0 * n * furthest * furthest).exp()).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In closed form: of one number it is what lies above it; of two the corner of a square; of many that are all 1/2 a half.
    #[test]
    fn uniform_sum_matches_irwin_hall() {
        for share in [0.0, 0.3, 0.98] {
            assert!((late(&[share]) - (1.0 - share)).abs() < 1e-12);
            let rest: f64 = 2.0 - 2.0 * share;
            let corner = if rest <= 1.0 { rest * rest / 2.0 } else { 1.0 - (2.0 * share).powi(2) / 2.0 };
            assert!((late(&[share, share]) - corner).abs() < 1e-12, "{share}");
        }
        for n in 1..=MOST_SUMMED {
            assert!((late(&vec![0.5; n]) - 0.5).abs() < 1e-6, "{n}: {}", late(&vec![0.5; n]));
            // What they lack of one sums up to one: the corner of the cube, 1/n!.
            let sum: f64 = (1..=n).map(|i| 1.0 / i as f64).product();
            assert!((late(&vec![1.0 - 1.0 / n as f64; n]) / sum - 1.0).abs() < 1e-6, "{n}");
        }
    }

    #[test]
    fn only_exponential_ages_may_be_chance() {
        let lives = |ages: &[u64]| -> Vec<Life> {
            let life = |&age: &u64| Life { began_after_ns: 0, least_ns: age, most_ns: Some(age), how: None };
            ages.iter().map(life).collect()
        };
        assert_eq!(may_be_chance(&lives(&[12_000, 12_001])), None);
        assert_eq!(may_be_chance(&lives(&[12_000, 12_001, 12_002])), Some(false));
        // The middles of equal parts of an exponential distribution.
        let even: Vec<u64> =
            (0..24).map(|i| (-(1.0 - (f64::from(i) + 0.5) / 24.0).ln() * 1e6) as u64).collect();
        assert_eq!(may_be_chance(&lives(&even)), Some(true));
        let jitter: Vec<u64> = (0..24).map(|i| 6_000 + i * 500).collect();
        assert_eq!(may_be_chance(&lives(&jitter)), Some(false));
    }
}
