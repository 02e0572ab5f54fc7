//! From samples to record batches of the open segment.

use super::{CONTINUATION, CRC_KEY};
use crate::columns::{COLUMNS, Kind};
use arrow_ipc::{
    Buffer, FieldNode, KeyValue, KeyValueArgs, Message, MessageArgs, MessageHeader, MetadataVersion,
    RecordBatch, RecordBatchArgs,
};
use fathom_core::sample::Sample;
use flatbuffers::FlatBufferBuilder;

/// Turns samples into record batches; keeps its buffers, so that nothing is allocated. A sample takes its part of the work when
/// it comes, and a batch is ended column by column while the next one fills: who has a moment between two samples is never busy
/// for long.
#[derive(Default)]
pub(crate) struct Encoder {
    flat: FlatBufferBuilder<'static>,
    filling: Rows,
    /// The batch that is being ended, as far as it is.
    ending: Rows,
    place: Place,
    /// How long the metadata of every batch are; 0: none was ended yet.
    metadata_len: usize,
}

/// The rows of a batch.
#[derive(Default)]
struct Rows {
    count: usize,
    columns: [Values; COLUMNS.len()],
}

/// A column of a batch.
#[derive(Default)]
struct Values {
    bytes: Vec<u8>,
    /// A bit a row.
    validity: Vec<u8>,
    nulls: usize,
}

impl Values {
    /// The validity, where it says something.
    fn validity(&self) -> &[u8] {
        if self.nulls > 0 { &self.validity } else { &[] }
    }

    fn clear(&mut self) {
        self.nulls = 0;
        self.validity.clear();
        self.bytes.clear();
    }
}

/// Where the batch that is being ended stands.
#[derive(Default)]
struct Place {
    /// Where its metadata are to be, and its body.
    metadata: std::ops::Range<usize>,
    /// Columns that stand there.
    columns: usize,
    nodes: [FieldNode; COLUMNS.len()],
    /// Their validity and their values, within the body.
    buffers: [[Buffer; 2]; COLUMNS.len()],
    checksum: crc32fast::Hasher,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Encoder {
    /// Adds a row to the batch to come.
    pub(crate) fn push(&mut self, sample: &Sample) {
        let Rows { count, columns } = &mut self.filling;
        for (column, values) in COLUMNS.iter().zip(columns) {
            let value = column.get(sample);
            if column.nullable {
                if count.is_multiple_of(8) {
                    values.validity.push(0);
                }
                match (value, values.validity.last_mut()) {
                    (Some(_), Some(bits)) => *bits |= 1 << (*count % 8),
                    _ => values.nulls += 1,
                }
            }
            let value = value.unwrap_or_default();
            match column.kind {
                Kind::U16 => values.bytes.extend_from_slice(&(value as u16).to_le_bytes()),
                Kind::U32 => values.bytes.extend_from_slice(&(value as u32).to_le_bytes()),
                Kind::U64 | Kind::I64 => values.bytes.extend_from_slice(&value.to_le_bytes()),
            }
        }
        *count += 1;
    }

    /// Appends a batch of these samples to `out`.
    pub(crate) fn encode(&mut self, samples: &[Sample], out: &mut Vec<u8>) {
        for sample in samples {
            self.push(sample);
        }
        self.finish(8, out);
    }

    /// Appends the batch to `out`, filled up to a multiple of `unit` bytes.
    pub(crate) fn finish(&mut self, unit: usize, out: &mut Vec<u8>) {
        self.begin_ending(unit, out);
        self.end(out);
    }

    /// How many rows the batch to come has.
    pub(crate) fn rows(&self) -> usize {
        self.filling.count
    }

    /// Whether a batch is being ended.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.count > 0
    }

    /// Begins to append the batch to `out`, where it will fill a multiple of `unit` bytes. One that is being ended must be
    /// whole by then.
    pub(crate) fn begin_ending(&mut self, unit: usize, out: &mut Vec<u8>) {
        debug_assert!(!self.is_ending(), "the batch before is not whole");
        debug_assert!(self.filling.count > 0, "a batch without rows has shorter metadata");
        std::mem::swap(&mut self.filling, &mut self.ending);
        let padded = |bytes: &[u8]| bytes.len().next_multiple_of(8);
        let columns = self.ending.columns.iter();
        let body: usize = columns.map(|values| padded(values.validity()) + padded(&values.bytes)).sum();
        self.place = Place::default();
        if self.metadata_len == 0 {
            self.metadata_len = self.metadata(0, body).len();
        }
        let least = self.metadata_len;
        // In Arrow the metadata's length counts what fills it up.
        let len = (8 + least + body).next_multiple_of(unit) - body - 8;
        out.extend_from_slice(&CONTINUATION);
        out.extend_from_slice(&(len as u32).to_le_bytes());
        self.place.metadata = out.len()..out.len() + len;
        out.resize(out.len() + len, 0);
    }

    /// Appends what is left of the batch that is being ended, if one is, to the same `out`.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        while self.is_ending() {
            self.end_column(out);
        }
    }

    /// Appends a further column of the batch that is being ended, if one is, to the same `out`.
    pub(crate) fn end_column(&mut self, out: &mut Vec<u8>) {
        if !self.is_ending() {
            return;
        }
        let (at, place) = (self.place.columns, &mut self.place);
        let values = &mut self.ending.columns[at];
        let body = place.metadata.end;
        place.nodes[at] = FieldNode::new(self.ending.count as i64, values.nulls as i64);
        place.buffers[at] = [values.validity(), &values.bytes].map(|bytes| {
            let start = out.len();
            out.extend_from_slice(bytes);
            // Each buffer is padded to 8 bytes.
            out.resize(start + bytes.len().next_multiple_of(8), 0);
            place.checksum.update(&out[start..]);
            Buffer::new((start - body) as i64, bytes.len() as i64)
        });
        values.clear();
        place.columns += 1;
        if place.columns < COLUMNS.len() {
            return;
        }
        let (checksum, metadata) = (place.checksum.clone().finalize(), place.metadata.clone());
        let written = self.metadata(checksum, out.len() - body);
        out[metadata][..written.len()].copy_from_slice(written);
        self.ending.count = 0;
    }

    /// The metadata of the batch that is being ended, by what is known of it.
    fn metadata(&mut self, checksum: u32, body: usize) -> &[u8] {
        let flat = &mut self.flat;
        flat.reset();
        let nodes = flat.create_vector(&self.place.nodes);
        let buffers = flat.create_vector(self.place.buffers.as_flattened());
        let batch = RecordBatch::create(
            flat,
            &RecordBatchArgs {
                length: self.ending.count as i64,
                nodes: Some(nodes),
                buffers: Some(buffers),
                compression: None,
                variadicBufferCounts: None,
            },
        );
        let key = flat.create_string(CRC_KEY);
        let digits = decimal(checksum);
        let value = flat.create_string(std::str::from_utf8(&digits).unwrap_or_default());
        let pair = KeyValue::create(flat, &KeyValueArgs { key: Some(key), value: Some(value) });
        let metadata = flat.create_vector(&[pair]);
        let message = Message::create(
            flat,
            &MessageArgs {
                version: MetadataVersion::V5,
                header_type: MessageHeader::RecordBatch,
                header: Some(batch.as_union_value()),
                bodyLength: body as i64,
                custom_metadata: Some(metadata),
            },
        );
        flat.finish(message, None);
        flat.finished_data()
    }
}

/// A number in decimal, with as many digits as the largest has.
fn decimal(number: u32) -> [u8; 10] {
    let (mut digits, mut rest) = ([b'0'; 10], number);
    for digit in digits.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::decimal;

    #[test]
    fn a_checksum_has_always_as_many_digits() {
        for number in [0, 7, 1_234_567_890, u32::MAX] {
            assert_eq!(&decimal(number), format!("{number:010}").as_bytes());
        }
    }
}
