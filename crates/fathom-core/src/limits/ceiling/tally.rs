//! What became of the packets of one step.

use super::step::Step;

/// A step is looked at in windows of this length.
pub(super) const WINDOW_NS: u64 = 100_000_000;
/// A window in which this host was so late says nothing of the path.
const LATE_NS: u64 = 20_000_000;
/// Of a step's windows so many must say something.
const ENOUGH: f64 = 0.6;

/// One window in which this host kept its schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Segments that were sent again, and packets that the kernel did not take, beside packets that were due.
    pub loss: f64,
    /// Median time to the echo, in ns; of packets without one it is longer than any.
    pub delay_ns: u64,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// The windows in which this host kept its schedule.
    pub windows: Vec<Window>,
    /// Whether they are enough.
    pub kept: bool,
    /// Packets that were due, those that were sent, those that were lost, and those that were answered.
    pub due: u64,
    /// See `due`.
    pub sent: u64,
    /// See `due`: segments that were sent again, and packets that the kernel did not take.
    pub lost: u64,
    /// See `due`.
    pub answered: u64,
}

#[derive(Debug, Clone, Default)]
struct Count {
    sent: u64,
    refused: u64,
    again: u64,
    late_ns: u64,
    delays_ns: Vec<u64>,
}

/// Counts a step's packets. Times are from its beginning, in ns.
#[derive(Debug, Clone)]
pub struct Tally {
    step: Step,
    counts: Vec<Count>,
}

impl Tally {
    /// Of a step that begins.
    pub fn new(step: Step) -> Self {
        let windows = step.lasts_ns.div_ceil(WINDOW_NS) as usize;
        Self { step, counts: vec![Count::default(); windows] }
    }

    fn at(&mut self, ns: u64) -> &mut Count {
        let last = self.counts.len() - 1;
        &mut self.counts[((ns / WINDOW_NS) as usize).min(last)]
    }

    /// A packet that was due then was sent then.
    pub fn sent(&mut self, due_ns: u64, sent_ns: u64) {
        let count = self.at(due_ns);
        count.sent += 1;
        count.late_ns = count.late_ns.max(sent_ns - due_ns);
    }

    /// A packet that was due then could not be sent, because the kernel had no room: what was sent before is not taken.
    pub fn refused(&mut self, due_ns: u64) {
        self.at(due_ns).refused += 1;
    }

    /// The packet that was due then was answered after so long.
    pub fn answered(&mut self, due_ns: u64, delay_ns: u64) {
        self.at(due_ns).delays_ns.push(delay_ns);
    }

    /// So many segments had to be sent again, by then.
    pub fn sent_again(&mut self, at_ns: u64, segments: u64) {
        self.at(at_ns).again += segments;
    }

    /// What became of the step, once no more is waited for.
    pub fn seen(&self) -> Seen {
        let due_in = |at: usize| {
            let before = |ns: u64| self.step.due_before(ns.min(self.step.lasts_ns));
            before((at as u64 + 1) * WINDOW_NS) - before(at as u64 * WINDOW_NS)
        };
        let mut windows = Vec::new();
        let mut seen = Seen { windows: Vec::new(), kept: false, due: 0, sent: 0, lost: 0, answered: 0 };
        for (at, count) in self.counts.iter().enumerate() {
            let due = due_in(at);
            seen.due += due;
            seen.sent += count.sent;
            seen.lost += count.again + count.refused;
            seen.answered += count.delays_ns.len() as u64;
            let kept = count.sent + count.refused == due && count.late_ns <= LATE_NS;
            if kept && due > 0 {
                let loss = (count.again + count.refused) as f64 / due as f64;
                windows.push(Window { loss, delay_ns: median(&count.delays_ns, due as usize) });
            }
        }
        seen.kept = windows.len() as f64 >= ENOUGH * self.counts.len() as f64;
        seen.windows = windows;
        seen
    }
}

/// The median of so many, of which those that are not there are longer than any.
fn median(delays_ns: &[u64], of: usize) -> u64 {
    let mut sorted = delays_ns.to_vec();
    sorted.sort_unstable();
    sorted.get(of / 2).copied().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// 100 packets a second for 2 s; one is due every 10 ms.
    fn tally(late: impl Fn(u64) -> Option<u64>) -> Seen {
        let step = Step { rate_per_s: 100, lasts_ns: 2_000 * MS };
        let mut tally = Tally::new(step);
        for n in 0..step.due_before(step.lasts_ns) {
            let due = step.due_ns(n);
            match late(n) {
                Some(late) => tally.sent(due, due + late),
                None => tally.refused(due),
            }
            tally.answered(due, 3 * MS);
        }
        tally.seen()
    }

    #[test]
    fn what_was_due_is_what_was_sent_and_what_was_refused() {
        let seen = tally(|n| (n % 4 > 0).then_some(0));
        assert_eq!((seen.due, seen.sent, seen.lost, seen.answered), (200, 150, 50, 200));
        assert!(seen.kept && seen.windows.len() == 20 && seen.windows.iter().all(|w| w.delay_ns == 3 * MS));
    }

    #[test]
    fn windows_in_which_this_host_was_late_say_nothing() {
        let seen = tally(|n| Some(if (50..60).contains(&n) { 21 * MS } else { 0 }));
        assert!(seen.kept && seen.windows.len() == 19, "{seen:?}");
        assert!(!tally(|n| Some(if n > 100 { 21 * MS } else { 0 })).kept);
    }

    #[test]
    fn what_is_not_answered_is_later_than_all() {
        assert_eq!(median(&[5, 1, 3], 3), 3);
        assert_eq!(median(&[5, 1, 3], 7), u64::MAX);
        assert_eq!(median(&[5, 1, 3], 5), 5);
    }
}
