//! A private endpoint: an address in the client's network behind which stands a host of another.

use std::net::IpAddr;

use serde::{Deserialize, Deserializer, Serialize};

use super::dnat::{Dnat, Policy};
use super::limits::{self, IdleLimits, MINUTE, OnExpiry, Unknown};
use super::transit::Transit;
use super::{Context, Fate, Resolve, Stage, StageStatus};
use crate::event::StageEvent;
use crate::packet::Packet;
use crate::truth::DropReason;

/// A private endpoint. Defaults: Azure's Private Link (about 5 min idle limit, silent). The host sees the client's own
/// address; Azure's would see one of the provider's, which makes no difference to what a client can measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PrivateEndpointConfig {
    /// The endpoint's address.
    pub address: IpAddr,
    /// The host behind it: a host of the scenario, or an address.
    pub target: String,
    /// The ports that are open. None: every one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// How long flows are remembered.
    #[serde(default = "default_idle", deserialize_with = "idle")]
    pub idle: IdleLimits,
    /// What happens at the idle limit.
    #[serde(default)]
    pub on_expiry: OnExpiry,
    /// TCP packets of unknown flows.
    #[serde(default)]
    pub unknown: Unknown,
    /// So many flows at most.
    #[serde(default = "super::default_capacity")]
    pub capacity: usize,
    /// Time inside, one way.
    #[serde(default)]
    pub transit: Transit,
}

fn default_idle() -> IdleLimits {
    IdleLimits::established(5 * MINUTE)
}

/// As [`IdleLimits`], over these defaults.
fn idle<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IdleLimits, D::Error> {
    limits::over(&default_idle(), deserializer)
}

impl PrivateEndpointConfig {
    /// The middlebox of this name.
    pub fn build(self, name: &str, resolve: Resolve<'_>) -> Result<PrivateEndpoint, String> {
        let target = super::target(name, &self.target, self.address, resolve)?;
        let policy = Policy { on_expiry: self.on_expiry, unknown: self.unknown };
        let transit = self.transit.time().map_err(|why| format!("private endpoint {name}: {why}"))?;
        let dnat = Dnat::new(name, self.address, vec![target], (self.idle, self.capacity), policy, transit);
        Ok(PrivateEndpoint { ports: self.ports, dnat })
    }
}

/// A private endpoint at work.
#[derive(Debug)]
pub struct PrivateEndpoint {
    ports: Vec<u16>,
    dnat: Dnat,
}

impl Stage for PrivateEndpoint {
    fn addresses(&self) -> Vec<IpAddr> {
        vec![self.dnat.address]
    }

    fn packet(&mut self, now_ns: u64, packet: Packet, context: &mut Context<'_>) -> Fate {
        let ports = &self.ports;
        self.dnat.packet(now_ns, packet, context, |_, flow| {
            let port = flow.destination.port();
            if ports.is_empty() || ports.contains(&port) { Ok((0, port)) } else { Err(DropReason::Refused) }
        })
    }

    fn next_due_ns(&self) -> Option<u64> {
        self.dnat.next_due_ns()
    }

    fn advance(&mut self, now_ns: u64, context: &mut Context<'_>) {
        self.dnat.advance(now_ns, context);
    }

    fn event(&mut self, now_ns: u64, event: &StageEvent, context: &mut Context<'_>) -> Result<(), String> {
        self.advance(now_ns, context);
        match event {
            StageEvent::FlushFlows => self.dnat.forget(now_ns, "flushed", None, context),
            StageEvent::IdleLimit { idle_ns } => self.dnat.keeper.table.set_established_ns(*idle_ns),
            StageEvent::ScaleIn { .. }
            | StageEvent::Failover { .. }
            | StageEvent::Restore { .. }
            | StageEvent::Switchover { .. } => return Err(super::cannot("a private endpoint", event)),
        }
        Ok(())
    }

    fn status(&self) -> StageStatus {
        StageStatus { flows: self.dnat.keeper.table.len(), backends: Vec::new() }
    }
}
