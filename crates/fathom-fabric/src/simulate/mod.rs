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
mod clients;
mod halts;
mod host;
mod link;
mod probe;
mod reflector;

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use fathom_core::clock::Anchor;
use fathom_core::event::Event;
use fathom_core::sample::Sample;

use crate::scenario::{Path, ProbeSpec, Scenario};
use crate::truth::{PacketRecord, Truth};
use crate::world::{Output, World};
use application::Application;
use halts::{Down, RESTART, StoodStill, Turn, turns};
use host::Host;
use probe::{Made, Probe};

pub use bound::Unservable;
pub use clients::{Applicant, ClientOnPath, simulate_clients};

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
    let mut simulation = Simulation::at_rest(scenario, options)?;
    for (i, mut spec) in specs(scenario)?.into_iter().enumerate() {
        spec.every_ns = options.every_ns.unwrap_or(spec.every_ns);
        simulation.put(scenario, spec, i)?;
    }
    Ok(simulation)
}

/// What is to be measured: what the scenario says or, where it says nothing, each path that starts at a host.
fn specs(scenario: &Scenario) -> Result<Vec<ProbeSpec>, String> {
    let spec = &scenario.simulate;
    if !spec.probes.is_empty() {
        return Ok(spec.probes.clone());
    }
    let from_hosts = scenario.paths().iter().filter(|path| scenario.host(&path.from).is_some());
    let specs: Vec<ProbeSpec> =
        from_hosts.map(|path| ProbeSpec { path: path.label.clone(), ..spec.defaults.clone() }).collect();
    if specs.is_empty() {
        return Err("no path of the scenario starts at a host, so there is nothing to probe".to_owned());
    }
    Ok(specs)
}

/// A simulation at work: an iterator of what comes of it. It ends at the time the scenario states, or when the last request
/// that fell due before has ended.
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
    down: Down,
    /// The names of the hosts that the probes run at.
    ends: Vec<String>,
    seed: u64,
    clock: Anchor,
    now_ns: u64,
    end_ns: u64,
    /// Until then at the latest what was due before the end goes on.
    last_ns: u64,
    over: bool,
    out: Output,
    ready: VecDeque<Item>,
}

impl Simulation {
    /// The scenario's world and hosts, on which nobody runs.
    fn at_rest(scenario: &Scenario, options: &Options) -> Result<Self, String> {
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
        Ok(Self {
            world,
            hosts,
            by_address,
            probes: Vec::new(),
            specs: Vec::new(),
            applications: Vec::new(),
            clients: Vec::new(),
            pauses: HashMap::new(),
            restarts: turns(&spec.restarts),
            down: Down::new(),
            ends: Vec::new(),
            seed,
            clock,
            now_ns: 0,
            end_ns,
            last_ns: end_ns,
            over: false,
            out: Output::default(),
            ready: VecDeque::new(),
        })
    }

    /// A path, the host that it starts at, by index, and where it leads.
    fn ends_of<'a>(
        &self,
        scenario: &'a Scenario,
        label: &str,
    ) -> Result<(&'a Path, usize, SocketAddr), String> {
        let path = scenario.path(label).ok_or_else(|| format!("there is no path {label}"))?;
        let target = scenario.target(path);
        let at = path.from_addresses.iter().find_map(|address| self.by_address.get(address));
        let at = *at.ok_or_else(|| format!("path {label} does not start at a host"))?;
        if target.is_ipv4() != self.hosts[at].address.is_ipv4() {
            return Err(two_versions(label));
        }
        Ok((path, at, target))
    }

    /// Puts a probe onto its path. `i`: its number.
    fn put(&mut self, scenario: &Scenario, spec: ProbeSpec, i: usize) -> Result<(), String> {
        let (path, at, target) = self.ends_of(scenario, &spec.path)?;
        if spec.addresses.iter().any(|address| address.is_ipv4() != target.is_ipv4()) {
            return Err(two_versions(&spec.path));
        }
        self.probes.push(Probe::new(&spec, at, target, self.seed.wrapping_add(i as u64), self.clock));
        self.ends.push(path.from.clone());
        self.specs.push(spec);
        Ok(())
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

    /// When it ends, ns from its start. Nothing falls due from then on.
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
        let goes_on = |due: &u64| *due < self.end_ns || *due <= self.last_ns && !self.is_idle();
        match self.next_due_ns().filter(goes_on) {
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

    /// Whether every request has ended.
    fn is_idle(&self) -> bool {
        self.applications.iter().all(Application::is_over)
    }

    fn finish(&mut self) {
        self.now_ns = if self.is_idle() { self.now_ns.max(self.end_ns) } else { self.last_ns };
        self.world.advance(self.now_ns, &mut self.out);
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

fn two_versions(label: &str) -> String {
    format!("path {label} joins addresses of two IP versions")
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
    use fathom_core::policy::Policy;

    const PAIR: &str = r#"
        format = 1
        host = [{ name = "a", address = "10.0.0.1" }, { name = "b", address = "10.0.0.2" }]
        path = [{ label = "ab", from = "a", to = "b", both = { delay = "1ms" } }]
    "#;

    /// Each end of a connection that is over lets go of it: else a month of them costs the square of a month.
    #[test]
    fn closed_connections_are_freed_at_both_ends() {
        let scenario = Scenario::parse(PAIR, "closing").expect("a scenario");
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

    const REMOTE: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)), 7);

    fn at_rest() -> Simulation {
        let scenario = Scenario::parse(PAIR, "ports").expect("a scenario");
        Simulation::at_rest(&scenario, &Options::default()).expect("a simulation")
    }

    fn check_no_port_is_left(host: &mut Host) {
        let mut one = link::Link::connect(5, host, REMOTE, 1);
        assert_eq!(one.gives_up_ns(), Some(5), "at once");
        let failed = one.connecting(5, host).expect("over").expect_err("no port");
        assert_eq!(failed, (std::io::ErrorKind::AddrNotAvailable, 99));
    }

    /// Where all were taken, the search for a free one never ended.
    #[test]
    fn connect_fails_without_a_free_port() {
        let mut simulation = at_rest();
        let host = &mut simulation.hosts[0];
        host.take_all_ports();
        check_no_port_is_left(host);
    }

    mod acceptance {
        use super::*;

        #[test]
        fn connections_take_each_dynamic_port_once() {
            let mut simulation = at_rest();
            let host = &mut simulation.hosts[0];
            let ports: std::collections::BTreeSet<u16> =
                (49_152..=65_535).map(|_| host.connect(0, REMOTE).1).collect();
            assert_eq!((ports.len(), ports.first()), (16_384, Some(&49_152)), "each of IANA's dynamic ports");
            check_no_port_is_left(host);
        }
    }
}
