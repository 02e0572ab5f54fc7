//! One TCP connection: bytes in, stamped, out again.

use crate::clock::{Clock, ms};
use crate::gate::Stranger;
use crate::intake::Intake;
use crate::send::{Ask, AtOnce, send};
use fathom_os::clock::mono_ns;
use fathom_os::socket::{let_reads_wait, read_now, read_waiting, tcp_info, write_now};
use fathom_wire::one_way::SEGMENT;
use fathom_wire::{Answer, Failure, Introduction, Key, Secret, Silence, Stamper, Standing};
use mio::net::TcpStream;
use std::io;
use std::time::Duration;

/// The most that one read takes, and so the most that a connection whose peer does not read can hold here: it is
/// not read again until that is gone.
pub(crate) const READ_LEN: usize = 64 << 10;
/// Reads of one connection before the others get their turn.
const READS_A_TURN: usize = 4;

/// Linux, epoll(7): "For stream-oriented files (e.g., pipe, FIFO, stream socket), the condition that the read/write
/// I/O space is exhausted can also be detected by checking the amount of data read from / written to the target
/// file descriptor." Elsewhere mio wants to see `WouldBlock` before it tells of new data.
const SHORT_READ_IS_LAST: bool = cfg!(target_os = "linux");

/// What is kept of a connection. An idle one is this and its socket, nothing else.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// The peer's, as it arrives here: after a failure the kernel no longer tells it.
    port: u16,
    stamper: Stamper,
    /// What could not be written yet. Boxed, since it is rare and an idle connection should be small.
    held: Option<Box<Held>>,
    /// When it came, by the monotonic clock.
    opened_ns: u64,
    /// When a byte last moved, by the same clock.
    pub(crate) active_ns: u64,
    /// When bytes were last read, by the same clock.
    pub(crate) received_ns: u64,
    /// Whose it is, once its first frame has told.
    pub(crate) key: Option<Key>,
    /// A short read does not mean that nothing is left: the peer has ended its side, or sent urgent data, at which
    /// a read stops short.
    read_to_the_end: bool,
    /// What of the bytes that come is echoed.
    intake: Intake,
    /// How it failed, if it did.
    failure: Failure,
    /// Whether it waits in the server's queue of unfinished turns.
    pub(crate) queued: bool,
    /// Whether the kernel tells the loop of it; else the loop tries it.
    pub(crate) told: bool,
}

/// Bytes read and not yet written, not yet stamped either: they are stamped when they go, so that a stamp always
/// tells when its bytes really left.
#[derive(Debug)]
struct Held {
    bytes: Vec<u8>,
    written: usize,
    received_mono_ns: u64,
}

/// What a read brought, which lies in the scratch buffer.
#[derive(Debug)]
pub(crate) struct Read(io::Result<usize>);

/// How a turn ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing more until the kernel tells of news.
    Waiting,
    /// More may be there, but others come first.
    Unfinished,
    /// The peer ended its side and everything is echoed.
    Finished,
    /// The connection broke.
    Failed,
    /// The peer does not know the key.
    Stranger,
}

/// What the connections of a server share during a turn.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    /// The one buffer that all bytes pass through.
    pub(crate) scratch: Box<[u8]>,
    /// Bytes held for peers that do not read, over all connections.
    held: usize,
    /// Payload bytes written.
    pub(crate) bytes: u64,
    /// Frames stamped.
    pub(crate) frames: u64,
    /// Questions answered.
    pub(crate) questions: u64,
}

/// Above this many bytes held in all, reads become small, so that thousands of peers that do not read cannot take
/// a small machine's memory: 10,000 of them then hold 20 MB more, not 640.
const HELD_PLENTY: usize = 16 << 20;
const READ_LEN_WHEN_PLENTY: usize = 2 << 10;

impl Shared {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            scratch: vec![0; READ_LEN].into_boxed_slice(),
            held: 0,
            bytes: 0,
            frames: 0,
            questions: 0,
        }
    }

    /// For a thread beside the loop.
    pub(crate) fn beside(&self) -> Self {
        Self::new(self.clock.beside())
    }

    /// Adds what a thread beside the loop has counted, and what its connection holds.
    pub(crate) fn add(&mut self, other: &Self) {
        self.held += other.held;
        self.bytes += other.bytes;
        self.frames += other.frames;
        self.questions += other.questions;
    }

    fn read_len(&self) -> usize {
        if self.held < HELD_PLENTY { READ_LEN } else { READ_LEN_WHEN_PLENTY }
    }
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, port: u16, now_ns: u64) -> Self {
        Self {
            stream,
            port,
            stamper: Stamper::default(),
            held: None,
            opened_ns: now_ns,
            active_ns: now_ns,
            received_ns: now_ns,
            key: None,
            read_to_the_end: false,
            intake: Intake::new(None),
            failure: Failure::NotTold,
            queued: false,
            told: true,
        }
    }

    /// The same, where only who knows the secret is answered; none: everybody.
    pub(crate) fn of_those_who_know(self, secret: Option<Secret>) -> Self {
        Self { intake: Intake::new(secret), ..self }
    }

    /// Takes note that the kernel told of an end of the peer's side, or of urgent data.
    pub(crate) fn expect_an_end(&mut self) {
        self.read_to_the_end = true;
    }

    /// Whether it is the one that came at this moment, and has sent nothing; where there is a key, nothing that shows that its
    /// peer knows it.
    pub(crate) fn is_silent_since(&self, opened_ns: u64) -> bool {
        self.opened_ns == opened_ns && (self.received_ns == opened_ns || self.intake.is_unknown())
    }

    /// Whether every byte has gone back, and none is to go unasked.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.held.is_none() && self.intake.segment_due_ns().is_none()
    }

    /// When it is to send a segment that its peer asked for.
    pub(crate) fn segment_due_ns(&self) -> Option<u64> {
        self.intake.segment_due_ns()
    }

    /// Sends the segment that is due. One that cannot go at once is left out: who does not read gets no traffic.
    pub(crate) fn send_segment(&mut self, shared: &mut Shared, now_ns: u64) {
        // What broke the kernel tells of by an event of its own.
        if self.intake.take_segment(now_ns)
            && self.held.is_none()
            && write_now(&self.stream, &[SEGMENT]).is_ok_and(|written| written > 0)
        {
            shared.bytes += 1;
            self.active_ns = now_ns;
        }
    }

    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Whose this connection is, the first time that it can be told.
    pub(crate) fn introduces_itself(&mut self) -> Option<Key> {
        let (None, Some(identity)) = (self.key, self.stamper.latest()) else { return None };
        self.key = Some(Key { session: identity.session, connection: identity.connection });
        self.key
    }

    /// What there is to say of it to somebody who asks.
    pub(crate) fn seen(&self, standing: Standing, clock: &Clock) -> Answer {
        let unacked = if standing == Standing::Open { tcp_info(&self.stream) } else { None };
        Answer {
            standing,
            last_seq: self.stamper.latest().map_or(0, |identity| identity.sequence),
            received_ns: clock.utc_of(self.received_ns),
            frames: self.stamper.frames(),
            unsent: self.held.as_ref().map_or(0, |held| (held.bytes.len() - held.written) as u32),
            unacked: unacked.map(|info| u16::try_from(info.unacked).unwrap_or(u16::MAX - 1)),
        }
    }

    /// Who answers, to somebody who asks about it.
    pub(crate) fn introduced(&self, clock: &Clock, silence: Option<Silence>) -> Introduction {
        let received_ago_ms = Some(ms(mono_ns().saturating_sub(self.received_ns)));
        let (port, failure) = (Some(self.port), self.failure);
        Introduction { port, failure, received_ago_ms, ..clock.introduction(silence) }
    }

    /// Echoes what there is, up to its share. `read`: what the first read brought, where it has been
    /// [tried](Connection::try_read) already.
    pub(crate) fn turn(&mut self, read: Option<Read>, shared: &mut Shared, ask: Ask<'_>) -> Turn {
        self.try_turn(read, shared, ask).unwrap_or_else(|e| self.failed(&e))
    }

    /// Reads what is there into the scratch buffer, for the turn that comes next; none: nothing is there, or what came before
    /// has not gone back yet.
    pub(crate) fn try_read(&mut self, shared: &mut Shared) -> Option<Read> {
        if self.held.is_some() {
            return None;
        }
        let read = self.read(shared);
        let nothing = matches!(&read, Err(e) if e.kind() == io::ErrorKind::WouldBlock);
        (!nothing).then_some(Read(read))
    }

    fn read(&mut self, shared: &mut Shared) -> io::Result<usize> {
        let len = shared.read_len();
        let before = self.put_before(shared);
        read_now(&self.stream, &mut shared.scratch[before..len])
    }

    fn failed(&mut self, error: &io::Error) -> Turn {
        if let Some(cause) = error.get_ref()
            && cause.is::<Stranger>()
        {
            return Turn::Stranger;
        }
        self.failure = match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Failure::Reset,
            io::ErrorKind::TimedOut => Failure::TimedOut,
            // What ends a socket from outside its process: `ss -K`, a firewall's agent, a policy of the host.
            io::ErrorKind::ConnectionAborted => Failure::Aborted,
            _ => Failure::NotTold,
        };
        Turn::Failed
    }

    fn try_turn(&mut self, first: Option<Read>, shared: &mut Shared, ask: Ask<'_>) -> io::Result<Turn> {
        if !self.write_held(shared, ask)? {
            return Ok(Turn::Waiting);
        }
        let mut first = first;
        for _ in 0..READS_A_TURN {
            let (len, before) = (shared.read_len(), self.intake.held().len());
            let read = match first.take().map_or_else(|| self.read(shared), |Read(first)| first) {
                Ok(0) => return Ok(Turn::Finished),
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Turn::Waiting),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if !self.echo(shared, before + read, ask)? {
                return Ok(Turn::Waiting);
            }
            if before + read < len && SHORT_READ_IS_LAST && !self.read_to_the_end {
                return Ok(Turn::Waiting);
            }
        }
        Ok(Turn::Unfinished)
    }

    /// Lets [`Connection::wait_turn`] wait, at most so long; whether it can.
    pub(crate) fn let_reads_wait(&self, at_most: Duration) -> io::Result<bool> {
        let_reads_wait(&self.stream, at_most)
    }

    /// Waits for what comes next and echoes it. `Unfinished`: all went well; `Waiting`: nothing came in time, or the peer
    /// takes no more. Questions are not answered here: a connection that asks is not one that is back to back.
    pub(crate) fn wait_turn(&mut self, shared: &mut Shared) -> Turn {
        let before = self.put_before(shared);
        let read = match read_waiting(&self.stream, &mut shared.scratch[before..]) {
            Ok(0) => return Turn::Finished,
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Turn::Waiting,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Turn::Unfinished,
            Err(e) => return self.failed(&e),
        };
        match self.echo(shared, before + read, &|_, _| None) {
            Ok(true) => Turn::Unfinished,
            Ok(false) => Turn::Waiting,
            Err(e) => self.failed(&e),
        }
    }

    /// Puts what is held back before what is read next; how many bytes that is.
    fn put_before(&self, shared: &mut Shared) -> usize {
        let held = self.intake.held();
        shared.scratch[..held.len()].copy_from_slice(held);
        held.len()
    }

    /// Echoes the `read` bytes in the scratch buffer, but for what is held back or asks for none; whether all of them went. Those
    /// that did not are held.
    fn echo(&mut self, shared: &mut Shared, read: usize, ask: Ask<'_>) -> io::Result<bool> {
        let received_mono_ns = mono_ns();
        let frames = self.stamper.frames();
        (self.active_ns, self.received_ns) = (received_mono_ns, received_mono_ns);
        let read =
            self.intake.pass(&mut shared.scratch[..read], received_mono_ns).map_err(io::Error::other)?;
        if read == 0 {
            return Ok(true);
        }
        let bytes = &mut shared.scratch[..read];
        let out = &mut AtOnce(&self.stream);
        let (written, answered) = send(out, &mut self.stamper, &shared.clock, received_mono_ns, bytes, ask)?;
        shared.bytes += written as u64;
        shared.questions += answered;
        shared.frames += u64::from(self.stamper.frames().wrapping_sub(frames));
        if written < read {
            let bytes = shared.scratch[written..read].to_vec();
            shared.held += bytes.len();
            self.held = Some(Box::new(Held { bytes, written: 0, received_mono_ns }));
        }
        Ok(written == read)
    }

    /// Writes what is held; whether nothing is held any more.
    fn write_held(&mut self, shared: &mut Shared, ask: Ask<'_>) -> io::Result<bool> {
        let Some(held) = &mut self.held else { return Ok(true) };
        let frames = self.stamper.frames();
        let rest = &mut held.bytes[held.written..];
        let out = &mut AtOnce(&self.stream);
        let (written, answered) =
            send(out, &mut self.stamper, &shared.clock, held.received_mono_ns, rest, ask)?;
        shared.bytes += written as u64;
        shared.questions += answered;
        shared.frames += u64::from(self.stamper.frames().wrapping_sub(frames));
        held.written += written;
        if written > 0 {
            self.active_ns = mono_ns();
        }
        let done = held.written == held.bytes.len();
        if done {
            self.release(shared);
        }
        Ok(done)
    }

    /// Gives back what the connection holds of the shared allowance. Call it before dropping the connection.
    pub(crate) fn release(&mut self, shared: &mut Shared) {
        if let Some(held) = self.held.take() {
            shared.held -= held.bytes.len();
        }
    }
}
