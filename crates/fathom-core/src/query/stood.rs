//! Times in which this process did not run at all: whoever waits for it then waits for nobody else.

use std::collections::VecDeque;

/// Linux's largest send buffer, unless somebody made it larger (`tcp_wmem`, tcp(7)): what a server had made without our taking it.
const SEND_BUFFER_BYTES: u64 = 4 << 20;
/// It may have made that so many times slower than the bytes of the rest of the query.
const SLOWER: u64 = 2;
/// Pauses of a query that are reckoned one by one; of further ones nothing is sure.
const KEPT: usize = 64;

/// Pauses that are still to be accounted for, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Stood(VecDeque<(u64, u64)>);

impl Stood {
    /// Adds what lies after everything that was added before, and after `now_ns`.
    pub(super) fn add(&mut self, from_ns: u64, to_ns: u64, now_ns: u64) {
        let from_ns = self.0.back().map_or(from_ns, |&(_, to_ns)| from_ns.max(to_ns)).max(now_ns);
        if from_ns < to_ns {
            self.0.push_back((from_ns, to_ns));
        }
    }

    /// The beginning of this time that lies in one pause, or in none: until when, and whether in one.
    pub(super) fn piece(&mut self, since_ns: u64, until_ns: u64) -> (u64, bool) {
        while self.0.pop_front_if(|&mut (_, to_ns)| to_ns <= since_ns).is_some() {}
        match self.0.front() {
            Some(&(from_ns, to_ns)) if from_ns <= since_ns => (to_ns.min(until_ns), true),
            Some(&(from_ns, _)) => (from_ns.min(until_ns), false),
            None => (until_ns, false),
        }
    }
}

/// Pauses in which the other end had no room to send to: for how long each, and the bytes that were read from its begin to the next wait.
#[derive(Debug, Clone, Default)]
pub(super) struct Shut {
    each: Vec<(u64, u64)>,
    further_ns: u64,
}

impl Shut {
    pub(super) fn add(&mut self, ns: u64, bytes: u64) {
        if self.each.len() < KEPT {
            self.each.push((ns, bytes));
        } else {
            self.further_ns += ns;
        }
    }

    /// How much of that the server, or the path, may have been at work all the same: at what this side found when it ran again, or
    /// what lay at the other end. By how fast the bytes of the query came in the rest of its time.
    pub(super) fn doubted_ns(&self, bytes: u64, rest_ns: u64) -> u64 {
        let made_ns = |of: u64| {
            let made =
                u128::from(of.saturating_add(SEND_BUFFER_BYTES)) * u128::from(rest_ns.saturating_mul(SLOWER));
            u64::try_from(made / u128::from(bytes.max(1))).unwrap_or(u64::MAX)
        };
        self.each
            .iter()
            .map(|&(ns, bytes)| ns.min(made_ns(bytes)))
            .sum::<u64>()
            .saturating_add(self.further_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_cut_at_pause_edges() {
        let mut stood = Stood::default();
        stood.add(5, 20, 10);
        // Told by another thread too, and of what was accounted for before.
        stood.add(15, 30, 10);
        stood.add(1, 8, 10);
        assert_eq!(stood.piece(10, 100), (20, true));
        assert_eq!(stood.piece(20, 25), (25, true));
        assert_eq!(stood.piece(25, 100), (30, true));
        assert_eq!(stood.piece(30, 100), (100, false));
        stood.add(150, 160, 100);
        assert_eq!((stood.piece(100, 120), stood.piece(120, 155)), ((120, false), (150, false)));
    }

    /// 100 MiB/s: of 2 s in which 6 MiB came, those and 4 more took 100 ms, or 200 by half as fast a server.
    #[test]
    fn work_possible_during_pause_is_doubted() {
        const S: u64 = 1_000_000_000;
        let mut shut = Shut::default();
        shut.add(2 * S, 6 << 20);
        assert_eq!(shut.doubted_ns(500 << 20, 5 * S), S / 5);
        // One that makes 1 MiB/s may have been at it all the time.
        assert_eq!(shut.doubted_ns(5 << 20, 5 * S), 2 * S);
        assert_eq!(shut.doubted_ns(0, 5 * S), 2 * S);
    }
}
