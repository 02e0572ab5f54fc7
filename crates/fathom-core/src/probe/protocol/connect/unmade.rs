//! Connections that were due and that this host could not begin: it had no port, no descriptor or no address for them.

use super::Dialer;
use crate::probe::context::Context;
use crate::schedule::Skipped;

/// Connections that are not recorded yet.
#[derive(Debug, Default)]
pub(super) struct Unmade {
    count: u64,
    first_due_ns: u64,
}

impl Unmade {
    /// Adds a connection that was due at this time.
    pub(super) fn add(&mut self, due_ns: u64) {
        if self.count == 0 {
            self.first_due_ns = due_ns;
        }
        self.count += 1;
    }
}

impl Dialer {
    /// Records them as not sent, so that each due sample has a row or a recorded reason.
    pub(super) fn tell_unmade(&mut self, now: u64, cx: &mut Context) {
        let Unmade { count, first_due_ns } = std::mem::take(&mut self.unmade);
        let behind_ns = now.saturating_sub(first_due_ns);
        let skipped = (count > 0).then_some(Skipped { count, behind_ns });
        cx.skipped(now, self.path, None, skipped, "local");
    }
}
