//! `truth-packets.parquet`: one row for each packet that ended, in the order in which they ended.

use super::record::{Names, StampedRecord};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use fathom_core::clock::ClockMap;
use fathom_fabric::packet::Protocol;
use fathom_fabric::truth::{Origin, PacketFate};
use fathom_os::replace::create;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows that are handed to the encoder at once.
const CHUNK_ROWS: usize = 8_192;

/// Name, type and whether it can be absent. Times are ns since the Unix epoch, as `sent_ns` of a recording.
const COLUMNS: [(&str, DataType, bool); 13] = [
    // The packet's number in the fabric.
    ("id", DataType::UInt64, false),
    // When it came in, or was made.
    ("in_ns", DataType::Int64, false),
    // When it was due at its host, or ended otherwise.
    ("due_ns", DataType::Int64, false),
    // When its host was given it; absent of packets that ended otherwise.
    ("out_ns", DataType::Int64, true),
    // The host that sent it, or the node that made it.
    ("from", DataType::Utf8, false),
    // The host that got it.
    ("to", DataType::Utf8, true),
    // "tcp", "udp", "icmp", or the number of another.
    ("protocol", DataType::Utf8, false),
    // Address and port as its sender wrote them.
    ("source", DataType::Utf8, false),
    ("destination", DataType::Utf8, false),
    // Bytes from the IP header on, as it ended.
    ("size", DataType::UInt32, false),
    // Labels of the paths that it went, with + between them.
    ("path", DataType::Utf8, true),
    // "host", "made", "copy", "fragment": where it came from.
    ("origin", DataType::Utf8, false),
    // "delivered", "taken", or why it was dropped, in the words of truth.jsonl.
    ("fate", DataType::Utf8, false),
];

/// The file, as it is written.
pub(super) struct PacketFile {
    path: PathBuf,
    writer: ArrowWriter<File>,
    schema: Arc<Schema>,
    names: Names,
    waiting: Vec<(StampedRecord, [i64; 2], Option<i64>)>,
}

impl PacketFile {
    pub(super) fn create(path: &Path, names: Names) -> io::Result<Self> {
        let fields = COLUMNS.into_iter().map(|(name, kind, absent)| Field::new(name, kind, absent));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_created_by(format!("fathom {}", env!("CARGO_PKG_VERSION")));
        for number in ["id", "in_ns", "due_ns", "out_ns"] {
            properties = properties
                .set_column_dictionary_enabled(ColumnPath::from(number), false)
                .set_column_encoding(ColumnPath::from(number), Encoding::DELTA_BINARY_PACKED);
        }
        let writer =
            ArrowWriter::try_new(create(path, 0o600)?, Arc::clone(&schema), Some(properties.build()))?;
        Ok(Self { path: path.to_owned(), writer, schema, names, waiting: Vec::new() })
    }

    /// Takes packets that ended; their times become UTC by the anchor that is in force now.
    pub(super) fn write(&mut self, batch: &[StampedRecord], clocks: &ClockMap) -> Result<(), String> {
        for stamped in batch {
            let [in_ns, due_ns] = [stamped.record.in_ns, stamped.record.due_ns].map(|ns| clocks.utc_of(ns));
            let out_ns = stamped.out_ns.map(|ns| clocks.utc_of(ns));
            self.waiting.push((stamped.clone(), [in_ns, due_ns], out_ns));
        }
        if self.waiting.len() >= CHUNK_ROWS { self.encode() } else { Ok(()) }
    }

    /// Ends the file. Without this it cannot be read.
    pub(super) fn finish(mut self) -> Result<(), String> {
        self.encode()?;
        match self.writer.close() {
            Ok(_) => Ok(()),
            Err(e) => Err(failed(&self.path, &e)),
        }
    }

    fn encode(&mut self) -> Result<(), String> {
        let rows = std::mem::take(&mut self.waiting);
        let node = |id: u32| self.names.nodes.get(id as usize).map_or("", String::as_str);
        let text = |of: &dyn Fn(&StampedRecord) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(rows.iter().map(|(row, ..)| of(row))))
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|(row, ..)| row.record.id))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1[0]))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1[1]))),
            Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
            text(&|row| node(row.record.from.0).to_owned()),
            Arc::new(
                rows.iter().map(|(row, ..)| row.record.to.map(|to| node(to.0))).collect::<StringArray>(),
            ),
            text(&|row| protocol(row.record.flow.protocol)),
            text(&|row| row.record.flow.source.to_string()),
            text(&|row| row.record.flow.destination.to_string()),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|(row, ..)| row.record.size))),
            Arc::new(rows.iter().map(|(row, ..)| self.paths(row)).collect::<StringArray>()),
            text(&|row| origin(row.record.origin).to_owned()),
            text(&|row| fate(row.record.fate)),
        ];
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(ParquetError::from)
            .and_then(|batch| self.writer.write(&batch))
            .map_err(|e| failed(&self.path, &e))
    }

    fn paths(&self, row: &StampedRecord) -> Option<String> {
        let label = |id: u32| self.names.paths.get(id as usize).map_or("", String::as_str);
        let labels: Vec<&str> = row.record.paths.iter().map(|path| label(path.0)).collect();
        (!labels.is_empty()).then(|| labels.join("+"))
    }
}

fn failed(path: &Path, e: &ParquetError) -> String {
    format!("cannot write {}: {e}; the packets' truth is not complete", path.display())
}

fn protocol(protocol: Protocol) -> String {
    match protocol {
        Protocol::Tcp => "tcp".to_owned(),
        Protocol::Udp => "udp".to_owned(),
        Protocol::Icmp => "icmp".to_owned(),
        Protocol::Other(number) => number.to_string(),
    }
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Host => "host",
        Origin::Made => "made",
        Origin::Copy => "copy",
        Origin::Fragment => "fragment",
    }
}

/// One word, as truth.jsonl has it.
fn fate(fate: PacketFate) -> String {
    let word = match fate {
        PacketFate::Delivered => return "delivered".to_owned(),
        PacketFate::Taken => return "taken".to_owned(),
        PacketFate::Dropped(reason) => serde_json::to_value(reason),
    };
    word.ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}
