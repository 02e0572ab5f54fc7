//! Where clients come in.

use super::place::Place;
use super::session;
use super::shared::Shared;
use super::{Counts, Notice};
use fathom_os::clock::mono_ns;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use rustls::ServerConfig;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

const WAKER: Token = Token(usize::MAX);
/// When the host has no descriptor, memory or thread for another connection, the next is tried after so long.
const REST: Duration = Duration::from_millis(200);
/// Clients beyond the number that is served which are told so at one time; further ones are closed at once.
const TOLD_AT_ONCE: usize = 8;
/// Connections taken before anything else is looked at.
const ACCEPTS_A_TURN: usize = 64;

/// How sessions are served.
pub struct Options {
    /// Sessions at one time: each is a thread.
    pub sessions: usize,
    /// A session on which nothing moved for so long ends; `None`: never.
    pub idle_timeout_ns: Option<u64>,
    /// The kernel's buffer for what is being sent, in bytes (`SO_SNDBUF`, which Linux doubles); `None`: the kernel's choice.
    pub send_buffer: Option<usize>,
    /// With which certificate and key who wants encryption is served; `None`: there is none.
    pub identity: Option<Arc<ServerConfig>>,
    /// Whether this peer is served.
    pub permits: Box<dyn Fn(IpAddr) -> bool + Send>,
    /// Takes what an operator may want to know. Called by several threads, which it holds up.
    pub notify: Arc<dyn Fn(&Notice) + Send + Sync>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}

/// The service, running in threads of its own from [`Service::start`] to [`Service::stop`].
pub struct Service {
    shared: Arc<Shared>,
    waker: Waker,
    thread: JoinHandle<()>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

impl Service {
    /// Serves on these listeners, which do not block.
    pub fn start(listeners: Vec<TcpListener>, options: Options) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let shared = Arc::new(Shared::new(
            options.idle_timeout_ns,
            options.send_buffer,
            options.identity,
            options.notify,
        ));
        let mut acceptor = Acceptor {
            poll,
            listeners,
            most: options.sessions,
            permits: options.permits,
            sessions: Vec::new(),
            beyond: Vec::new(),
            leaving: Vec::new(),
            came: 0,
            shared: Arc::clone(&shared),
        };
        for (listener, index) in acceptor.listeners.iter_mut().zip(0..) {
            acceptor.poll.registry().register(listener, Token(index), Interest::READABLE)?;
        }
        let thread = thread::Builder::new().name("tds".into()).spawn(move || acceptor.run())?;
        Ok(Self { shared, waker, thread })
    }

    /// Ends it and its sessions, whatever clients do; what it served.
    pub fn stop(self) -> Counts {
        self.shared.end();
        let _ = self.waker.wake();
        let _ = self.thread.join();
        self.shared.counts()
    }
}

struct Acceptor {
    poll: Poll,
    listeners: Vec<TcpListener>,
    most: usize,
    permits: Box<dyn Fn(IpAddr) -> bool + Send>,
    /// Oldest first.
    sessions: Vec<(JoinHandle<()>, Arc<Place>)>,
    /// That there is no room for.
    beyond: Vec<JoinHandle<()>>,
    /// Sessions that lost their places, and end at their next turn.
    leaving: Vec<JoinHandle<()>>,
    came: u32,
    shared: Arc<Shared>,
}

impl Acceptor {
    fn run(mut self) {
        let mut events = Events::with_capacity(64);
        // Listeners tell once of what waits: those that have more, or could not take it, are asked again without being told.
        let mut again = false;
        while !self.shared.is_over() {
            match self.poll.poll(&mut events, again.then_some(REST)) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => {
                    (self.shared.notify)(&Notice::Stopped(e));
                    break;
                }
                _ => {}
            }
            again = false;
            for index in 0..self.listeners.len() {
                again |= self.accept(index);
            }
        }
        self.shared.end();
        let sessions = self.sessions.into_iter().map(|(session, _)| session);
        for session in sessions.chain(self.beyond).chain(self.leaving) {
            let _ = session.join();
        }
    }

    /// Takes who waits; whether there may be more.
    fn accept(&mut self, index: usize) -> bool {
        for _ in 0..ACCEPTS_A_TURN {
            let (stream, peer) = match self.listeners[index].accept() {
                Ok(came) => came,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) =>
                {
                    continue;
                }
                // No descriptor or no memory.
                Err(_) => return true,
            };
            if !(self.permits)(peer.ip()) {
                self.shared.count(|counts| counts.not_allowed += 1);
                continue;
            }
            self.sessions.retain(|(session, _)| !session.is_finished());
            let has_room = self.sessions.len() < self.most || self.displaces();
            if !has_room {
                self.shared.count(|counts| counts.busy += 1);
                self.beyond.retain(|session| !session.is_finished());
                if self.beyond.len() >= TOLD_AT_ONCE {
                    continue;
                }
            }
            self.came = self.came.wrapping_add(u32::from(has_room));
            // SQL Server keeps the numbers up to 50 to itself.
            let number = has_room.then(|| self.came.saturating_add(50));
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name("session".into());
            let place = Arc::new(Place::new(mono_ns()));
            let its = Arc::clone(&place);
            match thread.spawn(move || session::run(stream, peer, number, &its, &shared)) {
                Ok(session) if has_room => self.sessions.push((session, place)),
                Ok(session) => self.beyond.push(session),
                Err(e) => (self.shared.notify)(&Notice::CannotBegin(e)),
            }
        }
        true
    }
    /// Makes room for a new client by ending a silent session that has not logged in.
    fn displaces(&mut self) -> bool {
        let Some(at) = Place::give(self.sessions.iter().map(|(_, place)| place.as_ref()), mono_ns()) else {
            return false;
        };
        self.leaving.retain(|session| !session.is_finished());
        self.leaving.push(self.sessions.remove(at).0);
        true
    }
}
