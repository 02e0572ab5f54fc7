//! Times in which this process did not run: they are no fault of whoever is waited for.

use std::collections::VecDeque;
use std::time::Duration;

/// So many are remembered.
const KEPT: usize = 256;

/// Those that somebody learned of: in order, and apart.
#[derive(Debug, Default)]
pub(crate) struct Pauses(VecDeque<(u64, u64)>);

/// So long after then.
pub(crate) fn after(ns: u64, time: Duration) -> u64 {
    ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

impl Pauses {
    /// From then to then, after what was told before.
    pub(crate) fn add(&mut self, from_ns: u64, to_ns: u64) {
        let from_ns = self.0.back().map_or(from_ns, |&(_, to_ns)| to_ns.max(from_ns));
        if from_ns < to_ns {
            self.0.push_back((from_ns, to_ns));
        }
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }

    /// So long after then, as this process ran: what it did not run is added.
    pub(crate) fn run_after(&self, since_ns: u64, time: Duration) -> u64 {
        let stood = self.0.iter().map(|&(from_ns, to_ns)| to_ns.saturating_sub(from_ns.max(since_ns)));
        after(since_ns, time).saturating_add(stood.sum())
    }
}
