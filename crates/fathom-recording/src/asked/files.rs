//! The files of queries: which there are, which are missing, and their rows.

use crate::damage::Damage;
use crate::queries::{ADDED, name, ordinal, schema};
use crate::recording::Listed;
use crate::{Error, Recording, checksum};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use fathom_core::event::EventKind;
use fathom_core::query::{PARTIES, Part, Query, Split};
use fathom_core::text::count;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Seek;
use std::path::{Path, PathBuf};

/// All that a file's name or the event log speaks of.
#[derive(Debug)]
pub(crate) struct Files {
    dir: PathBuf,
    ordinals: BTreeSet<u32>,
    /// What `queries.closed` says; recordings of earlier versions have none.
    listed: BTreeMap<u32, Listed>,
}

impl Files {
    /// Those of a recording.
    pub(crate) fn of(recording: &Recording) -> Result<Self, Error> {
        let mut files = Self::in_dir(recording.dir())?;
        for event in recording.events()?.flatten().filter_map(|entry| entry.known().cloned()) {
            if let EventKind::QueriesClosed { file, rows, bytes, crc32 } = event.kind
                && let Some(ordinal) = ordinal(&file)
            {
                files.ordinals.insert(ordinal);
                files.listed.insert(ordinal, Listed { rows, bytes, crc32 });
            }
        }
        Ok(files)
    }

    /// Those of a directory, whatever its event log says.
    pub(crate) fn in_dir(dir: &Path) -> Result<Self, Error> {
        let mut ordinals = BTreeSet::new();
        for entry in std::fs::read_dir(dir).map_err(Error::io("list", dir))? {
            let file = entry.map_err(Error::io("list", dir))?.file_name();
            ordinals.extend(ordinal(&file.to_string_lossy()));
        }
        Ok(Self { dir: dir.to_owned(), ordinals, listed: BTreeMap::new() })
    }

    /// Whether there is no trace of any.
    pub(crate) fn is_empty(&self) -> bool {
        self.ordinals.is_empty()
    }

    /// The last of them.
    pub(crate) fn last(&self) -> Option<u32> {
        self.ordinals.last().copied()
    }

    /// Whether the log states what the last of them is: nothing comes after it.
    pub(crate) fn has_end(&self) -> bool {
        self.last().is_some_and(|last| self.listed.contains_key(&last))
    }

    /// Those that are there and that no event states, each as such an event.
    pub(crate) fn unlisted(&self) -> impl Iterator<Item = Result<EventKind, Damage>> {
        self.ordinals.iter().filter(|ordinal| !self.listed.contains_key(ordinal)).map(|&ordinal| {
            let bad = |reason: String| damage(&self.dir, ordinal, reason);
            let unread = |e: std::io::Error| bad(format!("cannot be read: {e}"));
            let mut file = crate::plain::open(&self.dir.join(name(ordinal))).map_err(unread)?;
            let (bytes, crc32) = checksum::of(&mut file).map_err(unread)?;
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| bad(e.to_string()))?;
            let rows = u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0);
            Ok(EventKind::QueriesClosed { file: name(ordinal), rows, bytes, crc32 })
        })
    }

    /// Every batch, in order. What cannot be read, or is missing, is told, and the others are read.
    pub(crate) fn each_batch(
        &self,
        mut take: impl FnMut(u32, &RecordBatch) -> Result<(), Damage>,
    ) -> Vec<Damage> {
        let (mut damage, mut next) = (Vec::new(), 0);
        for &ordinal in &self.ordinals {
            if ordinal > next {
                damage.push(missing(next, u64::from(ordinal - next), 0));
            }
            next = ordinal.saturating_add(1);
            damage.extend(self.read(ordinal, &mut take).err());
        }
        damage
    }

    fn read(
        &self,
        ordinal: u32,
        take: &mut impl FnMut(u32, &RecordBatch) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        let path = self.dir.join(name(ordinal));
        let bad = |reason: String| damage(&self.dir, ordinal, reason);
        let unread = |e: std::io::Error| bad(format!("cannot be read: {e}"));
        let listed = self.listed.get(&ordinal);
        if !path.exists() {
            return Err(missing(ordinal, 1, listed.map_or(0, |listed| listed.bytes)));
        }
        let mut file = crate::plain::open(&path).map_err(unread)?;
        if let Some(listed) = listed {
            let bytes = file.metadata().map_err(unread)?.len();
            if bytes != listed.bytes {
                return Err(bad(format!("it should have {}", count(listed.bytes, "byte"))));
            }
            if checksum::of(&mut file).map_err(unread)?.1 != listed.crc32 {
                return Err(bad("it does not have the checksum its event states".to_owned()));
            }
            file.rewind().map_err(unread)?;
        }
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| bad(e.to_string()))?;
        let rows = builder.metadata().file_metadata().num_rows();
        if let Some(listed) = listed.filter(|listed| u64::try_from(rows) != Ok(listed.rows)) {
            return Err(bad(format!("it should have {}", count(listed.rows, "row"))));
        }
        for batch in builder.build().map_err(|e| bad(e.to_string()))? {
            let batch = batch.map_err(|e| bad(e.to_string()))?;
            if !has_columns(&batch) {
                return Err(bad("its columns are not those of schema/queries.json".to_owned()));
            }
            take(ordinal, &batch)?;
        }
        Ok(())
    }

    /// Why a file does not count, or not all of it.
    pub(crate) fn damage(&self, ordinal: u32, reason: String) -> Damage {
        damage(&self.dir, ordinal, reason)
    }
}

/// So many files from this one on.
fn missing(ordinal: u32, files: u64, bytes: u64) -> Damage {
    let reason = match files {
        1 => "it is missing".to_owned(),
        n => format!("it is missing, as are the {} after it", n - 1),
    };
    Damage { file: name(ordinal), offset: 0, bytes, torn: false, reason }
}

fn damage(dir: &Path, ordinal: u32, reason: String) -> Damage {
    let bytes = dir.join(name(ordinal)).metadata().map_or(0, |file| file.len());
    Damage { file: name(ordinal), offset: 0, bytes, torn: false, reason }
}

fn has_columns(batch: &RecordBatch) -> bool {
    schema().fields().iter().all(|field| match batch.column_by_name(field.name()) {
        Some(column) => {
            column.data_type() == field.data_type() && (field.is_nullable() || column.null_count() == 0)
        }
        None => ADDED.contains(&field.name().as_str()),
    })
}

/// An integer of a row; `None`: it is absent.
fn value(batch: &RecordBatch, name: &str, row: usize) -> Option<i64> {
    let column = batch.column_by_name(name)?.as_primitive_opt::<Int64Type>()?;
    (!column.is_null(row)).then(|| column.value(row))
}

/// A row; `None`: a number that must be one is not.
pub(super) fn query(batch: &RecordBatch, row: usize) -> Option<Query> {
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
        kept_ns: None,
        login: maybe("login"),
        connection: maybe("connection").unwrap_or(0),
    })
}
