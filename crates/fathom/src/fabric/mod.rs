//! `fathom fabric`: an emulated network between hosts on this machine.
//!
//! Each host is a network namespace with one TUN device ([`hosts`]). A daemon ([`daemon`]) moves packets between them
//! through the pure core of `fathom-fabric` ([`engine`]), writes what it did ([`truth`], [`packets`]) and answers a control
//! socket ([`control`], [`protocol`]). What it made stands in a directory before it is made ([`place`]), so that whoever
//! comes next can take it away, also after a kill -9 ([`sweep`]).

mod control;
mod daemon;
mod down;
mod engine;
mod event;
mod exec;
mod hosts;
mod model;
mod packets;
mod place;
mod protocol;
mod run;
mod status;
mod still;
mod sweep;
mod truth;
mod up;
mod waiting;

use crate::exit::Failure;
use clap::Subcommand;

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
