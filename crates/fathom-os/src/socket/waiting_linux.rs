//! Reads that wait for their bytes.

use mio::net::TcpStream;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::time::Duration;

/// Lets [`read_waiting`] wait on this stream, at most so long; whether it does. From here on [`read_now`] and
/// [`write_now`] must be used on it: the stream's own calls would wait too.
pub fn let_reads_wait(stream: &TcpStream, at_most: Duration) -> io::Result<bool> {
    set_socket_timeout(stream, Timeout::Recv, Some(at_most))?;
    fcntl_setfl(stream, fcntl_getfl(stream)? - OFlags::NONBLOCK)?;
    Ok(true)
}

/// Reads what comes within the time given to [`let_reads_wait`]; nothing: `WouldBlock`. One system call, where waiting in
/// a reactor and then reading are two, of which the second begins after the wake-up.
pub fn read_waiting(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(recv(stream, buffer, RecvFlags::empty())?.0)
}

/// Reads what is there; nothing: `WouldBlock`.
pub fn read_now(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(recv(stream, buffer, RecvFlags::DONTWAIT)?.0)
}

/// Writes what the kernel takes at once; nothing: `WouldBlock`.
pub fn write_now(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    Ok(send(stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::mono_ns;
    use std::io::{Read, Write};

    fn pair() -> (TcpStream, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nonblocking(true).unwrap();
        (TcpStream::from_std(near), listener.accept().unwrap().0)
    }

    #[test]
    fn only_waiting_read_blocks_until_timeout() {
        let (near, mut far) = pair();
        assert!(let_reads_wait(&near, Duration::from_millis(20)).unwrap());
        let mut buffer = [0; 8];
        // On a stream that may block, this would otherwise hang the test.
        assert_eq!(read_now(&near, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let before = mono_ns();
        assert_eq!(read_waiting(&near, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // The kernel counts in jiffies, by another clock.
        assert!(mono_ns() - before >= 15_000_000);
        far.write_all(b"here").unwrap();
        assert_eq!(read_waiting(&near, &mut buffer).unwrap(), 4);
        drop(far);
        assert_eq!(read_waiting(&near, &mut buffer).unwrap(), 0, "an end is no wait");
    }

    #[test]
    fn full_stream_write_does_not_block() {
        let (near, mut far) = pair();
        assert!(let_reads_wait(&near, Duration::from_millis(20)).unwrap());
        let piece = vec![7; 65_536];
        let mut written = 0;
        let refused = loop {
            match write_now(&near, &piece) {
                Ok(n) => written += n,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        let mut read = vec![0; written];
        far.read_exact(&mut read).unwrap();
        assert!(read.iter().all(|byte| *byte == 7));
    }
}
