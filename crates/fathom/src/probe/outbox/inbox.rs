//! The recording thread's end of a ring.

use super::Message;
use rtrb::Consumer;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A ring, and whether more waits behind it.
pub(in crate::probe) struct Inbox {
    ring: Consumer<Message>,
    queued: Arc<AtomicBool>,
}

impl Inbox {
    pub(super) fn new(ring: Consumer<Message>, queued: Arc<AtomicBool>) -> Self {
        Self { ring, queued }
    }

    /// Whether messages wait behind the ring. Where none did before the ring was emptied, everything that had been told was taken.
    pub(in crate::probe) fn is_behind(&self) -> bool {
        self.queued.load(Ordering::Acquire)
    }
}

impl Deref for Inbox {
    type Target = Consumer<Message>;

    fn deref(&self) -> &Self::Target {
        &self.ring
    }
}

impl DerefMut for Inbox {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.ring
    }
}
