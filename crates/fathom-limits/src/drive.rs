//! The driver of `fathom_core::limits` on sockets: it connects, writes, reads and waits. Nothing here decides anything.

use super::Ticker;
use fathom_core::limits::{Input, KernelView, Outcome, Output, Search};
use fathom_core::probe::NetError;
use fathom_os::clock::mono_ns;
use fathom_os::reactor::{self, Reactor};
use fathom_os::socket::{self, TcpOptions};
use fathom_recording::Keeper;
use mio::net::TcpStream;
use mio::{Interest, Token};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;

const MS: u64 = 1_000_000;

#[derive(Debug)]
struct Link {
    socket: TcpStream,
    established: bool,
    /// Bytes. The kernel counts the SYN, too, among those that were acknowledged.
    sent: u64,
}

/// Where connections go, and how they are made.
#[derive(Debug)]
pub struct Way {
    /// Where they go.
    pub remote: SocketAddr,
    /// How each is made.
    pub options: TcpOptions,
}

/// See the module.
#[derive(Debug)]
pub struct Driver<'a> {
    search: Box<dyn Search>,
    way: Way,
    reactor: Reactor,
    links: HashMap<u32, Link>,
    /// Connections that broke while something was being done with them.
    broken: VecDeque<(u32, io::Error)>,
    stopped: bool,
    watch: &'a mut Ticker,
    keeper: Keeper,
}

impl<'a> Driver<'a> {
    /// Of a search that has not begun. Who asks for an end wakes the reactor.
    pub fn new(
        search: Box<dyn Search>,
        way: Way,
        reactor: Reactor,
        watch: &'a mut Ticker,
        keeper: Keeper,
    ) -> Self {
        Self {
            search,
            way,
            reactor,
            links: HashMap::new(),
            broken: VecDeque::new(),
            stopped: false,
            watch,
            keeper,
        }
    }

    /// Runs to the end: what was found, and the recording.
    pub fn run(mut self) -> io::Result<(Outcome, Keeper)> {
        let mut events = mio::Events::with_capacity(256);
        self.search.start(mono_ns());
        self.obey();
        while !self.search.is_over() {
            let shown = self.watch.tick(mono_ns(), self.search.as_ref());
            self.keeper.flush(mono_ns());
            let written = self.keeper.due_ns();
            let deadline = self.search.next_wake().into_iter().chain(shown).chain(written).min();
            self.reactor.wait(&mut events, deadline, false)?;
            for event in events.iter().filter(|event| !reactor::is_own(event.token())) {
                let ended = event.is_read_closed() || event.is_error();
                self.ready(event.token().0 as u32, event.is_readable() || ended, ended);
            }
            if self.watch.is_to_stop() && !std::mem::replace(&mut self.stopped, true) {
                self.tell(Input::Stop);
            }
            if self.search.next_wake().is_some_and(|at| at <= mono_ns()) {
                self.tell(Input::Wake);
            }
        }
        self.watch.clear();
        Ok((self.search.outcome(), self.keeper))
    }

    fn tell(&mut self, input: Input<'_>) {
        self.search.handle(mono_ns(), input);
        self.obey();
    }

    fn tell_broken(&mut self, id: u32, error: &io::Error) {
        tracing::debug!(id, %error, "broken");
        self.tell(Input::Broken { id, error: NetError::from(error) });
    }

    /// Does everything that the search asks for.
    fn obey(&mut self) {
        loop {
            while let Some(output) = self.search.poll() {
                match output {
                    Output::Open { id } => self.open(id),
                    Output::Look { id } => {
                        let link = self.links.get(&id);
                        let info = link.and_then(|link| Some((link, socket::tcp_info(&link.socket)?)));
                        let view = info.map(|(link, info)| KernelView {
                            quiet_ns: u64::from(info.last_ack_recv_ms) * MS,
                            rto_ns: u64::from(info.rto_us) * 1_000,
                            acknowledged: info.bytes_acked > link.sent,
                        });
                        self.search.handle(mono_ns(), Input::Kernel { id, view });
                    }
                    Output::Send { id, bytes } => self.send(id, &bytes),
                    Output::Close { id } => drop(self.links.remove(&id)),
                    Output::Event { connection, kind } => drop(self.keeper.event(connection, kind)),
                }
            }
            let Some((id, error)) = self.broken.pop_front() else { return };
            self.search.handle(mono_ns(), Input::Broken { id, error: NetError::from(&error) });
        }
    }

    fn open(&mut self, id: u32) {
        let begun = socket::connect_tcp(self.way.remote, &self.way.options).and_then(|mut socket| {
            let both = Interest::READABLE | Interest::WRITABLE;
            self.reactor.registry().register(&mut socket, Token(id as usize), both)?;
            Ok(socket)
        });
        match begun {
            Ok(socket) => drop(self.links.insert(id, Link { socket, established: false, sent: 0 })),
            Err(error) => self.broken.push_back((id, error)),
        }
    }

    /// A frame's header fits any send buffer that is empty, as it is where a request has been answered.
    fn send(&mut self, id: u32, bytes: &[u8]) {
        let Some(link) = self.links.get_mut(&id) else { return };
        match socket::write_now(&link.socket, bytes) {
            Ok(n) if n == bytes.len() => link.sent += n as u64,
            Ok(_) => self.broken.push_back((id, io::ErrorKind::WriteZero.into())),
            Err(error) => self.broken.push_back((id, error)),
        }
    }

    fn ready(&mut self, id: u32, readable: bool, ended: bool) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if !link.established {
            match socket::connect_result(&link.socket) {
                Ok(false) => return,
                Ok(true) => {
                    link.established = true;
                    // This host may have connected to itself: then nobody listens there.
                    let itself = link.socket.local_addr().is_ok_and(|local| local == self.way.remote);
                    if itself {
                        return self.tell_broken(id, &io::ErrorKind::ConnectionRefused.into());
                    }
                    self.tell(Input::Connected { id });
                }
                Err(error) => return self.tell_broken(id, &error),
            }
        }
        if readable {
            self.read(id, ended);
        }
    }

    /// Reads what has come. Edge-triggered: less than asked for means that nothing is left, but for an end that is known.
    fn read(&mut self, id: u32, ended: bool) {
        let mut bytes = [0; 4_096];
        loop {
            let Some(link) = self.links.get_mut(&id) else { return };
            match socket::read_now(&link.socket, &mut bytes) {
                Ok(0) => return self.tell(Input::Closed { id }),
                Ok(n) => {
                    self.tell(Input::Received { id, bytes: &bytes[..n] });
                    if n < bytes.len() && !ended {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.tell_broken(id, &error),
            }
        }
    }
}
