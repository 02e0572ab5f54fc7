//! Packets, timers and events at middleboxes.

use super::end::Place;
use super::engine::Scratch;
use super::queue::{Job, Slot, Travel};
use super::{CLAIMS_MAX, Kind, NodeId, Output, World};
use crate::packet::IcmpError;
use crate::stage::{Context, Fate, Stage};
use crate::truth::{DropReason, PacketFate, PacketRecord};

impl World {
    /// Lets a middlebox do something at this time. What it leaves behind is carried out by [`World::after_stage`]. None
    /// where the node is a host.
    pub(super) fn with_stage<R>(
        &mut self,
        node: u32,
        what: impl FnOnce(&mut dyn Stage, u64, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let Kind::Middlebox(middlebox) = &mut self.nodes[node as usize].kind else { return None };
        let Scratch { send, claim, release, truth } = &mut self.scratch;
        let mut context = Context { random: &mut middlebox.random, send, claim, release, truth };
        Some(what(&mut *middlebox.stage, self.now_ns, &mut context))
    }

    pub(super) fn at_middlebox(&mut self, slot: Slot, node: u32, out: &mut Output) {
        let Kind::Middlebox(middlebox) = &self.nodes[node as usize].kind else { return };
        let Some(travel) = self.queue.get_mut(slot) else { return };
        if travel.via == Some(node) {
            travel.via = None;
        }
        // A packet whose last hop this was may still be meant for the middlebox itself.
        let own = middlebox.addresses.contains(&travel.packet.flow().destination.ip());
        if travel.packet.hop_limit() <= 1 && !own {
            self.hops_ran_out(slot, node, out);
            return;
        }
        let Some(Travel { packet, via, origin, from, flow, paths }) = self.queue.remove(slot) else { return };
        let (id, in_ns, size) = (packet.id, packet.in_ns, packet.len() as u32);
        let fate = self.with_stage(node, |stage, now_ns, context| stage.packet(now_ns, packet, context));
        match fate {
            None | Some(Fate::Taken) => {
                self.counters.taken += 1;
                if self.packet_log {
                    let (due_ns, to, fate) = (self.now_ns, None, PacketFate::Taken);
                    let from = NodeId(from);
                    out.records.push(PacketRecord {
                        id,
                        in_ns,
                        due_ns,
                        from,
                        to,
                        flow,
                        size,
                        paths,
                        origin,
                        fate,
                    });
                }
            }
            Some(Fate::Drop { packet, reason }) => {
                let slot = self.queue.insert(Travel { packet, via, origin, from, flow, paths });
                self.end_dropped(slot, reason, Place::Node(node), out);
            }
            Some(Fate::Forward { mut packet, transit_ns }) => {
                // Whatever it did to the packet, the number stays.
                (packet.id, packet.in_ns) = (id, in_ns);
                let slot = self.queue.insert(Travel { packet, via, origin, from, flow, paths });
                self.forward(slot, node, transit_ns, out);
            }
        }
        self.after_stage(node, out);
    }

    /// On from a middlebox after its transit, one hop less, in the order in which packets for the same leg came.
    fn forward(&mut self, slot: Slot, node: u32, transit_ns: u64, out: &mut Output) {
        let Some(travel) = self.queue.get_mut(slot) else { return };
        if !travel.packet.decrement_hop_limit() {
            self.hops_ran_out(slot, node, out);
            return;
        }
        let Some(leg) = self.route(slot, node) else {
            self.end_dropped(slot, DropReason::NoRoute, Place::Node(node), out);
            return;
        };
        let now_ns = self.now_ns;
        let (_, entered_ns, _) = self.legs[leg as usize].away(node);
        *entered_ns = now_ns.saturating_add(transit_ns).max(*entered_ns);
        let at_ns = *entered_ns;
        if at_ns > now_ns {
            self.queue.push(at_ns, Job::Enter { slot, leg, node });
        } else {
            self.enter(slot, leg, node, out);
        }
    }

    fn hops_ran_out(&mut self, slot: Slot, node: u32, out: &mut Output) {
        let error = self.icmp_error(slot, node, IcmpError::TimeExceeded);
        self.end_dropped(slot, DropReason::HopLimit, Place::Node(node), out);
        self.send_error(error, node, out);
    }

    /// Carries out what a middlebox left behind, and looks when it wants to be called again.
    pub(super) fn after_stage(&mut self, node: u32, out: &mut Output) {
        out.truths.append(&mut self.scratch.truth);
        for flow in self.scratch.release.drain(..) {
            // Only its own: another middlebox may have claimed the flow since.
            if self.claims.get(&flow) == Some(&node) {
                self.claims.remove(&flow);
            }
        }
        for flow in self.scratch.claim.drain(..) {
            if self.claims.len() < CLAIMS_MAX || self.claims.contains_key(&flow) {
                self.claims.insert(flow, node);
            } else {
                self.counters.claims_refused += 1;
            }
        }
        let mut send = std::mem::take(&mut self.scratch.send);
        for (after_ns, packet) in send.drain(..) {
            let due_ns = self.now_ns.saturating_add(after_ns);
            if let Some(slot) = self.admit_made(packet, node, out) {
                self.queue.push(due_ns, Job::Leave { slot, node });
            }
        }
        self.scratch.send = send;
        self.set_timer(node);
    }

    /// Sees to it that the queue holds the middlebox's next timer.
    pub(super) fn set_timer(&mut self, node: u32) {
        let now_ns = self.now_ns;
        let Kind::Middlebox(middlebox) = &mut self.nodes[node as usize].kind else { return };
        let Some(wanted_ns) = middlebox.stage.next_due_ns() else { return };
        // What is overdue after the middlebox was called waits a nanosecond: time must go on.
        let due_ns = if wanted_ns > now_ns { wanted_ns } else { now_ns + 1 };
        if middlebox.timer_ns.is_none_or(|timer_ns| due_ns < timer_ns) {
            middlebox.timer_ns = Some(due_ns);
            self.queue.push(due_ns, Job::Timer { node });
        }
    }

    pub(super) fn timer(&mut self, node: u32, out: &mut Output) {
        let now_ns = self.now_ns;
        let Kind::Middlebox(middlebox) = &mut self.nodes[node as usize].kind else { return };
        if middlebox.timer_ns != Some(now_ns) {
            // An earlier one took its place.
            return;
        }
        middlebox.timer_ns = None;
        if middlebox.stage.next_due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            self.with_stage(node, |stage, now_ns, context| stage.advance(now_ns, context));
            self.after_stage(node, out);
        } else {
            self.set_timer(node);
        }
    }
}
