//! The command line: which command, with which arguments.

use crate::exit::Failure;
#[cfg(target_os = "linux")]
use crate::fabric;
use crate::{echo, probe, recording};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  there$ fathom echo                     answer probes on port 7007
  here$  fathom probe THERE              measure once a second until Ctrl-C, recorded under ./recordings
  here$  fathom recording explain DIR    what happened to its connections, and why

`fathom COMMAND --help` has more of each.";

#[derive(Debug, Parser)]
#[command(name = "fathom", version, about, max_term_width = 110, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer probes: an RFC 862 echo server that also stamps our own frames
    Echo(echo::Args),
    /// Measure a path: send samples over long-lived connections, time their echoes, keep every one
    Probe(Box<probe::Args>),
    /// Emulate a network between hosts on this machine: delays, loss, middleboxes, migrations
    #[cfg(target_os = "linux")]
    Fabric(fabric::Args),
    /// Read and look after recordings: summary, explain, verify, recover, export
    Recording(recording::Args),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let done: Result<(), Failure> = match cli.command {
        Command::Echo(args) => echo::run(args),
        Command::Probe(args) => probe::run(*args),
        #[cfg(target_os = "linux")]
        Command::Fabric(args) => fabric::run(args),
        Command::Recording(args) => recording::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
