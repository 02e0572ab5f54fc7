//! A load balancer of layer 4, as clouds have them: it keeps the client's address, sends each flow to one of the healthy
//! backends by a hash of its five-tuple, and answers in the name of its virtual address.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::dnat::{Dnat, Policy, Target};
use super::health::{Health, ProbeConfig};
use super::limits::{IdleLimits, OnExpiry, Unknown};
use super::transit::Transit;
use super::{BackendStatus, Context, Fate, Resolve, Stage, StageStatus};
use crate::event::StageEvent;
use crate::packet::{Flow, Packet, Protocol};
use crate::truth::{DropReason, What};

/// A port of the virtual address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Frontend {
    /// The port that clients call.
    pub port: u16,
    /// The port at the backend. Absent: the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_port: Option<u16>,
}

/// What of a flow decides on its backend. The names follow Azure's distribution modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Both addresses, both ports and the protocol: each connection by itself. Azure's default.
    #[default]
    FiveTuple,
    /// Both addresses and the protocol.
    SourceIpProtocol,
    /// Both addresses: a client stays with its backend.
    SourceIp,
}

/// What becomes of the flows of a backend that its probes call dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeadBackend {
    /// They go on to it (Azure: established TCP connections continue).
    #[default]
    Keep,
    /// They are forgotten; their packets then meet the policy for unknown flows.
    Forget,
}

/// A load balancer. Defaults: Azure's Standard load balancer (4 min idle limit, silent; it can be set from 4 to 100 min for
/// rules and 4 to 30 for public addresses).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LoadBalancerConfig {
    /// The virtual address.
    pub address: IpAddr,
    /// Its ports. None: every port, to the same port of the backend ("HA ports").
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frontends: Vec<Frontend>,
    /// The backends: hosts of the scenario, or addresses.
    pub backends: Vec<String>,
    /// What decides on a flow's backend.
    #[serde(default)]
    pub distribution: Distribution,
    /// Another number spreads the same flows otherwise.
    #[serde(default)]
    pub hash_seed: u64,
    /// Health probes. Absent: every backend is healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeConfig>,
    /// How long flows are remembered.
    #[serde(default)]
    pub idle: IdleLimits,
    /// At the idle limit; `reset` is what Azure calls "TCP reset on idle".
    #[serde(default)]
    pub on_expiry: OnExpiry,
    /// TCP packets of unknown flows; `admit` hashes them like new ones.
    #[serde(default)]
    pub unknown: Unknown,
    /// Flows of a backend that has become unhealthy.
    #[serde(default)]
    pub dead_backend: DeadBackend,
    /// So many flows at most. Azure: 500,000 active flows a direction for a virtual machine.
    #[serde(default = "super::default_capacity")]
    pub capacity: usize,
    /// Time inside, one way.
    #[serde(default)]
    pub transit: Transit,
}

impl LoadBalancerConfig {
    /// The middlebox of this name.
    pub fn build(self, name: &str, resolve: Resolve<'_>) -> Result<LoadBalancer, String> {
        if self.backends.is_empty() {
            return Err(format!("load balancer {name} has no backends; name at least one host"));
        }
        let targets = self
            .backends
            .iter()
            .map(|backend| super::target(name, backend, self.address, resolve))
            .collect::<Result<Vec<_>, _>>()?;
        let health = match &self.probe {
            None => None,
            Some(probe) => {
                let first = self.frontends.first().map(|front| front.backend_port.unwrap_or(front.port));
                let port = probe.port.or(first).ok_or_else(|| {
                    format!("load balancer {name} serves every port; say which one to probe (probe.port)")
                })?;
                if probe.source.is_ipv4() != self.address.is_ipv4() || probe.source == self.address {
                    return Err(format!(
                        "load balancer {name}: probe.source must be another address of the virtual address's family"
                    ));
                }
                let health = Health::new(probe.clone(), port, targets.len());
                Some(health.map_err(|why| format!("load balancer {name}: {why}"))?)
            }
        };
        let policy = Policy { on_expiry: self.on_expiry, unknown: self.unknown };
        let transit = self.transit.time().map_err(|why| format!("load balancer {name}: {why}"))?;
        let disabled = vec![false; targets.len()];
        let dnat =
            Dnat::new(name, self.address, targets, (self.idle.clone(), self.capacity), policy, transit);
        Ok(LoadBalancer { config: self, dnat, health, disabled })
    }
}

/// A load balancer at work.
#[derive(Debug)]
pub struct LoadBalancer {
    config: LoadBalancerConfig,
    dnat: Dnat,
    health: Option<Health>,
    /// Backends that a failover has taken out.
    disabled: Vec<bool>,
}

impl LoadBalancer {
    fn changed(&mut self, now_ns: u64, backend: usize, context: &mut Context<'_>) {
        let healthy = is_usable(self.health.as_ref(), &self.disabled, backend);
        let name = self.dnat.targets[backend].name.clone();
        self.dnat.keeper.tell(now_ns, What::BackendChanged { backend: name, healthy }, context);
    }

    /// The health of these backends has changed by their probes.
    fn judged(&mut self, now_ns: u64, backends: Vec<usize>, context: &mut Context<'_>) {
        for backend in backends {
            if !self.disabled[backend] {
                self.changed(now_ns, backend, context);
            }
            let healthy = self.health.as_ref().is_none_or(|health| health.is_healthy(backend));
            if !healthy && self.config.dead_backend == DeadBackend::Forget {
                self.dnat.forget(now_ns, "failover", Some(backend), context);
            }
        }
    }

    fn backend(&self, named: &str) -> Result<usize, String> {
        let is_it = |target: &Target| target.name == named || target.address.to_string() == named;
        self.dnat.targets.iter().position(is_it).ok_or_else(|| {
            let names: Vec<_> = self.dnat.targets.iter().map(|target| target.name.as_str()).collect();
            format!("no backend is called {named}; there are {}", names.join(", "))
        })
    }
}

fn is_usable(health: Option<&Health>, disabled: &[bool], backend: usize) -> bool {
    !disabled[backend] && health.is_none_or(|health| health.is_healthy(backend))
}

/// The backend of a flow among the usable ones, by rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings
/// to increase hit rates", 1998): where one is lost, only its own flows move.
fn choose(
    config: &LoadBalancerConfig,
    targets: &[Target],
    flow: &Flow,
    usable: impl Fn(usize) -> bool,
) -> Option<usize> {
    let mut words = vec![config.hash_seed];
    let mut address = |address: IpAddr| match address {
        IpAddr::V4(v4) => words.push(u64::from(v4.to_bits())),
        IpAddr::V6(v6) => words.extend([(v6.to_bits() >> 64) as u64, v6.to_bits() as u64]),
    };
    address(flow.source.ip());
    address(flow.destination.ip());
    if config.distribution != Distribution::SourceIp {
        words.push(match flow.protocol {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::Icmp => 1,
            Protocol::Other(number) => u64::from(number),
        });
    }
    if config.distribution == Distribution::FiveTuple {
        words.push(u64::from(flow.source.port()) << 16 | u64::from(flow.destination.port()));
    }
    let key = words.into_iter().fold(0, |key, word| super::mix(key ^ word));
    let weight = |backend: usize| {
        let address = match targets[backend].address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        super::mix(super::mix(key ^ address as u64) ^ (address >> 64) as u64)
    };
    (0..targets.len()).filter(|&backend| usable(backend)).max_by_key(|&backend| (weight(backend), backend))
}

impl Stage for LoadBalancer {
    fn addresses(&self) -> Vec<IpAddr> {
        let probe = self.health.as_ref().map(Health::source);
        std::iter::once(self.config.address).chain(probe).collect()
    }

    fn start(&mut self, now_ns: u64) {
        if let Some(health) = &mut self.health {
            health.start(now_ns);
        }
    }

    fn packet(&mut self, now_ns: u64, packet: Packet, context: &mut Context<'_>) -> Fate {
        self.advance(now_ns, context);
        if let Some(health) = &mut self.health
            && packet.flow().destination.ip() == health.source()
        {
            let changed = health.answer(&packet, context);
            self.judged(now_ns, Vec::from_iter(changed), context);
            return Fate::Taken;
        }
        let Self { config, dnat, health, disabled } = self;
        dnat.packet(now_ns, packet, context, |targets, flow| {
            let port = flow.destination.port();
            let front = config.frontends.iter().find(|front| front.port == port);
            if front.is_none() && !config.frontends.is_empty() {
                return Err(DropReason::Refused);
            }
            let usable = |backend| is_usable(health.as_ref(), disabled, backend);
            let backend = choose(config, targets, flow, usable).ok_or(DropReason::NoBackend)?;
            Ok((backend, front.and_then(|front| front.backend_port).unwrap_or(port)))
        })
    }

    fn next_due_ns(&self) -> Option<u64> {
        let health = self.health.as_ref().and_then(Health::next_due_ns);
        [health, self.dnat.next_due_ns()].into_iter().flatten().min()
    }

    fn advance(&mut self, now_ns: u64, context: &mut Context<'_>) {
        self.dnat.advance(now_ns, context);
        if let Some(health) = &mut self.health {
            let changed = health.advance(now_ns, &self.dnat.targets, context);
            self.judged(now_ns, changed, context);
        }
    }

    fn event(&mut self, now_ns: u64, event: &StageEvent, context: &mut Context<'_>) -> Result<(), String> {
        self.advance(now_ns, context);
        match event {
            StageEvent::FlushFlows => self.dnat.forget(now_ns, "flushed", None, context),
            StageEvent::IdleLimit { idle_ns } => self.dnat.keeper.table.set_established_ns(*idle_ns),
            StageEvent::Failover { from, forget } => {
                let backend = self.backend(from)?;
                if !std::mem::replace(&mut self.disabled[backend], true) {
                    self.changed(now_ns, backend, context);
                }
                if *forget {
                    self.dnat.forget(now_ns, "failover", Some(backend), context);
                }
            }
            StageEvent::Restore { host } => {
                let backend = self.backend(host)?;
                if std::mem::replace(&mut self.disabled[backend], false) {
                    self.changed(now_ns, backend, context);
                }
            }
            StageEvent::ScaleIn { .. } | StageEvent::Switchover { .. } => {
                return Err(super::cannot("a load balancer", event));
            }
        }
        Ok(())
    }

    fn status(&self) -> StageStatus {
        let backends = self.dnat.targets.iter().enumerate().map(|(backend, target)| BackendStatus {
            name: target.name.clone(),
            healthy: is_usable(self.health.as_ref(), &self.disabled, backend),
        });
        StageStatus { flows: self.dnat.keeper.table.len(), backends: backends.collect() }
    }
}
