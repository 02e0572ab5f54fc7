//! When the next idle connection is due to be closed, without looking at all of them.
//!
//! Activity only writes a time into the connection. A slot has at most one entry in the heap, and the entry is put
//! right when it comes up: so a busy connection costs one heap operation per timeout, not one per message, and the
//! heap never holds more entries than there are slots, however fast connections come and go.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Debug)]
pub(crate) struct IdleQueue {
    timeout_ns: u64,
    due: BinaryHeap<Reverse<(u64, u32)>>,
    /// Whether a slot has its entry.
    queued: Vec<bool>,
}

impl IdleQueue {
    pub(crate) fn new(timeout_ns: u64) -> Self {
        Self { timeout_ns, due: BinaryHeap::new(), queued: Vec::new() }
    }

    /// Watches the connection that now lives in `slot`, last active at `now_ns`.
    pub(crate) fn watch(&mut self, slot: u32, now_ns: u64) {
        let index = slot as usize;
        if self.queued.len() <= index {
            self.queued.resize(index + 1, false);
        }
        // An entry left by the slot's last connection is due earlier, and will be put right when it comes up.
        if !self.queued[index] {
            self.queued[index] = true;
            self.due.push(Reverse((now_ns.saturating_add(self.timeout_ns), slot)));
        }
    }

    /// When to look again; none: nothing is watched.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((due, _))| *due)
    }

    /// The next slot that has been idle for the timeout. `last_active` says when a slot's connection last moved a
    /// byte, none where the slot is empty.
    pub(crate) fn pop(&mut self, now_ns: u64, last_active: impl Fn(u32) -> Option<u64>) -> Option<u32> {
        while let Some(&Reverse((due, slot))) = self.due.peek() {
            if due > now_ns {
                return None;
            }
            self.due.pop();
            match last_active(slot).map(|active| active.saturating_add(self.timeout_ns)) {
                Some(due) if due > now_ns => self.due.push(Reverse((due, slot))),
                Some(_) => {
                    self.queued[slot as usize] = false;
                    return Some(slot);
                }
                None => self.queued[slot as usize] = false,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_idle_are_due_and_each_once() {
        let mut queue = IdleQueue::new(100);
        let mut active = [Some(0), Some(0), Some(5)];
        for slot in 0..3 {
            queue.watch(slot, active[slot as usize].expect("set above"));
        }
        assert_eq!(queue.next_due_ns(), Some(100));
        active[1] = Some(60);
        assert_eq!(queue.pop(99, |s| active[s as usize]), None);
        assert_eq!(queue.pop(104, |s| active[s as usize]), Some(0));
        active[0] = None;
        assert_eq!(queue.pop(104, |s| active[s as usize]), None);
        assert_eq!(queue.pop(105, |s| active[s as usize]), Some(2));
        active[2] = None;
        assert_eq!(queue.next_due_ns(), Some(160), "the active one was put back to its true time");
        assert_eq!(queue.pop(160, |s| active[s as usize]), Some(1));
        assert_eq!(queue.next_due_ns(), None);
    }

    #[test]
    fn reused_slot_has_one_entry() {
        let mut queue = IdleQueue::new(100);
        for now in 0..1_000 {
            queue.watch(0, now);
        }
        assert_eq!(queue.due.len(), 1);
        assert_eq!(queue.pop(1_000, |_| Some(999)), None, "the last connection is 1 ns old");
        assert_eq!(queue.pop(1_099, |_| Some(999)), Some(0));
    }
}
