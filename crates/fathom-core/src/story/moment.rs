//! When something happened.

use crate::event::{Event, EventKind};
use jiff::{SignedDuration, Timestamp};

/// One moment by both clocks: intervals are taken from the monotonic one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) utc: Timestamp,
    pub(super) mono_ns: u64,
}

impl Moment {
    pub(super) fn of(event: &Event) -> Self {
        Self { utc: event.at, mono_ns: event.mono_ns }
    }

    /// The moment so long before.
    pub(super) fn earlier(self, by_ns: u64) -> Self {
        let by = SignedDuration::from_nanos(i64::try_from(by_ns).unwrap_or(i64::MAX));
        let utc = self.utc.checked_sub(by).unwrap_or(self.utc);
        Self { utc, mono_ns: self.mono_ns.saturating_sub(by_ns) }
    }

    pub(super) fn utc_ns(self) -> i64 {
        self.utc.as_nanosecond() as i64
    }
}

/// Time between a moment and a later reading of the wall clock, in ns, without the steps of that clock in between.
pub(super) fn elapsed_ns(events: &[Event], from: Moment, to: Timestamp) -> u64 {
    let step_ns = |event: &Event| match event.kind {
        EventKind::ClockStepped { step_ns } if event.mono_ns >= from.mono_ns => i128::from(step_ns),
        _ => 0,
    };
    let stepped_ns: i128 = events.iter().map(step_ns).sum();
    (to.duration_since(from.utc).as_nanos() - stepped_ns).try_into().unwrap_or(0)
}
