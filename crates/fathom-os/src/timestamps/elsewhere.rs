//! Systems without kernel timestamps for both directions of a TCP connection.

use super::TxKind;
use std::io;

/// Any socket: here none can be stamped.
pub trait Stampable {}
impl<T> Stampable for T {}

/// Nothing to keep here.
#[derive(Debug)]
pub struct Keeper;

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "this system gives no kernel timestamps; use --timestamps off")
}

/// Always an error.
pub fn keep_enabled() -> io::Result<Keeper> {
    Err(unsupported())
}

/// Always an error.
pub fn enable(_socket: &impl Stampable, _acks: bool) -> io::Result<()> {
    Err(unsupported())
}

/// Always an error.
pub fn enable_received(_socket: &impl Stampable) -> io::Result<()> {
    Err(unsupported())
}

/// Always an error.
pub fn recv_with_timestamp(_socket: &impl Stampable, _buffer: &mut [u8]) -> io::Result<(usize, Option<i64>)> {
    Err(unsupported())
}

/// Always an error.
pub fn recv_appending(
    _socket: &impl Stampable,
    _buffer: &mut Vec<u8>,
    _at_most: usize,
) -> io::Result<(usize, Option<i64>)> {
    Err(unsupported())
}

/// Always an error.
pub fn drain_error_queue(
    _socket: &impl Stampable,
    _on_stamp: impl FnMut(TxKind, u32, i64),
) -> io::Result<()> {
    Err(unsupported())
}
