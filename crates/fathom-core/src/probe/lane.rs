//! One lane: a schedule and, one after another, the connections that carry it.
//!
//! ```text
//!             open            addresses known         established            lost, and another is wanted
//!   Idle ------------> Waiting ------------> Opening ------------> Open ------------------------------> Idle
//!    ^  (its turn)      for a name             |                    |  \                                 | Retry
//!    |                                         | refused, too late  |   finished, or no other is wanted  |
//!    +--------------------- Retry -------------+                    +------------------> Done            |
//!    +---------------------------------------------------------------------------------------------------+
//! ```
//!
//! Timers of a lane are armed again by whoever changes what they wait for; a stale one is ignored.

use super::connection::{Came, Connection};
use super::context::Context;
use super::diagnosis::canary::{Death, explained};
use super::io::{LinkId, NetError, Output, Piece, Progress, Purpose};
use super::path::Path;
use super::policy::give_up;
use super::policy::reconnect::Attempts;
use super::protocol::Make;
use super::settings::Transport;
use super::timers::{Armed, Timer};
use super::words::{cause_of, connect_advice};
use crate::cause::ClosingCause;
use crate::event::{EventKind, TcpInfo};
use crate::gaps::GapPlan;
use crate::interleave::Interleave;
use crate::sample::Flags;
use crate::schedule::{Pace, Schedule};
use crate::stall::Change;
use crate::verdict::Outcome;
use fathom_wire::Key;
use std::io::ErrorKind;
use std::net::SocketAddr;

/// An attempt to connect is given up after the timeout, but not before this: two retransmitted SYNs (1 s and 3 s).
const CONNECT_LIMIT_NS: u64 = 5_000_000_000;
/// While a connection stalls, the kernel's view of it is taken this often: after an error it reads zero.
const STALL_LOOK_NS: u64 = 250_000_000;
/// A silence is doubted after this long: a lost segment alone is repaired sooner.
const DOUBT_AFTER_NS: u64 = 1_000_000_000;
/// A ping-pong over datagrams waits for an echo as long as for a stall (four times the usual tail), but not the 200 ms
/// that a stall lasts at the least: those are a kernel's retransmissions, and nobody sends a datagram again.
const ECHO_LOST_LEAST_NS: u64 = 20_000_000;

/// What a lane has at the moment.
#[derive(Debug)]
enum Link {
    /// Nothing: it waits for an address, for its turn or for its next attempt.
    Idle,
    /// A connection that is being established.
    Opening { remote: SocketAddr, since_ns: u64 },
    /// A connection.
    Open(Box<Connection>),
    /// Nothing more to do.
    Done,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Lane {
    /// Among this worker's lanes; its link's number too.
    index: usize,
    path: usize,
    /// Its number in the recording of its path.
    number: u32,
    link: Link,
    schedule: Option<Schedule>,
    /// The sizes of a sweep in their order.
    sizes: Interleave,
    /// When it is silent for how long, where it is to be.
    gaps: Option<GapPlan>,
    attempts: Attempts,
    warm_up_left: u64,
    /// Samples that fell due by a schedule that was stopped.
    due_before: u64,
    armed: Armed,
    speak: Option<Make>,
}

impl Lane {
    /// The `i`-th lane of the run; each path has every so many-th.
    pub(super) fn new(index: usize, i: usize, speak: Option<Make>, cx: &Context) -> Self {
        let (settings, paths) = (&cx.settings, cx.settings.targets.len());
        let seed = u64::from(settings.session) << 32 | i as u64;
        let gaps_ns = &settings.idle_gaps_ns;
        Self {
            index,
            path: i % paths,
            number: (i / paths) as u32,
            link: Link::Idle,
            schedule: None,
            sizes: Interleave::new(&settings.sizes, seed),
            gaps: (!gaps_ns.is_empty()).then(|| GapPlan::new(gaps_ns, seed)),
            attempts: Attempts::new(seed, settings.reconnect_at_most_ns),
            warm_up_left: settings.warm_up,
            due_before: 0,
            armed: Armed::default(),
            speak,
        }
    }

    pub(super) fn path(&self) -> usize {
        self.path
    }

    /// Samples that have fallen due so far.
    pub(super) fn due(&self) -> u64 {
        self.due_before + self.schedule.as_ref().map_or(0, Schedule::due)
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.link, Link::Done)
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.link, Link::Open(_))
    }

    pub(super) fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.link {
            Link::Open(connection) => Some(connection),
            _ => None,
        }
    }

    /// Whether nothing but an echo can come of it: it is not being connected, blocked or silent.
    pub(super) fn only_awaits_echoes(&self) -> bool {
        match &self.link {
            Link::Open(connection) => !connection.is_blocked() && connection.silence.stall().is_none(),
            Link::Opening { .. } => false,
            Link::Idle | Link::Done => true,
        }
    }

    fn id(&self) -> LinkId {
        LinkId(self.index)
    }

    /// Whether the schedule has begun and has nothing more to send.
    fn is_over(&self) -> bool {
        self.schedule.as_ref().is_some_and(Schedule::is_over)
    }

    fn arm(&mut self, timer: Timer, at_ns: u64, cx: &mut Context) {
        self.armed.arm(&mut cx.timers, self.index, timer, at_ns);
    }

    /// One of its timers fires.
    pub(super) fn timer(&mut self, timer: Timer, at_ns: u64, now: u64, path: &mut Path, cx: &mut Context) {
        if !self.armed.fires(timer, at_ns) {
            return;
        }
        match timer {
            Timer::Due => self.pump(now, cx),
            Timer::Watch => self.watch(now, path, cx),
            Timer::Retry => self.open(now, path, cx),
            Timer::ConnectLimit => self.connect_late(now, path, cx),
            Timer::Drain => self.finish(cx),
            _ => self.echo_lost(now, path, cx),
        }
    }

    /// Begins to connect: to an address if one is known, after its name is resolved otherwise, and when its turn comes.
    pub(super) fn open(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        if cx.stopping || path.is_given_up() {
            self.link = Link::Done;
        } else if matches!(self.link, Link::Idle)
            && cx.openings.admit(self.index)
            && path.has_addresses_for(self.index, now, cx)
        {
            self.connect(now, path, cx);
        }
    }

    fn connect(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        let Some(remote) = path.addresses.current() else { return };
        let (attempt, lane) = (self.attempts.begin(), Some(self.number));
        let (target, text) = (path.target().to_owned(), remote.to_string());
        let kind = EventKind::ConnectionOpening { target, remote: text, attempt, lane };
        cx.event(now, Some(self.path), None, kind);
        self.link = Link::Opening { remote, since_ns: now };
        cx.openings.began();
        let (link, path, purpose) = (self.id(), self.path, Purpose::Samples);
        cx.emit(Output::Connect { link, path, remote, purpose });
    }

    /// The driver has begun to connect.
    pub(super) fn connecting(&mut self, began_ns: u64, cx: &mut Context) {
        if let Link::Opening { since_ns, .. } = &mut self.link {
            *since_ns = began_ns;
            let limit = cx.settings.timeout_ns.max(CONNECT_LIMIT_NS);
            self.arm(Timer::ConnectLimit, began_ns + limit, cx);
        }
    }

    /// Connecting takes too long.
    fn connect_late(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        if matches!(self.link, Link::Opening { .. }) {
            self.connect_failed(now, &NetError::of_kind(ErrorKind::TimedOut), path, cx);
        }
    }

    /// An attempt to connect came to nothing.
    pub(super) fn connect_failed(&mut self, now: u64, error: &NetError, path: &mut Path, cx: &mut Context) {
        let Link::Opening { remote, .. } = self.link else { return };
        cx.openings.ended();
        cx.emit(Output::Close { link: self.id() });
        let advice = connect_advice(path.target(), Some(remote), error);
        let untried = path.addresses.failed(remote);
        self.attempt_failed(now, Some(remote), error.errno, advice, untried, path, cx);
    }

    /// The name did not resolve.
    pub(super) fn not_resolved(&mut self, now: u64, error: String, path: &mut Path, cx: &mut Context) {
        self.attempt_failed(now, None, None, error, false, path, cx);
    }

    /// The next address at once, another attempt later, or the end of the path.
    #[expect(clippy::too_many_arguments, reason = "two callers, and each argument is of another kind")]
    fn attempt_failed(
        &mut self,
        now: u64,
        remote: Option<SocketAddr>,
        errno: Option<i32>,
        error: String,
        untried: bool,
        path: &mut Path,
        cx: &mut Context,
    ) {
        self.armed.disarm(Timer::ConnectLimit);
        let give_up = !path.ever_opened() && !untried && !cx.settings.keep_trying;
        let retry_in_ns = match (give_up, untried) {
            (true, _) => None,
            (_, true) => Some(0),
            _ => Some(self.attempts.wait_ns()),
        };
        let (target, remote, lane) =
            (path.target().to_owned(), remote.map(|r| r.to_string()), Some(self.number));
        let kind =
            EventKind::ConnectionRefused { target, remote, errno, error: error.clone(), retry_in_ns, lane };
        cx.event(now, Some(self.path), None, kind);
        if let Some(wait) = retry_in_ns {
            self.link = Link::Idle;
            self.arm(Timer::Retry, now + wait, cx);
        } else {
            self.link = Link::Done;
            path.give_up_because(error, cx);
        }
    }

    /// The connection is established, and joins the schedule where that has begun.
    pub(super) fn connected(
        &mut self,
        now: u64,
        local: String,
        kernel: Option<TcpInfo>,
        path: &mut Path,
        cx: &mut Context,
    ) {
        let Link::Opening { remote, since_ns } = self.link else { return };
        cx.openings.ended();
        self.armed.disarm(Timer::ConnectLimit);
        self.attempts.succeeded();
        let ordinal = cx.worker.next_connection(self.path);
        let key = Key { session: cx.settings.session_of(self.path), connection: ordinal };
        let mut connection = Connection::new(key, remote, now, self.speak, cx);
        connection.saw(kernel);
        self.link = Link::Open(Box::new(connection));
        let before = path.connected(remote);
        let connect_ns = if cx.settings.transport == Transport::Udp { 0 } else { now - since_ns };
        let kind = EventKind::ConnectionOpened {
            target: path.target().to_owned(),
            local,
            remote: remote.to_string(),
            connect_ns: connect_ns as i64,
            tls_ns: None,
            // The recording thread finds out by which interface: asking takes system calls.
            interface: None,
            lane: Some(self.number),
        };
        cx.event(now, Some(self.path), Some(ordinal), kind);
        if let Some(before) = before {
            let (what, from, to) = ("remote".to_owned(), before.ip().to_string(), remote.ip().to_string());
            cx.event(now, Some(self.path), Some(ordinal), EventKind::AddressChanged { what, from, to });
        }
        if path.origin_ns().is_some() {
            self.join_schedule(now, cx);
        }
        path.canaries.connected_again(now, remote, cx);
    }

    fn join_schedule(&mut self, now: u64, cx: &mut Context) {
        if let Some(gaps) = &mut self.gaps {
            gaps.opened();
        }
        if let Some(skipped) = self.schedule.as_mut().and_then(|s| s.skip_unconnected(now)) {
            let connection = self.connection().map(|connection| connection.ordinal());
            cx.skipped(now, self.path, connection, skipped, "unconnected");
        }
        self.pump(now, cx);
    }

    /// Its schedule begins.
    pub(super) fn begin(&mut self, schedule: Schedule, now: u64, cx: &mut Context) {
        self.schedule = Some(schedule);
        self.pump(now, cx);
    }

    /// Has what is due sent, as far as the connection takes it, and arms the timer for what follows.
    pub(super) fn pump(&mut self, now: u64, cx: &mut Context) {
        let id = self.id();
        loop {
            let (Link::Open(connection), Some(schedule)) = (&mut self.link, &mut self.schedule) else {
                return;
            };
            if connection.is_taken() {
                return;
            }
            if !connection.has_begun() {
                if let Some(skipped) = schedule.skip_overdue(now) {
                    let ordinal = connection.ordinal();
                    cx.skipped(now, self.path, Some(ordinal), skipped, "late");
                    continue;
                }
                if schedule.next_due_ns().is_none_or(|due| due > now) {
                    break;
                }
                if let Some(size) = self.sizes.current() {
                    connection.stream.set_size(size);
                }
            }
            connection.asked_to_send();
            cx.emit(Output::Send { link: id });
            return;
        }
        self.arm_next(now, cx);
    }

    fn arm_next(&mut self, now: u64, cx: &mut Context) {
        if let Some(due) = self.schedule.as_ref().and_then(Schedule::next_due_ns) {
            self.arm(Timer::Due, due, cx);
        } else if self.is_over() {
            // The last has been sent: the lane ends when all has come back, or after the timeout.
            match self.connection() {
                Some(connection) if !connection.stream.is_idle() => {
                    if self.armed.at(Timer::Drain).is_none() {
                        self.arm(Timer::Drain, now + cx.settings.timeout_ns, cx);
                    }
                }
                _ => self.finish(cx),
            }
        }
    }

    /// The bytes to be sent now.
    pub(super) fn write(&self, out: &mut [u8]) -> Option<Piece> {
        let Link::Open(connection) = &self.link else { return None };
        if !connection.is_sending() {
            return None;
        }
        let (seq, offset) = (connection.sending_seq(), connection.offset());
        let size = connection.stream.request_len();
        let len = out.len().min(size.checked_sub(offset)?);
        connection.stream.fill(seq, offset, &mut out[..len]);
        Some(Piece { seq, offset, len, size })
    }

    /// The driver has sent, as far as the kernel took it.
    pub(super) fn sent(
        &mut self,
        sent_ns: u64,
        sent_utc_ns: Option<i64>,
        progress: Progress,
        path: &Path,
        cx: &mut Context,
    ) {
        let (Link::Open(connection), Some(schedule)) = (&mut self.link, &mut self.schedule) else { return };
        if !connection.sent(progress) {
            // The rest of a message, or nothing.
            return self.pump(sent_ns, cx);
        }
        // It was due when it was asked for, and no time has passed backwards since.
        let Some(due_ns) = schedule.take(sent_ns) else {
            debug_assert!(false, "a message that was not due: `stop` withdraws what was asked for");
            return;
        };
        self.sizes.advance();
        // What follows a handshake follows no silence of the plan.
        let warm_up = self.warm_up_left > 0 || self.gaps.as_ref().is_some_and(GapPlan::is_opening);
        self.warm_up_left = self.warm_up_left.saturating_sub(1);
        let flags = if warm_up { Flags::WARM_UP } else { Flags::default() };
        connection.stream.sent(due_ns, sent_ns, flags | cx.load_flags);
        if let Some(utc_ns) = sent_utc_ns {
            connection.stream.sent_at_utc(utc_ns);
        }
        let threshold_ns = path.stall_threshold_ns(cx);
        if self.armed.at(Timer::Watch).is_none() {
            self.arm(Timer::Watch, sent_ns + threshold_ns, cx);
        }
        if cx.settings.pace == Pace::PingPong && cx.settings.transport == Transport::Udp {
            let usual = path.usual.p99_ns().map_or(threshold_ns, |p99| crate::stall::TIMES_P99 * p99);
            let most = ECHO_LOST_LEAST_NS.max(cx.settings.timeout_ns);
            self.arm(Timer::EchoLost, sent_ns + usual.clamp(ECHO_LOST_LEAST_NS, most), cx);
        }
        self.pump(sent_ns, cx);
    }

    /// Bytes are about to be handed over: where they can only be the end of the one echo that is owed, the next sample
    /// of a ping-pong goes out before they are looked at. What is done with an echo (it is compared, counted and handed
    /// on) then falls into the time of the next round trip, and not between two of them. If they are not what was sent,
    /// one sample more is under way.
    pub(super) fn arriving(&mut self, now: u64, bytes: usize, cx: &mut Context) {
        let settings = &cx.settings;
        let plain = settings.pace == Pace::PingPong
            && settings.transport == Transport::Tcp
            && settings.sizes.is_empty()
            && self.gaps.is_none()
            && !cx.stopping;
        let (Link::Open(connection), Some(schedule)) = (&self.link, &mut self.schedule) else { return };
        if plain && connection.silence.stall().is_none() && connection.stream.owes_just(bytes) {
            schedule.resolved(now);
            self.pump(now, cx);
        }
    }

    /// Bytes came.
    pub(super) fn received(
        &mut self,
        now: u64,
        bytes: &[u8],
        stamps: Option<(i64, i64)>,
        kernel: Option<TcpInfo>,
        path: &mut Path,
        cx: &mut Context,
    ) {
        let Link::Open(connection) = &mut self.link else { return };
        match connection.received(now, bytes, stamps, kernel, path, cx) {
            Came::Part => {}
            Came::NoEcho => self.not_an_echo(now, path, cx),
            Came::Echoes { awaited, delays_ns } => {
                self.silence_over(now, delays_ns, path, cx);
                self.after_echo(now, awaited, cx);
            }
        }
    }

    fn after_echo(&mut self, now: u64, awaited: bool, cx: &mut Context) {
        let Link::Open(connection) = &mut self.link else { return };
        let idle = connection.stream.is_idle();
        if cx.settings.pace == Pace::PingPong && awaited && !cx.stopping && !connection.is_taken() {
            self.armed.disarm(Timer::EchoLost);
            self.next_of_ping_pong(now, cx);
        } else if self.is_over() && idle {
            self.finish(cx);
        } else if self.armed.at(Timer::Due).is_none() && cx.settings.pace != Pace::PingPong {
            // Room again after a full connection.
            self.pump(now, cx);
        }
    }

    fn next_of_ping_pong(&mut self, now: u64, cx: &mut Context) {
        let silence_ns = self.gaps.as_mut().map_or(0, GapPlan::after_echo);
        if let Some(schedule) = &mut self.schedule {
            schedule.resolved(now + silence_ns);
        }
        self.pump(now, cx);
    }

    /// A ping-pong over datagrams waits no longer for the echo of the last one; should it come, it is matched.
    fn echo_lost(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        if cx.settings.pace != Pace::PingPong || cx.stopping {
            return;
        }
        self.watch(now, path, cx);
        if self.is_open() {
            self.next_of_ping_pong(now, cx);
        }
    }

    /// Once a second: datagrams that will not come back, and dues that a full connection keeps from being sent.
    pub(super) fn tick(&mut self, now: u64, cx: &mut Context) {
        let path = self.path;
        let Link::Open(connection) = &mut self.link else { return };
        let ordinal = connection.ordinal();
        if cx.settings.transport == Transport::Udp {
            let before = connection.stream.is_idle();
            let clock = cx.clock.clone();
            connection.stream.expire(now, &clock, |sample| cx.sample(path, sample));
            let emptied = !before && connection.stream.is_idle();
            if let Some(losses) = connection.take_losses(now, false) {
                cx.event(now, Some(path), Some(ordinal), losses);
            }
            if emptied {
                return self.after_echo(now, false, cx);
            }
        }
        if connection.is_blocked()
            && let Some(skipped) = self.schedule.as_mut().and_then(|s| s.skip_overdue(now))
        {
            cx.skipped(now, path, Some(ordinal), skipped, "blocked");
        }
    }

    /// The connection takes data again.
    pub(super) fn writable(&mut self, now: u64, cx: &mut Context) {
        if let Some(connection) = self.connection() {
            connection.writable();
            self.pump(now, cx);
        }
    }

    /// Looks whether the connection is silent for too long. Beyond the threshold the kernel is asked first.
    fn watch(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        let id = self.id();
        let transport = cx.settings.transport;
        let Some(connection) = self.connection() else { return };
        let Some((_, from_ns)) = connection.silent_since(transport) else { return };
        if now.saturating_sub(from_ns) >= path.stall_threshold_ns(cx) {
            cx.look(id);
        } else {
            self.judge_silence(now, false, path, cx);
        }
    }

    /// The kernel was asked about the connection.
    pub(super) fn kernel(&mut self, now: u64, info: Option<TcpInfo>, path: &mut Path, cx: &mut Context) {
        let Some(connection) = self.connection() else { return };
        connection.saw(info);
        if connection.finishing {
            self.close(now, ClosingCause::Finished, None, None, path, cx);
        } else {
            self.judge_silence(now, true, path, cx);
        }
    }

    fn judge_silence(&mut self, now: u64, looked: bool, path: &mut Path, cx: &mut Context) {
        let transport = cx.settings.transport;
        let threshold_ns = path.stall_threshold_ns(cx);
        let Link::Open(connection) = &mut self.link else { return };
        let Some((_, sent_ns)) = connection.missing(transport) else { return };
        let missing = connection.silent_since(transport);
        let Some((_, from_ns)) = missing else { return };
        let give_up_at = give_up::at_ns(cx.settings.give_up_ns, sent_ns);
        if give_up_at.is_some_and(|at| now >= at) {
            let error = give_up::words(now.saturating_sub(sent_ns));
            return self.close(now, ClosingCause::Abandoned, None, Some(error), path, cx);
        }
        if looked {
            connection.saw_in_silence();
        }
        let retransmits = connection.retransmits();
        let change = connection.silence.look(now, threshold_ns, missing, retransmits);
        let ordinal = connection.ordinal();
        let next = match change {
            Change::LookAt(at) => at,
            _ => now + STALL_LOOK_NS,
        };
        if let Change::Began(stall) = change {
            let outstanding = connection.stream.outstanding() as u64;
            let kind = EventKind::StallBegan { seq: stall.seq, outstanding, threshold_ns };
            cx.event(now, Some(self.path), Some(ordinal), kind);
        }
        if now.saturating_sub(from_ns) >= threshold_ns.max(DOUBT_AFTER_NS) {
            let (first, remote) = (connection.silence.asks(), connection.remote());
            path.canaries.doubt(now, ordinal, from_ns, first, remote, cx);
        }
        let next = give_up_at.map_or(next, |at| next.min(at));
        self.arm(Timer::Watch, next, cx);
    }

    /// An echo came: the stall, if there was one, is over.
    fn silence_over(&mut self, now: u64, delays_ns: Option<(i64, i64)>, path: &mut Path, cx: &mut Context) {
        let Link::Open(connection) = &mut self.link else { return };
        if let Some(stall) = connection.silence.stall() {
            let ordinal = connection.ordinal();
            let from_ns = stall.sent_mono_ns;
            let facts = connection.facts(now, Outcome::Recovered, from_ns, delays_ns, path, cx);
            self.stall_ended(now, true, path, cx);
            explained(now, self.path, ordinal, "stall", &facts, cx);
        }
        if let Link::Open(connection) = &mut self.link {
            connection.silence.over();
        }
    }

    fn stall_ended(&mut self, now: u64, recovered: bool, path: &mut Path, cx: &mut Context) {
        let Link::Open(connection) = &mut self.link else { return };
        let Some(stall) = connection.silence.stall_ended() else { return };
        let retransmits = connection.retransmits_since(stall.retransmits_before);
        let duration_ns = now.saturating_sub(stall.sent_mono_ns);
        let samples = connection.stream.next_seq() - stall.seq;
        path.usual.stall_ended(stall.sent_mono_ns, now);
        let kind = EventKind::StallEnded { duration_ns, samples, recovered, retransmits };
        cx.event(now, Some(self.path), Some(connection.ordinal()), kind);
    }

    /// What came back is not what was sent.
    fn not_an_echo(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        let error = path.not_an_echo();
        if !path.ever_answered() && !cx.settings.keep_trying {
            path.give_up_because(error.clone(), cx);
        }
        self.close(now, ClosingCause::LocalError, None, Some(error), path, cx);
    }

    pub(super) fn closed_by_peer(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        self.close(now, ClosingCause::PeerClosed, None, None, path, cx);
    }

    pub(super) fn broken(&mut self, now: u64, error: NetError, path: &mut Path, cx: &mut Context) {
        if matches!(self.link, Link::Opening { .. }) {
            return self.connect_failed(now, &error, path, cx);
        }
        self.close(now, cause_of(error.kind), error.errno, Some(error.text), path, cx);
    }

    /// The connection is over; every sample still out on it is unanswered.
    fn close(
        &mut self,
        now: u64,
        cause: ClosingCause,
        errno: Option<i32>,
        error: Option<String>,
        path: &mut Path,
        cx: &mut Context,
    ) {
        let Link::Open(connection) = &self.link else { return };
        let remote = connection.remote();
        let from_ns = connection.silent_since(cx.settings.transport).map_or(now, |(_, from)| from);
        let facts = connection.facts(now, Outcome::Closed(cause), from_ns, None, path, cx);
        self.stall_ended(now, false, path, cx);
        let Link::Open(connection) = std::mem::replace(&mut self.link, Link::Idle) else { return };
        let (ordinal, view) = (connection.ordinal(), connection.local_view(&cx.clock));
        connection.close(now, self.path, cause, errno, error, cx);
        cx.emit(Output::Close { link: self.id() });
        path.disconnected();
        if cause.is_loss() {
            let death = Death { connection: ordinal, facts, view, died_ns: now, replied: false };
            path.canaries.explain_death(now, death, remote, cx);
        }
        self.armed = Armed::default();
        if !cause.is_loss() || cx.stopping || self.is_over() || path.is_given_up() {
            self.link = Link::Done;
        } else if cx.settings.reconnect {
            let wait = self.attempts.wait_ns();
            self.arm(Timer::Retry, now + wait, cx);
        } else {
            self.link = Link::Done;
            cx.end.lost = true;
        }
    }

    /// Ends the lane in order, once the kernel has been asked about its connection for the last time.
    pub(super) fn finish(&mut self, cx: &mut Context) {
        let id = self.id();
        match &mut self.link {
            Link::Open(connection) => {
                if !std::mem::replace(&mut connection.finishing, true) {
                    cx.look(id);
                }
            }
            Link::Opening { .. } => {
                cx.openings.ended();
                cx.emit(Output::Close { link: id });
                self.link = Link::Done;
            }
            Link::Idle | Link::Done => self.link = Link::Done,
        }
    }

    /// What was due and could not be sent is told as not sent when nothing more is going to be.
    fn give_up_dues(&mut self, now: u64, cx: &mut Context) {
        let (connection, reason) = match &self.link {
            Link::Open(connection) if connection.is_blocked() => (Some(connection.ordinal()), "blocked"),
            Link::Open(connection) => (Some(connection.ordinal()), "late"),
            _ => (None, "unconnected"),
        };
        if let Some(skipped) = self.schedule.as_mut().and_then(|s| s.skip_unconnected(now)) {
            cx.skipped(now, self.path, connection, skipped, reason);
        }
    }

    /// No more samples: it ends when its echoes have come, or after `linger_ns`.
    pub(super) fn stop(&mut self, now: u64, linger_ns: u64, cx: &mut Context) {
        if let Some(connection) = self.connection() {
            connection.withdraw();
        }
        self.give_up_dues(now, cx);
        self.due_before += self.schedule.as_ref().map_or(0, Schedule::due);
        self.schedule = Some(Schedule::new(cx.settings.pace, now, Some(0), None));
        match self.connection() {
            Some(connection) if !connection.stream.is_idle() && linger_ns > 0 => {
                self.armed.disarm(Timer::Drain);
                self.arm(Timer::Drain, now + linger_ns, cx);
            }
            _ => self.finish(cx),
        }
    }
}
