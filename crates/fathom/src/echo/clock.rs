//! The reflector's clocks: stamps, and the time it could not run.

use fathom_core::clock::{Anchor, ClockMap, Observation};
use fathom_os::clock::{anchor, mono_ns};
use fathom_wire::ConnectionView;

/// How often the wall clock is compared with the monotonic one while there are peers.
const OBSERVE_EVERY_NS: u64 = 1_000_000_000;
/// How often the server wakes while it has peers, only to learn whether it could. A pause shorter than this may go
/// unseen and a longer one is told short by up to as much: `pause_us` is a lower bound.
pub(super) const HEARTBEAT_NS: u64 = 50_000_000;
/// Waking later than this is a pause; anything shorter is the ordinary noise of a scheduler, and of a timer that
/// counts milliseconds.
const PAUSE_FLOOR_NS: u64 = 10_000_000;

/// Clocks, read by one thread.
#[derive(Debug)]
pub(super) struct Clock {
    map: ClockMap,
    /// A copy of the anchor in force, beside the pause count, since every message reads both.
    anchor: Anchor,
    observed_ns: u64,
    paused_ns: u64,
}

impl Clock {
    pub(super) fn new() -> Self {
        let anchor = anchor();
        Self { map: ClockMap::new(anchor), anchor, observed_ns: anchor.mono_ns, paused_ns: 0 }
    }

    /// What a stamp says of bytes that were read at `received_mono_ns` and are written now. Both times come from
    /// the monotonic clock through one anchor, so their difference is a true interval whatever the wall clock does.
    #[inline]
    pub(super) fn view(&self, received_mono_ns: u64) -> ConnectionView {
        ConnectionView {
            received_ns: self.anchor.utc_of(received_mono_ns),
            sent_ns: self.anchor.utc_of(mono_ns()),
            pause_us: (self.paused_ns / 1_000) as u32,
        }
    }

    /// Takes note that a wait that should have ended by `due_ns` ended at `now_ns`.
    pub(super) fn woke(&mut self, due_ns: Option<u64>, now_ns: u64) {
        let late_ns = due_ns.map_or(0, |due| now_ns.saturating_sub(due));
        if late_ns > PAUSE_FLOOR_NS {
            self.paused_ns += late_ns;
        }
    }

    /// Compares the clocks when it is time; says by how many ns the wall clock was set, if it was.
    pub(super) fn observe(&mut self, now_ns: u64) -> Option<i64> {
        if now_ns.saturating_sub(self.observed_ns) < OBSERVE_EVERY_NS {
            return None;
        }
        self.observed_ns = now_ns;
        let seen = self.map.observe(anchor());
        self.anchor = self.map.anchor();
        match seen {
            Observation::Stepped(step_ns) => Some(step_ns),
            Observation::Steady | Observation::Anchored => None,
        }
    }

    /// Time this process could not run while it had peers, in ns: a lower bound.
    pub(super) fn paused_ns(&self) -> u64 {
        self.paused_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waking_late_is_a_pause() {
        let mut clock = Clock::new();
        clock.woke(None, 1_000_000_000);
        clock.woke(Some(1_000_000_000), 900_000_000);
        clock.woke(Some(1_000_000_000), 1_004_000_000);
        assert_eq!(clock.paused_ns(), 0);
        clock.woke(Some(1_000_000_000), 6_000_000_000);
        assert_eq!(clock.paused_ns(), 5_000_000_000);
        assert_eq!(clock.view(mono_ns()).pause_us, 5_000_000);
    }

    #[test]
    fn a_message_never_leaves_before_it_came() {
        let clock = Clock::new();
        for _ in 0..1_000 {
            let view = clock.view(mono_ns());
            assert!(view.sent_ns >= view.received_ns);
        }
    }
}
