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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: i64 = 1_000_000_000;

    proptest! {
        /// Lengths follow the monotonic clock, even if the wall clock is set meanwhile.
        #[test]
        fn lengths_leave_out_steps_of_clock(
            steps in prop::collection::vec((1..1_000_i64, -100_000..100_000_i64), 0..6),
            from_s in 0..2_000_i64,
            lasts_s in 0..5_000_i64,
        ) {
            let (began, mut mono_s, mut set_s) = (1_800_000_000, 0, 0);
            let mut events = Vec::new();
            let mut set_at = Vec::new();
            for (after_s, step_s) in steps {
                mono_s += after_s;
                set_s += step_s;
                set_at.push((mono_s, set_s));
                let at = Timestamp::from_second(began + mono_s + set_s).unwrap();
                let kind = EventKind::ClockStepped { step_ns: step_s * S };
                events.push(Event { at, mono_ns: (mono_s * S) as u64, connection: None, kind });
            }
            let wall = |mono_s: i64| {
                let set = set_at.iter().rev().find(|(at, _)| *at <= mono_s).map_or(0, |(_, set)| *set);
                Timestamp::from_second(began + mono_s + set).unwrap()
            };
            // Until after the last step, as the end of a run is.
            let to_s = (from_s + lasts_s).max(mono_s);
            let from = Moment { utc: wall(from_s), mono_ns: (from_s * S) as u64 };
            // An event at the moment of a step happens after it.
            prop_assume!(set_at.iter().all(|(at, _)| *at != from_s));
            prop_assert_eq!(elapsed_ns(&events, from, wall(to_s)) as i64, (to_s - from_s) * S);
        }
    }
}
