//! The grid on which the samples of all lanes lie.

use crate::probe::context::Context;
use crate::schedule::{Pace, Schedule, phase_ns};

/// It begins with the first schedule: the phases of all lanes count from there.
#[derive(Debug, Default)]
pub(super) struct Grid {
    origin_ns: Option<u64>,
}

impl Grid {
    pub(super) fn has_begun(&self) -> bool {
        self.origin_ns.is_some()
    }

    /// The schedule of lane `i` of so many, on a path that begins now.
    pub(super) fn schedule(&mut self, i: usize, lanes: usize, now: u64, cx: &Context) -> Schedule {
        let settings = &cx.settings;
        let origin = *self.origin_ns.get_or_insert(now);
        let first = origin + phase_ns(settings.pace, i, lanes);
        let first = match settings.pace {
            Pace::Every(every) => first + (now.saturating_sub(first)).div_ceil(every) * every,
            Pace::PingPong => now,
        };
        let until = settings.duration_ns.map(|d| now.saturating_add(d));
        Schedule::new(settings.pace, first, settings.count, until)
    }
}
