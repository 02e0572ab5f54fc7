//! What the lanes of one path share: its addresses, its usual round trips, its canary connection, its anomalies.

use super::anomalies::Tally;
use super::context::Context;
use super::diagnosis::canary::Canaries;
use super::io::{LinkId, Output};
use super::policy::reconnect::Addresses;
use super::settings::Transport;
use super::timers::Timer;
use super::unsent::Unsent;
use super::usual::{Usual, Waited};
use crate::event::EventKind;
use crate::sample::Sample;
use crate::schedule::{Pace, Schedule};
use crate::stream::{ClockBound, ReadStamps, Stamped};
use crate::verdict::Idle;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// A name resolved this recently is not asked for again.
const RESOLVED_FOR_NS: u64 = 1_000_000_000;
/// A peer that has closed so many connections, and never answered, is no reflector, or none for us. One may be a coincidence;
/// a server that is no reflector writes each into its log.
const TURNED_AWAY: u32 = 3;
/// Bytes of what nobody asked for that an event shows.
const EXCERPT: usize = 64;

/// The reason why samples that fall due without a connection are not sent. `local`: this host could not make one.
pub(super) fn without_connection(local: bool) -> &'static str {
    if local { "local" } else { "unconnected" }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Path {
    index: usize,
    target: String,
    pub(super) addresses: Addresses,
    resolved_ns: Option<u64>,
    resolving: bool,
    /// Lanes that wait for the addresses.
    waiting: VecDeque<usize>,
    pub(super) usual: Usual,
    pub(super) canaries: Canaries,
    /// The quiets that its connections survived, or did not.
    pub(super) idle: Idle,
    /// The reflector whose echoes came last, where they tell.
    pub(super) served_by: Option<u32>,
    /// Its stamps of the last of them.
    pub(super) stamped: Option<Stamped>,
    /// The stamps of the read that is looked at just now, on whichever connection; nothing between two of them. Here and not
    /// with the connection: ten thousand of those do not lie in a cache.
    pub(super) read: ReadStamps,
    /// Whether it tells its pauses.
    pub(super) tells_pauses: bool,
    /// Connections that this worker has had, and those that are open.
    opened: u32,
    open: u32,
    /// Attempts of its lanes to connect that are under way.
    opening: u32,
    answered: bool,
    /// Connections that the peer ended before it had ever answered.
    turned_away: u32,
    corrupted: Tally,
    foreign: Tally,
    duplicated: Tally,
    /// The beginning of the first foreign bytes since the last event about them.
    foreign_first: String,
    /// STAMP: the error of differences of the two clocks that was told last, ns.
    clock_error_ns: Option<u64>,
    /// When its schedule began.
    origin_ns: Option<u64>,
    /// What falls due before it is reached, where it is tried until then; none once it is, or nothing more is due.
    before: Option<Schedule>,
    due_before: u64,
    /// Set if an attempt to reach it has failed: true if this host failed.
    refused: Option<bool>,
    unsent: Unsent,
    /// It could not be reached, and the settings say not to try for ever.
    given_up: bool,
}

impl Path {
    pub(super) fn new(index: usize, target: String, canary: LinkId) -> Self {
        Self {
            index,
            target,
            addresses: Addresses::default(),
            resolved_ns: None,
            resolving: false,
            waiting: VecDeque::new(),
            usual: Usual::default(),
            canaries: Canaries::new(index, canary),
            idle: Idle::default(),
            served_by: None,
            stamped: None,
            read: None,
            tells_pauses: false,
            opened: 0,
            open: 0,
            opening: 0,
            answered: false,
            turned_away: 0,
            corrupted: Tally::default(),
            foreign: Tally::default(),
            duplicated: Tally::default(),
            foreign_first: String::new(),
            clock_error_ns: None,
            origin_ns: None,
            before: None,
            due_before: 0,
            refused: None,
            unsent: Unsent::default(),
            given_up: false,
        }
    }

    pub(super) fn index(&self) -> usize {
        self.index
    }

    pub(super) fn target(&self) -> &str {
        &self.target
    }

    /// Whether the addresses are fresh enough to connect to; otherwise the lane waits for them.
    pub(super) fn has_addresses_for(&mut self, lane: usize, now: u64, cx: &mut Context) -> bool {
        let fresh = self.refresh_addresses(now, cx);
        if !fresh {
            self.waiting.push_back(lane);
        }
        fresh
    }

    /// Has the name resolved, unless its addresses are fresh; whether they are.
    pub(super) fn refresh_addresses(&mut self, now: u64, cx: &mut Context) -> bool {
        let fresh = self.resolved_ns.is_some_and(|at| now.saturating_sub(at) < RESOLVED_FOR_NS);
        if !fresh && !std::mem::replace(&mut self.resolving, true) {
            cx.emit(Output::Resolve { path: self.index });
        }
        fresh
    }

    /// The name was resolved, or not: the lanes that waited, and why it was not.
    pub(super) fn resolved(
        &mut self,
        now: u64,
        addresses: Result<Vec<SocketAddr>, String>,
    ) -> (VecDeque<usize>, Option<String>) {
        self.resolving = false;
        let lanes = std::mem::take(&mut self.waiting);
        match addresses {
            Ok(addresses) => {
                self.addresses.resolved(addresses);
                self.resolved_ns = Some(now);
                (lanes, None)
            }
            Err(error) => (lanes, Some(error)),
        }
    }

    /// A lane begins an attempt to connect.
    pub(super) fn attempt_began(&mut self) {
        self.opening += 1;
    }

    /// The attempt is over, however it ended.
    pub(super) fn attempt_ended(&mut self) {
        self.opening -= 1;
    }

    /// Whether it may yet be reached: it was, or another lane is about to.
    pub(super) fn may_be_reached(&self) -> bool {
        self.opened > 0 || self.opening > 0
    }

    /// A connection of this path is established; gives the address that served before, if it is another.
    pub(super) fn connected(&mut self, remote: SocketAddr) -> Option<SocketAddr> {
        self.opened += 1;
        self.open += 1;
        self.addresses.worked(remote).filter(|before| before.ip() != remote.ip())
    }

    /// A connection is over. `idle`: the quiet before its end, and what it had survived; `lost`: its end was not of our
    /// choosing.
    pub(super) fn disconnected(&mut self, idle: Idle, lost: bool) {
        self.open -= 1;
        self.idle.survived_ns = self.idle.survived_ns.max(idle.survived_ns);
        if lost {
            self.idle.earlier_ns = Some(idle.before_ns);
        }
    }

    /// Where a connection leads that is open.
    pub(super) fn open_remote(&self) -> Option<SocketAddr> {
        self.addresses.last().filter(|_| self.open > 0)
    }

    pub(super) fn has_open(&self) -> bool {
        self.open > 0
    }

    pub(super) fn origin_ns(&self) -> Option<u64> {
        self.origin_ns
    }

    /// The run begins, with so many lanes of this path. Where it is tried until it is reached, what falls due meanwhile is
    /// not sent.
    pub(super) fn start(&mut self, lanes: usize, now: u64, cx: &Context) {
        if let (true, 1.., Pace::Every(every)) = (cx.settings.keep_trying, lanes, cx.settings.pace) {
            let every = (every / lanes as u64).max(1);
            let until = cx.settings.duration_ns.map(|duration| now.saturating_add(duration));
            // As much as in each interval that follows: a path that is reached in time has nothing before it.
            self.before = Some(Schedule::new(Pace::Every(every), now.saturating_add(every), None, until));
        }
    }

    /// Samples that fell due before it was reached.
    pub(super) fn due_before(&self) -> u64 {
        self.due_before
    }

    /// Notes a failed attempt to reach it. `local`: it failed in this host, which sent nothing.
    pub(super) fn refused(&mut self, now: u64, local: bool, cx: &mut Context) {
        if self.refused.is_some_and(|before| before != local) {
            self.tell_unreached(now, cx);
        }
        self.refused = Some(local);
    }

    fn tell_unreached(&mut self, now: u64, cx: &mut Context) {
        // One that is just being connected for the first time is not late.
        if let Some((before, local)) = self.before.as_mut().zip(self.refused) {
            let skipped = before.skip_unconnected(now);
            self.due_before = before.due();
            cx.skipped(now, self.index, None, skipped, without_connection(local));
        }
    }

    /// It is reached, or nothing more is due on it: what fell due before and was not sent is told.
    pub(super) fn waited(&mut self, now: u64, cx: &mut Context) {
        self.tell_unreached(now, cx);
        self.before = None;
    }

    /// Once a second.
    pub(super) fn tick(&mut self, now: u64, cx: &mut Context) {
        self.usual.refresh();
        if self.before.is_some() && self.unsent.is_to_be_told(now) {
            self.tell_unreached(now, cx);
        }
    }

    /// Its schedule begins; where its time is limited, the end is timed, once for all of its lanes.
    pub(super) fn begin(&mut self, now: u64, cx: &mut Context) {
        self.waited(now, cx);
        self.origin_ns = Some(now);
        if let Some(duration_ns) = cx.settings.duration_ns {
            cx.timers.set(now.saturating_add(duration_ns), Timer::End, self.index);
        }
    }

    pub(super) fn give_up(&mut self) {
        self.given_up = true;
    }

    /// The target cannot be reached, and is not tried for ever: the run's end says why, once.
    pub(super) fn give_up_because(&mut self, error: String, cx: &mut Context) {
        if !std::mem::replace(&mut self.given_up, true) {
            cx.end.given_up.push(error);
        }
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up
    }

    pub(super) fn ever_answered(&self) -> bool {
        self.answered
    }

    /// A sample was resolved by what came; `waited`: an echo, after this silence. `held_up`: it waited in a stall, or in a
    /// queue that is not usual.
    pub(super) fn resolved_sample(
        &mut self,
        now: u64,
        sample: &Sample,
        waited: Option<Waited>,
        held_up: bool,
    ) {
        match sample.rtt_ns.zip(waited) {
            Some((rtt_ns, waited)) => {
                self.answered = true;
                self.usual.add(now, rtt_ns, waited, held_up);
            }
            None => self.corrupted.add(sample.connection, sample.seq, 1),
        }
    }

    /// Bytes came that are no echo of ours.
    pub(super) fn foreign(&mut self, connection: u32, bytes: &[u8], transport: Transport) {
        self.greeted(bytes);
        let count = if transport == Transport::Udp { 1 } else { bytes.len() as u64 };
        self.foreign.add(connection, 0, count);
    }

    /// Bytes came that begin otherwise than an echo, and may not be whole. Of a server that never answered as a reflector, what it
    /// said first is shown: its banner, not the end of it or what it made of our bytes.
    pub(super) fn greeted(&mut self, bytes: &[u8]) {
        if self.foreign.is_empty() && (self.answered || self.foreign_first.is_empty()) {
            self.foreign_first = bytes[..bytes.len().min(EXCERPT)].escape_ascii().to_string();
        }
    }

    pub(super) fn duplicated(&mut self, connection: u32, seq: u64) {
        self.duplicated.add(connection, seq, 1);
    }

    /// Why what came is no echo, in words.
    pub(super) fn not_an_echo(&self) -> String {
        let first = &self.foreign_first;
        let first = if first.is_empty() { String::new() } else { format!(" (it sent \"{first}\")") };
        format!(
            "{target} does not echo what it is sent{first}; is a reflector (`fathom echo`, or an RFC 862 server) on that port? To time connections to it: `fathom probe {target} --connect`",
            target = self.target
        )
    }

    /// The peer ended a connection, which is over. A path that never answered is given up after some of them, unless another
    /// connection may yet be answered: a reflector with enough clients turns the others away.
    pub(super) fn turned_away(&mut self, cx: &mut Context) {
        self.turned_away += 1;
        let may_answer = self.answered || self.open > 0 || self.opening > 0;
        if self.turned_away >= TURNED_AWAY && !may_answer && !cx.settings.keep_trying {
            let error = format!(
                "{target} closed each of {connections} and answered nothing: it is no echo server, or wants a key that it was not shown (--key); is a reflector (`fathom echo`, or an RFC 862 server) on that port? To time connections to it: `fathom probe {target} --connect`",
                target = self.target,
                connections = crate::text::count(self.turned_away.into(), "connection"),
            );
            self.give_up_because(error, cx);
        }
    }

    /// Tells how far the differences of the two clocks may be from the truth, when that is new or has grown.
    pub(super) fn clock_bound(&mut self, now: u64, connection: u32, bound: ClockBound, cx: &mut Context) {
        let ClockBound { local_ns, remote_ns } = bound;
        let error_ns = bound.error_ns().checked_next_power_of_two().unwrap_or(u64::MAX);
        if self.clock_error_ns < Some(error_ns) {
            self.clock_error_ns = Some(error_ns);
            let kind = EventKind::ClockBounded { error_ns, local_ns, remote_ns };
            cx.event(now, Some(self.index), Some(connection), kind);
        }
    }

    pub(super) fn report_anomalies(&mut self, now: u64, last_chance: bool, cx: &mut Context) {
        let corrupted = self.corrupted.take(now, last_chance);
        let corrupted = corrupted.map(|(c, seq, count)| (c, EventKind::EchoCorrupted { seq, count }));
        let foreign = self.foreign.take(now, last_chance).map(|(c, _, count)| {
            let first = std::mem::take(&mut self.foreign_first);
            (c, EventKind::EchoForeign { count, first })
        });
        let duplicated = self.duplicated.take(now, last_chance);
        let duplicated = duplicated.map(|(c, seq, count)| (c, EventKind::EchoDuplicated { seq, count }));
        for (connection, kind) in [corrupted, foreign, duplicated].into_iter().flatten() {
            cx.event(now, Some(self.index), Some(connection), kind);
        }
    }

    /// The silence that counts as a stall on this path.
    pub(super) fn stall_threshold_ns(&self, cx: &Context) -> u64 {
        cx.settings.stall_after_ns.unwrap_or_else(|| self.usual.threshold_ns())
    }
}
