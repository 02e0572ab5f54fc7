//! Packets that end: delivered, dropped or taken; the log of them.

use super::queue::{Slot, Travel};
use super::{Delivery, HostId, NodeId, Output, PathId, World};
use crate::packet::Packet;
use crate::truth::{DropReason, PacketFate, PacketRecord, Truth, What};

/// Where in the world.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Node(u32),
    Path(PathId),
}

impl World {
    /// As the ground truth calls it.
    pub(super) fn place_name(&self, place: Place) -> String {
        match place {
            Place::Node(node) => self.node_name(NodeId(node)).to_owned(),
            Place::Path(path) => self.path_name(path).to_owned(),
        }
    }

    /// A host gets it.
    pub(super) fn end_delivered(&mut self, slot: Slot, host: u32, out: &mut Output) {
        let Some(travel) = self.queue.remove(slot) else { return };
        self.counters.delivered += 1;
        let packet = self.record(travel, Some(HostId(host)), PacketFate::Delivered, out);
        out.deliveries.push(Delivery { host: HostId(host), packet, due_ns: self.now_ns });
    }

    /// It ends here, and the ground truth says why.
    pub(super) fn end_dropped(&mut self, slot: Slot, reason: DropReason, place: Place, out: &mut Output) {
        let Some(travel) = self.queue.remove(slot) else { return };
        self.counters.dropped += 1;
        let flow = Some(travel.packet.flow());
        let what = What::PacketDropped { packet: travel.packet.id, flow, reason };
        out.truths.push(Truth { at_ns: self.now_ns, place: self.place_name(place), what });
        self.record(travel, None, PacketFate::Dropped(reason), out);
    }

    /// Writes the record, where records are wanted, and hands the packet back.
    fn record(&self, travel: Travel, to: Option<HostId>, fate: PacketFate, out: &mut Output) -> Packet {
        let Travel { packet, origin, from, flow, paths, .. } = travel;
        if self.packet_log {
            out.records.push(PacketRecord {
                id: packet.id,
                in_ns: packet.in_ns,
                due_ns: self.now_ns,
                from: NodeId(from),
                to,
                flow,
                size: packet.len() as u32,
                paths,
                origin,
                fate,
            });
        }
        packet
    }
}
