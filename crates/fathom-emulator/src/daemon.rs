//! The process that is a fabric: it makes the hosts, moves their packets, answers the control socket and takes
//! everything away at the end.

use crate::control::{self, ControlState, DownRequest, Stop};
use crate::directory::{FabricDir, FabricState, HostRecord};
use crate::engine::{Command, Engine};
use crate::error::{Error, warn};
use crate::freeze;
use crate::hosts::{self, HostDevice};
use crate::processes::{self, Cleanup};
use crate::truth::{self, Heading, Writing};
use crate::users::is_root_of_machine;
use crate::waiting::{Spinning, Wait, Window};
use fathom_fabric::scenario::Scenario;
use fathom_fabric::world::World;
use fathom_os::namespace::{self, Namespace};
use fathom_os::{assist, clock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// What makes a fabric.
#[derive(Debug)]
pub struct Options {
    /// What is emulated.
    pub scenario: Scenario,
    /// The file that it was read from.
    pub source: PathBuf,
    /// What the fabric is called.
    pub name: String,
    /// The directory for the truth, where it is wanted.
    pub truth: Option<PathBuf>,
    /// Whether every packet's stamps are wanted with it.
    pub packets: bool,
    /// How the loop waits for the moment at which a packet is due.
    pub wait: Wait,
    /// For how long a hybrid wait spins.
    pub spinning: Spinning,
    /// The CPU of the thread that moves packets.
    pub cpu: Option<usize>,
    /// Idle states of CPUs that take longer to leave are kept away, µs.
    pub cpu_latency_us: Option<u32>,
}

/// What is told once the fabric is up.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ready {
    /// The fabric's name.
    pub name: String,
    /// Its directory.
    pub dir: PathBuf,
    /// The daemon.
    pub pid: u32,
    /// The hosts that were made.
    pub hosts: Vec<HostRecord>,
    /// Addresses of middleboxes.
    pub middleboxes: Vec<(String, IpAddr)>,
    /// The directory of the truth.
    pub truth: Option<PathBuf>,
    /// What the machine granted and what not.
    pub notes: Vec<String>,
}

/// Ends the fabric of this process, from any thread.
#[derive(Debug, Clone)]
pub struct Stopper(Sender<Stop>);

impl Stopper {
    /// The fabric begins to end; a second call does nothing.
    pub fn stop(&self) {
        let _ = self.0.send(None);
    }
}

/// What has been made and must be taken away, whatever happens.
struct Resources {
    dir: FabricDir,
    state: FabricState,
    removed: bool,
}

impl Resources {
    /// Ends the processes while their network still works, so that they can say good-bye.
    fn end_processes(&self) -> Cleanup {
        processes::end_processes(&self.state)
    }

    fn remove(&mut self) -> Result<(), Error> {
        self.removed = true;
        processes::forget_names(&self.state)?;
        self.dir.remove()?;
        processes::end_late_comers(&self.state);
        Ok(())
    }
}

impl Drop for Resources {
    fn drop(&mut self) {
        if !self.removed
            && let Err(failure) = self.remove()
        {
            warn(failure);
        }
    }
}

/// Is the fabric until told to end: by `fathom fabric down`, by the [`Stopper`], or because its loop failed. `on_ready` is
/// called once the fabric is up; when it fails, everything is taken away again.
///
/// Where a process of an earlier fabric, or one that is not the fabric's, was met, standard error says so.
pub fn run<E: From<Error>>(
    options: Options,
    on_ready: impl FnOnce(&Ready, Stopper, &FabricDir) -> Result<(), E>,
) -> Result<(), E> {
    // Before it becomes root of a user namespace: there it would be somebody else, whose state is elsewhere, and who may
    // not touch what an earlier fabric started in its own.
    let dir = FabricDir::new(&options.name)?;
    let name = options.name.clone();
    let Some(_lock) = dir.lock_unless_alive()? else {
        return Err(Error::Run(format!(
            "fabric {name} is up already; take it down with `fathom fabric down {name}`, or use --name OTHER"
        ))
        .into());
    };
    if let Some(cleanup) = processes::remove_remains(&dir)? {
        warn(format_args!("removed what an earlier fabric {name} left behind"));
        cleanup.warnings().iter().for_each(warn);
    }
    let users = own_users()?;
    dir.create()?;
    let state = FabricState {
        marker: format!("{name}/{}-{}", std::process::id(), clock::utc_ns()),
        pid: std::process::id(),
        scenario: options.source.clone(),
        hosts: host_records(&options.scenario, &name)?,
    };
    let mut made = Resources { dir, state, removed: false };
    // Written before anything is made: whoever comes after a kill -9 knows what to remove.
    made.dir.write_state(&made.state)?;
    let hosts = make_hosts(&mut made, &options.scenario)?;

    let mut notes = Vec::new();
    let _hold = options.cpu_latency_us.and_then(|us| hold_cpu_latency(us, &mut notes));
    let (world, log, writing) = world(&options)?;
    let (stop, stopped) = channel();
    let (commands, received) = channel();
    let largest =
        options.scenario.hosts().iter().map(|host| usize::from(host.mtu)).max().unwrap_or(0).max(2_048);
    let networks = networks(&hosts)?;
    let waits = (options.wait, Window::new(options.spinning));
    let (freezes, freezer) = freeze::start(&made.state)?;
    let engine = Engine::new(world, hosts, waits, received, (log, freezes), largest)
        .map_err(|e| Error::run(format!("cannot watch the hosts' devices: {e}; raise ulimit -n")))?;
    let waker = engine.waker();
    notes.push(options.wait.note().to_owned());

    let ready = Ready {
        name,
        dir: made.dir.path(),
        pid: made.state.pid,
        hosts: made.state.hosts.clone(),
        middleboxes: middleboxes(&options.scenario),
        truth: options.truth.as_ref().map(|dir| dir.canonicalize().unwrap_or_else(|_| dir.clone())),
        notes,
    };
    let control_state = ControlState {
        scenario: options.scenario,
        marker: made.state.marker.clone(),
        networks,
        users,
        commands: commands.clone(),
        waker: waker.clone(),
        ready: serde_json::to_value(&ready).map_err(|e| Error::run(e.to_string()))?,
    };
    let listener = control::listen(&made.dir.control())?;
    let moving = start_engine(engine, options.cpu, stop.clone())?;
    control::serve(listener, Arc::new(control_state), stop.clone())?;
    on_ready(&ready, Stopper(stop), &made.dir)?;

    let why = stopped.recv().unwrap_or_default();
    // Frozen processes hear that they are to end only when they run.
    freezer.end();
    let cleanup = made.end_processes();
    let _ = commands.send(Command::Stop);
    let _ = waker.wake();
    drop(commands);
    let moved = match moving.join() {
        Ok(outcome) => outcome.map_err(|e| Error::run(format!("the fabric stopped moving packets: {e}"))),
        Err(_) => {
            Err(Error::run("the fabric's loop panicked; this is a mistake of fathom's: please report it"))
        }
    };
    let written = finish(writing);
    let removed = made.remove();
    match why {
        Some(request) => DownRequest::answer(request, &cleanup),
        None => cleanup.warnings().iter().for_each(warn),
    }
    Ok(moved.and(written).and(removed)?)
}

/// A user namespace of the fabric's own, where this process may not make networks in the one it is in.
fn own_users() -> Result<Option<Namespace>, Error> {
    if namespace::may_make_networks() {
        return Ok(None);
    }
    namespace::own_users().and_then(|()| Namespace::user()).map(Some).map_err(|e| Error::run(e.to_string()))
}

fn hold_cpu_latency(us: u32, notes: &mut Vec<String>) -> Option<assist::CpuLatencyHold> {
    match assist::hold_cpu_latency(us) {
        Ok(hold) => {
            notes.push(hold.description());
            Some(hold)
        }
        Err(e) => {
            notes.push(format!(
                "{e}; round trips will be longer than configured by what idle CPUs take to wake"
            ));
            None
        }
    }
}

/// The world, and the log of its truth where that is wanted.
fn world(options: &Options) -> Result<(World, Option<truth::TruthLog>, Option<Writing>), Error> {
    let scenario = &options.scenario;
    let packets = options.packets || (scenario.packet_log() && options.truth.is_some());
    let mut plan = scenario.plan();
    plan.packet_log = packets;
    let world = World::new(plan, scenario.seed).map_err(|e| Error::run(format!("{}: {e}", scenario.name)))?;
    let heading = Heading { scenario: scenario.name.clone(), seed: scenario.seed, packets };
    let Some(dir) = &options.truth else { return Ok((world, None, None)) };
    let (log, writing) = truth::begin(dir, &heading, &world)?;
    Ok((world, Some(log), Some(writing)))
}

/// The hosts, and under which names their networks will stand.
fn host_records(scenario: &Scenario, name: &str) -> Result<Vec<HostRecord>, Error> {
    let named = is_root_of_machine();
    let mut records = Vec::new();
    for host in scenario.hosts() {
        let netns = named.then(|| HostRecord::netns_of(name, &host.name));
        if let Some(netns) = netns.as_ref().filter(|netns| namespace::is_named(netns)) {
            return Err(Error::run(format!(
                "a network namespace {netns} is there already and not this fabric's; remove it with `ip netns delete \
                 {netns}`, or use --name OTHER"
            )));
        }
        records.push(HostRecord {
            name: host.name.clone(),
            addresses: host.addresses.clone(),
            mtu: host.mtu,
            network: None,
            netns,
        });
    }
    Ok(records)
}

fn make_hosts(made: &mut Resources, scenario: &Scenario) -> Result<Vec<HostDevice>, Error> {
    let hosts = hosts::make(&made.state.hosts)?;
    for (state, host) in made.state.hosts.iter_mut().zip(&hosts) {
        state.network =
            Some(host.network.inode().map_err(|e| Error::run(format!("host {}: {e}", host.name)))?);
    }
    made.dir.write_state(&made.state)?;
    let first =
        scenario.hosts().iter().filter_map(|host| Some((host.name.as_str(), *host.addresses.first()?)));
    let boxes = middleboxes(scenario);
    let boxes = boxes.iter().map(|(name, address)| (name.as_str(), *address));
    let names = hosts::names_file(first.chain(boxes));
    let resolver = "# fathom fabric: names are in /etc/hosts; there is no resolver.\n";
    for (file, text) in [("hosts", names.as_str()), ("resolv.conf", resolver)] {
        made.dir.create_file(file)?.write_all(text.as_bytes()).map_err(|e| {
            let path = made.dir.file(file);
            Error::run(format!("cannot write {}: {e}; make room there", path.display()))
        })?;
    }
    Ok(hosts)
}

fn middleboxes(scenario: &Scenario) -> Vec<(String, IpAddr)> {
    let boxes = scenario.middleboxes().iter();
    boxes.filter_map(|one| Some((one.name.clone(), scenario.resolve(&one.name)?))).collect()
}

/// The namespaces once more: the hosts themselves go to the loop.
fn networks(hosts: &[HostDevice]) -> Result<Vec<(String, File)>, Error> {
    let copy = |host: &HostDevice| Ok((host.name.clone(), host.network.file().try_clone()?));
    hosts
        .iter()
        .map(copy)
        .collect::<io::Result<_>>()
        .map_err(|e| Error::run(format!("cannot hold the hosts' networks open: {e}; raise ulimit -n")))
}

fn start_engine(
    engine: Engine,
    cpu: Option<usize>,
    stop: Sender<Stop>,
) -> Result<thread::JoinHandle<io::Result<()>>, Error> {
    let (pinned, outcome) = channel();
    let run = move || {
        let granted = cpu.map_or(Ok(String::new()), assist::pin_to_cpu);
        let may_run = granted.is_ok();
        let _ = pinned.send(granted);
        let outcome = if may_run { engine.run() } else { Ok(()) };
        // Whatever ended it, a fabric that moves nothing must not stay up.
        let _ = stop.send(None);
        outcome
    };
    let moving =
        thread::Builder::new().name("fabric".to_owned()).spawn(run).map_err(|e| Error::thread(&e))?;
    match outcome.recv() {
        Ok(Ok(_)) => Ok(moving),
        Ok(Err(e)) => Err(Error::run(format!("--cpu: {e}"))),
        Err(_) => Err(Error::run("the fabric's loop did not start")),
    }
}

fn finish(writing: Option<Writing>) -> Result<(), Error> {
    match writing.map(thread::JoinHandle::join) {
        None | Some(Ok(Ok(()))) => Ok(()),
        Some(Ok(Err(line))) => Err(Error::run(line)),
        Some(Err(_)) => {
            Err(Error::run("the truth's writer panicked; this is a mistake of fathom's: please report it"))
        }
    }
}
