//! Files of queries that somebody took away, cut off or wrote anew, and what is told of them.

use super::*;
use crate::queries::{ROWS, name, schema};
use crate::{EVENTS, Query, Recorder, recover, verify};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use fathom_core::event::{Event, EventKind};
use fathom_core::query::{Rtt, Timeline};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::sync::Arc;
use tempfile::TempDir;

const WALL_NS: i64 = 6_000_000;
const PER_FILE: u64 = ROWS as u64;

/// A query of which 1 ms was the path's, 2 the server's and 3 the client's, just after the one before it.
fn query(number: u64) -> Query {
    let mut line = Timeline::new(0);
    line.request(0, Rtt::of(&[1_000_000]));
    line.received(Some((0, 3_000_000)), 10);
    Query {
        query: number,
        started_ns: START_NS + number as i64 * WALL_NS,
        first_row_ns: Some(3_000_000),
        rows: 2,
        turns: 1,
        bytes_received: Some(100),
        retransmits: Some(0),
        split: line.end(WALL_NS as u64, Some(0), &[]),
        ..Query::default()
    }
}

/// A recording of these queries; with `ended` in order, else as a kill leaves it. `states`: what its files are.
fn recorded(numbers: impl Iterator<Item = u64>, ended: bool, states: bool) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let probe = json!({ "sql": { "connections": 1 } });
    let mut recorder = Recorder::create(dir.path(), Manifest { probe, ..manifest() }).unwrap();
    let mut queries = crate::Queries::new(dir.path());
    let (mut read, mut last) = (0, 0);
    for number in numbers {
        _ = queries.push(query(number));
        (read, last) = (read + 1, number);
    }
    queries.flush().unwrap();
    let mono_ns = (last + 1) * WALL_NS as u64;
    let at = Timestamp::from_nanosecond((START_NS + mono_ns as i64).into()).unwrap();
    let mut tell =
        |kind| recorder.event(&Event { at, mono_ns, connection: None, kind }).expect("room on the disk");
    let mut closed = queries.take_closed();
    closed.extend(queries.close().filter(|_| ended));
    closed.into_iter().filter(|_| states).for_each(&mut tell);
    if ended {
        let result = json!({
            "queries": read, "failed": 0, "rows": 2 * read, "bytes_received": 100 * read, "retransmits": 0,
            "sent_again": 0, "unrecorded": 0,
        });
        tell(EventKind::SqlEnded { result });
        recorder.finish(at, mono_ns).unwrap();
    }
    dir
}

fn damage(dir: &Path) -> Vec<(String, String)> {
    let damage = verify(dir, |_| {}).unwrap().damage;
    damage.into_iter().map(|damage| (damage.file, damage.reason)).collect()
}

fn laws(dir: &Path) -> Vec<&'static str> {
    let found = verify(dir, |_| {}).unwrap();
    assert_eq!(found.damage, []);
    found.findings.iter().map(|finding| finding.law).collect()
}

/// What the recording says of its queries: how many there are, how many it lacks, and what of them cannot be read.
fn asked(dir: &Path) -> (u64, Option<u64>, Vec<String>) {
    let (outcome, damage) = Recording::open(dir).unwrap().asked().unwrap().unwrap();
    (outcome.queries(), outcome.asked.unrecorded, damage.into_iter().map(|damage| damage.reason).collect())
}

fn now() -> Timestamp {
    Timestamp::from_nanosecond((START_NS + 1_000 * SECOND as i64).into()).unwrap()
}

/// Writes a number of a row anew.
fn forge(file: &Path, column: &str, row: usize, value: Option<i64>) {
    forged(file, column, |array| {
        let forged = array.as_primitive::<Int64Type>().iter().enumerate();
        Arc::new(forged.map(|(at, old)| if at == row { value } else { old }).collect::<Int64Array>())
    });
}

fn forged(file: &Path, column: &str, change: impl FnOnce(&ArrayRef) -> ArrayRef) {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file).unwrap()).unwrap();
    let batches: Vec<_> =
        reader.with_batch_size(2 * ROWS).build().unwrap().collect::<Result<_, _>>().unwrap();
    let batch: &RecordBatch = &batches[0];
    let at = batch.schema().index_of(column).unwrap();
    let mut columns = batch.columns().to_vec();
    columns[at] = change(&columns[at]);
    let batch = RecordBatch::try_new(Arc::new(schema()), columns).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(file).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn intact_query_files_are_sound_and_counted() {
    for states in [true, false] {
        let dir = recorded(0..2 * PER_FILE + 7, true, states);
        let found = verify(dir.path(), |_| {}).unwrap();
        assert!(found.is_sound(), "{found:?}");
        assert_eq!(found.queries, Some(2 * PER_FILE + 7));
        assert_eq!(asked(dir.path()), (2 * PER_FILE + 7, Some(0), vec![]));
    }
}

/// Of a run that was killed no count says how many there were.
#[test]
fn missing_query_file_is_damage() {
    // Files of 4,096 queries before a last one of 7, and which of them is removed: the first, one between others, the last.
    for (full, states, gone) in [(1, true, 0), (2, false, 1), (1, true, 1)] {
        let dir = recorded(0..full * PER_FILE + 7, false, states);
        let recovered = recover(dir.path(), now()).unwrap();
        assert!(recovered.is_in_order() && recovered.queries_lost == 0, "{recovered:?}");
        assert!(laws(dir.path()).is_empty());
        fs::remove_file(dir.path().join(name(gone))).unwrap();
        let reason = "it is missing".to_owned();
        assert_eq!(damage(dir.path()), [(name(gone), reason.clone())]);
        if u64::from(gone) == full {
            // A name that somebody made up costs no time.
            fs::write(dir.path().join(name(u32::MAX)), "").unwrap();
            assert_eq!(damage(dir.path()).len(), 3);
            continue;
        }
        assert_eq!(asked(dir.path()), ((full - 1) * PER_FILE + 7, None, vec![reason]));
        // No recovery explains it away.
        let recovered = recover(dir.path(), now()).unwrap();
        assert!(!recovered.is_in_order() && recovered.queries_lost == 0, "{recovered:?}");
    }
}

/// Earlier versions lost rows where the disk was free, and recovered such a run without telling what it lacks.
#[test]
fn recovery_counts_missing_query_rows_once() {
    let end = PER_FILE + 200;
    let numbers = || (0..PER_FILE + 90).chain(PER_FILE + 100..end);
    for states in [true, false] {
        let dir = recorded(numbers(), false, states);
        let (read, unrecorded, unread) = asked(dir.path());
        assert_eq!((read, unrecorded), (end - 10, None));
        assert!(unread[0].starts_with("10 rows between others cannot be found"), "{unread:?}");
        let recovered = recover(dir.path(), now()).unwrap();
        assert!(recovered.is_in_order() && recovered.queries_lost == 10, "{recovered:?}");
        let ended_ns = recovered.ended_at.unwrap().as_nanosecond() as i64;
        assert_eq!(ended_ns, START_NS + end as i64 * WALL_NS, "the end of its last query");
        assert_eq!(asked(dir.path()), (end - 10, Some(10), vec![]));
        let again = recover(dir.path(), now()).unwrap();
        assert!(!again.needed && again.is_in_order() && again.queries_lost == 0, "{again:?}");
    }
}

#[test]
fn recovery_removes_partial_query_file() {
    let dir = recorded(0..10, false, true);
    let left = dir.path().join(format!("{}.tmp", name(1)));
    fs::write(&left, "PAR1").unwrap();
    assert!(recover(dir.path(), now()).unwrap().is_in_order());
    assert!(!left.exists());
}

#[test]
fn truncated_query_file_is_damage() {
    for states in [true, false] {
        let dir = recorded(0..2 * PER_FILE + 7, true, states);
        let file = dir.path().join(name(1));
        File::options().write(true).open(&file).unwrap().set_len(200).unwrap();
        let found = verify(dir.path(), |_| {}).unwrap();
        assert!(!found.is_sound());
        assert_eq!((found.queries, found.findings), (Some(PER_FILE + 7), vec![]));
        let [damage] = &found.damage[..] else { panic!("{:?}", found.damage) };
        assert_eq!((&damage.file, damage.bytes), (&name(1), 200));
        assert!(!damage.to_string().contains("fathom recording verify"), "{damage}");
        assert_eq!(asked(dir.path()).0, PER_FILE + 7);
    }
}

/// Whatever is written into it, it is no longer what the event log states.
#[test]
fn rewritten_query_file_contradicts_event_log() {
    let dir = recorded(0..10, true, true);
    forge(&dir.path().join(name(0)), "wall_ns", 3, Some(WALL_NS));
    let [(file, reason)] = &damage(dir.path())[..] else { panic!() };
    assert_eq!(file, &name(0));
    assert!(reason.starts_with("it should have"), "{reason}");
    let dir = recorded(0..10, true, true);
    let file = dir.path().join(name(0));
    let mut bytes = fs::read(&file).unwrap();
    bytes[100] ^= 1;
    fs::write(&file, bytes).unwrap();
    assert_eq!(damage(dir.path())[0].1, "it does not have the checksum its event states");
    assert_eq!(asked(dir.path()).0, 0);
}

const NEGATIVE: &str = "no number of a query is negative, but the moment it began";
const SUMS: &str = "the queries come to the sums of sql.ended";
const WITHIN: &str = "each part lies within its bounds, and those within 0 and the wall time";
const DATES: &str = "a query is asked between the beginning and the end of the run";
const BOUNDS: &str = "the wall time lies between the sums of the bounds";
const ORDER: &str = "a connection is asked one query after the other";

/// Where the event log states nothing (earlier versions) the laws of the rows are what there is.
#[test]
fn rows_that_no_run_can_have_are_found() {
    let day_ns = 86_400 * SECOND as i64;
    for (column, value, broken) in [
        ("query", Some(2), &["queries are numbered upwards from 0"][..]),
        ("started_ns", Some(START_NS + day_ns), &[ORDER, DATES]),
        ("started_ns", Some(START_NS - day_ns), &[ORDER, DATES]),
        ("lateness_ns", Some(-5), &[NEGATIVE]),
        (
            "wall_ns",
            Some(WALL_NS + 1),
            &["server, path and client sum to the wall time", "transfer_ns is what follows the first row"],
        ),
        ("rows", Some(1_002), &[SUMS]),
        ("rows", Some(0), &["a query has a first row exactly where it has rows", SUMS]),
        ("rows", Some(-7), &["a query has a first row exactly where it has rows", NEGATIVE, SUMS]),
        ("turns", Some(0), &["a query that was answered took a turn"]),
        ("turns", Some(-1), &["a query that was answered took a turn", NEGATIVE, SUMS]),
        ("bytes_received", Some(0), &[SUMS]),
        ("bytes_sent", Some(-1), &[NEGATIVE]),
        ("retransmits", Some(3), &[SUMS]),
        ("rtt_ns", Some(-7), &[NEGATIVE]),
        ("looks", Some(-1), &[NEGATIVE, SUMS]),
        ("flags", Some(2), &["only known flags are set"]),
        ("setting", Some(0), &["a query is of one of the run's settings"]),
        ("connection", Some(99), &["a query is of one of the run's connections", SUMS]),
        ("first_row_ns", Some(4_000_000), &["transfer_ns is what follows the first row"]),
        ("transfer_ns", None, &["transfer_ns is what follows the first row"]),
        ("server_ns", Some(2_000_001), &[WITHIN, "server, path and client sum to the wall time"]),
        (
            "server_ns",
            None,
            &["a query has a split, or a reason why not", "server, path and client sum to the wall time"],
        ),
        ("client_low_ns", Some(WALL_NS), &[WITHIN, BOUNDS]),
        ("client_high_ns", Some(0), &[WITHIN, BOUNDS]),
        ("path_high_ns", Some(WALL_NS + 1), &[WITHIN]),
    ] {
        let dir = recorded(0..10, true, false);
        forge(&dir.path().join(name(0)), column, 3, value);
        let (mut found, mut broken) = (laws(dir.path()), broken.to_vec());
        found.sort_unstable();
        broken.sort_unstable();
        assert_eq!(found, broken, "{column} = {value:?}");
    }
}

/// With one connection nothing but the sum says so.
#[test]
fn an_error_that_no_run_counted_is_found() {
    let dir = recorded(0..10, true, false);
    forged(&dir.path().join(name(0)), "error", |old| {
        let texts = old.as_string::<i32>().iter().enumerate();
        Arc::new(texts.map(|(at, old)| if at == 3 { Some("made up") } else { old }).collect::<StringArray>())
    });
    assert_eq!(laws(dir.path()), [SUMS]);
}

/// Of three queries the user ended the last: earlier versions counted it among those that failed, and their recordings are as sound.
#[test]
fn query_ended_by_user_counts_as_cancelled() {
    let laws_with = |result: Value| {
        let dir = tempfile::tempdir().unwrap();
        let probe = json!({ "sql": { "connections": 1 } });
        let mut recorder = Recorder::create(dir.path(), Manifest { probe, ..manifest() }).unwrap();
        let mut queries = crate::Queries::new(dir.path());
        (0..2).for_each(|number| _ = queries.push(query(number)));
        let error = Some(fathom_core::query::NOT_WAITED_FOR.to_owned());
        _ = queries.push(Query { error, ..query(2) });
        queries.flush().unwrap();
        let at = Timestamp::from_nanosecond((START_NS + 3 * WALL_NS).into()).unwrap();
        let mono_ns = 3 * WALL_NS as u64;
        for kind in queries.close().into_iter().chain([EventKind::SqlEnded { result }]) {
            recorder.event(&Event { at, mono_ns, connection: None, kind }).unwrap();
        }
        recorder.finish(at, mono_ns).unwrap();
        laws(dir.path())
    };
    let nothing: [&str; 0] = [];
    assert_eq!(laws_with(json!({ "queries": 3, "failed": 0, "cancelled": 1 })), nothing);
    assert_eq!(laws_with(json!({ "queries": 3, "failed": 1 })), nothing);
    assert_eq!(laws_with(json!({ "queries": 3, "failed": 1, "cancelled": 0 })), [SUMS]);
    let each =
        |failed: u64, cancelled: u64| json!([{ "queries": 3, "failed": failed, "cancelled": cancelled }]);
    assert_eq!(
        laws_with(json!({ "queries": 3, "failed": 0, "cancelled": 1, "connections": each(0, 1) })),
        nothing
    );
    assert_eq!(
        laws_with(json!({ "queries": 3, "failed": 0, "cancelled": 1, "connections": each(0, 0) })),
        ["as many failed on each connection as sql.ended counts"]
    );
}

#[test]
fn only_the_last_file_has_fewer_rows() {
    let dir = recorded(0..PER_FILE + 5, true, false);
    let file = dir.path().join(name(0));
    let batch = {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&file).unwrap()).unwrap();
        reader.with_batch_size(100).build().unwrap().next().unwrap().unwrap()
    };
    let mut writer = ArrowWriter::try_new(File::create(&file).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let found = laws(dir.path());
    for law in
        ["a file that another follows has 4096 queries", "there are as many queries as sql.ended counts"]
    {
        assert!(found.contains(&law), "{found:?}");
    }
}

/// Its lines say what they must.
#[test]
fn the_event_log_lists_each_file_once() {
    let dir = recorded(0..PER_FILE + 5, false, true);
    recover(dir.path(), now()).unwrap();
    recover(dir.path(), now()).unwrap();
    let log = fs::read_to_string(dir.path().join(EVENTS)).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let listed: Vec<_> = lines
        .filter(|line| line["kind"] == "queries.closed")
        .map(|line| (line["file"].as_str().unwrap().to_owned(), line["rows"].as_u64().unwrap()))
        .collect();
    assert_eq!(listed, [(name(0), PER_FILE), (name(1), 5)]);
}
