//! Applications under policies, on the paths of a scenario in place of its probes.

use std::net::{IpAddr, SocketAddr};

use fathom_core::policy::{Counts, Fallback, Policy};
use rand::Rng as _;

use super::application::{Application, Work};
use super::{Options, Simulation, specs};
use crate::model::stream;
use crate::scenario::Scenario;

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

/// Begins a simulation of applications in place of the scenario's probes: all of them on each path, side by side. They share
/// the path: what one sends may be in another's way.
pub fn simulate_clients(
    scenario: &Scenario,
    options: &Options,
    applicants: &[Applicant],
) -> Result<Simulation, String> {
    let mut simulation = Simulation::at_rest(scenario, options)?;
    let mut labels: Vec<String> = Vec::new();
    for spec in specs(scenario)? {
        if !labels.contains(&spec.path) {
            labels.push(spec.path);
        }
    }
    for label in labels {
        for (i, applicant) in applicants.iter().enumerate() {
            simulation.apply(scenario, &label, i, applicant)?;
        }
    }
    Ok(simulation)
}

impl Simulation {
    /// The clients, in the order of their indices; none where probes run.
    pub fn clients(&self) -> &[ClientOnPath] {
        &self.clients
    }

    /// What became of a client's requests so far.
    pub fn counts(&self, client: usize) -> Counts {
        self.applications[client].counts()
    }

    /// Puts an application onto a path.
    fn apply(
        &mut self,
        scenario: &Scenario,
        label: &str,
        index: usize,
        applicant: &Applicant,
    ) -> Result<(), String> {
        let (_, at, target) = self.ends_of(scenario, label)?;
        let policy = &applicant.policy;
        let mut targets = vec![(target.to_string(), target)];
        if let Some(Fallback::Target(second)) = &policy.fallback {
            let wrong = |why| format!("policy {}: the fallback {second} {why}", applicant.name);
            targets.push((second.clone(), somewhere(scenario, second, target).map_err(wrong)?));
        }
        let last_ns = self.end_ns.saturating_add(policy.requests.deadline_ns);
        self.last_ns = self.last_ns.max(last_ns);
        let work = Work {
            policy: policy.clone(),
            targets,
            interval_ns: applicant.interval_ns,
            end_ns: self.end_ns,
            // The same for each policy, so that equal ones do the same.
            seed: stream(self.seed, &format!("client of {label}")).random(),
            session: self.applications.len() as u32,
        };
        self.applications.push(Application::new(at, work, self.clock));
        self.clients.push(ClientOnPath {
            path: label.to_owned(),
            applicant: index,
            target: target.to_string(),
        });
        Ok(())
    }
}

/// Where a fallback's target is: a host of the scenario by name or address, with a port or that of the first target. The
/// error says what is wrong with it.
fn somewhere(scenario: &Scenario, name: &str, first: SocketAddr) -> Result<SocketAddr, String> {
    let (host, port) = match (name.parse::<SocketAddr>(), name.rsplit_once(':')) {
        (Ok(address), _) => (address.ip().to_string(), address.port()),
        (_, Some((host, port))) if name.parse::<IpAddr>().is_err() => {
            (host.to_owned(), port.parse().map_err(|_| format!("has \"{port}\" for a port, which is none"))?)
        }
        _ => (name.to_owned(), first.port()),
    };
    let all: Vec<IpAddr> = match host.parse() {
        Ok(address) if is_somewhere(scenario, address) => vec![address],
        Ok(_) => Vec::new(),
        Err(_) => scenario.addresses(&host).unwrap_or_default().to_vec(),
    };
    let of_version = |address: &&IpAddr| address.is_ipv4() == first.is_ipv4();
    match all.iter().find(of_version) {
        Some(&address) => Ok(SocketAddr::new(address, port)),
        None if all.is_empty() => Err("is no host of the scenario".to_owned()),
        None => Err(format!("has no address of the IP version of {first}")),
    }
}

/// Whether a host has this address, or a path leads to it.
fn is_somewhere(scenario: &Scenario, address: IpAddr) -> bool {
    scenario.hosts().iter().any(|host| host.addresses.contains(&address))
        || scenario.paths().iter().any(|path| scenario.target(path).ip() == address)
}
