//! What a search for limits found (`fathom limits --record`), and what happened meanwhile.

use super::{Line, Measured};
use crate::event::{Event, EventKind, Judged, RATE_CEILING_MODE, sought_with};
use crate::limits::{AnyRecorded, CeilingRow, Found, Outcome, what_happened};
use jiff::Timestamp;

/// Its lines, each with its moment by the monotonic clock.
pub(super) fn lines(measured: &Measured, events: &[Event], last: Timestamp) -> Vec<(u64, Line)> {
    if sought_with(&measured.mode).is_none() {
        return Vec::new();
    }
    let (mut lines, mut recorded) = (Vec::new(), AnyRecorded::default());
    let mut end = (events.last().map_or(0, |event| event.mono_ns), last);
    for event in events {
        recorded.event(event);
        match &event.kind {
            // Its end tells how long it was.
            EventKind::LimitsHappened { what } if what.is_outage_that_goes_on() => {}
            EventKind::LimitsHappened { what } => {
                let ago_ns = what.began_ago_ns();
                let began = event.at - std::time::Duration::from_nanos(ago_ns);
                lines.push((event.mono_ns.saturating_sub(ago_ns), Line::fact(began, what_happened(what))));
            }
            // A step that is as good as those below it is in the result.
            EventKind::CeilingStepped(step) if step.judged != Judged::Good => {
                lines.push((event.mono_ns, Line::fact(event.at, CeilingRow::of(step).line())));
            }
            EventKind::LimitsEnded { .. } => end = (event.mono_ns, event.at),
            _ => {}
        }
    }
    let (mono_ns, at) = end;
    let line = match recorded.outcome() {
        Some(outcome) => found(measured, at, outcome),
        None if measured.mode == RATE_CEILING_MODE => {
            Line::fact(at, "no step was over when the recording ended".to_owned())
        }
        None => Line::fact(at, "no connection had been judged when the recording ended".to_owned()),
    };
    lines.push((mono_ns, line));
    lines
}

/// The result: its first line, with the others as what it rests on.
fn found(measured: &Measured, at: Timestamp, found: Found) -> Line {
    // What happened meanwhile has lines of its own.
    let text = match found {
        Found::Lengths(outcome) => Outcome { meanwhile: Vec::new(), ..*outcome }.text(&measured.reflector),
        Found::Rate(ceiling) => ceiling.text(&measured.reflector),
    };
    let mut parts = text.lines().map(|line| line.trim().to_owned());
    let mut line = Line::fact(at, parts.next().unwrap_or_default());
    line.evidence = parts.collect();
    line
}
