//! One run of a probe: its lanes, its paths, and what concerns all of them.

use super::context::{Context, RunEnd};
use super::io::{Input, LinkId, LoadReport, Output, Piece};
use super::lane::Lane;
use super::load::Load;
use super::path::Path;
use super::protocol::Make;
use super::protocol::connect::Dialer;
use super::settings::{Request, Settings};
use super::timers::{LANE_TIMERS, Timer};
use super::workers::Worker;
use crate::clock::{Anchor, ClockMap, Observation};
use crate::event::EventKind;
use crate::sample::Flags;
use crate::schedule::{Pace, Schedule, phase_ns};
use std::net::SocketAddr;

const SECOND_NS: u64 = 1_000_000_000;
/// How long a path's schedule waits for its slowest connection before it starts.
const START_GRACE_NS: u64 = 3 * SECOND_NS;
/// How long the last echoes are waited for when the user wants the run to end.
const STOP_LINGER_NS: u64 = SECOND_NS;
/// Timers handled in one [`Input::Wake`]: then the driver looks at its sockets, so that a burst of sends does not delay
/// the stamp of an echo.
const TIMERS_A_WAKE: usize = 16;

/// A probe. Its use:
///
/// 1. Make it with [`Probe::new`], and [`Probe::start`] it.
/// 2. Take every output there is with [`Probe::poll`] and do it, in order. What each asks for, and with which
///    [`Input`] the driver answers, stands at [`Output`]. An answer may be given at once, before the next output is
///    taken, or later.
/// 3. Wait for the network, or until [`Probe::next_wake`]; tell what came of it with [`Probe::handle`], then go on with
///    2. The time of a wake-up changes with every input: ask for it again after the last output was taken. A time that
///    has passed means that more is due at once.
/// 4. When [`Probe::is_over`], nothing more will come; [`Probe::end`] says how it went.
///
/// `now` is the driver's monotonic clock, never smaller than at the call before. Equal inputs at equal times give equal
/// outputs. Any input may come at any time: what concerns a connection that is gone is ignored.
#[derive(Debug)]
pub struct Probe {
    cx: Context,
    lanes: Vec<Lane>,
    paths: Vec<Path>,
    dialers: Vec<Dialer>,
    load: Option<Load>,
    /// When the first schedule began: the phases of all lanes count from here.
    origin_ns: Option<u64>,
    /// Whether schedules wait no longer for lanes that are not connected.
    grace_over: bool,
    stops: u32,
    /// Lanes below this have nothing more to do; none of them ever has again.
    lanes_done: usize,
    over: bool,
}

impl Probe {
    /// A probe that does nothing yet. `anchor`: a reading of both clocks.
    pub fn new(settings: Settings, worker: Worker, anchor: Anchor) -> Self {
        Self::speaking(settings, worker, anchor, None)
    }

    /// The same, whose connections speak another protocol than the settings' request.
    pub fn speaking(settings: Settings, worker: Worker, anchor: Anchor, speak: Option<Make>) -> Self {
        let cx = Context::new(settings, worker, ClockMap::new(anchor));
        let connects = matches!(cx.settings.request, Request::Connect { .. });
        let own: Vec<usize> = cx.worker.lanes(if connects { 0 } else { cx.settings.lanes() }).collect();
        let lanes: Vec<Lane> =
            own.iter().enumerate().map(|(index, &i)| Lane::new(index, i, speak, &cx)).collect();
        let targets = cx.settings.targets.iter().enumerate();
        let path = |(p, target): (usize, &String)| Path::new(p, target.clone(), LinkId(lanes.len() + p));
        let paths: Vec<Path> = targets.map(path).collect();
        let base = lanes.len() + paths.len();
        let dialer = |p| Dialer::new(p, base, &cx);
        Self {
            dialers: if connects { (0..paths.len()).map(dialer).collect() } else { Vec::new() },
            load: cx.settings.load.map(Load::new),
            lanes,
            paths,
            cx,
            origin_ns: None,
            grace_over: false,
            stops: 0,
            lanes_done: 0,
            over: false,
        }
    }

    /// Begins.
    pub fn start(&mut self, now: u64) {
        self.cx.timers.set(now + SECOND_NS, Timer::Tick, 0);
        self.cx.timers.set(now + START_GRACE_NS, Timer::Grace, 0);
        if let Some(duration_ns) = self.cx.settings.duration_ns.filter(|_| self.cx.settings.keep_trying) {
            // There may never be a first connection: then the time counts from here.
            (0..self.paths.len())
                .for_each(|p| self.cx.timers.set(now.saturating_add(duration_ns), Timer::End, p));
        }
        for i in 0..self.lanes.len() {
            self.open_lane(i, now);
        }
        for (_, path) in self.dialers.iter().zip(&mut self.paths) {
            path.refresh_addresses(now, &mut self.cx);
        }
    }

    /// Takes an input.
    pub fn handle(&mut self, now: u64, input: Input<'_>) {
        match input {
            Input::Wake => self.wake(now),
            Input::Arriving { link, bytes } => {
                if let Some(lane) = self.lanes.get_mut(link.0) {
                    lane.arriving(now, bytes, &mut self.cx);
                }
            }
            Input::Received { link, bytes, stamps, kernel } => {
                self.received(now, link, bytes, stamps, kernel);
            }
            Input::Sent { link, sent_ns, sent_utc_ns, progress } => match self.role(link) {
                Role::Lane(i) => {
                    let lane = &mut self.lanes[i];
                    lane.sent(sent_ns, sent_utc_ns, progress, &self.paths[lane.path()], &mut self.cx);
                }
                Role::Canary(p) => {
                    let open = self.paths[p].open_remote();
                    self.paths[p].canaries.sent(now, progress, open, &mut self.cx);
                }
                Role::Dial(_) => {}
            },
            Input::Transmitted { link, id, counted, utc_ns } => {
                if let Some(connection) = self.lanes.get_mut(link.0).and_then(Lane::connection) {
                    connection.stream.transmitted(id, counted, utc_ns);
                }
            }
            Input::Writable { link } => {
                if let Some(lane) = self.lanes.get_mut(link.0) {
                    lane.writable(now, &mut self.cx);
                }
            }
            Input::Kernel { link, info } => {
                if let Some(lane) = self.lanes.get_mut(link.0) {
                    lane.kernel(now, info, &mut self.paths[lane.path()], &mut self.cx);
                }
            }
            Input::Clock { anchor, error_ns } => self.clock_read(now, anchor, error_ns),
            Input::Paused { began_ns, ended_ns, reason } => {
                self.cx.pauses.told(began_ns, ended_ns);
                let duration_ns = ended_ns.saturating_sub(began_ns);
                let kind = EventKind::Pause { host: "local".to_owned(), duration_ns, reason };
                self.cx.event_of_run(ended_ns, kind);
            }
            Input::Pausing { began_ns, ended_ns } => self.cx.pauses.ended_just_now(began_ns, ended_ns),
            Input::LoadBytes { sent, echoed } => {
                if let Some(load) = &mut self.load {
                    load.counted(sent, echoed);
                }
            }
            Input::Load(report) => self.load_reported(now, report),
            Input::Note(text) => self.cx.note(now, text),
            Input::Fatal(error) => self.cx.end.fatal = self.cx.end.fatal.take().or(Some(error)),
            Input::Stop => self.stop(now),
            connecting => self.connecting(now, connecting),
        }
        self.settle(now);
    }

    /// The next output; `None`: there is none until an input comes or the time of the next wake-up.
    pub fn poll(&mut self) -> Option<Output> {
        self.cx.poll()
    }

    /// When [`Input::Wake`] is to be told next; `None`: never, because the run is over.
    pub fn next_wake(&self) -> Option<u64> {
        if self.over { None } else { self.cx.timers.next_ns() }
    }

    /// Whether nothing more will come once the outputs are taken.
    pub fn is_over(&self) -> bool {
        self.over && !self.cx.has_outputs()
    }

    /// How it ended.
    pub fn end(&self) -> &RunEnd {
        &self.cx.end
    }

    /// How many lanes this worker has: their links are numbered from 0, and one canary a path follows.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Writes what [`Output::Send`] asks for into `out`, as far as it fits (64 bytes at the least). `None`: the
    /// connection is gone meanwhile, and there is nothing to send or to answer.
    pub fn write(&mut self, link: LinkId, out: &mut [u8]) -> Option<Piece> {
        match self.role(link) {
            Role::Lane(i) => self.lanes[i].write(out),
            Role::Canary(p) => self.paths[p].canaries.write(out),
            Role::Dial(_) => None,
        }
    }

    /// Writes a later part of the message that [`Probe::write`] began.
    pub fn fill(&mut self, link: LinkId, seq: u64, offset: usize, out: &mut [u8]) {
        if let Some(connection) = self.lanes.get_mut(link.0).and_then(Lane::connection) {
            connection.stream.fill(seq, offset, out);
        }
    }

    /// Writes what only the moment of sending tells (the timestamp of a STAMP packet) into a message, just before its
    /// first byte is handed over at `sent_ns`.
    pub fn stamp(&mut self, link: LinkId, sent_ns: u64, message: &mut [u8]) {
        if !matches!(self.cx.settings.request, Request::Stamp(_)) {
            return;
        }
        let (utc_ns, error_ns) = (self.cx.clock.utc_of(sent_ns), self.cx.clock_error_ns);
        match self.role(link) {
            Role::Lane(i) => {
                if let Some(connection) = self.lanes[i].connection() {
                    connection.stream.stamp_at(utc_ns, error_ns, message);
                }
            }
            Role::Canary(p) => self.paths[p].canaries.stamp(utc_ns, error_ns, message),
            Role::Dial(_) => {}
        }
    }

    /// Whether the kernel's view of a connection belongs to what has just been read from it.
    pub fn wants_kernel_view(&mut self, link: LinkId, now: u64) -> bool {
        self.lane_connection(link).is_some_and(|connection| connection.wants_view(now))
    }

    /// Whether the kernel's stamp of the oldest sample without its echo has not been told.
    pub fn wants_send_stamp(&mut self, link: LinkId) -> bool {
        self.lane_connection(link).is_some_and(|connection| connection.stream.awaits_stamp())
    }

    /// Whether an echo is owed on this connection.
    pub fn awaits_echo(&mut self, link: LinkId) -> bool {
        self.lane_connection(link).is_some_and(|connection| !connection.stream.is_idle())
    }

    /// Whether the schedule has begun and only echoes can bring anything new before the next wake-up: no connection is
    /// being made, asked about, blocked or silent. A driver may then wait for them without looking at anything else.
    pub fn only_awaits_echoes(&self) -> bool {
        self.origin_ns.is_some() && !self.awaits_canaries() && self.lanes.iter().all(Lane::only_awaits_echoes)
    }

    fn lane_connection(&mut self, link: LinkId) -> Option<&mut super::connection::Connection> {
        self.lanes.get_mut(link.0).and_then(Lane::connection)
    }

    fn role(&self, link: LinkId) -> Role {
        let lanes = self.lanes.len();
        if link.0 < lanes {
            Role::Lane(link.0)
        } else if link.0 < lanes + self.paths.len() {
            Role::Canary(link.0 - lanes)
        } else {
            Role::Dial(Dialer::path_of(link, lanes + self.paths.len(), self.paths.len()))
        }
    }

    fn wake(&mut self, now: u64) {
        for _ in 0..TIMERS_A_WAKE {
            let Some((at, timer, index)) = self.cx.timers.take_due(now) else { return };
            match timer {
                Timer::Tick => self.tick(now),
                Timer::Grace => {
                    self.grace_over = true;
                    (0..self.paths.len()).for_each(|p| self.start_path(p, now));
                }
                Timer::End => self.path_over(index, now),
                Timer::Canary => {
                    let path = &mut self.paths[index];
                    let open = path.open_remote();
                    path.canaries.timer(now, open, &mut self.cx);
                }
                Timer::Load => self.turn_load(now),
                Timer::Due if !self.dialers.is_empty() => {
                    self.dialers[index].dial_due(now, &mut self.paths[index], &mut self.cx);
                }
                Timer::DialDrain => self.dialers[index].drained(now, &mut self.paths[index], &mut self.cx),
                Timer::DialLimit | Timer::DialClosing => {
                    let (dialer, path, cx, link) = self.dialer(LinkId(index));
                    match timer {
                        Timer::DialLimit => dialer.late(now, link, path, cx),
                        _ => dialer.closing_late(now, link, path, cx),
                    }
                }
                _ => {
                    debug_assert!((timer as usize) < LANE_TIMERS, "{timer:?} is no lane's");
                    let lane = &mut self.lanes[index];
                    lane.timer(timer, at, now, &mut self.paths[lane.path()], &mut self.cx);
                }
            }
        }
    }

    fn dialer(&mut self, link: LinkId) -> (&mut Dialer, &mut Path, &mut Context, LinkId) {
        let p = Dialer::path_of(link, self.lanes.len() + self.paths.len(), self.paths.len());
        (&mut self.dialers[p], &mut self.paths[p], &mut self.cx, link)
    }

    /// Once a second: clocks, percentiles, lost datagrams, anomalies.
    fn tick(&mut self, now: u64) {
        self.cx.timers.set(now + SECOND_NS, Timer::Tick, 0);
        self.cx.emit(Output::ReadClock);
        for path in &mut self.paths {
            path.usual.refresh();
        }
        for lane in &mut self.lanes {
            lane.tick(now, &mut self.cx);
        }
        for (dialer, path) in self.dialers.iter().zip(&mut self.paths) {
            if !dialer.has_begun() && !dialer.is_done() {
                // A name that did not resolve at all.
                path.refresh_addresses(now, &mut self.cx);
            }
        }
        self.report_anomalies(now, false);
    }

    fn report_anomalies(&mut self, now: u64, last_chance: bool) {
        for path in &mut self.paths {
            path.report_anomalies(now, last_chance, &mut self.cx);
        }
    }

    fn clock_read(&mut self, now: u64, anchor: Anchor, error_ns: Option<u64>) {
        self.cx.clock_error_ns = error_ns;
        let observation = self.cx.clock.observe(anchor);
        if !self.cx.worker.speaks_for_the_run() {
            return;
        }
        match observation {
            Observation::Steady => {}
            Observation::Anchored => self.cx.emit(Output::Anchor { anchor, stepped: false }),
            Observation::Stepped(step_ns) => {
                self.cx.emit(Output::Anchor { anchor, stepped: true });
                self.cx.event_of_run(now, EventKind::ClockStepped { step_ns });
            }
        }
    }

    fn open_lane(&mut self, i: usize, now: u64) {
        let lane = &mut self.lanes[i];
        lane.open(now, &mut self.paths[lane.path()], &mut self.cx);
    }

    /// What the driver tells of connections that are being made or have ended.
    fn connecting(&mut self, now: u64, input: Input<'_>) {
        match input {
            Input::Resolved { path: p, addresses } => self.resolved(now, p, addresses),
            Input::Connecting { link, since_ns } => match self.role(link) {
                Role::Lane(i) => self.lanes[i].connecting(since_ns, &mut self.cx),
                Role::Canary(_) => {}
                Role::Dial(p) => self.dialers[p].connecting(link, since_ns, &mut self.cx),
            },
            Input::Connected { link, local, resent, kernel } => match self.role(link) {
                Role::Lane(i) => {
                    let p = self.lanes[i].path();
                    self.lanes[i].connected(now, local, kernel, &mut self.paths[p], &mut self.cx);
                    self.start_path(p, now);
                }
                Role::Canary(p) => self.paths[p].canaries.connected(resent, &mut self.cx),
                Role::Dial(p) => {
                    self.dialers[p].connected(now, link, local, kernel, &mut self.paths[p], &mut self.cx);
                }
            },
            Input::Secured { link } => {
                if let Role::Dial(p) = self.role(link) {
                    self.dialers[p].done(now, link, &mut self.paths[p], &mut self.cx);
                }
            }
            Input::ConnectFailed { link, error } => match self.role(link) {
                Role::Lane(i) => {
                    let lane = &mut self.lanes[i];
                    lane.connect_failed(now, &error, &mut self.paths[lane.path()], &mut self.cx);
                }
                Role::Canary(p) => {
                    let open = self.paths[p].open_remote();
                    self.paths[p].canaries.failed(now, &error, open, &mut self.cx);
                }
                Role::Dial(p) => {
                    self.dialers[p].failed(now, link, &error, &mut self.paths[p], &mut self.cx);
                }
            },
            Input::Closed { link } => match self.role(link) {
                Role::Lane(i) => {
                    let lane = &mut self.lanes[i];
                    lane.closed_by_peer(now, &mut self.paths[lane.path()], &mut self.cx);
                }
                Role::Canary(p) => {
                    let open = self.paths[p].open_remote();
                    self.paths[p].canaries.closed(now, None, open, &mut self.cx);
                }
                Role::Dial(p) => {
                    self.dialers[p].closed(now, link, None, &mut self.paths[p], &mut self.cx);
                }
            },
            Input::Broken { link, error } => match self.role(link) {
                Role::Lane(i) => {
                    let lane = &mut self.lanes[i];
                    lane.broken(now, error, &mut self.paths[lane.path()], &mut self.cx);
                }
                Role::Canary(p) => {
                    let open = self.paths[p].open_remote();
                    self.paths[p].canaries.closed(now, Some(&error), open, &mut self.cx);
                }
                Role::Dial(p) => {
                    self.dialers[p].closed(now, link, Some(&error), &mut self.paths[p], &mut self.cx);
                }
            },
            _ => {}
        }
    }

    fn resolved(&mut self, now: u64, p: usize, addresses: Result<Vec<SocketAddr>, String>) {
        let (waiting, error) = self.paths[p].resolved(now, addresses);
        if let Some(dialer) = self.dialers.get_mut(p) {
            match error {
                Some(error) => dialer.not_resolved(now, error, &mut self.paths[p], &mut self.cx),
                None => self.begin_dialing(p, now),
            }
            return;
        }
        for i in waiting {
            match &error {
                None => self.open_lane(i, now),
                Some(error) => {
                    self.lanes[i].not_resolved(now, error.clone(), &mut self.paths[p], &mut self.cx);
                }
            }
        }
    }

    fn begin_dialing(&mut self, p: usize, now: u64) {
        if self.dialers[p].has_begun() || self.dialers[p].is_done() || self.cx.stopping {
            return;
        }
        let schedule = self.schedule(p, self.paths.len(), p, now);
        self.paths[p].begin(now);
        self.dialers[p].begin(schedule, now, &mut self.paths[p], &mut self.cx);
    }

    /// The schedule of lane `i` of so many, on a path that begins now: on the grid that the first path's beginning made.
    fn schedule(&mut self, i: usize, lanes: usize, p: usize, now: u64) -> Schedule {
        let settings = &self.cx.settings;
        let origin = *self.origin_ns.get_or_insert(now);
        let first = origin + phase_ns(settings.pace, i, lanes);
        let first = match settings.pace {
            Pace::Every(every) => first + (now.saturating_sub(first)).div_ceil(every) * every,
            Pace::PingPong => now,
        };
        let until = settings.duration_ns.map(|d| now.saturating_add(d));
        if let Some(until) = until {
            self.cx.timers.set(until, Timer::End, p);
        }
        Schedule::new(settings.pace, first, settings.count, until)
    }

    /// Begins a path's schedule, once each of its lanes is connected, or one is and the grace is over.
    fn start_path(&mut self, p: usize, now: u64) {
        let path = &self.paths[p];
        if path.origin_ns().is_some() || self.cx.stopping || !path.has_open() {
            return;
        }
        // Lanes open in order, so the last is the first to say no.
        let all_open = || self.lanes.iter().rev().filter(|lane| lane.path() == p).all(Lane::is_open);
        if !self.grace_over && !all_open() {
            return;
        }
        self.paths[p].begin(now);
        if self.origin_ns.is_none()
            && let Some(load) = &mut self.load
        {
            load.begin(now, &mut self.cx);
        }
        let lanes = self.lanes.len();
        for i in 0..lanes {
            if self.lanes[i].path() == p {
                let schedule = self.schedule(i, lanes, p, now);
                self.lanes[i].begin(schedule, now, &mut self.cx);
            }
        }
    }

    fn received(
        &mut self,
        now: u64,
        link: LinkId,
        bytes: &[u8],
        stamps: Option<(i64, i64)>,
        kernel: Option<crate::event::TcpInfo>,
    ) {
        match self.role(link) {
            Role::Lane(i) => {
                let lane = &mut self.lanes[i];
                lane.received(now, bytes, stamps, kernel, &mut self.paths[lane.path()], &mut self.cx);
            }
            Role::Canary(p) => {
                let open = self.paths[p].open_remote();
                let replies = self.paths[p].canaries.received(now, bytes, open, &mut self.cx);
                for (ordinal, report) in replies {
                    let Some(report) = report else { continue };
                    let of_path = self.lanes.iter_mut().filter(|lane| lane.path() == p);
                    let mut open = of_path.filter_map(Lane::connection);
                    if let Some(connection) = open.find(|connection| connection.ordinal() == ordinal) {
                        let view = connection.local_view(&self.cx.clock);
                        connection.silence.peer_reported(view.beside(report), now);
                    }
                }
            }
            Role::Dial(_) => {}
        }
    }

    fn turn_load(&mut self, now: u64) {
        let remote = self.paths.first().and_then(Path::open_remote);
        if let Some(load) = &mut self.load
            && load.turn(now, remote, &mut self.cx)
        {
            self.flag_outstanding();
        }
    }

    fn load_reported(&mut self, now: u64, report: LoadReport) {
        if let Some(load) = &mut self.load
            && load.report(now, report, &mut self.cx)
        {
            self.flag_outstanding();
        }
    }

    fn end_load(&mut self, now: u64) {
        if let Some(load) = &mut self.load
            && load.end(now, &mut self.cx)
        {
            self.flag_outstanding();
        }
    }

    /// What is on its way while the load comes or goes is neither idle nor loaded.
    fn flag_outstanding(&mut self) {
        for connection in self.lanes.iter_mut().filter_map(Lane::connection) {
            connection.flag_outstanding(Flags::UNDER_LOAD | Flags::WARM_UP);
        }
    }

    /// A path's time is up, or it was never reached in the time that was given.
    fn path_over(&mut self, p: usize, now: u64) {
        let until = |origin: u64| self.cx.settings.duration_ns.map(|d| origin.saturating_add(d));
        if self.cx.stopping || self.paths[p].origin_ns().and_then(until).is_some_and(|until| now < until) {
            // The user was first; or it is the time that counted from the start, of a path that was reached meanwhile.
            return;
        }
        let timeout_ns = self.cx.settings.timeout_ns;
        self.paths[p].give_up();
        if let Some(dialer) = self.dialers.get_mut(p) {
            if !dialer.has_begun() {
                dialer.abandon();
            }
            dialer.drain(now, timeout_ns, &mut self.cx);
        }
        for lane in self.lanes.iter_mut().filter(|lane| lane.path() == p) {
            lane.stop(now, timeout_ns, &mut self.cx);
        }
    }

    /// The user wants the run to end: no more samples, and the last echoes are waited for, but not twice.
    fn stop(&mut self, now: u64) {
        self.stops += 1;
        let linger_ns = if self.stops > 1 { 0 } else { STOP_LINGER_NS.min(self.cx.settings.timeout_ns) };
        self.cx.stopping = true;
        self.end_load(now);
        for lane in &mut self.lanes {
            lane.stop(now, linger_ns, &mut self.cx);
        }
        for (dialer, path) in self.dialers.iter_mut().zip(&mut self.paths) {
            dialer.drain(now, linger_ns, &mut self.cx);
            if linger_ns == 0 {
                dialer.drained(now, path, &mut self.cx);
            }
        }
    }

    fn awaits_canaries(&self) -> bool {
        self.paths.iter().any(|path| path.canaries.has_deaths())
    }

    /// Tells how many samples of each path fell due, so that a reader can hold the rows against them.
    fn schedules_ended(&mut self, now: u64) {
        for p in 0..self.paths.len() {
            let of_lanes: u64 = self.lanes.iter().filter(|lane| lane.path() == p).map(Lane::due).sum();
            let due = of_lanes + self.dialers.get(p).map_or(0, Dialer::due);
            if self.paths[p].origin_ns().is_some() {
                self.cx.event(now, Some(p), None, EventKind::ScheduleEnded { due });
            }
        }
    }

    /// What follows from any input: lanes whose turn to connect has come, and the end.
    fn settle(&mut self, now: u64) {
        if self.over {
            return;
        }
        while let Some(next) = self.cx.openings.next() {
            self.open_lane(next, now);
        }
        let end = &mut self.cx.end;
        if end.fatal.is_none() && end.given_up.len() >= self.paths.len() && !self.paths.is_empty() {
            // None is left: that is why the run ends.
            end.fatal = Some(end.given_up.remove(0));
            end.given_up.clear();
        }
        if self.cx.end.fatal.is_some() && !self.cx.stopping {
            self.stops = 1;
            self.stop(now);
        }
        // From where the last look ended: ten thousand lanes end one by one.
        self.lanes_done += self.lanes[self.lanes_done..].iter().take_while(|lane| lane.is_done()).count();
        let done = self.lanes_done == self.lanes.len() && self.dialers.iter().all(Dialer::is_done);
        if done && (self.cx.stopping || !self.awaits_canaries()) {
            self.cx.stopping = true;
            self.end_load(now);
            for path in &mut self.paths {
                path.canaries.explain_the_rest(now, &mut self.cx);
            }
            self.report_anomalies(now, true);
            self.schedules_ended(now);
            self.over = true;
        }
    }
}

/// Whose connection a link is.
#[derive(Debug, Clone, Copy)]
enum Role {
    Lane(usize),
    /// A path's.
    Canary(usize),
    /// A path's.
    Dial(usize),
}
