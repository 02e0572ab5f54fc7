//! The table of flows that a middlebox remembers.
//!
//! Bounded, and without a scan: each flow stands in a heap at a time at or before its deadline. When that time comes and
//! the flow has been used meanwhile, it goes back into the heap at its new deadline; so a flow is looked at about once per
//! idle limit, however many packets it has.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::limits::IdleLimits;
use super::tcp::{Side, State, Track};
use crate::packet::{Flow, Segment};

/// A flow that is remembered.
#[derive(Debug, Clone)]
pub struct Entry<T> {
    /// As the end that opened it sends it.
    pub forward: Flow,
    /// As the other end sends its answers, before this middlebox rewrites them.
    pub backward: Flow,
    /// What the middlebox knows of it besides.
    pub data: T,
    /// Its own limit when established, where a rule gave it one, ns.
    pub established_ns: Option<u64>,
    /// When the last packet of each direction has left, ns: the order of a flow is kept.
    pub left_ns: [u64; 2],
    track: Track,
    heard_ns: [u64; 2],
    queued_ns: u64,
}

impl<T> Entry<T> {
    /// Where it is.
    pub fn state(&self) -> State {
        self.track.state()
    }

    /// Its state with the sequence numbers.
    pub fn track(&self) -> &Track {
        &self.track
    }

    /// How long nothing has passed, ns.
    pub fn idle_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.heard_ns[0].max(self.heard_ns[1]))
    }

    /// A packet of this end, seen now.
    fn observe(&mut self, now_ns: u64, from: Side, segment: Option<&Segment>) {
        self.heard_ns[from.index()] = now_ns;
        self.track.observe(from, segment);
    }
}

/// A flow's place in the table, valid until the flow is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    index: usize,
    generation: u64,
}

/// The flows that a middlebox remembers.
#[derive(Debug)]
pub struct FlowTable<T> {
    limits: IdleLimits,
    capacity: usize,
    entries: Vec<(u64, Option<Entry<T>>)>,
    free: Vec<usize>,
    keys: HashMap<Flow, (Slot, Side)>,
    due: BinaryHeap<Reverse<(u64, Slot)>>,
    generation: u64,
}

impl<T> FlowTable<T> {
    /// An empty table for at most `capacity` flows.
    pub fn new(limits: IdleLimits, capacity: usize) -> Self {
        Self {
            limits,
            capacity,
            entries: Vec::new(),
            free: Vec::new(),
            keys: HashMap::new(),
            due: BinaryHeap::new(),
            generation: 0,
        }
    }

    /// How many flows are remembered.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether no further flow fits.
    pub fn is_full(&self) -> bool {
        self.len() >= self.capacity
    }

    /// The flow that a packet belongs to, and which end sent it.
    pub fn find(&self, flow: &Flow) -> Option<(Slot, Side)> {
        self.keys.get(flow).copied()
    }

    /// The flow at a place.
    pub fn get(&self, slot: Slot) -> Option<&Entry<T>> {
        self.entries.get(slot.index).filter(|(generation, _)| *generation == slot.generation)?.1.as_ref()
    }

    /// The flow at a place, to change what the middlebox knows of it.
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut Entry<T>> {
        self.entries.get_mut(slot.index).filter(|(generation, _)| *generation == slot.generation)?.1.as_mut()
    }

    /// Remembers a flow that this segment, sent by this end, opens. `None` where the table is full, or where either direction belongs to
    /// another flow already.
    pub fn open(
        &mut self,
        now_ns: u64,
        (forward, backward): (Flow, Flow),
        (from, segment): (Side, Option<&Segment>),
        established_ns: Option<u64>,
        data: T,
    ) -> Option<Slot> {
        if self.is_full() || self.keys.contains_key(&forward) || self.keys.contains_key(&backward) {
            return None;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push((0, None));
            self.entries.len() - 1
        });
        self.generation += 1;
        let slot = Slot { index, generation: self.generation };
        let entry = Entry {
            forward,
            backward,
            data,
            established_ns,
            left_ns: [0; 2],
            track: Track::new(forward.protocol, from, segment),
            heard_ns: [now_ns; 2],
            queued_ns: u64::MAX,
        };
        self.entries[index] = (slot.generation, Some(entry));
        self.keys.insert(forward, (slot, Side::Originator));
        self.keys.insert(backward, (slot, Side::Responder));
        self.queue(slot);
        Some(slot)
    }

    /// A packet of a remembered flow passes.
    pub fn pass(&mut self, now_ns: u64, slot: Slot, from: Side, segment: Option<&Segment>) {
        if let Some(entry) = self.get_mut(slot) {
            entry.observe(now_ns, from, segment);
            self.queue(slot);
        }
    }

    /// Forgets a flow.
    pub fn remove(&mut self, slot: Slot) -> Option<Entry<T>> {
        self.get(slot)?;
        let entry = self.entries[slot.index].1.take()?;
        self.keys.remove(&entry.forward);
        self.keys.remove(&entry.backward);
        self.free.push(slot.index);
        // What is left in the heap of flows long gone must not pile up behind a limit of days.
        if self.due.len() > 2 * self.len() + 64 {
            self.requeue();
        }
        Some(entry)
    }

    /// Forgets one flow whose deadline has come, if there is one.
    pub fn expire(&mut self, now_ns: u64) -> Option<Entry<T>> {
        while let Some(&Reverse((due_ns, slot))) = self.due.peek() {
            if due_ns > now_ns {
                return None;
            }
            self.due.pop();
            // Else a place in the heap that an earlier one has replaced, or of a flow that is gone.
            if self.get(slot).is_some_and(|entry| entry.queued_ns == due_ns) {
                if self.deadline_ns(slot).is_some_and(|deadline_ns| deadline_ns <= now_ns) {
                    return self.remove(slot);
                }
                if let Some(entry) = self.get_mut(slot) {
                    entry.queued_ns = u64::MAX;
                }
                self.queue(slot);
            }
        }
        None
    }

    /// No flow is forgotten before this time (but some may only be looked at then). `None` where there is none.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((due_ns, _))| *due_ns)
    }

    /// Forgets the flows of which this holds, in the order of their places.
    pub fn remove_where(&mut self, mut which: impl FnMut(&Entry<T>) -> bool) -> Vec<Entry<T>> {
        let all = self.entries.iter().enumerate();
        let slots: Vec<_> = all
            .filter(|(_, (_, entry))| entry.as_ref().is_some_and(&mut which))
            .map(|(index, &(generation, _))| Slot { index, generation })
            .collect();
        slots.into_iter().filter_map(|slot| self.remove(slot)).collect()
    }

    /// The idle limit of established flows, old and new, becomes this, also for those that had one of their own.
    pub fn set_established_ns(&mut self, established_ns: u64) {
        self.limits.established_ns = established_ns;
        for entry in self.entries.iter_mut().filter_map(|(_, entry)| entry.as_mut()) {
            entry.established_ns = None;
        }
        self.requeue();
    }

    /// When a flow will be forgotten if nothing comes.
    pub fn deadline_ns(&self, slot: Slot) -> Option<u64> {
        let entry = self.get(slot)?;
        Some(self.limits.deadline_ns(entry.state(), entry.established_ns, entry.heard_ns))
    }

    /// Sees to it that the heap holds a time for the flow that is not after its deadline.
    fn queue(&mut self, slot: Slot) {
        let Some(deadline_ns) = self.deadline_ns(slot) else { return };
        if let Some(entry) = self.get_mut(slot)
            && deadline_ns < entry.queued_ns
        {
            entry.queued_ns = deadline_ns;
            self.due.push(Reverse((deadline_ns, slot)));
        }
    }

    fn requeue(&mut self) {
        self.due.clear();
        for index in 0..self.entries.len() {
            if let (generation, Some(entry)) = &mut self.entries[index] {
                entry.queued_ns = u64::MAX;
                let slot = Slot { index, generation: *generation };
                self.queue(slot);
            }
        }
    }
}
