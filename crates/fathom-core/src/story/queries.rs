//! The queries of a database (`fathom sql`): those that failed, and where the time of the others went.

use super::Line;
use crate::event::{Event, EventKind};
use crate::query::{Confidence, Failed, Outcome};
use crate::units::duration_text as duration;
use jiff::Timestamp;

/// Its lines, each with its moment by the monotonic clock.
pub(super) fn lines(outcome: &Outcome, events: &[Event], last: Timestamp) -> Vec<(u64, Line)> {
    let mut lines: Vec<(u64, Line)> = outcome.failed().iter().map(|failed| failure(failed, events)).collect();
    let ended = events.iter().find(|event| matches!(event.kind, EventKind::SqlEnded { .. }));
    let (mono_ns, at) = ended.map_or_else(
        || (events.last().map_or(0, |event| event.mono_ns), last),
        |event| (event.mono_ns, event.at),
    );
    let statement = match outcome.verdict_words() {
        Some(verdict) => format!("{}: {verdict}", outcome.count_words()),
        None => format!("{}: none has a whole answer", outcome.count_words()),
    };
    let confidence = match outcome.confidence() {
        Confidence::High => super::Confidence::High,
        Confidence::Medium => super::Confidence::Medium,
        Confidence::None => super::Confidence::None,
    };
    let evidence = outcome.evidence();
    lines.push((mono_ns, Line { evidence, confidence, ..Line::fact(at, statement) }));
    lines
}

fn failure(failed: &Failed, events: &[Event]) -> (u64, Line) {
    let at = Timestamp::from_nanosecond(failed.ended_ns.into()).unwrap_or_default();
    // Rows have no monotonic time: the latest event before has both.
    let before = events.iter().rev().find(|event| event.at <= at).or(events.first());
    let mono_ns = before.map_or(0, |event| {
        let since = u64::try_from(at.duration_since(event.at).as_nanos()).unwrap_or(0);
        event.mono_ns.saturating_add(since)
    });
    let of = failed.connection.map_or_else(String::new, |connection| format!(" (connection {connection})"));
    let number = failed.query + 1;
    let statement = format!("query {number}{of} failed after {}: {}", duration(failed.wall_ns), failed.error);
    (mono_ns, Line::fact(at, statement))
}
