//! CRC-32 (IEEE 802.3) over whole files.

use std::io::{Read, Result};

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
