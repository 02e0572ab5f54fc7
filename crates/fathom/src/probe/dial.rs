//! The probing thread of `--connect`: each sample is a connection, made when it is due and closed in order. It is open
//! loop like the other: a SYN that is lost holds up none of the next.

mod life;
mod secure;

use super::config::Config;
use super::crew::{RunEnd, Stop};
use super::driver::SECOND_NS;
use super::outbox::{Message, Outbox};
use super::pauses::{self, Pauses};
use super::resolve::{Answer, Resolver};
use fathom_core::clock::{Anchor, ClockMap, Observation};
use fathom_core::event::{Event, EventKind};
use fathom_core::sample::{Flags, Sample};
use fathom_core::schedule::{Schedule, Skipped, phase_ns};
use fathom_os::clock::mono_ns;
use fathom_os::reactor::{self, Reactor};
use fathom_os::socket::{self, TcpOptions};
use jiff::Timestamp;
use mio::net::TcpStream;
use mio::{Interest, Token};
use rustls::ClientConnection;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::Receiver;

/// Connections of a path being made or closed at one time; those that fall due meanwhile wait, and are given up like
/// samples that found a full send buffer.
const AT_ONCE: usize = 1_024;
/// How long the peer may take to close its side of a connection that was closed here.
const CLOSING_NS: u64 = SECOND_NS;
/// A name is not asked for again sooner after a failure.
const RESOLVED_FOR_NS: u64 = SECOND_NS;

/// One target and its schedule.
struct Way {
    addresses: Vec<SocketAddr>,
    next_address: usize,
    asked_ns: u64,
    resolving: bool,
    schedule: Option<Schedule>,
    warm_up_left: u64,
    /// Ordinal of the next connection.
    next: u32,
    /// Connections being made or closed.
    at_once: usize,
}

/// One connection.
struct Dialed {
    way: usize,
    connection: u32,
    socket: TcpStream,
    remote: SocketAddr,
    due_ns: u64,
    sent_ns: u64,
    flags: Flags,
    /// When it was established, where a TLS handshake follows, and that handshake.
    securing: Option<(u64, Box<ClientConnection>)>,
    /// When it was all that it is made for, and is being closed; `None`: not yet.
    opened_ns: Option<u64>,
}

pub(super) struct Dialer<'a> {
    config: &'a Config,
    reactor: Reactor,
    resolver: Resolver,
    answers: Receiver<Answer>,
    ways: Vec<Way>,
    dialed: BTreeMap<usize, Dialed>,
    next_token: usize,
    clock: ClockMap,
    read_clocks: Box<dyn FnMut() -> Anchor + Send>,
    outbox: Outbox,
    pauses: Option<Pauses>,
    stop: Stop,
    stops_seen: u32,
    tick_ns: u64,
    /// When the run's time is up.
    until_ns: Option<u64>,
    /// No more are made; what is being made is given up then.
    drain_ns: Option<u64>,
    end: RunEnd,
}

impl<'a> Dialer<'a> {
    pub(super) fn new(
        config: &'a Config,
        reactor: Reactor,
        outbox: Outbox,
        stop: Stop,
        mut read_clocks: Box<dyn FnMut() -> Anchor + Send>,
    ) -> Self {
        let (resolver, answers) = Resolver::new(config.family, reactor.waker());
        let way = |_: &_| Way {
            addresses: Vec::new(),
            next_address: 0,
            asked_ns: 0,
            resolving: false,
            schedule: None,
            warm_up_left: config.warm_up,
            next: 0,
            at_once: 0,
        };
        Self {
            ways: config.paths.iter().map(way).collect(),
            dialed: BTreeMap::new(),
            next_token: 0,
            clock: ClockMap::new(read_clocks()),
            read_clocks,
            pauses: None,
            stops_seen: 0,
            tick_ns: 0,
            until_ns: None,
            drain_ns: None,
            end: RunEnd::default(),
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
        self.tick_ns = now + SECOND_NS;
        if let Some(period) = self.config.pause_clock {
            match Pauses::start(period, self.reactor.waker()) {
                Ok(pauses) => self.pauses = Some(pauses),
                Err(e) => {
                    let text = format!("this host's pauses are not watched: {e}");
                    self.event(now, None, None, EventKind::Note { text });
                }
            }
        }
        if self.config.keep_trying {
            // The name may never resolve: then the time counts from here.
            self.until_ns = self.config.duration.map(|d| now + d.as_nanos() as u64);
        }
        for way in 0..self.ways.len() {
            self.ask(way, now);
        }
        let mut events = mio::Events::with_capacity(64);
        while self.end.fatal.is_none() && !self.is_over() {
            self.reactor.wait(&mut events, Some(self.deadline()), self.config.spin)?;
            for event in &events {
                if !reactor::is_own(event.token()) {
                    self.ready(event.token().0);
                }
            }
            while let Ok((way, answer)) = self.answers.try_recv() {
                self.resolved(way, answer);
            }
            self.look(mono_ns());
        }
        let now = mono_ns();
        self.give_up_older_than(now, 0);
        self.report_pauses();
        self.outbox.finish();
        Ok(self.end)
    }

    fn is_over(&self) -> bool {
        let spent = |way: &Way| way.schedule.as_ref().is_some_and(Schedule::is_over);
        self.dialed.is_empty() && (self.drain_ns.is_some() || self.ways.iter().all(spent))
    }

    /// When there is something to do besides what the sockets tell.
    fn deadline(&self) -> u64 {
        let due = |way: &Way| way.schedule.as_ref()?.next_due_ns().filter(|_| way.at_once < AT_ONCE);
        let closing = self.dialed.values().filter_map(|d| Some(d.opened_ns? + CLOSING_NS)).min();
        let given_up = self.given_up_after_ns();
        let making = self.dialed.values().filter(|d| d.opened_ns.is_none()).map(|d| d.sent_ns).min();
        let making = making.map(|sent| sent.saturating_add(given_up));
        let times = [Some(self.tick_ns), self.until_ns, self.drain_ns, closing, making];
        let drained = self.drain_ns.is_some();
        let dues = self.ways.iter().filter_map(due).filter(|_| !drained);
        times.into_iter().flatten().chain(dues).min().unwrap_or(self.tick_ns)
    }

    /// How long an attempt may take; without `--give-up`, as long as the kernel tries.
    fn given_up_after_ns(&self) -> u64 {
        self.config.give_up.map_or(u64::MAX, |after| after.as_nanos() as u64)
    }

    fn ask(&mut self, way: usize, now: u64) {
        let state = &mut self.ways[way];
        if !state.resolving && (state.addresses.is_empty() || now - state.asked_ns >= RESOLVED_FOR_NS) {
            (state.resolving, state.asked_ns) = (true, now);
            self.resolver.ask(way, &self.config.paths[way].target);
        }
    }

    /// A name has been resolved, or not; the first answer begins the path's schedule.
    fn resolved(&mut self, way: usize, answer: Result<Vec<SocketAddr>, String>) {
        let now = mono_ns();
        self.ways[way].resolving = false;
        match answer {
            Ok(addresses) => {
                let state = &mut self.ways[way];
                // The address in use is kept while the name still has it.
                let last = state.addresses.get(state.next_address);
                state.next_address =
                    last.and_then(|last| addresses.iter().position(|a| a == last)).unwrap_or(0);
                state.addresses = addresses;
                if state.schedule.is_none() && self.drain_ns.is_none() {
                    let until_ns = &mut self.until_ns;
                    let until =
                        self.config.duration.map(|d| *until_ns.get_or_insert(now + d.as_nanos() as u64));
                    let first = now + phase_ns(self.config.pace, way, self.ways.len());
                    self.ways[way].schedule =
                        Some(Schedule::new(self.config.pace, first, self.config.count, until));
                }
            }
            Err(error) => {
                let known = !self.ways[way].addresses.is_empty();
                let retry = (known || self.config.keep_trying).then_some(SECOND_NS);
                if retry.is_none() {
                    self.end.fatal = Some(error.clone());
                }
                self.refused(way, now, None, None, error, retry);
            }
        }
    }

    /// Does what time has brought.
    fn look(&mut self, now: u64) {
        if now >= self.tick_ns {
            self.tick(now);
        }
        let times = self.stop.times();
        if times > self.stops_seen {
            self.stops_seen = times;
            let linger = if times > 1 { 0 } else { SECOND_NS };
            self.drain_ns = Some(now + linger);
        }
        let timeout = self.config.timeout.as_nanos() as u64;
        let spent = self.ways.iter().all(|way| way.schedule.as_ref().is_some_and(Schedule::is_over));
        if self.drain_ns.is_none() && (spent || self.until_ns.is_some_and(|until| now >= until)) {
            self.drain_ns = Some(now + timeout);
        }
        self.close_late(now);
        self.give_up_older_than(now, self.given_up_after_ns());
        match self.drain_ns {
            Some(until) if now >= until => self.give_up_older_than(now, 0),
            Some(_) => {}
            None => self.dial_due(),
        }
        self.report_pauses();
    }

    fn dial_due(&mut self) {
        for way in 0..self.ways.len() {
            loop {
                let now = mono_ns();
                let state = &mut self.ways[way];
                let Some(schedule) = &mut state.schedule else { break };
                if let Some(skipped) = schedule.skip_overdue(now) {
                    let reason = if state.at_once < AT_ONCE { "late" } else { "blocked" };
                    self.skipped(way, now, skipped, reason);
                    continue;
                }
                if state.at_once >= AT_ONCE {
                    break;
                }
                let Some(due) = schedule.take(now) else { break };
                self.dial(way, due);
            }
        }
    }

    /// Begins one connection.
    fn dial(&mut self, way: usize, due_ns: u64) {
        let config = self.config;
        let state = &mut self.ways[way];
        let remote = state.addresses[state.next_address % state.addresses.len()];
        let connection = state.next;
        state.next += 1;
        let flags = if state.warm_up_left > 0 { Flags::WARM_UP } else { Flags::default() };
        state.warm_up_left = state.warm_up_left.saturating_sub(1);
        let user_timeout_ms =
            config.user_timeout.map(|d| d.as_millis().clamp(1, u128::from(u32::MAX)) as u32);
        let (source, dscp) = (config.source, config.dscp);
        let options = TcpOptions { source, dscp, user_timeout_ms, ..TcpOptions::default() };
        let token = self.next_token;
        let sent_ns = mono_ns();
        let begun = socket::connect_tcp(remote, &options).and_then(|mut socket| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.reactor.registry().register(&mut socket, Token(token), interest)?;
            Ok(socket)
        });
        match begun {
            Ok(socket) => {
                self.next_token += 1;
                self.ways[way].at_once += 1;
                let (securing, opened_ns) = (None, None);
                let dialed =
                    Dialed { way, connection, socket, remote, due_ns, sent_ns, flags, securing, opened_ns };
                self.dialed.insert(token, dialed);
            }
            Err(e) => {
                let row = self.row(connection, due_ns, sent_ns, flags | Flags::UNANSWERED);
                self.failed(way, row, remote, &e);
            }
        }
    }

    fn row(&self, connection: u32, due_ns: u64, sent_ns: u64, flags: Flags) -> Sample {
        Sample {
            connection,
            sent_ns: self.clock.utc_of(sent_ns),
            lateness_ns: sent_ns.wrapping_sub(due_ns) as i64,
            flags,
            ..Sample::default()
        }
    }

    fn tick(&mut self, now: u64) {
        self.tick_ns = now + SECOND_NS;
        let reading = (self.read_clocks)();
        match self.clock.observe(reading) {
            Observation::Steady => {}
            Observation::Anchored => self.outbox.other(Message::Anchor { anchor: reading, stepped: false }),
            Observation::Stepped(step_ns) => {
                self.outbox.other(Message::Anchor { anchor: reading, stepped: true });
                self.event(now, None, None, EventKind::ClockStepped { step_ns });
            }
        }
        for way in 0..self.ways.len() {
            // A name that did not resolve at all.
            if self.ways[way].addresses.is_empty() {
                self.ask(way, now);
            }
        }
        self.outbox.deliver_waiting();
    }

    fn skipped(&mut self, way: usize, now: u64, skipped: Skipped, reason: &str) {
        let Skipped { count: skipped, behind_ns } = skipped;
        let kind = EventKind::ScheduleOverrun { skipped, behind_ns, reason: reason.into() };
        self.event(now, Some(way), None, kind);
    }

    fn report_pauses(&mut self) {
        while let Some(pause) = self.pauses.as_mut().and_then(Pauses::next) {
            let (duration_ns, reason) = (pause.duration_ns(), pauses::reason(&pause));
            let kind = EventKind::Pause { host: "local".to_owned(), duration_ns, reason };
            self.event(pause.ended_mono_ns, None, None, kind);
        }
    }

    fn event(&mut self, now: u64, way: Option<usize>, connection: Option<u32>, kind: EventKind) {
        let at =
            Timestamp::from_nanosecond(i128::from(self.clock.utc_of(now))).unwrap_or(Timestamp::UNIX_EPOCH);
        let event = Event { at, mono_ns: now, connection, kind };
        self.outbox.other(Message::Event(way.map(|p| p as u32), Box::new(event)));
    }
}
