//! What all sessions share.

use super::{Counts, Notice};
use rustls::ServerConfig;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What all sessions share.
pub(super) struct Shared {
    pub(super) idle_timeout_ns: Option<u64>,
    pub(super) send_buffer: Option<usize>,
    pub(super) identity: Option<Arc<ServerConfig>>,
    pub(super) notify: Arc<dyn Fn(&Notice) + Send + Sync>,
    stop: AtomicBool,
    counts: Mutex<Counts>,
}

impl Shared {
    /// Nothing was served yet.
    pub(super) fn new(
        idle_timeout_ns: Option<u64>,
        send_buffer: Option<usize>,
        identity: Option<Arc<ServerConfig>>,
        notify: Arc<dyn Fn(&Notice) + Send + Sync>,
    ) -> Self {
        Self {
            idle_timeout_ns,
            send_buffer,
            identity,
            notify,
            stop: AtomicBool::new(false),
            counts: Mutex::default(),
        }
    }

    /// Sessions are to end.
    pub(super) fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// What was served so far.
    pub(super) fn counts(&self) -> Counts {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts something.
    pub(super) fn count(&self, add: impl FnOnce(&mut Counts)) {
        add(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether sessions are to end.
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
