//! What a lane sends, and when: its schedule, the sizes of a sweep, the silences of a plan, the warm-up.

use crate::gaps::GapPlan;
use crate::interleave::Interleave;
use crate::probe::settings::Settings;
use crate::sample::Flags;
use crate::schedule::{Pace, Schedule, Skipped};

/// See the module. It outlives the connections of its lane. What few runs have lies apart: of ten thousand lanes, each byte
/// counts in the processor's cache.
#[derive(Debug)]
pub(super) struct Agenda {
    /// None: it has not begun.
    schedule: Option<Schedule>,
    /// The sizes of a sweep in their order.
    sizes: Option<Box<Interleave>>,
    /// When the connection is silent for how long, where it is to be.
    gaps: Option<Box<GapPlan>>,
    warm_up_left: u64,
    /// Samples that fell due by a schedule that was stopped.
    due_before: u64,
}

impl Agenda {
    pub(super) fn new(settings: &Settings, seed: u64) -> Self {
        let (sizes, gaps_ns) = (&settings.sizes, &settings.idle_gaps_ns);
        Self {
            schedule: None,
            sizes: (!sizes.is_empty()).then(|| Box::new(Interleave::new(sizes, seed))),
            gaps: (!gaps_ns.is_empty()).then(|| Box::new(GapPlan::new(gaps_ns, seed))),
            warm_up_left: settings.warm_up,
            due_before: 0,
        }
    }

    pub(super) fn begin(&mut self, schedule: Schedule) {
        self.schedule = Some(schedule);
    }

    pub(super) fn has_begun(&self) -> bool {
        self.schedule.is_some()
    }

    /// Whether it has begun and has nothing more to send.
    pub(super) fn is_over(&self) -> bool {
        self.schedule.as_ref().is_some_and(Schedule::is_over)
    }

    /// Samples that have fallen due so far.
    pub(super) fn due(&self) -> u64 {
        self.due_before + self.schedule.as_ref().map_or(0, Schedule::due)
    }

    /// When the next sample is due; `None`: not before an echo comes, or never.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.schedule.as_ref().and_then(Schedule::next_due_ns)
    }

    /// Bytes of the next sample, where they are not always the same.
    pub(super) fn size(&self) -> Option<u32> {
        self.sizes.as_ref().and_then(|sizes| sizes.current())
    }

    /// Whether each sample is like the one before and follows it at once.
    pub(super) fn is_uniform(&self) -> bool {
        self.sizes.is_none() && self.gaps.is_none()
    }

    /// A sample was sent: when it was due, and whether it is warm-up. `None`: none was due.
    pub(super) fn take(&mut self, sent_ns: u64) -> Option<(u64, Flags)> {
        let due_ns = self.schedule.as_mut()?.take(sent_ns)?;
        if let Some(sizes) = &mut self.sizes {
            sizes.advance();
        }
        // What follows a handshake follows no silence of the plan.
        let warm_up = self.warm_up_left > 0 || self.gaps.as_ref().is_some_and(|gaps| gaps.is_opening());
        self.warm_up_left = self.warm_up_left.saturating_sub(1);
        Some((due_ns, if warm_up { Flags::WARM_UP } else { Flags::default() }))
    }

    /// A connection was opened: what fell due without one is given up.
    pub(super) fn opened(&mut self, now: u64) -> Option<Skipped> {
        if let Some(gaps) = &mut self.gaps {
            gaps.opened();
        }
        self.give_up_dues(now)
    }

    /// The last byte of a ping-pong's echo is about to come: the next sample is due now.
    pub(super) fn echo_arrives(&mut self, now: u64) {
        if let Some(schedule) = &mut self.schedule {
            schedule.resolved(now);
        }
    }

    /// The echo that a ping-pong waits for has come, or will not: the next sample is due after the silence of the plan.
    pub(super) fn echo_is_over(&mut self, now: u64) {
        let silence_ns = self.gaps.as_mut().map_or(0, |gaps| gaps.after_echo());
        self.echo_arrives(now + silence_ns);
    }

    /// Gives up dues that are too old to be sent.
    pub(super) fn skip_overdue(&mut self, now: u64) -> Option<Skipped> {
        self.schedule.as_mut().and_then(|schedule| schedule.skip_overdue(now))
    }

    /// Gives up everything that is due.
    pub(super) fn give_up_dues(&mut self, now: u64) -> Option<Skipped> {
        self.schedule.as_mut().and_then(|schedule| schedule.skip_unconnected(now))
    }

    /// Nothing more is due.
    pub(super) fn stop(&mut self, pace: Pace, now: u64) {
        self.due_before = self.due();
        self.schedule = Some(Schedule::new(pace, now, Some(0), None));
    }
}
