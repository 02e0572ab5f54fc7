//! `fathom fabric model`: the round trips that a scenario's paths are made for, without load and without what
//! middleboxes add.

use crate::exit::Failure;
use crate::fabric_simulate;
use crate::output;
use fathom_fabric::scenario::PathFigures;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  fathom fabric model scenarios/azure-same-zone.toml
  fathom fabric model scenarios/azure-region.toml --samples 2000 --json

With --samples also where mean and p95 of so many independent samples may lie: beyond three standard errors
(one run in 370) it is not chance.";

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

/// Runs `fathom fabric model`.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let scenario = fabric_simulate::read(&args.scenario)?;
    let models = scenario.paths().iter().map(|path| {
        PathFigures::of(&scenario, path, args.samples)
            .map_err(|e| Failure::usage(format!("path {}: {e}; correct its model", path.label)))
    });
    let models = models.collect::<Result<Vec<_>, _>>()?;
    let text = if args.json {
        models.iter().map(|model| serde_json::json!(model).to_string() + "\n").collect()
    } else {
        text(&models)
    };
    output::print("the model", &text).map(drop)
}

fn text(models: &[PathFigures<'_>]) -> String {
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

    #[test]
    fn columns_are_aligned() {
        let rows =
            [["path", "mean"], ["same-zone", "9.0"], ["x", "145000.0"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "path           mean\nsame-zone       9.0\nx          145000.0\n");
    }
}
