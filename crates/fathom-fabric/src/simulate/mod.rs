//! A scenario played in virtual time: hosts with a TCP of their own on the fabric's world, probes on its paths, and what
//! they measure. Hours pass in seconds, nothing is opened and no privilege is needed.
//!
//! What it shows is the fabric alone: hosts take no time, send when they mean to, and their TCP is smoltcp's.
//!
//! ```
//! use fathom_fabric::scenario::Scenario;
//! use fathom_fabric::simulate::{Item, Options, simulate};
//!
//! let text = r#"
//!     format = 1
//!     host = [{ name = "a", address = "10.0.0.1" }, { name = "b", address = "10.0.0.2" }]
//!     path = [{ label = "ab", from = "a", to = "b", both = { delay = "1ms" } }]
//! "#;
//! let scenario = Scenario::parse(text, "example")?;
//! let options = Options { duration_ns: Some(10_000_000_000), ..Options::default() };
//! let round_trips: Vec<i64> = simulate(&scenario, &options)?
//!     .filter_map(|item| if let Item::Sample { sample, .. } = item { sample.rtt_ns } else { None })
//!     .collect();
//! assert_eq!(round_trips, [2_000_000; 10]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod application;
mod bound;
mod host;
mod link;
mod probe;
mod reflector;

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use fathom_core::clock::Anchor;
use fathom_core::event::Event;
use fathom_core::policy::{Counts, Fallback, Policy};
use fathom_core::sample::Sample;

use crate::scenario::{ProbeSpec, Restart, Scenario};
use crate::truth::{PacketRecord, Truth, What};
use crate::world::{HostId, Output, World};
use application::{Application, Work};
use host::Host;
use probe::{Made, Probe};

pub use bound::Unservable;

/// What the truth calls the restart of a reflector.
const RESTART: &str = "reflector-restart";

/// What may be asked for beside the scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Another seed than the scenario's.
    pub seed: Option<u64>,
    /// Another length than the scenario's, ns.
    pub duration_ns: Option<u64>,
    /// Another pace for every probe, ns from sample to sample.
    pub every_ns: Option<u64>,
}

/// Something that came of the simulation, in order of time.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A sample of a probe, or a request of a client, answered or given up. `sent_ns` is UTC by the simulation's clock.
    Sample {
        /// Index into [`Simulation::probes`], or into [`Simulation::clients`] where there are clients.
        probe: usize,
        /// As a recording keeps it.
        sample: Sample,
    },
    /// An event of a probe or a client.
    Event {
        /// As of a sample.
        probe: usize,
        /// As a recording keeps it.
        event: Event,
    },
    /// What the fabric did: `at_ns` on the simulation's monotonic clock, which starts at 0.
    Truth(Truth),
    /// What became of a packet, where the scenario asks for it.
    Packet(PacketRecord),
}

/// Begins a simulation. The error says what cannot be simulated, and why.
pub fn simulate(scenario: &Scenario, options: &Options) -> Result<Simulation, String> {
    Simulation::new(scenario, options)
}

/// An application under a policy, to be simulated on each path of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Applicant {
    /// What its policy is called.
    pub name: String,
    /// What it does about failures.
    pub policy: Policy,
    /// From one request to the next, ns.
    pub interval_ns: u64,
}

/// An application of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientOnPath {
    /// The path's label.
    pub path: String,
    /// Which of the applicants, by index.
    pub applicant: usize,
    /// What its events call the target.
    pub target: String,
}

/// Begins a simulation of applications in place of the scenario's probes: all of them on each path, side by side.
pub fn simulate_clients(
    scenario: &Scenario,
    options: &Options,
    applicants: &[Applicant],
) -> Result<Simulation, String> {
    let mut simulation = Simulation::new(scenario, options)?;
    simulation.apply(scenario, options.seed.unwrap_or(scenario.seed), applicants)?;
    Ok(simulation)
}

/// When a host did not run.
#[derive(Debug, Default)]
struct StoodStill {
    /// Events that have it stand still now.
    events: u32,
    /// From, to (none while it goes on), oldest first.
    pauses: Vec<(u64, Option<u64>)>,
}

/// A simulation at work: an iterator of what comes of it. It ends at the time the scenario states.
#[derive(Debug)]
pub struct Simulation {
    world: World,
    hosts: Vec<Host>,
    by_address: HashMap<IpAddr, usize>,
    probes: Vec<Probe>,
    specs: Vec<ProbeSpec>,
    applications: Vec<Application>,
    clients: Vec<ClientOnPath>,
    /// By host's name: when it did not run.
    pauses: HashMap<String, StoodStill>,
    /// The ends of reflectors' processes and the beginnings of the next ones, the next of all last.
    restarts: Vec<Turn>,
    /// The names of the hosts that the probes run at.
    ends: Vec<String>,
    clock: Anchor,
    now_ns: u64,
    end_ns: u64,
    over: bool,
    out: Output,
    ready: VecDeque<Item>,
}

impl Simulation {
    fn new(scenario: &Scenario, options: &Options) -> Result<Self, String> {
        let spec = &scenario.simulate;
        let seed = options.seed.unwrap_or(scenario.seed);
        let world = World::new(scenario.plan(), seed).map_err(|e| e.to_string())?;
        let end_ns = options.duration_ns.unwrap_or(spec.duration_ns);
        let utc_ns = i64::try_from(spec.start.as_nanosecond())
            .map_err(|_| "the start of the simulation lies outside the years 1677 to 2262".to_owned())?;
        let clock = Anchor { mono_ns: 0, utc_ns };
        let mut hosts = Vec::new();
        let mut by_address = HashMap::new();
        for host in scenario.hosts() {
            let id = world.host(&host.name).ok_or_else(|| format!("the world has no host {}", host.name))?;
            for &address in &host.addresses {
                by_address.insert(address, hosts.len());
                let own = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(hosts.len() as u64);
                hosts.push(Host::new(id, address, host.mtu, own, clock));
            }
        }
        let mut specs = spec.probes.clone();
        if specs.is_empty() {
            let from_hosts = scenario.paths().iter().filter(|path| scenario.host(&path.from).is_some());
            specs = from_hosts
                .map(|path| ProbeSpec { path: path.label.clone(), ..spec.defaults.clone() })
                .collect();
        }
        if specs.is_empty() {
            return Err("no path of the scenario starts at a host, so there is nothing to probe".to_owned());
        }
        let (mut probes, mut ends) = (Vec::new(), Vec::new());
        for (i, spec) in specs.iter_mut().enumerate() {
            spec.every_ns = options.every_ns.unwrap_or(spec.every_ns);
            let path = scenario.path(&spec.path).ok_or_else(|| format!("there is no path {}", spec.path))?;
            let target = scenario.target(path);
            let at = path.from_addresses.iter().find_map(|address| by_address.get(address));
            let at = *at.ok_or_else(|| format!("path {} does not start at a host", path.label))?;
            let of_version = |address: &IpAddr| address.is_ipv4() == hosts[at].address.is_ipv4();
            if !of_version(&target.ip()) || !spec.addresses.iter().all(of_version) {
                return Err(format!("path {} joins addresses of two IP versions", path.label));
            }
            probes.push(Probe::new(spec, at, target, seed.wrapping_add(i as u64), clock));
            ends.push(path.from.clone());
        }
        Ok(Self {
            world,
            hosts,
            by_address,
            probes,
            specs,
            applications: Vec::new(),
            clients: Vec::new(),
            pauses: HashMap::new(),
            restarts: turns(&scenario.simulate.restarts),
            ends,
            clock,
            now_ns: 0,
            end_ns,
            over: false,
            out: Output::default(),
            ready: VecDeque::new(),
        })
    }

    /// Puts applications in place of the probes.
    fn apply(&mut self, scenario: &Scenario, seed: u64, applicants: &[Applicant]) -> Result<(), String> {
        let mut paths: Vec<String> = self.specs.iter().map(|spec| spec.path.clone()).collect();
        paths.dedup();
        self.specs.clear();
        self.probes.clear();
        self.ends.clear();
        for label in paths {
            let path = scenario.path(&label).ok_or_else(|| format!("there is no path {label}"))?;
            let at = path.from_addresses.iter().find_map(|address| self.by_address.get(address));
            let at = *at.ok_or_else(|| format!("path {label} does not start at a host"))?;
            let target = scenario.target(path);
            for (i, applicant) in applicants.iter().enumerate() {
                let mut targets = vec![(target.to_string(), target)];
                if let Some(Fallback::Target(second)) = &applicant.policy.fallback {
                    targets.push((second.clone(), somewhere(scenario, second, target)?));
                }
                let number = self.applications.len() as u64;
                let work = Work {
                    policy: applicant.policy.clone(),
                    targets,
                    interval_ns: applicant.interval_ns,
                    end_ns: self.end_ns,
                    seed: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number),
                };
                self.applications.push(Application::new(at, work, self.clock));
                self.clients.push(ClientOnPath {
                    path: label.clone(),
                    applicant: i,
                    target: target.to_string(),
                });
            }
        }
        Ok(())
    }

    /// The clients, in the order of their indices; none where probes run.
    pub fn clients(&self) -> &[ClientOnPath] {
        &self.clients
    }

    /// What became of a client's requests so far.
    pub fn counts(&self, client: usize) -> Counts {
        self.applications[client].counts()
    }

    /// The probes, in the order of their indices; none where clients run.
    pub fn probes(&self) -> &[ProbeSpec] {
        &self.specs
    }

    /// The simulation's clocks at its start: monotonic 0, and the wall clock of the scenario.
    pub fn clock(&self) -> Anchor {
        self.clock
    }

    /// How far it has come, ns from its start.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// When it ends, ns from its start.
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// The world, for its status and models.
    pub fn world(&self) -> &World {
        &self.world
    }

    fn next_due_ns(&self) -> Option<u64> {
        let hosts = self.hosts.iter().filter(|host| !host.frozen).filter_map(|host| host.due_ns);
        let probes =
            self.probes.iter().filter(|probe| !self.hosts[probe.at].frozen).filter_map(Probe::next_due_ns);
        let running = self.applications.iter().filter(|one| !self.hosts[one.at].frozen);
        let applications = running.filter_map(Application::next_due_ns);
        let restarts = self.restarts.last().map(|turn| turn.at_ns);
        let world = self.world.next_due_ns().into_iter();
        world.chain(hosts).chain(probes).chain(applications).chain(restarts).min()
    }

    /// Goes to the next moment at which something happens.
    fn step(&mut self) {
        match self.next_due_ns().filter(|&due| due < self.end_ns) {
            Some(due) => {
                self.now_ns = self.now_ns.max(due);
                self.world.advance(self.now_ns, &mut self.out);
                self.restart_reflectors();
                self.settle();
            }
            None => self.finish(),
        }
    }

    /// Hands out what the world gave, and lets hosts and probes act on it until nobody has anything to do now. Hosts
    /// first: what has come to a host is there when its probe looks, and before the probe's timers, however late those
    /// are after a pause.
    fn settle(&mut self) {
        let now = self.now_ns;
        loop {
            self.collect();
            let due = |host: &Host| !host.frozen && host.due_ns.is_some_and(|due| due <= now);
            for host in self.hosts.iter_mut().filter(|host| due(host)) {
                host.touched = true;
                let (world, out, id) = (&mut self.world, &mut self.out, host.id);
                host.poll(now, |bytes| world.packet_in(now, id, bytes, out));
            }
            for i in 0..self.probes.len() {
                let probe = &self.probes[i];
                let host = &self.hosts[probe.at];
                if !host.frozen && (probe.next_due_ns().is_some_and(|at| at <= now) || host.touched) {
                    self.run_probe(i);
                }
            }
            for i in 0..self.applications.len() {
                let one = &self.applications[i];
                let host = &self.hosts[one.at];
                let touched = host.touched && one.is_touched(host);
                if !host.frozen && (touched || one.next_due_ns().is_some_and(|at| at <= now)) {
                    self.run_application(i);
                }
            }
            self.hosts.iter_mut().for_each(Host::settle);
            self.collect();
            if !self.hosts.iter().any(due) {
                break;
            }
        }
    }

    fn run_probe(&mut self, i: usize) {
        let Self { probes, hosts, pauses, ends, ready, now_ns, .. } = self;
        let pauses = pauses.get(&ends[i]).map_or(&[][..], |host| host.pauses.as_slice());
        let host = &mut hosts[probes[i].at];
        probes[i].run(*now_ns, host, pauses, &mut |made| ready.push_back(item(i, made)));
    }

    fn run_application(&mut self, i: usize) {
        let Self { applications, hosts, ready, now_ns, .. } = self;
        let host = &mut hosts[applications[i].at];
        applications[i].run(*now_ns, host, &mut |made| ready.push_back(item(i, made)));
    }

    /// Takes what the world put out.
    fn collect(&mut self) {
        let mut out = std::mem::take(&mut self.out);
        for delivery in out.deliveries.drain(..) {
            let address = delivery.packet.flow().destination.ip();
            if let Some(&host) = self.by_address.get(&address) {
                self.hosts[host].deliver(self.now_ns, delivery.packet);
            }
        }
        for truth in out.truths.drain(..) {
            self.note_freeze(&truth);
            self.ready.push_back(Item::Truth(truth));
        }
        self.ready.extend(out.records.drain(..).map(Item::Packet));
        // Its memory is kept, unless something came meanwhile, which cannot be.
        self.out = out;
    }

    /// Hosts that are frozen do not run.
    fn note_freeze(&mut self, truth: &Truth) {
        let Some(begins) = truth.stands_still() else { return };
        let Some(id) = self.world.host(&truth.place) else { return };
        let StoodStill { events: standing, pauses } = self.pauses.entry(truth.place.clone()).or_default();
        // Two pauses may overlap: it runs when the last one is over, and knows of one.
        *standing = if begins { *standing + 1 } else { standing.saturating_sub(1) };
        match (pauses.last_mut().filter(|pause| pause.1.is_none()), *standing) {
            (None, 1..) => pauses.push((truth.at_ns, None)),
            (Some(pause), 0) => {
                pause.1 = Some(truth.at_ns);
                let (now, duration_ns) = (self.now_ns, truth.at_ns - pause.0);
                self.hosts
                    .iter_mut()
                    .filter(|host| host.id == id)
                    .for_each(|host| host.paused(now, duration_ns));
            }
            _ => {}
        }
        let frozen = *standing > 0;
        self.freeze(id, frozen);
    }

    /// Ends and begins the processes of reflectors whose turn it is.
    fn restart_reflectors(&mut self) {
        let now = self.now_ns;
        while let Some(turn) = self.restarts.pop_if(|turn| turn.at_ns <= now) {
            let Some(id) = self.world.host(&turn.host) else { continue };
            for host in self.hosts.iter_mut().filter(|host| host.id == id) {
                match turn.down_ns {
                    Some(_) => host.stop_reflector(now),
                    None => host.start_reflector(now),
                }
            }
            let event = RESTART.to_owned();
            let what = match turn.down_ns {
                Some(down_ns) => {
                    What::EventBegan { event, parameters: serde_json::json!({ "down_ns": down_ns }) }
                }
                None => What::EventEnded { event },
            };
            self.ready.push_back(Item::Truth(Truth { at_ns: now, place: turn.host, what }));
        }
    }

    fn freeze(&mut self, id: HostId, frozen: bool) {
        for host in self.hosts.iter_mut().filter(|host| host.id == id) {
            host.frozen = frozen;
            if !frozen {
                host.thaw(self.now_ns);
            }
        }
    }

    fn finish(&mut self) {
        self.now_ns = self.end_ns;
        self.world.advance(self.end_ns, &mut self.out);
        self.collect();
        let Self { probes, applications, hosts, ready, now_ns, .. } = self;
        for (i, one) in applications.iter_mut().enumerate() {
            one.finish(*now_ns, &mut hosts[one.at], &mut |made| ready.push_back(item(i, made)));
        }
        for (i, probe) in probes.iter_mut().enumerate() {
            let host = &mut hosts[probe.at];
            probe.finish(*now_ns, host, &mut |made| ready.push_back(item(i, made)));
        }
        self.over = true;
    }
}

impl Iterator for Simulation {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        while self.ready.is_empty() && !self.over {
            self.step();
        }
        self.ready.pop_front()
    }
}

/// A reflector's process ends (`down_ns`: for how long nothing listens then) or another one begins.
#[derive(Debug)]
struct Turn {
    at_ns: u64,
    host: String,
    down_ns: Option<u64>,
}

/// What is to be done about restarts, the first of it last.
fn turns(restarts: &[Restart]) -> Vec<Turn> {
    let ends = restarts.iter().map(|restart| (restart.at_ns, restart, Some(restart.down_ns)));
    let begins =
        restarts.iter().map(|restart| (restart.at_ns.saturating_add(restart.down_ns), restart, None));
    let turn = |(at_ns, restart, down_ns): (u64, &Restart, Option<u64>)| Turn {
        at_ns,
        host: restart.host.clone(),
        down_ns,
    };
    let mut turns: Vec<Turn> = ends.chain(begins).map(turn).collect();
    turns.sort_by_key(|turn| std::cmp::Reverse(turn.at_ns));
    turns
}

/// Where a fallback's target is: a host of the scenario by name or address, with a port or that of the first target.
fn somewhere(scenario: &Scenario, name: &str, first: SocketAddr) -> Result<SocketAddr, String> {
    if let Ok(address) = name.parse() {
        return Ok(address);
    }
    let (host, port) = match name.rsplit_once(':') {
        Some((host, port)) if name.parse::<IpAddr>().is_err() => {
            (host, port.parse().map_err(|_| format!("the fallback {name}: \"{port}\" is no port"))?)
        }
        _ => (name, first.port()),
    };
    let of_version = |address: &&IpAddr| address.is_ipv4() == first.is_ipv4();
    let known = scenario.addresses(host).and_then(|all| all.iter().find(of_version)).copied();
    let address = known.or_else(|| host.parse().ok());
    let address = address.ok_or_else(|| format!("the fallback {name} is no host of the scenario"))?;
    Ok(SocketAddr::new(address, port))
}

fn item(probe: usize, made: Made) -> Item {
    match made {
        Made::Sample(sample) => Item::Sample { probe, sample },
        Made::Event(event) => Item::Event { probe, event: *event },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each end of a connection that is over lets go of it: else a month of them costs the square of a month.
    #[test]
    fn connections_that_were_closed_are_gone_at_both_ends() {
        let text = r#"
            format = 1
            host = [{ name = "a", address = "10.0.0.1" }, { name = "b", address = "10.0.0.2" }]
            path = [{ label = "ab", from = "a", to = "b", both = { delay = "1ms" } }]
        "#;
        let scenario = Scenario::parse(text, "closing").expect("a scenario");
        let policy =
            Policy::parse("p", "[connection]\nage = \"1s\"\nage_jitter = \"1ms\"").expect("a policy");
        let applicants = [Applicant { name: "p".to_owned(), policy, interval_ns: 100_000_000 }];
        let options = Options { duration_ns: Some(300_000_000_000), ..Options::default() };
        let mut simulation = simulate_clients(&scenario, &options, &applicants).expect("a simulation");
        let opened = |item: &Item| {
            matches!(item, Item::Event { event, .. }
                if matches!(event.kind, fathom_core::event::EventKind::ConnectionOpened { .. }))
        };
        assert!(simulation.by_ref().filter(opened).count() > 200);
        // A second's worth, a listening one, and those that wait for 10 s in case something of theirs still comes (TIME-WAIT).
        let held: Vec<usize> = simulation.hosts.iter().map(Host::sockets).collect();
        assert!(held.iter().all(|&held| held <= 15), "{held:?}");
    }
}
