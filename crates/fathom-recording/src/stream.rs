//! The open segment: a plain Arrow IPC stream, one record batch a flush, each with the CRC-32 of its body.
//!
//! Writing and reading go straight between samples and bytes. The reader trusts nothing: every length is held
//! against what the file still has before anything is allocated, every offset against the body, every body against
//! its checksum. The first thing that does not fit ends the stream and is reported.
//! Format: <https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc>

mod behind;
mod encoder;

pub(crate) use behind::{Behind, MESSAGE_HEAD, behind};
pub(crate) use encoder::Encoder;

use crate::columns::{COLUMNS, Column, Kind, arrow_schema};
use crate::damage::Damage;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{Buffer, Endianness, Message, MetadataVersion, Type};
use arrow_schema::ArrowError;
use fathom_core::sample::Sample;
use std::io::Read;

/// "A 32-bit continuation indicator. The value 0xFFFFFFFF indicates a valid message."
pub(crate) const CONTINUATION: [u8; 4] = [0xFF; 4];
/// The key of a batch's own metadata under which the CRC-32 (IEEE 802.3) of its body stands, in decimal.
const CRC_KEY: &str = "crc32";
const MAX_METADATA: u64 = 64 << 10;
const MAX_ROWS: i64 = 1 << 16;
const MAX_BODY: u64 = 16 << 20;

/// What is written past the system's cache is as long as a whole number of these, in bytes, and stands where one begins: the
/// largest block of a disk that is in use.
pub(crate) const BLOCK: usize = 4_096;

/// The bytes that begin a stream: the schema, filled up to a block.
pub(crate) fn head() -> Result<Vec<u8>, ArrowError> {
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?;
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &arrow_schema(), options)?;
    let mut bytes = std::mem::take(writer.get_mut());
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    let metadata = (bytes.len() - 8) as u32;
    bytes[4..8].copy_from_slice(&metadata.to_le_bytes());
    Ok(bytes)
}

/// The samples of record batches that an [`Encoder`] made.
pub(crate) fn decode_batches(bytes: &[u8]) -> Vec<Sample> {
    let (name, len) = (String::new(), bytes.len() as u64);
    // What comes before is the schema, which this one does not have.
    let decoder = Decoder { begun: true, ..Decoder::new(bytes, name, len) };
    decoder.flatten().collect()
}

/// Reads a stream batch by batch up to its end or the first thing that does not fit.
#[derive(Debug)]
pub(crate) struct Decoder<R> {
    input: R,
    file: String,
    len: u64,
    /// Bytes that are whole and understood.
    at: u64,
    begun: bool,
    damage: Option<Damage>,
    done: bool,
    metadata: Vec<u8>,
    body: Vec<u8>,
}

/// Why a stream cannot be read on.
struct Unreadable {
    torn: bool,
    reason: String,
}

fn torn<T>(reason: &str) -> Result<T, Unreadable> {
    Err(Unreadable { torn: true, reason: reason.to_owned() })
}

fn bad<T>(reason: impl Into<String>) -> Result<T, Unreadable> {
    Err(Unreadable { torn: false, reason: reason.into() })
}

impl<R: Read> Decoder<R> {
    /// Reads the first `len` bytes of `input`, which reports name as `file`.
    pub(crate) fn new(input: R, file: String, len: u64) -> Self {
        let (metadata, body) = (Vec::new(), Vec::new());
        Self { input, file, len, at: 0, begun: false, damage: None, done: false, metadata, body }
    }

    /// What ended the stream, where it was not its end.
    pub(crate) fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    fn batch(&mut self) -> Result<Option<Vec<Sample>>, Unreadable> {
        if !self.begun {
            if self.len == 0 {
                return torn("the file is empty");
            }
            self.frame()?;
            check_schema(&self.metadata)?;
            self.begun = true;
            self.at += self.consumed();
        }
        if self.at == self.len || !self.frame()? {
            return Ok(None);
        }
        let samples = decode(&self.metadata, &self.body)?;
        self.at += self.consumed();
        Ok(Some(samples))
    }

    /// Reads the next message into `metadata` and `body`; false at the mark that ends a stream.
    fn frame(&mut self) -> Result<bool, Unreadable> {
        let left = self.len - self.at;
        let mut prefix = [0; 8];
        if left < 8 {
            return torn("the last message is cut off");
        }
        self.input.read_exact(&mut prefix).map_err(unreadable)?;
        if prefix[..4] != CONTINUATION {
            return bad("no message begins here");
        }
        let size = u64::from(u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]));
        if size == 0 {
            return if left == 8 { Ok(false) } else { bad("bytes follow the end of the stream") };
        }
        if size > MAX_METADATA {
            return bad(format!("a message claims {size} bytes of metadata"));
        }
        if size > left - 8 {
            return torn("the last message is cut off");
        }
        self.metadata.resize(size as usize, 0);
        self.input.read_exact(&mut self.metadata).map_err(unreadable)?;
        let body = body_length(&self.metadata)?;
        if body > left - 8 - size {
            return torn("the last record batch is cut off");
        }
        self.body.resize(body as usize, 0);
        self.input.read_exact(&mut self.body).map_err(unreadable)?;
        Ok(true)
    }

    fn consumed(&self) -> u64 {
        8 + (self.metadata.len() + self.body.len()) as u64
    }
}

impl<R: Read> Iterator for Decoder<R> {
    type Item = Vec<Sample>;

    fn next(&mut self) -> Option<Vec<Sample>> {
        if self.done {
            return None;
        }
        let read = self.batch();
        self.done = !matches!(read, Ok(Some(_)));
        read.unwrap_or_else(|Unreadable { torn, reason }| {
            let (offset, bytes) = (self.at, self.len - self.at);
            self.damage = Some(Damage { file: self.file.clone(), offset, bytes, torn, reason });
            None
        })
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it is used as a function of map_err")]
fn unreadable(e: std::io::Error) -> Unreadable {
    Unreadable { torn: false, reason: format!("cannot be read: {e}") }
}

fn message(metadata: &[u8]) -> Result<Message<'_>, Unreadable> {
    arrow_ipc::root_as_message(metadata).or_else(|_| bad("a message's metadata is not valid"))
}

fn body_length(metadata: &[u8]) -> Result<u64, Unreadable> {
    match u64::try_from(message(metadata)?.bodyLength()) {
        Ok(len) if len <= MAX_BODY => Ok(len),
        _ => bad("a message claims a body that no batch has"),
    }
}

fn check_schema(metadata: &[u8]) -> Result<(), Unreadable> {
    let Some(schema) = message(metadata)?.header_as_schema() else {
        return bad("the stream does not begin with a schema");
    };
    let Some(fields) = schema.fields() else { return bad("the schema has no columns") };
    if schema.endianness() != Endianness::Little || fields.len() != COLUMNS.len() {
        return bad("the schema is not that of the format");
    }
    for (field, column) in fields.iter().zip(&COLUMNS) {
        let int = if field.type_type() == Type::Int { field.type_as_int() } else { None };
        let fits = field.name() == Some(column.name)
            && field.nullable() == column.nullable
            && field.dictionary().is_none()
            && int.is_some_and(|int| {
                int.bitWidth() == column.kind.width() as i32 * 8
                    && int.is_signed() == (column.kind == Kind::I64)
            });
        if !fits {
            return bad(format!("column {} is not that of the format", column.name));
        }
    }
    Ok(())
}

fn decode(metadata: &[u8], body: &[u8]) -> Result<Vec<Sample>, Unreadable> {
    let message = message(metadata)?;
    let (Some(batch), true) = (message.header_as_record_batch(), message.version() == MetadataVersion::V5)
    else {
        return bad("a message is no record batch of metadata version 5");
    };
    let stated = message.custom_metadata().and_then(|pairs| {
        let pair = pairs.iter().find(|p| p.key() == Some(CRC_KEY))?;
        pair.value()?.parse::<u32>().ok()
    });
    if stated != Some(crc32fast::hash(body)) {
        return bad("a record batch does not have its checksum");
    }
    let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
        return bad("a record batch has no columns");
    };
    let plain = batch.compression().is_none() && batch.variadicBufferCounts().is_none_or(|v| v.is_empty());
    let rows = batch.length();
    if !plain
        || nodes.len() != COLUMNS.len()
        || buffers.len() != 2 * COLUMNS.len()
        || !(0..=MAX_ROWS).contains(&rows)
    {
        return bad("a record batch does not have the layout of the format");
    }
    let mut samples = vec![Sample::default(); rows as usize];
    // The buffers stand one after the other and fill the body, so that a damaged offset, which the checksum of the
    // body does not cover, cannot pass for another column.
    let mut rest = body;
    for (i, column) in COLUMNS.iter().enumerate() {
        let validity = next_buffer(body, &mut rest, buffers.get(2 * i))?;
        let values = next_buffer(body, &mut rest, buffers.get(2 * i + 1))?;
        let node = nodes.get(i);
        let null_count = if node.length() == rows { node.null_count() } else { -1 };
        if read_column(column, &mut samples, validity, values) != Some(null_count) {
            return bad(format!("column {} of a record batch contradicts itself", column.name));
        }
    }
    if rest.is_empty() { Ok(samples) } else { bad("a record batch has bytes in no column") }
}

fn next_buffer<'a>(body: &[u8], rest: &mut &'a [u8], buffer: &Buffer) -> Result<&'a [u8], Unreadable> {
    let at = body.len() - rest.len();
    let len = usize::try_from(buffer.length()).unwrap_or(usize::MAX);
    let padded = len.checked_next_multiple_of(8);
    match padded.and_then(|padded| rest.split_at_checked(padded)) {
        Some((bytes, after)) if buffer.offset() == at as i64 => {
            *rest = after;
            Ok(&bytes[..len])
        }
        _ => bad("a buffer is not where the one before it ends"),
    }
}

/// Fills one column of the samples; gives the number of nulls, or nothing where the bytes do not fit the column.
fn read_column(column: &Column, samples: &mut [Sample], validity: &[u8], values: &[u8]) -> Option<i64> {
    let width = column.kind.width();
    let all_valid = validity.is_empty();
    if values.len() < samples.len() * width || (!all_valid && validity.len() < samples.len().div_ceil(8)) {
        return None;
    }
    let mut nulls = 0;
    for (row, (sample, bytes)) in samples.iter_mut().zip(values.chunks_exact(width)).enumerate() {
        let valid = all_valid || validity[row / 8] & (1 << (row % 8)) != 0;
        let value = valid.then(|| bytes.iter().rev().fold(0_u64, |v, &b| v << 8 | u64::from(b)));
        nulls += i64::from(!valid);
        if !(valid || column.nullable) || !column.put(sample, value) {
            return None;
        }
    }
    Some(nulls)
}
