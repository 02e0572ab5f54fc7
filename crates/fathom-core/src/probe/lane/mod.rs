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
//! Its parts: `opening` makes connections, `agenda` says what is sent and when, `watch` looks after a silence, `ending`
//! ends connections and the lane.
//!
//! Timers of a lane are armed again by whoever changes what they wait for; a stale one is ignored.

mod agenda;
mod ending;
mod opening;
mod watch;

use super::connection::{Came, Connection};
use super::context::Context;
use super::io::{LinkId, NetError, Output, Piece, Progress};
use super::path::{Path, without_connection};
use super::policy::reconnect::{Attempts, PAUSED_NS, READ_WITHIN_NS, limit_ns};
use super::settings::Transport;
use super::timers::{Armed, Timer};
use super::unsent::Unsent;
use crate::event::TcpInfo;
use crate::schedule::{Pace, Schedule};
use agenda::Agenda;
use opening::{Next, Opening};
use std::io::ErrorKind;

/// A ping-pong over datagrams waits for an echo as long as for a stall (four times the usual tail), but not the 200 ms
/// that a stall lasts at the least: those are a kernel's retransmissions, and nobody sends a datagram again.
const ECHO_LOST_LEAST_NS: u64 = 20_000_000;

/// What a lane has at the moment.
#[derive(Debug)]
enum Link {
    /// Nothing: it waits for an address, for its turn or for its next attempt.
    Idle,
    /// A connection that is being established.
    Opening,
    /// A connection.
    Open(Box<Connection>),
    /// Nothing more to do.
    Done,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Lane {
    /// Among this worker's lanes; the place of its links too.
    index: usize,
    path: usize,
    link: Link,
    opening: Opening,
    agenda: Agenda,
    /// What falls due while there is no connection, and the last that there was.
    unsent: Unsent,
    last: Option<u32>,
    /// Set if attempts to connect have failed since then: true if the latest failed in this host.
    failed_here: Option<bool>,
    armed: Armed,
    /// The kernel was asked about its connection and has not answered.
    asking: bool,
}

impl Lane {
    /// The `i`-th lane of the run; each path has every so many-th.
    pub(super) fn new(index: usize, i: usize, cx: &Context) -> Self {
        let (settings, paths) = (&cx.settings, cx.settings.targets.len());
        let seed = u64::from(settings.session) << 32 | i as u64;
        let (path, number) = (i % paths, (i / paths) as u32);
        let attempts = Attempts::new(seed, settings.reconnect_at_most_ns);
        Self {
            index,
            path,
            link: Link::Idle,
            opening: Opening::new(LinkId::none_yet(index), path, number, attempts),
            agenda: Agenda::new(settings, seed),
            unsent: Unsent::default(),
            last: None,
            failed_here: None,
            armed: Armed::default(),
            asking: false,
        }
    }

    pub(super) fn path(&self) -> usize {
        self.path
    }

    /// The link of its connection, or of the attempt at one; where there is neither, of the latest.
    pub(super) fn link(&self) -> LinkId {
        self.opening.link()
    }

    /// Samples that have fallen due so far.
    pub(super) fn due(&self) -> u64 {
        self.agenda.due()
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
            Link::Opening => false,
            Link::Idle | Link::Done => true,
        }
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
            // This host did not run: read first what arrived meanwhile.
            Timer::ConnectLimit if now.saturating_sub(at_ns) >= PAUSED_NS => {
                self.arm(Timer::ConnectLimit, now + READ_WITHIN_NS, cx);
            }
            Timer::ConnectLimit => self.connect_late(now, path, cx),
            Timer::Drain => self.finish(cx),
            Timer::Explain => self.explain(now, path, cx),
            Timer::EchoLost => self.echo_lost(now, path, cx),
            _ => debug_assert!(false, "{timer:?} is no lane's"),
        }
    }

    /// Begins to connect: to an address if one is known, after its name is resolved otherwise, and when its turn comes.
    pub(super) fn open(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        if cx.stopping || path.is_given_up() {
            self.link = Link::Done;
        } else if matches!(self.link, Link::Idle)
            && cx.openings.admit(self.index, now)
            && path.has_addresses_for(self.index, now, cx)
            && self.opening.begin(now, path, cx)
        {
            self.link = Link::Opening;
        }
    }

    /// The driver has begun to connect.
    pub(super) fn connecting(&mut self, began_ns: u64, cx: &mut Context) {
        if self.opening.began(began_ns) {
            self.arm(Timer::ConnectLimit, began_ns + limit_ns(cx.settings.timeout_ns), cx);
        }
    }

    /// Connecting takes too long.
    fn connect_late(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        self.connect_failed(now, &NetError::of_kind(ErrorKind::TimedOut), path, cx);
    }

    /// An attempt to connect came to nothing.
    pub(super) fn connect_failed(&mut self, now: u64, error: &NetError, path: &mut Path, cx: &mut Context) {
        if let Some(next) = self.opening.failed(now, error, path, cx) {
            self.failed_in(error.is_local(), now, cx);
            self.not_open(now, next, cx);
        }
    }

    /// Notes a failed attempt, in this host or elsewhere. Samples that fell due before the side changed keep their
    /// reason.
    fn failed_in(&mut self, this_host: bool, now: u64, cx: &mut Context) {
        if self.failed_here.is_some_and(|before| before != this_host) {
            let reason = without_connection(!this_host);
            cx.skipped(now, self.path, self.last, self.agenda.give_up_dues(now), reason);
        }
        self.failed_here = Some(this_host);
    }

    /// The reason why samples that fall due without a connection are not sent.
    fn without_connection(&self) -> &'static str {
        without_connection(self.failed_here == Some(true))
    }

    /// The name did not resolve.
    pub(super) fn not_resolved(&mut self, now: u64, error: String, path: &mut Path, cx: &mut Context) {
        // Not where the run has ended meanwhile: what has come to its end stays there.
        if matches!(self.link, Link::Idle) {
            let next = self.opening.not_resolved(now, error, path, cx);
            self.failed_in(false, now, cx);
            self.not_open(now, next, cx);
        }
    }

    fn not_open(&mut self, now: u64, next: Next, cx: &mut Context) {
        self.armed.disarm(Timer::ConnectLimit);
        match next {
            Next::RetryIn(wait) => {
                self.link = Link::Idle;
                self.arm(Timer::Retry, now + wait, cx);
            }
            Next::GiveUp => self.link = Link::Done,
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
        let Some(connection) = self.opening.succeeded(now, local, kernel, path, cx) else { return };
        let (remote, ordinal) = (connection.remote(), connection.ordinal());
        self.armed.disarm(Timer::ConnectLimit);
        self.link = Link::Open(Box::new(connection));
        self.last = Some(ordinal);
        self.unsent.connected();
        if path.origin_ns().is_some() {
            let reason = self.without_connection();
            cx.skipped(now, self.path, Some(ordinal), self.agenda.opened(now), reason);
            self.pump(now, cx);
        }
        self.failed_here = None;
        path.canaries.connected_again(now, remote, cx);
    }

    /// Its schedule begins.
    pub(super) fn begin(&mut self, schedule: Schedule, now: u64, cx: &mut Context) {
        self.agenda.begin(schedule);
        self.pump(now, cx);
    }

    /// Has what is due sent, as far as the connection takes it, and arms the timer for what follows.
    pub(super) fn pump(&mut self, now: u64, cx: &mut Context) {
        loop {
            let Link::Open(connection) = &mut self.link else { return };
            if !self.agenda.has_begun() {
                return;
            }
            if connection.is_taken() {
                // What was begun last may never be taken whole.
                if self.agenda.is_over() {
                    self.arm_drain(now, cx);
                }
                return;
            }
            if !connection.has_begun() {
                let (ordinal, overdue) = (connection.ordinal(), self.agenda.skip_overdue(now));
                if cx.skipped(now, self.path, Some(ordinal), overdue, "late") {
                    continue;
                }
                if self.agenda.next_due_ns().is_none_or(|due| due > now) {
                    break;
                }
                if let Some(size) = self.agenda.size() {
                    connection.stream.set_size(size);
                }
            }
            connection.asked_to_send();
            cx.emit(Output::Send { link: self.link() });
            return;
        }
        self.arm_next(now, cx);
    }

    fn arm_next(&mut self, now: u64, cx: &mut Context) {
        if let Some(due) = self.agenda.next_due_ns() {
            self.arm(Timer::Due, due, cx);
        } else if self.agenda.is_over() {
            // The last has been sent: the lane ends when all has come back, or after the timeout.
            match self.connection() {
                Some(connection) if !connection.stream.is_idle() => self.arm_drain(now, cx),
                _ => self.finish(cx),
            }
        }
    }

    fn arm_drain(&mut self, now: u64, cx: &mut Context) {
        if self.armed.at(Timer::Drain).is_none() {
            self.arm(Timer::Drain, now + cx.settings.timeout_ns, cx);
        }
    }

    /// The bytes to be sent now.
    pub(super) fn write(&self, out: &mut [u8]) -> Option<Piece> {
        if let Link::Open(connection) = &self.link { connection.write(out) } else { None }
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
        let Link::Open(connection) = &mut self.link else { return };
        if !self.agenda.has_begun() {
            return;
        }
        if !connection.sent(progress) {
            // The rest of a message, or nothing.
            return self.pump(sent_ns, cx);
        }
        // It was due when it was asked for, and no time has passed backwards since.
        let Some((due_ns, flags)) = self.agenda.take(sent_ns) else {
            debug_assert!(false, "a message that was not due: `stop` withdraws what was asked for");
            return;
        };
        connection.stream.sent(due_ns, sent_ns, flags | cx.load_flags);
        if let Some(utc_ns) = sent_utc_ns {
            connection.stream.sent_at_utc(utc_ns);
        }
        if cx.settings.transport == Transport::Udp && connection.stream.is_full() {
            // One that is lost holds up no other.
            connection.expire(sent_ns, self.path, cx);
        }
        let threshold_ns = path.stall_threshold_ns(cx);
        let asks_after_ns = connection.asks_after_ns(threshold_ns);
        if self.armed.at(Timer::Watch).is_none() {
            self.arm(Timer::Watch, sent_ns + asks_after_ns, cx);
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
            && self.agenda.is_uniform()
            && !cx.stopping;
        let Link::Open(connection) = &self.link else { return };
        if plain
            && self.agenda.has_begun()
            && connection.silence.stall().is_none()
            && connection.stream.owes_just(bytes)
        {
            self.agenda.echo_arrives(now);
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
            Came::Echoes { awaited } => {
                self.opening.answered();
                if watch::silence_over(connection, now, path, cx) {
                    if let Some(at) = connection.explained_by() {
                        self.arm(Timer::Explain, at, cx);
                    }
                    self.watch_anew(now, path, cx);
                }
                self.after_echo(now, awaited, cx);
            }
        }
    }

    fn after_echo(&mut self, now: u64, awaited: bool, cx: &mut Context) {
        let Link::Open(connection) = &mut self.link else { return };
        let idle = connection.stream.is_idle();
        // What comes after it was given up as lost is awaited by no schedule: the next sample has its time.
        let awaited = awaited && self.agenda.next_due_ns().is_none();
        if cx.settings.pace == Pace::PingPong && awaited && !cx.stopping && !connection.is_taken() {
            self.armed.disarm(Timer::EchoLost);
            self.agenda.echo_is_over(now);
            self.pump(now, cx);
        } else if self.agenda.is_over() && idle {
            self.finish(cx);
        } else if self.armed.at(Timer::Due).is_none() && cx.settings.pace != Pace::PingPong {
            // Room again after a full connection.
            self.pump(now, cx);
        }
    }

    /// A ping-pong over datagrams waits no longer for the echo of the last one; should it come, it is matched.
    fn echo_lost(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        if cx.settings.pace != Pace::PingPong || cx.stopping {
            return;
        }
        self.watch(now, path, cx);
        if self.is_open() {
            self.agenda.echo_is_over(now);
            self.pump(now, cx);
        }
    }

    /// Its connection and how many samples were sent on it, where one that was sent before this moment has no echo.
    pub(super) fn owes_since(&self, sent_before: u64, transport: Transport) -> Option<(u32, u64)> {
        let Link::Open(connection) = &self.link else { return None };
        if !self.may_owe(transport) {
            debug_assert!(connection.stream.is_idle(), "what is out over TCP is watched");
            return None;
        }
        let (_, sent_ns) = connection.stream.oldest()?;
        (sent_ns < sent_before).then(|| (connection.ordinal(), connection.stream.next_seq()))
    }

    /// Whether anything may be out: over TCP each sample is watched until its echo has come, or the kernel is asked about it.
    /// For most of ten thousand quiet connections this tells without a look at them.
    fn may_owe(&self, transport: Transport) -> bool {
        transport == Transport::Udp || self.asking || self.armed.at(Timer::Watch).is_some()
    }

    /// Once a second: datagrams that will not come back, dues that a full connection keeps from being sent, and those for which
    /// there is no connection.
    pub(super) fn tick(&mut self, now: u64, path: &Path, cx: &mut Context) {
        self.watch_sooner(now, path, cx);
        let Link::Open(connection) = &mut self.link else {
            // Before the first attempt it is unknown on which side the fault is.
            let knows = self.failed_here.is_some() || self.armed.at(Timer::Retry).is_none();
            if self.agenda.has_begun() && knows && self.unsent.is_to_be_told(now) {
                let reason = self.without_connection();
                cx.skipped(now, self.path, self.last, self.agenda.give_up_dues(now), reason);
            }
            return;
        };
        if cx.settings.transport == Transport::Udp && connection.expire(now, self.path, cx) {
            return self.after_echo(now, false, cx);
        }
        // What lies in the lane is asked first: the connections of ten thousand lanes do not lie in a cache.
        if self.agenda.next_due_ns().is_some_and(|due| due < now) && connection.is_blocked() {
            let (ordinal, overdue) = (connection.ordinal(), self.agenda.skip_overdue(now));
            cx.skipped(now, self.path, Some(ordinal), overdue, "blocked");
        }
    }

    /// The connection takes data again.
    pub(super) fn writable(&mut self, now: u64, cx: &mut Context) {
        if let Some(connection) = self.connection() {
            // A system may say so with whatever comes, though all was taken: then this process came too late.
            let was_blocked = connection.is_blocked();
            connection.writable();
            if was_blocked {
                // What fell due too long ago did so while nothing was taken.
                let (ordinal, overdue) = (connection.ordinal(), self.agenda.skip_overdue(now));
                cx.skipped(now, self.path, Some(ordinal), overdue, "blocked");
            }
            self.pump(now, cx);
        }
    }
}
