//! Taking a fabric away: the processes that run on its hosts, the names of its networks, its directory.

use crate::directory::{FabricDir, FabricState};
use crate::error::Error;
use fathom_os::namespace;
use fathom_os::peer::Peer;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

/// In the environment of everything that `fathom fabric exec` starts, and so of what that starts in turn: by it such a
/// process is known as the fabric's, whoever its parent is by now.
pub const MARKER_VARIABLE: &str = "FATHOM_FABRIC_INSTANCE";
/// How long a process may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(2);
/// A process that is being ended may still have started another.
const ROUNDS: u32 = 5;
/// How long `fathom fabric exec` may take from entering a host's network to becoming its command.
const BECOMES: Duration = Duration::from_millis(500);

/// A process in the network of one of the hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostProcess {
    /// Its number.
    pub pid: u32,
    /// The host in whose network it runs.
    pub host: String,
    /// Its name, as the kernel has it.
    pub command: String,
    /// Whether `fathom fabric exec` started it (or its ancestor).
    #[serde(skip)]
    ours: bool,
}

impl HostProcess {
    /// Whether it may be `fathom fabric exec` itself, which has entered the network and has not become its command yet: only
    /// that bears the mark. Left alone it outlived its fabric (seen once: its `sleep` held a pipe open for ever).
    fn runs_this_program(&self) -> bool {
        let program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).ok();
        program("self").is_some_and(|this| program(&self.pid.to_string()) == Some(this))
    }

    /// Whether both are one process of one fabric. Its command may have changed: a shell that becomes what it runs.
    fn is_same(&self, other: &Self) -> bool {
        (self.pid, &self.host, self.ours) == (other.pid, &other.host, other.ours)
    }
}

impl fmt::Display for HostProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({}) on {}", self.pid, self.command, self.host)
    }
}

/// What became of the processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleanup {
    /// Ended here.
    pub ended: Vec<HostProcess>,
    /// Not the fabric's, so left alone: they stay in a network that leads nowhere.
    pub left: Vec<HostProcess>,
}

impl Cleanup {
    /// One line for each process left alone.
    pub fn warnings(&self) -> Vec<String> {
        let line = |left: &HostProcess| {
            format!(
                "{left} still runs in a network that is gone; `fathom fabric exec` did not start it, so it was left alone: \
                 end it with kill {}",
                left.pid
            )
        };
        self.left.iter().map(line).collect()
    }
}

/// Everything that runs in the networks of the hosts.
fn host_processes(state: &FabricState) -> Vec<HostProcess> {
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
            Some(HostProcess { pid, host: host.name.clone(), command: command.trim_end().to_owned(), ours })
        })
        .collect()
}

/// Handles on what `fathom fabric exec` started on the hosts that are `wanted`, and whoever else is there.
pub(crate) fn own_processes(
    state: &FabricState,
    wanted: impl Fn(&HostProcess) -> bool,
) -> (Vec<(HostProcess, Peer)>, Vec<HostProcess>) {
    // A handle first, then a second look: the number may have passed to another process in between.
    let there = host_processes(state).into_iter().filter(|process| wanted(process));
    let (ours, left): (Vec<_>, Vec<_>) = there.partition(|process| process.ours);
    let handles: Vec<_> = ours.iter().map(|process| Peer::open(process.pid)).collect();
    let still = host_processes(state);
    let held =
        ours.into_iter().zip(handles).filter(|(process, _)| still.iter().any(|other| other.is_same(process)));
    (held.filter_map(|(process, handle)| Some((process, handle?))).collect(), left)
}

/// Ends what `fathom fabric exec` started: asks first, then insists.
pub(crate) fn end_processes(state: &FabricState) -> Cleanup {
    let mut cleanup = Cleanup::default();
    let begun = Instant::now();
    let mut rounds = 0;
    while rounds < ROUNDS {
        let (held, left) = own_processes(state, |_| true);
        let on_its_way = left.iter().any(HostProcess::runs_this_program);
        cleanup.left = left;
        if held.is_empty() {
            if !on_its_way || begun.elapsed() >= BECOMES {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
            continue;
        }
        rounds += 1;
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
        for (process, peer) in held {
            peer.has_ended_within(GRACE);
            if !cleanup.ended.iter().any(|ended| ended.is_same(&process)) {
                cleanup.ended.push(process);
            }
        }
    }
    cleanup
}

/// Ends what entered a host after [`end_processes`] had looked. Wants the directory gone: `fathom fabric exec` asks for it
/// once it is inside, so whoever comes later ends by itself.
pub(crate) fn end_late_comers(state: &FabricState) {
    end_processes(state);
}

/// Takes away the names of the networks.
pub(crate) fn forget_names(state: &FabricState) -> Result<(), Error> {
    for name in state.hosts.iter().filter_map(|host| host.netns.as_deref()) {
        namespace::forget_name(name).map_err(|e| Error::run(e.to_string()))?;
    }
    Ok(())
}

/// Removes what a fabric left that did not end in order. Wants its lock. None: there was nothing.
pub(crate) fn remove_remains(fabric: &FabricDir) -> Result<Option<Cleanup>, Error> {
    let Some(state) = fabric.read_state()? else {
        // It got no further than its directory.
        let cleanup = fabric.exists()?.then(Cleanup::default);
        fabric.remove()?;
        return Ok(cleanup);
    };
    let cleanup = end_processes(&state);
    forget_names(&state)?;
    fabric.remove()?;
    end_late_comers(&state);
    Ok(Some(cleanup))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell that became `sleep` between the two looks was taken for another process, and left alive when its fabric
    /// went: seen once in `terminated_run_removes_its_fabric`.
    #[test]
    fn process_identity_survives_exec() {
        let process = |pid: u32, command: &str, ours: bool| {
            let (host, command) = ("client".to_owned(), command.to_owned());
            HostProcess { pid, host, command, ours }
        };
        assert!(process(7, "sh", true).is_same(&process(7, "sleep", true)));
        assert!(!process(7, "sh", true).is_same(&process(8, "sh", true)));
        // The number passed to a process that the fabric did not start.
        assert!(!process(7, "sh", true).is_same(&process(7, "sh", false)));
    }
}
