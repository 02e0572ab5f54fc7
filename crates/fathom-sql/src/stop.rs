//! A request to end a run, shared by its threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Asks a run to end.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<(AtomicU32, AtomicBool)>);

impl Stop {
    /// Once: the query under way is cancelled. Twice: its answer is not waited for.
    pub fn ask(&self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn times(&self) -> u32 {
        self.0.0.load(Ordering::Relaxed)
    }

    /// What measures beside is to end.
    pub(crate) fn is_over(&self) -> bool {
        self.0.1.load(Ordering::Relaxed)
    }

    pub(crate) fn over(&self) {
        self.0.1.store(true, Ordering::Relaxed);
    }
}
