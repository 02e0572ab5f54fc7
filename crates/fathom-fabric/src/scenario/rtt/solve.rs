//! Solving for the parameters of the family.

use super::laws::us;
use super::{DEFAULT_SHAPE, DEFAULT_SPIKE, Published, RoundTrip, TOLERANCE};

/// A published figure other than minimum and maximum.
#[derive(Debug, Clone, Copy)]
enum Figure {
    Mean(f64),
    Sd(f64),
    Quantile(&'static str, f64, f64),
}

impl Figure {
    /// How far the model is from it; 0 where it agrees, of order 1 where it does not at all.
    fn residual(self, model: &RoundTrip) -> f64 {
        match self {
            Self::Mean(mean) => (model.mean_ns() - mean) / (mean - model.min_ns).max(1.0),
            Self::Sd(sd) => (model.sd_ns() / sd).ln(),
            // By the share above it: no root need be found.
            Self::Quantile(_, p, value) => (model.exceeding(value).max(1e-12) / (1.0 - p)).ln(),
        }
    }

    /// Name, value wanted and value of the model.
    fn compare(self, model: &RoundTrip) -> (&'static str, f64, f64) {
        match self {
            Self::Mean(mean) => ("mean", mean, model.mean_ns()),
            Self::Sd(sd) => ("sd", sd, model.sd_ns()),
            Self::Quantile(name, p, value) => (name, value, model.quantile_ns(p)),
        }
    }
}

pub(super) fn solve(published: &Published) -> Result<RoundTrip, String> {
    let quantiles =
        [("p50", 0.5, published.p50_ns), ("p95", 0.95, published.p95_ns), ("p99", 0.99, published.p99_ns)];
    let mut figures: Vec<Figure> = published.mean_ns.iter().map(|&v| Figure::Mean(v as f64)).collect();
    figures.extend(published.sd_ns.iter().map(|&v| Figure::Sd(v as f64)));
    figures
        .extend(quantiles.iter().filter_map(|&(name, p, v)| v.map(|v| Figure::Quantile(name, p, v as f64))));
    let Some(centre) = [published.mean_ns, published.p50_ns].into_iter().flatten().min() else {
        return Err("a round trip needs at least `mean` or `p50`".to_owned());
    };
    let min_ns = published.min_ns.map_or(centre as f64 * 0.8, |min| min as f64);
    let excess = centre as f64 - min_ns;
    if excess <= 0.0 {
        // All of it is the minimum; nothing else may be claimed then.
        let constant =
            RoundTrip { min_ns, shape: 0.0, scale_ns: 0.0, spike_probability: 0.0, spike_mean_ns: 0.0 };
        return accept(constant, &figures);
    }
    let free = figures.len().min(4);
    let build = |x: &[f64]| model(min_ns, excess, free, x);
    let loss = |x: &[f64]| figures.iter().map(|f| f.residual(&build(x)).powi(2)).sum::<f64>();
    // Several beginnings: the surface has valleys where a spike imitates the body.
    let mut best = (f64::INFINITY, vec![0.0; free]);
    for (shape, spike) in
        [(0.0, 0.0), (1.5, 0.0), (-1.0, 0.0), (1.0, 1.5), (0.0, -1.5), (3.0, 1.0), (2.0, 3.0)]
    {
        let begin: Vec<f64> = [0.0, shape, spike, 0.0].into_iter().take(free).collect();
        let found = nelder_mead(&loss, &begin);
        if found.0 < best.0 {
            best = found;
        }
        if best.0 < 1e-16 {
            break;
        }
    }
    accept(build(&best.1), &figures)
}

/// The parameters of free coordinates: log of the body's mean over the excess, log of the shape over its default, log
/// of how much longer a spike is than the body's scale, logit of its probability.
fn model(min_ns: f64, excess: f64, free: usize, x: &[f64]) -> RoundTrip {
    let at = |i: usize| x.get(i).copied().unwrap_or(0.0).clamp(-12.0, 12.0);
    let shape = (DEFAULT_SHAPE * at(1).exp()).clamp(0.05, 20_000.0) / 2.0;
    let body = excess * at(0).exp();
    let scale_ns = body / (2.0 * shape);
    let odds = DEFAULT_SPIKE / (1.0 - DEFAULT_SPIKE) * at(3).exp();
    // A spike is longer than the whole body on the average scale of its spread.
    let spread = scale_ns * (2.0 * shape).sqrt();
    RoundTrip {
        min_ns,
        shape,
        scale_ns,
        spike_probability: if free >= 3 { odds / (1.0 + odds) } else { 0.0 },
        spike_mean_ns: if free >= 3 { scale_ns * 1.01 + spread * at(2).exp() } else { 0.0 },
    }
}

fn accept(model: RoundTrip, figures: &[Figure]) -> Result<RoundTrip, String> {
    let misses: Vec<String> = figures
        .iter()
        .map(|f| f.compare(&model))
        .filter(|(_, wanted, found)| (found - wanted).abs() > TOLERANCE * wanted)
        .map(|(name, wanted, found)| {
            format!("{name} {} comes out as {}", us(wanted as u64), us(found as u64))
        })
        .collect();
    if misses.is_empty() {
        return Ok(model);
    }
    Err(format!(
        "no minimum with a gamma body and exponential spikes has all of these figures; at the closest, {}: leave one out, or write `both` with a delay and a jitter",
        misses.join(", ")
    ))
}

/// The simplex method of Nelder and Mead (1965) with its usual coefficients, begun again from its end until that gains
/// nothing.
fn nelder_mead(loss: &dyn Fn(&[f64]) -> f64, begin: &[f64]) -> (f64, Vec<f64>) {
    let mut best = (loss(begin), begin.to_vec());
    for _ in 0..6 {
        let found = descend(loss, &best.1);
        let gained = best.0 - found.0;
        if found.0 < best.0 {
            best = found;
        }
        if best.0 < 1e-18 || gained < best.0 * 1e-6 {
            break;
        }
    }
    best
}

fn descend(loss: &dyn Fn(&[f64]) -> f64, begin: &[f64]) -> (f64, Vec<f64>) {
    let n = begin.len();
    let point = |x: Vec<f64>| (loss(&x), x);
    let mut simplex = vec![point(begin.to_vec())];
    for i in 0..n {
        let mut x = begin.to_vec();
        x[i] += 0.4;
        simplex.push(point(x));
    }
    for _ in 0..600 {
        simplex.sort_by(|a, b| a.0.total_cmp(&b.0));
        if simplex[0].0 < 1e-20 || simplex[n].0 - simplex[0].0 < 1e-22 {
            break;
        }
        let centroid: Vec<f64> =
            (0..n).map(|i| simplex[..n].iter().map(|(_, x)| x[i]).sum::<f64>() / n as f64).collect();
        let along = |t: f64| {
            point(centroid.iter().zip(&simplex[n].1).map(|(c, w)| c + t * (c - w)).collect::<Vec<f64>>())
        };
        let reflected = along(1.0);
        let next = if reflected.0 < simplex[0].0 {
            let expanded = along(2.0);
            if expanded.0 < reflected.0 { expanded } else { reflected }
        } else if reflected.0 < simplex[n - 1].0 {
            reflected
        } else {
            let contracted = if reflected.0 < simplex[n].0 { along(0.5) } else { along(-0.5) };
            if contracted.0 < simplex[n].0.min(reflected.0) {
                contracted
            } else {
                let centre = simplex[0].1.clone();
                for vertex in &mut simplex[1..] {
                    let shrunk = centre.iter().zip(&vertex.1).map(|(c, v)| c.midpoint(*v)).collect();
                    *vertex = point(shrunk);
                }
                continue;
            }
        };
        simplex[n] = next;
    }
    simplex.sort_by(|a, b| a.0.total_cmp(&b.0));
    simplex.swap_remove(0)
}
