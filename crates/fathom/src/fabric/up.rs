//! `fathom fabric up`: makes a fabric and leaves it running.

use super::options::{FabricOptions, Leash};
use crate::exit::Failure;
use crate::output;
use fathom_core::text::count;
use fathom_emulator::daemon::{self, Ready, Stopper};
use fathom_emulator::directory::FabricDir;
use fathom_os::peer;
use std::io::{self, Read as _, Write as _};
use std::thread;

const EXAMPLES: &str = "\
Examples:
  fathom fabric up scenarios/azure-same-zone.toml
  fathom fabric up scenarios/azure-live-migration.toml --truth truth --packets
  fathom fabric up my.toml --wait spin --cpu 1 --foreground

Then `fathom fabric exec HOST -- COMMAND`, and `fathom fabric down`. Needs Linux with TUN devices (/dev/net/tun) and `ip`
(iproute2); root, or a kernel that allows user namespaces.";

/// Arguments of `fathom fabric up`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    options: FabricOptions,
    /// Stay here until Ctrl-C instead of going to the background
    #[arg(long)]
    foreground: bool,
    /// Tell what was made as one JSON object
    #[arg(long)]
    json: bool,
    /// What `up` and `run` start
    #[arg(long, hide = true, value_enum)]
    daemon: Option<Leash>,
}

/// Runs `fathom fabric up`.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    match args.daemon {
        Some(leash) => return serve(args, Some(leash)),
        None if args.foreground => return serve(args, None),
        None => {}
    }
    let (ready, _daemon) = args.options.start(Leash::None)?;
    show(&ready, args.json)
}

/// Is the fabric's daemon: in the foreground, or started by `up` or `run`, which then holds the leash.
fn serve(args: &Args, started_by: Option<Leash>) -> Result<(), Failure> {
    daemon::run(args.options.read()?, |ready, stopper, fabric| {
        if started_by == Some(Leash::Stdin) {
            stop_at_end_of_input(stopper.clone());
        }
        crate::signals::on_request_to_end(move || stopper.stop())?;
        if started_by.is_some() {
            return go_to_background(ready, fabric);
        }
        show(ready, args.json)
    })
}

/// Whoever holds the other end of the standard input holds the fabric.
fn stop_at_end_of_input(stopper: Stopper) {
    thread::spawn(move || {
        let mut nothing = [0; 64];
        while io::stdin().read(&mut nothing).is_ok_and(|length| length > 0) {}
        stopper.stop();
    });
}

/// Tells whoever started this that the fabric is up, and writes to the fabric's log from then on.
fn go_to_background(ready: &Ready, fabric: &FabricDir) -> Result<(), Failure> {
    let line = serde_json::to_string(ready).map_err(|e| Failure::run(e.to_string()))?;
    let log = fabric.create_file("log")?;
    writeln!(io::stdout(), "{line}")
        .and_then(|()| io::stdout().flush())
        .and_then(|()| peer::leave_session())
        .and_then(|()| peer::detach_output(&log))
        .map_err(|e| Failure::run(format!("cannot go to the background: {e}; use --foreground")))
}

/// Tells what has been made.
fn show(ready: &Ready, json: bool) -> Result<(), Failure> {
    if json {
        let line = serde_json::to_string(ready).unwrap_or_default();
        return output::print("what was made", &(line + "\n")).map(drop);
    }
    for note in &ready.notes {
        eprintln!("fathom: {note}");
    }
    if let Some(truth) = &ready.truth {
        eprintln!("fathom: the truth goes to {}", truth.display());
    }
    let mut lines = vec![format!("fabric {}: {}\n", ready.name, count(ready.hosts.len() as u64, "host"))];
    let names =
        ready.hosts.iter().map(|host| host.name.len()).chain(ready.middleboxes.iter().map(|(n, _)| n.len()));
    let width = names.max().unwrap_or(0);
    for host in &ready.hosts {
        let addresses: Vec<String> = host.addresses.iter().map(ToString::to_string).collect();
        let netns = host.netns.as_ref().map(|name| format!("   ip netns: {name}")).unwrap_or_default();
        lines.push(format!("  {:width$}  {}{netns}\n", host.name, addresses.join(" ")));
    }
    for (name, address) in &ready.middleboxes {
        lines.push(format!("  {name:width$}  {address}   middlebox\n"));
    }
    output::print("what was made", &lines.concat())?;
    if let Some(first) = ready.hosts.first() {
        eprintln!("fathom: next: fathom fabric exec --name {} {} -- COMMAND", ready.name, first.name);
    }
    Ok(())
}
