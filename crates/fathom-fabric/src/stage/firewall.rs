//! A stateful firewall on a path: rules decide on the first packet of a flow, what it remembers on the rest.

use std::net::IpAddr;
use std::ops::ControlFlow;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::keeper::Keeper;
use super::limits::{IdleLimits, OnExpiry, Unknown};
use super::tcp::Side;
use super::transit::{Transit, TransitTime};
use super::{Context, Fate, Stage, StageStatus};
use crate::event::StageEvent;
use crate::packet::{Flow, Packet};
use crate::truth::DropReason;
use fathom_core::units::serde_ns_option;

/// A network of a rule, or an address alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(pub IpNet);

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network.map(Self).map_err(|_| {
            serde::de::Error::custom(format!(
                "{text} is no network; write it as in 10.1.0.0/16, or an address"
            ))
        })
    }
}

/// A rule about flows, by their first packet. What is absent fits every flow.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Rule {
    /// Where the flow comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Network>,
    /// Where it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Network>,
    /// Its destination port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Whether it is let through.
    pub action: Action,
    /// Its own idle limit when established. Azure Firewall: 4 min for north-south flows, 5 min for east-west ones.
    #[serde(rename = "idle", with = "serde_ns_option", skip_serializing_if = "Option::is_none")]
    pub idle_ns: Option<u64>,
    /// What happens at its idle limit, if not what the firewall does else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<OnExpiry>,
}

impl Rule {
    fn fits(&self, flow: &Flow) -> bool {
        self.from.is_none_or(|network| network.0.contains(&flow.source.ip()))
            && self.to.is_none_or(|network| network.0.contains(&flow.destination.ip()))
            && self.port.is_none_or(|port| port == flow.destination.port())
    }
}

/// What a rule does with a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// It passes.
    #[default]
    Allow,
    /// Its packets vanish.
    Deny,
    /// A TCP packet is answered with a RST; others vanish.
    Reject,
}

/// A stateful firewall. Defaults: those of Azure Firewall for north-south traffic (4 min), but silent and with one
/// instance, so that a scenario says what is special about it. (Azure: a RST both ways at the limit; AWS Network Firewall:
/// 350 s.)
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FirewallConfig {
    /// The first rule that fits decides; where none does, the flow is let through.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// How long flows are remembered.
    pub idle: IdleLimits,
    /// What happens at the idle limit.
    pub on_expiry: OnExpiry,
    /// TCP packets of unknown flows.
    pub unknown: Unknown,
    /// Instances among which the flows are spread, each with its own memory.
    pub instances: u32,
    /// So many flows at most, all instances together.
    pub capacity: usize,
    /// Time inside, one way.
    pub transit: Transit,
}

impl Default for FirewallConfig {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            idle: IdleLimits::default(),
            on_expiry: OnExpiry::Silent,
            unknown: Unknown::Drop,
            instances: 1,
            capacity: super::default_capacity(),
            transit: Transit::default(),
        }
    }
}

impl FirewallConfig {
    /// The middlebox of this name.
    pub fn build(self, name: &str) -> Result<Firewall, String> {
        if self.instances == 0 {
            return Err(format!("firewall {name} needs at least one instance"));
        }
        let keeper = Keeper::new(name, self.idle.clone(), self.capacity);
        let transit = self.transit.time().map_err(|why| format!("firewall {name}: {why}"))?;
        Ok(Firewall { instances: self.instances, config: self, keeper, transit })
    }
}

/// What the firewall knows of a flow.
#[derive(Debug, Clone, Copy)]
struct Known {
    instance: u32,
    on_expiry: OnExpiry,
}

/// A firewall at work.
#[derive(Debug)]
pub struct Firewall {
    config: FirewallConfig,
    /// How many instances there are now.
    instances: u32,
    keeper: Keeper<Known>,
    transit: TransitTime,
}

impl Firewall {
    /// The instance of a flow: the same for both directions, and one that stays as long as the instance does.
    fn instance(&self, flow: &Flow) -> u32 {
        let end = |address: std::net::SocketAddr| match address.ip() {
            IpAddr::V4(v4) => super::mix(u64::from(v4.to_bits()) << 16 | u64::from(address.port())),
            IpAddr::V6(v6) => {
                let low = super::mix(v6.to_bits() as u64 ^ u64::from(address.port()));
                super::mix((v6.to_bits() >> 64) as u64 ^ low)
            }
        };
        let key = end(flow.source) ^ end(flow.destination);
        let weight = |instance: &u32| super::mix(key ^ super::mix(u64::from(*instance)));
        (0..self.instances).max_by_key(weight).unwrap_or(0)
    }
}

impl Stage for Firewall {
    fn addresses(&self) -> Vec<IpAddr> {
        Vec::new()
    }

    fn packet(&mut self, now_ns: u64, packet: Packet, context: &mut Context<'_>) -> Fate {
        self.advance(now_ns, context);
        if let Some(quoted) = packet.quoted_flow() {
            return if self.keeper.is_related(&quoted) {
                Fate::Forward { packet, transit_ns: self.transit.draw_ns(now_ns, context.random) }
            } else {
                Fate::Drop { packet, reason: DropReason::UnknownFlow }
            };
        }
        if let Some(place) = self.keeper.pass(now_ns, &packet, context, |_, _| {}) {
            return self.keeper.leave(now_ns, place, packet, &mut self.transit, context);
        }
        let packet = match self.keeper.unknown(now_ns, packet, self.config.unknown, context) {
            ControlFlow::Continue(packet) => packet,
            ControlFlow::Break(fate) => return fate,
        };
        let flow = packet.flow();
        let none = Rule::default();
        let rule = self.config.rules.iter().find(|rule| rule.fits(&flow)).unwrap_or(&none);
        match rule.action {
            Action::Allow => {}
            Action::Deny => return Fate::Drop { packet, reason: DropReason::Refused },
            Action::Reject => return self.keeper.reject(now_ns, packet, DropReason::Refused, context),
        }
        let known = Known {
            instance: self.instance(&flow),
            on_expiry: rule.on_expiry.unwrap_or(self.config.on_expiry),
        };
        let first = (Side::Originator, &packet);
        let flows = (flow, flow.reversed());
        match self.keeper.open(now_ns, flows, first, rule.idle_ns, (known, None), context) {
            Ok(slot) => {
                let place = (slot, Side::Originator);
                self.keeper.leave(now_ns, place, packet, &mut self.transit, context)
            }
            Err(reason) => Fate::Drop { packet, reason },
        }
    }

    fn next_due_ns(&self) -> Option<u64> {
        self.keeper.table.next_due_ns()
    }

    fn advance(&mut self, now_ns: u64, context: &mut Context<'_>) {
        self.keeper.expire(now_ns, context, |known| known.on_expiry, |_, _| {});
    }

    fn event(&mut self, now_ns: u64, event: &StageEvent, context: &mut Context<'_>) -> Result<(), String> {
        self.advance(now_ns, context);
        match event {
            StageEvent::FlushFlows => {
                self.keeper.forget_where(now_ns, "flushed", context, |_| true);
            }
            StageEvent::IdleLimit { idle_ns } => self.keeper.table.set_established_ns(*idle_ns),
            StageEvent::ScaleIn { instances } => {
                let stay = *instances;
                if stay == 0 || stay >= self.instances {
                    let have = self.instances;
                    return Err(format!(
                        "there are {have} instances: say how many stay, from 1 to {}",
                        have - 1
                    ));
                }
                self.instances = stay;
                self.keeper.forget_where(now_ns, "scale-in", context, |entry| entry.data.instance >= stay);
            }
            StageEvent::Failover { .. } | StageEvent::Restore { .. } | StageEvent::Switchover { .. } => {
                return Err(super::cannot("a firewall", event));
            }
        }
        Ok(())
    }

    fn status(&self) -> StageStatus {
        StageStatus { flows: self.keeper.table.len(), backends: Vec::new() }
    }
}
