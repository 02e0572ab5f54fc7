//! Destination translation, shared by the load balancer and the private endpoint: packets to a virtual address go on to a
//! target, which sees the client's own address; what the target answers is claimed back, and leaves in the name of the
//! virtual address.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;

use super::flows::{Entry, Slot};
use super::keeper::Keeper;
use super::limits::{IdleLimits, MINUTE, OnExpiry, Unknown};
use super::tcp::Side;
use super::transit::TransitTime;
use super::{Context, Fate};
use crate::packet::{Flow, Packet};
use crate::truth::DropReason;

/// How long answers of a forgotten flow still come back here, ns. They cannot leave in the target's own name: no real
/// network would let them. Longer than a peer goes on sending (`tcp_retries2` = 15 gives up after 924 s by RFC 6298's
/// doubling from 200 ms to 120 s, `ip-sysctl`).
const LOST_NS: u64 = 20 * MINUTE;

/// Where packets can go.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// As the scenario names it.
    pub(super) name: String,
    pub(super) address: IpAddr,
}

/// What a translator does when it does not know a flow (any more).
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    pub(super) on_expiry: OnExpiry,
    pub(super) unknown: Unknown,
}

/// The translator. What a flow is given is the index of its target.
#[derive(Debug)]
pub(super) struct Dnat {
    pub(super) address: IpAddr,
    pub(super) targets: Vec<Target>,
    pub(super) keeper: Keeper<usize>,
    policy: Policy,
    transit: TransitTime,
    lost: Lost,
}

impl Dnat {
    pub(super) fn new(
        name: &str,
        address: IpAddr,
        targets: Vec<Target>,
        (limits, capacity): (IdleLimits, usize),
        policy: Policy,
        transit: TransitTime,
    ) -> Self {
        let lost = Lost { capacity, ..Lost::default() };
        Self { address, targets, keeper: Keeper::new(name, limits, capacity), policy, transit, lost }
    }

    /// A packet. `choose` gives a new flow its target and the port there.
    pub(super) fn packet(
        &mut self,
        now_ns: u64,
        packet: Packet,
        context: &mut Context<'_>,
        choose: impl FnOnce(&[Target], &Flow) -> Result<(usize, u16), DropReason>,
    ) -> Fate {
        self.advance(now_ns, context);
        if let Some(quoted) = packet.quoted_flow() {
            return self.error_message(now_ns, packet, quoted, context);
        }
        let lost = &mut self.lost;
        let known = self.keeper.pass(now_ns, &packet, context, |entry, context| {
            lost.add(now_ns, &entry, context);
        });
        if let Some(place) = known {
            return self.translate(now_ns, place, packet, context);
        }
        let flow = packet.flow();
        let to_here = flow.destination.ip() == self.address;
        let lost = self.lost.flows.get(&flow).map(|lost| (lost.forward, lost.target));
        if !to_here && lost.is_none() {
            return Fate::Drop { packet, reason: DropReason::UnknownFlow };
        }
        let packet = match self.keeper.unknown(now_ns, packet, self.policy.unknown, context) {
            ControlFlow::Continue(packet) => packet,
            ControlFlow::Break(fate) => return fate,
        };
        let chosen = match lost {
            // What a target sends goes on in the old flow's name, or not at all.
            Some((forward, target)) if !to_here => Ok((Side::Responder, (forward, flow), target)),
            _ => choose(&self.targets, &flow).map(|(target, port)| {
                let backward = Flow {
                    protocol: flow.protocol,
                    source: SocketAddr::new(self.targets[target].address, port),
                    destination: flow.source,
                };
                (Side::Originator, (flow, backward), target)
            }),
        };
        let opened = chosen.and_then(|(side, flows, target)| {
            let to = Some(self.targets[target].name.clone());
            let slot = self.keeper.open(now_ns, flows, (side, &packet), None, (target, to), context)?;
            self.lost.flows.remove(&flows.1);
            context.claim.push(flows.1);
            Ok((slot, side))
        });
        match opened {
            Ok(place) => self.translate(now_ns, place, packet, context),
            Err(reason) => Fate::Drop { packet, reason },
        }
    }

    /// Forgets what is due.
    pub(super) fn advance(&mut self, now_ns: u64, context: &mut Context<'_>) {
        let Self { keeper, lost, policy, .. } = self;
        keeper.expire(
            now_ns,
            context,
            |_| policy.on_expiry,
            |entry, context| lost.add(now_ns, &entry, context),
        );
        lost.release_old(now_ns, context);
    }

    pub(super) fn next_due_ns(&self) -> Option<u64> {
        [self.keeper.table.next_due_ns(), self.lost.next_due_ns()].into_iter().flatten().min()
    }

    /// Forgets the flows of a target, or (with `None`) all.
    pub(super) fn forget(
        &mut self,
        now_ns: u64,
        why: &'static str,
        target: Option<usize>,
        context: &mut Context<'_>,
    ) {
        let which = |entry: &Entry<usize>| target.is_none_or(|target| entry.data == target);
        for entry in self.keeper.forget_where(now_ns, why, context, which) {
            self.lost.add(now_ns, &entry, context);
        }
    }

    fn translate(
        &mut self,
        now_ns: u64,
        (slot, side): (Slot, Side),
        mut packet: Packet,
        context: &mut Context<'_>,
    ) -> Fate {
        if let Some(entry) = self.keeper.table.get(slot) {
            let written = match side {
                Side::Originator => packet.set_destination(entry.backward.source),
                Side::Responder => packet.set_source(entry.forward.destination),
            };
            debug_assert!(written.is_ok(), "targets are of the virtual address's family");
        }
        self.keeper.leave(now_ns, (slot, side), packet, &mut self.transit, context)
    }

    /// An ICMP error about a packet of a flow finds the packet's sender (RFC 5508, 4.2, which asks it of a NAT). It does
    /// not count as traffic of the flow.
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
            // The packet that met the error went to the client, in the name of the virtual address.
            Side::Originator => packet
                .set_quoted_flow(entry.backward)
                .and_then(|()| packet.set_destination(entry.backward.source)),
            // It went to the target. The client must read of the packet that it sent itself.
            Side::Responder => packet.set_quoted_flow(entry.forward),
        };
        debug_assert!(written.is_ok(), "an error quotes a packet of its own family");
        Fate::Forward { packet, transit_ns: self.transit.draw_ns(now_ns, context.random) }
    }
}

/// Flows that have been forgotten while their ends may go on, so that the claim on the target's answers must stay.
#[derive(Debug, Default)]
struct Lost {
    flows: HashMap<Flow, LostFlow>,
    order: VecDeque<(u64, Flow)>,
    capacity: usize,
}

#[derive(Debug)]
struct LostFlow {
    since_ns: u64,
    forward: Flow,
    target: usize,
}

impl Lost {
    fn add(&mut self, now_ns: u64, entry: &Entry<usize>, context: &mut Context<'_>) {
        if entry.state().is_over() {
            context.release.push(entry.backward);
            return;
        }
        let lost = LostFlow { since_ns: now_ns, forward: entry.forward, target: entry.data };
        self.flows.insert(entry.backward, lost);
        self.order.push_back((now_ns, entry.backward));
        while self.order.len() > self.capacity {
            self.release_first(context);
        }
    }

    fn next_due_ns(&self) -> Option<u64> {
        self.order.front().map(|(since_ns, _)| since_ns.saturating_add(LOST_NS))
    }

    fn release_old(&mut self, now_ns: u64, context: &mut Context<'_>) {
        while self.next_due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            self.release_first(context);
        }
    }

    fn release_first(&mut self, context: &mut Context<'_>) {
        let Some((since_ns, flow)) = self.order.pop_front() else { return };
        // Else it has been opened again, or lost again since.
        if self.flows.get(&flow).is_some_and(|lost| lost.since_ns == since_ns) {
            self.flows.remove(&flow);
            context.release.push(flow);
        }
    }
}
