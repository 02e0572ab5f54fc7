//! A scenario: hosts, middleboxes, the paths between them and what happens to them, as people write it in TOML.
//!
//! [`Scenario::parse`] checks everything that can be known beforehand, and tells each mistake with its line and column.
//! [`Scenario::plan`] gives the [`crate::world::Plan`] of it. The format is described in `docs/fabric.md` and
//! `schema/scenario.schema.json`.

mod error;
mod events;
mod figures;
mod middlebox;
mod model;
mod parse;
mod plan;
mod read;
mod routes;
pub mod rtt;
mod simulate;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

pub use error::ScenarioError;
use fathom_core::histogram::Histogram;
pub use figures::{Chance, Figures, PathFigures};
pub use simulate::{ProbeSpec, Restart, SimulateSpec};

use crate::event::Event;
use crate::model::PathModel;
use crate::stage::StageConfig;

/// The format that this version reads: `format = 1`.
pub const FORMAT: u64 = 1;

/// A scenario that has been read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// As its file says; absent there, the name it was parsed under.
    pub name: String,
    /// What it is for; empty where the file does not say.
    pub description: String,
    /// What the random numbers start from: the same seed, the same run.
    pub seed: u64,
    pub(crate) hosts: Vec<Host>,
    pub(crate) middleboxes: Vec<Middlebox>,
    pub(crate) paths: Vec<Path>,
    pub(crate) events: Vec<TimedEvent>,
    /// What a simulation of it does, where the file says.
    pub simulate: SimulateSpec,
    packet_log: bool,
}

/// A host: something with addresses that sends and answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name, unique among hosts and middleboxes.
    pub name: String,
    /// Its addresses, at least one, each used once in the scenario. A path that names the host means the first.
    pub addresses: Vec<IpAddr>,
    /// Free words about it: region, zone, vm size. They go into the recordings of probes that run there.
    pub tags: BTreeMap<String, String>,
    /// Most bytes of one IP packet on its device; 1500 where the file does not say.
    pub mtu: u16,
}

/// A middlebox, with the configuration of its kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Middlebox {
    /// Its name, unique among hosts and middleboxes.
    pub name: String,
    /// What it is and does.
    pub config: StageConfig,
    /// The addresses it answers to.
    pub(crate) addresses: Vec<IpAddr>,
}

/// A path between two ends, perhaps by way of middleboxes.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// Its label: unique, and the label of recordings made on it.
    pub label: String,
    /// The name of the node it starts at.
    pub from: String,
    /// The addresses of `from` that it is for: one of a host; all of a middlebox (perhaps none).
    pub from_addresses: Vec<IpAddr>,
    /// The name of the node it leads to.
    pub to: String,
    /// The addresses of `to` that it is for: one of a host; all of a middlebox.
    pub to_addresses: Vec<IpAddr>,
    /// The middleboxes between, in order from `from` to `to`.
    pub via: Vec<String>,
    /// Where the numbers come from and what statistic they are; empty where the file does not say.
    pub source: String,
    /// From `from` to `to`. It applies before the first middlebox; the rest of the way takes no time.
    pub forward: PathModel,
    /// From `to` to `from`. It applies after the last middlebox on the way back.
    pub backward: PathModel,
}

impl Path {
    /// The mean round trip that the models make, without load and without what middleboxes add, ns.
    pub fn round_trip_mean_ns(&self) -> f64 {
        self.forward.mean_ns() + self.backward.mean_ns()
    }

    /// What a share `p` of round trips do not exceed, as [`Path::round_trip_mean_ns`], ns. The two ways are independent:
    /// each of 600 equally likely delays of the one meets each of the other.
    pub fn round_trip_quantile_ns(&self, p: f64) -> Result<f64, String> {
        const STEPS: usize = 600;
        let of = |model: &PathModel| -> Result<Vec<f64>, String> {
            let delay = model.delay()?;
            Ok((0..STEPS).map(|i| delay.quantile_ns((i as f64 + 0.5) / STEPS as f64)).collect())
        };
        let (forward, backward) = (of(&self.forward)?, of(&self.backward)?);
        let mut sums: Vec<f64> = forward.iter().flat_map(|f| backward.iter().map(move |b| f + b)).collect();
        let rank = ((p * sums.len() as f64) as usize).min(sums.len() - 1);
        let (_, value, _) = sums.select_nth_unstable_by(rank, f64::total_cmp);
        Ok(*value)
    }
}

/// An event and when it happens, counted from the start of the world.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedEvent {
    /// ns from the start.
    pub at_ns: u64,
    /// What happens.
    pub event: Event,
}

impl Scenario {
    /// Reads a scenario. `name` is what its file is called in messages. A jitter that is `empirical` is refused; for
    /// that, [`Scenario::parse_with`].
    pub fn parse(text: &str, name: &str) -> Result<Self, ScenarioError> {
        Self::parse_with(text, name, &|recording| {
            Err(format!("recordings are not read here (\"{recording}\")"))
        })
    }

    /// As [`Scenario::parse`], with a way to the round trips of the recording that an empirical jitter names.
    pub fn parse_with(
        text: &str,
        name: &str,
        load: &dyn Fn(&str) -> Result<Histogram, String>,
    ) -> Result<Self, ScenarioError> {
        parse::scenario(text, name, load)
    }

    /// The hosts, in the order of the file.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The host of a name.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|h| h.name == name)
    }

    /// The addresses of a host, the first being the one that its name means.
    pub fn addresses(&self, host: &str) -> Option<&[IpAddr]> {
        self.host(host).map(|h| h.addresses.as_slice())
    }

    /// The tags of a host.
    pub fn tags(&self, host: &str) -> Option<&BTreeMap<String, String>> {
        self.host(host).map(|h| &h.tags)
    }

    /// The middleboxes, in the order of the file.
    pub fn middleboxes(&self) -> &[Middlebox] {
        &self.middleboxes
    }

    /// The paths, in the order of the file.
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// The path of a label.
    pub fn path(&self, label: &str) -> Option<&Path> {
        self.paths.iter().find(|p| p.label == label)
    }

    /// The path that a packet between two addresses takes at its start.
    pub fn path_between(&self, source: IpAddr, destination: IpAddr) -> Option<&Path> {
        let joins = |p: &&Path, a: IpAddr, b: IpAddr| {
            let entrance = |address| p.via.iter().any(|node| self.node_addresses(node).contains(&address));
            p.from_addresses.contains(&a) && (p.to_addresses.contains(&b) || entrance(b))
        };
        self.paths
            .iter()
            .find(|p| joins(p, source, destination))
            .or_else(|| self.paths.iter().find(|p| joins(p, destination, source)))
    }

    /// Where a probe of a path connects to: the address of the first balancer or private endpoint on the way, or of the
    /// far host, with the first port that is open there (7, the echo service of RFC 862, where every port is).
    pub fn target(&self, path: &Path) -> SocketAddr {
        let entrance = path.via.iter().chain(std::iter::once(&path.to)).find_map(|name| {
            match &self.middleboxes.iter().find(|m| m.name == *name)?.config {
                StageConfig::LoadBalancer(c) => {
                    Some((c.address, c.frontends.first().map(|front| front.port)))
                }
                StageConfig::PrivateEndpoint(c) => Some((c.address, c.ports.first().copied())),
                _ => None,
            }
        });
        let unspecified = IpAddr::from([0, 0, 0, 0]);
        let (address, port) =
            entrance.unwrap_or_else(|| (path.to_addresses.first().copied().unwrap_or(unspecified), None));
        SocketAddr::new(address, port.unwrap_or(7))
    }

    /// The events, in order of time.
    pub fn events(&self) -> &[TimedEvent] {
        &self.events
    }

    /// Reads one event as `[[event]]` has it, without `at`: what `fathom fabric event` sends. Hosts, paths and
    /// middleboxes must be this scenario's.
    pub fn event(&self, text: &str) -> Result<Event, ScenarioError> {
        events::single(self, text)
    }

    /// Whether each packet's stamps are wanted (`packet-log = true`).
    pub fn packet_log(&self) -> bool {
        self.packet_log
    }

    /// The address that a name means: a host's first, or a middlebox's first.
    pub fn resolve(&self, name: &str) -> Option<IpAddr> {
        self.node_addresses(name).first().copied()
    }

    /// The addresses of a host or a middlebox.
    pub(crate) fn node_addresses(&self, name: &str) -> &[IpAddr] {
        self.hosts
            .iter()
            .find(|h| h.name == name)
            .map(|h| h.addresses.as_slice())
            .or_else(|| self.middleboxes.iter().find(|m| m.name == name).map(|m| m.addresses.as_slice()))
            .unwrap_or_default()
    }
}
