//! `fathom recording summary`: what a recording amounts to, as the probe itself would have said.

use super::progress::Progress;
use crate::exit::Failure;
use crate::output::{self, tell};
use crate::throughput::summary::{Recorded, Summary};
use fathom_core::statistics::Statistics;
use fathom_core::summary::{self, Heading, Load};
use fathom_recording::{Entry, Recording};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  fathom recording summary recordings/same-zone-20261121T080000Z
  fathom recording summary recordings/* --json | jq '.rtt_ns.p99'";

/// Arguments of `fathom recording summary`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Recordings; a running one too
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// One JSON object a recording
    #[arg(long)]
    json: bool,
}

/// Runs `fathom recording summary`.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut damaged = false;
    for dir in &args.dirs {
        damaged |= one(dir, args.json)?;
    }
    if damaged { Err(Failure::Told) } else { Ok(()) }
}

/// Prints the summary of one recording; true where part of it could not be read.
fn one(dir: &std::path::Path, json: bool) -> Result<bool, Failure> {
    let recording = Recording::open(dir).map_err(|e| Failure::run(e.to_string()))?;
    let Amounts { heading, statistics, throughput, whole } = amounts_to(&recording)?;
    let text = match (throughput, json) {
        (Some(summary), true) => summary.json() + "\n",
        (Some(summary), false) => summary.text(),
        (None, true) => summary::json(&heading, &statistics) + "\n",
        (None, false) => summary::text(&heading, &statistics),
    };
    output::print("the summary", &text)?;
    Ok(!whole)
}

/// What a recording amounts to.
pub(super) struct Amounts {
    pub(super) heading: Heading,
    pub(super) statistics: Statistics,
    /// Of a throughput test, which has no samples.
    throughput: Option<Summary>,
    /// All of it could be read, but for the torn end that an interrupted or running probe leaves.
    pub(super) whole: bool,
}

/// Reads a recording to its end; what cannot be read is told.
pub(super) fn amounts_to(recording: &Recording) -> Result<Amounts, Failure> {
    let failed = |e: fathom_recording::Error| Failure::run(e.to_string());
    let gaps_ns = numbers(&recording.manifest().probe["idle_gaps_ns"]);
    let mut statistics = Statistics::with_gaps(&gaps_ns);
    let mut recorded = Recorded::default();
    let mut damage = Vec::new();
    for entry in recording.events().map_err(failed)? {
        match entry {
            Ok(Entry::Known(event)) => {
                statistics.event(&event);
                recorded.event(&event);
            }
            Ok(Entry::Other(value)) => statistics.count_event(value["kind"].as_str().unwrap_or("unknown")),
            Err(unreadable) => damage.push(unreadable),
        }
    }
    let mut progress = Progress::new("read");
    let mut samples = recording.samples();
    for batch in &mut samples {
        for sample in &batch {
            statistics.sample(sample);
        }
        progress.rows(statistics.samples);
    }
    drop(progress);
    damage.extend_from_slice(samples.damage());
    for unreadable in &damage {
        tell!("fathom: {}: {unreadable}", recording.dir().display());
    }
    let of_throughput = recorded.summary(recording.manifest(), recording.dir().display().to_string());
    let heading = heading(recording, &statistics);
    let whole = damage.iter().all(|unreadable| unreadable.torn);
    Ok(Amounts { heading, statistics, throughput: of_throughput, whole })
}

/// A list of numbers of the manifest; empty where it has none.
fn numbers(list: &serde_json::Value) -> Vec<u64> {
    list.as_array().into_iter().flatten().filter_map(serde_json::Value::as_u64).collect()
}

fn heading(recording: &Recording, statistics: &Statistics) -> Heading {
    let manifest = recording.manifest();
    let probe = &manifest.probe;
    let reflector = manifest.reflector.resolved.as_ref().unwrap_or(&manifest.reflector.address);
    let started_ns = manifest.started_at.as_nanosecond();
    let last_ns = statistics.span_ns.map_or(started_ns, |(_, last)| i128::from(last));
    let ended_ns = manifest.ended_at.map_or(last_ns, jiff::Timestamp::as_nanosecond);
    Heading {
        label: manifest.label.clone(),
        path: manifest.path.clone(),
        reflector: reflector.clone(),
        mode: probe["mode"].as_str().unwrap_or("unknown").to_owned(),
        size: probe["size"].as_u64().map(|size| size as u32),
        sizes: numbers(&probe["sizes"]).into_iter().map(|n| n as u32).collect(),
        interval_ns: probe["interval_ns"].as_u64(),
        load: probe["load"]["connections"].as_u64().map(|connections| Load {
            asked_bits_per_s: probe["load"]["bits_per_s"].as_u64(),
            connections: connections as u32,
        }),
        duration_ns: (ended_ns - started_ns).max(0) as u64,
        recording: Some(recording.dir().display().to_string()),
    }
}
