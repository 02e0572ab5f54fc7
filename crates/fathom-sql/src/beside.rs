//! Round trips of the same path at the same moments: echoes of a reflector, or else connection set-ups to the database's port,
//! which its kernel answers. A set-up costs the server a process that is started and ends, so they are few.

use crate::record::Record;
use crate::{Error, Stop};
use fathom_core::query::Rtt;
use fathom_core::sample::{Flags, Sample};
use fathom_os::clock::mono_ns;
use fathom_os::socket::{self, TcpOptions};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What is known of the path is what the last so many said.
const KEPT: usize = 16;
/// Before the first query.
const FIRST: usize = 5;
const ECHO_EVERY: Duration = Duration::from_millis(100);
const SETUP_EVERY: Duration = Duration::from_millis(500);
const FIRST_EVERY: Duration = Duration::from_millis(20);
const WITHIN: Duration = Duration::from_secs(5);
/// Bytes of an echo.
const ECHO_BYTES: usize = 64;

/// What answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// An echo server (RFC 862), `fathom echo` too.
    Reflector(SocketAddr),
    /// The database's port.
    Port(SocketAddr),
}

#[derive(Default)]
struct Known {
    round_trips: VecDeque<u64>,
    tries: usize,
    failed: u64,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Beside(Arc<(Mutex<Known>, Condvar)>);

impl Beside {
    /// Begins, and waits for the first.
    pub(crate) fn begin(peer: Peer, stop: &Stop, record: Record) -> Result<Self, Error> {
        let beside = Self(Arc::default());
        let (own, stop) = (beside.clone(), stop.clone());
        let run = move || own.measure(peer, &stop, &record);
        let spawned = std::thread::Builder::new().name("beside".into()).spawn(run);
        spawned.map_err(|e| Error::run(format!("cannot begin a thread: {e}")))?;
        let (known, told) = &*beside.0;
        let first = known.lock().unwrap_or_else(PoisonError::into_inner);
        drop(told.wait_timeout_while(first, WITHIN, |known| known.tries < FIRST));
        Ok(beside)
    }

    /// The path's round trip at this moment; `None`: nothing has answered.
    pub(crate) fn rtt(&self) -> Option<Rtt> {
        let known = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<u64> = known.round_trips.iter().copied().collect();
        Rtt::of(&all)
    }

    /// How many were not answered.
    pub(crate) fn failed(&self) -> u64 {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).failed
    }

    fn measure(&self, peer: Peer, stop: &Stop, record: &Record) {
        let mut open: Option<Open> = None;
        let (mut connection, mut due_ns) = (0, mono_ns());
        while !stop.is_over() {
            let now = mono_ns();
            if now < due_ns {
                std::thread::sleep(Duration::from_nanos(due_ns - now).min(Duration::from_millis(50)));
                continue;
            }
            let sent_ns = mono_ns();
            // By the kernel's own measure of a set-up, which has nobody's wake-up in it.
            let mut kernel_ns = None;
            let (sample, answered) = match peer {
                Peer::Port(remote) => {
                    let outcome = set_up(remote);
                    let rtt_ns = mono_ns() - sent_ns;
                    match &outcome {
                        Ok(stream) => {
                            kernel_ns = socket::tcp_info(stream).map(|info| u64::from(info.srtt_us) * 1_000);
                            record.opened(connection, remote, stream.local_addr().ok(), rtt_ns);
                        }
                        Err(error) => record.refused(connection, remote, error),
                    }
                    let sample =
                        Sample { connection, flags: Flags::FIRST_ON_CONNECTION, ..Sample::default() };
                    connection += 1;
                    (sample, outcome.map(|_| rtt_ns))
                }
                Peer::Reflector(remote) => {
                    if open.is_none() {
                        match set_up(remote) {
                            Ok(stream) => {
                                let took_ns = mono_ns() - sent_ns;
                                record.opened(connection, remote, stream.local_addr().ok(), took_ns);
                                open = Some(Open { stream, connection, sent: 0, answered: 0 });
                                connection += 1;
                                // Timed from its own sending.
                                continue;
                            }
                            Err(error) => record.refused(connection, remote, &error),
                        }
                    }
                    let Some(link) = &mut open else {
                        connection += 1;
                        self.note(Err(()));
                        due_ns = now + SETUP_EVERY.as_nanos() as u64;
                        continue;
                    };
                    let flags = if link.sent == 0 { Flags::FIRST_ON_CONNECTION } else { Flags::default() };
                    let sample = Sample {
                        connection: link.connection,
                        seq: link.sent,
                        size: ECHO_BYTES as u32,
                        flags,
                        ..Sample::default()
                    };
                    let outcome = link.echo();
                    (sample, outcome.map(|()| mono_ns() - sent_ns))
                }
            };
            let answered = answered.map_err(|error| tracing::debug!(%error, "beside"));
            let mut sample = Sample {
                rtt_ns: answered.ok().map(|ns| ns as i64),
                lateness_ns: (sent_ns - due_ns) as i64,
                ..sample
            };
            if answered.is_err() {
                sample.flags |= Flags::UNANSWERED;
            }
            record.sample(sample, sent_ns);
            match peer {
                Peer::Port(_) if answered.is_ok() => {
                    record.closed(sample.connection, 1, 1, mono_ns() - sent_ns);
                }
                Peer::Reflector(_) if answered.is_err() => {
                    if let Some(link) = open.take() {
                        link.end(record);
                    }
                }
                _ => {}
            }
            self.note(answered.map(|ns| kernel_ns.filter(|kernel_ns| *kernel_ns > 0).unwrap_or(ns)));
            let tries = self.0.0.lock().unwrap_or_else(PoisonError::into_inner).tries;
            due_ns = now
                + match peer {
                    _ if tries < FIRST => FIRST_EVERY,
                    Peer::Reflector(_) => ECHO_EVERY,
                    Peer::Port(_) => SETUP_EVERY,
                }
                .as_nanos() as u64;
        }
        if let Some(link) = open {
            link.end(record);
        }
        record.beside_is_over();
    }

    fn note(&self, outcome: Result<u64, ()>) {
        let (known, told) = &*self.0;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        known.tries += 1;
        match outcome {
            Ok(ns) => {
                known.round_trips.push_back(ns);
                // The first of a run finds nothing warm.
                while known.round_trips.len() > KEPT
                    || (known.tries == FIRST && known.round_trips.len() == FIRST)
                {
                    known.round_trips.pop_front();
                }
            }
            Err(()) => known.failed += 1,
        }
        told.notify_all();
    }
}

/// A connection to a reflector.
struct Open {
    stream: TcpStream,
    connection: u32,
    sent: u64,
    answered: u64,
}

impl Open {
    fn echo(&mut self) -> io::Result<()> {
        let mut payload = [0x66; ECHO_BYTES];
        payload[..8].copy_from_slice(&self.sent.to_be_bytes());
        self.sent += 1;
        self.stream.write_all(&payload)?;
        let mut echo = [0; ECHO_BYTES];
        self.stream.read_exact(&mut echo)?;
        if echo != payload {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "another echo"));
        }
        self.answered += 1;
        Ok(())
    }

    fn end(self, record: &Record) {
        record.closed(self.connection, self.sent, self.answered, 0);
    }
}

fn set_up(remote: SocketAddr) -> io::Result<TcpStream> {
    let stream = socket::connect_tcp_blocking(remote, &TcpOptions::default(), WITHIN)?;
    stream.set_read_timeout(Some(WITHIN))?;
    Ok(stream)
}
