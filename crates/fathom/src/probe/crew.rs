//! The probing threads of one run, and how they are asked to end. Each has lanes of its own, with a reactor, timers and
//! a ring to the recording thread of its own, and knows nothing of the others but what is here.

use fathom_os::reactor::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// No counter of a reflector has been reported.
const NONE: u64 = u64::MAX;

/// One of the threads, and what it shares with the others.
#[derive(Debug, Clone)]
pub(super) struct Member {
    index: usize,
    of: usize,
    /// The next connection's ordinal on each path: they are of the recording, not of a thread.
    ordinals: Arc<[AtomicU32]>,
    /// Each path's pause counter that was reported last; [`NONE`]: none was.
    remote_pauses: Arc<[AtomicU64]>,
}

impl Member {
    /// The threads of a run with so many paths.
    pub(super) fn crew(of: usize, paths: usize) -> Vec<Self> {
        let ordinals: Arc<[AtomicU32]> = (0..paths).map(|_| AtomicU32::new(0)).collect();
        let remote_pauses: Arc<[AtomicU64]> = (0..paths).map(|_| AtomicU64::new(NONE)).collect();
        let member = |index| {
            let (ordinals, remote_pauses) = (Arc::clone(&ordinals), Arc::clone(&remote_pauses));
            Self { index, of, ordinals, remote_pauses }
        };
        (0..of).map(member).collect()
    }

    /// Whether it is the one that tells what concerns the whole run: the clocks, this host's pauses, notes.
    pub(super) fn speaks_for_the_run(&self) -> bool {
        self.index == 0
    }

    /// Its share of the lanes, dealt out in turn.
    pub(super) fn lanes(&self, all: usize) -> impl Iterator<Item = usize> {
        (self.index..all).step_by(self.of)
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

/// Asks a run to stop; the second time, at once.
#[derive(Clone)]
pub(crate) struct Stop {
    asked: Arc<AtomicU32>,
    wakers: Arc<[Waker]>,
}

impl Stop {
    /// The wakers are those of the probing threads.
    pub(crate) fn new(wakers: Vec<Waker>) -> Self {
        Self { asked: Arc::default(), wakers: wakers.into() }
    }

    pub(crate) fn ask(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
        for waker in &*self.wakers {
            // A reactor lives as long as its thread; a failing wake means that it is over.
            let _ = waker.wake();
        }
    }

    pub(super) fn times(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }
}

/// How a run ended.
#[derive(Debug, Default)]
pub(super) struct RunEnd {
    /// Why it could not even begin, or go on.
    pub(super) fatal: Option<String>,
    /// `--connect`: why the latest attempt that came to nothing did.
    pub(super) refused: Option<String>,
    /// A connection was lost and `--no-reconnect` forbade another.
    pub(super) lost: bool,
}

impl RunEnd {
    /// Joins the end of another probing thread of the same run.
    pub(super) fn add(&mut self, other: Self) {
        self.fatal = self.fatal.take().or(other.fatal);
        self.refused = self.refused.take().or(other.refused);
        self.lost |= other.lost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_is_of_one_thread_and_shares_differ_by_one_at_most() {
        for (all, of) in (0..40).flat_map(|all| (1..17).map(move |of| (all, of))) {
            let crew = Member::crew(of, 1);
            let shares: Vec<Vec<usize>> = crew.iter().map(|member| member.lanes(all).collect()).collect();
            let mut lanes: Vec<usize> = shares.iter().flatten().copied().collect();
            lanes.sort_unstable();
            assert_eq!(lanes, (0..all).collect::<Vec<_>>(), "{of} threads");
            let (least, most) = (shares.iter().map(Vec::len).min(), shares.iter().map(Vec::len).max());
            assert!(most.unwrap() - least.unwrap() <= 1, "{all} lanes, {of} threads");
        }
    }

    #[test]
    fn ordinals_and_pauses_are_the_runs() {
        let crew = Member::crew(2, 2);
        assert_eq!([&crew[0], &crew[1], &crew[0]].map(|member| member.next_connection(1)), [0, 1, 2]);
        assert_eq!(crew[1].next_connection(0), 0);
        assert!(crew[0].is_new_pause(0, 7) && !crew[1].is_new_pause(0, 7) && crew[1].is_new_pause(0, 9));
        assert!(crew[0].speaks_for_the_run() && !crew[1].speaks_for_the_run());
    }
}
