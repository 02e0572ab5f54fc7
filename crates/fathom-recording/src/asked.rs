//! Reading `queries-*.parquet`: what a recording of `fathom sql` came to, and whether its rows keep the laws of the format.

use crate::damage::Damage;
use crate::queries::{ADDED, name, schema};
use crate::{Error, Recording};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use fathom_core::event::EventKind;
use fathom_core::query::{
    Asked, Connection, Counted, MOST_CONNECTIONS, Outcome, PARTIES, Part, Query, Setting, Split,
};
use fathom_core::text::count;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::BTreeMap;
use std::path::Path;

impl Recording {
    /// What its queries came to, and what of them cannot be read; `None`: it is a recording of something else.
    pub fn asked(&self) -> Result<Option<(Outcome, Vec<Damage>)>, Error> {
        let sql = &self.manifest().probe["sql"];
        if !sql.is_object() {
            return Ok(None);
        }
        let mut asked = Asked {
            target: self.manifest().reflector.address.clone(),
            fetch_size: sql["fetch_size"].as_u64().map(|rows| rows as u32),
            settings: sql["settings"].as_array().into_iter().flatten().filter_map(Setting::of).collect(),
            connections: match self.connections() {
                0 | 1 => vec![],
                several => vec![Connection::default(); several as usize],
            },
            recording: Some(self.dir().display().to_string()),
            ..Asked::default()
        };
        let mut told = None;
        for event in self.events()?.flatten().filter_map(|entry| entry.known().cloned()) {
            match event.kind {
                EventKind::Note { text } => asked.notes.push(text),
                EventKind::SqlEnded { result } => {
                    asked.server_version = result["server_version"].as_str().map(str::to_owned);
                    asked.encrypted = result["encrypted"].as_bool();
                    asked.tds = result["tds"].clone();
                    for (at, setting) in asked.settings.iter_mut().enumerate() {
                        setting.tds = result["settings"][at]["tds"].clone();
                        setting.counted = Counted::of(&result["settings"][at]["server_counted"]);
                    }
                    for (at, connection) in asked.connections.iter_mut().enumerate() {
                        let told = &result["connections"][at];
                        connection.counted = Counted::of(&told["server_counted"]);
                        connection.unrecorded = told["unrecorded"].as_u64();
                    }
                    asked.counted = Counted::of(&result["server_counted"]);
                    asked.unanswered_beside = result["unanswered_beside"].as_u64();
                    asked.unrecorded = result["unrecorded"].as_u64();
                    told =
                        result["queries"].as_u64().map(|n| n.saturating_sub(asked.unrecorded.unwrap_or(0)));
                }
                _ => {}
            }
        }
        let (mut outcome, mut damage) = (Outcome::new(asked), Vec::new());
        let read = each_batch(self.dir(), |ordinal, batch| {
            for row in 0..batch.num_rows() {
                let query = query(batch, row).ok_or_else(|| columns(ordinal))?;
                outcome.add(&query);
            }
            Ok(())
        });
        let missing = told.unwrap_or(0).saturating_sub(outcome.queries());
        match read {
            Err(unreadable) => damage.push(unreadable),
            Ok(files) if missing > 0 => damage.push(unreadable(
                files,
                format!("{} that sql.ended counts cannot be found", count(missing, "row")),
            )),
            Ok(_) => {}
        }
        Ok(Some((outcome, damage)))
    }

    /// How many connections asked side by side; recordings of earlier versions have one.
    pub(crate) fn connections(&self) -> u64 {
        self.manifest().probe["sql"]["connections"].as_u64().unwrap_or(1).min(MOST_CONNECTIONS)
    }
}

fn unreadable(ordinal: u32, reason: String) -> Damage {
    Damage { file: name(ordinal), offset: 0, bytes: 0, torn: false, reason }
}

fn columns(ordinal: u32) -> Damage {
    unreadable(ordinal, "its columns are not those of schema/queries.json".to_owned())
}

/// Every batch of the files, in order; how many there are.
fn each_batch(
    dir: &Path,
    mut take: impl FnMut(u32, &RecordBatch) -> Result<(), Damage>,
) -> Result<u32, Damage> {
    for ordinal in 0.. {
        let path = dir.join(name(ordinal));
        if !path.is_file() {
            return Ok(ordinal);
        }
        let bad = |reason: String| {
            let bytes = path.metadata().map_or(0, |file| file.len());
            Damage { bytes, ..unreadable(ordinal, reason) }
        };
        let file = crate::plain::open(&path).map_err(|e| bad(format!("cannot be read: {e}")))?;
        let reader =
            ParquetRecordBatchReaderBuilder::try_new(file).and_then(ParquetRecordBatchReaderBuilder::build);
        for batch in reader.map_err(|e| bad(e.to_string()))? {
            let batch = batch.map_err(|e| bad(e.to_string()))?;
            let same = schema().fields().iter().all(|field| match batch.column_by_name(field.name()) {
                Some(column) => {
                    column.data_type() == field.data_type()
                        && (field.is_nullable() || column.null_count() == 0)
                }
                None => ADDED.contains(&field.name().as_str()),
            });
            if !same {
                return Err(columns(ordinal));
            }
            take(ordinal, &batch)?;
        }
    }
    Ok(u32::MAX)
}

/// An integer of a row; `None`: it is absent.
fn value(batch: &RecordBatch, name: &str, row: usize) -> Option<i64> {
    let column = batch.column_by_name(name)?.as_primitive_opt::<Int64Type>()?;
    (!column.is_null(row)).then(|| column.value(row))
}

/// A row; `None`: a number that must be one is not.
fn query(batch: &RecordBatch, row: usize) -> Option<Query> {
    let signed = |name: &str| value(batch, name, row);
    let maybe = |name: &str| signed(name).and_then(|n| u64::try_from(n).ok());
    let text = |name: &str| {
        let column = batch.column_by_name(name)?.as_string_opt::<i32>()?;
        (!column.is_null(row)).then(|| column.value(row).to_owned())
    };
    let mut parts = [Part::default(); 3];
    for party in PARTIES {
        let low_ns = maybe(&format!("{party}_low_ns"))?;
        parts[party as usize] = Part {
            low_ns,
            ns: maybe(&format!("{party}_ns")).unwrap_or(low_ns),
            high_ns: maybe(&format!("{party}_high_ns"))?,
        };
    }
    Some(Query {
        query: maybe("query")?,
        started_ns: signed("started_ns")?,
        lateness_ns: signed("lateness_ns")?,
        first_row_ns: maybe("first_row_ns"),
        rows: maybe("rows")?,
        turns: maybe("turns")?,
        bytes_received: maybe("bytes_received"),
        bytes_sent: maybe("bytes_sent"),
        segments_received: maybe("segments_received"),
        retransmits: maybe("retransmits"),
        rtt_ns: maybe("rtt_ns"),
        looks: maybe("looks")?,
        split: Split::of_recording(maybe("wall_ns")?, parts, text("no_split").as_deref()),
        server_wait: text("server_wait"),
        error: text("error"),
        is_first: maybe("flags")? & 1 == 1,
        setting: maybe("setting"),
        fetch_size: maybe("fetch_size"),
        packet_size: maybe("packet_size"),
        login: maybe("login"),
        connection: maybe("connection").unwrap_or(0),
    })
}

/// How many rows there are, and how many are missing between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) read: u64,
    pub(crate) missing: u64,
    /// Of each connection that has any.
    pub(crate) each: BTreeMap<u64, OfConnection>,
}

/// The rows of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OfConnection {
    pub(crate) read: u64,
    /// Without a whole answer.
    pub(crate) failed: u64,
    /// When the latest was over, ns since the Unix epoch.
    over_ns: i64,
}

/// What the rows of a recording are held against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// How many connections asked side by side.
    pub(crate) connections: u64,
    /// How far the wall clock may have gone back between a query and the next, in ns; `None`: nobody knows.
    pub(crate) back_ns: Option<i64>,
}

/// What the files of a recording say, as `verify` needs it: rows, and the first case of each law that is broken.
pub(crate) fn check(
    dir: &Path,
    run: Run,
    mut broken: impl FnMut(String, &'static str, String),
) -> Result<Option<Rows>, Error> {
    let mut rows = Rows::default();
    let read = each_batch(dir, |ordinal, batch| {
        check_batch(batch, &mut rows, run, &mut |law, case| broken(name(ordinal), law, case))
            .ok_or_else(|| columns(ordinal))
    });
    let files = read.map_err(|bad| Error::Segment { path: dir.join(bad.file), reason: bad.reason })?;
    Ok((files > 0).then_some(rows))
}

/// Adds the rows of this batch; `None`: its columns are others.
fn check_batch(
    batch: &RecordBatch,
    rows: &mut Rows,
    run: Run,
    broken: &mut impl FnMut(&'static str, String),
) -> Option<()> {
    let value = |name: &str, row: usize| value(batch, name, row);
    let errors = batch.column_by_name("error")?;
    for row in 0..batch.num_rows() {
        let of = |kind: &str| PARTIES.map(|party| value(&format!("{party}{kind}_ns"), row));
        let (estimates, lows, highs) = (of(""), of("_low"), of("_high"));
        let wall = value("wall_ns", row)?;
        let number = u64::try_from(value("query", row)?).unwrap_or(0);
        let next = rows.read + rows.missing;
        let mut law = |law, holds: bool| {
            if !holds {
                broken(law, format!("query {number}"));
            }
        };
        law("queries are numbered upwards from 0", number >= next);
        let absent = batch.column_by_name("no_split")?.is_null(row);
        law(
            "a query has a split, or a reason why not",
            estimates.iter().all(|part| part.is_some() == absent),
        );
        // Somebody else's numbers: their sum may be beyond 64 bits.
        let sum = estimates.iter().flatten().map(|&ns| i128::from(ns)).sum::<i128>();
        law("server, path and client sum to the wall time", !absent || sum == i128::from(wall));
        let within = (0..3).all(|i| {
            let (low, high) = (lows[i].unwrap_or(0), highs[i].unwrap_or(0));
            let estimate = estimates[i].unwrap_or(low);
            0 <= low && low <= estimate && estimate <= high && high <= wall
        });
        law("each part lies within its bounds, and those within 0 and the wall time", within);
        law(
            "the first row comes before the last",
            value("first_row_ns", row).is_none_or(|first| (0..=wall).contains(&first)),
        );
        let connection = value("connection", row).unwrap_or(0);
        let is_known = u64::try_from(connection).is_ok_and(|connection| connection < run.connections);
        law("a query is of one of the run's connections", is_known);
        if is_known {
            let of = rows.each.entry(connection.unsigned_abs()).or_default();
            let started = value("started_ns", row)?;
            let is_next = |back_ns: i64| of.over_ns.saturating_sub(started) <= back_ns;
            law("a connection is asked one query after the other", run.back_ns.is_none_or(is_next));
            of.over_ns = started.saturating_add(wall);
            of.read += 1;
            of.failed += u64::from(!errors.is_null(row));
        }
        rows.missing += number.saturating_sub(next);
        rows.read += 1;
    }
    Some(())
}
