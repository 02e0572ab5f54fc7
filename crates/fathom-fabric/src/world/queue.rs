//! What is due, in order of time; and the packets in the fabric.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::PathId;
use crate::packet::{Flow, Packet};
use crate::truth::Origin;

/// A packet's place in the fabric's memory.
pub(super) type Slot = u32;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Job {
    /// A packet comes out of a leg at a node.
    Arrive { slot: Slot, node: u32 },
    /// A packet goes on from a node: a middlebox's transit (or a host's brownout) is over.
    Leave { slot: Slot, node: u32 },
    /// A packet enters this leg from a middlebox, whose transit is over.
    Enter { slot: Slot, leg: u32, node: u32 },
    /// A packet reaches a host whose brownout or redirect held it up.
    Deliver { slot: Slot, host: u32 },
    /// A middlebox wants to be called.
    Timer { node: u32 },
    /// An event of the plan.
    Planned { index: u32 },
    /// An event goes on or ends.
    Phase(Phase),
}

/// The next step of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    PauseEnds { host: u32 },
    ChangeEnds { path: u32, added_ns: i64 },
    CutEnds { path: u32, forward: bool, backward: bool },
    Freeze { migration: u32 },
    Thaw { migration: u32 },
    RedirectEnds { migration: u32 },
}

/// A packet on its way, and what the fabric must know of it to the end.
#[derive(Debug)]
pub(super) struct Travel {
    pub(super) packet: Packet,
    /// The middlebox that claims it, until it is there.
    pub(super) via: Option<u32>,
    pub(super) origin: Origin,
    pub(super) from: u32,
    /// As it came in.
    pub(super) flow: Flow,
    /// Labels of the legs that it entered, without repetition; only where packets are recorded.
    pub(super) paths: Vec<PathId>,
}

/// Due jobs and the packets they speak of.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// (due, sequence, job): what is due at the same time happens in the order in which it was decided.
    due: BinaryHeap<Reverse<(u64, u64, Job)>>,
    sequence: u64,
    travels: Vec<Option<Travel>>,
    free: Vec<Slot>,
    bytes: usize,
}

impl Queue {
    pub(super) fn push(&mut self, due_ns: u64, job: Job) {
        self.sequence += 1;
        self.due.push(Reverse((due_ns, self.sequence, job)));
    }

    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((due_ns, _, _))| *due_ns)
    }

    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<(u64, Job)> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        self.due.pop().map(|Reverse((due_ns, _, job))| (due_ns, job))
    }

    /// Packets in the fabric.
    pub(super) fn packets(&self) -> usize {
        self.travels.len() - self.free.len()
    }

    /// Whether one more of this length is too much.
    pub(super) fn is_full(&self, more: usize) -> bool {
        self.packets() >= super::PACKETS_MAX || self.bytes + more > super::BYTES_MAX
    }

    pub(super) fn insert(&mut self, travel: Travel) -> Slot {
        self.bytes += travel.packet.len();
        if let Some(slot) = self.free.pop() {
            self.travels[slot as usize] = Some(travel);
            slot
        } else {
            self.travels.push(Some(travel));
            (self.travels.len() - 1) as Slot
        }
    }

    pub(super) fn remove(&mut self, slot: Slot) -> Option<Travel> {
        let travel = self.travels.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        self.bytes -= travel.packet.len();
        Some(travel)
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&Travel> {
        self.travels.get(slot as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Travel> {
        self.travels.get_mut(slot as usize)?.as_mut()
    }
}
