//! Where reads cannot be told apart by whether they wait: none does.

use mio::net::TcpStream;
use std::io::{self, Read, Write};
use std::time::Duration;

/// Does nothing and says so: wait in a reactor.
pub fn let_reads_wait(_stream: &TcpStream, _at_most: Duration) -> io::Result<bool> {
    Ok(false)
}

/// As [`read_now`].
pub fn read_waiting(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    read_now(stream, buffer)
}

/// Reads what is there; nothing: `WouldBlock`.
pub fn read_now(mut stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    stream.read(buffer)
}

/// Writes what the kernel takes at once; nothing: `WouldBlock`.
pub fn write_now(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    stream.write(bytes)
}
