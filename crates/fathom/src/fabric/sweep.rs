//! Taking a fabric away: the processes that it started, the names of its networks, its directory.

use super::place::{Place, State};
use crate::exit::Failure;
use fathom_os::namespace;
use fathom_os::peer::Peer;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

/// In the environment of everything that `fathom fabric exec` starts, and so of what that starts in turn: by it such a
/// process is known as the fabric's, whoever its parent is by now.
pub(super) const MARKER_VARIABLE: &str = "FATHOM_FABRIC_INSTANCE";
/// How long a process may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(2);
/// A process that is being ended may still have started another.
const ROUNDS: u32 = 5;

/// A process in the network of one of the hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Resident {
    pub(super) pid: u32,
    pub(super) host: String,
    pub(super) command: String,
    /// Whether `fathom fabric exec` started it (or its ancestor).
    #[serde(skip)]
    ours: bool,
}

impl fmt::Display for Resident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({}) on {}", self.pid, self.command, self.host)
    }
}

/// What became of the processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Swept {
    /// Ended here.
    pub(super) ended: Vec<Resident>,
    /// Not the fabric's, so left alone: they stay in a network that leads nowhere.
    pub(super) left: Vec<Resident>,
}

impl Swept {
    /// One line for each process left alone.
    pub(super) fn tell(&self) {
        for left in &self.left {
            eprintln!(
                "fathom: {left} still runs in a network that is gone; `fathom fabric exec` did not start it, so it was \
                 left alone: end it with kill {}",
                left.pid
            );
        }
    }
}

/// Everything that runs in the networks of the hosts.
fn residents(state: &State) -> Vec<Resident> {
    let this = std::process::id();
    let marker = format!("{MARKER_VARIABLE}={}", state.marker);
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&pid| pid != this)
        .filter_map(|pid: u32| {
            let network = namespace::network_inode_of(pid)?;
            let host = state.hosts.iter().find(|host| host.network == Some(network))?;
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let ours = environment.split(|&b| b == 0).any(|entry| entry == marker.as_bytes());
            let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            Some(Resident { pid, host: host.name.clone(), command: command.trim_end().to_owned(), ours })
        })
        .collect()
}

/// Handles on what `fathom fabric exec` started on the hosts that are `wanted`, and whoever else is there.
pub(super) fn hold(
    state: &State,
    wanted: impl Fn(&Resident) -> bool,
) -> (Vec<(Resident, Peer)>, Vec<Resident>) {
    // A handle first, then a second look: the number may have passed to another process in between.
    let there = residents(state).into_iter().filter(|resident| wanted(resident));
    let (ours, left): (Vec<_>, Vec<_>) = there.partition(|resident| resident.ours);
    let handles: Vec<_> = ours.iter().map(|resident| Peer::open(resident.pid)).collect();
    let still = residents(state);
    let held = ours.into_iter().zip(handles).filter(|(resident, _)| still.contains(resident));
    (held.filter_map(|(resident, handle)| Some((resident, handle?))).collect(), left)
}

/// Ends what `fathom fabric exec` started: asks first, then insists.
pub(super) fn end_processes(state: &State) -> Swept {
    let mut swept = Swept::default();
    for _ in 0..ROUNDS {
        let (held, left) = hold(state, |_| true);
        swept.left = left;
        if held.is_empty() {
            break;
        }
        for (_, peer) in &held {
            let _ = peer.ask_to_end();
            // One that stands still could not hear it.
            let _ = peer.go_on();
        }
        let deadline = Instant::now() + GRACE;
        for (_, peer) in &held {
            if !peer.has_ended_within(deadline.saturating_duration_since(Instant::now())) {
                let _ = peer.kill();
            }
        }
        for (resident, peer) in held {
            peer.has_ended_within(GRACE);
            if !swept.ended.contains(&resident) {
                swept.ended.push(resident);
            }
        }
    }
    swept
}

/// Takes away the names of the networks.
pub(super) fn forget_names(state: &State) -> Result<(), Failure> {
    for name in state.hosts.iter().filter_map(|host| host.netns.as_deref()) {
        namespace::forget_name(name).map_err(|e| Failure::run(e.to_string()))?;
    }
    Ok(())
}

/// Removes what a fabric left that did not end in order. Wants its lock. None: there was nothing.
pub(super) fn clean(place: &Place) -> Result<Option<Swept>, Failure> {
    let swept = match place.read_state() {
        Some(state) => {
            let swept = end_processes(&state);
            forget_names(&state)?;
            Some(swept)
        }
        // It got no further than its directory.
        None => place.dir().exists().then(Swept::default),
    };
    place.remove()?;
    Ok(swept)
}
