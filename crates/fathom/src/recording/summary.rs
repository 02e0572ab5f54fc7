//! `fathom recording summary`: what a recording amounts to, as the probe itself would have said.

use super::progress::Progress;
use super::{Done, each, readable};
use crate::exit::Failure;
use crate::output::{self, tell};
use crate::throughput::summary::{Recorded, Summary};
use fathom_core::limits::{AnyRecorded, Found};
use fathom_core::policy::{self, Tally};
use fathom_core::statistics::Statistics;
use fathom_core::summary::{self, Heading};
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
    /// Recordings, a running one too; or directories that hold recordings
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// One JSON object a recording
    #[arg(long)]
    json: bool,
}

/// Runs `fathom recording summary`.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    each(&readable(&args.dirs), |dir| {
        let (text, sound) = one(dir, args.json)?;
        Ok(Done { sound, read: output::print("the summary", &text)? })
    })
}

/// The summary of one recording, and whether all of it could be read.
fn one(dir: &std::path::Path, json: bool) -> Result<(String, bool), Failure> {
    let recording = Recording::open(dir).map_err(|e| Failure::run(e.to_string()))?;
    let Amounts { heading, statistics, throughput, search, client, whole } = amounts_to(&recording)?;
    let reflector = &recording.manifest().reflector;
    if let Some(client) = client {
        let object = || format!("{}\n", client.json(&reflector.address));
        return Ok((if json { object() } else { client.text(&reflector.address) }, whole));
    }
    let text = match (throughput, search, json) {
        (Some(summary), _, true) => summary.json() + "\n",
        (Some(summary), _, false) => summary.text(),
        (_, Some(search), true) => {
            let remote = reflector.resolved.as_deref().and_then(|remote| remote.parse().ok());
            format!("{}\n", search.json(&reflector.address, remote))
        }
        (_, Some(search), false) => search.text(&reflector.address),
        (None, None, true) => summary::json(&heading, &statistics) + "\n",
        (None, None, false) => summary::text(&heading, &statistics),
    };
    Ok((text, whole))
}

/// What a recording amounts to.
pub(super) struct Amounts {
    pub(super) heading: Heading,
    pub(super) statistics: Statistics,
    /// Of a throughput test, which has no samples.
    throughput: Option<Summary>,
    /// Of a search for limits, which has none either.
    search: Option<Found>,
    /// Of an application under a policy.
    client: Option<policy::Amounts>,
    /// All of it could be read, but for the torn end that an interrupted or running probe leaves.
    pub(super) whole: bool,
}

/// Reads a recording to its end, and names what cannot be read.
pub(super) fn amounts_to(recording: &Recording) -> Result<Amounts, Failure> {
    let failed = |e: fathom_recording::Error| Failure::run(e.to_string());
    let mut statistics = Statistics::read_back(&recording.manifest().idle_gaps_ns());
    let (mut recorded, mut search) = (Recorded::default(), AnyRecorded::default());
    let mut tally = Tally::new(&recording.manifest().reflector.address);
    let mut damage = Vec::new();
    for entry in recording.events().map_err(failed)? {
        match entry {
            Ok(Entry::Known(event)) => {
                statistics.event(&event);
                recorded.event(&event);
                search.event(&event);
                tally.event(&event);
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
            tally.sample(sample);
        }
        progress.rows(statistics.samples);
    }
    drop(progress);
    damage.extend_from_slice(samples.damage());
    let (queries, unreadable) = recording.asked().map_err(failed)?.unzip();
    damage.extend(unreadable.unwrap_or_default());
    for unreadable in &damage {
        tell!("fathom: {}: {unreadable}", recording.dir().display());
    }
    let of_throughput = recorded.summary(recording.manifest(), recording.dir().display().to_string());
    let queries = queries.map(Box::new);
    let heading = Heading { queries, ..recording.heading(&statistics) };
    let whole = damage.iter().all(|unreadable| unreadable.torn);
    let client = recording.client(tally);
    Ok(Amounts { heading, statistics, throughput: of_throughput, search: search.outcome(), client, whole })
}
