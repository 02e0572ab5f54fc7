//! `fathom fabric run`: a fabric for the length of one command.

use super::options::{FabricOptions, Leash};
use crate::exit::Failure;
use fathom_emulator::directory::{FabricDir, NAME_VARIABLE};
use fathom_emulator::take_down;
use fathom_os::peer::Peer;
use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  fathom fabric run my.toml --host client -- ping -c 3 server
  fathom fabric run my.toml --truth truth -- sh -c '
      fathom fabric exec server -- fathom echo &
      fathom fabric exec client -- fathom probe server --count 1000'

The command's exit code is passed on. The fabric goes whatever becomes of the command, or of this.";

/// How long a command that got Ctrl-C from the terminal may take before it is asked to end.
const GRACE: Duration = Duration::from_secs(5);

/// Arguments of `fathom fabric run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    options: FabricOptions,
    /// Run the command on this host; else it runs here, and reaches hosts by `fathom fabric exec`
    #[arg(long)]
    host: Option<String>,
    /// What to run
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs `fathom fabric run`.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    // The daemon holds the other end of its standard input: should this process be killed, the fabric goes too.
    let (ready, mut daemon) = args.options.start(Leash::Stdin)?;
    for note in &ready.notes {
        eprintln!("fathom: {note}");
    }
    let fabric = FabricDir::find(Some(&ready.dir.to_string_lossy()))?;
    let outcome = command(args, &fabric);
    let down = take_down(&fabric);
    drop(daemon.stdin.take());
    let ended = daemon.wait();
    let status = outcome?;
    super::warn_of(&down?);
    match ended {
        Ok(status) if status.success() => {}
        _ => eprintln!("fathom: the fabric did not end as it should"),
    }
    // As a shell has it: 128 and the number of the signal.
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    match u8::try_from(code) {
        Ok(0) => Ok(()),
        Ok(code) => Err(Failure::Passed(code)),
        Err(_) => Err(Failure::Passed(1)),
    }
}

fn command(args: &Args, fabric: &FabricDir) -> Result<ExitStatus, Failure> {
    let [program, arguments @ ..] = args.command.as_slice() else {
        return Err(Failure::usage("which command?"));
    };
    let mut command = match &args.host {
        None => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        Some(host) => {
            let this = std::env::current_exe().map_err(|e| {
                Failure::run(format!("cannot find this program again: {e}; is /proc mounted?"))
            })?;
            let mut command = Command::new(this);
            command.args(["fabric", "exec", host, "--"]).args(&args.command);
            command
        }
    };
    let mut child = command.env(NAME_VARIABLE, fabric.path()).spawn().map_err(|e| {
        let program = program.to_string_lossy();
        eprintln!("fathom: cannot run {program}: {e}; give its path, or see that it is on PATH");
        Failure::Passed(if e.kind() == ErrorKind::NotFound { 127 } else { 126 })
    })?;
    if let Some(peer) = Peer::open(child.id()) {
        // At a terminal Ctrl-C reaches the command too, which may be busy ending in order.
        let grace = if std::io::stdin().is_terminal() { GRACE } else { Duration::ZERO };
        crate::signals::on_request_to_end(move || {
            if !peer.has_ended_within(grace) {
                let _ = peer.ask_to_end();
            }
        })?;
    }
    child.wait().map_err(|e| Failure::run(format!("cannot wait for the command: {e}")))
}
