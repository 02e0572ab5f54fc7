//! One stream: a connection and the thread that fills it, or empties it, as fast as it goes.

use crate::pacer::Pacer;
use fathom_core::event::TcpInfo;
use fathom_os::clock::mono_ns;
use fathom_os::socket::tcp_info;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A paced sender looks so often whether it shall stop.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// The stack of a stream's thread, whose buffers are elsewhere. A test may have 256 of them.
const STACK: usize = 128 << 10;

/// What a stream's thread does.
#[derive(Debug)]
pub(crate) enum Work {
    /// Writes this block again and again, at this pace.
    Send(Arc<[u8]>, Option<Pacer>),
    /// Reads up to so many bytes at a time and forgets them.
    Receive(usize),
}

/// What a stream's thread counts.
#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicU64,
    /// When the last of them were written or read.
    last_ns: AtomicU64,
    stop: AtomicBool,
}

/// A stream and its thread.
///
/// [`Stream::begin`] starts the thread. While it runs the counters may be read at any time. A sender is stopped with
/// [`Stream::stop_sending`], which lets the other end read what is under way; [`Stream::end`] ends either kind at once. A
/// stream that is dropped is closed and its thread has ended.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: TcpStream,
    sends: bool,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Stream {
    /// Begins to work on a connected, blocking socket.
    pub(crate) fn begin(socket: TcpStream, work: Work) -> io::Result<Self> {
        let counts = Arc::new(Counts::default());
        let sends = matches!(work, Work::Send(..));
        let (mut theirs, shared) = (socket.try_clone()?, Arc::clone(&counts));
        let work = move || match work {
            Work::Send(block, pacer) => send(&mut theirs, &block, pacer, &shared),
            Work::Receive(length) => receive(&mut theirs, length, &shared),
        };
        let thread = thread::Builder::new().name("stream".into()).stack_size(STACK).spawn(work)?;
        Ok(Self { socket, sends, counts, thread: Some(thread) })
    }

    pub(crate) fn sends(&self) -> bool {
        self.sends
    }

    /// Bytes written or read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.counts.bytes.load(Ordering::Relaxed)
    }

    /// When the last of them were, by the monotonic clock; 0: none were.
    pub(crate) fn last_ns(&self) -> u64 {
        self.counts.last_ns.load(Ordering::Relaxed)
    }

    /// The kernel's view.
    pub(crate) fn tcp_info(&self) -> Option<TcpInfo> {
        tcp_info(&self.socket)
    }

    /// Whether its thread has nothing more to do: all is read, or the connection broke.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// A sender stops. What the kernel has taken is still delivered, and then the end of the stream.
    pub(crate) fn stop_sending(&self) {
        if self.sends {
            self.counts.stop.store(true, Ordering::Relaxed);
            // This wakes a write that waits; a connection that broke has nothing to shut down.
            let _ = self.socket.shutdown(Shutdown::Write);
        }
    }

    /// Ends it, whatever is under way; says how its thread ended.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.counts.stop.store(true, Ordering::Relaxed);
        let _ = self.socket.shutdown(Shutdown::Both);
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(_)) => Err(io::Error::other("the stream's thread failed; this is a bug")),
            Some(Ok(outcome)) => outcome,
            None => Ok(()),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Counts {
    fn add(&self, bytes: usize) {
        // One thread writes these, so that no read-modify-write is needed.
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes as u64, Ordering::Relaxed);
        self.last_ns.store(mono_ns(), Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn send(socket: &mut TcpStream, block: &[u8], pacer: Option<Pacer>, counts: &Counts) -> io::Result<()> {
    while !counts.stopped() {
        if let Some(wait_ns) = pacer.map(|pacer| wait_ns(&pacer, counts)).filter(|ns| *ns > 0) {
            thread::sleep(Duration::from_nanos(wait_ns).min(LONGEST_SLEEP));
            continue;
        }
        match socket.write(block) {
            Ok(n) => counts.add(n),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // Its own side was shut down under it.
            Err(_) if counts.stopped() => return Ok(()),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn wait_ns(pacer: &Pacer, counts: &Counts) -> u64 {
    pacer.due_ns(counts.bytes.load(Ordering::Relaxed)).saturating_sub(mono_ns())
}

fn receive(socket: &mut TcpStream, length: usize, counts: &Counts) -> io::Result<()> {
    let mut buffer = vec![0; length];
    while !counts.stopped() {
        match socket.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => counts.add(n),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) if counts.stopped() => return Ok(()),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
