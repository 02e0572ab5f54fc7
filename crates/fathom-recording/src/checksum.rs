//! CRC-32 (IEEE 802.3) over whole files.

use serde::{Deserialize, Serialize};
use std::io::{Read, Result};
use std::path::Path;

/// How long the event log was when its recording ended, and the CRC-32 (IEEE 802.3) of all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSum {
    /// Its bytes.
    pub bytes: u64,
    /// Their checksum.
    pub crc32: u32,
}

impl LogSum {
    /// The sum over a file as it is now.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let (bytes, crc32) = of(&mut crate::plain::open(path)?)?;
        Ok(Self { bytes, crc32 })
    }
}

/// Reads `input` to its end: its bytes, and their checksum.
pub(crate) fn of(input: &mut impl Read) -> Result<(u64, u32)> {
    let (mut sum, mut bytes, mut buffer) = (crc32fast::Hasher::new(), 0, vec![0; 64 << 10]);
    loop {
        match input.read(&mut buffer)? {
            0 => return Ok((bytes, sum.finalize())),
            n => {
                sum.update(&buffer[..n]);
                bytes += n as u64;
            }
        }
    }
}
