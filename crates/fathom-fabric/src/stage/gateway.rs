//! A gateway between networks (VPN, peering hop): it adds time, has an MTU and a throughput of its own, and may change over
//! to a standby.

use fathom_core::units;
use std::net::IpAddr;
use std::ops::ControlFlow;

use serde::{Deserialize, Deserializer, Serialize};

use super::keeper::Keeper;
use super::limits::{IdleLimits, OnExpiry, SECOND, Unknown};
use super::tcp::Side;
use super::transit::{Transit, TransitTime};
use super::{Context, Fate, Stage, StageStatus};
use crate::event::StageEvent;
use crate::packet::{IcmpError, Packet};
use crate::truth::DropReason;

/// What a gateway remembers of flows, where it does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Memory {
    /// How long.
    pub idle: IdleLimits,
    /// What happens at the idle limit.
    pub on_expiry: OnExpiry,
    /// TCP packets of unknown flows.
    pub unknown: Unknown,
}

/// A gateway. Defaults: a router that adds nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct GatewayConfig {
    /// Its own address, in whose name it says that a packet is too big. Absent: it says nothing, and large packets vanish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Time inside, one way.
    pub transit: Transit,
    /// Largest packet, the IP header included. Azure's VPN gateway: 1,400 bytes are advised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// Largest segment that a SYN may offer; more is lowered to it. Azure's VPN gateway: 1,350.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss: Option<u16>,
    /// Throughput, both ways together, bits a second.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "rate")]
    pub rate: Option<u64>,
    /// Bytes that may wait for it.
    #[serde(deserialize_with = "size")]
    pub queue: u64,
    /// What it remembers of flows. Absent: nothing, every packet passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// So many flows at most, where it remembers them.
    pub capacity: usize,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            address: None,
            transit: Transit::default(),
            mtu: None,
            mss: None,
            rate: None,
            queue: 1 << 20,
            memory: None,
            capacity: super::default_capacity(),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Amount {
    Text(String),
    Number(u64),
}

fn amount<'de, D: Deserializer<'de>>(
    deserializer: D,
    read: fn(&str) -> Result<u64, units::UnitError>,
    such_as: &str,
) -> Result<u64, D::Error> {
    let amount = Amount::deserialize(deserializer)
        .map_err(|_| serde::de::Error::custom(format!("write it as text such as {such_as}")))?;
    match amount {
        Amount::Text(text) => read(&text).map_err(serde::de::Error::custom),
        Amount::Number(number) => Ok(number),
    }
}

fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    amount(deserializer, units::bits_per_s, "\"1Gbit/s\"").map(Some)
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    amount(deserializer, units::size, "\"1MiB\"")
}

impl GatewayConfig {
    /// The middlebox of this name.
    pub fn build(self, name: &str) -> Result<Gateway, String> {
        // RFC 8200, section 5, and RFC 791, section 3.2: what every link must carry.
        let least = if self.address.is_some_and(|address| address.is_ipv6()) { 1_280 } else { 68 };
        if self.mtu.is_some_and(|mtu| mtu < least) {
            return Err(format!("gateway {name}: an MTU is at least {least} bytes"));
        }
        if self.rate == Some(0) {
            return Err(format!("gateway {name}: a rate of 0 lets nothing pass; leave it out for no limit"));
        }
        let limits = self.memory.as_ref().map(|memory| memory.idle.clone()).unwrap_or_default();
        let keeper = Keeper::new(name, limits, self.capacity);
        let transit = self.transit.time().map_err(|why| format!("gateway {name}: {why}"))?;
        Ok(Gateway { config: self, keeper, transit, free_ns: 0, out_until_ns: 0 })
    }
}

/// A flow's place in the memory, and which end sent the packet.
type Place = (super::flows::Slot, Side);

/// A gateway at work.
#[derive(Debug)]
pub struct Gateway {
    config: GatewayConfig,
    keeper: Keeper<()>,
    transit: TransitTime,
    /// When all that waits has been sent, ns.
    free_ns: u64,
    /// Until when nothing passes, ns.
    out_until_ns: u64,
}

impl Gateway {
    /// When the packet has been sent at the gateway's rate, or `None` where too much waits already.
    fn serialised_ns(&mut self, now_ns: u64, length: usize) -> Option<u64> {
        let Some(rate) = self.config.rate else { return Some(now_ns) };
        let ns_for = |bytes: u64| (u128::from(bytes) * 8 * u128::from(SECOND) / u128::from(rate)) as u64;
        let begins_ns = self.free_ns.max(now_ns);
        if begins_ns - now_ns > ns_for(self.config.queue) {
            return None;
        }
        self.free_ns = begins_ns + ns_for(length as u64);
        Some(self.free_ns)
    }

    /// Whether the memory lets the packet pass: its flow's place, or its end here.
    fn remember(
        &mut self,
        now_ns: u64,
        packet: Packet,
        context: &mut Context<'_>,
    ) -> ControlFlow<Fate, (Packet, Option<Place>)> {
        let Some(memory) = &self.config.memory else { return ControlFlow::Continue((packet, None)) };
        if let Some(quoted) = packet.quoted_flow() {
            return if self.keeper.is_related(&quoted) {
                ControlFlow::Continue((packet, None))
            } else {
                ControlFlow::Break(Fate::Drop { packet, reason: DropReason::UnknownFlow })
            };
        }
        if let Some(place) = self.keeper.pass(now_ns, &packet, context, |_, _| {}) {
            return ControlFlow::Continue((packet, Some(place)));
        }
        let packet = self.keeper.unknown(now_ns, packet, memory.unknown, context)?;
        let flow = packet.flow();
        let first = (Side::Originator, &packet);
        match self.keeper.open(now_ns, (flow, flow.reversed()), first, None, ((), None), context) {
            Ok(slot) => ControlFlow::Continue((packet, Some((slot, Side::Originator)))),
            Err(reason) => ControlFlow::Break(Fate::Drop { packet, reason }),
        }
    }
}

impl Stage for Gateway {
    fn addresses(&self) -> Vec<IpAddr> {
        self.config.address.into_iter().collect()
    }

    fn packet(&mut self, now_ns: u64, packet: Packet, context: &mut Context<'_>) -> Fate {
        self.advance(now_ns, context);
        if self.config.address == Some(packet.flow().destination.ip()) {
            return Fate::Drop { packet, reason: DropReason::Refused };
        }
        if now_ns < self.out_until_ns {
            return Fate::Drop { packet, reason: DropReason::Outage };
        }
        if let Some(mtu) = self.config.mtu
            && packet.len() > usize::from(mtu)
        {
            let error = self.config.address.filter(|_| !packet.may_fragment());
            let error = error.and_then(|from| packet.icmp_error_for(from, IcmpError::TooBig { mtu }));
            context.send.extend(error.map(|error| (0, error)));
            return Fate::Drop { packet, reason: DropReason::TooBig };
        }
        let (mut packet, place) = match self.remember(now_ns, packet, context) {
            ControlFlow::Continue(remembered) => remembered,
            ControlFlow::Break(fate) => return fate,
        };
        if let Some(mss) = self.config.mss {
            packet.clamp_mss(mss);
        }
        let Some(sent_ns) = self.serialised_ns(now_ns, packet.len()) else {
            return Fate::Drop { packet, reason: DropReason::QueueFull };
        };
        let transit = &mut self.transit;
        let fate = match place {
            Some(place) => self.keeper.leave(now_ns, place, packet, transit, context),
            None => Fate::Forward { packet, transit_ns: transit.draw_ns(now_ns, context.random) },
        };
        match fate {
            Fate::Forward { packet, transit_ns } => {
                Fate::Forward { packet, transit_ns: transit_ns + (sent_ns - now_ns) }
            }
            other => other,
        }
    }

    fn next_due_ns(&self) -> Option<u64> {
        self.keeper.table.next_due_ns()
    }

    fn advance(&mut self, now_ns: u64, context: &mut Context<'_>) {
        let on_expiry = self.config.memory.as_ref().map_or(OnExpiry::Silent, |memory| memory.on_expiry);
        self.keeper.expire(now_ns, context, |()| on_expiry, |_, _| {});
    }

    fn event(&mut self, now_ns: u64, event: &StageEvent, context: &mut Context<'_>) -> Result<(), String> {
        self.advance(now_ns, context);
        match event {
            StageEvent::Switchover { outage_ns, forget } => {
                self.out_until_ns = self.out_until_ns.max(now_ns.saturating_add(*outage_ns));
                if *forget {
                    self.keeper.forget_where(now_ns, "failover", context, |_| true);
                }
            }
            StageEvent::FlushFlows if self.config.memory.is_some() => {
                self.keeper.forget_where(now_ns, "flushed", context, |_| true);
            }
            StageEvent::IdleLimit { idle_ns } if self.config.memory.is_some() => {
                self.keeper.table.set_established_ns(*idle_ns);
            }
            StageEvent::FlushFlows
            | StageEvent::IdleLimit { .. }
            | StageEvent::ScaleIn { .. }
            | StageEvent::Failover { .. }
            | StageEvent::Restore { .. } => return Err(super::cannot("this gateway", event)),
        }
        Ok(())
    }

    fn status(&self) -> StageStatus {
        StageStatus { flows: self.keeper.table.len(), backends: Vec::new() }
    }
}
