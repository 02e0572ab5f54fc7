//! The lines of `events.jsonl`, and the one place where they are made: none is longer than readers take. What a run carries over a
//! seam stands in several where one would be too long, and readers join them.

use crate::Error;
use fathom_core::event::{Carried, CarriedConnection, CarriedOutage, Event, EventKind};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::path::Path;

/// Readers take no longer line, its newline included: they would hold all of it in memory.
pub(crate) const MAX_LINE: u64 = 1 << 20;
/// The kind of a line that carries a part of what the event behind it does.
const PART: &str = "recording.carries";
/// Connections, or outages, of one part: some 300 KB where all of them stall and had stalled just before.
const OF_A_PART: usize = 1_000;

/// One part. The numbers begin at 1, and the event that follows says how many there are (`parts`).
#[derive(Debug, Serialize, Deserialize)]
struct Part<'a> {
    at: Timestamp,
    mono_ns: u64,
    kind: Cow<'a, str>,
    #[serde(rename = "part")]
    number: u64,
    #[serde(default)]
    connections: Cow<'a, [CarriedConnection]>,
    #[serde(default)]
    outages: Cow<'a, [CarriedOutage]>,
}

/// The event behind its parts.
#[derive(Debug, Serialize)]
struct Last<'a> {
    #[serde(flatten)]
    event: &'a Event,
    parts: u64,
}

/// The line of an event; of a seam at which so many connections are open that it would be too long, several.
pub(crate) fn lines_of(path: &Path, event: &Event) -> Result<Vec<u8>, Error> {
    let kind = event.kind.name();
    let mut lines = Vec::new();
    match (add_line(path, kind, event, &mut lines), carried_of(&event.kind)) {
        (Err(Error::TooLong { .. }), Some(carried)) => {
            let mut parts = 0;
            let mut add = |connections: &[CarriedConnection], outages: &[CarriedOutage]| {
                parts += 1;
                let (at, mono_ns, kind) = (event.at, event.mono_ns, Cow::Borrowed(PART));
                let (connections, outages) = (Cow::Borrowed(connections), Cow::Borrowed(outages));
                let part = Part { at, mono_ns, kind, number: parts, connections, outages };
                add_line(path, PART, &part, &mut lines)
            };
            carried.connections.chunks(OF_A_PART).try_for_each(|connections| add(connections, &[]))?;
            carried.outages.chunks(OF_A_PART).try_for_each(|outages| add(&[], outages))?;
            let event = Event { kind: without_lists(&event.kind), ..*event };
            add_line(path, kind, &Last { event: &event, parts }, &mut lines)?;
        }
        (made, _) => made?,
    }
    Ok(lines)
}

/// Adds one line, or none where no reader would take it.
fn add_line(
    path: &Path,
    kind: &'static str,
    value: &impl Serialize,
    lines: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut line = serde_json::to_vec(value)
        .map_err(|e| Error::Segment { path: path.to_owned(), reason: e.to_string() })?;
    line.push(b'\n');
    if line.len() as u64 > MAX_LINE {
        return Err(Error::TooLong { path: path.to_owned(), kind, bytes: line.len() as u64 });
    }
    lines.append(&mut line);
    Ok(())
}

fn carried_of(kind: &EventKind) -> Option<&Carried> {
    match kind {
        EventKind::RecordingRotated { carried, .. } | EventKind::RecordingContinues { carried, .. } => {
            Some(carried)
        }
        _ => None,
    }
}

fn carried_of_mut(kind: &mut EventKind) -> Option<&mut Carried> {
    match kind {
        EventKind::RecordingRotated { carried, .. } | EventKind::RecordingContinues { carried, .. } => {
            Some(carried)
        }
        _ => None,
    }
}

/// The same with what is one number each.
fn without_lists(kind: &EventKind) -> EventKind {
    let mut kind = kind.clone();
    if let Some(carried) = carried_of_mut(&mut kind) {
        carried.connections.clear();
        carried.outages.clear();
    }
    kind
}

/// Parts that were read and whose event follows.
#[derive(Debug, Default)]
pub(super) struct Parts {
    read: u64,
    connections: Vec<CarriedConnection>,
    outages: Vec<CarriedOutage>,
}

impl Parts {
    /// Whether the line is a part; then it is kept. What a kill left of earlier ones is dropped with the next first one.
    pub(super) fn take(&mut self, line: &Value) -> bool {
        if line["kind"] != PART {
            return false;
        }
        if line["part"] == 1 {
            *self = Self::default();
        }
        if let Ok(part) = Part::deserialize(line)
            && part.number == self.read + 1
        {
            self.read += 1;
            self.connections.extend(part.connections.into_owned());
            self.outages.extend(part.outages.into_owned());
        }
        true
    }

    /// Puts them into the event of this line, where that has any; false: not all of them are there.
    pub(super) fn complete(&mut self, line: &Value, event: &mut Event) -> bool {
        let Some(carried) = carried_of_mut(&mut event.kind) else { return true };
        let Self { read, connections, outages } = std::mem::take(self);
        let Some(parts) = line["parts"].as_u64() else { return true };
        carried.connections.extend(connections);
        carried.outages.extend(outages);
        read == parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind) -> Event {
        Event { at: Timestamp::UNIX_EPOCH, mono_ns: 1, connection: None, kind }
    }

    /// Readers stop at a longer line for good: what follows it, and all rows of closed segments, were gone.
    #[test]
    fn no_line_is_longer_than_readers_take() {
        let note = |length| event(EventKind::Note { text: "x".repeat(length) });
        let path = Path::new("events.jsonl");
        let around = lines_of(path, &note(0)).unwrap().len();
        let longest = MAX_LINE as usize - around;
        assert_eq!(lines_of(path, &note(longest)).unwrap().len() as u64, MAX_LINE);
        let error = lines_of(path, &note(longest + 1)).unwrap_err().to_string();
        assert!(error.contains("`note`") && error.contains("1048577 B)"), "{error}");
    }
}
