//! Who answers round trips beside the queries, and a connection to it that stays.

use crate::Stop;
use crate::channel::set_up;
use crate::limit::Limit;
use crate::login::Login;
use crate::measured::Echo;
use crate::mysql::Mysql;
use crate::record::Record;
use crate::stood::Clock;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(crate) const ECHO_EVERY: Duration = Duration::from_millis(100);
pub(crate) const SETUP_EVERY: Duration = Duration::from_millis(500);
pub(crate) const WITHIN: Duration = Duration::from_secs(5);
/// Bytes of an echo.
const ECHO_BYTES: usize = 64;
/// Bytes of `COM_PING` with its header.
const PING_BYTES: u32 = 5;

/// What answers.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// An echo server (RFC 862), `fathom echo` too.
    Reflector(SocketAddr),
    /// The database's port.
    Port(SocketAddr),
    /// A session of `MySQL`.
    Session(Box<Login>),
}

impl Peer {
    /// From one answer to the next request.
    pub(crate) fn every(&self) -> Duration {
        match self {
            Self::Reflector(_) | Self::Session(_) => ECHO_EVERY,
            Self::Port(_) => SETUP_EVERY,
        }
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        match self {
            Self::Reflector(remote) | Self::Port(remote) => *remote,
            Self::Session(login) => login.remote,
        }
    }

    /// Bytes of a request; a set-up has none.
    pub(crate) fn size(&self) -> u32 {
        match self {
            Self::Reflector(_) => ECHO_BYTES as u32,
            Self::Session(_) => PING_BYTES,
            Self::Port(_) => 0,
        }
    }

    /// Who answers on a connection that stays.
    pub(crate) fn open(&self, stop: &Stop, clock: &Clock) -> io::Result<Answerer> {
        Ok(match self {
            Self::Reflector(remote) | Self::Port(remote) => {
                let stream = set_up(*remote, &limit(stop, clock))?;
                // Reads wait, in pieces.
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(Limit::PIECE))?;
                Answerer::Echo(stream)
            }
            Self::Session(login) => Answerer::Session(Box::new(Mysql::for_pings(login)?)),
        })
    }
}

/// The other end of a connection that stays.
pub(crate) enum Answerer {
    Echo(TcpStream),
    Session(Box<Mysql>),
}

impl Answerer {
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Echo(stream) => stream.local_addr().ok(),
            Self::Session(session) => session.local_addr(),
        }
    }
}

/// A connection that stays.
pub(crate) struct Open {
    pub(crate) answerer: Answerer,
    pub(crate) connection: u32,
    pub(crate) sent: u64,
    pub(crate) answered: u64,
}

impl Open {
    /// Asks, and waits for the answer. `is_there`: told where the server's kernel has the request, and its process has not answered.
    pub(crate) fn echo(&mut self, stop: &Stop, clock: &Clock, is_there: impl Fn()) -> io::Result<Echo> {
        let stream = match &mut self.answerer {
            Answerer::Session(session) => {
                self.sent += 1;
                let echo = session.ping(&limit(stop, clock), is_there)?;
                self.answered += 1;
                return Ok(echo);
            }
            Answerer::Echo(stream) => stream,
        };
        let mut payload = [0x66; ECHO_BYTES];
        payload[..8].copy_from_slice(&self.sent.to_be_bytes());
        self.sent += 1;
        stream.write_all(&payload)?;
        let mut echo = [0; ECHO_BYTES];
        read_whole(stream, &mut echo, &limit(stop, clock))?;
        if echo != payload {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "another echo"));
        }
        self.answered += 1;
        Ok(Echo::default())
    }

    pub(crate) fn end(self, record: &Record) {
        record.closed(self.connection, self.sent, self.answered, 0);
    }
}

/// Of a round trip that begins now. The end of the run waits for it a while, so that what is nearly there is not taken for lost.
pub(crate) fn limit(stop: &Stop, clock: &Clock) -> Limit {
    Limit::within(WITHIN, stop, clock).lingering()
}

/// From a stream whose reads wait for a piece of the time.
fn read_whole(stream: &mut TcpStream, mut buffer: &mut [u8], limit: &Limit) -> io::Result<()> {
    while !buffer.is_empty() {
        match stream.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => buffer = &mut buffer[n..],
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => {
                    limit.check()?;
                }
                _ => return Err(e),
            },
        }
    }
    Ok(())
}
