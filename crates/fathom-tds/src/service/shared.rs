//! What all sessions share.

use super::{Counts, Notice};
use crate::machine::Seen;
use rustls::ServerConfig;
use std::collections::HashMap;
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
    /// What sessions do, and how long they were held up, by their numbers.
    seen: Mutex<HashMap<u32, Seen>>,
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
            seen: Mutex::default(),
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

    /// A session does this now, and was held up for so long until now; `None`: it is over.
    pub(super) fn does(&self, number: u32, seen: Option<Seen>) {
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match seen {
            Some(seen) => all.insert(number, seen),
            None => all.remove(&number),
        };
    }

    /// What the session of this number does, and how long it was held up.
    pub(super) fn seen(&self, number: u32) -> Option<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(&number).copied()
    }

    /// Whether sessions are to end.
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
