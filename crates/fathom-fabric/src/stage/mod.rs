//! What a middlebox is to the fabric: it takes a packet and a time, and says what becomes of it.
//!
//! Each kind has a file and a configuration that serde reads from a scenario: [`load_balancer`], [`firewall`], [`nat`],
//! [`private_endpoint`], [`gateway`]. What they share: the table of flows ([`flows`]) with a TCP state as far as a middlebox
//! sees it ([`tcp`]), and how long each state is remembered ([`limits`]).

mod dnat;
pub mod firewall;
pub mod flows;
pub mod gateway;
pub mod health;
mod keeper;
pub mod limits;
pub mod load_balancer;
pub mod nat;
pub mod private_endpoint;
pub mod tcp;
pub mod transit;

use std::fmt::Debug;
use std::net::IpAddr;

use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use crate::event::StageEvent;
use crate::packet::{Flow, Packet};
use crate::truth::{DropReason, Truth};

/// What a middlebox decided about a packet.
#[derive(Debug)]
pub enum Fate {
    /// Goes on from this node, by its (perhaps rewritten) addresses, after so long.
    Forward {
        /// The packet, as it leaves.
        packet: Packet,
        /// Transit time of the middlebox, ns.
        transit_ns: u64,
    },
    /// Ends here. The world writes the truth of it.
    Drop {
        /// The packet, as it came.
        packet: Packet,
        /// Why.
        reason: DropReason,
    },
    /// Was meant for the middlebox itself, which took it (the answer to a health probe, say).
    Taken,
}

/// What a middlebox may do besides deciding about the packet in hand. Collected by the world, carried out after the call.
#[derive(Debug)]
pub struct Context<'a> {
    /// This node's own stream of random numbers: seeded by the scenario's seed and the node's name.
    pub random: &'a mut Pcg64,
    /// Packets that this node sends of its own (a RST, a health probe), each after so many ns. Forwarded by their addresses.
    pub send: &'a mut Vec<(u64, Packet)>,
    /// Flows that must come back through this node although their destination would lead elsewhere (a balancer's
    /// backends answer the client's address). The flow is as the far host will send it.
    pub claim: &'a mut Vec<Flow>,
    /// Claims given up. The world gives up before it claims: a flow may be given up and claimed anew in one call.
    pub release: &'a mut Vec<Flow>,
    /// What happened, for the ground-truth log.
    pub truth: &'a mut Vec<Truth>,
}

/// A middlebox. Called in order of time.
pub trait Stage: Debug + Send {
    /// The addresses for which packets are routed to this node (virtual address, NAT address, endpoint); none for a firewall.
    fn addresses(&self) -> Vec<IpAddr>;

    /// The world begins. Called once, before all else.
    fn start(&mut self, _now_ns: u64) {}

    /// A packet arrived at `now_ns`.
    fn packet(&mut self, now_ns: u64, packet: Packet, context: &mut Context<'_>) -> Fate;

    /// When [`Stage::advance`] wants to be called, if it does.
    fn next_due_ns(&self) -> Option<u64>;

    /// Timers: health probes, expired flows.
    fn advance(&mut self, now_ns: u64, context: &mut Context<'_>);

    /// An event of the scenario that concerns this middlebox. The error says why it cannot.
    fn event(&mut self, now_ns: u64, event: &StageEvent, context: &mut Context<'_>) -> Result<(), String>;

    /// What it holds now.
    fn status(&self) -> StageStatus;
}

/// What a middlebox holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct StageStatus {
    /// Flows that it remembers.
    pub flows: usize,
    /// A load balancer's backends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<BackendStatus>,
}

/// A load balancer's view of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackendStatus {
    /// As the scenario names it.
    pub name: String,
    /// Whether it gets new flows.
    pub healthy: bool,
}

/// Gives a host's address by its name; where a host has several, the first. Text that is an address needs no host.
pub type Resolve<'a> = &'a dyn Fn(&str) -> Option<IpAddr>;

/// A middlebox of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum StageConfig {
    /// [`load_balancer`]
    LoadBalancer(load_balancer::LoadBalancerConfig),
    /// [`firewall`]
    Firewall(firewall::FirewallConfig),
    /// [`nat`]
    Nat(nat::NatConfig),
    /// [`private_endpoint`]
    PrivateEndpoint(private_endpoint::PrivateEndpointConfig),
    /// [`gateway`]
    Gateway(gateway::GatewayConfig),
}

impl StageConfig {
    /// The middlebox of this name. The error says what of its configuration does not fit, and how to mend it.
    pub fn build(self, name: &str, resolve: Resolve<'_>) -> Result<Box<dyn Stage>, String> {
        Ok(match self {
            Self::LoadBalancer(config) => Box::new(config.build(name, resolve)?),
            Self::Firewall(config) => Box::new(config.build(name)?),
            Self::Nat(config) => Box::new(config.build(name)?),
            Self::PrivateEndpoint(config) => Box::new(config.build(name, resolve)?),
            Self::Gateway(config) => Box::new(config.build(name)?),
        })
    }
}

/// Azure: 500,000 active flows in and as many out for a virtual machine, a network appliance included.
fn default_capacity() -> usize {
    500_000
}

/// The host or address behind a virtual address.
fn target(stage: &str, named: &str, address: IpAddr, resolve: Resolve<'_>) -> Result<dnat::Target, String> {
    let found = named.parse().ok().or_else(|| resolve(named));
    let found =
        found.ok_or_else(|| format!("{stage}: {named} is neither a host of the scenario nor an address"))?;
    if found.is_ipv4() != address.is_ipv4() {
        return Err(format!(
            "{stage}: {named} ({found}) and the virtual address {address} are of two IP versions"
        ));
    }
    Ok(dnat::Target { name: named.to_owned(), address: found })
}

/// The refusal of an event.
fn cannot(kind: &str, event: &StageEvent) -> String {
    let (what, who) = match event {
        StageEvent::FlushFlows => ("flush-flows", "a middlebox that remembers flows"),
        StageEvent::IdleLimit { .. } => ("idle-limit", "a middlebox that remembers flows"),
        StageEvent::ScaleIn { .. } => ("scale-in", "a firewall"),
        StageEvent::Failover { .. } => ("failover", "a load balancer"),
        StageEvent::Restore { .. } => ("restore", "a load balancer"),
        StageEvent::Switchover { .. } => ("switchover", "a gateway"),
    };
    format!("{kind} has no {what}; that is an event of {who}")
}

/// `SplitMix64` (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): the same in every build,
/// which the standard library's hash does not promise.
fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
