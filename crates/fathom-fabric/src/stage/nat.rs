//! A NAT gateway: what goes out leaves in the name of its own address, on a port of its own.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;

use rand::Rng;
use serde::{Deserialize, Deserializer, Serialize};

use super::flows::Entry;
use super::keeper::Keeper;
use super::limits::{self, IdleLimits, MINUTE, OnExpiry, SECOND, Unknown};
use super::tcp::Side;
use super::transit::{Transit, TransitTime};
use super::{Context, Fate, Stage, StageStatus};
use crate::event::StageEvent;
use crate::packet::{Flow, Packet, Protocol};
use crate::truth::DropReason;
use fathom_core::units::serde_ns;

/// A NAT gateway. Defaults: Azure's (4 min idle limit, silent at the limit, then a RST to whoever sends the next packet; a
/// port is held after a connection's end before it may call the same destination again: 65 s after FIN, 16 s after RST,
/// 30 s half open). AWS: `idle = "350s"`, else alike.
///
/// Mapping and filtering depend on address and port (RFC 4787's words): a port serves many destinations at once, but each
/// only for one flow. Ports are chosen at random, as Azure does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NatConfig {
    /// The outer addresses. Packets to others than these come from the inside.
    pub addresses: Vec<IpAddr>,
    /// First and last port of each address. Azure: 64,512 ports an address.
    #[serde(default = "default_ports")]
    pub ports: (u16, u16),
    /// How long flows are remembered. The limits of connections that are over hold their ports.
    #[serde(default = "default_idle", deserialize_with = "idle")]
    pub idle: IdleLimits,
    /// What happens at the idle limit.
    #[serde(default)]
    pub on_expiry: OnExpiry,
    /// TCP packets of unknown flows, from either side.
    #[serde(default = "default_unknown")]
    pub unknown: Unknown,
    /// How long a port is not given to the same destination again after its flow was forgotten, ns.
    #[serde(default, rename = "cool-down", with = "serde_ns")]
    pub cool_down_ns: u64,
    /// So many flows at most.
    #[serde(default = "super::default_capacity")]
    pub capacity: usize,
    /// Time inside, one way.
    #[serde(default)]
    pub transit: Transit,
}

fn default_ports() -> (u16, u16) {
    (1_024, 65_535)
}

fn default_unknown() -> Unknown {
    Unknown::Reset
}

fn default_idle() -> IdleLimits {
    IdleLimits {
        opening_ns: 30 * SECOND,
        closed_ns: 65 * SECOND,
        reset_ns: 16 * SECOND,
        datagram_ns: 4 * MINUTE,
        ..IdleLimits::established(4 * MINUTE)
    }
}

/// As [`IdleLimits`], over these defaults.
fn idle<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IdleLimits, D::Error> {
    limits::over(&default_idle(), deserializer)
}

impl NatConfig {
    /// The middlebox of this name.
    pub fn build(self, name: &str) -> Result<Nat, String> {
        let (first, last) = self.ports;
        if self.addresses.is_empty() {
            return Err(format!("NAT {name} has no outer address; give it one"));
        }
        if first == 0 || first > last {
            return Err(format!("NAT {name}: ports {first} to {last} are none; write [1024, 65535]"));
        }
        let keeper = Keeper::new(name, self.idle.clone(), self.capacity);
        let transit = self.transit.time().map_err(|why| format!("NAT {name}: {why}"))?;
        Ok(Nat { config: self, keeper, transit, cooling: Cooling::default() })
    }
}

/// A NAT gateway at work.
#[derive(Debug)]
pub struct Nat {
    config: NatConfig,
    keeper: Keeper<()>,
    transit: TransitTime,
    cooling: Cooling,
}

/// Answers' flows of ports that are not to be used again yet.
#[derive(Debug, Default)]
struct Cooling {
    flows: HashSet<Flow>,
    due: BinaryHeap<Reverse<(u64, Flow)>>,
}

impl Cooling {
    fn add(&mut self, until_ns: u64, flow: Flow) {
        if self.flows.insert(flow) {
            self.due.push(Reverse((until_ns, flow)));
        }
    }

    fn advance(&mut self, now_ns: u64) {
        while self.due.peek().is_some_and(|Reverse((until_ns, _))| *until_ns <= now_ns) {
            let Some(Reverse((_, flow))) = self.due.pop() else { return };
            self.flows.remove(&flow);
        }
    }
}

impl Nat {
    /// A free outer port for a flow, as its answers will name it.
    fn allocate(&self, flow: &Flow, context: &mut Context<'_>) -> Option<Flow> {
        let (first, last) = self.config.ports;
        let count = u32::from(last - first) + 1;
        let alike = |address: &&IpAddr| address.is_ipv4() == flow.source.is_ipv4();
        let addresses: Vec<_> = self.config.addresses.iter().filter(alike).collect();
        let total = count * addresses.len() as u32;
        if total == 0 {
            return None;
        }
        // A protocol without ports has one flow to a destination.
        let portless = matches!(flow.protocol, Protocol::Other(_));
        let start = if portless { 0 } else { context.random.random_range(0..total) };
        (0..total).map(|step| (start + step) % total).find_map(|number| {
            let port = if portless { 0 } else { first + (number % count) as u16 };
            let outer = SocketAddr::new(*addresses[(number / count) as usize], port);
            // Of an echo the identifier is both ports.
            let mut source = flow.destination;
            if flow.protocol == Protocol::Icmp {
                source.set_port(port);
            }
            let backward = Flow { protocol: flow.protocol, source, destination: outer };
            let taken = self.keeper.table.find(&backward).is_some() || self.cooling.flows.contains(&backward);
            (!taken).then_some(backward)
        })
    }

    fn is_outer(&self, address: IpAddr) -> bool {
        self.config.addresses.contains(&address)
    }

    fn translate(
        &mut self,
        now_ns: u64,
        place: (super::flows::Slot, Side),
        mut packet: Packet,
        context: &mut Context<'_>,
    ) -> Fate {
        if let Some(entry) = self.keeper.table.get(place.0) {
            let written = match place.1 {
                Side::Originator => packet.set_source(entry.backward.destination),
                Side::Responder => packet.set_destination(entry.forward.source),
            };
            debug_assert!(written.is_ok(), "the outer address is chosen of the flow's family");
        }
        self.keeper.leave(now_ns, place, packet, &mut self.transit, context)
    }

    /// An ICMP error about a packet of a flow (RFC 5508, 4.2).
    fn error_message(
        &mut self,
        now_ns: u64,
        mut packet: Packet,
        quoted: Flow,
        context: &mut Context<'_>,
    ) -> Fate {
        let Some((entry, side)) = self.keeper.answering(&quoted) else {
            return Fate::Drop { packet, reason: DropReason::UnknownFlow };
        };
        let written = match side {
            // About what went out, in the outer name.
            Side::Responder => {
                let inside = entry.forward.source;
                packet.set_quoted_flow(entry.forward).and_then(|()| packet.set_destination(inside))
            }
            // From the inside, about an answer: it leaves in the outer name.
            Side::Originator => {
                let outer = entry.backward.destination;
                packet.set_quoted_flow(entry.backward).and_then(|()| packet.set_source(outer))
            }
        };
        debug_assert!(written.is_ok(), "an error quotes a packet of its own family");
        Fate::Forward { packet, transit_ns: self.transit.draw_ns(now_ns, context.random) }
    }
}

impl Stage for Nat {
    fn addresses(&self) -> Vec<IpAddr> {
        self.config.addresses.clone()
    }

    fn packet(&mut self, now_ns: u64, packet: Packet, context: &mut Context<'_>) -> Fate {
        self.advance(now_ns, context);
        if let Some(quoted) = packet.quoted_flow() {
            return self.error_message(now_ns, packet, quoted, context);
        }
        let Self { config, keeper, cooling, .. } = self;
        let known = keeper.pass(now_ns, &packet, context, |entry, _| {
            cooling.add(now_ns + config.cool_down_ns, entry.backward);
        });
        if let Some(place) = known {
            return self.translate(now_ns, place, packet, context);
        }
        let packet = match self.keeper.unknown(now_ns, packet, self.config.unknown, context) {
            ControlFlow::Continue(packet) => packet,
            ControlFlow::Break(fate) => return fate,
        };
        let flow = packet.flow();
        if self.is_outer(flow.destination.ip()) {
            // Nobody inside has asked for it.
            return Fate::Drop { packet, reason: DropReason::Refused };
        }
        let Some(backward) = self.allocate(&flow, context) else {
            return Fate::Drop { packet, reason: DropReason::NoPort };
        };
        let to = Some(backward.destination.to_string());
        let first = (Side::Originator, &packet);
        match self.keeper.open(now_ns, (flow, backward), first, None, ((), to), context) {
            Ok(slot) => self.translate(now_ns, (slot, Side::Originator), packet, context),
            Err(reason) => Fate::Drop { packet, reason },
        }
    }

    fn next_due_ns(&self) -> Option<u64> {
        self.keeper.table.next_due_ns()
    }

    fn advance(&mut self, now_ns: u64, context: &mut Context<'_>) {
        self.cooling.advance(now_ns);
        let Self { config, keeper, cooling, .. } = self;
        let cool = |entry: Entry<()>, _: &mut Context<'_>| {
            cooling.add(now_ns + config.cool_down_ns, entry.backward);
        };
        keeper.expire(now_ns, context, |()| config.on_expiry, cool);
        self.cooling.advance(now_ns);
    }

    fn event(&mut self, now_ns: u64, event: &StageEvent, context: &mut Context<'_>) -> Result<(), String> {
        self.advance(now_ns, context);
        match event {
            StageEvent::FlushFlows => {
                for entry in self.keeper.forget_where(now_ns, "flushed", context, |_| true) {
                    self.cooling.add(now_ns + self.config.cool_down_ns, entry.backward);
                }
                self.cooling.advance(now_ns);
            }
            StageEvent::IdleLimit { idle_ns } => self.keeper.table.set_established_ns(*idle_ns),
            StageEvent::ScaleIn { .. }
            | StageEvent::Failover { .. }
            | StageEvent::Restore { .. }
            | StageEvent::Switchover { .. } => return Err(super::cannot("a NAT", event)),
        }
        Ok(())
    }

    fn status(&self) -> StageStatus {
        StageStatus { flows: self.keeper.table.len(), backends: Vec::new() }
    }
}
