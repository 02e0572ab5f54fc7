//! An open segment becomes a Parquet file.

use crate::columns::to_batch;
use crate::damage::Damage;
use crate::disk::Disk;
use crate::encoding::{self, CHUNK_ROWS, TRIAL_ROWS};
use crate::layout::Layout;
use crate::remains::judged;
use crate::stream::Decoder;
use crate::{Error, segment_name};
use arrow_schema::Schema;
use fathom_core::sample::Sample;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;
use std::sync::Arc;

/// A segment that stands in a Parquet file, durably and under its final name.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) file: String,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) crc32: u32,
    /// The latest moment in it: the greatest sent + RTT, ns since the Unix epoch.
    pub(crate) last_ns: Option<i64>,
    /// What of the open segment could not be read.
    pub(crate) damage: Option<Damage>,
}

/// Writes samples as Parquet, with bounded memory.
pub(crate) struct ParquetSink<W: Write + Send> {
    /// Until there are enough rows to see how they are encoded best; then the writer has it.
    out: Option<W>,
    writer: Option<ArrowWriter<W>>,
    layout: Layout,
    schema: Arc<Schema>,
    waiting: Vec<Sample>,
    rows: u64,
}

impl<W: Write + Send> ParquetSink<W> {
    pub(crate) fn new(out: W, layout: Layout) -> Self {
        let schema = Arc::new(layout.schema());
        Self { out: Some(out), writer: None, layout, schema, waiting: Vec::new(), rows: 0 }
    }

    pub(crate) fn push(&mut self, samples: &[Sample]) -> Result<(), ParquetError> {
        // Flushes of a slow probe are one row each: they are gathered, a batch costs an array a column.
        self.waiting.extend_from_slice(samples);
        let enough = if self.writer.is_none() { TRIAL_ROWS } else { CHUNK_ROWS };
        if self.waiting.len() >= enough { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), ParquetError> {
        if let Some(out) = self.out.take() {
            self.writer = Some(encoding::writer(out, self.layout, &self.schema, &self.waiting)?);
        }
        let Some(writer) = &mut self.writer else {
            return Err(ParquetError::General("the file could not be begun".to_owned()));
        };
        for chunk in self.waiting.chunks(CHUNK_ROWS) {
            writer.write(&to_batch(&self.schema, self.layout.columns(), chunk)?)?;
        }
        self.rows += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<u64, ParquetError> {
        self.write()?;
        if let Some(writer) = self.writer {
            writer.close()?;
        }
        Ok(self.rows)
    }
}

/// A file that is summed while it is written. The first failure is kept: the Parquet crate would turn it to text.
struct Summed<'a> {
    disk: &'a dyn Disk,
    file: &'a File,
    crc: crc32fast::Hasher,
    bytes: u64,
    failed: Option<io::Error>,
}

impl Write for &mut Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(e) = self.disk.write(self.file, &[bytes]) {
            let kind = e.kind();
            self.failed.get_or_insert(e);
            return Err(kind.into());
        }
        self.crc.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Turns `samples-NNNNN.arrows` into `samples-NNNNN.parquet`; the open segment stays where it is. With `whole`, an
/// open segment that cannot be read to its end is an error; without, what can be read is kept.
pub(crate) fn convert(
    disk: &dyn Disk,
    dir: &Path,
    ordinal: u32,
    layout: Layout,
    whole: bool,
) -> Result<Closed, Error> {
    let name = segment_name(ordinal, "arrows");
    let source = dir.join(&name);
    let input = crate::plain::open(&source).map_err(Error::io("open", &source))?;
    let len = input.metadata().map_err(Error::io("read", &source))?.len();
    let mut decoder = Decoder::new(BufReader::with_capacity(64 << 10, input), name, len);

    let file = segment_name(ordinal, "parquet");
    let target = dir.join(&file);
    let temporary = dir.join(format!("{file}.tmp"));
    let written = (|| {
        let out = disk.create(&temporary).map_err(Error::io("create", &temporary))?;
        let mut sink = Summed { disk, file: &out, crc: crc32fast::Hasher::new(), bytes: 0, failed: None };
        let (rows, last_ns) = match fill(&mut sink, layout, &mut decoder) {
            Ok(done) => done,
            Err(e) => {
                return Err(match sink.failed {
                    Some(source) => Error::io("write", &temporary)(source),
                    None => Error::Segment { path: source.clone(), reason: e.to_string() },
                });
            }
        };
        if let (true, Some(damage)) = (whole, decoder.damage()) {
            return Err(Error::Segment { path: source.clone(), reason: damage.reason.clone() });
        }
        let (bytes, crc32) = (sink.bytes, sink.crc.finalize());
        disk.sync(&out).map_err(Error::io("sync", &temporary))?;
        disk.rename(&temporary, &target).map_err(Error::io("rename into place", &target))?;
        disk.sync_dir(dir).map_err(Error::io("sync", dir))?;
        let damage = decoder.damage().map(|found| judged(&source, found));
        Ok(Closed { file, rows, bytes, crc32, last_ns, damage })
    })();
    if written.is_err() {
        // It holds space that a full disk needs; should this fail too, recovery removes it.
        let _ = disk.remove(&temporary);
    }
    written
}

fn fill(
    sink: &mut Summed<'_>,
    layout: Layout,
    batches: impl Iterator<Item = Vec<Sample>>,
) -> Result<(u64, Option<i64>), ParquetError> {
    let mut parquet = ParquetSink::new(sink, layout);
    let mut last_ns = None;
    for samples in batches {
        last_ns = last_ns.max(samples.iter().map(last_moment).max());
        parquet.push(&samples)?;
    }
    Ok((parquet.finish()?, last_ns))
}

/// When a sample was over: sent + RTT, or sent where nothing came.
pub(crate) fn last_moment(sample: &Sample) -> i64 {
    sample.sent_ns.saturating_add(sample.rtt_ns.unwrap_or(0))
}
