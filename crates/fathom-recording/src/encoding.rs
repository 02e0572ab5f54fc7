//! How the columns of a closed segment are encoded: each in that of three ways which is the smallest for the segment's first
//! rows. All three are read by every reader of Parquet; `BYTE_STREAM_SPLIT`, which is smaller yet back to back, is not (Spark 4).

use crate::columns::to_batch;
use crate::layout::Layout;
use arrow_schema::Schema;
use fathom_core::sample::Sample;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;
use std::io::Write;
use std::sync::Arc;

/// Rows that are handed to the Parquet encoder at once.
pub(crate) const CHUNK_ROWS: usize = 4_096;
/// Rows of a row group: what a reader, and the encoder here, must hold at once.
const GROUP_ROWS: usize = 128 << 10;
/// Rows by which the ways are compared.
pub(crate) const TRIAL_ROWS: usize = 32 << 10;

/// A way to encode a column, before zstd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Differences from one value to the next: what rises steadily, and values that spread evenly.
    Delta,
    /// As they are: values near each other with some far off, which widen 32 differences each.
    Plain,
    /// A table of the values: few of them.
    Dictionary,
}

const WAYS: [Way; 3] = [Way::Delta, Way::Plain, Way::Dictionary];

impl Way {
    fn set(self, builder: WriterPropertiesBuilder, name: &str) -> WriterPropertiesBuilder {
        let path = || ColumnPath::from(name);
        // Where there are too many values for a table the writer goes on with the encoding.
        let encoding = if self == Self::Plain { Encoding::PLAIN } else { Encoding::DELTA_BINARY_PACKED };
        builder
            .set_column_encoding(path(), encoding)
            .set_column_dictionary_enabled(path(), self == Self::Dictionary)
    }
}

/// A writer of segments to `out`, which encodes as is best for the first samples that are to come, some [`TRIAL_ROWS`].
pub(crate) fn writer<W: Write + Send>(
    out: W,
    layout: Layout,
    schema: &Arc<Schema>,
    first: &[Sample],
) -> Result<ArrowWriter<W>, ParquetError> {
    let mut best = vec![(Way::Delta, i64::MAX); layout.columns().len()];
    for way in WAYS {
        let ways = vec![way; best.len()];
        let mut trial = with(Vec::new(), layout, schema, &ways)?;
        for chunk in first[..first.len().min(TRIAL_ROWS)].chunks(CHUNK_ROWS) {
            trial.write(&to_batch(schema, layout.columns(), chunk)?)?;
        }
        let written = trial.close()?;
        let sizes = written.row_groups().first().map(RowGroupMetaData::columns).unwrap_or_default();
        for (best, column) in best.iter_mut().zip(sizes) {
            if column.compressed_size() < best.1 {
                *best = (way, column.compressed_size());
            }
        }
    }
    let ways: Vec<Way> = best.into_iter().map(|(way, _)| way).collect();
    with(out, layout, schema, &ways)
}

fn with<W: Write + Send>(
    out: W,
    layout: Layout,
    schema: &Arc<Schema>,
    ways: &[Way],
) -> Result<ArrowWriter<W>, ParquetError> {
    let builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_row_count_limit(GROUP_ROWS / 4)
        .set_write_batch_size(CHUNK_ROWS)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_created_by(format!("fathom-recording {}", env!("CARGO_PKG_VERSION")));
    let columns = layout.columns().iter().zip(ways);
    let builder = columns.fold(builder, |builder, (column, way)| way.set(builder, column.name));
    // Types and absence stand in Parquet's own schema; Arrow's, beside it, is half of a small segment's footer.
    let options = ArrowWriterOptions::new().with_properties(builder.build()).with_skip_arrow_metadata(true);
    ArrowWriter::try_new_with_options(out, Arc::clone(schema), options)
}
