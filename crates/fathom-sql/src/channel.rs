//! Bytes to and from a server: a socket that never blocks, under TLS or not, whose reads have the kernel's stamps.

use crate::inbox::Inbox;
use crate::limit::Limit;
use fathom_core::event::TcpInfo;
use fathom_core::query::Room;
use fathom_os::clock::{mono_ns, utc_ns};
use fathom_os::socket::{self, TcpOptions};
use fathom_os::timestamps;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ClientConnection;
use std::io::{self, BufRead, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Bytes taken from the kernel at once.
const READ_BYTES: usize = 64 << 10;
/// The kernel counts since when nothing came in ticks of at most so long (`CONFIG_HZ=100`).
const KERNEL_TICK_NS: u64 = 10_000_000;
/// Bytes that TLS takes at once: less than rustls keeps of what was not sent yet (64 KiB).
const TLS_BYTES: usize = 16 << 10;
/// By so many one who answers is known.
const HEARD_BYTES: usize = 16;

/// See the module.
pub(crate) struct Channel {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    stamps: bool,
    /// What came under TLS.
    sealed: Vec<u8>,
    /// The other end said under TLS that nothing more comes; what follows is nobody's.
    is_closed: bool,
    /// The first bytes that came, before anything was taken for TLS.
    heard: Vec<u8>,
    /// Read and not yet taken.
    pub(crate) inbox: Inbox,
}

/// What a read gave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filled {
    /// Bytes from the kernel; 0: the other end closed.
    pub(crate) bytes: u64,
    /// When the last of them came in, on the monotonic clock: by the kernel's stamp, else now.
    pub(crate) came_ns: u64,
    /// When they were read.
    pub(crate) read_ns: u64,
}

impl Channel {
    pub(crate) fn connect(remote: SocketAddr, limit: &Limit) -> io::Result<Self> {
        let stream = set_up(remote, limit)?;
        // Without stamps a wait ends when this thread runs again.
        let stamps = timestamps::enable_received(&stream).is_ok();
        let (sealed, heard, inbox) = (Vec::new(), Vec::new(), Inbox::default());
        Ok(Self { stream, tls: None, stamps, sealed, is_closed: false, heard, inbox })
    }

    /// How what the other end said begins.
    pub(crate) fn heard(&self) -> &[u8] {
        &self.heard
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.stream.local_addr().ok()
    }

    /// What the kernel has received and has room for.
    pub(crate) fn room(&self) -> Option<Room> {
        let room = socket::receive_room(&self.stream)?;
        Some(Room {
            received: room.bytes_received,
            window: room.window_bytes.into(),
            segment: room.segment_bytes.into(),
        })
    }

    /// What the kernel has received, and since when, at the latest, nothing more: both as of now, on the monotonic clock.
    pub(crate) fn quiet_room(&self) -> Option<(Room, u64)> {
        let room = self.room()?;
        let quiet_ms = self.info()?.last_data_recv_ms;
        let ago_ns = (u64::from(quiet_ms) * 1_000_000).saturating_sub(KERNEL_TICK_NS);
        Some((room, mono_ns().saturating_sub(ago_ns)))
    }

    /// For how long in all, in ns, its kernel had something to send or unacknowledged, and it was not the peer who had no room for it.
    pub(crate) fn sending_ns(&self) -> Option<u64> {
        let times = socket::transfer_times(&self.stream)?;
        Some(times.busy_us.saturating_sub(times.rwnd_limited_us).saturating_mul(1_000))
    }

    /// The kernel's counters.
    pub(crate) fn info(&self) -> Option<TcpInfo> {
        socket::tcp_info(&self.stream)
    }

    /// Goes on under TLS; waits for the handshake.
    pub(crate) fn secure(&mut self, tls: ClientConnection, limit: &Limit) -> io::Result<()> {
        self.tls = Some(Box::new(tls));
        loop {
            self.flush_tls(limit)?;
            if self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking()) {
                return Ok(());
            }
            limit.check()?;
            match self.fill() {
                Ok(Filled { bytes: 0, .. }) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(Limit::PIECE)?;
                }
                Err(e) => {
                    // The alert that says why.
                    _ = self.flush_tls(limit);
                    return Err(e);
                }
            }
        }
    }

    /// Sends all of it.
    pub(crate) fn send(&mut self, bytes: &[u8], limit: &Limit) -> io::Result<()> {
        if self.tls.is_none() {
            return write_all(&self.stream, bytes, limit);
        }
        for piece in bytes.chunks(TLS_BYTES) {
            if let Some(tls) = &mut self.tls {
                tls.writer().write_all(piece)?;
            }
            self.flush_tls(limit)?;
        }
        Ok(())
    }

    /// Sends what the kernel has room for, and waits for nobody.
    pub(crate) fn send_what_fits(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut out = Vec::new();
        let plain = match &mut self.tls {
            Some(tls) => {
                tls.writer().write_all(bytes)?;
                while tls.wants_write() {
                    tls.write_tls(&mut out)?;
                }
                out.as_slice()
            }
            None => bytes,
        };
        (&self.stream).write(plain).map(|_| ())
    }

    fn flush_tls(&mut self, limit: &Limit) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let mut out = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut out)?;
        }
        write_all(&self.stream, &out, limit)
    }

    /// Reads what is there before anything is asked: whether there is something, and be it of earlier reads. That nothing more will come is
    /// seen by whoever waits for it.
    pub(crate) fn unasked(&mut self) -> io::Result<bool> {
        match self.fill() {
            Ok(_) => Ok(!self.inbox.is_empty()),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(!self.inbox.is_empty()),
            Err(e) => Err(e),
        }
    }

    /// Reads what is there into the inbox; nothing: `WouldBlock`.
    pub(crate) fn fill(&mut self) -> io::Result<Filled> {
        self.fill_at_most(READ_BYTES)
    }

    /// The same after a wait: when the first of it came too, for which its first byte is read by itself.
    pub(crate) fn fill_after_wait(&mut self) -> io::Result<(Filled, u64)> {
        if !self.stamps {
            return self.fill().map(|filled| (filled, filled.came_ns));
        }
        let first = self.fill_at_most(1)?;
        if first.bytes == 0 {
            return Ok((first, first.came_ns));
        }
        match self.fill() {
            // Its end is told again when it is read the next time.
            Ok(rest) if rest.bytes > 0 => {
                Ok((Filled { bytes: first.bytes + rest.bytes, ..rest }, first.came_ns))
            }
            Ok(_) => Ok((first, first.came_ns)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok((first, first.came_ns)),
            Err(e) => Err(e),
        }
    }

    fn fill_at_most(&mut self, bytes: usize) -> io::Result<Filled> {
        if self.is_closed {
            let now = mono_ns();
            return Ok(Filled { bytes: 0, came_ns: now, read_ns: now });
        }
        self.sealed.clear();
        let to = if self.tls.is_some() { &mut self.sealed } else { self.inbox.end() };
        let (read, stamp) = if self.stamps {
            timestamps::recv_appending(&self.stream, to, bytes)?
        } else {
            to.reserve(bytes);
            (rustix::io::read(&self.stream, spare_capacity(to))?, None)
        };
        let wanted = HEARD_BYTES.saturating_sub(self.heard.len()).min(read);
        if wanted > 0 {
            let from = to.len() - read;
            self.heard.extend_from_slice(&to[from..from + wanted]);
        }
        let now = mono_ns();
        // Both clocks are read within a microsecond; a stamp of a clock that was stepped is bounded by its user.
        let ago = stamp.map_or(0, |stamp| u64::try_from(utc_ns() - stamp).unwrap_or(0));
        let filled = Filled { bytes: read as u64, came_ns: now.saturating_sub(ago), read_ns: now };
        let Some(tls) = &mut self.tls else { return Ok(filled) };
        let mut rest = self.sealed.as_slice();
        while !rest.is_empty() {
            if tls.read_tls(&mut rest)? == 0 {
                self.is_closed = true;
                break;
            }
            let state =
                tls.process_new_packets().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            self.is_closed = state.peer_has_closed();
            let mut left = state.plaintext_bytes_to_read();
            while left > 0 {
                let mut reader = tls.reader();
                let plain = reader.fill_buf()?;
                let n = plain.len();
                self.inbox.end().extend_from_slice(plain);
                reader.consume(n);
                left = left.saturating_sub(n.max(1));
            }
        }
        Ok(filled)
    }

    /// Waits until there is something to read, at most so long; whether there is.
    pub(crate) fn wait(&self, at_most: Duration) -> io::Result<bool> {
        let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

/// A piece of a wait.
fn piece() -> Timespec {
    Timespec { tv_sec: Limit::PIECE.as_secs() as i64, tv_nsec: Limit::PIECE.subsec_nanos().into() }
}

/// Sets a connection up, whose socket never blocks.
pub(crate) fn set_up(remote: SocketAddr, limit: &Limit) -> io::Result<TcpStream> {
    let stream = socket::connect_tcp(remote, &TcpOptions::default())?;
    loop {
        match poll(&mut [PollFd::new(&stream, PollFlags::OUT)], Some(&piece())) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        if socket::connect_result(&stream)? {
            return Ok(stream.into());
        }
        limit.check_for("answer")?;
    }
}

fn write_all(mut stream: &TcpStream, mut bytes: &[u8], limit: &Limit) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let mut out = [PollFd::new(stream, PollFlags::OUT)];
                limit.check()?;
                match poll(&mut out, Some(&piece())) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
