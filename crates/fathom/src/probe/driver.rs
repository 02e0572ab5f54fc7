//! The probing thread: sends what is due, stamps what comes back, keeps connections. It waits for nothing else: names
//! are resolved, samples written and views drawn by other threads.

use super::config::{Config, Transport};
use super::crew::{Member, RunEnd, Stop};
use super::lane::{Kind, Lane, Link, PathState};
use super::link::Socket;
use super::load::LoadTurns;
use super::outbox::{Message, Outbox};
use super::pauses::Pauses;
use super::resolve::{Answer, Resolver};
use super::wait::Looks;
use fathom_core::clock::{Anchor, ClockMap};
use fathom_core::event::{Event, EventKind};
use fathom_core::schedule::{Schedule, Skipped, phase_ns};
use fathom_core::stall;
use fathom_os::clock::{mono_ns, wall_clock_error_ns};
use fathom_os::reactor::{self, Reactor};
use fathom_os::timestamps;
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::mpsc::Receiver;

pub(super) const SECOND_NS: u64 = 1_000_000_000;
/// How long the schedule waits for the slowest connection before it starts.
const START_GRACE_NS: u64 = 3 * SECOND_NS;
/// How long the last echoes are waited for after Ctrl-C.
const STOP_LINGER_NS: u64 = SECOND_NS;
/// Timers handled before the sockets are looked at again, so that a burst of sends does not delay the stamp of an echo.
const TIMERS_A_TURN: usize = 16;

pub(super) struct Driver<'a> {
    pub(super) config: &'a Config,
    pub(super) member: Member,
    pub(super) reactor: Reactor,
    pub(super) resolver: Resolver,
    answers: Receiver<Answer>,
    pub(super) lanes: Vec<Lane>,
    pub(super) paths: Vec<PathState>,
    timers: BinaryHeap<Reverse<(u64, Kind, u32)>>,
    pub(super) clock: ClockMap,
    /// STAMP: how far this host's wall clock may be from UTC, ns; `None`: nobody knows.
    pub(super) clock_error_ns: Option<u64>,
    /// How a connection is stamped: an argument so that a test can be a kernel that does not.
    pub(super) stamp_with: fn(&Socket) -> io::Result<()>,
    /// That the kernel gives no stamps has been said.
    pub(super) stampless_told: bool,
    /// Keeps the kernel stamping between connections.
    _stamps_kept: Option<timestamps::Keeper>,
    pub(super) read_clocks: Box<dyn FnMut() -> Anchor + Send>,
    pub(super) outbox: Outbox,
    /// What was read.
    pub(super) scratch: Box<[u8]>,
    /// What is being sent.
    pub(super) pen: Box<[u8]>,
    pub(super) session: u32,
    /// When the schedule began.
    pub(super) origin_ns: Option<u64>,
    /// Whether the schedule waits no longer for lanes that are not connected.
    pub(super) grace_over: bool,
    pub(super) opening: usize,
    pub(super) to_open: VecDeque<usize>,
    pub(super) pauses: Option<Pauses>,
    pub(super) load: Option<LoadTurns>,
    pub(super) looks: Looks,
    stop: Stop,
    stops_seen: u32,
    pub(super) stopping: bool,
    pub(super) end: RunEnd,
}

impl<'a> Driver<'a> {
    /// `read_clocks` reads both clocks as one; it is an argument so that a test can set the wall clock.
    pub(super) fn new(
        config: &'a Config,
        member: Member,
        reactor: Reactor,
        outbox: Outbox,
        stop: Stop,
        session: u32,
        mut read_clocks: Box<dyn FnMut() -> Anchor + Send>,
    ) -> Self {
        let (resolver, answers) = Resolver::new(config.family, reactor.waker());
        let lane = |i: usize| {
            let seed = u64::from(session) << 32 | i as u64;
            Lane::new(i, seed, config)
        };
        let buffer_bytes = if config.largest_size() > 4_096 { 65_536 } else { 8_192 };
        Self {
            lanes: member.lanes(config.lanes()).map(lane).collect(),
            paths: config.paths.iter().map(|_| PathState::new()).collect(),
            timers: BinaryHeap::new(),
            clock: ClockMap::new(read_clocks()),
            clock_error_ns: config.stamp.and_then(|_| wall_clock_error_ns()),
            read_clocks,
            stamp_with: Socket::enable_stamps,
            stampless_told: false,
            // Without it the first samples of each connection lack their receive stamp; that is all.
            _stamps_kept: if config.stamped() { timestamps::keep_enabled().ok() } else { None },
            // As large as a small machine spares: larger messages go and come in pieces.
            scratch: vec![0; buffer_bytes].into(),
            pen: vec![0; buffer_bytes].into(),
            origin_ns: None,
            grace_over: false,
            opening: 0,
            to_open: VecDeque::new(),
            pauses: None,
            load: None,
            looks: Looks::default(),
            stops_seen: 0,
            stopping: false,
            end: RunEnd::default(),
            config,
            member,
            reactor,
            resolver,
            answers,
            outbox,
            stop,
            session,
        }
    }

    /// Runs to the end.
    pub(super) fn run(mut self) -> io::Result<RunEnd> {
        let now = mono_ns();
        self.timers.push(Reverse((now + SECOND_NS, Kind::Tick, 0)));
        self.timers.push(Reverse((now + START_GRACE_NS, Kind::Start, 0)));
        if let Some(period) = self.config.pause_clock {
            match Pauses::start(period, self.reactor.waker()) {
                Ok(pauses) => self.pauses = Some(pauses),
                Err(e) => self.note(now, format!("this host's pauses are not watched: {e}")),
            }
        }
        self.prepare_load();
        if self.config.keep_trying
            && let Some(duration) = self.config.duration
        {
            // There may never be a first connection: then the time counts from here.
            self.timers.push(Reverse((now + duration.as_nanos() as u64, Kind::End, 0)));
        }
        if self.config.is_half_framed() && self.config.transport == Transport::Tcp {
            self.note(
                now,
                "samples below 64 bytes carry no header: a connection's first of them ends its stamps"
                    .to_owned(),
            );
        }
        for lane in 0..self.lanes.len() {
            self.open_lane(lane, now);
        }
        let mut events = mio::Events::with_capacity(64);
        while self.end.fatal.is_none() && !self.is_over() {
            let (now, more_due) = self.fire_timers();
            let waited = !more_due && self.waited_for_echo(now);
            if waited {
                continue;
            }
            let deadline = self.timers.peek().map(|Reverse((at, ..))| *at);
            self.reactor.wait(&mut events, deadline, self.config.spin || more_due)?;
            for event in &events {
                if reactor::is_own(event.token()) {
                    continue;
                }
                if let Some(path) = self.opinion_of(event.token()) {
                    self.opinion_ready(path);
                } else {
                    let closed = event.is_read_closed() || event.is_error();
                    self.socket_ready(
                        event.token().0,
                        event.is_readable() || closed,
                        event.is_writable(),
                        closed,
                    );
                }
            }
            while let Ok((path, answer)) = self.answers.try_recv() {
                self.resolved(path, answer);
            }
            self.report_pauses();
            self.hear_load();
            self.heed_stop();
        }
        let now = mono_ns();
        self.end_load(now);
        for lane in 0..self.lanes.len() {
            self.finish_lane(lane, now);
        }
        self.explain_the_rest(now);
        self.report_pauses();
        self.report_anomalies(now, true);
        self.outbox.finish();
        Ok(self.end)
    }

    fn is_over(&self) -> bool {
        self.lanes.iter().all(Lane::is_done) && (self.stopping || !self.awaits_opinions())
    }

    /// Handles timers that are due: the time, and whether more are.
    fn fire_timers(&mut self) -> (u64, bool) {
        let mut now = mono_ns();
        for _ in 0..TIMERS_A_TURN {
            let Some(&Reverse((at, kind, lane))) = self.timers.peek().filter(|timer| timer.0.0 <= now) else {
                return (now, false);
            };
            self.timers.pop();
            match kind {
                Kind::Tick => self.tick(now),
                Kind::Start => self.start(now),
                Kind::End => self.stop_all(now, self.timeout_ns()),
                Kind::Opinion => self.opinion_late(lane as usize, now),
                Kind::Load => self.turn_load(now),
                _ => self.fire_lane(lane as usize, kind, at, now),
            }
            now = mono_ns();
        }
        (now, true)
    }

    fn fire_lane(&mut self, lane: usize, kind: Kind, at: u64, now: u64) {
        if self.lanes[lane].armed[kind as usize] != Some(at) {
            return;
        }
        self.lanes[lane].armed[kind as usize] = None;
        match kind {
            Kind::Due => self.pump(lane),
            Kind::Watch => self.watch(lane, now),
            Kind::Retry => self.open_lane(lane, now),
            Kind::ConnectLimit => self.connect_limit(lane, now),
            Kind::Drain => self.finish_lane(lane, now),
            Kind::Tick | Kind::Start | Kind::End | Kind::Opinion | Kind::Load => {
                unreachable!("timers of the run, not of a lane")
            }
        }
    }

    pub(super) fn arm(&mut self, lane: usize, kind: Kind, at: u64) {
        if self.lanes[lane].armed[kind as usize] != Some(at) {
            self.lanes[lane].armed[kind as usize] = Some(at);
            self.timers.push(Reverse((at, kind, lane as u32)));
        }
    }

    /// Arms a timer that is not a lane's.
    pub(super) fn arm_run(&mut self, kind: Kind, index: usize, at: u64) {
        self.timers.push(Reverse((at, kind, index as u32)));
    }

    /// The number by which a path's connections are known: their ordinals begin anew in each recording.
    pub(super) fn session_of(&self, path: usize) -> u32 {
        self.session.wrapping_add(path as u32)
    }

    pub(super) fn timeout_ns(&self) -> u64 {
        self.config.timeout.as_nanos() as u64
    }

    pub(super) fn event(&mut self, now: u64, path: Option<usize>, connection: Option<u32>, kind: EventKind) {
        let at =
            Timestamp::from_nanosecond(i128::from(self.clock.utc_of(now))).unwrap_or(Timestamp::UNIX_EPOCH);
        let event = Event { at, mono_ns: now, connection, kind };
        self.outbox.other(Message::Event(path.map(|p| p as u32), Box::new(event)));
    }

    /// An event of the whole run, which one thread tells for all.
    pub(super) fn event_of_run(&mut self, now: u64, kind: EventKind) {
        if self.member.speaks_for_the_run() {
            self.event(now, None, None, kind);
        }
    }

    pub(super) fn note(&mut self, now: u64, text: String) {
        self.event_of_run(now, EventKind::Note { text });
    }

    /// Begins the schedule, once every lane is connected or the grace is over.
    pub(super) fn start(&mut self, now: u64) {
        if self.origin_ns.is_some() || self.stopping {
            return;
        }
        self.grace_over = true;
        if !self.lanes.iter().any(|lane| matches!(lane.link, Link::Open(_))) {
            // Nothing to send on yet: the first connection starts the schedule.
            return;
        }
        self.origin_ns = Some(now);
        self.begin_phases(now);
        let until = self.config.duration.map(|d| now + d.as_nanos() as u64);
        if let Some(until) = until {
            self.timers.push(Reverse((until, Kind::End, 0)));
        }
        let (pace, lanes) = (self.config.pace, self.lanes.len());
        for i in 0..lanes {
            let first = now + phase_ns(pace, i, lanes);
            self.lanes[i].schedule = Some(Schedule::new(pace, first, self.config.count, until));
            self.pump(i);
        }
    }

    /// The lane has sent its last: it ends when all has come back, or after the timeout.
    pub(super) fn lane_over(&mut self, i: usize) {
        let now = mono_ns();
        let timeout = self.timeout_ns();
        match self.lanes[i].open() {
            Some(open) if !open.stream.is_idle() => {
                if self.lanes[i].armed[Kind::Drain as usize].is_none() {
                    self.arm(i, Kind::Drain, now + timeout);
                }
            }
            _ => self.finish_lane(i, now),
        }
    }

    pub(super) fn skipped(&mut self, i: usize, now: u64, skipped: Skipped, reason: &str) {
        let path = self.lanes[i].path;
        let connection = self.lanes[i].open().map(|open| open.stream.key().connection);
        let Skipped { count: skipped, behind_ns } = skipped;
        self.event(
            now,
            Some(path),
            connection,
            EventKind::ScheduleOverrun { skipped, behind_ns, reason: reason.into() },
        );
    }

    fn socket_ready(&mut self, i: usize, readable: bool, writable: bool, closed: bool) {
        if matches!(self.lanes[i].link, Link::Opening(_)) {
            self.connect_ready(i);
            return;
        }
        if readable {
            self.read(i, closed);
        }
        if writable && let Some(open) = self.lanes[i].open() {
            open.blocked = false;
            self.pump(i);
        }
    }

    pub(super) fn stall_threshold_ns(&self, path: usize) -> u64 {
        match self.config.stall_after {
            Some(after) => after.as_nanos() as u64,
            None => stall::threshold_ns(self.paths[path].p99_ns),
        }
    }

    fn heed_stop(&mut self) {
        let times = self.stop.times();
        if times > self.stops_seen {
            self.stops_seen = times;
            let linger = if times > 1 { 0 } else { STOP_LINGER_NS.min(self.timeout_ns()) };
            self.stop_all(mono_ns(), linger);
        }
    }

    /// No more samples: every lane ends when its echoes have come, or after `linger_ns`.
    fn stop_all(&mut self, now: u64, linger_ns: u64) {
        self.stopping = true;
        self.end_load(now);
        for i in 0..self.lanes.len() {
            let lane = &mut self.lanes[i];
            lane.schedule = Some(Schedule::new(self.config.pace, now, Some(0), None));
            match lane.open() {
                Some(open) if !open.stream.is_idle() && linger_ns > 0 => {
                    lane.armed[Kind::Drain as usize] = None;
                    self.arm(i, Kind::Drain, now + linger_ns);
                }
                _ => self.finish_lane(i, now),
            }
        }
    }
}

#[cfg(test)]
mod tests;
