//! A request to end a run, shared by its threads.

use fathom_os::clock::mono_ns;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// When the run is over, a round trip that is under way has so long to come to its end.
pub(crate) const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// Asks a run to end.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    times: AtomicU32,
    /// From when on nothing that is under way is waited for, on the monotonic clock; 0: the run goes on.
    left_ns: AtomicU64,
}

impl Stop {
    /// Once: the query under way is cancelled. Twice: nothing is waited for.
    pub fn ask(&self) {
        self.0.times.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn times(&self) -> u32 {
        self.0.times.load(Ordering::Relaxed)
    }

    /// What measures beside is to begin nothing more.
    pub(crate) fn is_over(&self) -> bool {
        self.0.left_ns.load(Ordering::Relaxed) != 0
    }

    /// Nor is it to wait for what is under way.
    pub(crate) fn is_left(&self) -> bool {
        let left_ns = self.0.left_ns.load(Ordering::Relaxed);
        self.times() > 1 || (left_ns != 0 && mono_ns() >= left_ns)
    }

    pub(crate) fn over(&self) {
        let left_ns = mono_ns() + LEAVE_WITHIN.as_nanos() as u64;
        // Where it was left already, it stays so.
        _ = self.0.left_ns.compare_exchange(0, left_ns, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The same at once: the server, or the path, does not answer.
    pub(crate) fn leave(&self) {
        self.0.left_ns.store(1, Ordering::Relaxed);
    }
}
