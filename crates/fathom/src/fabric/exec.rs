//! `fathom fabric exec`: becomes a command on one of the hosts.

use crate::exit::Failure;
use fathom_emulator::control::{Entry, Request, ask};
use fathom_emulator::directory::{FabricDir, NAME_VARIABLE};
use fathom_emulator::processes::MARKER_VARIABLE;
use fathom_os::namespace::{self, Namespace};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

const EXAMPLES: &str = "\
Examples:
  fathom fabric exec server -- fathom echo
  fathom fabric exec client -- fathom probe server
  fathom fabric exec --name migration client -- ping -c 3 server

The command sees the network of the host, and the scenario's names in /etc/hosts; its exit code is passed on. 126: it
cannot be run; 127: it is not there.";

/// Arguments of `fathom fabric exec`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Which fabric, where several are up [default: that of the environment, or the only one]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A host of the scenario
    host: String,
    /// What to run there
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs `fathom fabric exec`: comes back only when it fails.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let fabric = FabricDir::find(args.name.as_deref())?;
    let (entry, files): (Entry, _) = ask(&fabric, &Request::Enter { host: args.host.clone() })?;
    let mut files = files.into_iter().map(Namespace::from_file);
    let failed = |e: std::io::Error| Failure::run(format!("host {}: {e}", args.host));
    let network =
        files.next().ok_or_else(|| Failure::run("the fabric sent no network; is it of another version?"))?;
    let users = files.next().filter(|_| entry.users);
    namespace::enter(users.as_ref(), &network).map_err(failed)?;
    mount_names(&fabric).map_err(failed)?;
    // Whoever is here before its directory goes is ended with the fabric; nobody ends those that come later.
    if !fabric.exists()? {
        return Err(Failure::run(format!("fabric {} has ended meanwhile", fabric.name())));
    }
    let [program, arguments @ ..] = args.command.as_slice() else {
        return Err(Failure::usage("which command?"));
    };
    let error = Command::new(program)
        .args(arguments)
        .env(NAME_VARIABLE, fabric.path())
        .env(crate::probe::FABRIC_HOST, &args.host)
        .env(MARKER_VARIABLE, &entry.marker)
        .exec();
    let program = program.to_string_lossy();
    if error.kind() == ErrorKind::NotFound {
        eprintln!("fathom: cannot run {program}: it is not there; give its path, or see that it is on PATH");
        return Err(Failure::Passed(127));
    }
    eprintln!("fathom: cannot run {program}: {error}");
    Err(Failure::Passed(126))
}

/// Shows the command the scenario's names and the host's devices, in a view of the mounts that ends with it.
fn mount_names(fabric: &FabricDir) -> std::io::Result<()> {
    namespace::private_mounts()?;
    // Containers may forbid it; then /sys shows the devices of the machine, which few programs look at.
    let _ = namespace::own_sysfs();
    for (ours, theirs) in [("hosts", "/etc/hosts"), ("resolv.conf", "/etc/resolv.conf")] {
        if Path::new(theirs).exists() {
            namespace::bind(&fabric.file(ours), Path::new(theirs))?;
        }
    }
    Ok(())
}
