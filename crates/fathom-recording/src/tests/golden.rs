//! Recordings that another implementation wrote (`schema/golden/make_golden.py`, pyarrow), and `schema/` itself.

use super::*;
use crate::{COLUMNS, Recovery, recover, verify};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

fn schema() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema")
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&fs::read(schema().join(name)).unwrap()).unwrap()
}

/// A copy: opening must not need to write, but recovery does.
pub(super) fn copy(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(schema().join("golden").join(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    dir
}

fn rows(dir: &Path) -> Value {
    let value = |c: &crate::Column, s: &Sample| match c.get(s) {
        Some(v) if c.kind == crate::Kind::I64 => (v as i64).into(),
        Some(v) => v.into(),
        None => Value::Null,
    };
    read(dir).iter().map(|s| COLUMNS.iter().map(|c| value(c, s)).collect::<Value>()).collect()
}

#[test]
fn golden_closed_recordings_match_expected_rows() {
    for name in ["closed", "derived"] {
        let dir = copy(name);
        let expected = &json("golden/expected.json")[name];
        assert_eq!(rows(dir.path()), expected["rows"]);
        let found = verify(dir.path(), |_| {}).unwrap();
        assert_eq!(found.events, expected["events"].as_u64().unwrap());
        assert!(found.is_sound(), "{found:?}");
        let recording = Recording::open(dir.path()).unwrap();
        assert_eq!(recording.manifest().path.tags["size"], "B1");
        assert_eq!(recording.manifest().extra["written_by_a_later_version"][0], 1);
    }
}

#[test]
fn the_torn_recording_reads_up_to_the_tear() {
    let dir = copy("torn");
    let expected = &json("golden/expected.json")["torn"];
    assert_eq!(rows(dir.path()), expected["rows"]);
    let damage = Recording::open(dir.path()).unwrap().damage();
    assert_eq!(damage.len(), 2);
    for torn in &damage {
        let stated = &expected["torn"][&torn.file];
        assert!(torn.torn && stated["bytes"] == torn.bytes, "{torn}");
        assert!(stated["offset"].is_null() || stated["offset"] == torn.offset, "{torn}");
    }
    let done = recover(dir.path(), much_later()).unwrap();
    let torn_bytes = damage.iter().map(|d| d.bytes).sum();
    // Sample 5 came back 20.123456789 s after it was sent, 5 s after the start.
    let ended_at = Some("2025-06-15T15:07:05.123456789Z".parse().unwrap());
    assert_eq!(
        done,
        Recovery {
            without_room: false,
            needed: true,
            rows: 3,
            lost: 0,
            queries_lost: 0,
            torn_bytes,
            ended_at,
            damage,
            findings: vec![]
        }
    );
    assert_eq!(rows(dir.path()), expected["rows"]);
    let found = verify(dir.path(), |_| {}).unwrap();
    assert!(found.is_sound(), "{found:?}");
}

#[test]
fn the_schema_lists_the_columns_and_flags() {
    let schema = json("samples.json");
    let columns = schema["columns"].as_array().unwrap();
    assert_eq!(columns.len(), COLUMNS.len());
    for (stated, column) in columns.iter().zip(&COLUMNS) {
        assert_eq!(stated["name"], column.name);
        assert_eq!(stated["type"], column.kind.name());
        assert_eq!(stated["nullable"], column.nullable);
        assert_eq!(stated["unit"], column.unit);
    }
    assert_eq!(schema["flags"], Value::from(Flags::NAMES.to_vec()));
}
