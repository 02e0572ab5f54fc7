//! One test as its server: the control connection and the clock are this thread's, each stream has its own.

use super::counts::Counts;
use super::notice::Notice;
use super::slot::{Arrival, Lease};
use crate::codec::{Refusal, Results};
use crate::control::{Control, Received};
use crate::machine::agreement::{Agreement, Limits};
use crate::machine::server::{Failure, Server, Step};
use crate::streams::{DRAIN_LOOK_NS, LOOK_NS, Streams, Traffic};
use fathom_os::clock::mono_ns;
use mio::net::TcpStream;
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// From its cookie on, a client has so long until all its streams are there.
const SETUP_NS: u64 = 10_000_000_000;
/// In the end the client may take so long for each thing that it owes.
const PATIENCE_NS: u64 = 10_000_000_000;
/// A test may last so much longer than it was asked to: its client's clock ends it, not ours.
const GRACE_NS: u64 = 5_000_000_000;
/// iperf3's client keeps its streams open in the end: all has come when nothing has come for so long.
const QUIET_NS: u64 = 100_000_000;
/// Ours closes them. This is for one that does not keep its word.
const QUIET_AND_CLOSED_NS: u64 = 1_000_000_000;
/// A client that is told that its test is over hangs up at once.
const DISMISSAL_NS: u64 = 1_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// What all sessions share.
#[derive(Clone)]
pub(super) struct Environment {
    /// What a test may ask for.
    pub(super) limits: Limits,
    /// Takes what an operator may want to know.
    pub(super) notify: Arc<dyn Fn(&Notice) + Send + Sync>,
    /// Set when the service stops.
    pub(super) stop: Arc<AtomicBool>,
    /// What was served so far.
    pub(super) counts: Arc<Mutex<Counts>>,
}

impl Environment {
    /// Counts something.
    pub(super) fn count(&self, add: impl FnOnce(&mut Counts)) {
        add(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Runs one test whose control connection has given its cookie.
pub(super) fn run(control: TcpStream, peer: SocketAddr, lease: Lease<TcpStream>, environment: &Environment) {
    let Ok(control) = blocking(control).and_then(Control::new) else { return };
    let mut session = Session {
        control,
        peer,
        server: Server::new(environment.limits),
        environment,
        lease,
        arrived: Vec::new(),
        awaiting: false,
        streams: None,
        stopping: false,
        ours: None,
        owes_by_ns: mono_ns() + SETUP_NS,
    };
    session.send(&Server::opening());
    let end = session.turns();
    session.conclude(end);
}

/// Why a test did not end as it should.
enum Ended {
    Refused(&'static str),
    Early(String),
}

struct Session<'a> {
    control: Control,
    peer: SocketAddr,
    server: Server,
    environment: &'a Environment,
    lease: Lease<TcpStream>,
    arrived: Vec<Arrival<TcpStream>>,
    /// The streams are to come.
    awaiting: bool,
    streams: Option<Streams>,
    /// The client's time is over, and what is under way is read.
    stopping: bool,
    ours: Option<Results>,
    /// When the client must have done what it owes.
    owes_by_ns: u64,
}

impl Session<'_> {
    fn turns(&mut self) -> Result<(), Ended> {
        loop {
            match self.control.receive(self.next_turn_ns()) {
                Received::Bytes(bytes) => {
                    let steps = self.server.receive(&bytes).map_err(|failure| self.failed(&failure))?;
                    for step in steps {
                        if self.step(step) {
                            return Ok(());
                        }
                    }
                }
                Received::Nothing => {}
                Received::Closed => {
                    return self.server.closed().map_err(|failure| self.failed(&failure));
                }
            }
            if self.environment.stop.load(Ordering::Relaxed) {
                return Err(self.dismiss("this reflector stops"));
            }
            if self.lease.is_displaced() {
                return Err(self.dismiss("nothing moved, and another client came"));
            }
            if self.awaiting {
                self.take_arrivals()?;
            } else {
                // One more than was asked for, or one too early.
                self.lease.arrivals().for_each(drop);
            }
            if let Some(streams) = &mut self.streams {
                // Nobody reads intervals here; the ranges of cwnd and RTT come of them.
                let _ = streams.tick();
                self.lease.touch(streams.last_ns());
            }
            self.drain();
            if mono_ns() >= self.owes_by_ns {
                let began = self.streams.is_some();
                return Err(self.dismiss(if began {
                    "it took too long"
                } else {
                    "it said nothing for too long"
                }));
            }
        }
    }

    /// Counts and tells what the test came to.
    fn conclude(mut self, end: Result<(), Ended>) {
        let began = self.streams.is_some() || self.ours.is_some();
        self.lease.leave();
        if let Some(streams) = self.streams.take() {
            self.ours = Some(streams.finish().1);
        }
        let ours = self.ours.take().unwrap_or_default();
        let sends = self.server.agreement().map(Agreement::server_sends).unwrap_or_default();
        let sum = |sent: bool| -> u64 {
            let of = ours.streams.iter().zip(&sends).filter(|(_, sends)| **sends == sent);
            of.map(|(stream, _)| stream.bytes).sum()
        };
        let (sent, received) = (sum(true), sum(false));
        self.environment.count(|counts| {
            counts.tests += u64::from(began);
            counts.bytes_sent += sent;
            counts.bytes_received += received;
            match end {
                Ok(()) => {}
                Err(Ended::Refused(_)) => counts.tests_refused += 1,
                Err(Ended::Early(_)) => counts.tests_unfinished += u64::from(began),
            }
        });
        let peer = self.peer;
        let notice = match end {
            Err(Ended::Refused(why)) => Notice::Refused { peer, why },
            Ok(()) if began => Notice::Ended { peer, sent, received, early: None },
            Err(Ended::Early(why)) if began => Notice::Ended { peer, sent, received, early: Some(why) },
            _ => return,
        };
        (self.environment.notify)(&notice);
    }

    fn next_turn_ns(&self) -> u64 {
        let now_ns = mono_ns();
        let turn = match &self.streams {
            // Streams come to the acceptor while the control connection is silent.
            None if self.awaiting => now_ns + DRAIN_LOOK_NS,
            None => now_ns + LOOK_NS,
            Some(_) if self.stopping => now_ns + DRAIN_LOOK_NS,
            Some(streams) => streams.next_tick_ns(),
        };
        turn.min(self.owes_by_ns)
    }

    /// Does one step; whether it was the last.
    fn step(&mut self, step: Step) -> bool {
        let now_ns = mono_ns();
        self.lease.touch(now_ns);
        match step {
            // The time until the streams are there is one for all its steps.
            Step::Send(bytes) => self.send(&bytes),
            Step::AwaitStreams => self.awaiting = true,
            Step::Stop => {
                self.owes_by_ns = now_ns + PATIENCE_NS;
                self.stopping = true;
                if let Some(streams) = &mut self.streams {
                    streams.stop_sending();
                }
            }
            Step::GiveResults(_) => {
                self.owes_by_ns = now_ns + PATIENCE_NS;
                // With these results the client has all it wants, and may begin another test at once.
                self.lease.leave();
                let ours = self.ours.as_ref().map(|ours| self.server.results(ours));
                self.send(&ours.unwrap_or_default());
            }
            Step::Finish => return true,
        }
        false
    }

    fn take_arrivals(&mut self) -> Result<(), Ended> {
        let Some(agreement) = self.server.agreement().cloned() else { return Ok(()) };
        let sends = agreement.server_sends();
        self.arrived.extend(self.lease.arrivals());
        if self.arrived.len() < sends.len() {
            return Ok(());
        }
        self.awaiting = false;
        let mut arrived = std::mem::take(&mut self.arrived);
        arrived.sort_by_key(|arrival| arrival.ordinal);
        arrived.truncate(sends.len());
        let sockets = arrived.into_iter().map(|arrival| prepared(arrival.connection, &agreement));
        let sockets = match sockets.collect::<io::Result<Vec<_>>>() {
            Ok(sockets) => sockets.into_iter().zip(sends).collect(),
            Err(_) if agreement.congestion().is_some() => {
                return Err(self.refuse(Refusal::CONGESTION, "no such congestion control"));
            }
            Err(e) => return Err(Ended::Early(e.to_string())),
        };
        let traffic = Traffic {
            block: agreement.block(),
            bitrate: agreement.bitrate(),
            omit_ns: u64::from(agreement.omit_s()) * SECOND_NS,
        };
        let bytes = self.server.streams_are_there();
        self.send(&bytes);
        let streams = Streams::begin(sockets, &traffic).map_err(|e| Ended::Early(e.to_string()))?;
        // A client that named no time (but bytes, say) has as long as anybody may ask for.
        let (seconds, grace_ns) = match agreement.seconds() {
            None => (agreement.longest_s(), 0),
            Some(seconds) => (seconds, GRACE_NS),
        };
        self.owes_by_ns = streams.begun_ns() + u64::from(seconds) * SECOND_NS + grace_ns;
        self.streams = Some(streams);
        (self.environment.notify)(&Notice::Began {
            peer: self.peer,
            version: agreement.client_version().map(str::to_owned),
            direction: agreement.direction(),
            parallel: agreement.parallel(),
            seconds: agreement.seconds(),
        });
        Ok(())
    }

    /// After the client's end: when all has come, the results are asked for.
    fn drain(&mut self) {
        let quiet_ns = if self.server.agreement().is_some_and(Agreement::drains) {
            QUIET_AND_CLOSED_NS
        } else {
            QUIET_NS
        };
        if !self.stopping || self.streams.as_ref().is_some_and(|streams| !streams.is_drained(quiet_ns)) {
            return;
        }
        self.stopping = false;
        if let Some(streams) = self.streams.take() {
            self.ours = Some(streams.finish().1);
        }
        self.owes_by_ns = mono_ns() + PATIENCE_NS;
        let bytes = self.server.drained();
        self.send(&bytes);
    }

    /// Ends the test before its time. The streams stay open until the client has heard of it: broken first, they would
    /// be all that it could tell of.
    fn dismiss(&mut self, why: &str) -> Ended {
        self.send(&Server::terminate());
        let until_ns = mono_ns() + DISMISSAL_NS;
        while mono_ns() < until_ns && !matches!(self.control.receive(until_ns), Received::Closed) {}
        Ended::Early(why.to_owned())
    }

    fn refuse(&mut self, refusal: Refusal, why: &'static str) -> Ended {
        // Whoever hears of it may ask for another test at once.
        self.lease.leave();
        self.send(&refusal.encode());
        Ended::Refused(why)
    }

    fn failed(&mut self, failure: &Failure) -> Ended {
        match failure {
            Failure::Refused(refusal, why) => self.refuse(*refusal, why),
            Failure::Terminated => Ended::Early("its client gave up".to_owned()),
            Failure::Vanished => Ended::Early("its control connection ended".to_owned()),
            Failure::Broken(what) => Ended::Early(format!("its client broke the protocol: {what}")),
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        // A connection that takes nothing any more says so when it is read from.
        let _ = self.control.send(bytes);
    }
}

/// A stream's socket as the client asked for it.
fn prepared(stream: TcpStream, agreement: &Agreement) -> io::Result<std::net::TcpStream> {
    let socket = blocking(stream)?;
    socket.set_nodelay(agreement.nodelay())?;
    #[cfg(target_os = "linux")]
    if let Some(name) = agreement.congestion() {
        SockRef::from(&socket).set_tcp_congestion(name.as_bytes())?;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = SockRef::from(&socket);
    Ok(socket)
}

/// The same connection for a thread of its own.
fn blocking(stream: TcpStream) -> io::Result<std::net::TcpStream> {
    let stream = std::net::TcpStream::from(stream);
    stream.set_nonblocking(false)?;
    Ok(stream)
}
