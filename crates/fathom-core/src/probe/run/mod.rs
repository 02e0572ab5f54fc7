//! One run of a probe: its beginning, what concerns all of it while it goes on, and its end. Its parts: `roles` are those
//! who take what happens on connections, `grid` is where the samples of all of them lie.

mod grid;
mod roles;

use super::context::{Context, RunEnd};
use super::io::{Input, LinkId, LoadReport, Output, Piece};
use super::load::Load;
use super::openings;
use super::protocol::Make;
use super::settings::{Request, Settings};
use super::timers::Timer;
use super::workers::Worker;
use crate::clock::{Anchor, ClockMap, Observation};
use crate::event::EventKind;
use grid::Grid;
use roles::{Next, Roles};

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
/// `now` is the driver's monotonic clock, never smaller than at the call before, but for [`Input::Received`] after
/// [`Input::Arriving`]: both bear the time of the one read, though something may have been sent in between. Equal inputs at equal times give equal
/// outputs. Any input may come at any time: what concerns a connection that is gone is ignored.
#[derive(Debug)]
pub struct Probe {
    cx: Context,
    roles: Roles,
    load: Option<Load>,
    grid: Grid,
    /// Whether schedules wait no longer for lanes that are not connected.
    grace_over: bool,
    stops: u32,
    over: bool,
}

impl Probe {
    /// A probe that does nothing yet. `anchor`: a reading of both clocks.
    pub fn new(settings: Settings, worker: Worker, anchor: Anchor) -> Self {
        Self::speaking(settings, worker, anchor, None)
    }

    /// The same, whose connections speak another protocol than the settings' request.
    pub fn speaking(settings: Settings, worker: Worker, anchor: Anchor, speak: Option<Make>) -> Self {
        let cx = Context::new(settings, speak, worker, ClockMap::new(anchor));
        let roles = Roles::new(&cx);
        let load = cx.settings.load.map(Load::new);
        Self { cx, roles, load, grid: Grid::default(), grace_over: false, stops: 0, over: false }
    }

    /// Begins.
    pub fn start(&mut self, now: u64) {
        self.cx.timers.set(now + SECOND_NS, Timer::Tick, 0);
        // A lane that has to wait for its turn is not slow.
        let turns_ns = openings::longest_ns(self.cx.settings.lanes(), self.cx.settings.connect_ceiling());
        self.cx.timers.set(now.saturating_add(START_GRACE_NS + turns_ns), Timer::Grace, 0);
        if let Some(duration_ns) = self.cx.settings.duration_ns.filter(|_| self.cx.settings.keep_trying) {
            // There may never be a first connection: then the time counts from here.
            (0..self.roles.paths())
                .for_each(|p| self.cx.timers.set(now.saturating_add(duration_ns), Timer::End, p));
        }
        self.roles.start(now, &mut self.cx);
    }

    /// Takes an input.
    pub fn handle(&mut self, now: u64, input: Input<'_>) {
        if tracing::enabled!(tracing::Level::TRACE) {
            input.log(now);
        }
        match input {
            Input::Wake => self.wake(now),
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
            of_a_connection => match self.roles.handle(now, of_a_connection, &mut self.cx) {
                Next::Nothing => {}
                Next::Begin(p) => self.begin(p, now),
                Next::Dial(p) => self.roles.dial(p, now, &mut self.grid, &mut self.cx),
            },
        }
        self.settle(now);
    }

    /// The next output; `None`: there is none until an input comes or the time of the next wake-up.
    #[inline]
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

    /// How many lanes this worker has: theirs are the first places of [`LinkId`].
    pub fn lanes(&self) -> usize {
        self.roles.lanes()
    }

    /// How many places lanes and canary connections have. Connections one after another have one of these; beyond them
    /// each connection has a place of its own.
    pub fn places(&self) -> usize {
        self.roles.lanes() + self.roles.paths()
    }

    /// Writes what [`Output::Send`] asks for into `out`, as far as it fits (64 bytes at the least). `None`: the
    /// connection is gone meanwhile, and there is nothing to send or to answer.
    pub fn write(&mut self, link: LinkId, out: &mut [u8]) -> Option<Piece> {
        self.roles.write(link, out)
    }

    /// Writes a later part of the message that [`Probe::write`] began.
    pub fn fill(&mut self, link: LinkId, seq: u64, offset: usize, out: &mut [u8]) {
        self.roles.fill(link, seq, offset, out);
    }

    /// Writes what only the moment of sending tells (the timestamp of a STAMP packet) into a message, just before its
    /// first byte is handed over at `sent_ns`.
    pub fn stamp(&mut self, link: LinkId, sent_ns: u64, message: &mut [u8]) {
        if matches!(self.cx.settings.request, Request::Stamp(_)) {
            self.roles.stamp(link, sent_ns, message, &self.cx);
        }
    }

    /// Whether the kernel's view of a connection belongs to what has just been read from it.
    pub fn wants_kernel_view(&mut self, link: LinkId, now: u64) -> bool {
        self.roles.connection(link).is_some_and(|connection| connection.wants_view(now))
    }

    /// Whether the kernel's stamp of the oldest sample without its echo has not been told.
    pub fn wants_send_stamp(&mut self, link: LinkId) -> bool {
        self.roles.connection(link).is_some_and(|connection| connection.stream.awaits_stamp())
    }

    /// Whether an echo is owed on this connection.
    pub fn awaits_echo(&mut self, link: LinkId) -> bool {
        self.roles.connection(link).is_some_and(|connection| !connection.stream.is_idle())
    }

    /// Whether the schedule has begun and only echoes can bring anything new before the next wake-up: no connection is
    /// being made, asked about, blocked or silent. A driver may then wait for them without looking at anything else.
    pub fn only_awaits_echoes(&self) -> bool {
        self.grid.has_begun() && self.roles.only_await_echoes()
    }

    fn wake(&mut self, now: u64) {
        for _ in 0..TIMERS_A_WAKE {
            let Some((at, timer, index)) = self.cx.timers.take_due(now) else { return };
            match timer {
                Timer::Tick => {
                    self.cx.timers.set(now + SECOND_NS, Timer::Tick, 0);
                    self.cx.emit(Output::ReadClock);
                    self.roles.tick(now, &mut self.cx);
                }
                Timer::Grace => {
                    self.grace_over = true;
                    (0..self.roles.paths()).for_each(|p| self.begin(p, now));
                }
                // What fell due before the end is sent first: the driver has only been asked to.
                Timer::End if self.cx.has_outputs() => return self.cx.timers.set(at, timer, index),
                Timer::End => self.roles.path_over(index, now, &mut self.cx),
                // What is due is done when this input is settled.
                Timer::Turn => {}
                Timer::Load => self.turn_load(now),
                _ => self.roles.timer(timer, at, index, now, &mut self.cx),
            }
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

    /// Begins a path's schedule, once each of its lanes is connected, or one is and the grace is over.
    fn begin(&mut self, p: usize, now: u64) {
        if self.cx.stopping || !self.roles.may_begin(p, !self.grace_over) {
            return;
        }
        if !self.grid.has_begun()
            && let Some(load) = &mut self.load
        {
            load.begin(now, &mut self.cx);
        }
        self.roles.begin(p, now, &mut self.grid, &mut self.cx);
    }

    fn turn_load(&mut self, now: u64) {
        let remote = self.roles.first_remote();
        if let Some(load) = &mut self.load
            && load.turn(now, remote, &mut self.cx)
        {
            self.roles.flag_outstanding();
        }
    }

    fn load_reported(&mut self, now: u64, report: LoadReport) {
        if let Some(load) = &mut self.load
            && load.report(now, report, &mut self.cx)
        {
            self.roles.flag_outstanding();
        }
    }

    fn end_load(&mut self, now: u64) {
        if let Some(load) = &mut self.load
            && load.end(now, &mut self.cx)
        {
            self.roles.flag_outstanding();
        }
    }

    /// The user wants the run to end: no more samples, and the last echoes are waited for, but not twice. A run that is over
    /// has told what was due: nothing falls due after it.
    fn stop(&mut self, now: u64) {
        if self.over {
            return;
        }
        self.stops += 1;
        let linger_ns = if self.stops > 1 { 0 } else { STOP_LINGER_NS.min(self.cx.settings.timeout_ns) };
        self.cx.stopping = true;
        self.end_load(now);
        self.roles.stop(now, linger_ns, &mut self.cx);
    }

    /// What follows from any input: lanes whose turn to connect has come, and the end.
    fn settle(&mut self, now: u64) {
        if self.over {
            return;
        }
        self.roles.open_waiting(now, &mut self.cx);
        self.roles.dial_found(now, &mut self.grid, &mut self.cx);
        let end = &mut self.cx.end;
        if end.fatal.is_none() && !end.given_up.is_empty() && end.given_up.len() >= self.roles.own_paths() {
            // None is left: that is why the run ends.
            end.fatal = Some(std::mem::take(&mut end.given_up).join("; "));
        }
        if self.cx.end.fatal.is_some() && !self.cx.stopping {
            self.stops = 1;
            self.stop(now);
        }
        if self.roles.are_done() && (self.cx.stopping || !self.roles.await_canaries()) {
            self.cx.stopping = true;
            self.end_load(now);
            self.roles.tell_the_end(now, &mut self.cx);
            self.over = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Purpose;

    const START: Anchor = Anchor { mono_ns: SECOND_NS, utc_ns: 1_800_000_000_000_000_000 };

    /// Does what a driver does whose connections are established at once, one after the other.
    fn connect_all(probe: &mut Probe, mut now: u64) {
        while let Some(output) = probe.poll() {
            match output {
                Output::Resolve { path } => {
                    let addresses = Ok(vec!["10.0.0.1:7".parse().expect("an address")]);
                    probe.handle(now, Input::Resolved { path, addresses });
                }
                Output::Connect { link, purpose: Purpose::Samples, .. } => {
                    now += 1;
                    probe.handle(now, Input::Connecting { link, since_ns: now });
                    let local = String::new();
                    probe.handle(now, Input::Connected { link, local, resent: false, kernel: None });
                }
                _ => {}
            }
        }
    }

    /// There was one for each connection, and each of them stopped all connections.
    #[test]
    fn the_end_of_a_path_is_timed_once() {
        let targets = vec!["a:7".to_owned(), "b:7".to_owned()];
        let duration_ns = Some(10 * SECOND_NS);
        let settings =
            Settings { connections: 500, duration_ns, connect_rate: None, ..Settings::new(targets) };
        let mut probe = Probe::new(settings, Worker::alone(2), START);
        probe.start(START.mono_ns);
        connect_all(&mut probe, START.mono_ns);
        assert_eq!(probe.cx.timers.count_of(Timer::End), 2);
    }

    /// What a peer that does not echo sends, after which the connection is ended here, is in its explanation.
    #[test]
    fn non_echo_close_is_explained() {
        let settings = Settings { reconnect: false, ..Settings::new(vec!["a:7".to_owned()]) };
        let mut probe = Probe::new(settings, Worker::alone(1), START);
        probe.start(START.mono_ns);
        connect_all(&mut probe, START.mono_ns);
        let (link, bytes) = (LinkId::none_yet(0).next(), [b'x'; 4_096]);
        probe.handle(START.mono_ns, Input::Received { link, bytes: &bytes, stamps: None, kernel: None });
        let mut explained = Vec::new();
        loop {
            while let Some(output) = probe.poll() {
                let Output::Event { event, .. } = output else { continue };
                if let EventKind::ConnectionExplained { explanation, .. } = event.kind {
                    explained.extend(explanation.because);
                }
            }
            let Some(at) = probe.next_wake() else { break };
            probe.handle(at, Input::Wake);
        }
        assert!(explained.iter().any(|fact| fact.contains("does not echo")), "{explained:?}");
    }

    /// A simulation tells each of its probes to stop when its own time is over, also one that ended with its connection
    /// hours before: it told those hours as samples that were not sent, beside a count of dues without them.
    #[test]
    fn a_run_that_is_over_tells_nothing_more() {
        let settings = Settings { reconnect: false, ..Settings::new(vec!["a:7".to_owned()]) };
        let mut probe = Probe::new(settings, Worker::alone(1), START);
        let mut now = START.mono_ns;
        probe.start(now);
        connect_all(&mut probe, now);
        assert!(probe.roles.lanes() == 1 && probe.grid.has_begun());
        probe.handle(now, Input::Closed { link: LinkId::none_yet(0).next() });
        while !probe.over {
            connect_all(&mut probe, now);
            now = probe.next_wake().expect("it is not over");
            probe.handle(now, Input::Wake);
        }
        while probe.poll().is_some() {}
        probe.handle(now + 1_000 * SECOND_NS, Input::Stop);
        let told: Vec<Output> = std::iter::from_fn(|| probe.poll()).collect();
        assert!(told.is_empty(), "{told:?}");
    }
}
