//! Packets from node to node.

use super::end::Place;
use super::queue::{Job, Slot, Travel};
use super::{HostId, Kind, Leg, Output, World};
use crate::model::{Crossing, Lane};
use crate::packet::{Flow, IcmpError, Packet};
use crate::truth::{DropReason, Origin, Truth, What};

/// What a middlebox leaves behind besides its decision; emptied after each call.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) send: Vec<(u64, Packet)>,
    pub(super) claim: Vec<Flow>,
    pub(super) release: Vec<Flow>,
    pub(super) truth: Vec<Truth>,
}

impl Leg {
    /// The direction away from a node: its lane, when a middlebox last sent into it, and the node at the far end.
    pub(super) fn away(&mut self, node: u32) -> (&mut Lane, &mut u64, u32) {
        if node == self.a {
            (&mut self.forward, &mut self.entered_ns[0], self.b)
        } else {
            (&mut self.backward, &mut self.entered_ns[1], self.a)
        }
    }
}

impl World {
    pub(super) fn run(&mut self, job: Job, out: &mut Output) {
        match job {
            Job::Arrive { slot, node } => self.arrive(slot, node, out),
            Job::Leave { slot, node } => self.leave(slot, node, out),
            Job::Enter { slot, leg, node } => self.enter(slot, leg, node, out),
            Job::Deliver { slot, host } => self.deliver(slot, host, out),
            Job::Timer { node } => self.timer(node, out),
            Job::Planned { index } => self.begin_planned(index, out),
            Job::Phase(phase) => self.go_on(phase, out),
        }
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn take_in(&mut self, host: HostId, bytes: Vec<u8>, out: &mut Output) {
        if host.0 >= self.hosts {
            return;
        }
        let id = self.next_id();
        self.counters.packets_in += 1;
        let Ok(packet) = Packet::parse(id, self.now_ns, bytes) else {
            self.counters.dropped += 1;
            let what = What::PacketDropped { packet: id, flow: None, reason: DropReason::Malformed };
            out.truths.push(Truth { at_ns: self.now_ns, place: self.place_name(Place::Node(host.0)), what });
            return;
        };
        if let Some(slot) = self.admit(packet, Origin::Host, host.0, out) {
            self.outbound(slot, host.0, out);
        }
    }

    /// Gives a packet a place in the fabric, if there is one left; its number is set.
    fn admit(&mut self, packet: Packet, origin: Origin, from: u32, out: &mut Output) -> Option<Slot> {
        let full = self.queue.is_full(packet.len());
        let flow = packet.flow();
        let slot = self.queue.insert(Travel { packet, via: None, origin, from, flow, paths: Vec::new() });
        if full {
            self.end_dropped(slot, DropReason::QueueFull, Place::Node(from), out);
            return None;
        }
        Some(slot)
    }

    /// As [`World::admit`], for a packet that a node made.
    pub(super) fn admit_made(&mut self, mut packet: Packet, node: u32, out: &mut Output) -> Option<Slot> {
        packet.id = self.next_id();
        packet.in_ns = self.now_ns;
        self.counters.made += 1;
        self.admit(packet, Origin::Made, node, out)
    }

    fn arrive(&mut self, slot: Slot, node: u32, out: &mut Output) {
        if node < self.hosts {
            self.inbound(slot, node, out);
        } else {
            self.at_middlebox(slot, node, out);
        }
    }

    /// From a node by its route.
    pub(super) fn leave(&mut self, slot: Slot, node: u32, out: &mut Output) {
        if let Some(leg) = self.route(slot, node) {
            self.enter(slot, leg, node, out);
        } else {
            self.end_dropped(slot, DropReason::NoRoute, Place::Node(node), out);
        }
    }

    /// The leg by which a packet goes on: towards the middlebox that claims its flow, or by its addresses.
    pub(super) fn route(&mut self, slot: Slot, node: u32) -> Option<u32> {
        let claimed = node < self.hosts && !self.claims.is_empty();
        let travel = self.queue.get_mut(slot)?;
        let flow = travel.packet.flow();
        let (source, destination) = flow.addresses();
        if claimed {
            travel.via = self.claims.get(&flow).copied();
        }
        let Some(via) = travel.via.filter(|&via| via != node) else {
            return self.routes.find(node, source, destination);
        };
        self.routes.between(node, via).or_else(|| {
            let Kind::Middlebox(middlebox) = &self.nodes[via as usize].kind else { return None };
            let mut same = middlebox.addresses.iter().filter(|a| a.is_ipv6() == destination.is_ipv6());
            same.find_map(|&address| self.routes.find(node, source, address))
        })
    }

    /// Into a leg, now.
    pub(super) fn enter(&mut self, slot: Slot, leg: u32, node: u32, out: &mut Output) {
        let now_ns = self.now_ns;
        let Some(travel) = self.queue.get_mut(slot) else { return };
        let joined = &mut self.legs[leg as usize];
        let path = joined.path;
        if self.packet_log && travel.paths.last() != Some(&path) {
            travel.paths.push(path);
        }
        let (lane, _, far) = joined.away(node);
        match lane.enter(now_ns, travel.packet.len()) {
            Crossing::Due { due_ns, copy_ns } => {
                self.queue.push(due_ns, Job::Arrive { slot, node: far });
                if let Some(copy_ns) = copy_ns {
                    self.copy(slot, copy_ns, far);
                }
            }
            Crossing::Lost(DropReason::TooBig) => {
                let mtu = lane.model().mtu.unwrap_or(u16::MAX);
                self.too_big(slot, leg, node, mtu, out);
            }
            Crossing::Lost(reason) => self.end_dropped(slot, reason, Place::Path(path), out),
        }
    }

    fn copy(&mut self, slot: Slot, due_ns: u64, far: u32) {
        let id = self.next_id();
        let Some(travel) = self.queue.get(slot) else { return };
        if self.queue.is_full(travel.packet.len()) {
            return;
        }
        let mut copy = Travel {
            packet: travel.packet.clone(),
            via: travel.via,
            origin: Origin::Copy,
            from: travel.from,
            flow: travel.flow,
            paths: travel.paths.clone(),
        };
        copy.packet.id = id;
        self.counters.made += 1;
        let slot = self.queue.insert(copy);
        self.queue.push(due_ns, Job::Arrive { slot, node: far });
    }

    /// Cut up where the packet allows it, else dropped and its sender told.
    fn too_big(&mut self, slot: Slot, leg: u32, node: u32, mtu: u16, out: &mut Output) {
        let place = Place::Path(self.legs[leg as usize].path);
        let Some(travel) = self.queue.get(slot) else { return };
        if let Some(fragments) = travel.packet.fragments(mtu) {
            let Some(whole) = self.queue.remove(slot) else { return };
            for (i, mut fragment) in fragments.into_iter().enumerate() {
                let mut origin = whole.origin;
                if i > 0 {
                    fragment.id = self.next_id();
                    self.counters.made += 1;
                    origin = Origin::Fragment;
                }
                let (via, from, flow) = (whole.via, whole.from, whole.flow);
                let paths = whole.paths.clone();
                let slot = self.queue.insert(Travel { packet: fragment, via, origin, from, flow, paths });
                self.enter(slot, leg, node, out);
            }
            return;
        }
        let error = self.icmp_error(slot, node, IcmpError::TooBig { mtu });
        self.end_dropped(slot, DropReason::TooBig, place, out);
        self.send_error(error, node, out);
    }

    /// The ICMP error of a node about a packet. Of a host's own leg, and of a middlebox without an address of that IP
    /// version, it comes in the name of the packet's destination: the fabric's routers have no addresses of their own, and
    /// the sender looks at what is quoted, not at who says it (RFC 1122, section 3.2.2).
    pub(super) fn icmp_error(&self, slot: Slot, node: u32, error: IcmpError) -> Option<Packet> {
        let packet = &self.queue.get(slot)?.packet;
        let destination = packet.flow().destination.ip();
        let own = match &self.nodes[node as usize].kind {
            Kind::Middlebox(m) => m.addresses.iter().find(|a| a.is_ipv6() == destination.is_ipv6()).copied(),
            Kind::Host(_) => None,
        };
        packet.icmp_error_for(own.unwrap_or(destination), error)
    }

    pub(super) fn send_error(&mut self, error: Option<Packet>, node: u32, out: &mut Output) {
        let Some(slot) = error.and_then(|error| self.admit_made(error, node, out)) else { return };
        if node < self.hosts {
            self.inbound(slot, node, out);
        } else {
            self.leave(slot, node, out);
        }
    }
}
