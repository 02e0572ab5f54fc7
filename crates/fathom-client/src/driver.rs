//! The driver of `fathom_core::policy` on sockets. Nothing here decides anything.

use crate::account::Account;
use crate::socket::Socket;
use fathom_core::cause::ClosingCause;
use fathom_core::event::Circuit;
use fathom_core::policy::{Amounts, Broken, Came, Client, Counts, Input, Link, Output, Place, Policy};
use fathom_core::schedule::{Pace, Schedule};
use fathom_core::units::duration_compact;
use fathom_os::clock::mono_ns;
use fathom_os::reactor::{self, Reactor};
use fathom_os::socket::{self, TcpOptions};
use fathom_wire::{Key, Secret};
use mio::{Interest, Token};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const MS: u64 = 1_000_000;

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Setup {
    /// What the application does about failures.
    pub policy: Policy,
    /// The target, and the fallback's where there is one: what messages call it, and where it is.
    pub targets: Vec<(String, SocketAddr)>,
    /// From one request to the next, in ns.
    pub interval_ns: u64,
    /// How many requests; `None`: no limit.
    pub count: Option<u64>,
    /// For how long, in ns; `None`: until it is stopped.
    pub duration_ns: Option<u64>,
    /// Address here; `None`: the system chooses.
    pub source: Option<IpAddr>,
    /// Differentiated services code point; `None`: the system's default.
    pub dscp: Option<u8>,
    /// A number that tells this run's requests from any other's; waits are drawn from it too.
    pub session: u32,
    /// What requests bear the code of.
    pub secret: Option<Secret>,
}

/// How a run that goes on stands.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// Since its beginning, in ns.
    pub after_ns: u64,
    /// Its requests.
    pub counts: Counts,
    /// Connections that are open or being opened.
    pub connections: usize,
    /// What its breaker does; `None`: it has none.
    pub circuit: Option<Circuit>,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = &self.counts;
        let after = duration_compact(self.after_ns);
        write!(
            f,
            "after {after}: {} due, {} answered, {} failed, {} ambiguous, {} shed, {} by fallback, {} in flight; {} open",
            c.due, c.answered, c.failed, c.ambiguous, c.shed, c.fallback, c.in_flight, self.connections
        )?;
        f.write_str(match self.circuit {
            None => "",
            Some(Circuit::Closed) => "; breaker closed",
            Some(Circuit::Open) => "; breaker open",
            Some(Circuit::HalfOpen) => "; breaker half open",
        })
    }
}

/// See the module.
pub struct Driver {
    setup: Setup,
    client: Client,
    reactor: Reactor,
    sockets: HashMap<u32, Socket>,
    /// Connections that broke while something was being done with them.
    broken: VecDeque<(u32, io::Error)>,
    account: Account,
    began_ns: u64,
}

impl Driver {
    /// Nothing is done before [`Driver::run`].
    pub fn new(setup: Setup, reactor: Reactor, account: Account) -> Self {
        let began_ns = mono_ns();
        let until_ns = setup.duration_ns.map(|ns| began_ns.saturating_add(ns));
        let schedule = Schedule::new(Pace::Every(setup.interval_ns), began_ns, setup.count, until_ns);
        let client = Client::new(setup.policy.clone(), schedule, u64::from(setup.session));
        let (sockets, broken) = (HashMap::new(), VecDeque::new());
        Self { setup, client, reactor, sockets, broken, account, began_ns }
    }

    /// Runs to the end. `stop` says how often it has been asked to end; `show` is told how it stands, and says when it wants
    /// to be told again.
    pub fn run(
        mut self,
        stop: impl Fn() -> u32,
        mut show: impl FnMut(Standing) -> Option<u64>,
    ) -> io::Result<(Amounts, Account)> {
        let mut events = mio::Events::with_capacity(256);
        let mut stopped = 0;
        self.client.start(mono_ns());
        self.obey();
        while !self.client.is_over() {
            let shown = show(self.standing());
            let written = self.account.flush(mono_ns(), self.client.counts().due);
            let deadline = self.client.next_wake().into_iter().chain(shown).chain(written).min();
            self.reactor.wait(&mut events, deadline, false)?;
            for event in events.iter().filter(|event| !reactor::is_own(event.token())) {
                let id = event.token().0 as u32;
                let ended = event.is_read_closed() || event.is_error();
                self.ready(id, event.is_writable(), event.is_readable() || ended, ended);
            }
            while stopped < stop().min(2) {
                stopped += 1;
                self.tell(mono_ns(), Input::Stop);
            }
            let now = mono_ns();
            if self.client.next_wake().is_some_and(|at| at <= now) {
                self.tell(now, Input::Wake);
            }
        }
        Ok((self.account.amounts(self.client.counts()), self.account))
    }

    fn standing(&self) -> Standing {
        let (connections, circuit) = self.client.standing();
        let after_ns = mono_ns() - self.began_ns;
        Standing { after_ns, counts: self.client.counts(), connections, circuit }
    }

    fn tell(&mut self, now: u64, input: Input) {
        self.client.handle(now, input);
        self.obey();
    }

    /// Does everything that the client asks for.
    fn obey(&mut self) {
        loop {
            while let Some(output) = self.client.poll() {
                match output {
                    Output::Open { id, target, place } => self.open(id, target, place),
                    Output::Send { id, ask, request } => {
                        let (size, secret) = (self.setup.policy.requests.size, self.setup.secret.as_ref());
                        if let Some(socket) = self.sockets.get_mut(&id) {
                            let due_ns = request.map(|(_, due_ns)| due_ns);
                            let bytes = socket.link.ask(mono_ns(), ask, due_ns, size, secret);
                            if let Err(error) = socket.send(bytes) {
                                self.broken.push_back((id, error));
                            }
                        }
                    }
                    Output::Close { id, cause } => self.ends(id, cause, None),
                    Output::Ended { .. } => {}
                    Output::Event(kind) => self.account.event(None, kind),
                }
            }
            let Some((id, error)) = self.broken.pop_front() else { return };
            if self.sockets.contains_key(&id) {
                self.ends(id, cause_of(&error), Some(&error));
                self.client.handle(mono_ns(), Input::Lost { id });
            }
        }
    }

    fn open(&mut self, id: u32, target: usize, place: u32) {
        let (name, remote) = self.setup.targets[target].clone();
        let key = Key { session: self.setup.session, connection: id };
        let link = Link::new(Place { target: name, remote, lane: place }, key, mono_ns());
        self.account.event(Some(id), link.opening());
        let policy = &self.setup.policy;
        let options = TcpOptions {
            source: self.setup.source,
            dscp: self.setup.dscp,
            keepalive: policy.keepalive_ns.map(Duration::from_nanos),
            user_timeout_ms: policy.user_timeout_ns.map(|ns| u32::try_from(ns / MS).unwrap_or(u32::MAX)),
            ..TcpOptions::default()
        };
        let mut socket = Socket::new(link);
        let begun = socket::connect_tcp(remote, &options).and_then(|mut stream| {
            let both = Interest::READABLE | Interest::WRITABLE;
            self.reactor.registry().register(&mut stream, Token(id as usize), both)?;
            Ok(stream)
        });
        match begun {
            Ok(stream) => socket.stream = Some(stream),
            Err(error) => self.broken.push_back((id, error)),
        }
        self.sockets.insert(id, socket);
    }

    /// A connection has ended, or is ended: its rows and its end are written down.
    fn ends(&mut self, id: u32, cause: ClosingCause, error: Option<&io::Error>) {
        let Some(mut socket) = self.sockets.remove(&id) else { return };
        let info = socket.info();
        if let Some(row) = socket.link.given_up(info, |at| self.account.utc_of(at)) {
            self.account.sample(&row);
        }
        let broken = error.map(|error| Broken { errno: error.raw_os_error(), error: error.to_string() });
        self.account.event(Some(id), socket.link.ended(mono_ns(), cause, broken));
    }

    fn ready(&mut self, id: u32, writable: bool, readable: bool, ended: bool) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        if !socket.link.is_established() {
            let Some(stream) = &socket.stream else { return };
            let now = mono_ns();
            match socket::connect_result(stream) {
                Ok(false) => return,
                // This host may have connected to itself: then nobody listens there.
                Ok(true) if stream.local_addr().is_ok_and(|local| local == socket.link.place().remote) => {
                    return self.breaks(id, &io::ErrorKind::ConnectionRefused.into());
                }
                Ok(true) => {
                    let local = stream.local_addr().map_or_else(|_| String::new(), |local| local.to_string());
                    let kind = socket.link.opened(now, local);
                    self.account.event(Some(id), kind);
                    self.tell(now, Input::Connected { id });
                }
                Err(error) => return self.breaks(id, &error),
            }
        }
        if writable
            && let Some(socket) = self.sockets.get_mut(&id)
            && let Err(error) = socket.write()
        {
            return self.breaks(id, &error);
        }
        if readable {
            self.read(id, ended);
        }
    }

    fn breaks(&mut self, id: u32, error: &io::Error) {
        self.ends(id, cause_of(error), Some(error));
        self.tell(mono_ns(), Input::Lost { id });
    }

    /// Reads what has come. Edge-triggered: less than asked for means that nothing is left, but for an end that is known.
    fn read(&mut self, id: u32, ended: bool) {
        let mut bytes = [0; 16_384];
        loop {
            let Some(socket) = self.sockets.get_mut(&id) else { return };
            let Some(stream) = &socket.stream else { return };
            match socket::read_now(stream, &mut bytes) {
                Ok(0) => {
                    self.ends(id, ClosingCause::PeerClosed, None);
                    return self.tell(mono_ns(), Input::Lost { id });
                }
                Ok(n) => {
                    let now = mono_ns();
                    match socket.link.receive(now, &bytes[..n]) {
                        Came::Part => {}
                        Came::Answer(out) => {
                            let info = socket.info();
                            if let Some(row) =
                                socket.link.answered(now, out, info, |at| self.account.utc_of(at))
                            {
                                self.account.sample(&row);
                            }
                            self.tell(now, Input::Answered { id, ask: out.ask });
                        }
                        // No ask has this number: the client closes what it cannot understand.
                        Came::Foreign => self.tell(now, Input::Answered { id, ask: u64::MAX }),
                    }
                    if n < bytes.len() && !ended {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.breaks(id, &error),
            }
        }
    }
}

fn cause_of(error: &io::Error) -> ClosingCause {
    fathom_core::probe::cause_of(&error.into())
}
