//! A recording as other programs see it: the exported CSV and the lines of `events.jsonl`, not our own types.

use super::{FATHOM, must};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Events, in order.
pub(crate) type Events = Vec<Value>;

/// Flag bits, from the description of the format (`schema/recording.md`).
pub(crate) const FIRST_ON_CONNECTION: i64 = 1;
pub(crate) const WARM_UP: i64 = 2;
pub(crate) const ANSWERED_LATE: i64 = 4;
pub(crate) const UNANSWERED: i64 = 8;
pub(crate) const UNDER_LOAD: i64 = 64;

/// One row of a recording, by column name; an empty field is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row(BTreeMap<String, i64>);

impl Row {
    /// A column that may be absent.
    pub(crate) fn get(&self, column: &str) -> Option<i64> {
        self.0.get(column).copied()
    }

    /// A column that may not.
    pub(crate) fn at(&self, column: &str) -> i64 {
        self.get(column).unwrap_or_else(|| panic!("{column} is absent in {self:?}"))
    }

    pub(crate) fn rtt_ns(&self) -> Option<i64> {
        self.get("rtt_ns")
    }

    pub(crate) fn has(&self, flag: i64) -> bool {
        self.at("flags") & flag != 0
    }

    /// When the schedule wanted it sent.
    pub(crate) fn due_ns(&self) -> i64 {
        self.at("sent_ns") - self.at("lateness_ns")
    }
}

/// The samples of a sound recording, through `fathom recording export`.
pub(crate) fn rows(dir: &Path) -> Vec<Row> {
    parse(&must(FATHOM, &["recording", "export", &dir.display().to_string()]))
}

/// The rows of an exported CSV.
pub(crate) fn parse(csv: &str) -> Vec<Row> {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    assert!(names.contains(&"rtt_ns"), "{names:?}");
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), names.len(), "{line}");
        let present = names.iter().zip(fields).filter(|(_, field)| !field.is_empty());
        Row(present.map(|(name, field)| ((*name).to_owned(), field.parse().expect("an integer"))).collect())
    };
    lines.map(row).collect()
}

/// The recordings in a directory, by name, which is by time; none where it is not there yet.
pub(crate) fn recordings(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.expect("listed").path()).collect();
    all.retain(|path| path.join("recording.json").exists());
    all.sort();
    all
}

/// A field that holds a count or a time.
pub(crate) fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name}: {value}"))
}

/// The manifest of a recording.
pub(crate) fn manifest(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("recording.json")).expect("a manifest")).expect("JSON")
}

/// The whole lines of an event log; empty where there is none yet. An unfinished last line is one being written.
pub(crate) fn events(dir: &Path) -> Events {
    let text = std::fs::read_to_string(dir.join("events.jsonl")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// The events of one kind.
pub(crate) fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["kind"] == kind).collect()
}

/// Whether an event of this kind is among them.
pub(crate) fn has_kind(events: &[Value], kind: &str) -> bool {
    !of_kind(events, kind).is_empty()
}

/// The cause of a connection's end that a peer's process was killed by: its kernel sends a FIN, or a RST where a request
/// lay unread at that moment, which is chance.
pub(crate) fn ended_with_its_peer(closed: &Value) -> &str {
    // ECONNRESET is 104 on Linux.
    let ways = [("peer_closed", None), ("reset", Some(104))];
    let way = (closed["cause"].as_str().expect("a cause"), closed.get("errno").and_then(Value::as_i64));
    assert!(ways.contains(&way), "{closed}");
    way.0
}

/// The kinds of events about connections and stalls, in order: what happened in a run, without what was concluded
/// from it.
pub(crate) fn story(events: &[Value]) -> Vec<&str> {
    let kinds = events.iter().filter_map(|event| event["kind"].as_str());
    let happened = |kind: &&str| kind.starts_with("connection.") || kind.starts_with("stall.");
    kinds.filter(happened).filter(|kind| *kind != "connection.explained").collect()
}
