//! A flow table together with what middleboxes do in common: tell the truth of it, and send RSTs.

use std::ops::ControlFlow;

use super::flows::{Entry, FlowTable, Slot};
use super::limits::{IdleLimits, OnExpiry, Unknown};
use super::tcp::{Side, State};
use super::transit::TransitTime;
use super::{Context, Fate};
use crate::packet::{Flags, Flow, Packet};
use crate::truth::{DropReason, Truth, What};

/// The flows of a middlebox, and its name for the log.
#[derive(Debug)]
pub(super) struct Keeper<T> {
    name: String,
    pub(super) table: FlowTable<T>,
}

impl<T> Keeper<T> {
    pub(super) fn new(name: &str, limits: IdleLimits, capacity: usize) -> Self {
        Self { name: name.to_owned(), table: FlowTable::new(limits, capacity) }
    }

    /// Writes what happened.
    pub(super) fn tell(&self, at_ns: u64, what: What, context: &mut Context<'_>) {
        context.truth.push(Truth { at_ns, place: self.name.clone(), what });
    }

    /// Remembers the flow that this packet, sent by this end, opens. `to` is the backend or the translated source.
    pub(super) fn open(
        &mut self,
        now_ns: u64,
        flows: (Flow, Flow),
        (from, packet): (Side, &Packet),
        established_ns: Option<u64>,
        (data, to): (T, Option<String>),
        context: &mut Context<'_>,
    ) -> Result<Slot, DropReason> {
        if self.table.is_full() {
            return Err(DropReason::FlowTableFull);
        }
        // Not full: then the ports belong to another flow.
        let opened = self.table.open(now_ns, flows, (from, packet.segment().as_ref()), established_ns, data);
        let slot = opened.ok_or(DropReason::Refused)?;
        self.tell(now_ns, What::FlowOpened { flow: flows.0, to }, context);
        Ok(slot)
    }

    /// The flow of a packet, which is seen to pass. A SYN with the ports of a connection that is over is of no known flow:
    /// the old one is forgotten and handed to `forgotten`.
    pub(super) fn pass(
        &mut self,
        now_ns: u64,
        packet: &Packet,
        context: &mut Context<'_>,
        mut forgotten: impl FnMut(Entry<T>, &mut Context<'_>),
    ) -> Option<(Slot, Side)> {
        let (slot, side) = self.table.find(&packet.flow())?;
        let segment = packet.segment();
        if self.table.get(slot).is_some_and(|entry| entry.track().is_reopened_by(segment.as_ref())) {
            if let Some(entry) = self.table.remove(slot) {
                self.tell_forgotten(now_ns, &entry, "closed", context);
                forgotten(entry, context);
            }
            return None;
        }
        self.table.pass(now_ns, slot, side, segment.as_ref());
        Some((slot, side))
    }

    /// Forgets the flows whose time has come; established ones end with RSTs where `policy` wants them.
    pub(super) fn expire(
        &mut self,
        now_ns: u64,
        context: &mut Context<'_>,
        policy: impl Fn(&T) -> OnExpiry,
        mut forgotten: impl FnMut(Entry<T>, &mut Context<'_>),
    ) {
        while let Some(entry) = self.table.expire(now_ns) {
            let why = if entry.state().is_over() { "closed" } else { "idle" };
            self.tell_forgotten(now_ns, &entry, why, context);
            if entry.state() == State::Established {
                let sides: &[Side] = match policy(&entry.data) {
                    OnExpiry::Silent => &[],
                    OnExpiry::Reset => &[Side::Originator, Side::Responder],
                    OnExpiry::ResetOriginator => &[Side::Originator],
                    OnExpiry::ResetResponder => &[Side::Responder],
                };
                for &side in sides {
                    self.reset(now_ns, &entry, side, context);
                }
            }
            forgotten(entry, context);
        }
    }

    /// Forgets the flows of which this holds.
    pub(super) fn forget_where(
        &mut self,
        now_ns: u64,
        why: &'static str,
        context: &mut Context<'_>,
        which: impl FnMut(&Entry<T>) -> bool,
    ) -> Vec<Entry<T>> {
        let gone = self.table.remove_where(which);
        for entry in &gone {
            self.tell_forgotten(now_ns, entry, why, context);
        }
        gone
    }

    /// A packet of a flow leaves. The transit time varies, but packets of one flow and direction do not overtake each other.
    pub(super) fn leave(
        &mut self,
        now_ns: u64,
        (slot, side): (Slot, Side),
        packet: Packet,
        transit: &mut TransitTime,
        context: &mut Context<'_>,
    ) -> Fate {
        let mut leaves_ns = now_ns + transit.draw_ns(now_ns, context.random);
        if let Some(entry) = self.table.get_mut(slot) {
            let last_ns = &mut entry.left_ns[side.index()];
            leaves_ns = leaves_ns.max(*last_ns);
            *last_ns = leaves_ns;
        }
        Fate::Forward { packet, transit_ns: leaves_ns - now_ns }
    }

    /// What becomes of a packet that belongs to no flow: it goes on, to be treated as one that opens a flow. That
    /// is so for all but TCP packets without a SYN. A RST has nothing to open, and a later fragment no ports.
    pub(super) fn unknown(
        &self,
        now_ns: u64,
        packet: Packet,
        policy: Unknown,
        context: &mut Context<'_>,
    ) -> ControlFlow<Fate, Packet> {
        match packet.segment() {
            None if packet.is_later_fragment() => {
                return ControlFlow::Break(Fate::Drop { packet, reason: DropReason::UnknownFlow });
            }
            None => return ControlFlow::Continue(packet),
            Some(tcp) if tcp.flags.has(Flags::RST) => {
                return ControlFlow::Break(Fate::Drop { packet, reason: DropReason::UnknownFlow });
            }
            Some(tcp) if policy == Unknown::Admit || tcp.flags.opens() => {
                return ControlFlow::Continue(packet);
            }
            Some(_) => {}
        }
        let reason = DropReason::UnknownFlow;
        ControlFlow::Break(match policy {
            Unknown::Reset => self.reject(now_ns, packet, reason, context),
            Unknown::Drop | Unknown::Admit => Fate::Drop { packet, reason },
        })
    }

    /// Ends a packet here, and answers with a RST if it is TCP.
    pub(super) fn reject(
        &self,
        now_ns: u64,
        packet: Packet,
        reason: DropReason,
        context: &mut Context<'_>,
    ) -> Fate {
        if let Some(reset) = packet.reset_for() {
            self.tell(now_ns, What::ResetSent { flow: packet.flow() }, context);
            context.send.push((0, reset));
        }
        Fate::Drop { packet, reason }
    }

    /// Whether this ICMP error is about a packet of a known flow.
    pub(super) fn is_related(&self, quoted: &Flow) -> bool {
        self.table.find(quoted).or_else(|| self.table.find(&quoted.reversed())).is_some()
    }

    /// The flow whose other way a quoted packet went, and which end an error about it comes from.
    pub(super) fn answering(&self, quoted: &Flow) -> Option<(&Entry<T>, Side)> {
        let (slot, side) = self.table.find(&quoted.reversed())?;
        Some((self.table.get(slot)?, side))
    }

    fn tell_forgotten(&self, now_ns: u64, entry: &Entry<T>, why: &'static str, context: &mut Context<'_>) {
        let idle_ns = entry.idle_ns(now_ns);
        self.tell(now_ns, What::FlowForgotten { flow: entry.forward, why, idle_ns }, context);
    }

    /// Sends a RST to one end, in the name of the other.
    fn reset(&self, now_ns: u64, entry: &Entry<T>, to: Side, context: &mut Context<'_>) {
        let Some((sequence, acknowledgment)) = entry.track().reset_to(to) else { return };
        let flow = match to {
            Side::Originator => entry.forward,
            Side::Responder => entry.backward,
        };
        if let Some(reset) = Packet::reset_towards(flow.reversed(), sequence, acknowledgment) {
            self.tell(now_ns, What::ResetSent { flow }, context);
            context.send.push((0, reset));
        }
    }
}
