//! One socket: writing messages into it and reading echoes out of it.

use fathom_core::event::TcpInfo;
use fathom_core::stream::{Counted, Stream};
use fathom_os::socket;
use fathom_os::timestamps::{self, TxKind};
use mio::net::{TcpStream, UdpSocket};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A connected socket of either transport.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// How a write went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// The kernel has the whole message.
    Whole,
    /// The kernel has its beginning, up to this offset; go on when the socket is writable.
    UpTo(usize),
    /// The kernel took nothing.
    Nothing,
}

impl Socket {
    pub(super) fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        match self {
            Self::Tcp(s) => (s.local_addr().ok(), s.peer_addr().ok()),
            Self::Udp(s) => (s.local_addr().ok(), s.peer_addr().ok()),
        }
    }

    pub(super) fn tcp_info(&self) -> Option<TcpInfo> {
        match self {
            Self::Tcp(s) => socket::tcp_info(s),
            Self::Udp(_) => None,
        }
    }

    /// Reads once.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => socket::read_now(s, buffer),
            Self::Udp(s) => s.recv(buffer),
        }
    }

    /// Lets [`Socket::read_waiting`] wait, at most so long; whether it does.
    pub(super) fn let_reads_wait(&self, at_most: Duration) -> bool {
        match self {
            // Where that fails, the reactor does the waiting.
            Self::Tcp(s) => socket::let_reads_wait(s, at_most).unwrap_or(false),
            Self::Udp(_) => false,
        }
    }

    /// As [`Socket::read`], but waits for something to come.
    pub(super) fn read_waiting(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => socket::read_waiting(s, buffer),
            Self::Udp(s) => s.recv(buffer),
        }
    }

    /// Has the kernel stamp what is sent and received from here on. Not acknowledgements: an acknowledgement that comes
    /// ahead of the echo would wake the probe, whose processor is then awake when the echo comes. On an idle machine
    /// that made a round trip once a second 14 µs shorter (`docs/benchmarks.md`).
    pub(super) fn enable_stamps(&self) -> io::Result<()> {
        match self {
            Self::Tcp(s) => timestamps::enable(s, false),
            Self::Udp(s) => timestamps::enable(s, false),
        }
    }

    /// As [`Socket::read`], with the kernel's stamp of what was read.
    pub(super) fn read_stamped(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<i64>)> {
        match self {
            Self::Tcp(s) => timestamps::recv_with_timestamp(s, buffer),
            Self::Udp(s) => timestamps::recv_with_timestamp(s, buffer),
        }
    }

    /// Takes the kernel's stamps of what was sent. A failure to read them only leaves samples without their split.
    pub(super) fn take_send_stamps(&self, stream: &mut Stream) {
        let counted = match self {
            Self::Tcp(_) => Counted::Bytes,
            Self::Udp(_) => Counted::Datagrams,
        };
        let transmitted = |kind, id, utc_ns| {
            if kind == TxKind::Software {
                stream.transmitted(id, counted, utc_ns);
            }
        };
        let _ = match self {
            Self::Tcp(s) => timestamps::drain_error_queue(s, transmitted),
            Self::Udp(s) => timestamps::drain_error_queue(s, transmitted),
        };
    }

    /// Writes once.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => socket::write_now(s, bytes),
            Self::Udp(s) => s.send(bytes),
        }
    }

    /// Writes message `seq` from `offset` on, in pieces of the scratch buffer's size. `first` holds the message's
    /// beginning already made, so that nothing lies between the send stamp and the write.
    pub(super) fn write_message(
        &mut self,
        stream: &Stream,
        seq: u64,
        mut offset: usize,
        scratch: &mut [u8],
        mut prepared: usize,
    ) -> io::Result<Written> {
        let size = stream.size() as usize;
        while offset < size {
            let piece = scratch.len().min(size - offset);
            if prepared == 0 {
                stream.fill(seq, offset, &mut scratch[..piece]);
            }
            prepared = 0;
            match self.write(&scratch[..piece]) {
                Ok(n) => offset += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(if offset == 0 { Written::Nothing } else { Written::UpTo(offset) });
                }
                Err(e) => return Err(e),
            }
        }
        Ok(Written::Whole)
    }
}

/// Makes the beginning of a message in the scratch buffer; returns how many bytes.
pub(super) fn prepare(stream: &Stream, seq: u64, scratch: &mut [u8]) -> usize {
    let piece = scratch.len().min(stream.size() as usize);
    stream.fill(seq, 0, &mut scratch[..piece]);
    piece
}
