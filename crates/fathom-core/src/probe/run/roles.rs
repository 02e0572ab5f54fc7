//! Who takes an input: the lanes, the paths with their canary connections, the dialers. Their links have places in this
//! order: one a lane, one canary a path, then those of samples that are connections. `inputs` brings them what the driver
//! tells.

mod inputs;

use super::grid::Grid;
use crate::event::EventKind;
use crate::probe::connection::Connection;
use crate::probe::context::Context;
use crate::probe::io::{LinkId, Piece};
use crate::probe::lane::Lane;
use crate::probe::path::Path;
use crate::probe::protocol::connect::Dialer;
use crate::probe::settings::Request;
use crate::probe::timers::{LANE_TIMERS, Timer};
use crate::sample::Flags;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A sample that is out for longer is told as such while it is.
const OUT_FOR_LONG_NS: u64 = 100_000_000;

/// Whose connection a link is.
#[derive(Debug, Clone, Copy)]
enum Role {
    Lane(usize),
    /// A path's.
    Canary(usize),
    /// A path's.
    Dial(usize),
    /// Nobody's: it is gone, and what is still told of it concerns nobody.
    Gone,
}

/// What an input makes possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing that concerns the whole run.
    Nothing,
    /// This path's schedule may begin: one more of its lanes is connected.
    Begin(usize),
    /// This path's connections may be made: its name is resolved.
    Dial(usize),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Roles {
    lanes: Vec<Lane>,
    paths: Vec<Path>,
    dialers: Vec<Dialer>,
    /// Lanes below this have nothing more to do; none of them ever has again.
    lanes_done: usize,
}

impl Roles {
    pub(super) fn new(cx: &Context) -> Self {
        let connects = matches!(cx.settings.request, Request::Connect { .. });
        let own: Vec<usize> = cx.worker.lanes(if connects { 0 } else { cx.settings.lanes() }).collect();
        let lanes: Vec<Lane> = own.iter().enumerate().map(|(index, &i)| Lane::new(index, i, cx)).collect();
        let targets = cx.settings.targets.iter().enumerate();
        let canary = |p| LinkId::none_yet(lanes.len() + p);
        let path = |(p, target): (usize, &String)| Path::new(p, target.clone(), canary(p));
        let paths: Vec<Path> = targets.map(path).collect();
        let base = lanes.len() + paths.len();
        let dialer = |p| Dialer::new(p, base, cx);
        let dialers = if connects { (0..paths.len()).map(dialer).collect() } else { Vec::new() };
        Self { lanes, paths, dialers, lanes_done: 0 }
    }

    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn paths(&self) -> usize {
        self.paths.len()
    }

    /// How many paths this worker has a part in: lanes are shared out in order, a path after the other.
    pub(super) fn own_paths(&self) -> usize {
        if self.dialers.is_empty() { self.paths.len().min(self.lanes.len()) } else { self.paths.len() }
    }

    /// Where the first path leads, while it is connected.
    pub(super) fn first_remote(&self) -> Option<SocketAddr> {
        self.paths.first().and_then(Path::open_remote)
    }

    /// Whether everybody has come to the end.
    pub(super) fn are_done(&mut self) -> bool {
        // From where the last look ended: ten thousand lanes end one by one.
        self.lanes_done += self.lanes[self.lanes_done..].iter().take_while(|lane| lane.is_done()).count();
        self.lanes_done == self.lanes.len() && self.dialers.iter().all(Dialer::is_done)
    }

    /// Whether a death is still to be explained by a canary connection.
    pub(super) fn await_canaries(&self) -> bool {
        self.paths.iter().any(|path| path.canaries.has_deaths())
    }

    /// Whether nothing but echoes can come.
    pub(super) fn only_await_echoes(&self) -> bool {
        !self.await_canaries() && self.lanes.iter().all(Lane::only_awaits_echoes)
    }

    /// Begins to connect.
    pub(super) fn start(&mut self, now: u64, cx: &mut Context) {
        let each = usize::from(!self.dialers.is_empty());
        let mut lanes = vec![each; self.paths.len()];
        self.lanes.iter().for_each(|lane| lanes[lane.path()] += 1);
        for (path, lanes) in self.paths.iter_mut().zip(lanes) {
            path.start(lanes, now, cx);
        }
        for i in 0..self.lanes.len() {
            self.open_lane(i, now, cx);
        }
        for (_, path) in self.dialers.iter().zip(&mut self.paths) {
            path.refresh_addresses(now, cx);
        }
    }

    fn open_lane(&mut self, i: usize, now: u64, cx: &mut Context) {
        let lane = &mut self.lanes[i];
        lane.open(now, &mut self.paths[lane.path()], cx);
    }

    /// Lanes whose turn to connect has come.
    pub(super) fn open_waiting(&mut self, now: u64, cx: &mut Context) {
        while let Some(next) = cx.openings.next(now) {
            self.open_lane(next, now, cx);
        }
        if let Some(at) = cx.openings.wake_at() {
            cx.timers.set(at, Timer::Turn, 0);
        }
    }

    fn role(&self, link: LinkId) -> Role {
        let (lanes, paths) = (self.lanes.len(), self.paths.len());
        if let Some(lane) = self.lanes.get(link.place) {
            if lane.link() == link { Role::Lane(link.place) } else { Role::Gone }
        } else if let Some(path) = self.paths.get(link.place - lanes) {
            if path.canaries.link() == link { Role::Canary(link.place - lanes) } else { Role::Gone }
        } else if self.dialers.is_empty() {
            Role::Gone
        } else {
            Role::Dial(Dialer::path_of(link, lanes + paths, paths))
        }
    }

    fn lane(&mut self, link: LinkId) -> Option<&mut Lane> {
        self.lanes.get_mut(link.place).filter(|lane| lane.link() == link)
    }

    pub(super) fn connection(&mut self, link: LinkId) -> Option<&mut Connection> {
        self.lane(link).and_then(Lane::connection)
    }

    /// See [`crate::probe::Probe::write`].
    pub(super) fn write(&mut self, link: LinkId, out: &mut [u8]) -> Option<Piece> {
        match self.role(link) {
            Role::Lane(i) => self.lanes[i].write(out),
            Role::Canary(p) => self.paths[p].canaries.write(out),
            Role::Dial(_) | Role::Gone => None,
        }
    }

    /// See [`crate::probe::Probe::fill`].
    pub(super) fn fill(&mut self, link: LinkId, seq: u64, offset: usize, out: &mut [u8]) {
        match self.role(link) {
            Role::Lane(i) => {
                if let Some(connection) = self.lanes[i].connection() {
                    connection.stream.fill(seq, offset, out);
                }
            }
            Role::Canary(p) => self.paths[p].canaries.fill(seq, offset, out),
            Role::Dial(_) | Role::Gone => {}
        }
    }

    /// See [`crate::probe::Probe::stamp`].
    pub(super) fn stamp(&mut self, link: LinkId, sent_ns: u64, message: &mut [u8], cx: &Context) {
        let (utc_ns, error_ns) = (cx.clock.utc_of(sent_ns), cx.clock_error_ns);
        match self.role(link) {
            Role::Lane(i) => {
                if let Some(connection) = self.lanes[i].connection() {
                    connection.stream.stamp_at(utc_ns, error_ns, message);
                }
            }
            Role::Canary(p) => self.paths[p].canaries.stamp(utc_ns, error_ns, message),
            Role::Dial(_) | Role::Gone => {}
        }
    }

    /// Makes the connections of a path's schedule, which begins with its name's resolution.
    pub(super) fn dial(&mut self, p: usize, now: u64, grid: &mut Grid, cx: &mut Context) {
        let (dialer, path) = (&mut self.dialers[p], &mut self.paths[p]);
        if dialer.has_begun() || dialer.is_done() || cx.stopping || dialer.awaits_address(now, path, cx) {
            return;
        }
        let schedule = grid.schedule(p, self.paths.len(), now, cx);
        self.paths[p].begin(now, cx);
        self.dialers[p].begin(schedule, now, &mut self.paths[p], cx);
    }

    /// Makes the connections of each path that waited for an answering address and now has one.
    pub(super) fn dial_found(&mut self, now: u64, grid: &mut Grid, cx: &mut Context) {
        for p in 0..self.dialers.len() {
            if self.dialers[p].has_address() {
                self.dial(p, now, grid, cx);
            }
        }
    }

    /// Whether a path's schedule may begin: each of its lanes is connected, or one is and the others are not waited for.
    pub(super) fn may_begin(&self, p: usize, wait_for_all: bool) -> bool {
        let path = &self.paths[p];
        if path.origin_ns().is_some() || !path.has_open() {
            return false;
        }
        // Lanes open in order, so the last is the first to say no.
        let all_open = || self.lanes.iter().rev().filter(|lane| lane.path() == p).all(Lane::is_open);
        !wait_for_all || all_open()
    }

    /// Begins a path's schedule.
    pub(super) fn begin(&mut self, p: usize, now: u64, grid: &mut Grid, cx: &mut Context) {
        self.paths[p].begin(now, cx);
        let lanes = self.lanes.len();
        for i in 0..lanes {
            if self.lanes[i].path() == p {
                let schedule = grid.schedule(i, lanes, now, cx);
                self.lanes[i].begin(schedule, now, cx);
            }
        }
    }

    /// A timer of a lane, a canary connection or a dialer fires.
    pub(super) fn timer(&mut self, timer: Timer, at: u64, index: usize, now: u64, cx: &mut Context) {
        match timer {
            Timer::Canary => {
                let path = &mut self.paths[index];
                let open = path.open_remote();
                path.canaries.timer(at, now, open, cx);
            }
            Timer::Due if !self.dialers.is_empty() => {
                self.dialers[index].dial_due(now, &mut self.paths[index], cx);
            }
            Timer::DialDrain => self.dialers[index].drained(now, &mut self.paths[index], cx),
            Timer::DialLook => self.dialers[index].look(at, now, &mut self.paths[index], cx),
            Timer::DialLimit | Timer::DialClosing => {
                let link = LinkId::none_yet(index);
                let p = Dialer::path_of(link, self.lanes.len() + self.paths.len(), self.paths.len());
                let (dialer, path) = (&mut self.dialers[p], &mut self.paths[p]);
                match timer {
                    Timer::DialLimit => dialer.limit(at, now, link, path, cx),
                    _ => dialer.closing_late(now, link, path, cx),
                }
            }
            _ => {
                debug_assert!((timer as usize) < LANE_TIMERS, "{timer:?} is no lane's");
                let lane = &mut self.lanes[index];
                lane.timer(timer, at, now, &mut self.paths[lane.path()], cx);
            }
        }
    }

    /// Once a second: percentiles, lost datagrams, names that did not resolve, anomalies.
    pub(super) fn tick(&mut self, now: u64, cx: &mut Context) {
        for path in &mut self.paths {
            path.tick(now, cx);
        }
        let sent_before = now.saturating_sub(OUT_FOR_LONG_NS);
        let mut sent = vec![BTreeMap::new(); self.paths.len()];
        for lane in &mut self.lanes {
            let p = lane.path();
            lane.tick(now, &self.paths[p], cx);
            sent[p].extend(lane.owes_since(sent_before, cx.settings.transport));
        }
        for (dialer, path) in self.dialers.iter_mut().zip(&mut self.paths) {
            dialer.tick(now, path, cx);
            if !dialer.has_begun() && !dialer.is_done() {
                // A name that did not resolve at all.
                path.refresh_addresses(now, cx);
            }
        }
        self.report_anomalies(now, false, cx);
        self.tell_progress(now, sent, cx);
    }

    /// While samples are out for long, how many there are, so that a kill takes none of them without a trace. `sent`: how many
    /// on each connection of a path that has such samples.
    fn tell_progress(&mut self, now: u64, sent: Vec<BTreeMap<u32, u64>>, cx: &mut Context) {
        let sent_before = now.saturating_sub(OUT_FOR_LONG_NS);
        let dials_owe = |p: usize| self.dialers.get(p).is_some_and(|dialer| dialer.owes_since(sent_before));
        let owes: Vec<bool> = (0..sent.len()).map(|p| !sent[p].is_empty() || dials_owe(p)).collect();
        if !owes.contains(&true) {
            return;
        }
        // What falls due back to back is sent at once, and the others' part is not known here.
        let due = if cx.worker.is_alone() { self.due() } else { vec![0; owes.len()] };
        for (p, (due, sent)) in due.into_iter().zip(sent).enumerate().filter(|(p, _)| owes[*p]) {
            cx.event(now, Some(p), None, EventKind::ScheduleProgress { due, sent });
        }
    }

    /// Samples of each path that have fallen due.
    fn due(&self) -> Vec<u64> {
        let mut due: Vec<u64> =
            (0..self.paths.len()).map(|p| self.dialers.get(p).map_or(0, Dialer::due)).collect();
        for lane in &self.lanes {
            due[lane.path()] += lane.due();
        }
        for (due, path) in due.iter_mut().zip(&self.paths) {
            *due += path.due_before();
        }
        due
    }

    fn report_anomalies(&mut self, now: u64, last_chance: bool, cx: &mut Context) {
        for path in &mut self.paths {
            path.report_anomalies(now, last_chance, cx);
        }
    }

    /// What is on its way while the load comes or goes is neither idle nor loaded.
    pub(super) fn flag_outstanding(&mut self) {
        for connection in self.lanes.iter_mut().filter_map(Lane::connection) {
            connection.flag_outstanding(Flags::UNDER_LOAD | Flags::WARM_UP);
        }
    }

    /// A path's time is up, or it was never reached in the time that was given.
    pub(super) fn path_over(&mut self, p: usize, now: u64, cx: &mut Context) {
        let until = |origin: u64| cx.settings.duration_ns.map(|d| origin.saturating_add(d));
        if cx.stopping || self.paths[p].origin_ns().and_then(until).is_some_and(|until| now < until) {
            // The user was first; or it is the time that counted from the start, of a path that was reached meanwhile.
            return;
        }
        let timeout_ns = cx.settings.timeout_ns;
        self.paths[p].waited(now, cx);
        self.paths[p].give_up();
        if let Some(dialer) = self.dialers.get_mut(p) {
            if !dialer.has_begun() {
                dialer.abandon();
            }
            dialer.drain(now, timeout_ns, cx);
        }
        for lane in self.lanes.iter_mut().filter(|lane| lane.path() == p) {
            lane.stop(now, timeout_ns, cx);
        }
    }

    /// No more samples; the last echoes are waited for so long.
    pub(super) fn stop(&mut self, now: u64, linger_ns: u64, cx: &mut Context) {
        for path in &mut self.paths {
            path.waited(now, cx);
        }
        for lane in &mut self.lanes {
            lane.stop(now, linger_ns, cx);
        }
        for (dialer, path) in self.dialers.iter_mut().zip(&mut self.paths) {
            dialer.drain(now, linger_ns, cx);
            if linger_ns == 0 {
                dialer.end(now, path, cx);
            }
        }
    }

    /// The last that is to be told: deaths that no canary explained, anomalies, and how many samples of each path fell
    /// due, so that a reader can hold the rows against them.
    pub(super) fn tell_the_end(&mut self, now: u64, cx: &mut Context) {
        for path in &mut self.paths {
            path.canaries.explain_the_rest(now, cx);
        }
        self.report_anomalies(now, true, cx);
        for (p, due) in self.due().into_iter().enumerate() {
            if self.paths[p].origin_ns().is_some() || due > 0 {
                cx.event(now, Some(p), None, EventKind::ScheduleEnded { due });
            }
        }
    }
}
