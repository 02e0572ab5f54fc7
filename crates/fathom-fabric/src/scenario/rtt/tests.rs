use rand::Rng as _;
use rand::SeedableRng as _;
use rand_distr::{Distribution as _, Exp, Gamma};

use super::*;

fn ns(us: f64) -> u64 {
    (us * 1e3).round() as u64
}

fn published(min: f64, mean: f64, p95: f64, p99: f64) -> Published {
    Published {
        min_ns: Some(ns(min)),
        mean_ns: Some(ns(mean)),
        p95_ns: Some(ns(p95)),
        p99_ns: Some(ns(p99)),
        ..Published::default()
    }
}

#[test]
fn what_was_published_of_a_zone_is_met() {
    for row in [published(226.0, 315.0, 375.0, 450.0), published(554.0, 675.0, 950.0, 1_250.0)] {
        let model = RoundTrip::fit(&row).unwrap();
        let close = |found: f64, wanted: Option<u64>| {
            let wanted = wanted.unwrap() as f64;
            assert!((found - wanted).abs() < 0.005 * wanted, "{found} for {wanted} in {model:?}");
        };
        close(model.mean_ns(), row.mean_ns);
        close(model.quantile_ns(0.95), row.p95_ns);
        close(model.quantile_ns(0.99), row.p99_ns);
    }
}

#[test]
fn closed_form_matches_simulated_draws() {
    let model =
        RoundTrip { min_ns: 1e5, shape: 1.7, scale_ns: 2e4, spike_probability: 0.2, spike_mean_ns: 9e4 };
    let mut random = rand_pcg::Pcg64::seed_from_u64(7);
    let (body, spike) = (Gamma::new(1.7, 2e4).unwrap(), Exp::new(1.0 / 9e4).unwrap());
    let way = |random: &mut rand_pcg::Pcg64| {
        let spiked = random.random_bool(0.2);
        5e4 + body.sample(random) + if spiked { spike.sample(random) } else { 0.0 }
    };
    let mut drawn: Vec<f64> = (0..400_000).map(|_| way(&mut random) + way(&mut random)).collect();
    drawn.sort_by(f64::total_cmp);
    let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
    assert!((mean / model.mean_ns() - 1.0).abs() < 0.005, "{mean} {}", model.mean_ns());
    let sd = (drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / drawn.len() as f64).sqrt();
    assert!((sd / model.sd_ns() - 1.0).abs() < 0.01, "{sd} {}", model.sd_ns());
    for p in [0.05, 0.5, 0.9, 0.95, 0.99, 0.999] {
        let found = drawn[(p * drawn.len() as f64) as usize];
        assert!((found / model.quantile_ns(p) - 1.0).abs() < 0.02, "p{p}: {found} {}", model.quantile_ns(p));
    }
}

#[test]
fn one_figure_or_two_or_five_will_do() {
    let mean = Published { mean_ns: Some(ns(900.0)), ..Published::default() };
    let model = RoundTrip::fit(&mean).unwrap();
    assert!((model.mean_ns() / 9e5 - 1.0).abs() < 1e-6 && (model.min_ns / 7.2e5 - 1.0).abs() < 1e-9);
    let two = Published {
        mean_ns: Some(ns(900.0)),
        sd_ns: Some(ns(70.0)),
        min_ns: Some(ns(700.0)),
        ..Published::default()
    };
    let model = RoundTrip::fit(&two).unwrap();
    assert!((model.mean_ns() / 9e5 - 1.0).abs() < 1e-4 && (model.sd_ns() / 7e4 - 1.0).abs() < 1e-4);
    let constant = Published { min_ns: Some(ns(900.0)), mean_ns: Some(ns(900.0)), ..Published::default() };
    assert!((RoundTrip::fit(&constant).unwrap().quantile_ns(0.99) - 9e5).abs() < 1e-6);
    let own =
        RoundTrip { min_ns: 2e5, shape: 2.0, scale_ns: 3e4, spike_probability: 0.03, spike_mean_ns: 2e5 };
    let five = Published {
        min_ns: Some(200_000),
        mean_ns: Some(own.mean_ns() as u64),
        sd_ns: Some(own.sd_ns() as u64),
        p50_ns: Some(own.quantile_ns(0.5) as u64),
        p95_ns: Some(own.quantile_ns(0.95) as u64),
        p99_ns: Some(own.quantile_ns(0.99) as u64),
        max_ns: None,
    };
    let again = RoundTrip::fit(&five).unwrap();
    assert!((again.shape / own.shape - 1.0).abs() < 0.05, "{again:?}");
    assert!((again.spike_mean_ns / own.spike_mean_ns - 1.0).abs() < 0.05, "{again:?}");
}

#[test]
fn impossible_figures_name_the_violated_law() {
    // The article's cross-region row as first published.
    let error = RoundTrip::fit(&published(4_587.0, 2_250.0, 3_800.0, 5_100.0)).unwrap_err();
    assert!(error.contains("min 4587 us is above p95 3800 us"), "{error}");
    let min = Published { min_ns: Some(ns(4_587.0)), mean_ns: Some(ns(2_250.0)), ..Published::default() };
    assert!(RoundTrip::fit(&min).unwrap_err().contains("no mean lies below"));
    let low = Published { mean_ns: Some(ns(300.0)), p50_ns: Some(ns(700.0)), ..Published::default() };
    assert!(RoundTrip::fit(&low).unwrap_err().contains("force it to reach"));
    let wide = Published {
        min_ns: Some(ns(1.0)),
        mean_ns: Some(ns(2.0)),
        sd_ns: Some(ns(9.0)),
        max_ns: Some(ns(3.0)),
        ..Published::default()
    };
    assert!(RoundTrip::fit(&wide).unwrap_err().contains("Bhatia"));
    let far = Published {
        mean_ns: Some(ns(100.0)),
        sd_ns: Some(ns(1.0)),
        p99_ns: Some(ns(200.0)),
        ..Published::default()
    };
    assert!(RoundTrip::fit(&far).unwrap_err().contains("Cantelli"));
    // Possible, but not in this family: a tail lighter than the body's.
    let light = published(100.0, 500.0, 620.0, 621.0);
    assert!(RoundTrip::fit(&light).unwrap_err().contains("closest"), "{:?}", RoundTrip::fit(&light));
    assert!(RoundTrip::fit(&Published::default()).unwrap_err().contains("`mean` or `p50`"));
}

#[test]
fn one_way_mean_is_half_round_trip() {
    let model = RoundTrip::fit(&published(554.0, 675.0, 950.0, 1_250.0)).unwrap();
    let way = model.way();
    way.validate().unwrap();
    assert!(
        (2.0 * way.mean_ns() / model.mean_ns() - 1.0).abs() < 1e-4,
        "{} {}",
        way.mean_ns(),
        model.mean_ns()
    );
}
