//! Rows that are made ready for the disk by who takes the samples, in time that it has to spare: the thread that writes them
//! then has nothing to do but write.

use crate::stream::{Encoder, decode_batch};
use fathom_core::sample::Sample;

/// Rows that are made ready together: some µs.
pub const AT_ONCE: usize = 256;

/// Gathers samples until they are made ready.
#[derive(Debug, Default)]
pub struct Packer {
    samples: Vec<Sample>,
    encoder: Encoder,
}

/// Samples in order, as they stand on the disk.
#[derive(Debug, Clone)]
pub struct Packed {
    bytes: Box<[u8]>,
    samples: usize,
    by_connection: Vec<(u32, u64)>,
    /// When the last of them was sent.
    sent_ns: i64,
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
        let bytes = self.encoder.encode(&self.samples).into();
        let samples = self.samples.len();
        self.samples.clear();
        Some(Packed { bytes, samples, by_connection, sent_ns })
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
