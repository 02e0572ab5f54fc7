//! The laws of a search for the rate ceiling: its steps add up, and its result follows from them.

use super::Findings;
use crate::EVENTS;
use fathom_core::event::{Event, EventKind, tells_lost_events};
use fathom_core::limits::CeilingRecorded;

/// Every event is given to it, and then it is asked.
#[derive(Debug, Default)]
pub(super) struct Ceiling {
    recorded: CeilingRecorded,
    /// An error stopped the recording, or took events.
    lost: bool,
}

impl Ceiling {
    pub(super) fn event(&mut self, event: &Event) {
        self.recorded.event(event);
        self.lost |= match &event.kind {
            EventKind::RecordingEnded { error, .. } => error.is_some(),
            EventKind::Note { text } => tells_lost_events(text),
            _ => false,
        };
    }

    /// `readable`: all events could be read.
    pub(super) fn check(&self, readable: bool, findings: &mut Findings) {
        for (law, case) in self.recorded.contradictions(readable && !self.lost) {
            findings.add(EVENTS, law, || case);
        }
    }
}
