use fathom_core::histogram::Histogram;
use proptest::prelude::*;

use super::table::{normal_cdf, normal_quantile};
use super::*;
use crate::truth::DropReason;

const DRAWS: usize = 200_000;

fn with(jitter: Jitter) -> PathModel {
    PathModel { delay_ns: 0, jitter, ..PathModel::default() }
}

fn draws(model: &PathModel, seed: u64, count: usize) -> Vec<f64> {
    let mut delay = model.delay().unwrap();
    let mut random = stream(seed, "test");
    (0..count).map(|i| delay.draw(i as u64 * 1_000_000, &mut random) as f64).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn percentile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((p * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1]
}

fn correlation(values: &[f64], lag: usize) -> f64 {
    let m = mean(values);
    let product = |(a, b): (&f64, &f64)| (a - m) * (b - m);
    values.iter().zip(&values[lag..]).map(product).sum::<f64>()
        / values.iter().map(|v| (v - m).powi(2)).sum::<f64>()
}

#[track_caller]
fn close(found: f64, expected: f64, share: f64, what: &str) {
    assert!((found - expected).abs() <= share * expected.abs(), "{what}: found {found}, expected {expected}");
}

/// Mean and 95th percentile by textbook formulas, not by our tables. Gamma's percentile: of shape 4 and scale 1 it is half
/// that of chi-square with 8 degrees of freedom, 15.507 (any table of it).
fn known() -> Vec<(&'static str, Jitter, f64, f64)> {
    let z95 = 1.644_853_626_951_472_7_f64;
    let (lognormal_mu, lognormal_sigma) = {
        let variance = (1.0_f64 + 0.25).ln();
        (100_000_f64.ln() - variance / 2.0, variance.sqrt())
    };
    let truncated = {
        // A normal with mean = sd, cut at 0: mean + sd φ(1) / Φ(1); the percentile where (1 - Φ) is a twentieth of Φ(1).
        let (density, kept) = (0.241_970_724_519_143_37, 0.841_344_746_068_542_9);
        (50_000.0 * (1.0 + density / kept), 50_000.0 * (1.0 + 1.725_366_8))
    };
    vec![
        ("constant", Jitter::Constant { value_ns: 70_000.0 }, 70_000.0, 70_000.0),
        ("uniform", Jitter::Uniform { low_ns: 10_000.0, high_ns: 110_000.0 }, 60_000.0, 105_000.0),
        (
            "normal",
            Jitter::Normal { mean_ns: 500_000.0, sd_ns: 50_000.0 },
            500_000.0,
            500_000.0 + z95 * 50_000.0,
        ),
        ("truncated normal", Jitter::Normal { mean_ns: 50_000.0, sd_ns: 50_000.0 }, truncated.0, truncated.1),
        ("gamma", Jitter::Gamma { mean_ns: 400_000.0, sd_ns: 200_000.0 }, 400_000.0, 775_365.6),
        // Shape 1 is the exponential: its percentile is the mean times ln 20.
        (
            "exponential",
            Jitter::Gamma { mean_ns: 30_000.0, sd_ns: 30_000.0 },
            30_000.0,
            30_000.0 * 20_f64.ln(),
        ),
        (
            "lognormal",
            Jitter::Lognormal { mean_ns: 100_000.0, sd_ns: 50_000.0 },
            100_000.0,
            (lognormal_mu + lognormal_sigma * z95).exp(),
        ),
        (
            "pareto",
            Jitter::Pareto { scale_ns: 60_000.0, shape: 4.0 },
            20_000.0,
            60_000.0 * (20_f64.powf(0.25) - 1.0),
        ),
        (
            // Nine parts between 0 and 90,000, one between 200,000 and 300,000: the 95th is the middle of the latter.
            "mixture",
            Jitter::Mixture {
                parts: vec![
                    Part { weight: 9.0, jitter: Jitter::Uniform { low_ns: 0.0, high_ns: 90_000.0 } },
                    Part { weight: 1.0, jitter: Jitter::Uniform { low_ns: 200_000.0, high_ns: 300_000.0 } },
                ],
            },
            0.9 * 45_000.0 + 0.1 * 250_000.0,
            250_000.0,
        ),
        (
            "mixture of steps",
            Jitter::Mixture {
                parts: vec![
                    Part { weight: 3.0, jitter: Jitter::Constant { value_ns: 10_000.0 } },
                    Part { weight: 1.0, jitter: Jitter::Constant { value_ns: 50_000.0 } },
                ],
            },
            20_000.0,
            50_000.0,
        ),
    ]
}

#[test]
fn the_normal_is_the_textbooks() {
    close(normal_cdf(1.0), 0.841_344_746_068_542_9, 1e-9, "Φ(1)");
    close(normal_quantile(0.95), 1.644_853_626_951_472_7, 1e-9, "the 95th percentile");
    close(normal_cdf(-6.0), 9.865_876_450_376_946e-10, 1e-6, "a far tail");
}

#[test]
fn models_match_textbook_mean_and_percentiles() {
    for (name, jitter, mean, p95) in known() {
        let model = PathModel { delay_ns: 1_000_000, jitter, ..PathModel::default() };
        assert!(model.validate().is_ok());
        close(model.mean_ns() - 1e6, mean, 0.001, name);
        close(model.quantile_ns(0.95) - 1e6, p95, 0.001, name);
    }
}

/// The fewer draws, the larger the share by which they may be off.
fn check_draws(count: usize, share: f64) {
    for (name, jitter, expected_mean, p95) in known() {
        let values = draws(&with(jitter), 7, count);
        close(mean(&values), expected_mean, share, name);
        close(percentile(&values, 0.95), p95, share, name);
    }
}

#[test]
fn draws_follow_the_model() {
    check_draws(DRAWS / 10, 0.04);
}

mod acceptance {
    use super::*;

    #[test]
    fn draws_follow_the_model() {
        check_draws(DRAWS, 0.01);
    }
}

#[test]
fn gamma_with_small_shape_matches_chi_square() {
    // Shape 1/2 and scale 2 is chi-square with one degree of freedom: the square of a normal number.
    let model = with(Jitter::Gamma { mean_ns: 1e9, sd_ns: 2_f64.sqrt() * 1e9 });
    for p in [0.01, 0.1, 0.5, 0.9, 0.99, 0.9999] {
        let square = normal_quantile(f64::midpoint(1.0, p)).powi(2);
        close(model.quantile_ns(p), square * 1e9, 0.002, &format!("p {p}"));
    }
    close(model.mean_ns(), 1e9, 0.001, "mean");
}

#[test]
fn a_recordings_histogram_is_drawn_again() {
    let mut histogram = Histogram::default();
    let source = draws(&with(Jitter::Lognormal { mean_ns: 300_000.0, sd_ns: 90_000.0 }), 3, 50_000);
    for &value in &source {
        histogram.record(value as i64);
    }
    let model = with(Jitter::empirical(&histogram));
    close(model.mean_ns(), mean(&source), 0.001, "stated mean");
    let values = draws(&model, 4, DRAWS);
    close(mean(&values), mean(&source), 0.005, "mean");
    for p in [0.05, 0.5, 0.95, 0.99] {
        close(percentile(&values, p), percentile(&source, p), 0.01, &format!("p {p}"));
        close(model.quantile_ns(p), percentile(&source, p), 0.005, &format!("stated p {p}"));
    }
    let (low, high) = (percentile(&source, 0.0), percentile(&source, 1.0));
    assert!(values.iter().all(|&v| v >= low * 0.999 && v <= high * 1.001));
}

#[test]
fn neighbours_are_as_alike_as_configured() {
    let normal = Jitter::Normal { mean_ns: 1e6, sd_ns: 5e4 };
    for rho in [-0.5, 0.3, 0.9] {
        let model = PathModel { correlation: Correlation::PerPacket(rho), ..with(normal.clone()) };
        let values = draws(&model, 11, DRAWS);
        assert!((correlation(&values, 1) - rho).abs() < 0.01, "{rho}: {}", correlation(&values, 1));
        assert!((correlation(&values, 3) - rho.powi(3)).abs() < 0.01, "{rho}: {}", correlation(&values, 3));
        // The distribution stays what it is.
        close(mean(&values), 1e6, 0.01, "mean");
        close(percentile(&values, 0.95), 1e6 + 1.644_85 * 5e4, 0.01, "p95");
    }
    // Of uniform numbers with a Gaussian copula the correlation is 6 / π asin(ρ / 2) (Pearson, 1907).
    let uniform = Jitter::Uniform { low_ns: 0.0, high_ns: 1e6 };
    let model = PathModel { correlation: Correlation::PerPacket(0.6), ..with(uniform) };
    let expected = 6.0 / std::f64::consts::PI * 0.3_f64.asin();
    assert!((correlation(&draws(&model, 12, DRAWS), 1) - expected).abs() < 0.01);
    // By time: a millisecond apart with τ of 2 ms is exp(-1/2).
    let model = PathModel { correlation: Correlation::InTime(2_000_000), ..with(normal.clone()) };
    assert!((correlation(&draws(&model, 13, DRAWS), 1) - (-0.5_f64).exp()).abs() < 0.01);
    assert!(correlation(&draws(&with(normal), 14, DRAWS), 1).abs() < 0.01, "none by default");
}

fn losses(loss: Loss, count: usize) -> Vec<bool> {
    let model = PathModel { loss, ..PathModel::constant(5) };
    let mut lane = Lane::new(model, 5, "loss").unwrap();
    (0..count).map(|i| lane.enter(i as u64, 100) == Crossing::Lost(DropReason::Loss)).collect()
}

#[test]
fn independent_loss_is_independent() {
    let lost = losses(Loss::Independent { share: 0.02 }, DRAWS);
    let share = lost.iter().filter(|&&l| l).count() as f64 / DRAWS as f64;
    // Three standard deviations of a binomial: 3 sqrt(0.02 * 0.98 / 200,000) = 0.00094.
    assert!((share - 0.02).abs() < 0.001, "{share}");
    let pairs = lost.windows(2).filter(|w| w[0] && w[1]).count() as f64;
    close(pairs, 0.02 * 0.02 * DRAWS as f64, 0.35, "neighbours lost");
}

#[test]
fn bursts_have_their_share_and_length() {
    let loss = Loss::GilbertElliott { enter: 0.005, leave: 0.2, loss_good: 0.0, loss_bad: 1.0 };
    close(loss.mean(), 0.005 / 0.205, 1e-9, "stated share");
    let lost = losses(loss, DRAWS);
    let count = lost.iter().filter(|&&l| l).count() as f64;
    let bursts = 1.0 + lost.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
    // About 980 bursts of geometric length: its mean is known to 3 %, its share to 5 %; thrice that at most.
    close(count / DRAWS as f64, loss.mean(), 0.13, "share");
    close(count / bursts, 5.0, 0.09, "length");
    // Lengths are geometric: a burst goes on with 0.8.
    let pairs = lost.windows(2).filter(|w| w[0]).map(|w| f64::from(w[1])).collect::<Vec<_>>();
    close(mean(&pairs), 0.8, 0.03, "a burst goes on");
}

#[test]
fn late_packets_are_in_the_model() {
    let reorder = Some(Reorder { share: 0.1, late_ns: 1_000_000 });
    let model = PathModel { reorder, ..with(Jitter::Uniform { low_ns: 0.0, high_ns: 100_000.0 }) };
    close(model.mean_ns(), 150_000.0, 0.001, "mean");
    close(model.quantile_ns(0.45), 50_000.0, 0.001, "the middle of those on time");
    close(model.quantile_ns(0.95), 1_050_000.0, 0.001, "the middle of the late ones");
    let mut lane = Lane::new(model, 1, "late").unwrap();
    let took: Vec<f64> = (0..DRAWS as u64)
        .map(|i| match lane.enter(i * 10_000_000, 100) {
            Crossing::Due { due_ns, .. } => (due_ns - i * 10_000_000) as f64,
            Crossing::Lost(_) => unreachable!(),
        })
        .collect();
    close(mean(&took), 150_000.0, 0.02, "mean of what it did");
    close(percentile(&took, 0.95), 1_050_000.0, 0.01, "p95 of what it did");
}

#[test]
fn rate_builds_queue_and_full_queue_drops() {
    // 8 Mbit/s: a byte a µs. 1,000 bytes each, four fit.
    let model =
        PathModel { rate_bits_per_s: Some(8_000_000), queue_bytes: Some(4_000), ..PathModel::constant(500) };
    assert_eq!(model.serialisation_ns(1_000), 1_000_000);
    let mut lane = Lane::new(model, 1, "rate").unwrap();
    let mut enter = |now_ns| match lane.enter(now_ns, 1_000) {
        Crossing::Due { due_ns, .. } => Ok(due_ns),
        Crossing::Lost(reason) => Err(reason),
    };
    for i in 1..=4 {
        assert_eq!(enter(0), Ok(i * 1_000_000 + 500));
    }
    assert_eq!(enter(0), Err(DropReason::QueueFull));
    assert_eq!(enter(1_000_000), Ok(5_000_500), "one has left");
    assert_eq!(enter(9_000_000), Ok(10_000_500), "an idle wire takes it at once");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let bad = [
        PathModel { duplicate: 1.5, ..PathModel::default() },
        PathModel { rate_bits_per_s: Some(0), ..PathModel::default() },
        PathModel { queue_bytes: Some(1), ..PathModel::default() },
        PathModel { mtu: Some(67), ..PathModel::default() },
        PathModel { loss: Loss::Independent { share: f64::NAN }, ..PathModel::default() },
        PathModel { correlation: Correlation::PerPacket(1.0), ..PathModel::default() },
        with(Jitter::Uniform { low_ns: 2.0, high_ns: 1.0 }),
        with(Jitter::Pareto { scale_ns: 1.0, shape: 1.0 }),
        with(Jitter::Gamma { mean_ns: 0.0, sd_ns: 1.0 }),
        with(Jitter::Mixture { parts: Vec::new() }),
        with(Jitter::Empirical { buckets: vec![(5, 1), (4, 1)] }),
        with(Jitter::Empirical { buckets: vec![(5, 0)] }),
    ];
    for model in bad {
        assert!(model.validate().is_err(), "{model:?}");
        assert!(model.mean_ns().is_nan());
    }
}

#[test]
fn a_model_is_written_as_it_is_read() {
    let model = PathModel {
        delay_ns: 5,
        jitter: Jitter::Mixture {
            parts: vec![Part { weight: 1.0, jitter: Jitter::Gamma { mean_ns: 2.0, sd_ns: 1.0 } }],
        },
        correlation: Correlation::InTime(7),
        loss: Loss::GilbertElliott { enter: 0.1, leave: 0.2, loss_good: 0.0, loss_bad: 0.5 },
        reorder: Some(Reorder { share: 0.1, late_ns: 9 }),
        ..PathModel::default()
    };
    let text = serde_json::to_string(&model).unwrap();
    assert_eq!(serde_json::from_str::<PathModel>(&text).unwrap(), model);
    assert_eq!(serde_json::from_str::<PathModel>("{}").unwrap(), PathModel::default());
}

fn jitter() -> impl Strategy<Value = Jitter> {
    let one = prop_oneof![
        Just(Jitter::None),
        (0.0..1e6).prop_map(|value_ns| Jitter::Constant { value_ns }),
        (0.0..1e6, 0.0..1e6).prop_map(|(low_ns, more)| Jitter::Uniform { low_ns, high_ns: low_ns + more }),
        (0.0..1e6, 1.0..1e6).prop_map(|(mean_ns, sd_ns)| Jitter::Normal { mean_ns, sd_ns }),
        (1.0..1e6, 0.05..3.0).prop_map(|(mean_ns, ratio)| Jitter::Gamma { mean_ns, sd_ns: ratio * mean_ns }),
        (1.0..1e6, 0.05..3.0)
            .prop_map(|(mean_ns, ratio)| Jitter::Lognormal { mean_ns, sd_ns: ratio * mean_ns }),
        (1.0..1e6, 1.5..9.0).prop_map(|(scale_ns, shape)| Jitter::Pareto { scale_ns, shape }),
    ];
    let part = (0.01..5.0, one.clone()).prop_map(|(weight, jitter)| Part { weight, jitter });
    prop_oneof![
        4 => one,
        1 => prop::collection::vec(part, 1..4).prop_map(|parts| Jitter::Mixture { parts }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn quantiles_rise_and_nothing_comes_before_its_time(jitter in jitter(), delay_ns in 0u64..1_000_000, seed in any::<u64>()) {
        let model = PathModel { delay_ns, jitter, ..PathModel::default() };
        let mut delay = model.delay().unwrap();
        let quantiles: Vec<f64> = (0..=50).map(|i| delay.quantile_ns(f64::from(i) / 50.0)).collect();
        prop_assert!(quantiles.is_sorted() && quantiles[0] >= delay_ns as f64, "{:?}", quantiles);
        prop_assert!(delay.mean_ns() >= quantiles[0] - 1e-6 && delay.mean_ns() <= quantiles[50] + 1e-6);
        let mut random = stream(seed, "x");
        for i in 0..200 {
            let drawn = delay.draw(i, &mut random);
            prop_assert!(drawn >= delay_ns);
            prop_assert!(drawn as f64 <= quantiles[50] + 1.0);
        }
    }

    #[test]
    fn a_lane_keeps_order_unless_configured_otherwise(
        jitter in jitter(), seed in any::<u64>(), rate in prop::option::of(1_000u64..1_000_000_000),
        gaps in prop::collection::vec((0u64..50_000, 40usize..1_500), 1..200), duplicate in 0.0..1.0,
    ) {
        let model = PathModel { delay_ns: 1_000, jitter, rate_bits_per_s: rate, duplicate, ..PathModel::default() };
        let mut lane = Lane::new(model.clone(), seed, "x").unwrap();
        let (mut now_ns, mut last_ns) = (0, 0);
        for (gap_ns, bytes) in gaps {
            now_ns += gap_ns;
            let Crossing::Due { due_ns, copy_ns } = lane.enter(now_ns, bytes) else { panic!("no loss is configured") };
            prop_assert!(due_ns >= last_ns && due_ns >= now_ns + 1_000 + model.serialisation_ns(bytes));
            prop_assert!(copy_ns.is_none_or(|copy_ns| copy_ns >= due_ns));
            last_ns = copy_ns.unwrap_or(due_ns);
        }
    }
}
