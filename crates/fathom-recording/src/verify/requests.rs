//! The law of an application's requests: each that was due has one of five ends, or is told as not known.

use super::{Findings, Seen};
use crate::EVENTS;
use crate::recording::Recording;
use fathom_core::event::{CLIENT_MODE, Event, EventKind, Interrupted, Outcome};
use fathom_core::policy::Tally;
use fathom_core::sample::Sample;

const ENDS: &str = "each request that was due has one end, or is counted as not known";
const ENDS_ONCE: &str = "a request ends once";

/// Every event and every row is given to it, and then it is asked.
#[derive(Debug)]
pub(super) struct Requests {
    tally: Tally,
    ended: Seen,
    /// Requests that were told to have ended twice, the first of them.
    twice: Option<u64>,
    /// By the client's own last word.
    due: Option<u64>,
    interrupted: Option<Interrupted>,
    /// Rows that are missing, and told as that.
    lost: u64,
    /// An error stopped the recording, or took events.
    stopped: bool,
}

impl Requests {
    /// `None`: it is a recording of something else.
    pub(super) fn of(recording: &Recording) -> Option<Self> {
        (recording.manifest().probe["mode"] == CLIENT_MODE).then(|| Self {
            tally: Tally::new(&recording.manifest().reflector.address),
            ended: Seen::default(),
            twice: None,
            due: None,
            interrupted: None,
            lost: 0,
            stopped: false,
        })
    }

    pub(super) fn event(&mut self, event: &Event) {
        self.tally.event(event);
        match &event.kind {
            // What was answered has a row and no event.
            EventKind::RequestEnded(ended) if ended.outcome != Outcome::Answered => {
                let again = self.ended.insert(0, ended.request) == Some(false);
                self.twice = self.twice.or(again.then_some(ended.request));
            }
            EventKind::ClientEnded { result } => self.due = result["due"].as_u64(),
            EventKind::ClientInterrupted(interrupted) => self.interrupted = Some(*interrupted),
            EventKind::RecordingOverflowed { lost, .. } => self.lost = self.lost.saturating_add(*lost),
            EventKind::RecordingEnded { error: Some(_), .. } => self.stopped = true,
            EventKind::Note { text } => self.stopped |= fathom_core::event::tells_lost_events(text),
            _ => {}
        }
    }

    pub(super) fn row(&mut self, sample: &Sample) {
        self.tally.sample(sample);
    }

    /// Of a recording that nobody writes.
    pub(super) fn check(self, recording: &Recording, findings: &mut Findings) {
        if let Some(request) = self.twice {
            findings.add(EVENTS, ENDS_ONCE, || format!("request {request}"));
        }
        let Some(amounts) = recording.client(self.tally) else { return };
        let (counted, missing) = (amounts.counts.due, amounts.not_known);
        let told = match (self.interrupted, self.due) {
            (Some(interrupted), _) => interrupted.not_known,
            // Its own count may be below what stands in its rows and events, never above, but for what is told as lost.
            (None, Some(due)) if counted > due => {
                return findings.add(EVENTS, ENDS, || format!("{due} due, and {counted} ended"));
            }
            (None, _) if self.stopped => return,
            (None, Some(_)) => missing.min(self.lost),
            (None, None) => 0,
        };
        if missing != told {
            findings.add(EVENTS, ENDS, || {
                format!("{counted} due, {missing} of them without an end, {told} told as not known")
            });
        }
    }
}
