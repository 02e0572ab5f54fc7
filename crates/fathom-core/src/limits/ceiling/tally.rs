//! What became of the packets of one step.

use super::step::Step;
use crate::event::{CeilingStepped, Delays, Judged, Window};

/// A step is looked at in windows of this length.
pub(super) const WINDOW_NS: u64 = 100_000_000;
/// A window in which this host was so late says nothing of the path.
const LATE_NS: u64 = 20_000_000;
/// Of a step's windows so many must say something.
const ENOUGH: f64 = 0.6;

/// A window in which this host kept its schedule, as it is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    /// Packets that were due in it.
    pub(super) due: u64,
    /// Segments that were sent again, and packets that the kernel did not take, beside packets that were due.
    pub(super) loss: f64,
    /// Median time to the echo, in ns; of packets without one it is longer than any.
    pub(super) delay_ns: u64,
    /// Of the packets that were written in it, those that TCP did not send as segments of their own; none where the kernel does not
    /// tell.
    pub(super) joined: f64,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// All of its windows.
    pub windows: Vec<Window>,
    /// Times to the echo. `None`: nothing was answered.
    pub delays: Option<Delays>,
}

impl Seen {
    /// What an event tells of it.
    pub(super) fn of(stepped: &CeilingStepped) -> Self {
        Self { windows: stepped.windows.clone(), delays: stepped.delays }
    }

    /// As an event tells it. It is not judged yet.
    pub(super) fn stepped(&self, step: Step) -> CeilingStepped {
        CeilingStepped {
            rate_per_s: step.rate_per_s,
            lasts_ns: step.lasts_ns,
            due: self.due(),
            sent: self.sent(),
            refused: self.refused(),
            answered: self.answered(),
            outstanding: self.sent().saturating_sub(self.answered()),
            again: self.again(),
            segments: self.segments(),
            delays: self.delays,
            windows: self.windows.clone(),
            judged: Judged::Good,
            worse: None,
            earlier: false,
        }
    }

    fn sum(&self, what: fn(&Window) -> u64) -> u64 {
        self.windows.iter().map(what).fold(0, u64::saturating_add)
    }

    /// Packets that were due: those that were sent, and those that were refused.
    pub fn due(&self) -> u64 {
        self.sum(|window| window.due)
    }

    /// Packets that were sent.
    pub fn sent(&self) -> u64 {
        self.sum(|window| window.sent)
    }

    /// Packets that the kernel did not take.
    pub fn refused(&self) -> u64 {
        self.sum(|window| window.refused)
    }

    /// Packets that were answered in time.
    pub fn answered(&self) -> u64 {
        self.sum(|window| window.answered)
    }

    /// Segments that were sent again.
    pub fn again(&self) -> u64 {
        self.sum(|window| window.again)
    }

    /// Segments with data, those that were sent again too. `None`: the kernel does not tell.
    pub(super) fn segments(&self) -> Option<u64> {
        let told = self.windows.iter().map(|window| window.segments);
        told.into_iter().try_fold(0_u64, |sum, segments| Some(sum.saturating_add(segments?)))
    }

    /// What is called lost: segments that were sent again, and packets that the kernel did not take.
    pub fn lost(&self) -> u64 {
        self.refused().saturating_add(self.again())
    }

    /// Whether this host kept its schedule, so that the step says something of the path.
    pub fn kept(&self) -> bool {
        self.measured().len() as f64 >= ENOUGH * self.windows.len() as f64
    }

    /// The windows in which this host kept its schedule.
    pub(super) fn measured(&self) -> Vec<Measured> {
        let kept = |window: &&Window| {
            window.due > 0
                && window.sent.saturating_add(window.refused) == window.due
                && window.late_ns <= LATE_NS
        };
        let measured = |window: &Window| Measured {
            due: window.due,
            loss: window.again.saturating_add(window.refused) as f64 / window.due as f64,
            delay_ns: window.delay_ns.unwrap_or(u64::MAX),
            joined: window.segments.map_or(0.0, |segments| {
                let own = segments.saturating_sub(window.again);
                window.sent.saturating_sub(own) as f64 / window.sent.max(1) as f64
            }),
        };
        self.windows.iter().filter(kept).map(measured).collect()
    }
}

#[derive(Debug, Clone, Default)]
struct Count {
    sent: u64,
    refused: u64,
    again: u64,
    segments: u64,
    late_ns: u64,
    delays_ns: Vec<u64>,
}

/// Counts a step's packets. Times are from its beginning, in ns.
#[derive(Debug, Clone)]
pub struct Tally {
    step: Step,
    counts: Vec<Count>,
    /// The kernel tells of segments.
    told: bool,
}

impl Tally {
    /// Of a step that begins.
    pub fn new(step: Step) -> Self {
        let windows = step.lasts_ns.div_ceil(WINDOW_NS) as usize;
        Self { step, counts: vec![Count::default(); windows], told: false }
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

    /// So many segments with data were sent by then, those that were sent again too.
    pub fn segments(&mut self, at_ns: u64, segments: u64) {
        self.told = true;
        self.at(at_ns).segments += segments;
    }

    /// What became of the step, once no more is waited for.
    pub fn seen(&self) -> Seen {
        let windows = self.counts.iter().zip(due_in_windows(self.step)).map(|(count, due)| Window {
            due,
            sent: count.sent,
            refused: count.refused,
            answered: count.delays_ns.len() as u64,
            again: count.again,
            segments: self.told.then_some(count.segments),
            late_ns: count.late_ns,
            delay_ns: median(&count.delays_ns, due as usize),
        });
        let mut delays_ns: Vec<u64> =
            self.counts.iter().flat_map(|count| &count.delays_ns).copied().collect();
        delays_ns.sort_unstable();
        // The smallest that so large a share does not exceed.
        let quantile =
            |share: usize| delays_ns.get((delays_ns.len() * share).div_ceil(100).saturating_sub(1));
        let delays = match (quantile(50), quantile(99), delays_ns.last()) {
            (Some(&p50_ns), Some(&p99_ns), Some(&max_ns)) => Some(Delays { p50_ns, p99_ns, max_ns }),
            _ => None,
        };
        Seen { windows: windows.collect(), delays }
    }
}

/// How many packets are due in each window of a step.
pub(super) fn due_in_windows(step: Step) -> impl Iterator<Item = u64> {
    let before = move |ns: u64| step.due_before(ns.min(step.lasts_ns));
    (0..step.lasts_ns.div_ceil(WINDOW_NS))
        .map(move |at| before((at + 1) * WINDOW_NS) - before(at * WINDOW_NS))
}

/// The median of so many, of which those that are not there are longer than any; `None`: it is one of those.
fn median(delays_ns: &[u64], of: usize) -> Option<u64> {
    let mut sorted = delays_ns.to_vec();
    sorted.sort_unstable();
    sorted.get(of / 2).copied()
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
                Some(late) => {
                    tally.sent(due, due + late);
                    tally.answered(due, (n % 100 + 1) * MS);
                }
                None => tally.refused(due),
            }
        }
        tally.seen()
    }

    #[test]
    fn due_equals_sent_plus_refused() {
        let seen = tally(|n| (n % 4 > 0).then_some(0));
        assert_eq!((seen.due(), seen.sent(), seen.refused(), seen.answered()), (200, 150, 50, 150));
        assert!(seen.kept() && seen.lost() == 50 && seen.windows.len() == 20);
        assert!(seen.windows.iter().all(|window| window.due == 10), "{seen:?}");
    }

    /// 1 to 100 ms, each twice.
    #[test]
    fn percentiles_are_nearest_rank() {
        let all = Delays { p50_ns: 50 * MS, p99_ns: 99 * MS, max_ns: 100 * MS };
        assert_eq!(tally(|_| Some(0)).delays, Some(all));
        assert_eq!(tally(|_| None).delays, None);
        let one = Delays { p50_ns: 8 * MS, p99_ns: 8 * MS, max_ns: 8 * MS };
        assert_eq!(tally(|n| (n == 7).then_some(0)).delays, Some(one));
    }

    #[test]
    fn windows_with_late_host_are_excluded() {
        let seen = tally(|n| Some(if (50..60).contains(&n) { 21 * MS } else { 0 }));
        assert!(seen.kept() && seen.measured().len() == 19, "{seen:?}");
        assert!(!tally(|n| Some(if n > 100 { 21 * MS } else { 0 })).kept());
    }

    #[test]
    fn what_is_not_answered_is_later_than_all() {
        assert_eq!(median(&[5, 1, 3], 3), Some(3));
        assert_eq!(median(&[5, 1, 3], 7), None);
        assert_eq!(median(&[5, 1, 3], 5), Some(5));
    }
}
