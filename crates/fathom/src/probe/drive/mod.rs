//! The driver of `fathom_core::probe` on sockets: it resolves, connects, writes, reads and waits, and stamps what comes
//! and goes. What is to be done, and when, the probe says; nothing here decides it.
//!
//! It runs in the probing thread and waits for nothing else: names are resolved, samples written and views drawn by other
//! threads.

mod link;
mod pauses;
mod ready;
mod secure;
mod settled;
#[cfg(test)]
mod tests;
mod wait;

use super::args::Timestamps;
use super::config::{Config, Transport};
use super::load::Load;
use super::outbox::{Message, Outbox};
use super::resolve::{Answer, Resolver};
use super::stop::Stop;
use fathom_core::clock::Anchor;
use fathom_core::probe::{
    ErrorSource, Input, LinkId, NetError, Output, Probe, Progress, Purpose, RunEnd, Worker,
};
use fathom_os::clock::{mono_ns, utc_ns, wall_clock_error_ns};
use fathom_os::reactor::{self, Reactor};
use fathom_os::socket::{self, TcpOptions};
use fathom_os::timestamps;
use link::{Link, Links, News, Socket, Stage};
use mio::{Interest, Token};
use pauses::Pauses;
use settled::Settled;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::sync::mpsc::Receiver;
use wait::PollBudget;

/// A wake-up this late shows that this host did not run.
const NOT_RUN_NS: u64 = 50_000_000;

pub(super) struct Driver<'a> {
    config: &'a Config,
    probe: Probe,
    reactor: Reactor,
    resolver: Resolver,
    answers: Receiver<Answer>,
    links: Links,
    /// How a connection is stamped: an argument so that a test can be a kernel that does not.
    stamp_with: fn(&Socket) -> io::Result<()>,
    /// That the kernel gives no stamps has been noted.
    stampless_noted: bool,
    /// Keeps the kernel stamping between connections.
    _stamps_kept: Option<timestamps::Keeper>,
    read_clocks: Box<dyn FnMut() -> Anchor + Send>,
    outbox: Outbox,
    /// What was read.
    scratch: Box<[u8]>,
    /// What is being sent.
    pen: Box<[u8]>,
    pauses: Option<Pauses>,
    load: Option<Load>,
    poll_budget: PollBudget,
    settled: Settled,
    /// Connections that could not be written to, until the probe is told: an echo that has been read is looked at first.
    broken: VecDeque<(LinkId, io::Error)>,
    stop: Stop,
    stops_seen: u32,
}

impl<'a> Driver<'a> {
    /// `session` tells this run's messages from any other's; `read_clocks` reads both clocks as one: an argument so that
    /// a test can set the wall clock.
    pub(super) fn new(
        config: &'a Config,
        worker: Worker,
        reactor: Reactor,
        outbox: Outbox,
        stop: Stop,
        session: u32,
        mut read_clocks: Box<dyn FnMut() -> Anchor + Send>,
    ) -> Self {
        let (resolver, answers) = Resolver::new(config.family, reactor.waker());
        let buffer_bytes = if config.largest_size() > 4_096 { 65_536 } else { 8_192 };
        let probe = Probe::new(config.settings(session), worker, read_clocks());
        Self {
            links: Links::new(probe.places()),
            probe,
            read_clocks,
            stamp_with: Socket::enable_stamps,
            stampless_noted: false,
            // Without it the first samples of each connection lack their receive stamp; that is all.
            _stamps_kept: if config.stamped() { timestamps::keep_enabled().ok() } else { None },
            // As large as a small machine spares: larger messages go and come in pieces.
            scratch: vec![0; buffer_bytes].into(),
            pen: vec![0; buffer_bytes].into(),
            pauses: None,
            load: None,
            poll_budget: PollBudget::default(),
            settled: Settled::of(config, mono_ns()),
            broken: VecDeque::new(),
            stops_seen: 0,
            config,
            reactor,
            resolver,
            answers,
            outbox,
            stop,
        }
    }

    /// Runs to the end.
    pub(super) fn run(mut self) -> io::Result<RunEnd> {
        let now = mono_ns();
        self.set_up(now);
        self.probe.start(now);
        self.obey();
        let mut events = mio::Events::with_capacity(64);
        while !self.probe.is_over() {
            let (now, more_due) = self.wake();
            // Back to back a message is under way: what this takes, it does not take from a round trip.
            if let Some(pauses) = &mut self.pauses {
                pauses.put_off(now);
            }
            if !more_due && self.waited_for_echo(now) {
                continue;
            }
            // Nothing would end the wait for a run that is over.
            if self.probe.is_over() {
                break;
            }
            self.outbox.hand_over(now);
            let deadline = self.probe.next_wake().into_iter().chain(self.outbox.due_ns());
            let deadline = deadline.chain(self.looks_by(now)).min();
            let waits = !self.config.spin && !more_due && !self.reads_wait_for_echo();
            if waits {
                self.rest_until(deadline.unwrap_or(u64::MAX));
            }
            self.return_to_reactor();
            self.reactor.wait(&mut events, deadline, !waits)?;
            let mut came = false;
            for event in &events {
                if !reactor::is_own(event.token()) {
                    // What is asked of the socket tells, should another be at this place by now.
                    let Some(id) = self.links.at(event.token().0).map(|link| link.id) else { continue };
                    let closed = event.is_read_closed() || event.is_error();
                    let readable = event.is_readable() || closed;
                    came |= readable;
                    self.ready(id, readable, event.is_writable(), closed);
                }
            }
            self.take_from_threads();
            self.let_go_of_pages(came);
        }
        // A pause at the very end is told too.
        if let Some(pauses) = &mut self.pauses {
            pauses.end();
            self.tell_pauses(mono_ns());
            self.do_outputs();
        }
        let end = self.probe.end().clone();
        self.outbox.finish();
        Ok(end)
    }

    fn set_up(&mut self, now: u64) {
        if let Some(period) = self.config.pause_clock {
            match Pauses::start(period, self.reactor.waker()) {
                Ok(pauses) => self.pauses = Some(pauses),
                Err(e) => self.note(now, format!("this host's pauses are not watched: {e}")),
            }
        }
        if let Some(plan) = self.config.load {
            let options =
                TcpOptions { source: self.config.source, dscp: self.config.dscp, ..TcpOptions::default() };
            match Load::start(plan, options, self.reactor.waker()) {
                Ok(load) => self.load = Some(load),
                Err(e) => self.probe.handle(now, Input::Fatal(format!("cannot start the load: {e}"))),
            }
        }
        if self.config.is_half_framed() && self.config.transport == Transport::Tcp {
            let text = "samples below 64 bytes carry no header: a connection's first of them ends its stamps";
            self.note(now, text.to_owned());
        }
    }

    fn note(&mut self, now: u64, text: String) {
        self.probe.handle(now, Input::Note(text));
    }

    /// Has what is due done, as far as one turn goes: the time, and whether more is due.
    fn wake(&mut self) -> (u64, bool) {
        let now = mono_ns();
        let Some(at) = self.probe.next_wake().filter(|at| *at <= now) else { return (now, false) };
        if now - at >= NOT_RUN_NS {
            // What is judged now, is judged by that.
            self.tell_pauses(now);
        }
        if let Some(load) = &self.load {
            let (sent, echoed) = load.count();
            self.probe.handle(now, Input::LoadBytes { sent, echoed });
        }
        self.tell(now, Input::Wake);
        let now = mono_ns();
        (now, self.probe.next_wake().is_some_and(|at| at <= now))
    }

    /// Tells the probe, and does what it asks for.
    fn tell(&mut self, now: u64, input: Input<'_>) {
        self.probe.handle(now, input);
        self.obey();
    }

    /// Tells what the network did; before that, whether this host has just come back from a pause.
    fn tell_from_network(&mut self, now: u64, input: Input<'_>) {
        self.tell_pauses(now);
        self.tell(now, input);
    }

    /// What the pause clock knows belongs to what is read after it.
    fn tell_pauses(&mut self, now: u64) {
        let Some(pauses) = &mut self.pauses else { return };
        // In this order: what the clock told before is known.
        let going_on = pauses.going_on(now);
        while let Some(pause) = pauses.next() {
            self.probe.handle(now, pause);
        }
        for pausing in going_on {
            self.probe.handle(now, pausing);
        }
    }

    /// The host's pauses know that this thread is to run again by then.
    fn rest_until(&mut self, at: u64) {
        if let Some(pauses) = &mut self.pauses {
            pauses.rests_until(at);
        }
    }

    /// Takes what other threads have for this one.
    fn take_from_threads(&mut self) {
        while let Ok((path, addresses)) = self.answers.try_recv() {
            self.tell(mono_ns(), Input::Resolved { path, addresses });
        }
        self.tell_pauses(mono_ns());
        self.obey();
        while let Some(report) = self.load.as_ref().and_then(Load::report) {
            let (sent, echoed) = self.load.as_ref().map_or((0, 0), Load::count);
            self.probe.handle(mono_ns(), Input::LoadBytes { sent, echoed });
            self.tell(mono_ns(), Input::Load(report));
        }
        let stops = self.stop.times();
        while self.stops_seen < stops {
            self.stops_seen += 1;
            if let Some(load) = &self.load {
                let (sent, echoed) = load.count();
                self.probe.handle(mono_ns(), Input::LoadBytes { sent, echoed });
            }
            self.tell(mono_ns(), Input::Stop);
        }
    }

    /// Does everything that the probe asks for, and tells what broke in doing it.
    fn obey(&mut self) {
        self.do_outputs();
        while let Some((link, error)) = self.broken.pop_front() {
            self.read_rest(link);
            let now = mono_ns();
            self.tell_pauses(now);
            self.tell_address_gone(now, link);
            let error = match self.links.get_mut(link) {
                Some(link) => {
                    link.broken = false;
                    link.net_error(&error)
                }
                None => NetError::from(&error),
            };
            self.probe.handle(now, Input::Broken { link, error });
            self.do_outputs();
        }
    }

    fn do_outputs(&mut self) {
        while let Some(output) = self.probe.poll() {
            match output {
                Output::Sample { path, sample } => self.outbox.sample(path as u32, sample),
                Output::Send { link } => self.send(link),
                Output::Event { path, event } => {
                    self.outbox.other(Message::Event(path.map(|p| p as u32), event));
                }
                Output::Anchor { anchor, stepped } => self.outbox.other(Message::Anchor { anchor, stepped }),
                Output::ReadClock => self.read_clock(),
                Output::Look { link } => {
                    let info = self.links.get_mut(link).and_then(|link| link.socket.tcp_info());
                    self.probe.handle(mono_ns(), Input::Kernel { link, info });
                }
                Output::Resolve { path } => self.resolver.ask(path, &self.config.paths[path].target),
                Output::Connect { link, path, remote, purpose } => self.connect(link, path, remote, purpose),
                Output::Shutdown { link } => self.shutdown(link),
                Output::Close { link } => self.links.remove(link),
                Output::Load(order) => {
                    if let Some(load) = &self.load {
                        load.order(order);
                    }
                }
            }
        }
    }

    fn read_clock(&mut self) {
        let anchor = (self.read_clocks)();
        let error_ns = self.config.stamp.and_then(|_| wall_clock_error_ns());
        self.probe.handle(mono_ns(), Input::Clock { anchor, error_ns });
        // Once a second, as long as nothing happens.
        self.outbox.deliver_waiting();
    }

    /// Sends what the probe has for this link.
    fn send(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(id).filter(|link| !link.broken) else { return };
        let Some(piece) = self.probe.write(id, &mut self.pen) else { return };
        let sent_utc_ns = if link.stamped && piece.offset == 0 { Some(utc_ns()) } else { None };
        let sent_ns = mono_ns();
        if self.config.stamp.is_some() {
            self.probe.stamp(id, sent_ns, &mut self.pen[..piece.len]);
        }
        let (progress, error) = link.socket.write_message(&mut self.probe, id, piece, &mut self.pen);
        // A message counts as sent once the kernel has a part of it, also where that was the connection's last.
        if error.is_none() || progress != Progress::Nothing {
            self.probe.handle(sent_ns, Input::Sent { link: id, sent_ns, sent_utc_ns, progress });
            // While the echo is under way, this costs the round trip nothing. A stamp that is here already (most
            // drivers take a message within the send) also wakes nobody any more.
            if sent_utc_ns.is_some() && progress != Progress::Nothing {
                self.take_send_stamps(id);
            }
        }
        if let Some(error) = error {
            if let Some(link) = self.links.get_mut(id) {
                link.broken = true;
            }
            self.broken.push_back((id, error));
        }
    }

    fn take_send_stamps(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(id) else { return };
        let (probe, now) = (&mut self.probe, mono_ns());
        link.socket.send_stamps(|number, counted, utc_ns| {
            probe.handle(now, Input::Transmitted { link: id, id: number, counted, utc_ns });
        });
    }

    /// Has the reactor tell of a socket.
    fn register(reactor: &Reactor, socket: &mut Socket, id: LinkId) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        reactor.registry().register(socket.source(), Token(id.place), both)
    }

    /// Tells the probe of connections whose source address this host no longer has.
    pub(super) fn tell_address_gone(&mut self, now: u64, id: LinkId) {
        let local = self.links.get_mut(id).and_then(|link| link.socket.local_address());
        if local.is_some_and(|local| !socket::has_address(local.ip())) {
            self.probe.handle(now, Input::AddressGone { link: id });
        }
    }

    /// Does the same for all connections of a path: one is silent, and this host may be the cause.
    fn tell_addresses_gone(&mut self, path: usize) {
        let now = mono_ns();
        let mut gone: BTreeMap<IpAddr, bool> = BTreeMap::new();
        for (link, local) in self.links.of_path(path).collect::<Vec<_>>() {
            if *gone.entry(local).or_insert_with(|| !socket::has_address(local)) {
                self.probe.handle(now, Input::AddressGone { link });
            }
        }
    }

    /// Begins to connect.
    fn connect(&mut self, id: LinkId, path: usize, remote: SocketAddr, purpose: Purpose) {
        let (source, dscp) = (self.config.source, self.config.dscp);
        let keep_icmp = purpose == Purpose::Canary;
        if keep_icmp {
            self.tell_addresses_gone(path);
        }
        let since_ns = mono_ns();
        let begun = match self.config.transport {
            Transport::Udp => socket::connect_udp_with(remote, source, dscp, keep_icmp).map(Socket::Udp),
            Transport::Tcp => {
                let user_timeout = self.config.user_timeout.filter(|_| !keep_icmp);
                let user_timeout_ms =
                    user_timeout.map(|d| d.as_millis().clamp(1, u128::from(u32::MAX)) as u32);
                let options =
                    TcpOptions { source, dscp, user_timeout_ms, keep_icmp, ..TcpOptions::default() };
                socket::connect_tcp(remote, &options).map(Socket::Tcp)
            }
        };
        let begun = begun.and_then(|mut socket| {
            Self::register(&self.reactor, &mut socket, id)?;
            Ok(socket)
        });
        self.probe.handle(since_ns, Input::Connecting { link: id, since_ns });
        match begun {
            Ok(socket) => {
                let (stage, stamped, reads_wait, broken) = (Stage::Connecting, false, false, false);
                self.links.put(Link {
                    id,
                    socket,
                    stage,
                    purpose,
                    path,
                    remote,
                    stamped,
                    reads_wait,
                    news: News::Reactor,
                    broken,
                });
                if self.config.transport == Transport::Udp {
                    self.connected(id, since_ns);
                }
            }
            // Nothing has been sent yet.
            Err(e) => {
                let error = NetError { source: ErrorSource::ThisHost, ..NetError::from(&e) };
                self.probe.handle(mono_ns(), Input::ConnectFailed { link: id, error });
            }
        }
    }

    /// A connection is established; a handshake of TLS may have to follow. The probe is told; what it asks for is done by
    /// whoever called.
    fn connected(&mut self, id: LinkId, now: u64) {
        let (stamp_with, config) = (self.stamp_with, self.config);
        let Some(link) = self.links.get_mut(id) else { return };
        if link.socket.is_its_own_peer() {
            let error = NetError::of_kind(io::ErrorKind::ConnectionRefused);
            return self.probe.handle(now, Input::ConnectFailed { link: id, error });
        }
        link.stage = Stage::Open;
        let info = if link.purpose == Purpose::Samples { None } else { link.socket.tcp_info() };
        let resent = info.is_some_and(|info| info.total_retrans > 0);
        let mut unstamped = None;
        if link.purpose == Purpose::Samples {
            if config.stamped() {
                unstamped = stamp_with(&link.socket).err();
                link.stamped = unstamped.is_none();
            }
            link.reads_wait = wait::let_reads_wait(config, &link.socket, link.stamped);
        }
        let (local, purpose) = (link.socket.local(), link.purpose);
        let (stamped, reads_wait) = (link.stamped, link.reads_wait);
        tracing::debug!(?id, local, ?purpose, stamped, reads_wait, no_stamps = ?unstamped, "connected");
        if let Some(e) = unstamped {
            self.stampless(now, &e);
        }
        self.probe.handle(now, Input::Connected { link: id, local, resent, kernel: info });
        if purpose == (Purpose::Sample { tls: true }) {
            self.begin_to_secure(id, now);
        }
    }

    /// The kernel does not stamp: that is noted once and the run goes on, unless stamps are required.
    fn stampless(&mut self, now: u64, error: &io::Error) {
        if self.config.timestamps == Timestamps::Require {
            let text =
                format!("the kernel gives no timestamps ({error}); use --timestamps auto to go on without");
            self.probe.handle(now, Input::Fatal(text));
        } else if !std::mem::replace(&mut self.stampless_noted, true) {
            self.note(now, format!("round trips are not split: the kernel gives no timestamps ({error})"));
        }
    }

    /// Our FIN. What comes until the peer's is read away.
    fn shutdown(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(id) else { return };
        link.stage = Stage::Closing;
        if let Socket::Tcp(socket) = &link.socket {
            let _ = socket.shutdown(Shutdown::Write);
        }
        // What came before this is no new edge.
        self.read_away(id);
    }
}
