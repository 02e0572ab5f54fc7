//! Connections that get no answer. An open loop begins one after another, and each may wait for minutes. They hang if
//! the first was begun longer ago than the stall threshold, no connection was made since, and it is more than one lost
//! SYN: a second attempt hangs too, or the kernel has retransmitted the first SYN in vain. Then the probe records an
//! event, looks the name up again, and tries the next address.

use super::{Dial, Dialer};
use crate::event::EventKind;
use crate::probe::context::Context;
use crate::probe::path::Path;
use crate::probe::policy::reconnect::PAUSED_NS;
use crate::probe::timers::Timer;

/// The kernel retransmits an unanswered SYN after this time (RFC 6298, section 2; Linux `TCP_TIMEOUT_INIT`).
const RESENT_NS: u64 = 1_000_000_000;
/// Minimum time before the event repeats...
const TOLD_AGAIN_NS: u64 = 1_000_000_000;
/// ...and share of the time that it has lasted, so that an outage of a day is no flood of events.
const TOLD_AGAIN_PART: u64 = 8;

/// State of the watch over hanging connections.
#[derive(Debug, Default)]
#[expect(clippy::struct_field_names, reason = "they are all times, whose unit is in their names")]
pub(super) struct Hanging {
    /// Time when a connection was last made. Attempts begun before it say nothing any more.
    answered_ns: u64,
    /// Start of the current address's turn.
    turned_ns: u64,
    /// Time of the last event about hanging connections. `None`: none hangs.
    told_ns: Option<u64>,
    look_ns: Option<u64>,
}

impl Hanging {
    /// Notes that a connection was made.
    pub(super) fn answered(&mut self, now: u64) {
        (self.answered_ns, self.told_ns) = (now, None);
    }

    /// True if the failure of a connection that was begun at this time is news: since then no connection was made, and
    /// no other address had its turn.
    pub(super) fn is_news(&self, sent_ns: u64) -> bool {
        sent_ns >= self.answered_ns.max(self.turned_ns)
    }
}

impl Dialer {
    /// Schedules a check at this time, unless an earlier one is due.
    pub(super) fn look_by(&mut self, at: u64, cx: &mut Context) {
        if self.hanging.look_ns.is_none_or(|armed| at < armed) {
            self.hanging.look_ns = Some(at);
            cx.timers.set(at, Timer::DialLook, self.path);
        }
    }

    /// Checks whether connections hang.
    pub(in crate::probe) fn look(&mut self, at: u64, now: u64, path: &mut Path, cx: &mut Context) {
        if self.hanging.look_ns != Some(at) {
            return;
        }
        self.hanging.look_ns = None;
        let threshold_ns = path.stall_threshold_ns(cx);
        let answered_ns = self.hanging.answered_ns;
        let waits = |dial: &&Dial| dial.done_ns.is_none() && dial.sent_ns >= answered_ns;
        if !self.dials.values().any(|dial| waits(&dial)) {
            return;
        }
        self.look_by(now.saturating_add(threshold_ns.min(RESENT_NS)), cx);
        if now.saturating_sub(at) >= PAUSED_NS {
            // This host did not run: read first what arrived meanwhile.
            return;
        }
        let waited_ns = |dial: &Dial| now.saturating_sub(dial.sent_ns);
        let hang = || self.dials.values().filter(waits).filter(|dial| waited_ns(dial) >= threshold_ns);
        // Attempts are kept in the order in which they began.
        let (Some(first), Some(latest)) = (hang().next(), hang().next_back()) else { return };
        let first_ns = waited_ns(first);
        if hang().nth(1).is_none() && first_ns < RESENT_NS + threshold_ns {
            return;
        }
        let again_ns = TOLD_AGAIN_NS.max(first_ns / TOLD_AGAIN_PART);
        if self.hanging.told_ns.is_none_or(|told| now.saturating_sub(told) >= again_ns) {
            let kind = EventKind::ConnectionUnanswered {
                target: path.target().to_owned(),
                remote: first.remote.to_string(),
                attempts: hang().count() as u64,
                waited_ns: first_ns,
                latest_waited_ns: waited_ns(latest),
            };
            cx.event(now, Some(self.path), None, kind);
            self.hanging.told_ns = Some(now);
        }
        let current = path.addresses.current();
        let turned_ns = self.hanging.turned_ns;
        let stuck = |dial: &Dial| !dial.is_trial && Some(dial.remote) == current && dial.sent_ns >= turned_ns;
        if let Some(remote) = current.filter(|_| hang().any(stuck)) {
            path.addresses.failed(remote);
            self.hanging.turned_ns = now;
        }
        if self.drain_ns.is_none() {
            path.refresh_addresses(now, cx);
        }
    }
}
