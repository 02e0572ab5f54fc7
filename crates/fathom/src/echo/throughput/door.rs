//! Where connections of throughput tests come in: the cookie of each is read here, and decides to whom it belongs. No
//! guest can hold another one up.

use super::served::Served;
use super::session::{self, Arrival};
use crate::echo::allow::Allow;
use crate::echo::config::Config;
use crate::echo::listen::open_tcp;
use crate::echo::talk::note;
use crate::exit::Failure;
use fathom_core::throughput::server::{Limits, Server};
use fathom_os::clock::mono_ns;
use fathom_wire::iperf3::{COOKIE_LEN, Cookie, MAX_PARALLEL};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const WAKER: Token = Token(usize::MAX);
/// A cookie comes with the first packet.
const COOKIE_PATIENCE_NS: u64 = 5_000_000_000;
/// Guests whose cookie has not come; one more, and the one that has waited longest goes.
const MOST_WAITING: usize = 256;
/// When the host has no descriptor or memory for another connection, the next is tried after so long.
const ACCEPT_REST: Duration = Duration::from_millis(200);

/// The service, running.
#[derive(Debug)]
pub(in crate::echo) struct Service {
    addresses: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: JoinHandle<Served>,
}

impl Service {
    /// Listens and serves, where the configuration says so.
    pub(in crate::echo) fn open(config: &Config) -> Result<Option<Self>, Failure> {
        let Some(settings) = config.throughput else { return Ok(None) };
        let cannot = |e: io::Error| Failure::run(format!("cannot serve throughput tests: {e}"));
        let ips: BTreeSet<IpAddr> = if config.sockets_are_default {
            BTreeSet::from([Ipv6Addr::UNSPECIFIED.into()])
        } else {
            config.sockets.iter().map(|(_, address)| address.ip()).collect()
        };
        let listeners = ips.into_iter().map(|ip| open_tcp(SocketAddr::new(ip, settings.port)));
        let (listeners, addresses): (Vec<_>, Vec<_>) =
            listeners.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let poll = Poll::new().map_err(cannot)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(cannot)?;
        let stop = Arc::new(AtomicBool::new(false));
        // Each stream is a connection and a thread.
        let streams = config.max_connections.unwrap_or(u32::MAX).min(2 * MAX_PARALLEL);
        let mut door = Door {
            poll,
            first_guest: listeners.len(),
            listeners,
            guests: BTreeMap::new(),
            came: 0,
            resting: BTreeSet::new(),
            allow: config.allow.clone(),
            limits: Limits { longest_s: settings.longest_s, streams },
            current: Arc::default(),
            session: None,
            stop: Arc::clone(&stop),
            served: Arc::default(),
        };
        door.register().map_err(cannot)?;
        let thread =
            thread::Builder::new().name("throughput".into()).spawn(move || door.run()).map_err(cannot)?;
        Ok(Some(Self { addresses, stop, waker, thread }))
    }

    /// Where it listens.
    pub(in crate::echo) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Ends it, and the test that runs; what it served.
    pub(in crate::echo) fn close(self) -> Served {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.waker.wake();
        self.thread.join().unwrap_or_default()
    }
}

/// The test that runs, as the door sees it.
#[derive(Debug)]
pub(super) struct Current {
    cookie: Cookie,
    streams: Sender<Arrival>,
}

/// A connection whose cookie has not come.
#[derive(Debug)]
struct Guest {
    stream: TcpStream,
    peer: SocketAddr,
    since_ns: u64,
    head: Vec<u8>,
}

#[derive(Debug)]
struct Door {
    poll: Poll,
    listeners: Vec<TcpListener>,
    /// Tokens of guests begin here: this plus the ordinal with which each came.
    first_guest: usize,
    guests: BTreeMap<usize, Guest>,
    came: usize,
    /// Listeners that could not take a connection, and will not tell again of those that wait.
    resting: BTreeSet<usize>,
    allow: Allow,
    limits: Limits,
    current: Arc<Mutex<Option<Current>>>,
    session: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    served: Arc<Mutex<Served>>,
}

impl Door {
    fn register(&mut self) -> io::Result<()> {
        for (listener, index) in self.listeners.iter_mut().zip(0..) {
            self.poll.registry().register(listener, Token(index), Interest::READABLE)?;
        }
        Ok(())
    }

    fn run(mut self) -> Served {
        let mut events = Events::with_capacity(64);
        while !self.stop.load(Ordering::Relaxed) {
            let oldest = self.guests.values().next().map(|guest| guest.since_ns + COOKIE_PATIENCE_NS);
            let rest = (!self.resting.is_empty()).then_some(ACCEPT_REST);
            let patience = oldest.map(|due| Duration::from_nanos(due.saturating_sub(mono_ns())));
            let wait = [rest, patience].into_iter().flatten().min();
            match self.poll.poll(&mut events, wait) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => {
                    note(&format!("throughput tests are served no more: {e}"));
                    break;
                }
                _ => {}
            }
            for event in &events {
                match event.token() {
                    WAKER => {}
                    Token(index) if index < self.first_guest => self.accept(index),
                    Token(guest) => self.listen_to(guest),
                }
            }
            self.dismiss_the_silent();
            for index in std::mem::take(&mut self.resting) {
                self.accept(index);
            }
        }
        self.stop.store(true, Ordering::Relaxed);
        if let Some(session) = self.session.take() {
            let _ = session.join();
        }
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.clone()
    }

    fn accept(&mut self, index: usize) {
        loop {
            match self.listeners[index].accept() {
                Ok((stream, peer)) if !self.allow.permits(peer.ip()) => {
                    drop(stream);
                    self.count(|served| served.not_allowed += 1);
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
    }

    fn admit(&mut self, mut stream: TcpStream, peer: SocketAddr) {
        if self.guests.len() >= MOST_WAITING {
            self.guests.pop_first();
            self.count(|served| served.foreign += 1);
        }
        let token = self.first_guest + self.came;
        self.came += 1;
        if self.poll.registry().register(&mut stream, Token(token), Interest::READABLE).is_ok() {
            let guest = Guest { stream, peer, since_ns: mono_ns(), head: Vec::new() };
            self.guests.insert(token, guest);
        }
    }

    /// Reads as much of a guest's cookie as has come, and nothing of what follows it.
    fn listen_to(&mut self, token: usize) {
        let Some(guest) = self.guests.get_mut(&token) else { return };
        let mut buffer = [0; COOKIE_LEN];
        let cookie = loop {
            let missing = COOKIE_LEN - guest.head.len();
            match guest.stream.read(&mut buffer[..missing]) {
                Ok(n) if n > 0 => {
                    guest.head.extend_from_slice(&buffer[..n]);
                    if let Some(head) = guest.head.first_chunk::<COOKIE_LEN>() {
                        break Cookie::decode(head);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // It is gone.
                _ => break None,
            }
        };
        let Some(mut guest) = self.guests.remove(&token) else { return };
        let _ = self.poll.registry().deregister(&mut guest.stream);
        match cookie {
            Some(cookie) => self.route(token, guest, cookie),
            None => self.count(|served| served.foreign += 1),
        }
    }

    /// A stream of the test that runs, the beginning of a test, or somebody who has to wait.
    fn route(&mut self, came: usize, mut guest: Guest, cookie: Cookie) {
        let current = Arc::clone(&self.current);
        let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Some(test) if test.cookie == cookie => {
                // A session that has all its streams hangs up, one that has ended too.
                let _ = test.streams.send(Arrival { came, stream: guest.stream });
            }
            Some(_) => {
                // One byte always fits into an empty send buffer.
                let _ = guest.stream.write(&Server::deny());
                self.count(|served| served.busy += 1);
            }
            None => {
                let (streams, arrivals) = channel();
                let place = Place(Some(Arc::clone(&self.current)));
                let (limits, stop, served) = (self.limits, Arc::clone(&self.stop), Arc::clone(&self.served));
                let session = thread::Builder::new().name("test".into()).spawn(move || {
                    session::run((guest.stream, guest.peer), limits, &arrivals, place, &stop, &served);
                });
                match session {
                    Ok(session) => {
                        *current = Some(Current { cookie, streams });
                        self.session = Some(session);
                    }
                    Err(e) => note(&format!("cannot begin a throughput test: {e}")),
                }
            }
        }
    }

    fn dismiss_the_silent(&mut self) {
        let now_ns = mono_ns();
        while let Some(guest) = self.guests.first_entry()
            && now_ns >= guest.get().since_ns + COOKIE_PATIENCE_NS
        {
            guest.remove();
            self.count(|served| served.foreign += 1);
        }
    }

    fn count(&self, add: impl FnOnce(&mut Served)) {
        add(&mut self.served.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A session's place: left when it ends, however it ends, if not before.
#[derive(Debug)]
pub(super) struct Place(Option<Arc<Mutex<Option<Current>>>>);

impl Place {
    /// Makes room for the next test.
    pub(super) fn leave(&mut self) {
        if let Some(current) = self.0.take() {
            *current.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}
