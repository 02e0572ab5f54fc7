//! The control connection: bytes in, bytes out, and no wait longer than the caller says.

use fathom_os::clock::mono_ns;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A write to the control connection is a few hundred bytes; a peer that does not take them for so long is gone.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// What a wait for the peer came to.
#[derive(Debug)]
pub(crate) enum Received {
    /// Bytes.
    Bytes(Vec<u8>),
    /// Nothing until the moment given.
    Nothing,
    /// The connection is over, in order or not.
    Closed,
}

/// One end of a control connection.
#[derive(Debug)]
pub(crate) struct Control {
    socket: TcpStream,
    buffer: Vec<u8>,
}

impl Control {
    /// Takes a connected, blocking socket.
    pub(crate) fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(WRITE_PATIENCE))?;
        Ok(Self { socket, buffer: vec![0; 16 << 10] })
    }

    /// Writes all of it.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Waits for the peer until `until_ns` by the monotonic clock. A moment that has passed still looks once.
    pub(crate) fn receive(&mut self, until_ns: u64) -> Received {
        // The kernel rounds a timeout up to its tick, and takes 0 for no timeout at all.
        let wait = Duration::from_nanos(until_ns.saturating_sub(mono_ns())).max(Duration::from_micros(1));
        if self.socket.set_read_timeout(Some(wait)).is_err() {
            return Received::Closed;
        }
        match self.socket.read(&mut self.buffer) {
            Ok(0) => Received::Closed,
            Ok(n) => Received::Bytes(self.buffer[..n].to_vec()),
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => {
                    Received::Nothing
                }
                _ => Received::Closed,
            },
        }
    }
}
