//! `queries-NNNNN.parquet`: one row a query of a database. The newest file is replaced, whole, whenever rows were added: a reader
//! and a crash always find whole files. One that changes no more is told by a `queries.closed`.

use crate::Error;
use crate::disk::{self, Disk};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use fathom_core::event::EventKind;
use fathom_core::query::{PARTIES, Query};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of a file: what is written again when one is added.
pub(crate) const ROWS: usize = 4_096;

type Get = fn(&Query) -> Option<i64>;

fn int(n: Option<u64>) -> Option<i64> {
    n.map(|n| i64::try_from(n).unwrap_or(i64::MAX))
}

/// The columns of integers, in order: name, whether it may be absent, value. Those of the parts and of texts follow.
const NUMBERS: [(&str, bool, Get); 20] = [
    ("query", false, |q| int(Some(q.query))),
    ("started_ns", false, |q| Some(q.started_ns)),
    ("lateness_ns", false, |q| Some(q.lateness_ns)),
    ("wall_ns", false, |q| int(Some(q.split.wall_ns))),
    ("first_row_ns", true, |q| int(q.first_row_ns)),
    ("transfer_ns", true, |q| int(q.first_row_ns.map(|first| q.split.wall_ns.saturating_sub(first)))),
    ("rows", false, |q| int(Some(q.rows))),
    ("turns", false, |q| int(Some(q.turns))),
    ("bytes_received", true, |q| int(q.bytes_received)),
    ("bytes_sent", true, |q| int(q.bytes_sent)),
    ("segments_received", true, |q| int(q.segments_received)),
    ("retransmits", true, |q| int(q.retransmits)),
    ("rtt_ns", true, |q| int(q.rtt_ns)),
    ("looks", false, |q| int(Some(q.looks))),
    ("flags", false, |q| Some(q.is_first.into())),
    ("setting", true, |q| int(q.setting)),
    ("fetch_size", true, |q| int(q.fetch_size)),
    ("packet_size", true, |q| int(q.packet_size)),
    ("login", true, |q| int(q.login)),
    ("connection", true, |q| int(Some(q.connection))),
];
/// Columns that recordings of earlier versions lack.
pub(crate) const ADDED: [&str; 5] = ["setting", "fetch_size", "packet_size", "login", "connection"];
const TEXTS: [&str; 3] = ["no_split", "server_wait", "error"];

/// Names of the columns of the parts, estimate first.
fn part_columns() -> impl Iterator<Item = (String, bool)> {
    PARTIES.into_iter().flat_map(|party| {
        [
            (format!("{party}_ns"), true),
            (format!("{party}_low_ns"), false),
            (format!("{party}_high_ns"), false),
        ]
    })
}

pub(crate) fn schema() -> Schema {
    let numbers = NUMBERS.iter().map(|(name, null, _)| ((*name).to_owned(), *null)).chain(part_columns());
    let numbers = numbers.map(|(name, null)| Field::new(name, DataType::Int64, null));
    let texts = TEXTS.into_iter().map(|name| Field::new(name, DataType::Utf8, true));
    Schema::new(numbers.chain(texts).collect::<Vec<_>>())
}

fn batch(queries: &[Query]) -> Result<RecordBatch, ArrowError> {
    let numbers = NUMBERS.iter().map(|(_, _, get)| queries.iter().map(get).collect::<Int64Array>());
    let parts = PARTIES.into_iter().flat_map(|party| {
        let part = |q: &Query| q.split.part(party);
        [
            queries
                .iter()
                .map(|q| int(q.split.estimates().map(|of| of[party as usize])))
                .collect::<Int64Array>(),
            queries.iter().map(|q| int(Some(part(q).low_ns))).collect(),
            queries.iter().map(|q| int(Some(part(q).high_ns))).collect(),
        ]
    });
    let texts: [StringArray; 3] = [
        queries.iter().map(|q| q.split.why_not()).collect(),
        queries.iter().map(|q| q.server_wait.as_deref()).collect(),
        queries.iter().map(|q| q.error.as_deref()).collect(),
    ];
    let columns = numbers.chain(parts).map(|array| Arc::new(array) as ArrayRef);
    let columns = columns.chain(texts.map(|array| Arc::new(array) as ArrayRef)).collect();
    RecordBatch::try_new(Arc::new(schema()), columns)
}

/// Writes them.
#[derive(Debug)]
pub struct Queries {
    dir: PathBuf,
    ordinal: u32,
    rows: Vec<Query>,
    written: usize,
    /// The newest file, as it is on the disk.
    newest: Option<EventKind>,
    /// Files that are full, and were not asked for yet.
    closed: Vec<EventKind>,
}

impl Queries {
    /// In the directory of a recording that has none yet.
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            ordinal: 0,
            rows: Vec::new(),
            written: 0,
            newest: None,
            closed: Vec::new(),
        }
    }

    /// Takes a row; it is on the disk after the next [`Queries::flush`] that succeeds. Whether a file is full: flush it then.
    #[must_use]
    pub fn push(&mut self, query: Query) -> bool {
        self.rows.push(query);
        self.rows.len().is_multiple_of(ROWS)
    }

    /// Rows that were taken and are not on the disk.
    pub fn unwritten(&self) -> &[Query] {
        &self.rows[self.written..]
    }

    /// Puts what was taken on the disk. Where that fails it is all kept, for the next time.
    pub fn flush(&mut self) -> Result<(), Error> {
        while self.written < self.rows.len() {
            let rows = self.rows.len().min(ROWS);
            self.newest = Some(self.write(rows)?);
            self.written = rows;
            if rows == ROWS {
                self.closed.extend(self.newest.take());
                self.rows.drain(..ROWS);
                self.written = 0;
                self.ordinal += 1;
            }
        }
        Ok(())
    }

    /// What became full since it was last asked, as events.
    pub fn take_closed(&mut self) -> Vec<EventKind> {
        std::mem::take(&mut self.closed)
    }

    /// Ends it: the last file, as an event, where it is not full.
    pub fn close(&mut self) -> Option<EventKind> {
        self.newest.take()
    }

    /// The newest file, with so many rows.
    fn write(&self, rows: usize) -> Result<EventKind, Error> {
        let disk = disk::like(&self.dir.join(crate::MANIFEST));
        let temporary = self.dir.join(format!("{}.tmp", name(self.ordinal)));
        // It holds room that a full disk needs; should this fail too, recovery removes it.
        self.write_by(disk.as_ref(), &temporary, rows).map_err(|error| {
            _ = disk.remove(&temporary);
            // That it was removed says more than what could not be done in it.
            if self.dir.exists() { error } else { Error::Gone { path: self.dir.clone() } }
        })
    }

    fn write_by(&self, disk: &dyn Disk, temporary: &Path, rows: usize) -> Result<EventKind, Error> {
        let path = self.dir.join(name(self.ordinal));
        let bytes =
            encoded(&self.rows[..rows]).map_err(|reason| Error::Segment { path: path.clone(), reason })?;
        let file = disk.create(temporary).map_err(Error::io("create", temporary))?;
        disk.write(&file, &[&bytes]).map_err(Error::io("write", temporary))?;
        disk.sync(&file).map_err(Error::io("sync", temporary))?;
        disk.rename(temporary, &path).map_err(Error::io("rename into place", &path))?;
        disk.sync_dir(&self.dir).map_err(Error::io("sync", &self.dir))?;
        let crc32 = crc32fast::hash(&bytes);
        Ok(EventKind::QueriesClosed {
            file: name(self.ordinal),
            rows: rows as u64,
            bytes: bytes.len() as u64,
            crc32,
        })
    }
}

pub(crate) fn name(ordinal: u32) -> String {
    format!("queries-{ordinal:05}.parquet")
}

/// The number in a file's name; `None`: it is no such file.
pub(crate) fn ordinal(file: &str) -> Option<u32> {
    let number = file.strip_prefix("queries-")?.strip_suffix(".parquet")?.parse().ok()?;
    (name(number) == file).then_some(number)
}

/// What a run leaves that is killed while it writes a file.
pub(crate) fn leftover(dir: &Path) -> Result<Option<PathBuf>, Error> {
    for entry in std::fs::read_dir(dir).map_err(Error::io("list", dir))? {
        let file = entry.map_err(Error::io("list", dir))?;
        let is_one = file.file_name().to_string_lossy().strip_suffix(".tmp").and_then(ordinal).is_some();
        if is_one && file.file_type().is_ok_and(|kind| kind.is_file()) {
            return Ok(Some(file.path()));
        }
    }
    Ok(None)
}

fn encoded(rows: &[Query]) -> Result<Vec<u8>, String> {
    let level = ZstdLevel::try_new(1).map_err(|e| e.to_string())?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by(format!("fathom-recording {}", env!("CARGO_PKG_VERSION")))
        .build();
    let mut out = Vec::new();
    let written = (|| {
        let mut writer = ArrowWriter::try_new(&mut out, Arc::new(schema()), Some(properties))?;
        writer.write(&batch(rows)?)?;
        writer.close()
    })();
    written.map(|_| out).map_err(|e| e.to_string())
}

#[cfg(test)]
mod unit {
    use super::*;
    use crate::asked::files::Files;
    use crate::asked::laws::{self, Rows, Run};
    use fathom_core::query::{Rtt, Timeline};

    const WALL_NS: i64 = 6_000_000;

    /// Two connections, and a wall clock that nobody set.
    fn check(dir: &Path, broken: impl FnMut(String, &'static str, String)) -> Option<Rows> {
        let files = Files::in_dir(dir).unwrap();
        let run = Run { connections: 2, back_ns: Some(0), ..Run::default() };
        let checked = laws::check(&files, run, broken);
        assert_eq!(checked.damage, []);
        (!files.is_empty()).then_some(checked.rows)
    }

    /// A query of which 1 ms was the path's, 2 the server's and 3 the client's, just after the one before it.
    fn query(number: u64) -> Query {
        let mut line = Timeline::new(0);
        line.request(0, Rtt::of(&[1_000_000]));
        line.received(Some((0, 3_000_000)), 10);
        Query {
            query: number,
            started_ns: number as i64 * WALL_NS,
            first_row_ns: Some(3_000_000),
            rows: 1,
            turns: 1,
            split: line.end(6_000_000, Some(0), &[]),
            ..Query::default()
        }
    }

    fn laws(dir: &Path) -> (Option<u64>, Vec<&'static str>) {
        let mut laws = vec![];
        (check(dir, |_, law, _| laws.push(law)).map(|rows| rows.read), laws)
    }

    #[test]
    fn flushed_queries_read_back_whole() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(laws(dir.path()), (None, vec![]), "a recording of something else");
        let mut queries = Queries::new(dir.path());
        for number in 0..ROWS as u64 + 3 {
            if queries.push(query(number)) || number % 1_000 == 7 {
                queries.flush().unwrap();
                assert_eq!(laws(dir.path()), (Some(number + 1), vec![]));
            }
        }
        queries.flush().unwrap();
        assert_eq!(laws(dir.path()), (Some(ROWS as u64 + 3), vec![]));
        assert!(dir.path().join(name(1)).is_file() && !dir.path().join(name(2)).is_file());
    }

    #[test]
    fn unwritable_full_file_loses_no_row() {
        let dir = tempfile::tempdir().unwrap();
        let mut queries = Queries::new(dir.path());
        // Nothing can be written in its place.
        let in_the_way = dir.path().join(format!("{}.tmp", name(0)));
        std::fs::create_dir(&in_the_way).unwrap();
        let all = 2 * ROWS as u64 + 7;
        let full: Vec<_> = (0..all).filter(|&number| queries.push(query(number))).collect();
        assert_eq!(full, [ROWS as u64 - 1, 2 * ROWS as u64 - 1]);
        assert!(queries.flush().is_err() && queries.flush().is_err());
        std::fs::remove_dir(&in_the_way).unwrap();
        queries.flush().unwrap();
        assert_eq!(laws(dir.path()), (Some(all), vec![]));
        // The third has what is over.
        assert!(dir.path().join(name(2)).is_file() && !dir.path().join(name(3)).is_file());
    }

    #[test]
    fn the_columns_are_those_of_the_schema() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/queries.json");
        let stated: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let ours: Vec<_> = schema()
            .fields()
            .iter()
            .map(|field| {
                let kind = if *field.data_type() == DataType::Utf8 { "utf8" } else { "int64" };
                serde_json::json!({ "name": field.name(), "type": kind, "nullable": field.is_nullable() })
            })
            .collect();
        assert_eq!(stated["columns"], serde_json::Value::Array(ours));
    }

    #[test]
    fn a_broken_law_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let mut queries = Queries::new(dir.path());
        assert!(!queries.push(Query { started_ns: 0, ..query(7) }));
        assert!(!queries.push(Query { query: 1, first_row_ns: Some(7_000_000), ..query(1) }));
        queries.flush().unwrap();
        let found = [
            "the first row comes before the last",
            "transfer_ns is what follows the first row",
            "queries are numbered upwards from 0",
        ];
        assert_eq!(laws(dir.path()), (Some(2), found.to_vec()));
        // Seven came before the first.
        let rows = check(dir.path(), |_, _, _| {}).unwrap();
        assert_eq!((rows.read, rows.missing), (2, 7));
    }

    /// Two connections at the same times, of which the second takes twice as long and ends its first query with an error.
    #[test]
    fn overlap_or_unknown_connection_breaks_law() {
        let of = |connection: u64, started_ns: i64| Query { connection, started_ns, ..query(0) };
        let error = Some("reset".to_owned());
        let rows = [of(0, 0), Query { error, ..of(1, 1) }, of(0, WALL_NS), of(1, 2 * WALL_NS)];
        let written = |rows: &[Query]| {
            let dir = tempfile::tempdir().unwrap();
            let mut queries = Queries::new(dir.path());
            for (query, number) in rows.iter().cloned().zip(0..) {
                assert!(!queries.push(Query { query: number, ..query }));
            }
            queries.flush().unwrap();
            let rows = check(dir.path(), |_, _, _| {}).unwrap();
            (rows.each.values().map(|one| (one.read, one.failed)).collect::<Vec<_>>(), laws(dir.path()).1)
        };
        assert_eq!(written(&rows), (vec![(2, 0), (2, 1)], vec![]));
        // A row that stands with the wrong connection overlaps others of it.
        let mut wrong = rows.clone();
        wrong[1].connection = 0;
        let found = vec!["a connection is asked one query after the other"; 2];
        assert_eq!(written(&wrong), (vec![(3, 1), (1, 0)], found));
        let mut third = rows;
        third[3].connection = 2;
        assert_eq!(written(&third).1, ["a query is of one of the run's connections"]);
    }
}
