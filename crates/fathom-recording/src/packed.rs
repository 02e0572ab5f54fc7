//! Rows that are made ready for the disk by who takes the samples, in time that it has to spare: the thread that writes them
//! then has nothing to do but write.

use crate::stream::{Encoder, decode_batch};
use fathom_core::sample::Sample;
use std::sync::{Arc, Mutex};

/// Rows that are made ready together: some µs.
pub const AT_ONCE: usize = 256;
/// Buffers that are kept for further rows: those of a second.
const SPARE: usize = 256;

/// Buffers that were written, for those to come: memory that is given back and taken again costs page faults. Neither end waits
/// for the other: where the lock is taken, memory is.
type Spare = Arc<Mutex<Vec<Vec<u8>>>>;

/// Gathers samples until they are made ready.
#[derive(Debug, Default)]
pub struct Packer {
    samples: Vec<Sample>,
    encoder: Encoder,
    spare: Spare,
}

/// Samples in order, as they stand on the disk.
#[derive(Debug)]
pub struct Packed {
    bytes: Vec<u8>,
    samples: usize,
    by_connection: Vec<(u32, u64)>,
    /// When the last of them was sent.
    sent_ns: i64,
    spare: Spare,
}

impl Packer {
    /// Takes a sample; gives the rows when there are [`AT_ONCE`].
    pub fn push(&mut self, sample: &Sample) -> Option<Packed> {
        self.samples.push(*sample);
        if self.samples.len() >= AT_ONCE { self.finish() } else { None }
    }

    /// Gives what was taken; `None`: nothing was.
    pub fn finish(&mut self) -> Option<Packed> {
        let sent_ns = self.samples.last()?.sent_ns;
        let mut by_connection: Vec<(u32, u64)> = Vec::new();
        for sample in &self.samples {
            match by_connection.iter_mut().rev().find(|(connection, _)| *connection == sample.connection) {
                Some((_, samples)) => *samples += 1,
                None => by_connection.push((sample.connection, 1)),
            }
        }
        let mut bytes = self.spare.try_lock().ok().and_then(|mut spare| spare.pop()).unwrap_or_default();
        bytes.extend_from_slice(self.encoder.encode(&self.samples));
        let samples = self.samples.len();
        self.samples.clear();
        Some(Packed { bytes, samples, by_connection, sent_ns, spare: Arc::clone(&self.spare) })
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
    pub fn by_connection(&self) -> &[(u32, u64)] {
        &self.by_connection
    }

    /// When the last of them was sent, ns since the Unix epoch.
    pub fn sent_ns(&self) -> i64 {
        self.sent_ns
    }

    /// One record batch of the open segment.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The samples again.
    pub fn samples(&self) -> Vec<Sample> {
        decode_batch(&self.bytes)
    }
}
