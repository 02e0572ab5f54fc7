//! `fathom fabric`: an emulated network between hosts on this machine.
//!
//! Arguments, and what is printed; `fathom-emulator` does the work.

mod down;
mod event;
mod exec;
mod model;
mod options;
mod run;
mod status;
mod up;

use crate::exit::Failure;
use clap::Subcommand;
use fathom_emulator::processes::Cleanup;

/// Arguments of `fathom fabric`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the hosts and paths of a scenario, and leave them running
    Up(Box<up::Args>),
    /// Run a command on a host
    Exec(exec::Args),
    /// Make something happen now: a live migration, a cut, a pause, a flush
    Event(Box<event::Args>),
    /// Tell how a fabric is doing: packets, lateness, hosts, paths
    Status(status::Args),
    /// Take a fabric away, also one whose daemon was killed
    Down(down::Args),
    /// Make a fabric, run a command, take the fabric away
    Run(Box<run::Args>),
    /// Tell which round trips a scenario's paths are made for; needs no privilege
    Model(model::Args),
    /// Play a scenario in virtual time, hours in seconds, and record what its probes measure; needs no privilege
    Simulate(Box<crate::fabric_simulate::Args>),
}

/// Runs `fathom fabric`.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Up(args) => up::run(&args),
        Command::Exec(args) => exec::run(&args),
        Command::Event(args) => event::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Down(args) => down::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Model(args) => model::run(&args),
        Command::Simulate(args) => crate::fabric_simulate::run(&args),
    }
}

/// Says which processes were left alone.
fn warn_of(cleanup: &Cleanup) {
    for line in cleanup.warnings() {
        eprintln!("fathom: {line}");
    }
}
