//! The driver of `fathom_core::policy` on a host's TCP in virtual time: an application that asks over a pool of connections.
//! What is to be done, and when, the policy says; nothing here decides it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fathom_core::cause::ClosingCause;
use fathom_core::clock::Anchor;
use fathom_core::event::{Event, EventKind};
use fathom_core::policy::{Broken, Came, Client, Counts, Input, Link, Output, Place, Policy};
use fathom_core::probe::{NetError, cause_of};
use fathom_core::schedule::{Pace, Schedule};
use fathom_wire::Key;
use jiff::Timestamp;

use super::host::Host;
use super::link::{Gone, Link as Tcp};
use super::probe::Made;

/// How long Linux goes on where nobody sets `TCP_USER_TIMEOUT`: its retransmissions end after 924.6 s at the least
/// (`tcp_retries2` of 15, Documentation/networking/ip-sysctl.rst).
const KERNEL_TIMEOUT_NS: u64 = 924_600_000_000;
/// Probes of TCP keepalive without an answer that end a connection (`tcp_keepalive_probes`, ip-sysctl.rst).
const KEEPALIVE_PROBES: u64 = 9;

/// What an application does, and where.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) policy: Policy,
    /// The target, and the fallback's where there is one: what events call it, and where it is.
    pub(super) targets: Vec<(String, SocketAddr)>,
    pub(super) interval_ns: u64,
    /// When the simulation ends; nothing is due from then on.
    pub(super) end_ns: u64,
    pub(super) seed: u64,
    /// Tells its requests from any other application's.
    pub(super) session: u32,
}

/// A connection of the pool's.
#[derive(Debug)]
struct Open {
    tcp: Tcp,
    link: Link,
    /// Bytes that have found no room yet.
    unsent: Vec<u8>,
}

/// An application of the simulation.
#[derive(Debug)]
pub(super) struct Application {
    /// Which host it runs at, by index.
    pub(super) at: usize,
    client: Client,
    work: Work,
    clock: Anchor,
    started: bool,
    open: BTreeMap<u32, Open>,
}

impl Application {
    pub(super) fn new(at: usize, work: Work, clock: Anchor) -> Self {
        let schedule = Schedule::new(Pace::Every(work.interval_ns), 0, None, Some(work.end_ns));
        let client = Client::new(work.policy.clone(), schedule, work.seed);
        Self { at, client, work, clock, started: false, open: BTreeMap::new() }
    }

    /// What became of its requests so far.
    pub(super) fn counts(&self) -> Counts {
        self.client.counts()
    }

    /// Whether every request has ended.
    pub(super) fn is_over(&self) -> bool {
        self.client.is_over()
    }

    /// When something is to be done without a packet, ns.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        if !self.started {
            return Some(0);
        }
        let kernel = self.open.values().filter_map(|open| open.tcp.gives_up_ns());
        kernel.chain(self.client.next_wake()).min()
    }

    /// Whether something may have changed for one of its connections.
    pub(super) fn is_touched(&self, host: &Host) -> bool {
        self.open.values().any(|open| host.has_touched(open.tcp.port))
    }

    /// Does what is due, and tells what the host's TCP made possible.
    pub(super) fn run(&mut self, now: u64, host: &mut Host, take: &mut impl FnMut(Made)) {
        if !std::mem::replace(&mut self.started, true) {
            self.client.start(now);
            self.obey(now, host, take);
        }
        let changed = |(_, open): &(&u32, &Open)| {
            host.has_touched(open.tcp.port) || open.tcp.gives_up_ns().is_some_and(|at| at <= now)
        };
        let changed: Vec<u32> = self.open.iter().filter(changed).map(|(&id, _)| id).collect();
        for id in changed {
            self.look(id, now, host, take);
        }
        while self.client.next_wake().is_some_and(|at| at <= now) {
            self.tell(now, host, Input::Wake, take);
        }
    }

    /// The simulation is over: what is under way, because this host does not run, ends at once.
    pub(super) fn finish(&mut self, now: u64, host: &mut Host, take: &mut impl FnMut(Made)) {
        self.tell(now, host, Input::Over, take);
    }

    fn tell(&mut self, now: u64, host: &mut Host, input: Input, take: &mut impl FnMut(Made)) {
        self.client.handle(now, input);
        self.obey(now, host, take);
    }

    /// Looks what became of a connection.
    fn look(&mut self, id: u32, now: u64, host: &mut Host, take: &mut impl FnMut(Made)) {
        let Some(Open { tcp, link, .. }) = self.open.get_mut(&id) else { return };
        if !tcp.established {
            match tcp.connecting(now, host) {
                None => {}
                Some(Ok(())) => {
                    let local = SocketAddr::new(host.address, tcp.port).to_string();
                    let opened = link.opened(now, local);
                    self.event(now, Some(id), opened, take);
                    self.tell(now, host, Input::Connected { id }, take);
                }
                Some(Err(error)) => self.breaks(id, now, host, error, take),
            }
            return;
        }
        let bytes = tcp.receive(now, host);
        if !bytes.is_empty() {
            match link.receive(now, &bytes) {
                Came::Part => {}
                Came::Answer(out) => {
                    if let Some(row) = link.answered(now, out, None, |at| self.clock.utc_of(at)) {
                        take(Made::Sample(row));
                    }
                    self.tell(now, host, Input::Answered { id, ask: out.ask }, take);
                }
                // No ask has this number: the client closes what it cannot understand.
                Came::Foreign => self.tell(now, host, Input::Answered { id, ask: u64::MAX }, take),
            }
        }
        let Some(Open { tcp, .. }) = self.open.get(&id) else { return };
        match tcp.gone(now, host) {
            None => self.write(id, now, host),
            Some(Gone::Error(kind, errno)) => self.breaks(id, now, host, (kind, errno), take),
            Some(Gone::Closed) => {
                self.ends(id, ClosingCause::PeerClosed, None, now, host, take);
                self.tell(now, host, Input::Lost { id }, take);
            }
        }
    }

    fn breaks(
        &mut self,
        id: u32,
        now: u64,
        host: &mut Host,
        (kind, errno): (std::io::ErrorKind, i32),
        take: &mut impl FnMut(Made),
    ) {
        let error = NetError { errno: Some(errno), ..NetError::of_kind(kind) };
        let broken = Broken { errno: Some(errno), error: error.text.clone() };
        self.ends(id, cause_of(&error), Some(broken), now, host, take);
        self.tell(now, host, Input::Lost { id }, take);
    }

    /// A connection has ended, or is ended: its rows and its end are written down.
    fn ends(
        &mut self,
        id: u32,
        cause: ClosingCause,
        broken: Option<Broken>,
        now: u64,
        host: &mut Host,
        take: &mut impl FnMut(Made),
    ) {
        let Some(Open { tcp, mut link, .. }) = self.open.remove(&id) else { return };
        host.close(now, tcp.handle, tcp.port);
        if let Some(row) = link.given_up(None, |at| self.clock.utc_of(at)) {
            take(Made::Sample(row));
        }
        self.event(now, Some(id), link.ended(now, cause, broken), take);
    }

    /// Does everything that the client asks for.
    fn obey(&mut self, now: u64, host: &mut Host, take: &mut impl FnMut(Made)) {
        while let Some(output) = self.client.poll() {
            match output {
                Output::Open { id, target, place } => self.connect(id, target, place, now, host, take),
                Output::Send { id, ask, request } => {
                    let size = self.work.policy.requests.size;
                    if let Some(Open { link, unsent, .. }) = self.open.get_mut(&id) {
                        *unsent = link.ask(now, ask, request.map(|(_, due_ns)| due_ns), size, None);
                    }
                    self.write(id, now, host);
                }
                Output::Close { id, cause } => self.ends(id, cause, None, now, host, take),
                Output::Ended { .. } => {}
                Output::Event(kind) => self.event(now, None, kind, take),
            }
        }
    }

    fn connect(
        &mut self,
        id: u32,
        target: usize,
        lane: u32,
        now: u64,
        host: &mut Host,
        take: &mut impl FnMut(Made),
    ) {
        let (name, remote) = self.work.targets[target].clone();
        let key = Key { session: self.work.session, connection: id };
        let link = Link::new(Place { target: name, remote, lane }, key, now);
        self.event(now, Some(id), link.opening(), take);
        let policy = &self.work.policy;
        let user_timeout_ns = policy.user_timeout_ns.unwrap_or(KERNEL_TIMEOUT_NS);
        let mut tcp = Tcp::connect(now, host, remote, user_timeout_ns);
        if let Some(every_ns) = policy.keepalive_ns {
            tcp.keep_alive(host, every_ns, silent_ns(every_ns, policy.user_timeout_ns));
        }
        self.open.insert(id, Open { tcp, link, unsent: Vec::new() });
    }

    /// Sends what has not been sent yet, as far as there is room.
    fn write(&mut self, id: u32, now: u64, host: &mut Host) {
        let Some(Open { tcp, unsent, .. }) = self.open.get_mut(&id) else { return };
        let room = if tcp.established { host.room(tcp.handle).min(unsent.len()) } else { 0 };
        if room > 0 && tcp.send(now, host, &unsent[..room]) {
            unsent.drain(..room);
        }
    }

    fn event(&self, now: u64, connection: Option<u32>, kind: EventKind, take: &mut impl FnMut(Made)) {
        let at = Timestamp::from_nanosecond(self.clock.utc_of(now).into()).unwrap_or(Timestamp::UNIX_EPOCH);
        take(Made::Event(Box::new(Event { at, mono_ns: now, connection, kind })));
    }
}

/// After how long a silence TCP keepalive ends a connection. Its timer goes every `every_ns`, and each time it asks: it gives
/// up when nine went unanswered or, where `TCP_USER_TIMEOUT` is set, when one did and so long has passed
/// (`tcp_keepalive_timer` in Linux's `net/ipv4/tcp_timer.c`).
fn silent_ns(every_ns: u64, user_timeout_ns: Option<u64>) -> u64 {
    let turns = user_timeout_ns.map_or(1 + KEEPALIVE_PROBES, |ns| ns.div_ceil(every_ns.max(1)).max(2));
    every_ns.saturating_mul(turns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepalive_gives_up_as_linux_does() {
        const S: u64 = 1_000_000_000;
        assert_eq!(silent_ns(30 * S, None), 300 * S, "nine probes after the first 30 s");
        assert_eq!(silent_ns(30 * S, Some(10 * S)), 60 * S, "not before one went unanswered");
        assert_eq!(silent_ns(10 * S, Some(25 * S)), 30 * S);
    }
}
