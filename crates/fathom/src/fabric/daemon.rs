//! The process that is a fabric: it makes the hosts, moves their packets, answers the control socket and takes
//! everything away at the end.

use super::control::{self, Desk, Stop};
use super::engine::{Command, Engine};
use super::hosts::{self, Host};
use super::place::{HostState, Place, State};
use super::still;
use super::sweep::{self, Swept};
use super::truth::{self, Heading, Writing};
use super::up::Making;
use super::waiting::{Wait, Window};
use crate::exit::Failure;
use fathom_fabric::scenario::Scenario;
use fathom_fabric::world::World;
use fathom_os::namespace::{self, Namespace};
use fathom_os::{assist, clock, peer};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// How the daemon relates to whoever started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attachment {
    /// A terminal (or a service manager) watches it.
    Foreground,
    /// `fathom fabric up` waits until it is ready, and leaves.
    Background,
    /// `fathom fabric run` holds its standard input: when that ends, so does the fabric.
    Leashed,
}

/// What is told once the fabric is up.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ready {
    pub(super) name: String,
    pub(super) dir: PathBuf,
    pub(super) pid: u32,
    pub(super) hosts: Vec<HostState>,
    /// Addresses of middleboxes.
    pub(super) middleboxes: Vec<(String, IpAddr)>,
    pub(super) truth: Option<PathBuf>,
    /// What the machine granted and what not.
    pub(super) notes: Vec<String>,
}

/// What has been made and must be taken away, whatever happens.
struct Made {
    place: Place,
    state: State,
    gone: bool,
}

impl Made {
    /// Ends the processes while their network still works, so that they can say good-bye.
    fn end_processes(&self) -> Swept {
        sweep::end_processes(&self.state)
    }

    fn remove(&mut self) -> Result<(), Failure> {
        self.gone = true;
        sweep::forget_names(&self.state)?;
        self.place.remove()
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.gone
            && let Err(failure) = self.remove()
        {
            eprintln!("fathom: {failure}");
        }
    }
}

/// Reads the scenario and is its fabric until told to end.
pub(super) fn serve(making: &Making, attachment: Attachment, json: bool) -> Result<(), Failure> {
    let (scenario, source) = making.read()?;
    // Before it becomes root of a user namespace: there it would be somebody else, whose state is elsewhere, and who may
    // not touch what an earlier fabric started in its own.
    let place = Place::new(&making.name(&scenario))?;
    let name = place.name();
    let Some(_lock) = place.lock_unless_alive()? else {
        return Err(Failure::run(format!(
            "fabric {name} is up already; take it down with `fathom fabric down {name}`, or say --name OTHER"
        )));
    };
    if let Some(swept) = sweep::clean(&place)? {
        eprintln!("fathom: removed what an earlier fabric {name} left behind");
        swept.tell();
    }
    let users = if namespace::may_make_networks() {
        None
    } else {
        namespace::own_users().map_err(|e| Failure::run(e.to_string()))?;
        Some(Namespace::user().map_err(|e| Failure::run(e.to_string()))?)
    };
    place.create()?;
    let state = State {
        marker: format!("{name}/{}-{}", std::process::id(), clock::utc_ns()),
        pid: std::process::id(),
        scenario: source,
        hosts: host_states(&scenario, &name)?,
    };
    let mut made = Made { place, state, gone: false };
    // Written before anything is made: whoever comes after a kill -9 knows what to remove.
    made.place.write_state(&made.state)?;
    let hosts = make_hosts(&mut made, &scenario)?;

    let mut notes = Vec::new();
    let _hold = match making.cpu_latency() {
        None => None,
        Some(us) => match assist::hold_cpu_latency(us) {
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
        },
    };
    let packets = making.packets || (scenario.packet_log() && making.truth.is_some());
    let mut plan = scenario.plan();
    plan.packet_log = packets;
    let world =
        World::new(plan, scenario.seed).map_err(|e| Failure::run(format!("{}: {e}", scenario.name)))?;
    let heading = Heading { scenario: scenario.name.clone(), seed: scenario.seed, packets };
    let (log, writing) = match &making.truth {
        Some(dir) => truth::begin(dir, &heading, &world).map(|(log, writing)| (Some(log), Some(writing)))?,
        None => (None, None),
    };

    let (stop, stopped) = channel();
    let (commands, received) = channel();
    let largest = scenario.hosts().iter().map(|host| usize::from(host.mtu)).max().unwrap_or(0).max(2_048);
    let networks = networks(&hosts)?;
    let waits = (making.wait, Window::new(making.spin_window));
    let (warden, stillness) = still::start(&made.state)?;
    let engine = Engine::new(world, hosts, waits, received, (log, warden), largest)
        .map_err(|e| Failure::run(format!("cannot watch the hosts' devices: {e}; raise ulimit -n")))?;
    let waker = engine.waker();
    notes.push(waiting_note(making));

    let ready = Ready {
        name: name.clone(),
        dir: made.place.dir().to_owned(),
        pid: made.state.pid,
        hosts: made.state.hosts.clone(),
        middleboxes: middleboxes(&scenario),
        truth: making.truth.as_ref().map(|dir| dir.canonicalize().unwrap_or_else(|_| dir.clone())),
        notes,
    };
    let desk = Desk {
        scenario,
        marker: made.state.marker.clone(),
        networks,
        users,
        commands: commands.clone(),
        waker: waker.clone(),
        ready: serde_json::to_value(&ready).map_err(|e| Failure::run(e.to_string()))?,
    };
    let listener = control::listen(&made.place.control())?;
    let moving = start_engine(engine, making.cpu, stop.clone())?;
    control::serve(listener, Arc::new(desk), stop.clone())?;
    watch(attachment, stop)?;
    tell(&ready, attachment, json, &made.place)?;

    let why = stopped.recv().unwrap_or_default();
    // They hear that they are to end only when they run.
    stillness.end();
    let swept = made.end_processes();
    let _ = commands.send(Command::Stop);
    let _ = waker.wake();
    drop(commands);
    let moved = match moving.join() {
        Ok(outcome) => outcome.map_err(|e| Failure::run(format!("the fabric stopped moving packets: {e}"))),
        Err(_) => {
            Err(Failure::run("the fabric's loop panicked; this is a mistake of fathom's: please report it"))
        }
    };
    let written = finish(writing);
    let removed = made.remove();
    if let Some(asked) = why {
        asked.answer(&swept);
    } else {
        swept.tell();
    }
    moved.and(written).and(removed)
}

/// The hosts, and under which names their networks will stand.
fn host_states(scenario: &Scenario, name: &str) -> Result<Vec<HostState>, Failure> {
    let named = hosts::can_name();
    let mut states = Vec::new();
    for host in scenario.hosts() {
        let netns = named.then(|| format!("fathom-{name}-{}", host.name));
        if let Some(netns) = netns.as_ref().filter(|netns| namespace::is_named(netns)) {
            return Err(Failure::run(format!(
                "a network namespace {netns} is there already and not this fabric's; remove it with `ip netns delete \
                 {netns}`, or say --name OTHER"
            )));
        }
        states.push(HostState {
            name: host.name.clone(),
            addresses: host.addresses.clone(),
            mtu: host.mtu,
            network: None,
            netns,
        });
    }
    Ok(states)
}

fn make_hosts(made: &mut Made, scenario: &Scenario) -> Result<Vec<Host>, Failure> {
    let hosts = hosts::make(&made.state.hosts)?;
    for (state, host) in made.state.hosts.iter_mut().zip(&hosts) {
        state.network =
            Some(host.network.inode().map_err(|e| Failure::run(format!("host {}: {e}", host.name)))?);
    }
    made.place.write_state(&made.state)?;
    let first =
        scenario.hosts().iter().filter_map(|host| Some((host.name.as_str(), *host.addresses.first()?)));
    let boxes = middleboxes(scenario);
    let boxes = boxes.iter().map(|(name, address)| (name.as_str(), *address));
    let names = hosts::names_file(first.chain(boxes));
    let resolver = "# fathom fabric: names are in /etc/hosts; there is no resolver.\n";
    for (file, text) in [("hosts", names.as_str()), ("resolv.conf", resolver)] {
        let path = made.place.file(file);
        fs::write(&path, text).map_err(|e| Failure::run(format!("cannot write {}: {e}", path.display())))?;
    }
    Ok(hosts)
}

fn middleboxes(scenario: &Scenario) -> Vec<(String, IpAddr)> {
    let boxes = scenario.middleboxes().iter();
    boxes.filter_map(|one| Some((one.name.clone(), scenario.resolve(&one.name)?))).collect()
}

/// The namespaces once more: the hosts themselves go to the loop.
fn networks(hosts: &[Host]) -> Result<Vec<(String, File)>, Failure> {
    let copy = |host: &Host| Ok((host.name.clone(), host.network.file().try_clone()?));
    hosts
        .iter()
        .map(copy)
        .collect::<io::Result<_>>()
        .map_err(|e| Failure::run(format!("cannot hold the hosts' networks open: {e}; raise ulimit -n")))
}

fn waiting_note(making: &Making) -> String {
    match making.wait {
        Wait::Hybrid => "packets wait by sleeping, then spinning".to_owned(),
        Wait::Spin => "packets wait by spinning: one CPU is busy as long as the fabric is up".to_owned(),
        Wait::Sleep => {
            "packets wait by sleeping: they are late by what the machine takes to wake up".to_owned()
        }
    }
}

fn start_engine(
    engine: Engine,
    cpu: Option<usize>,
    stop: Sender<Stop>,
) -> Result<thread::JoinHandle<io::Result<()>>, Failure> {
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
    let moving = thread::Builder::new()
        .name("fabric".to_owned())
        .spawn(run)
        .map_err(|e| Failure::run(format!("cannot start a thread: {e}")))?;
    match outcome.recv() {
        Ok(Ok(_)) => Ok(moving),
        Ok(Err(e)) => Err(Failure::run(format!("--cpu: {e}"))),
        Err(_) => Err(Failure::run("the fabric's loop did not start")),
    }
}

/// Ends the fabric by a signal, or when the leash breaks.
fn watch(attachment: Attachment, stop: Sender<Stop>) -> Result<(), Failure> {
    if attachment == Attachment::Leashed {
        let stop = stop.clone();
        thread::spawn(move || {
            let mut nothing = [0; 64];
            while io::stdin().read(&mut nothing).is_ok_and(|length| length > 0) {}
            let _ = stop.send(None);
        });
    }
    ctrlc::set_handler(move || {
        let _ = stop.send(None);
    })
    .map_err(|e| Failure::run(format!("cannot watch for SIGTERM and Ctrl-C: {e}")))
}

fn tell(ready: &Ready, attachment: Attachment, json: bool, place: &Place) -> Result<(), Failure> {
    if attachment == Attachment::Foreground {
        super::up::show(ready, json);
        return Ok(());
    }
    let line = serde_json::to_string(ready).map_err(|e| Failure::run(e.to_string()))?;
    let told = writeln!(io::stdout(), "{line}").and_then(|()| io::stdout().flush());
    let path = place.file("log");
    let detached = File::create(&path).and_then(|log| {
        peer::leave_session()?;
        peer::detach_output(&log)
    });
    told.and(detached)
        .map_err(|e| Failure::run(format!("cannot go to the background ({}): {e}", path.display())))
}

fn finish(writing: Option<Writing>) -> Result<(), Failure> {
    match writing.map(thread::JoinHandle::join) {
        None | Some(Ok(Ok(()))) => Ok(()),
        Some(Ok(Err(line))) => Err(Failure::run(line)),
        Some(Err(_)) => {
            Err(Failure::run("the truth's writer panicked; this is a mistake of fathom's: please report it"))
        }
    }
}
