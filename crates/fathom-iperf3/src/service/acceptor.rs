//! Where connections of throughput tests come in: the cookie of each is read here, and decides to whom it belongs. No
//! client can hold another one up.

use super::counts::Counts;
use super::notice::Notice;
use super::session::{self, Environment};
use super::slot::{Admission, Arrival, Slot};
use crate::codec::{COOKIE_LEN, Cookie};
use crate::machine::agreement::Limits;
use crate::machine::server::Server;
use fathom_os::clock::mono_ns;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const WAKER: Token = Token(usize::MAX);
/// A cookie comes with the first packet.
const COOKIE_PATIENCE_NS: u64 = 5_000_000_000;
/// Connections whose cookie has not come; one more, and the one that has waited longest goes.
const MOST_WAITING: usize = 256;
/// Sessions at once: the one that has the place, and those whose clients have yet to say farewell.
const MOST_SESSIONS: usize = 16;
/// Connections taken before anything else is looked at: a flood of them holds up neither the rest nor the end.
const ACCEPTS_A_TURN: usize = 64;
/// When the host has no descriptor or memory for another connection, the next is tried after so long.
const ACCEPT_REST: Duration = Duration::from_millis(200);

/// How tests are served.
pub struct ServiceOptions {
    /// What a test may ask for.
    pub limits: Limits,
    /// Whether this peer is served.
    pub permits: Box<dyn Fn(IpAddr) -> bool + Send>,
    /// Takes what an operator may want to know. Called by several threads, which it holds up.
    pub notify: Arc<dyn Fn(&Notice) + Send + Sync>,
}

impl fmt::Debug for ServiceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceOptions").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// The service, running in threads of its own from [`Service::start`] to [`Service::stop`].
#[derive(Debug)]
pub struct Service {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: JoinHandle<Counts>,
}

impl Service {
    /// Serves on these listeners, which do not block.
    pub fn start(listeners: Vec<TcpListener>, options: ServiceOptions) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut acceptor = Acceptor {
            poll,
            first_token: listeners.len(),
            listeners,
            waiting: BTreeMap::new(),
            came: 0,
            resting: BTreeSet::new(),
            unfinished: BTreeSet::new(),
            permits: options.permits,
            slot: Slot::new(),
            sessions: Vec::new(),
            environment: Environment {
                limits: options.limits,
                notify: options.notify,
                stop: Arc::clone(&stop),
                counts: Arc::default(),
            },
        };
        acceptor.register()?;
        let thread = thread::Builder::new().name("throughput".into()).spawn(move || acceptor.run())?;
        Ok(Self { stop, waker, thread })
    }

    /// Ends it, and the test that runs, within some seconds, whatever clients do; what it served.
    pub fn stop(self) -> Counts {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.waker.wake();
        self.thread.join().unwrap_or_default()
    }
}

/// A connection whose cookie has not come.
#[derive(Debug)]
struct Waiting {
    stream: TcpStream,
    peer: SocketAddr,
    since_ns: u64,
    head: Vec<u8>,
}

struct Acceptor {
    poll: Poll,
    listeners: Vec<TcpListener>,
    /// Tokens of connections begin here: this plus the ordinal with which each came.
    first_token: usize,
    waiting: BTreeMap<usize, Waiting>,
    came: usize,
    /// Listeners that could not take a connection, and will not tell again of those that wait.
    resting: BTreeSet<usize>,
    /// Listeners that have more connections than were taken in one turn.
    unfinished: BTreeSet<usize>,
    permits: Box<dyn Fn(IpAddr) -> bool + Send>,
    slot: Slot<TcpStream>,
    sessions: Vec<JoinHandle<()>>,
    environment: Environment,
}

impl Acceptor {
    fn register(&mut self) -> io::Result<()> {
        for (listener, index) in self.listeners.iter_mut().zip(0..) {
            self.poll.registry().register(listener, Token(index), Interest::READABLE)?;
        }
        Ok(())
    }

    fn run(mut self) -> Counts {
        let mut events = Events::with_capacity(64);
        while !self.environment.stop.load(Ordering::Relaxed) {
            let oldest =
                self.waiting.values().next().map(|connection| connection.since_ns + COOKIE_PATIENCE_NS);
            let more = (!self.unfinished.is_empty()).then_some(Duration::ZERO);
            let rest = (!self.resting.is_empty()).then_some(ACCEPT_REST);
            let patience = oldest.map(|due| Duration::from_nanos(due.saturating_sub(mono_ns())));
            let wait = [more, rest, patience].into_iter().flatten().min();
            match self.poll.poll(&mut events, wait) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => {
                    (self.environment.notify)(&Notice::Stopped(e));
                    break;
                }
                _ => {}
            }
            for event in &events {
                match event.token() {
                    WAKER => {}
                    Token(index) if index < self.first_token => self.accept(index),
                    Token(connection) => self.listen_to(connection),
                }
            }
            self.dismiss_the_silent();
            let resting = std::mem::take(&mut self.resting);
            for index in resting.into_iter().chain(std::mem::take(&mut self.unfinished)) {
                self.accept(index);
            }
        }
        self.environment.stop.store(true, Ordering::Relaxed);
        for session in self.sessions {
            let _ = session.join();
        }
        self.environment.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS_A_TURN {
            match self.listeners[index].accept() {
                Ok((stream, peer)) if !(self.permits)(peer.ip()) => {
                    drop(stream);
                    self.count(|counts| counts.not_allowed += 1);
                }
                Ok((stream, peer)) => self.admit(stream, peer),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {}
                Err(_) => {
                    // No descriptor or no memory: asking again at once would spin.
                    self.resting.insert(index);
                    return;
                }
            }
        }
        self.unfinished.insert(index);
    }

    fn admit(&mut self, mut stream: TcpStream, peer: SocketAddr) {
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.pop_first();
            self.count(|counts| counts.foreign += 1);
        }
        let token = self.first_token + self.came;
        self.came += 1;
        if self.poll.registry().register(&mut stream, Token(token), Interest::READABLE).is_ok() {
            let connection = Waiting { stream, peer, since_ns: mono_ns(), head: Vec::new() };
            self.waiting.insert(token, connection);
        }
    }

    /// Reads as much of a connection's cookie as has come, and nothing of what follows it.
    fn listen_to(&mut self, token: usize) {
        let Some(connection) = self.waiting.get_mut(&token) else { return };
        let mut buffer = [0; COOKIE_LEN];
        let cookie = loop {
            let missing = COOKIE_LEN - connection.head.len();
            match connection.stream.read(&mut buffer[..missing]) {
                Ok(n) if n > 0 => {
                    connection.head.extend_from_slice(&buffer[..n]);
                    if let Some(head) = connection.head.first_chunk::<COOKIE_LEN>() {
                        break Cookie::decode(head);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // It is gone.
                _ => break None,
            }
        };
        let Some(mut connection) = self.waiting.remove(&token) else { return };
        let _ = self.poll.registry().deregister(&mut connection.stream);
        match cookie {
            Some(cookie) => self.route(token, connection, cookie),
            None => self.count(|counts| counts.foreign += 1),
        }
    }

    /// A stream of the test that runs, the beginning of a test, or somebody who has to wait.
    fn route(&mut self, ordinal: usize, connection: Waiting, cookie: Cookie) {
        self.sessions.retain(|session| !session.is_finished());
        let arrival = Arrival { ordinal, connection: connection.stream };
        let streams = self.environment.limits.streams as usize;
        match self.slot.admit(cookie, arrival, streams, mono_ns()) {
            Admission::Stream => {}
            Admission::Test(lease, control) if self.sessions.len() < MOST_SESSIONS => {
                let (environment, peer) = (self.environment.clone(), connection.peer);
                let session = thread::Builder::new()
                    .name("test".into())
                    .spawn(move || session::run(control.connection, peer, lease, &environment));
                match session {
                    Ok(session) => self.sessions.push(session),
                    Err(e) => (self.environment.notify)(&Notice::CannotBegin(e)),
                }
            }
            Admission::Test(_, mut arrival) | Admission::Busy(mut arrival) => {
                // One byte always fits into an empty send buffer.
                let _ = arrival.connection.write(&Server::deny());
                self.count(|counts| counts.busy += 1);
            }
        }
    }

    fn dismiss_the_silent(&mut self) {
        let now_ns = mono_ns();
        while let Some(connection) = self.waiting.first_entry()
            && now_ns >= connection.get().since_ns + COOKIE_PATIENCE_NS
        {
            connection.remove();
            self.count(|counts| counts.foreign += 1);
        }
    }

    fn count(&self, add: impl FnOnce(&mut Counts)) {
        self.environment.count(add);
    }
}
