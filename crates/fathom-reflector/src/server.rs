//! The event loop: one thread, every socket, but for a connection that is [`alone`](crate::alone).

mod accept;
mod spin;

use crate::address::Protocol;
use crate::alone::{Alone, Returned, Streak};
use crate::clock::{Clock, OBSERVE_EVERY_NS};
use crate::config::Config;
use crate::connection::{Connection, Read, Shared, Turn};
use crate::datagram::Datagrams;
use crate::error::Error;
use crate::flows::{Ended, Flows, Others};
use crate::guard::Guard;
use crate::help;
use crate::idle::IdleQueue;
use crate::itself;
use crate::listen::{Bound, Socket};
use crate::notices::Notices;
use crate::one_way::SegmentQueue;
use crate::silent::Silent;
use crate::stamp::Sessions;
use crate::strangers;
use crate::talk::note;
use crate::tally::Tally;
use fathom_os::clock::mono_ns;
use fathom_wire::{Introduction, Question, Secret, Standing};
use mio::event::Event;
use mio::{Events, Interest, Poll, Token, Waker};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const WAKER: Token = Token(0);
const FIRST_SOCKET: usize = 1;
const EVENTS_A_TURN: usize = 1_024;
/// A UDP peer counts as present for so long after its last datagram.
const UDP_PRESENT_NS: u64 = 10_000_000_000;

/// A reflector, ready to run.
#[derive(Debug)]
pub(crate) struct Server {
    poll: Poll,
    waker: Arc<Waker>,
    sockets: Vec<Bound>,
    /// Connections by slot; a slot's token is its number behind those of the sockets. A late event for the last
    /// connection of a slot costs the next one a read that finds nothing, no more.
    slots: Vec<Option<Connection>>,
    free: Vec<u32>,
    open: u32,
    /// Those of which the kernel does not tell.
    untold: u32,
    max_connections: u32,
    /// Tokens whose turn ended before their work did; with edge-triggered readiness nobody else would tell.
    unfinished: Vec<Token>,
    shared: Shared,
    flows: Flows,
    pause_clock: Option<Duration>,
    datagrams: Datagrams,
    stamp: Sessions,
    allow: crate::allow::Allow,
    /// Only who knows it is answered.
    key: Option<Secret>,
    idle: Option<IdleQueue>,
    silent: Silent,
    segments: SegmentQueue,
    accept_again_ns: Option<u64>,
    accept_trouble_told_ns: Option<u64>,
    streak: Streak,
    alone: Option<Alone>,
    spin: bool,
    run_for_ns: Option<u64>,
    tally: Tally,
}

impl Server {
    pub(crate) fn new(config: &Config, sockets: Vec<Bound>, notices: Notices) -> Result<Self, Error> {
        let cannot =
            |e: io::Error| Error::new(format!("cannot wait for network events: {e}; see `ulimit -n`"));
        let poll = Poll::new().map_err(cannot)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER).map_err(cannot)?);
        let mut own_ports = Vec::new();
        let mut sockets = sockets;
        for (index, bound) in sockets.iter_mut().enumerate() {
            let token = Token(FIRST_SOCKET + index);
            match &mut bound.socket {
                Socket::Tcp(listener) => poll.registry().register(listener, token, Interest::READABLE),
                Socket::Udp(socket) => {
                    own_ports.push(bound.address.port());
                    poll.registry().register(socket, token, Interest::READABLE)
                }
            }
            .map_err(cannot)?;
        }
        let max_connections = help::connection_limit(config.max_connections);
        let identity = itself::identity(sockets.iter().map(|bound| bound.address));
        Ok(Self {
            poll,
            waker,
            sockets,
            slots: Vec::new(),
            free: Vec::new(),
            open: 0,
            untold: 0,
            max_connections,
            unfinished: Vec::new(),
            shared: Shared::new(Clock::new(identity)),
            flows: Flows::new(notices),
            pause_clock: config.pause_clock,
            stamp: Sessions::new(config.stamp),
            datagrams: Datagrams::new(
                Guard::new(config.allow.clone(), config.udp_any_port, own_ports, config.udp_max_rate)
                    .of_those_who_know(config.key.clone()),
            ),
            allow: config.allow.clone(),
            key: config.key.clone(),
            idle: config.idle_timeout_ns.map(IdleQueue::new),
            silent: Silent::default(),
            segments: SegmentQueue::default(),
            accept_again_ns: None,
            accept_trouble_told_ns: None,
            streak: Streak::default(),
            alone: None,
            spin: config.spin,
            run_for_ns: config.run_for_ns,
            tally: Tally::default(),
        })
    }

    /// Wakes the server from another thread.
    pub(crate) fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// The sockets served.
    pub(crate) fn sockets(&self) -> &[Bound] {
        &self.sockets
    }

    /// Serves until told to stop, or until its time is over; says what it served.
    pub(crate) fn run(mut self, stop: &AtomicBool) -> Result<Tally, Error> {
        let started_ns = mono_ns();
        let end_ns = self.run_for_ns.map(|run_for| started_ns.saturating_add(run_for));
        let mut events = Events::with_capacity(EVENTS_A_TURN);
        let mut now_ns = started_ns;
        // Where the kernel has no such thing, this thread waits its turn as any other. Threads that this one starts have it too.
        let _ = fathom_os::assist::short_slices();
        fathom_os::process::let_go_of_the_program();
        if let Some(period) = self.pause_clock
            && let Err(e) = self.shared.clock.watch_pauses(period)
        {
            note(&format!("this host's pauses are not watched: {e}; stamps say that there were none"));
        }
        while !stop.load(Ordering::Acquire) && end_ns.is_none_or(|end| now_ns < end) {
            let before_ns = mono_ns();
            let wait_ns = self.wait_ns(before_ns, end_ns);
            if wait_ns == Some(0) {
                self.shared.clock.goes_on(before_ns);
            } else {
                self.shared.clock.rests(before_ns, wait_ns.map(|wait| before_ns + wait));
            }
            match self.poll.poll(&mut events, wait_ns.map(Duration::from_nanos)) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(Error::new(format!("cannot wait for network events: {e}"))),
                Ok(()) => {}
            }
            now_ns = mono_ns();
            // That this thread runs, whether it has something to stamp or not.
            self.shared.clock.paused_ns(now_ns);
            self.meet_again(false);
            let unfinished = std::mem::take(&mut self.unfinished);
            for event in &events {
                self.news(event, now_ns);
            }
            for token in unfinished {
                self.dequeue(token);
                self.serve(token, now_ns);
            }
            if self.spin {
                self.spin_on();
            } else {
                self.part_with_the_only_one(&events, now_ns);
            }
            self.keep_house(now_ns);
        }
        self.meet_again(true);
        self.tally.connections_open = u64::from(self.open);
        self.tally.bytes = self.shared.bytes;
        self.tally.messages_stamped = self.shared.frames;
        self.tally.questions = self.shared.questions;
        self.tally.paused_ns = self.shared.clock.paused_ns(mono_ns());
        self.tally.uptime_ns = mono_ns() - started_ns;
        Ok(self.tally)
    }

    /// Sends a connection to a thread of its own where it is back to back and nothing else has happened for a while.
    fn part_with_the_only_one(&mut self, events: &Events, now_ns: u64) {
        let mut tokens = events.iter().map(Event::token);
        let only = tokens.next().filter(|_| tokens.next().is_none() && self.unfinished.is_empty());
        let Some(slot) = only.and_then(|token| self.slot_of(token)) else {
            self.streak.goes_on(None, now_ns);
            return;
        };
        if !self.streak.goes_on(only, now_ns) || self.alone.is_some() {
            return;
        }
        let Some(mut connection) = self.slots[slot].take_if(|connection| connection.holds_nothing()) else {
            return;
        };
        // The loop is not told of it meanwhile; registering it again tells of what came before.
        let _ = self.poll.registry().deregister(connection.stream());
        let mut connection = Some(connection);
        let started = Alone::start(slot, &mut connection, self.shared.beside(), Arc::clone(&self.waker));
        self.alone = started.ok().flatten();
        if let Some(connection) = connection {
            self.take_in(slot, connection);
        }
    }

    /// Takes back the connection that was alone, if it is back, or at once.
    fn meet_again(&mut self, at_once: bool) {
        let Some(alone) = self.alone.take_if(|alone| at_once || alone.is_back()) else { return };
        let slot = alone.slot;
        let Some(Returned { connection, turn, shared }) = alone.take_back() else { return };
        self.shared.add(&shared);
        self.take_in(slot, connection);
        self.after_turn(slot, &turn);
    }

    fn take_in(&mut self, slot: usize, mut connection: Connection) {
        let token = Token(FIRST_SOCKET + self.sockets.len() + slot);
        let registered = self.poll.registry().register(connection.stream(), token, interest());
        if let Some(idle) = &mut self.idle {
            idle.watch(slot as u32, connection.active_ns);
        }
        self.slots[slot] = Some(connection);
        if registered.is_err() {
            self.after_turn(slot, &Turn::Failed);
        }
    }

    /// How long nothing is due; none: until something happens.
    fn wait_ns(&self, now_ns: u64, end_ns: Option<u64>) -> Option<u64> {
        if self.spin || !self.unfinished.is_empty() {
            return Some(0);
        }
        let udp_present = self.datagrams.active_ns.is_some_and(|active| now_ns < active + UDP_PRESENT_NS);
        // The clocks are compared while somebody may want their stamps.
        let observe = (self.open > 0 || udp_present).then_some(now_ns + OBSERVE_EVERY_NS);
        let idle = self.idle.as_ref().and_then(IdleQueue::next_due_ns);
        let due = [observe, idle, self.segments.next_due_ns(), self.accept_again_ns, end_ns]
            .into_iter()
            .flatten()
            .min();
        due.map(|due| due.saturating_sub(now_ns))
    }

    /// The kernel told of something.
    fn news(&mut self, event: &Event, now_ns: u64) {
        let token = event.token();
        if token == WAKER {
            return;
        }
        if (event.is_read_closed() || is_urgent(event))
            && let Some(connection) = self.slot_of(token).and_then(|slot| self.slots[slot].as_mut())
        {
            connection.expect_an_end();
        }
        self.serve(token, now_ns);
    }

    fn slot_of(&self, token: Token) -> Option<usize> {
        token.0.checked_sub(FIRST_SOCKET + self.sockets.len())
    }

    /// Gives one socket or connection its turn.
    fn serve(&mut self, token: Token, now_ns: u64) {
        if let Some(slot) = self.slot_of(token) {
            self.serve_connection(slot, token, None);
            return;
        }
        let index = token.0 - FIRST_SOCKET;
        let unfinished = match &self.sockets[index].socket {
            Socket::Tcp(_) => self.accept(index, now_ns),
            Socket::Udp(socket) => {
                let stamp = (self.sockets[index].protocol == Protocol::Stamp).then_some(&mut self.stamp);
                let flows = &mut self.flows;
                self.datagrams.turn(socket, stamp, &mut self.shared, flows, &self.slots, &mut self.tally)
            }
        };
        if unfinished && !std::mem::replace(&mut self.sockets[index].queued, true) {
            self.unfinished.push(token);
        }
    }

    fn serve_connection(&mut self, slot: usize, token: Token, read: Option<Read>) {
        // It may ask about all the others.
        let Some((connection, others)) = Others::than(slot, &mut self.slots) else { return };
        let flows = &self.flows;
        let ask = |question: &Question, clock: &Clock| flows.reply(question, &others, clock);
        let turn = connection.turn(read, &mut self.shared, &ask);
        if let Some(key) = connection.introduces_itself() {
            self.flows.opened(key, slot as u32);
        }
        if turn == Turn::Unfinished && !std::mem::replace(&mut connection.queued, true) {
            self.unfinished.push(token);
        }
        self.after_turn(slot, &turn);
    }

    fn after_turn(&mut self, slot: usize, turn: &Turn) {
        match turn {
            Turn::Waiting | Turn::Unfinished => self.queue_segment(slot),
            Turn::Finished => self.close(slot, Standing::ClosedByProbe),
            Turn::Stranger => {
                let peer = self.slots[slot].as_mut().and_then(|c| c.stream().peer_addr().ok());
                strangers::came(&mut self.tally.refused.key, Protocol::Tcp, peer);
                self.close(slot, Standing::Failed);
            }
            Turn::Failed => {
                self.tally.connections_failed += 1;
                self.close(slot, Standing::Failed);
            }
        }
    }

    /// A connection that is to send segments unasked waits for the next.
    fn queue_segment(&mut self, slot: usize) {
        let due_ns = self.slots[slot].as_ref().and_then(Connection::segment_due_ns);
        self.segments.set(slot as u32, due_ns);
    }

    /// Sends the segments that are due.
    fn send_segments(&mut self, now_ns: u64) {
        while let Some(slot) = self.segments.pop(now_ns) {
            if let Some(connection) = self.slots[slot as usize].as_mut() {
                connection.send_segment(&mut self.shared, now_ns);
            }
            self.queue_segment(slot as usize);
        }
    }

    fn dequeue(&mut self, token: Token) {
        match self.slot_of(token) {
            None => self.sockets[token.0 - FIRST_SOCKET].queued = false,
            Some(slot) => {
                if let Some(connection) = self.slots[slot].as_mut() {
                    connection.queued = false;
                }
            }
        }
    }

    fn close(&mut self, slot: usize, standing: Standing) {
        if let Some(mut connection) = self.slots[slot].take() {
            if let Some(key) = connection.key {
                let last = connection.seen(standing, &self.shared.clock);
                let Introduction { port, failure, .. } = connection.introduced(&self.shared.clock, None);
                let received_ns = connection.received_ns;
                self.flows.ended(key, slot as u32, Ended { last, received_ns, port, failure });
            }
            connection.release(&mut self.shared);
            self.segments.set(slot as u32, None);
            self.untold -= u32::from(!connection.told);
            // It goes with the socket anyway; some systems want to be told.
            let _ = self.poll.registry().deregister(connection.stream());
            self.free.push(slot as u32);
            self.open -= 1;
            tracing::debug!(slot, ?standing, open = self.open, "closed");
        }
    }

    /// What is due by the clock rather than by the network.
    fn keep_house(&mut self, now_ns: u64) {
        if let Some(step_ns) = self.shared.clock.observe(now_ns) {
            let step_ms = step_ns / 1_000_000;
            note(&format!("the wall clock was set by {step_ms} ms; stamps follow it from now on"));
        }
        while let Some(idle) = &mut self.idle {
            let slots = &self.slots;
            let active = |slot: u32| slots[slot as usize].as_ref().map(|connection| connection.active_ns);
            let Some(slot) = idle.pop(now_ns, active) else { break };
            self.tally.connections_idle_closed += 1;
            self.close(slot as usize, Standing::ClosedIdle);
        }
        self.send_segments(now_ns);
        if self.accept_again_ns.is_some_and(|again| now_ns >= again) {
            self.accept_again_ns = None;
            for index in 0..self.sockets.len() {
                self.serve(Token(FIRST_SOCKET + index), now_ns);
            }
        }
    }
}

/// Both directions from the start: the write side tells nothing until a write has been refused, so it costs no
/// wake-ups, and no system call when a peer stops reading.
fn interest() -> Interest {
    let both = Interest::READABLE | Interest::WRITABLE;
    #[cfg(target_os = "linux")]
    let both = both | Interest::PRIORITY;
    both
}

#[cfg(target_os = "linux")]
fn is_urgent(event: &Event) -> bool {
    event.is_priority()
}

#[cfg(not(target_os = "linux"))]
fn is_urgent(_event: &Event) -> bool {
    false
}
