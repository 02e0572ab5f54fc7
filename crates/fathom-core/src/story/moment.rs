//! When something happened.

use crate::event::Event;
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
