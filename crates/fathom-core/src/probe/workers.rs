//! What the probes of one run share when several threads each drive one: connections are numbered by the recording, and
//! what concerns the whole run is told once.

use super::openings::NextTurn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// No counter of a reflector has been reported.
const NONE: u64 = u64::MAX;

/// One probe's place among those of its run.
#[derive(Debug, Clone)]
pub struct Worker {
    index: usize,
    of: usize,
    /// The next connection's ordinal on each path.
    ordinals: Arc<[AtomicU32]>,
    /// Each path's pause counter that was reported last; [`NONE`]: none was.
    remote_pauses: Arc<[AtomicU64]>,
    /// When the next of them may connect.
    next_turn: NextTurn,
}

impl Worker {
    /// The workers of a run with so many paths.
    pub fn all(of: usize, paths: usize) -> Vec<Self> {
        let ordinals: Arc<[AtomicU32]> = (0..paths).map(|_| AtomicU32::new(0)).collect();
        let remote_pauses: Arc<[AtomicU64]> = (0..paths).map(|_| AtomicU64::new(NONE)).collect();
        let next_turn = NextTurn::default();
        let worker = |index| {
            let (ordinals, remote_pauses) = (Arc::clone(&ordinals), Arc::clone(&remote_pauses));
            Self { index, of, ordinals, remote_pauses, next_turn: Arc::clone(&next_turn) }
        };
        (0..of).map(worker).collect()
    }

    /// The only one of a run.
    pub fn alone(paths: usize) -> Self {
        Self::all(1, paths).remove(0)
    }

    /// Whether it is the one that tells what concerns the whole run: the clocks, this host's pauses, notes.
    pub fn speaks_for_the_run(&self) -> bool {
        self.index == 0
    }

    /// Whether it leads every connection of the run.
    pub(super) fn is_alone(&self) -> bool {
        self.of == 1
    }

    /// Its share of the lanes, dealt out in turn.
    pub(super) fn lanes(&self, all: usize) -> impl Iterator<Item = usize> {
        (self.index..all).step_by(self.of)
    }

    /// What bounds the attempts to connect of all of them.
    pub(super) fn next_turn(&self) -> NextTurn {
        Arc::clone(&self.next_turn)
    }

    /// An ordinal for a new connection of a path.
    pub(super) fn next_connection(&self, path: usize) -> u32 {
        self.ordinals[path].fetch_add(1, Ordering::Relaxed)
    }

    /// Whether a reflector's pause counter has not been reported; it is then.
    pub(super) fn is_new_pause(&self, path: usize, counter: u32) -> bool {
        self.remote_pauses[path].swap(u64::from(counter), Ordering::Relaxed) != u64::from(counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_split_evenly_between_workers() {
        for (all, of) in (0..40).flat_map(|all| (1..17).map(move |of| (all, of))) {
            let workers = Worker::all(of, 1);
            let shares: Vec<Vec<usize>> = workers.iter().map(|worker| worker.lanes(all).collect()).collect();
            let mut lanes: Vec<usize> = shares.iter().flatten().copied().collect();
            lanes.sort_unstable();
            assert_eq!(lanes, (0..all).collect::<Vec<_>>(), "{of} workers");
            let (least, most) = (shares.iter().map(Vec::len).min(), shares.iter().map(Vec::len).max());
            assert!(most.unwrap() - least.unwrap() <= 1, "{all} lanes, {of} workers");
        }
    }

    #[test]
    fn ordinals_and_pauses_are_the_runs() {
        let workers = Worker::all(2, 2);
        assert_eq!([&workers[0], &workers[1], &workers[0]].map(|w| w.next_connection(1)), [0, 1, 2]);
        assert_eq!(workers[1].next_connection(0), 0);
        let new = |at: usize, counter| workers[at].is_new_pause(0, counter);
        assert!(new(0, 7) && !new(1, 7) && new(1, 9));
        assert!(workers[0].speaks_for_the_run() && !workers[1].speaks_for_the_run());
    }
}
