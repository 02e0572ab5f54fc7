//! `fathom recording export`.

use super::progress::Progress;
use super::summary::{Amounts, amounts_to};
use crate::exit::Failure;
use crate::output::{self, tell};
use crate::probe::LatteIntervals;
use clap::ValueEnum;
use fathom_core::summary::{CONNECT, CONNECT_TLS};
use fathom_core::text::count;
use fathom_recording::peers::{Buckets, ResultFormat, RowFormat, Totals, result};
use fathom_recording::{Format, Recording};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

/// Arguments of `fathom recording export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fathom recording export DIR > samples.csv
  fathom recording export DIR --format parquet --output samples.parquet
  fathom recording export DIR --format echo-client-csv --output results.csv
  fathom recording export DIR --format sockperf-log --output full.log
  fathom recording export DIR --format psping --histogram 20
  fathom recording export DIR --format latte --latte-hc 9998")]
pub(crate) struct Args {
    /// The recording's directory
    dir: PathBuf,
    /// What to write
    #[arg(long, value_enum, default_value_t = To::Csv)]
    format: To,
    /// Where to write it [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Buckets of PsPing's histogram: how many, or their beginnings in ms
    #[arg(long, value_name = "BUCKETS", default_value = "20")]
    histogram: Buckets,
    #[command(flatten)]
    latte: LatteIntervals,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum To {
    /// Every column, with a header
    Csv,
    /// One Parquet file
    Parquet,
    /// The columns of the articles' Python echo client, answered samples only
    EchoClientCsv,
    /// sockperf's full log, of round trips
    SockperfLog,
    /// latte's result and histogram
    Latte,
    /// `PsPing`'s result and histogram
    Psping,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    if args.latte.is_given() && !matches!(args.format, To::Latte) {
        return Err(Failure::usage(
            "--latte-hc and --latte-hl are for --format latte; add it, or leave them out",
        ));
    }
    let failure = |e: fathom_recording::Error| Failure::run(e.to_string());
    let recording = Recording::open(&args.dir).map_err(failure)?;
    let format = match args.format {
        To::Csv => Format::Csv,
        To::Parquet => Format::Parquet,
        To::EchoClientCsv => Format::Peer(RowFormat::EchoClientCsv),
        To::SockperfLog => {
            refuse_what_it_cannot_say(args, &recording.manifest().probe)?;
            Format::Peer(RowFormat::SockperfLog)
        }
        To::Latte => return result_of(args, &recording, &ResultFormat::Latte(args.latte.intervals())),
        To::Psping => return result_of(args, &recording, &ResultFormat::Psping(args.histogram.clone())),
    };
    if matches!(format, Format::Parquet) && args.output.is_none() && io::stdout().is_terminal() {
        return Err(Failure::usage("Parquet is not for terminals; name a file with --output FILE"));
    }
    let mut progress = Progress::new("exported");
    let rows = fathom_recording::export(&recording, format, destination(args)?, |rows| progress.rows(rows));
    drop(progress);
    match rows {
        Ok(rows) => conclude(args, &recording, rows),
        Err(fathom_recording::Error::Io { source, .. }) => told(args, Err(source)),
        Err(other) => Err(failure(other)),
    }
}

fn destination(args: &Args) -> Result<Box<dyn Write + Send>, Failure> {
    let Some(path) = &args.output else { return Ok(Box::new(io::stdout())) };
    // Never over an existing file: it may be the only copy of an earlier export.
    let file = File::create_new(path)
        .map_err(|e| Failure::run(format!("cannot create {}: {e}; choose another file", path.display())))?;
    Ok(Box::new(file))
}

/// Tells how it went.
fn conclude(args: &Args, recording: &Recording, rows: u64) -> Result<(), Failure> {
    let damage = recording.damage();
    for damage in &damage {
        tell!("fathom: left out of the export: {damage}");
    }
    if let Some(path) = &args.output {
        tell!("{} written to {}", count(rows, "sample"), path.display());
    }
    if damage.is_empty() || recording.is_running() { Ok(()) } else { Err(Failure::Told) }
}

/// The formats of other tools know neither several sizes in one file nor, but for `PsPing`'s, connections as samples.
fn refuse_what_it_cannot_say(args: &Args, probe: &serde_json::Value) -> Result<(), Failure> {
    let reason = if probe["size"].as_u64().is_none() {
        "its samples have several sizes, which that format would pool"
    } else if !probe["load"].is_null() || !probe["idle_gaps_ns"].is_null() {
        "its samples are of several kinds (idle and loaded, or after silences and warm), which that format would pool"
    } else if probe["mode"] == CONNECT && !matches!(args.format, To::Psping) {
        "its samples are connections; only psping has a format for those"
    } else if probe["mode"] == CONNECT_TLS {
        "its samples are TLS handshakes, which that format would call something else"
    } else {
        return Ok(());
    };
    Err(Failure::usage(format!("{}: {reason}; use --format csv", args.dir.display())))
}

/// A result as the other tool prints it.
fn result_of(args: &Args, recording: &Recording, format: &ResultFormat) -> Result<(), Failure> {
    refuse_what_it_cannot_say(args, &recording.manifest().probe)?;
    let Amounts { statistics: s, .. } = amounts_to(recording)?;
    let totals = Totals { rtt: &s.rtt, sent: s.samples - s.warm_up, warm_up: s.warm_up };
    let text = result(format, &fathom_recording::run(recording.manifest()), &totals);
    let mut out = destination(args)?;
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if written.is_err() {
        return told(args, written);
    }
    conclude(args, recording, s.samples)
}

fn told(args: &Args, written: io::Result<()>) -> Result<(), Failure> {
    let Some(path) = &args.output else { return output::written("the export", written) };
    written.map_err(|e| Failure::run(format!("cannot write {}: {e}; free some space", path.display())))
}
