//! Rows that are made ready for the disk by who takes the samples, in time that it has to spare: the thread that writes them
//! then has nothing to do but write.
//!
//! They stand in memory as a disk takes them ([`BLOCK`]), and need not be copied into the system's cache: that copy was most of
//! what the writing thread did.

use crate::COLUMNS;
use crate::stream::{BLOCK, Encoder, decode_batches};
use fathom_core::sample::Sample;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Rows of a record batch. To end one takes a few µs.
const BATCH_ROWS: usize = 256;
/// Rows that are given at once.
pub const AT_ONCE: usize = 10 * BATCH_ROWS;
/// Room for them: columns of at most 8 bytes a row, and what a batch says of itself.
const ROOM: usize = AT_ONCE * COLUMNS.len() * 8 + (AT_ONCE / BATCH_ROWS) * BLOCK;
/// Buffers that are kept for further rows: those of a second.
const SPARE: usize = 64;

/// Buffers that were written, for those to come: memory that is given back and taken again costs page faults. Neither end waits
/// for the other: where the lock is taken, memory is.
type Spare = Arc<Mutex<Vec<Vec<u8>>>>;

/// Gathers samples until they are made ready.
#[derive(Debug, Default)]
pub struct Packer {
    encoder: Encoder,
    /// Batches that are ready, and the one that is being ended, after [`Packer::from`] bytes that are not theirs.
    bytes: Vec<u8>,
    from: usize,
    /// The samples in those.
    samples: usize,
    /// When the latest of those was sent, and the latest of all.
    ended_ns: i64,
    sent_ns: i64,
    spare: Spare,
}

/// Samples in order, as they stand on the disk.
#[derive(Debug)]
pub struct Packed {
    bytes: Vec<u8>,
    from: usize,
    samples: usize,
    /// When the last of them was sent.
    sent_ns: i64,
    spare: Spare,
}

impl Packer {
    /// One that has memory for so many pieces and has written to all of it: the first write to a page costs a fault, and would come
    /// in the middle of a round trip.
    pub fn with_room(pieces: usize) -> Self {
        let piece = || {
            let mut bytes = vec![0xFF; ROOM + BLOCK];
            bytes.clear();
            bytes
        };
        let spare = Arc::new(Mutex::new(std::iter::repeat_with(piece).take(pieces.min(SPARE)).collect()));
        Self { spare, ..Self::default() }
    }

    /// Takes a sample; gives rows when there are [`AT_ONCE`] that are ready.
    pub fn push(&mut self, sample: &Sample) -> Option<Packed> {
        self.encoder.push(sample);
        self.sent_ns = sample.sent_ns;
        if self.encoder.rows() >= BATCH_ROWS {
            self.begin_ending();
        } else {
            self.encoder.end_column(&mut self.bytes);
        }
        if self.samples >= AT_ONCE && !self.encoder.is_ending() { self.give() } else { None }
    }

    /// The batch is full; it is ended while the next one fills.
    fn begin_ending(&mut self) {
        self.encoder.end(&mut self.bytes);
        if self.bytes.is_empty() {
            self.bytes = self.spare.try_lock().ok().and_then(|mut spare| spare.pop()).unwrap_or_default();
            self.bytes.reserve(ROOM + BLOCK);
            self.from = self.bytes.as_ptr().align_offset(BLOCK).min(BLOCK);
            self.bytes.resize(self.from, 0);
        }
        self.samples += self.encoder.rows();
        self.ended_ns = self.sent_ns;
        self.encoder.begin_ending(BLOCK, &mut self.bytes);
    }

    /// Gives what was taken; `None`: nothing was.
    pub fn finish(&mut self) -> Option<Packed> {
        if self.encoder.rows() > 0 {
            self.begin_ending();
        }
        self.encoder.end(&mut self.bytes);
        self.give()
    }

    /// Bytes that stand ready.
    #[cfg(test)]
    pub(crate) fn ready_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn give(&mut self) -> Option<Packed> {
        if self.samples == 0 {
            return None;
        }
        let (bytes, samples) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.samples));
        let spare = Arc::clone(&self.spare);
        Some(Packed { bytes, from: self.from, samples, sent_ns: self.ended_ns, spare })
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        if let Ok(mut spare) = self.spare.try_lock()
            && spare.len() < SPARE
        {
            spare.push(bytes);
        }
    }
}

impl Packed {
    /// How many.
    pub fn count(&self) -> usize {
        self.samples
    }

    /// How many of each connection.
    pub fn by_connection(&self) -> BTreeMap<u32, u64> {
        let mut counts = BTreeMap::new();
        for sample in self.samples() {
            *counts.entry(sample.connection).or_default() += 1;
        }
        counts
    }

    /// When the last of them was sent, ns since the Unix epoch.
    pub fn sent_ns(&self) -> i64 {
        self.sent_ns
    }

    /// Record batches of the open segment, each a number of blocks long; the first begins where memory has a block's beginning.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.from..]
    }

    /// The samples again.
    pub fn samples(&self) -> Vec<Sample> {
        decode_batches(self.bytes())
    }
}
