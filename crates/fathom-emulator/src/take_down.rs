//! Taking a fabric away, whether its daemon lives or not.

use crate::control::{Request, ask};
use crate::directory::{FabricDir, Lock, names, not_up};
use crate::error::Error;
use crate::processes::{Cleanup, remove_remains};
use std::time::{Duration, Instant};

/// The daemon's last act is to release the lock, right after its answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks the daemon to end, or removes what one left.
pub fn take_down(fabric: &FabricDir) -> Result<Cleanup, Error> {
    let name = fabric.name();
    if !fabric.exists()? {
        return Err(not_up(name, &names()));
    }
    if let Some(_lock) = fabric.lock()? {
        // No daemon lives here.
        return Ok(remove_remains(fabric)?.unwrap_or_default());
    }
    let answer = ask::<Cleanup>(fabric, &Request::Down);
    let Some(_lock) = wait_for_lock(fabric)? else {
        let state = fabric.read_state().ok().flatten();
        let pid = state.map(|state| format!(" (process {})", state.pid)).unwrap_or_default();
        return Err(match answer {
            Err(error) => error,
            Ok(_) => Error::run(format!(
                "the daemon of fabric {name}{pid} does not end; kill -9 it, then try again"
            )),
        });
    };
    // Should it have died on the way, the rest is done here.
    let rest = remove_remains(fabric)?;
    match (answer, rest) {
        (Ok((cleanup, _)), None) => Ok(cleanup),
        (Ok((mut cleanup, _)), Some(rest)) => {
            cleanup.ended.extend(rest.ended);
            cleanup.left = rest.left;
            Ok(cleanup)
        }
        (Err(_), rest) => Ok(rest.unwrap_or_default()),
    }
}

fn wait_for_lock(fabric: &FabricDir) -> Result<Option<Lock>, Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(lock) = fabric.lock()? {
            return Ok(Some(lock));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
