//! `fathom fabric model`: the round trips that a scenario's paths are made for, without load and without what
//! middleboxes add.

use crate::exit::Failure;
use crate::fabric_simulate;
use fathom_fabric::model::PathModel;
use fathom_fabric::scenario::{Path, Scenario};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  fathom fabric model scenarios/azure-same-zone.toml
  fathom fabric model scenarios/azure-region.toml --samples 2000 --json

With --samples also where mean and p95 of so many independent samples may lie: beyond three standard errors
(one run in 370) it is not chance.";

/// Equally likely delays of one way, of which its variance is taken.
const STEPS: u32 = 20_000;
/// Standard errors within which samples are expected: 99.73 % of a normal distribution.
const ERRORS: f64 = 3.0;

/// Arguments of `fathom fabric model`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The scenario
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Also how far so many samples may be off by chance
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    samples: Option<u64>,
    /// A JSON object a path instead of the text
    #[arg(long)]
    json: bool,
}

/// What one path is made for. Times are of round trips.
#[derive(Debug, Serialize)]
struct Model<'a> {
    path: &'a str,
    from: &'a str,
    /// The address that a probe of this path sends from; absent where `from` has none.
    source: Option<std::net::IpAddr>,
    to: &'a str,
    /// Where a probe of this path connects to.
    target: SocketAddr,
    /// Scenario `source`: where the figures come from; empty where the file does not say.
    figures: &'a str,
    rtt_ns: Figures,
    /// Only with `--samples`.
    #[serde(skip_serializing_if = "Option::is_none")]
    chance: Option<Chance>,
}

#[derive(Debug, Serialize)]
struct Figures {
    mean: u64,
    stddev: u64,
    p50: u64,
    p95: u64,
    p99: u64,
}

/// Least and most that is expected of so many samples, in ns.
#[derive(Debug, Serialize)]
struct Chance {
    samples: u64,
    mean: [u64; 2],
    p95: [u64; 2],
}

/// Runs `fathom fabric model`.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let scenario = fabric_simulate::read(&args.scenario)?;
    let models = scenario.paths().iter().map(|path| {
        of(&scenario, path, args.samples)
            .map_err(|e| Failure::usage(format!("path {}: {e}; correct its model", path.label)))
    });
    let models = models.collect::<Result<Vec<_>, _>>()?;
    if args.json {
        for model in &models {
            println!("{}", serde_json::json!(model));
        }
    } else {
        print!("{}", text(&models));
    }
    Ok(())
}

fn of<'a>(scenario: &Scenario, path: &'a Path, samples: Option<u64>) -> Result<Model<'a>, String> {
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
    Ok(Model {
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

/// Of one way, in ns².
fn variance(model: &PathModel) -> Result<f64, String> {
    let (delay, mean) = (model.delay()?, model.mean_ns());
    let steps = (0..STEPS).map(|i| (f64::from(i) + 0.5) / f64::from(STEPS));
    let squares: f64 = steps.map(|p| (delay.quantile_ns(p) - mean).powi(2)).sum();
    Ok(squares / f64::from(STEPS))
}

fn text(models: &[Model<'_>]) -> String {
    let mut rows = vec![["path", "from", "target", "mean", "sd", "p50", "p95", "p99"].map(str::to_owned)];
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    for model in models {
        let rtt = &model.rtt_ns;
        let [mean, sd, p50, p95, p99] = [rtt.mean, rtt.stddev, rtt.p50, rtt.p95, rtt.p99].map(us);
        let target = model.target.to_string();
        rows.push([model.path.to_owned(), model.from.to_owned(), target, mean, sd, p50, p95, p99]);
    }
    let mut text = "round trips in µs, without load\n".to_owned() + &table(&rows);
    let chances: Vec<_> = models.iter().filter_map(|m| Some((m.path, m.chance.as_ref()?))).collect();
    if let Some((_, first)) = chances.first() {
        text += "\nby chance of ";
        text += &first.samples.to_string();
        text += " samples, within three standard errors\n";
        let mut rows = vec![["path", "mean", "p95"].map(str::to_owned)];
        let range = |[least, most]: [u64; 2]| format!("{} to {}", us(least), us(most));
        rows.extend(chances.iter().map(|(path, c)| [(*path).to_owned(), range(c.mean), range(c.p95)]));
        text += &table(&rows);
    }
    text
}

/// Aligned columns: numbers to the right, and their heads; words to the left.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
    let digit = |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit()) && !cell.contains(':');
    let columns: Vec<(usize, bool)> =
        (0..N).map(|i| (width(i), rows.iter().skip(1).all(|row| digit(&row[i])))).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&columns).map(|(cell, &(width, numbers))| {
            if numbers { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_fabric::model::Jitter;

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
        let model = of(&scenario, path, Some(900)).expect("figures");
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

    #[test]
    fn columns_are_aligned() {
        let rows =
            [["path", "mean"], ["same-zone", "9.0"], ["x", "145000.0"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "path           mean\nsame-zone       9.0\nx          145000.0\n");
    }
}
