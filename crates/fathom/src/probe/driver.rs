//! The probing thread: sends what is due, stamps what comes back, keeps connections. It waits for nothing else: names
//! are resolved, samples written and views drawn by other threads.

use super::config::{Config, Transport};
use super::lane::{Kind, Lane, Link, PathState};
use super::link::{Written, prepare};
use super::outbox::{Message, Outbox};
use super::resolve::{Answer, Resolver};
use fathom_core::clock::{Anchor, ClockMap, Observation};
use fathom_core::event::{Event, EventKind};
use fathom_core::sample::Flags;
use fathom_core::schedule::{Pace, Schedule, Skipped, phase_ns};
use fathom_core::stall;
use fathom_core::stream::{Arrival, KernelView, Receipt};
use fathom_os::clock::mono_ns;
use fathom_os::reactor::{self, Reactor, Waker};
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Receiver;

const SECOND_NS: u64 = 1_000_000_000;
/// How long the schedule waits for the slowest connection before it starts.
const START_GRACE_NS: u64 = 3 * SECOND_NS;
/// How long the last echoes are waited for after Ctrl-C.
const STOP_LINGER_NS: u64 = SECOND_NS;
/// Timers handled before the sockets are looked at again, so that a burst of sends does not delay the stamp of an echo.
const TIMERS_A_TURN: usize = 16;
/// With --spin, reads tried before the reactor is asked for anything else.
const SPINS_A_TURN: u32 = 64;
/// The kernel's view of a connection is asked for with every sample of a schedule this slow...
const INFO_EVERY_SAMPLE_NS: u64 = 10_000_000;
/// ...and otherwise this often: a call costs about 0.7 µs, which a back-to-back round trip would feel.
const INFO_GAP_NS: u64 = 100_000_000;
/// Echoes in a row that are not what was sent, after which the peer is taken not to be an echo server.
const CORRUPTED_LIMIT: u32 = 8;

/// Asks a run to stop; the second time, at once.
#[derive(Clone)]
pub(crate) struct Stop {
    asked: Arc<AtomicU32>,
    waker: Waker,
}

impl Stop {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { asked: Arc::default(), waker }
    }

    pub(crate) fn ask(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
        // The reactor lives as long as the run; a failing wake means that it is over.
        let _ = self.waker.wake();
    }

    fn times(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }
}

/// How a run ended.
#[derive(Debug, Default)]
pub(super) struct RunEnd {
    /// Why it could not even begin, or go on.
    pub(super) fatal: Option<String>,
    /// A connection was lost and `--no-reconnect` forbade another.
    pub(super) lost: bool,
}

pub(super) struct Driver<'a> {
    pub(super) config: &'a Config,
    pub(super) reactor: Reactor,
    pub(super) resolver: Resolver,
    answers: Receiver<Answer>,
    pub(super) lanes: Vec<Lane>,
    pub(super) paths: Vec<PathState>,
    timers: BinaryHeap<Reverse<(u64, Kind, u32)>>,
    pub(super) clock: ClockMap,
    read_clocks: Box<dyn FnMut() -> Anchor + Send>,
    pub(super) outbox: Outbox,
    scratch: Box<[u8]>,
    pub(super) session: u32,
    /// When the schedule began.
    pub(super) origin_ns: Option<u64>,
    /// Whether the schedule waits no longer for lanes that are not connected.
    pub(super) grace_over: bool,
    pub(super) opening: usize,
    pub(super) to_open: VecDeque<usize>,
    stop: Stop,
    stops_seen: u32,
    pub(super) stopping: bool,
    pub(super) end: RunEnd,
}

impl<'a> Driver<'a> {
    /// `read_clocks` reads both clocks as one; it is an argument so that a test can set the wall clock.
    pub(super) fn new(
        config: &'a Config,
        reactor: Reactor,
        outbox: Outbox,
        stop: Stop,
        session: u32,
        mut read_clocks: Box<dyn FnMut() -> Anchor + Send>,
    ) -> Self {
        let (resolver, answers) = Resolver::new(config.family, reactor.waker());
        let lane =
            |i: usize| Lane::new(i % config.paths.len(), u64::from(session) << 32 | i as u64, config.warm_up);
        Self {
            lanes: (0..config.lanes()).map(lane).collect(),
            paths: config.paths.iter().map(|_| PathState::new()).collect(),
            timers: BinaryHeap::new(),
            clock: ClockMap::new(read_clocks()),
            read_clocks,
            // As large as a small machine spares: larger messages go and come in pieces.
            scratch: vec![0; if config.size > 4_096 { 65_536 } else { 8_192 }].into(),
            origin_ns: None,
            grace_over: false,
            opening: 0,
            to_open: VecDeque::new(),
            stops_seen: 0,
            stopping: false,
            end: RunEnd::default(),
            config,
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
        if self.config.keep_trying
            && let Some(duration) = self.config.duration
        {
            // There may never be a first connection: then the time counts from here.
            self.timers.push(Reverse((now + duration.as_nanos() as u64, Kind::End, 0)));
        }
        for lane in 0..self.lanes.len() {
            self.open_lane(lane, now);
        }
        let mut events = mio::Events::with_capacity(64);
        let mut spins = 0;
        while self.end.fatal.is_none() && !self.lanes.iter().all(Lane::is_done) {
            let more_due = self.fire_timers();
            if self.config.spin {
                self.read_all_outstanding();
                spins += 1;
                if spins % SPINS_A_TURN != 0 && self.origin_ns.is_some() {
                    continue;
                }
            }
            let deadline = self.timers.peek().map(|Reverse((at, ..))| *at);
            self.reactor.wait(&mut events, deadline, self.config.spin || more_due)?;
            for event in &events {
                if !reactor::is_own(event.token()) {
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
            self.heed_stop();
        }
        let now = mono_ns();
        for lane in 0..self.lanes.len() {
            self.finish_lane(lane, now);
        }
        self.report_anomalies(now, true);
        self.outbox.other(Message::Ended);
        while !self.outbox.deliver_waiting() {
            std::thread::yield_now();
        }
        Ok(self.end)
    }

    /// Handles timers that are due; true where more are.
    fn fire_timers(&mut self) -> bool {
        for _ in 0..TIMERS_A_TURN {
            let now = mono_ns();
            match self.timers.peek() {
                Some(Reverse((at, ..))) if *at <= now => {}
                _ => return false,
            }
            let Some(Reverse((at, kind, lane))) = self.timers.pop() else { return false };
            match kind {
                Kind::Tick => self.tick(now),
                Kind::Start => self.start(now),
                Kind::End => self.stop_all(now, self.timeout_ns()),
                _ => self.fire_lane(lane as usize, kind, at, now),
            }
        }
        true
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
            Kind::Tick | Kind::Start | Kind::End => unreachable!("timers of the run, not of a lane"),
        }
    }

    pub(super) fn arm(&mut self, lane: usize, kind: Kind, at: u64) {
        if self.lanes[lane].armed[kind as usize] != Some(at) {
            self.lanes[lane].armed[kind as usize] = Some(at);
            self.timers.push(Reverse((at, kind, lane as u32)));
        }
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

    /// Sends what is due on a lane, as far as its connection takes it, and arms its timer for the next.
    pub(super) fn pump(&mut self, i: usize) {
        loop {
            let now = mono_ns();
            let (lane, scratch) = (&mut self.lanes[i], &mut self.scratch);
            let (Link::Open(open), Some(schedule)) = (&mut lane.link, &mut lane.schedule) else { return };
            if open.blocked || open.stream.is_full() {
                return;
            }
            if let Some((seq, offset)) = open.sending {
                match open.socket.write_message(&open.stream, seq, offset, scratch, 0) {
                    Ok(Written::Whole) => open.sending = None,
                    Ok(Written::UpTo(offset)) => {
                        open.sending = Some((seq, offset));
                        open.blocked = true;
                        return;
                    }
                    Ok(Written::Nothing) => {
                        open.blocked = true;
                        return;
                    }
                    Err(e) => return self.close_by(i, now, &e),
                }
                continue;
            }
            if let Some(skipped) = schedule.skip_overdue(now) {
                self.skipped(i, now, skipped, "late");
                continue;
            }
            let Some(due) = schedule.next_due_ns().filter(|&due| due <= now) else { break };
            let seq = open.stream.next_seq();
            let prepared = prepare(&open.stream, seq, scratch);
            let sent_ns = mono_ns();
            let written = match open.socket.write_message(&open.stream, seq, 0, scratch, prepared) {
                Ok(Written::Nothing) => {
                    open.blocked = true;
                    return;
                }
                Ok(written) => written,
                Err(e) => return self.close_by(i, sent_ns, &e),
            };
            schedule.take(now);
            let warm_up = lane.warm_up_left > 0;
            lane.warm_up_left = lane.warm_up_left.saturating_sub(1);
            open.stream.sent(due, sent_ns, if warm_up { Flags::WARM_UP } else { Flags::default() });
            if let Written::UpTo(offset) = written {
                open.sending = Some((seq, offset));
                open.blocked = true;
            }
            let path = lane.path;
            if lane.armed[Kind::Watch as usize].is_none() {
                let at = sent_ns + self.stall_threshold_ns(path);
                self.arm(i, Kind::Watch, at);
            }
        }
        self.arm_next(i);
    }

    fn arm_next(&mut self, i: usize) {
        let lane = &mut self.lanes[i];
        let due = lane.schedule.as_ref().and_then(Schedule::next_due_ns);
        if let Some(due) = due {
            self.arm(i, Kind::Due, due);
        } else if lane.is_over() {
            self.lane_over(i);
        }
    }

    /// The lane has sent its last: it ends when all has come back, or after the timeout.
    fn lane_over(&mut self, i: usize) {
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

    /// Reads what has come on a lane's connection. `closed`: the peer's end is known to have come too.
    fn read(&mut self, i: usize, closed: bool) {
        loop {
            let (lane, scratch) = (&mut self.lanes[i], &mut self.scratch);
            let Some(open) = lane.open() else { return };
            let result = open.socket.read(scratch);
            let now = mono_ns();
            match result {
                Ok(0) if self.config.transport == Transport::Tcp => return self.closed_by_peer(i, now),
                Ok(n) => {
                    self.take(i, now, n);
                    // Edge-triggered: less than asked for means that nothing is left, and what comes later, an end
                    // of the stream included, is a new edge (epoll(7)); an end that came before is not.
                    if n < self.scratch.len() && self.config.transport == Transport::Tcp && !closed {
                        return;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return self.close_by(i, now, &e),
            }
        }
    }

    fn read_all_outstanding(&mut self) {
        for i in 0..self.lanes.len() {
            if self.lanes[i].open().is_some_and(|open| !open.stream.is_idle()) {
                self.read(i, false);
            }
        }
    }

    /// Takes the `n` bytes just read into the scratch buffer.
    fn take(&mut self, i: usize, now: u64, n: usize) {
        let info_gap = match self.config.pace {
            Pace::Every(every) if every >= INFO_EVERY_SAMPLE_NS => 0,
            _ => INFO_GAP_NS,
        };
        let lane = &mut self.lanes[i];
        let (path_index, path) = (lane.path as u32, &mut self.paths[lane.path]);
        let Link::Open(open) = &mut lane.link else { return };
        let kernel = (now >= open.ask_info_ns).then(|| {
            open.ask_info_ns = now + info_gap;
            open.info = open.socket.tcp_info();
            open.info.map(|info| KernelView { srtt_us: info.srtt_us, total_retrans: info.total_retrans })
        });
        let receipt = Receipt { mono_ns: now, clock: &self.clock, kernel: kernel.flatten(), local_pause: None };
        let connection = open.stream.key().connection;
        let (outbox, bytes) = (&mut self.outbox, &self.scratch[..n]);
        let (mut resolved, mut foreign) = (0, 0);
        let sink = |arrival: Arrival<'_>| match arrival {
            Arrival::Resolved(sample) => {
                resolved += 1;
                match sample.rtt_ns {
                    Some(rtt_ns) => {
                        path.ever_answered = true;
                        path.rtt.record(rtt_ns);
                    }
                    None => path.corrupted.add(connection, sample.seq, 1),
                }
                outbox.sample(path_index, sample);
            }
            Arrival::Foreign(bytes) => {
                foreign += 1;
                if path.foreign.count == 0 {
                    path.foreign_first = bytes[..bytes.len().min(64)].escape_ascii().to_string();
                }
                path.foreign.add(
                    connection,
                    0,
                    if matches!(open.socket, super::link::Socket::Udp(_)) { 1 } else { bytes.len() as u64 },
                );
            }
            Arrival::Duplicate(seq) => path.duplicated.add(connection, seq, 1),
        };
        match self.config.transport {
            Transport::Tcp => open.stream.receive(&receipt, bytes, sink),
            Transport::Udp => open.stream.receive_datagram(&receipt, bytes, sink),
        }
        let no_echo = self.config.transport == Transport::Tcp
            && (foreign > 0 || open.stream.corrupted_in_a_row() >= CORRUPTED_LIMIT);
        if no_echo {
            return self.not_an_echo(i, now);
        }
        if resolved > 0 {
            self.after_echo(i, now);
        }
    }

    fn after_echo(&mut self, i: usize, now: u64) {
        self.stall_over(i, now, true);
        let lane = &mut self.lanes[i];
        let idle = lane.open().is_some_and(|open| open.stream.is_idle());
        if self.config.pace == Pace::PingPong && !self.stopping && idle {
            if let Some(schedule) = &mut lane.schedule {
                schedule.resolved(now);
            }
            self.pump(i);
        } else if lane.is_over() && idle {
            self.finish_lane(i, now);
        } else if lane.armed[Kind::Due as usize].is_none() {
            // Room again after a full connection.
            self.pump(i);
        }
    }

    pub(super) fn stall_threshold_ns(&self, path: usize) -> u64 {
        match self.config.stall_after {
            Some(after) => after.as_nanos() as u64,
            None => stall::threshold_ns(self.paths[path].p99_ns),
        }
    }

    fn tick(&mut self, now: u64) {
        self.timers.push(Reverse((now + SECOND_NS, Kind::Tick, 0)));
        let reading = (self.read_clocks)();
        match self.clock.observe(reading) {
            Observation::Steady => {}
            Observation::Anchored => self.outbox.other(Message::Anchor { anchor: reading, stepped: false }),
            Observation::Stepped(step_ns) => {
                self.outbox.other(Message::Anchor { anchor: reading, stepped: true });
                self.event(now, None, None, EventKind::ClockStepped { step_ns });
            }
        }
        for path in &mut self.paths {
            path.p99_ns = path.rtt.supported_quantile(0.99);
        }
        for i in 0..self.lanes.len() {
            self.tick_lane(i, now);
        }
        self.report_anomalies(now, false);
        let lost = self.outbox.take_lost();
        if lost > 0 {
            self.event(now, None, None, EventKind::RecordingOverflowed { lost });
        }
        self.outbox.deliver_waiting();
    }

    fn tick_lane(&mut self, i: usize, now: u64) {
        let (lane, clock, outbox) = (&mut self.lanes[i], &self.clock, &mut self.outbox);
        let path = lane.path as u32;
        let Link::Open(open) = &mut lane.link else { return };
        if self.config.transport == Transport::Udp {
            let before = open.stream.is_idle();
            open.stream.expire(now, clock, |sample| outbox.sample(path, sample));
            if !before && open.stream.is_idle() {
                return self.after_echo(i, now);
            }
        }
        if (open.blocked || open.stream.is_full())
            && let Some(skipped) = lane.schedule.as_mut().and_then(|s| s.skip_overdue(now))
        {
            self.skipped(i, now, skipped, "blocked");
        }
    }

    fn report_anomalies(&mut self, now: u64, last_chance: bool) {
        for p in 0..self.paths.len() {
            let path = &mut self.paths[p];
            let corrupted = path.corrupted.take(now, last_chance).map(|count| {
                let seq = path.corrupted.seq;
                (path.corrupted.connection, EventKind::EchoCorrupted { seq, count })
            });
            let foreign = path.foreign.take(now, last_chance).map(|count| {
                let first = std::mem::take(&mut path.foreign_first);
                (path.foreign.connection, EventKind::EchoForeign { count, first })
            });
            let duplicated = path.duplicated.take(now, last_chance).map(|count| {
                let seq = path.duplicated.seq;
                (path.duplicated.connection, EventKind::EchoDuplicated { seq, count })
            });
            for (connection, kind) in [corrupted, foreign, duplicated].into_iter().flatten() {
                self.event(now, Some(p), Some(connection), kind);
            }
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
mod tests {
    use super::super::args::Args;
    use super::super::outbox;
    use super::*;
    use clap::Parser;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// A server of one connection that echoes until the peer is done.
    fn echo_once() -> (u16, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let mut buffer = [0; 4_096];
            while let Ok(n @ 1..) = peer.read(&mut buffer) {
                peer.write_all(&buffer[..n]).unwrap();
            }
        });
        (port, server)
    }

    #[test]
    fn setting_the_wall_clock_is_an_event_and_touches_no_round_trip() {
        const HOUR_NS: i64 = 3_600_000_000_000;
        let (port, server) = echo_once();
        let line = format!("probe 127.0.0.1:{port} --every 20ms --count 80 --no-record");
        let config = Config::new(Line::parse_from(line.split(' ')).args).unwrap();
        let reactor = Reactor::new().unwrap();
        let stop = Stop::new(reactor.waker());
        let (outbox, mut ring) = outbox::channel(Some(50.0));
        // The first reading starts the run; from the next on, a second later, somebody has set the clock by an hour.
        let mut readings = 0;
        let clocks = move || {
            readings += 1;
            let mut reading = fathom_os::clock::anchor();
            reading.utc_ns += if readings > 1 { HOUR_NS } else { 0 };
            reading
        };
        let end = Driver::new(&config, reactor, outbox, stop, 7, Box::new(clocks)).run().unwrap();
        assert!(end.fatal.is_none() && !end.lost);
        server.join().unwrap();

        let (mut samples, mut steps) = (Vec::new(), Vec::new());
        while let Ok(message) = ring.pop() {
            match message {
                Message::Sample(_, sample) => samples.push(sample),
                Message::Event(_, event) => {
                    if let EventKind::ClockStepped { step_ns } = event.kind {
                        steps.push(step_ns);
                    }
                }
                Message::Anchor { .. } | Message::Ended => {}
            }
        }
        assert_eq!(samples.len(), 80);
        assert!(samples.iter().all(|s| s.rtt_ns.is_some_and(|rtt| (1..HOUR_NS / 10).contains(&rtt))));
        assert_eq!(steps.len(), 1);
        assert!((steps[0] - HOUR_NS).abs() < 1_000_000_000, "{steps:?}");
        // The stamps follow the clock that was set; the samples stay in order.
        assert!(samples[79].sent_ns - samples[0].sent_ns > HOUR_NS);
        assert!(samples.windows(2).all(|pair| pair[0].sent_ns < pair[1].sent_ns));
    }
}
