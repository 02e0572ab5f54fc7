//! One connection whose TCP has a congestion window, as Reno has it (RFC 5681): what finds no room in it waits, joined into one
//! segment, for the next acknowledgement. Its kernel counts segments.

use super::{MS, Path, S, Step, World};
use fathom_core::limits::{Seen, Tally};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The window of a connection that begins, or that was idle (RFC 6928).
const FIRST: f64 = 10.0;

struct Segment {
    /// When its packets were due.
    due_ns: Vec<u64>,
    /// When its echo came; 0: not yet.
    came_ns: u64,
}

struct Tcp<'a> {
    world: &'a World,
    path: &'a mut Path,
    tally: Tally,
    step: Step,
    began_ns: u64,
    window: f64,
    threshold: f64,
    cut_ns: Option<u64>,
    segments: Vec<Segment>,
    /// What is on its way: when it is acknowledged, or sent again for the how manieth time (0: it is acknowledged).
    flight: BinaryHeap<Reverse<(u64, usize, u32)>>,
    /// When the packets were due that wait for room.
    waiting_ns: Vec<u64>,
}

pub(super) fn play(world: &World, path: &mut Path, began_ns: u64, step: Step) -> Seen {
    let mut tcp = Tcp {
        world,
        path,
        tally: Tally::new(step),
        step,
        began_ns,
        window: FIRST,
        threshold: f64::INFINITY,
        cut_ns: None,
        segments: Vec::new(),
        flight: BinaryHeap::new(),
        waiting_ns: Vec::new(),
    };
    for packet in 0..step.due_before(step.lasts_ns) {
        let due_ns = step.due_ns(packet);
        tcp.until(due_ns);
        tcp.tally.sent(due_ns, due_ns);
        tcp.waiting_ns.push(due_ns);
        tcp.send(due_ns);
    }
    tcp.until(u64::MAX);
    assert!(tcp.waiting_ns.is_empty() && tcp.flight.is_empty());
    tcp.told()
}

impl Tcp<'_> {
    /// What happens up to this moment.
    fn until(&mut self, now_ns: u64) {
        while let Some(Reverse((at_ns, segment, again))) = self.flight.peek().copied()
            && at_ns <= now_ns
        {
            self.flight.pop();
            if again > 0 {
                if self.cut_ns.is_none_or(|cut_ns| at_ns > cut_ns + self.world.rtt_ns) {
                    self.threshold = (self.window / 2.0).max(2.0);
                    (self.window, self.cut_ns) = (self.threshold, Some(at_ns));
                }
                self.transmit(at_ns, segment, again);
                continue;
            }
            // A window that is not filled does not grow.
            if (self.flight.len() + 1) as f64 * 2.0 >= self.window {
                self.window += if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
            }
            self.send(at_ns);
        }
    }

    /// What waits leaves as one segment, if there is room.
    fn send(&mut self, now_ns: u64) {
        if self.waiting_ns.is_empty() || self.flight.len() as f64 >= self.window.floor() {
            return;
        }
        let due_ns = std::mem::take(&mut self.waiting_ns);
        self.segments.push(Segment { due_ns, came_ns: 0 });
        self.transmit(now_ns, self.segments.len() - 1, 0);
    }

    /// What is lost is sent again after a round trip and a little, and then later and later.
    fn transmit(&mut self, at_ns: u64, segment: usize, again: u32) {
        let counted_ns = at_ns.min(self.step.lasts_ns - 1);
        self.tally.segments(counted_ns, 1);
        self.tally.sent_again(counted_ns, u64::from(again > 0));
        if let Some(through_ns) = self.path.passes(self.world, self.began_ns + at_ns) {
            let came_ns = through_ns - self.began_ns + self.world.rtt_ns;
            self.segments[segment].came_ns = came_ns;
            self.flight.push(Reverse((came_ns, segment, 0)));
        } else {
            let waits_ns = (self.world.rtt_ns + 5 * MS) << again.min(6);
            self.flight.push(Reverse((at_ns + waits_ns, segment, again + 1)));
        }
    }

    /// Bytes come in order.
    fn told(mut self) -> Seen {
        let mut in_order_ns = 0;
        for segment in &self.segments {
            in_order_ns = segment.came_ns.max(in_order_ns);
            for &due_ns in segment.due_ns.iter().filter(|_| in_order_ns < self.step.lasts_ns + S) {
                self.tally.answered(due_ns, in_order_ns - due_ns);
            }
        }
        self.tally.seen()
    }
}
