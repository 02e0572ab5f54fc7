//! How a run is asked to end.

use fathom_os::reactor::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Asks a run to stop; the second time, at once.
#[derive(Debug, Clone)]
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
        self.wake();
    }

    /// Asks it to stop, unless somebody has asked already: may be called again and again.
    pub(super) fn ask_once(&self) {
        if self.asked.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.wake();
        }
    }

    fn wake(&self) {
        for waker in &*self.wakers {
            // A reactor lives as long as its thread; a failing wake means that it is over.
            let _ = waker.wake();
        }
    }

    /// Asks it to stop without waiting for what is still under way.
    pub(crate) fn ask_at_once(&self) {
        self.ask();
        self.ask();
    }

    pub(crate) fn times(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }
}
