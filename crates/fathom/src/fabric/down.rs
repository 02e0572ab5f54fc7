//! `fathom fabric down`: takes a fabric away, also one whose daemon was killed.

use super::options::Which;
use crate::exit::Failure;
use crate::output;
use fathom_emulator::directory::{FabricDir, names};
use fathom_emulator::take_down;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  fathom fabric down
  fathom fabric down migration    (or: --name migration)
  fathom fabric down --all

What `fathom fabric exec` started is ended (SIGTERM, then SIGKILL); other processes in the hosts' networks are named and
left alone.";

/// Arguments of `fathom fabric down`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,
    /// Every fabric of this user
    #[arg(long, conflicts_with_all = ["name", "named"])]
    all: bool,
    /// Tell what was done as one JSON object a fabric
    #[arg(long)]
    json: bool,
}

/// Runs `fathom fabric down`.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let fabrics = if args.all {
        names().iter().map(|name| FabricDir::find(Some(name))).collect::<Result<Vec<_>, _>>()?
    } else {
        vec![args.which.find()?]
    };
    let mut lines = Vec::new();
    for fabric in fabrics {
        let name = fabric.name();
        let cleanup = take_down(&fabric)?;
        lines.push(if args.json {
            format!("{}\n", json!({ "name": name, "ended": cleanup.ended, "left": cleanup.left }))
        } else {
            format!("fabric {name} is down\n")
        });
        super::warn_of(&cleanup);
    }
    output::print("what is down", &lines.concat()).map(drop)
}
