//! `fathom fabric down`: takes a fabric away, also one whose daemon was killed.

use super::place::{Lock, Place, names};
use super::protocol::{DownAnswer, Request, ask};
use super::sweep::{self, Swept};
use crate::exit::Failure;
use serde_json::json;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  fathom fabric down
  fathom fabric down migration
  fathom fabric down --all

What `fathom fabric exec` started is ended (SIGTERM, then SIGKILL); other processes in the hosts' networks are named and
left alone.";

/// The daemon's last act is to release the lock, right after its answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Arguments of `fathom fabric down`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Which fabric [default: that of the environment, or the only one]
    name: Option<String>,
    /// Every fabric of this user
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// Tell what was done as one JSON object a fabric
    #[arg(long)]
    json: bool,
}

/// Runs `fathom fabric down`.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let places = if args.all {
        names().iter().map(|name| Place::find(Some(name))).collect::<Result<Vec<_>, _>>()?
    } else {
        vec![Place::find(args.name.as_deref())?]
    };
    for place in places {
        let name = place.name();
        let swept = take_down(&place)?;
        if args.json {
            println!("{}", json!({ "name": name, "ended": swept.ended, "left": swept.left }));
        } else {
            println!("fabric {name} is down");
        }
        swept.tell();
    }
    Ok(())
}

/// Asks the daemon to end, or removes what one left.
pub(super) fn take_down(place: &Place) -> Result<Swept, Failure> {
    let name = place.name();
    if !place.dir().exists() {
        let others = names();
        let there =
            if others.is_empty() { String::new() } else { format!("; there is: {}", others.join(", ")) };
        return Err(Failure::run(format!("no fabric {name} is up{there}")));
    }
    if let Some(_lock) = place.lock()? {
        // Nobody lives here.
        return Ok(sweep::clean(place)?.unwrap_or_default());
    }
    let answered = ask::<DownAnswer>(place, &Request::Down);
    let Some(_lock) = wait_for_lock(place)? else {
        let pid = place.read_state().map(|state| format!(" (process {})", state.pid)).unwrap_or_default();
        return Err(match answered {
            Err(failure) => failure,
            Ok(_) => Failure::run(format!(
                "the daemon of fabric {name}{pid} does not end; kill -9 it, then try again"
            )),
        });
    };
    // Should it have died on the way, the rest is done here.
    let rest = sweep::clean(place)?;
    match (answered, rest) {
        (Ok((swept, _)), None) => Ok(swept),
        (Ok((mut swept, _)), Some(rest)) => {
            swept.ended.extend(rest.ended);
            swept.left = rest.left;
            Ok(swept)
        }
        (Err(_), rest) => Ok(rest.unwrap_or_default()),
    }
}

fn wait_for_lock(place: &Place) -> Result<Option<Lock>, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(lock) = place.lock()? {
            return Ok(Some(lock));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
