//! The control connection: bytes in, bytes out, and no wait longer than the caller says.

use fathom_os::clock::mono_ns;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What is written to the control connection is some kilobytes. A peer has so long to take all of one message: one that takes
/// a byte now and then would hold a thread, and the end of the program, for as long as it likes.
const WRITE_PATIENCE_NS: u64 = 5_000_000_000;

/// The kernel rounds a timeout up to its tick, and takes 0 for no timeout at all.
const SHORTEST_WAIT: Duration = Duration::from_micros(1);

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
        Ok(Self { socket, buffer: vec![0; 16 << 10] })
    }

    /// Writes all of it, or says why the peer did not take it in time.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.send_within(bytes, WRITE_PATIENCE_NS)
    }

    fn send_within(&mut self, bytes: &[u8], patience_ns: u64) -> io::Result<()> {
        let until_ns = mono_ns().saturating_add(patience_ns);
        let mut rest = bytes;
        while !rest.is_empty() {
            let left_ns = until_ns.saturating_sub(mono_ns());
            if left_ns == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.socket.set_write_timeout(Some(Duration::from_nanos(left_ns).max(SHORTEST_WAIT)))?;
            match self.socket.write(rest) {
                Ok(n) => rest = &rest[n..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Waits for the peer until `until_ns` by the monotonic clock. A moment that has passed still looks once.
    pub(crate) fn receive(&mut self, until_ns: u64) -> Received {
        let wait = Duration::from_nanos(until_ns.saturating_sub(mono_ns())).max(SHORTEST_WAIT);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A timeout of each write held a session for as long as its client took a byte now and then, and with it the end of
    /// the reflector.
    #[test]
    fn slow_reader_does_not_block_write_forever() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let peer = std::thread::spawn(move || {
            let (mut slow, _) = listener.accept().expect("it connects");
            let mut little = [0; 4 << 10];
            // 64 MiB at this pace would take minutes. It ends when the writer hangs up.
            while slow.read(&mut little).is_ok_and(|n| n > 0) {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let socket = TcpStream::connect(address).expect("it listens");
        let mut control = Control::new(socket).expect("open");
        let error = control.send_within(&vec![0; 64 << 20], 300_000_000).expect_err("it is not all taken");
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
        // A reset and not an end, or the peer would read on what the kernel has.
        let linger = socket2::SockRef::from(&control.socket).set_linger(Some(Duration::ZERO));
        linger.expect("set");
        drop(control);
        peer.join().expect("it ends");
    }
}
