//! What every part of a probe uses: its settings, clocks, timers, and the outputs that wait to be polled.

use super::io::{LinkId, Output};
use super::openings::Openings;
use super::pauses::Pauses;
use super::protocol::Make;
use super::settings::{Request, Settings};
use super::timers::Timers;
use super::unwatched::unwatched;
use super::workers::Worker;
use crate::clock::ClockMap;
use crate::event::{Event, EventKind};
use crate::sample::{Flags, Sample};
use crate::schedule::Skipped;
use jiff::Timestamp;
use std::collections::VecDeque;

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunEnd {
    /// Why it could not even begin, or go on.
    pub fatal: Option<String>,
    /// Why targets were given up that could not be reached, where others could.
    pub given_up: Vec<String>,
    /// Samples that are connections: why the latest attempt that came to nothing did.
    pub refused: Option<String>,
    /// Reason of the latest attempt to connect that failed in this host, before anything was sent.
    pub local: Option<String>,
    /// A connection was lost and the settings forbade another.
    pub lost: bool,
}

impl RunEnd {
    /// Joins the end of another worker of the same run.
    pub fn add(&mut self, other: Self) {
        // Each may have another reason, and all may have the same.
        self.fatal = match (self.fatal.take(), other.fatal) {
            (Some(one), Some(another)) if one != another => Some(format!("{one}; {another}")),
            (one, another) => one.or(another),
        };
        self.given_up.extend(other.given_up);
        self.given_up.sort();
        self.given_up.dedup();
        self.refused = self.refused.take().or(other.refused);
        self.local = self.local.take().or(other.local);
        self.lost |= other.lost;
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) settings: Settings,
    /// The protocol that connections speak instead of the settings' request.
    pub(super) speak: Option<Make>,
    pub(super) worker: Worker,
    pub(super) clock: ClockMap,
    /// How far this host's wall clock may be from UTC, ns; `None`: nobody knows.
    pub(super) clock_error_ns: Option<u64>,
    pub(super) timers: Timers,
    pub(super) pauses: Pauses,
    pub(super) openings: Openings,
    /// What a sample sent now is, by the load.
    pub(super) load_flags: Flags,
    /// No more samples are begun.
    pub(super) stopping: bool,
    pub(super) end: RunEnd,
    outputs: VecDeque<Output>,
}

impl Context {
    pub(super) fn new(settings: Settings, speak: Option<Make>, worker: Worker, clock: ClockMap) -> Self {
        let openings = Openings::new(settings.connect_ceiling(), worker.next_turn());
        Self {
            settings,
            speak,
            worker,
            clock,
            clock_error_ns: None,
            timers: Timers::default(),
            pauses: Pauses::default(),
            openings,
            load_flags: Flags::default(),
            stopping: false,
            end: RunEnd::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Whether a reflector of ours may be asked. What it can say of connections whose messages carry no header, and so
    /// name none, is who it is.
    pub(super) fn asks_reflectors(&self) -> bool {
        self.speak.is_none() && self.settings.request == Request::Echo
    }

    #[inline]
    pub(super) fn poll(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front()?;
        tracing::trace!("{output:?}");
        Some(output)
    }

    pub(super) fn has_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }

    pub(super) fn emit(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn look(&mut self, link: LinkId) {
        self.emit(Output::Look { link });
    }

    pub(super) fn sample(&mut self, path: usize, sample: Sample) {
        self.emit(Output::Sample { path, sample });
    }

    pub(super) fn event(&mut self, now: u64, path: Option<usize>, connection: Option<u32>, kind: EventKind) {
        let at =
            Timestamp::from_nanosecond(i128::from(self.clock.utc_of(now))).unwrap_or(Timestamp::UNIX_EPOCH);
        let kind = if self.settings.watches_pauses { kind } else { unwatched(kind) };
        tracing::debug!(now, path, connection, "{kind:?}");
        let event = Box::new(Event { at, mono_ns: now, connection, kind });
        self.emit(Output::Event { path, event });
    }

    /// An event of the whole run, which one worker tells for all.
    pub(super) fn event_of_run(&mut self, now: u64, kind: EventKind) {
        if self.worker.speaks_for_the_run() {
            self.event(now, None, None, kind);
        }
    }

    pub(super) fn note(&mut self, now: u64, text: impl Into<String>) {
        self.event_of_run(now, EventKind::Note { text: text.into() });
    }

    /// Dues were given up.
    pub(super) fn skipped(
        &mut self,
        now: u64,
        path: usize,
        connection: Option<u32>,
        skipped: Option<Skipped>,
        reason: &str,
    ) -> bool {
        let Some(Skipped { count: skipped, behind_ns }) = skipped else { return false };
        let kind = EventKind::ScheduleOverrun { skipped, behind_ns, reason: reason.to_owned() };
        self.event(now, Some(path), connection, kind);
        true
    }
}
