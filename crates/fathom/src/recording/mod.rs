//! `fathom recording`: what to do with a recording on disk.

mod explain;
mod export;
mod progress;
mod recover;
mod summary;
mod verify;

use crate::exit::Failure;
use crate::output::tell;
use clap::Subcommand;
use fathom_recording::{Begun, recordings_in};
use std::path::{Path, PathBuf};

/// Arguments of `fathom recording`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print what a recording amounts to
    Summary(summary::Args),
    /// Tell the story of a run: every stall and end, its cause, the evidence and how sure it is
    Explain(explain::Args),
    /// Check a recording: checksums, every law of the format, samples against events
    Verify(verify::Args),
    /// Put the recording of a killed probe in order
    Recover(recover::Args),
    /// Write the samples as CSV or Parquet
    Export(export::Args),
}

/// Runs `fathom recording`.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Summary(args) => summary::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Recover(args) => recover::run(&args),
        Command::Export(args) => export::run(&args),
    }
}

/// What became of one recording.
struct Done {
    /// Nothing is wrong with it.
    sound: bool,
    /// Somebody still reads what is printed.
    read: bool,
}

/// The recordings that these directories stand for, for whoever reads them. Where there are others, it leaves out one
/// that a probe had only begun, and says so.
fn readable(dirs: &[PathBuf]) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = dirs.iter().flat_map(|dir| recordings_in(dir)).collect();
    if all.iter().any(|dir| Begun::of(dir).is_none()) {
        all.retain(|dir| match Begun::of(dir) {
            Some(begun) => {
                tell!("fathom: {}: {begun}", dir.display());
                false
            }
            None => true,
        });
    }
    all
}

/// Does something with each recording that these directories stand for. One that cannot be read hides none of the others.
fn each(dirs: &[PathBuf], mut one: impl FnMut(&Path) -> Result<Done, Failure>) -> Result<(), Failure> {
    let all: Vec<PathBuf> = dirs.iter().flat_map(|dir| recordings_in(dir)).collect();
    let mut sound = true;
    for dir in &all {
        match one(dir) {
            Ok(done) => {
                sound &= done.sound;
                if !done.read {
                    break;
                }
            }
            Err(failure) if all.len() > 1 => {
                failure.report();
                sound = false;
            }
            Err(failure) => return Err(failure),
        }
    }
    if sound { Ok(()) } else { Err(Failure::Told) }
}
