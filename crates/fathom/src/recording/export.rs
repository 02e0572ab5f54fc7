//! `fathom recording export`.

use super::progress::Progress;
use crate::exit::Failure;
use clap::ValueEnum;
use fathom_recording::{Format, Recording};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

/// Arguments of `fathom recording export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fathom recording export DIR > samples.csv
  fathom recording export DIR --format parquet --output samples.parquet
  fathom recording export DIR --format echo-client-csv --output tcp_echo_results.csv")]
pub(crate) struct Args {
    /// The recording's directory
    dir: PathBuf,
    /// What to write
    #[arg(long, value_enum, default_value_t = To::Csv)]
    format: To,
    /// Where to write it [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum To {
    /// Every column, with a header
    Csv,
    /// One Parquet file
    Parquet,
    /// The columns of the articles' Python echo client, answered samples only
    EchoClientCsv,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let failure = |e: fathom_recording::Error| Failure::run(e.to_string());
    let recording = Recording::open(&args.dir).map_err(failure)?;
    let format = match args.format {
        To::Csv => Format::Csv,
        To::Parquet => Format::Parquet,
        To::EchoClientCsv => Format::EchoClientCsv,
    };
    let mut progress = Progress::new("exported");
    let tell = |rows| progress.rows(rows);
    let rows = match &args.output {
        Some(path) => {
            // Never over an existing file: it may be the only copy of an earlier export.
            let file = File::create_new(path).map_err(|e| {
                Failure::run(format!("cannot create {}: {e}; choose another file", path.display()))
            })?;
            fathom_recording::export(&recording, format, file, tell)
        }
        None if matches!(format, Format::Parquet) && io::stdout().is_terminal() => {
            return Err(Failure::usage("Parquet is not for terminals; name a file with --output FILE"));
        }
        None => fathom_recording::export(&recording, format, io::stdout(), tell),
    };
    drop(progress);
    let rows = rows.map_err(failure)?;
    let damage = recording.damage();
    for damage in &damage {
        eprintln!("fathom: left out of the export: {damage}");
    }
    if let Some(path) = &args.output {
        eprintln!("{rows} samples written to {}", path.display());
    }
    if damage.is_empty() || recording.is_running() { Ok(()) } else { Err(Failure::Told) }
}
