//! One test as its server: the control connection and the clock are this thread's, each stream has its own.

use super::door::Place;
use super::served::Served;
use crate::echo::talk::note;
use crate::throughput::BLOCK;
use crate::throughput::control::{Control, Heard};
use crate::throughput::flows::{DRAIN_LOOK_NS, Flows, LOOK_NS, Manner};
use crate::throughput::words::bytes;
use fathom_core::throughput::server::{Failure, Limits, Server, Step};
use fathom_os::clock::mono_ns;
use fathom_wire::iperf3::{Parameters, Refusal, Results};
use mio::net::TcpStream;
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};

/// The client may take so long for each thing that it owes.
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

/// A stream's connection, its cookie read.
#[derive(Debug)]
pub(super) struct Arrival {
    /// Its place among all that came: the client makes its streams' connections in order.
    pub(super) came: usize,
    pub(super) stream: TcpStream,
}

/// Runs one test whose control connection has given its cookie.
pub(super) fn run(
    (control, peer): (TcpStream, SocketAddr),
    limits: Limits,
    arrivals: &Receiver<Arrival>,
    place: Place,
    stop: &AtomicBool,
    served: &Mutex<Served>,
) {
    let began = blocking(control).and_then(Control::new);
    let Ok(control) = began else { return };
    let mut session = Session {
        control,
        peer,
        server: Server::new(limits),
        limits,
        arrivals,
        place,
        arrived: Vec::new(),
        awaiting: false,
        flows: None,
        stopping: false,
        ours: None,
        owes_by_ns: mono_ns() + PATIENCE_NS,
    };
    session.say(&Server::opening());
    let end = session.turns(stop);
    let began = session.flows.is_some() || session.ours.is_some();
    session.place.leave();
    if let Some(flows) = session.flows.take() {
        session.ours = Some(flows.finish().1);
    }
    let ours = session.ours.take().unwrap_or_default();
    let sends = session.sends();
    let sum = |sent: bool| -> u64 {
        let of = ours.streams.iter().zip(&sends).filter(|(_, sends)| **sends == sent);
        of.map(|(stream, _)| stream.bytes).sum()
    };
    let (sent, received) = (sum(true), sum(false));
    let mut served = served.lock().unwrap_or_else(PoisonError::into_inner);
    served.tests += u64::from(began);
    served.bytes_sent += sent;
    served.bytes_received += received;
    let how = match end {
        Ok(()) => String::new(),
        Err(Ended::Refused(why)) => {
            served.tests_refused += 1;
            note(&format!("throughput test of {peer} refused: {why}"));
            return;
        }
        Err(Ended::Early(why)) => {
            served.tests_unfinished += u64::from(began);
            format!(", ended early: {why}")
        }
    };
    if began {
        note(&format!("throughput test of {peer}: sent {}, received {}{how}", bytes(sent), bytes(received)));
    }
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
    limits: Limits,
    arrivals: &'a Receiver<Arrival>,
    place: Place,
    arrived: Vec<Arrival>,
    /// The streams are to come.
    awaiting: bool,
    flows: Option<Flows>,
    /// The client's time is over, and what is under way is read.
    stopping: bool,
    ours: Option<Results>,
    /// When the client must have done what it owes.
    owes_by_ns: u64,
}

impl Session<'_> {
    fn turns(&mut self, stop: &AtomicBool) -> Result<(), Ended> {
        loop {
            match self.control.hear(self.next_turn_ns()) {
                Heard::Bytes(bytes) => {
                    let steps = self.server.receive(&bytes).map_err(|failure| self.failed(&failure))?;
                    for step in steps {
                        if self.step(step) {
                            return Ok(());
                        }
                    }
                }
                Heard::Nothing => {}
                Heard::Closed => {
                    return self.server.closed().map_err(|failure| self.failed(&failure));
                }
            }
            if stop.load(Ordering::Relaxed) {
                self.dismiss();
                return Err(Ended::Early("this reflector stops".to_owned()));
            }
            if self.awaiting {
                self.take_arrivals()?;
            } else {
                // One more than was asked for, or one too early.
                self.arrivals.try_iter().for_each(drop);
            }
            if let Some(flows) = &mut self.flows {
                // Nobody reads intervals here; the ranges of cwnd and RTT come of them.
                let _ = flows.tick();
            }
            self.drain();
            if mono_ns() >= self.owes_by_ns {
                self.dismiss();
                let why =
                    if self.flows.is_some() { "it took too long" } else { "it said nothing for too long" };
                return Err(Ended::Early(why.to_owned()));
            }
        }
    }

    fn next_turn_ns(&self) -> u64 {
        let now_ns = mono_ns();
        let turn = match &self.flows {
            // Streams come to the door while the control connection is silent.
            None if self.awaiting => now_ns + DRAIN_LOOK_NS,
            None => now_ns + LOOK_NS,
            Some(_) if self.stopping => now_ns + DRAIN_LOOK_NS,
            Some(flows) => flows.next_tick_ns(),
        };
        turn.min(self.owes_by_ns)
    }

    /// Does one step; whether it was the last.
    fn step(&mut self, step: Step) -> bool {
        self.owes_by_ns = mono_ns() + PATIENCE_NS;
        match step {
            Step::Send(bytes) => self.say(&bytes),
            Step::AwaitStreams => self.awaiting = true,
            Step::Stop => {
                self.stopping = true;
                if let Some(flows) = &mut self.flows {
                    flows.stop_sending();
                }
            }
            Step::GiveResults(_) => {
                // With these results the client has all it wants, and may begin another test at once.
                self.place.leave();
                let ours = self.ours.as_ref().map(|ours| self.server.results(ours));
                self.say(&ours.unwrap_or_default());
            }
            Step::Finish => return true,
        }
        false
    }

    fn take_arrivals(&mut self) -> Result<(), Ended> {
        self.arrived.extend(self.arrivals.try_iter());
        let sends = self.sends();
        if self.arrived.len() < sends.len() {
            return Ok(());
        }
        self.awaiting = false;
        let mut arrived = std::mem::take(&mut self.arrived);
        arrived.sort_by_key(|arrival| arrival.came);
        let asked = self.server.asked().clone();
        let sockets = arrived.into_iter().map(|arrival| prepared(arrival.stream, &asked));
        let sockets = match sockets.collect::<io::Result<Vec<_>>>() {
            Ok(sockets) => sockets.into_iter().zip(sends).collect(),
            Err(_) if asked.congestion.is_some() => {
                return Err(self.refuse(Refusal::CONGESTION, "no such congestion control"));
            }
            Err(e) => return Err(Ended::Early(e.to_string())),
        };
        let omit_ns = u64::from(asked.omit_s) * SECOND_NS;
        let block = if asked.block == 0 { BLOCK } else { asked.block };
        let manner = Manner { block, bitrate: asked.bitrate, omit_ns };
        let bytes = self.server.streams_are_there();
        self.say(&bytes);
        let flows = Flows::begin(sockets, &manner).map_err(|e| Ended::Early(e.to_string()))?;
        // A client that named no time (but bytes, say) has as long as anybody may ask for.
        let (seconds, grace_ns) = match asked.time_s {
            0 => (self.limits.longest_s, 0),
            asked_s => (asked_s + asked.omit_s, GRACE_NS),
        };
        self.owes_by_ns = flows.begun_ns() + u64::from(seconds) * SECOND_NS + grace_ns;
        self.flows = Some(flows);
        let client = asked.client_version.as_deref().unwrap_or("?");
        note(&format!(
            "throughput test of {} (client {client}): {:?}, {} streams, {}",
            self.peer,
            self.server.direction(),
            asked.parallel,
            if asked.time_s == 0 { "until it says so".to_owned() } else { format!("{seconds} s") },
        ));
        Ok(())
    }

    /// After the client's end: when all has come, the results are asked for.
    fn drain(&mut self) {
        let quiet_ns = if self.server.asked().drains { QUIET_AND_CLOSED_NS } else { QUIET_NS };
        if !self.stopping || self.flows.as_ref().is_some_and(|flows| !flows.is_drained(quiet_ns)) {
            return;
        }
        self.stopping = false;
        if let Some(flows) = self.flows.take() {
            self.ours = Some(flows.finish().1);
        }
        self.owes_by_ns = mono_ns() + PATIENCE_NS;
        let bytes = self.server.drained();
        self.say(&bytes);
    }

    /// For each stream, whether this end sends on it.
    fn sends(&self) -> Vec<bool> {
        let asked = self.server.asked();
        let client_sends = self.server.direction().client_sends(asked.parallel);
        client_sends.into_iter().map(|client| !client).collect()
    }

    /// Ends the test before its time. The streams stay open until the client has heard of it: broken first, they would
    /// be all that it could tell of.
    fn dismiss(&mut self) {
        self.say(&Server::terminate());
        let until_ns = mono_ns() + DISMISSAL_NS;
        while mono_ns() < until_ns && !matches!(self.control.hear(until_ns), Heard::Closed) {}
    }

    fn refuse(&mut self, refusal: Refusal, why: &'static str) -> Ended {
        // Whoever hears of it may ask for another test at once.
        self.place.leave();
        self.say(&refusal.encode());
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

    fn say(&mut self, bytes: &[u8]) {
        // A connection that takes nothing any more says so when it is read from.
        let _ = self.control.send(bytes);
    }
}

/// A stream's socket as the client asked for it.
fn prepared(stream: TcpStream, asked: &Parameters) -> io::Result<std::net::TcpStream> {
    let socket = blocking(stream)?;
    socket.set_nodelay(asked.nodelay)?;
    #[cfg(target_os = "linux")]
    if let Some(name) = &asked.congestion {
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
