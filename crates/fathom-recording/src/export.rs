//! Samples for other programs.

use crate::convert::ParquetSink;
use crate::layout::Layout;
use crate::manifest::Manifest;
use crate::peers::{RowFormat, Run, rows};
use crate::recording::Recording;
use crate::{COLUMNS, Error, Kind};
use fathom_core::sample::Sample;
use std::io::{self, Write};

/// What to export to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Every column, with a header; an absent value is an empty field.
    Csv,
    /// One Parquet file, with every column.
    Parquet,
    /// A peer's file of rows.
    Peer(RowFormat),
}

/// Writes all samples of a recording to `out`; gives their number. What could not be read is told by
/// [`Recording::damage`]. `progress` is told the rows written, every now and then.
pub fn export(
    recording: &Recording,
    format: Format,
    out: impl Write + Send,
    mut progress: impl FnMut(u64),
) -> Result<u64, Error> {
    let failed = |source: io::Error| Error::Io {
        operation: "write the export of",
        path: recording.dir().to_owned(),
        source,
    };
    let mut written = 0;
    let mut chunks = recording.samples().inspect(|chunk| {
        written += chunk.len() as u64;
        progress(written);
    });
    let done = match format {
        Format::Parquet => {
            let mut out = Remembering { out, failed: None };
            let done = chunks_to_parquet(chunks, &mut out).map_err(io::Error::other);
            // The Parquet crate turns an error to text.
            out.failed.map_or(done, Err)
        }
        Format::Csv => {
            let mut out = io::BufWriter::new(out);
            header(&mut out)
                .and_then(|()| chunks.try_for_each(|chunk| chunk.iter().try_for_each(|s| row(&mut out, s))))
                .and_then(|()| out.flush())
        }
        Format::Peer(format) => {
            rows(format, &run(recording.manifest()), io::BufWriter::new(out)).and_then(|mut file| {
                chunks.try_for_each(|chunk| chunk.iter().try_for_each(|s| file.write(s)))?;
                file.finish()
            })
        }
    };
    done.map_err(failed)?;
    Ok(written)
}

/// What the formats of other tools say of a recorded run.
pub fn run(manifest: &Manifest) -> Run {
    let probe = &manifest.probe;
    let mode = probe["mode"].as_str().unwrap_or_default();
    let reflector = manifest.reflector.resolved.as_ref().unwrap_or(&manifest.reflector.address);
    Run {
        reflector: reflector.clone(),
        udp: mode.starts_with("udp"),
        connects: mode.starts_with("connect"),
        size: probe["size"].as_u64().and_then(|size| u32::try_from(size).ok()),
        interval_ns: probe["interval_ns"].as_u64(),
        started_utc_ns: i64::try_from(manifest.started_at.as_nanosecond()).unwrap_or(0),
    }
}

/// Keeps the first error of a writer.
struct Remembering<W> {
    out: W,
    failed: Option<io::Error>,
}

impl<W: Write> Remembering<W> {
    fn keep<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|e| {
            let kind = e.kind();
            self.failed.get_or_insert(e);
            kind.into()
        })
    }
}

impl<W: Write> Write for &mut Remembering<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.out.write(bytes);
        self.keep(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.out.flush();
        self.keep(done)
    }
}

fn chunks_to_parquet(
    mut chunks: impl Iterator<Item = Vec<Sample>>,
    out: impl Write + Send,
) -> Result<(), parquet::errors::ParquetError> {
    let mut sink = ParquetSink::new(out, Layout::Whole);
    chunks.try_for_each(|chunk| sink.push(&chunk))?;
    sink.finish().map(drop)
}

fn header(out: &mut impl Write) -> io::Result<()> {
    let names: Vec<&str> = COLUMNS.iter().map(|c| c.name).collect();
    writeln!(out, "{}", names.join(","))
}

fn row(out: &mut impl Write, sample: &Sample) -> io::Result<()> {
    for (i, column) in COLUMNS.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        match (column.get(sample), column.kind) {
            (None, _) => write!(out, "{comma}")?,
            (Some(value), Kind::I64) => write!(out, "{comma}{}", value as i64)?,
            (Some(value), _) => write!(out, "{comma}{value}")?,
        }
    }
    writeln!(out)
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn absent_values_are_empty_fields() {
        let mut out = Vec::new();
        let sample =
            Sample { connection: 1, seq: 2, size: 64, sent_ns: 5, lateness_ns: -3, ..Sample::default() };
        row(&mut out, &sample).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "1,2,64,5,-3,,,,,,,,,,0\n");
    }
}
