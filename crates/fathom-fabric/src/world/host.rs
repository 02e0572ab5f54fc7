//! A host as the world sees it: frozen or not, slowed by a migration, its old flows redirected.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::end::Place;
use super::flows::Flows;
use super::queue::{Job, Slot};
use super::{Kind, Output, World};
use crate::event::RedirectEnd;
use crate::truth::{DropReason, Truth, What};

/// A host's state.
#[derive(Debug, Default)]
pub(super) struct Host {
    pub(super) addresses: Vec<IpAddr>,
    /// How many pauses and freezes are in force.
    pub(super) frozen: u32,
    /// What waits for the thaw, in order.
    pub(super) held: VecDeque<(Slot, Held)>,
    pub(super) flows: Flows,
    /// Added to every packet each way, ns.
    pub(super) brownout_ns: u64,
    pub(super) redirects: Vec<Redirect>,
    /// When the last packet went on, by direction and way (direct, redirected): what is added does not reorder.
    last_ns: [[u64; 2]; 2],
}

/// Where a held packet was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// The host had sent it.
    Outbound,
    /// It had come out of a leg.
    Inbound,
    /// It had come out of a leg, and what is added to packets of this host was over.
    Delayed,
}

/// A migration's redirect, while it serves and after it has expired.
#[derive(Debug, Clone, Copy)]
pub(super) struct Redirect {
    pub(super) migration: u32,
    /// Flows that began before are old, ns.
    pub(super) cutoff_ns: u64,
    pub(super) added_ns: u64,
    pub(super) then: RedirectEnd,
    pub(super) expired: bool,
}

/// How a packet goes between a host and the fabric.
enum Way {
    Direct,
    Redirected(u64),
    Refused(RedirectEnd),
}

impl Host {
    pub(super) fn new(addresses: Vec<IpAddr>) -> Self {
        Self { addresses, ..Self::default() }
    }

    fn way(&self, since_ns: Option<u64>) -> Way {
        let Some(since_ns) = since_ns else { return Way::Direct };
        let mut way = Way::Direct;
        for redirect in self.redirects.iter().filter(|redirect| since_ns < redirect.cutoff_ns) {
            if redirect.expired {
                return Way::Refused(redirect.then);
            }
            let so_far = if let Way::Redirected(added_ns) = way { added_ns } else { 0 };
            way = Way::Redirected(so_far + redirect.added_ns);
        }
        way
    }

    /// When a packet goes on, in the order of its way.
    fn due(&mut self, now_ns: u64, outbound: bool, way: usize, added_ns: u64) -> u64 {
        let last = &mut self.last_ns[usize::from(outbound)][way];
        *last = now_ns.saturating_add(added_ns).max(*last);
        *last
    }

    /// Redirected flows go the direct way from now on, and stay behind what they already sent.
    pub(super) fn join_ways(&mut self) {
        for ways in &mut self.last_ns {
            ways[0] = ways[0].max(ways[1]);
        }
    }
}

impl World {
    pub(super) fn host_mut(&mut self, host: u32) -> &mut Host {
        match &mut self.nodes[host as usize].kind {
            Kind::Host(host) => host,
            Kind::Middlebox(_) => unreachable!("hosts come first"),
        }
    }

    /// A host sent it.
    pub(super) fn outbound(&mut self, slot: Slot, host: u32, out: &mut Output) {
        self.at_host(slot, host, Held::Outbound, out);
    }

    /// It came out of a leg at a host.
    pub(super) fn inbound(&mut self, slot: Slot, host: u32, out: &mut Output) {
        let Some(travel) = self.queue.get(slot) else { return };
        let destination = travel.packet.flow().destination.ip();
        if self.host_mut(host).addresses.contains(&destination) {
            self.at_host(slot, host, Held::Inbound, out);
        } else {
            self.end_dropped(slot, DropReason::NoRoute, Place::Node(host), out);
        }
    }

    fn at_host(&mut self, slot: Slot, host: u32, held: Held, out: &mut Output) {
        let now_ns = self.now_ns;
        let (Some(travel), Kind::Host(state)) = (self.queue.get(slot), &mut self.nodes[host as usize].kind)
        else {
            return;
        };
        let since_ns = state.flows.saw(now_ns, &travel.packet, held == Held::Outbound);
        if state.frozen > 0 {
            state.held.push_back((slot, held));
            return;
        }
        self.pass(slot, host, held, since_ns, out);
    }

    /// Between a host that runs and the fabric.
    fn pass(&mut self, slot: Slot, host: u32, held: Held, since_ns: Option<u64>, out: &mut Output) {
        let outbound = held == Held::Outbound;
        let now_ns = self.now_ns;
        let state = self.host_mut(host);
        let (way, redirect_ns) = match state.way(since_ns) {
            Way::Direct => (0, 0),
            Way::Redirected(added_ns) => (1, added_ns),
            Way::Refused(then) => {
                self.refuse(slot, host, outbound, then, out);
                return;
            }
        };
        let due_ns = state.due(now_ns, outbound, way, state.brownout_ns.saturating_add(redirect_ns));
        match (due_ns > now_ns, outbound) {
            (true, true) => self.queue.push(due_ns, Job::Leave { slot, node: host }),
            (true, false) => self.queue.push(due_ns, Job::Deliver { slot, host }),
            (false, true) => self.leave(slot, host, out),
            (false, false) => self.end_delivered(slot, host, out),
        }
    }

    /// What was added is over; the host may have frozen meanwhile.
    pub(super) fn deliver(&mut self, slot: Slot, host: u32, out: &mut Output) {
        let state = self.host_mut(host);
        if state.frozen > 0 {
            state.held.push_back((slot, Held::Delayed));
        } else {
            self.end_delivered(slot, host, out);
        }
    }

    pub(super) fn freeze(&mut self, host: u32) {
        self.host_mut(host).frozen += 1;
    }

    /// One pause less; with the last one gone, what was held goes on in order.
    pub(super) fn thaw(&mut self, host: u32, out: &mut Output) {
        let state = self.host_mut(host);
        state.frozen = state.frozen.saturating_sub(1);
        if state.frozen > 0 {
            return;
        }
        for (slot, held) in std::mem::take(&mut state.held) {
            if held == Held::Delayed {
                self.end_delivered(slot, host, out);
                continue;
            }
            let (Some(travel), Kind::Host(state)) = (self.queue.get(slot), &self.nodes[host as usize].kind)
            else {
                continue;
            };
            let since_ns = state.flows.since_ns(&travel.packet, held == Held::Outbound);
            self.pass(slot, host, held, since_ns, out);
        }
    }

    /// The redirect that served this flow has expired.
    fn refuse(&mut self, slot: Slot, host: u32, outbound: bool, then: RedirectEnd, out: &mut Output) {
        let reset =
            self.queue.get(slot).filter(|_| then == RedirectEnd::Reset).and_then(|t| t.packet.reset_for());
        self.end_dropped(slot, DropReason::RedirectExpired, Place::Node(host), out);
        let Some(reset) = reset else { return };
        let what = What::ResetSent { flow: reset.flow().reversed() };
        out.truths.push(Truth { at_ns: self.now_ns, place: self.place_name(Place::Node(host)), what });
        let Some(slot) = self.admit_made(reset, host, out) else { return };
        if outbound {
            self.end_delivered(slot, host, out);
        } else {
            self.leave(slot, host, out);
        }
    }
}
