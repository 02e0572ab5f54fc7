//! One query: asked, read to its end in constant memory, and its timeline told to `fathom_core::query`.

use crate::beside::Beside;
use crate::error::{Refusal, Trouble};
use crate::limit::is_ended;
use crate::looks::{Look, Looks};
use crate::patience::{Heeded, Patience};
use crate::protocol::{Protocol, Step, Watch};
use crate::session::Login;
use crate::work::work_until;
use crate::{Config, Stop};
use fathom_core::event::TcpInfo;
use fathom_core::query::{Room, Rtt, ServerState, Split, Timeline};
use fathom_os::clock::mono_ns;
use fathom_os::pause::{RunQueue, Running};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long a wait lasts before somebody looks whether the run is to end.
const PATIENCE: Duration = Duration::from_millis(20);
/// A longer work on a row is cut into pieces.
const PIECE: Duration = Duration::from_millis(2);
/// The kernel is asked what room there is at most so often where this side is busy with nothing but reading.
const ROOM_EVERY_NS: u64 = 200_000;
/// Where this side waited for less, the first byte is not read by itself, which takes 1 µs and has the server's kernel answer one more
/// acknowledgement: that it was read late, and how late at most, the scheduler knows.
const SHORT_WAIT_NS: u64 = 250_000;

/// What became of a query.
pub(crate) struct Answer {
    pub(crate) began_ns: u64,
    pub(crate) first_row_ns: Option<u64>,
    pub(crate) rows: u64,
    pub(crate) turns: u64,
    pub(crate) looks: u64,
    pub(crate) server_wait: Option<String>,
    pub(crate) split: Split,
    /// The path's round trip that it was split with.
    pub(crate) rtt_ns: Option<u64>,
    /// The kernel's counters before and after.
    pub(crate) kernel: Option<(TcpInfo, TcpInfo)>,
    /// Why it has no whole answer.
    pub(crate) error: Option<Trouble>,
}

/// Asks queries, one after the other, on one session.
pub(crate) struct Asker<'a> {
    pub(crate) session: Box<dyn Protocol>,
    pub(crate) login: &'a Login,
    pub(crate) config: &'a Config,
    pub(crate) sql: String,
    pub(crate) beside: Beside,
    /// Of this connection, and how they see this session.
    pub(crate) looks: Option<Arc<Looks>>,
    pub(crate) watch: Option<Arc<Watch>>,
    pub(crate) stop: Stop,
    /// How long the latest looks took, and the first waits of answers.
    pub(crate) look_times_ns: VecDeque<u64>,
    pub(crate) first_waits_ns: VecDeque<u64>,
    pub(crate) run_queue: RunQueue,
    /// Learns when this process did not run; `None`: nobody knows.
    pub(crate) running: Option<Running>,
}

/// One query under way.
struct Run {
    line: Timeline,
    looks: VecDeque<Look>,
    /// When the latest of them was answered.
    looked_ns: u64,
    waits: HashMap<String, u64>,
    began_ns: u64,
    first_row_ns: Option<u64>,
    rows: u64,
    refusal: Option<Refusal>,
    patience: Patience,
    /// Since then bytes are waited for that have not come: a request was sent, or nothing was there.
    waiting_since_ns: Option<u64>,
    /// The least round trip that the kernel knew of when it began.
    min_rtt_ns: Option<u64>,
    /// When the latest request was sent, and whether anything of its answer has come.
    requested_ns: u64,
    is_answered: bool,
    /// When the kernel was last asked what room there is.
    asked_room_ns: u64,
    /// How long the latest looks took.
    look_times_ns: VecDeque<u64>,
    /// The scheduler tells how late this side runs.
    is_lateness_known: bool,
    /// For how long this process did not run; and since it last did not, the kernel was not asked what had come.
    stood_ns: u64,
    has_stood: bool,
    /// Rows came that were not worked on, or not for all of `--think`: the user ended the run, or the query took too long.
    is_cut_short: bool,
}

/// Looks that are remembered, and fewer say nothing.
const LOOK_TIMES: std::ops::RangeInclusive<usize> = 5..=16;

/// The path's round trip: no look is answered sooner. Set-ups of connections are few, and many of them of the beginning.
fn no_longer_than(rtt: Rtt, looks_ns: &VecDeque<u64>) -> Rtt {
    if looks_ns.len() < *LOOK_TIMES.start() {
        return rtt;
    }
    let mut sorted: Vec<_> = looks_ns.iter().copied().collect();
    sorted.sort_unstable();
    Rtt { ns: rtt.ns.min(sorted[sorted.len() / 2]).max(rtt.low_ns), ..rtt }
}

impl Asker<'_> {
    /// Asks it and reads the whole answer. The time of the run is over then, where it has one.
    pub(crate) fn ask(&mut self, over_ns: Option<u64>) -> Answer {
        if let (Some(looks), Some(watch)) = (&self.looks, &self.watch) {
            looks.watch(watch);
            // What came after the query before.
            drop(looks.seen());
        }
        self.beside.begin_slowest();
        let request = self.session.request(&self.sql, self.config);
        let before = self.session.channel().info();
        let late_ns = self.run_queue.waited_ns();
        if let Some(looks) = &self.looks {
            looks.query_begins();
        }
        let began_ns = mono_ns();
        if let Some(running) = &mut self.running {
            // What was before is in no query.
            running.runs(began_ns);
        }
        let mut run = Run {
            line: Timeline::new(began_ns),
            looks: VecDeque::new(),
            looked_ns: 0,
            waits: HashMap::new(),
            began_ns,
            first_row_ns: None,
            rows: 0,
            refusal: None,
            patience: Patience::new(began_ns, self.config.timeout, over_ns, &self.stop)
                .over_path(self.beside.rtt(began_ns).map(|rtt| rtt.high_ns)),
            waiting_since_ns: None,
            // It is 2^32 - 1 before there was any.
            min_rtt_ns: before
                .as_ref()
                .filter(|info| info.min_rtt_us > 0 && info.min_rtt_us < u32::MAX)
                .map(|info| u64::from(info.min_rtt_us) * 1_000),
            requested_ns: began_ns,
            is_answered: false,
            asked_room_ns: began_ns,
            look_times_ns: std::mem::take(&mut self.look_times_ns),
            is_lateness_known: late_ns.is_some(),
            stood_ns: 0,
            has_stood: false,
            is_cut_short: false,
        };
        if let Some(looks) = &self.looks {
            looks.query_began(began_ns);
        }
        let lost = self.exchange(&mut run, request).err();
        let now = mono_ns();
        self.stood(&mut run, now);
        if let Some((before, after)) = late_ns.zip(self.run_queue.waited_ns()) {
            run.line.late_within(after.saturating_sub(before));
        }
        let waiting = run.waiting_since_ns;
        self.end_turn(&mut run, now, waiting);
        if let Some(since_ns) = waiting {
            // Of a wait that no bytes ended: the connection is lost, or the user did not want to wait.
            run.line.unanswered(since_ns, now);
        }
        if let Some(looks) = &self.looks {
            looks.query_ended();
        }
        let kernel = before.zip(self.session.channel().info());
        let retransmits = kernel
            .as_ref()
            .map(|(before, after)| after.total_retrans.saturating_sub(before.total_retrans).into());
        if kernel.as_ref().is_some_and(|(before, after)| after.rcv_ooopack > before.rcv_ooopack) {
            run.line.disordered();
        }
        let (turns, looks) = (run.line.turns().into(), run.line.looks().into());
        let rtt_ns = run.line.rtt_ns();
        let split = run.line.end(now, retransmits, self.beside.slowest_ns(now, run.stood_ns));
        self.look_times_ns = std::mem::take(&mut run.look_times_ns);
        let mut error = lost.or_else(|| run.refusal.take().map(Trouble::Refused));
        // The round trip that only ends the batch is nobody's wait.
        if matches!(error, None | Some(Trouble::Refused(_)))
            && let Some(end) = self.session.after(self.config)
        {
            error = self.sync(&end, &mut run.patience).err().or(error);
        }
        // An application would not have been done with it.
        let cut_short = run.is_cut_short.then_some(Trouble::Stopped { is_unanswered: false });
        let error = run.patience.judged(error).or(cut_short);
        Answer {
            began_ns,
            first_row_ns: run.first_row_ns,
            rows: run.rows,
            turns,
            looks,
            server_wait: mostly(run.waits, looks),
            split,
            rtt_ns,
            kernel,
            error,
        }
    }

    /// A request. From here to the first bytes of its answer this side has nothing to do but to wait, also where those come before
    /// the kernel has given back the call that sends (on one host they do).
    fn send(&mut self, run: &mut Run, out: &[u8]) -> Result<(), Trouble> {
        let now = mono_ns();
        self.stood(run, now);
        self.end_turn(run, now, None);
        let own_ns = self.own_round_trip_ns(run);
        let rtt = self.beside.rtt(now).map(|rtt| no_longer_than(rtt.beside_own(own_ns), &run.look_times_ns));
        run.line.request(now, rtt);
        (run.waiting_since_ns, run.requested_ns, run.is_answered) = (Some(now), now, false);
        self.send_all(out, &run.patience)
    }

    /// No round trip of this path was longer at the least: what the kernel saw on this connection, what looks took, and
    /// requests that were answered.
    fn own_round_trip_ns(&self, run: &Run) -> u64 {
        let waits = self.first_waits_ns.iter().chain(&run.look_times_ns).copied();
        run.min_rtt_ns.into_iter().chain(waits).min().unwrap_or(u64::MAX)
    }

    /// The first bytes of an answer came after so long.
    fn answered(&mut self, run: &mut Run, waited_ns: u64) {
        // Bytes that were there before the request are no answer to it.
        if std::mem::replace(&mut run.is_answered, true) || waited_ns == 0 {
            return;
        }
        self.first_waits_ns.push_back(waited_ns);
        if self.first_waits_ns.len() > *LOOK_TIMES.end() {
            self.first_waits_ns.pop_front();
        }
    }

    /// Tells of the looks of a turn that is over, and of one that should have come.
    fn end_turn(&self, run: &mut Run, now: u64, waiting_since_ns: Option<u64>) {
        // Asked first: one that comes meanwhile is noted.
        let under_way = self.looks.as_ref().and_then(|looks| looks.under_way());
        self.note_looks(run, now, waiting_since_ns);
        if let (Some(asked_ns), true) = (under_way, run.line.turns() > 0) {
            run.line.unlooked(asked_ns, now);
        }
    }

    fn send_all(&mut self, out: &[u8], patience: &Patience) -> Result<(), Trouble> {
        let sent = self.session.channel().send(out, &patience.limit(mono_ns()));
        sent.map_err(|e| match e.kind() {
            _ if is_ended(&e) => Trouble::Stopped { is_unanswered: true },
            io::ErrorKind::TimedOut if e.raw_os_error().is_none() => patience.unsent(mono_ns()),
            _ => lost(&e),
        })
    }

    fn exchange(&mut self, run: &mut Run, request: io::Result<Vec<u8>>) -> Result<(), Trouble> {
        self.send(run, &request.map_err(|e| lost(&e))?)?;
        loop {
            while let Some(step) = self.session.step(self.config).map_err(|e| lost(&e))? {
                match step {
                    Step::Row => self.row(run)?,
                    Step::Counted { messages, rows } => run.rows = run.rows.saturating_sub(messages) + rows,
                    Step::Refused { refusal, .. } if refusal.is_fatal => {
                        return Err(Trouble::Lost(refusal.words()));
                    }
                    Step::Refused { refusal, is_over } => {
                        // The first says why, and what follows what came of it.
                        run.refusal.get_or_insert(refusal);
                        if is_over {
                            return Ok(());
                        }
                    }
                    Step::Turn(out) => match run.patience.between_pieces() {
                        Some(trouble) => return Err(trouble),
                        None => self.send(run, &out)?,
                    },
                    Step::Also(out) => self.send_all(&out, &run.patience)?,
                    Step::Over => return Ok(()),
                }
            }
            self.more(run)?;
        }
    }

    /// A row came, and is worked on for as long as `--think` says.
    fn row(&mut self, run: &mut Run) -> Result<(), Trouble> {
        if run.first_row_ns.is_none() {
            run.first_row_ns = Some(mono_ns().saturating_sub(run.began_ns));
        }
        run.rows += 1;
        if self.config.think.is_zero() {
            return Ok(());
        }
        self.work(run);
        // Many may lie here, each of which is worked on for long.
        self.heed(&mut run.patience, mono_ns(), 0)
    }

    fn work(&mut self, run: &mut Run) {
        let works_until_ns = run.patience.works_until_ns();
        // Who wants to end no longer works.
        if self.stop.times() > 0 || works_until_ns <= mono_ns() {
            run.is_cut_short = true;
            return;
        }
        // In pieces, between which the kernel is asked what came meanwhile.
        let (mut now, pieces) = (self.room(run, 0), if self.config.think < PIECE { 1 } else { 4 });
        let until_ns = works_until_ns.min(now + self.config.think.as_nanos() as u64);
        for left in (1..=pieces).rev() {
            let piece_ns = now + until_ns.saturating_sub(now) / left;
            work_until(piece_ns, &self.stop);
            now = self.room(run, ROOM_EVERY_NS);
        }
        run.is_cut_short |= self.stop.times() > 0 || now >= works_until_ns;
    }

    /// Asks the kernel how much room there is for more, if so long nobody did; the time.
    fn room(&mut self, run: &mut Run, every_ns: u64) -> u64 {
        let now = mono_ns();
        self.stood(run, now);
        if std::mem::take(&mut run.has_stood) {
            if let Some((room, quiet_ns)) = self.session.channel().quiet_room() {
                self.note_looks(run, now, None);
                run.line.room_after_pause(now, room, quiet_ns);
            }
        } else if now.saturating_sub(run.asked_room_ns) >= every_ns {
            run.asked_room_ns = now;
            if let Some(room) = self.session.channel().room() {
                // Looks are in their order with it.
                self.note_looks(run, now, None);
                run.line.room(now, room);
            }
        }
        now
    }

    /// This thread runs: of the pauses that it learns of now the query is told, before anything that comes after them is.
    fn stood(&mut self, run: &mut Run, now: u64) {
        let Some(running) = &mut self.running else { return };
        let mut pauses = running.runs(now).to_vec();
        // As they were noticed.
        pauses.sort_unstable();
        for (from_ns, to_ns) in pauses {
            let from_ns = from_ns.max(run.began_ns);
            run.line.stood(from_ns, to_ns);
            run.patience.stood(from_ns, to_ns);
            run.stood_ns += to_ns.saturating_sub(from_ns);
            run.has_stood = true;
        }
    }

    /// What the kernel says before this side reads what came while it did not run, and when; `None`: it ran.
    fn room_after_pause(&mut self, run: &mut Run) -> Option<(u64, Room, u64)> {
        let was_told = std::mem::take(&mut run.has_stood);
        let (room, quiet_ns) = was_told.then(|| self.session.channel().quiet_room())??;
        Some((mono_ns(), room, quiet_ns))
    }

    /// Reads what is there, or waits for it.
    fn more(&mut self, run: &mut Run) -> Result<(), Trouble> {
        let is_first = run.waiting_since_ns.is_some();
        let asked_ns = run.waiting_since_ns.unwrap_or_else(mono_ns);
        self.stood(run, mono_ns());
        self.heed(&mut run.patience, asked_ns, run.looked_ns)?;
        if !is_first {
            self.note_looks(run, asked_ns, None);
            self.room(run, ROOM_EVERY_NS);
        }
        let after_pause = self.room_after_pause(run);
        match self.session.channel().fill() {
            Ok(filled) if filled.bytes == 0 => return Err(closed()),
            Ok(filled) => {
                let came_ns = filled.came_ns.clamp(asked_ns, mono_ns());
                self.answered(run, came_ns - asked_ns);
                run.line.received(is_first.then_some((asked_ns, came_ns)), filled.bytes);
                // What was there when this side came to read had come before.
                let arrived_ns = filled.came_ns.clamp(run.began_ns, came_ns);
                run.line.arrived(None, arrived_ns, filled.bytes);
                if let Some((at_ns, room, quiet_ns)) = after_pause {
                    run.line.room_after_pause(at_ns, room, quiet_ns);
                }
                run.waiting_since_ns = None;
                return Ok(());
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => run.waiting_since_ns = Some(asked_ns),
            Err(e) => return Err(lost(&e)),
        }
        loop {
            let ready = self.session.channel().wait(PATIENCE).map_err(|e| lost(&e))?;
            let woke_ns = mono_ns();
            self.stood(run, woke_ns);
            let after_pause = ready.then(|| self.room_after_pause(run)).flatten();
            let is_exact = !run.is_lateness_known || woke_ns.saturating_sub(asked_ns) >= SHORT_WAIT_NS;
            let channel = self.session.channel();
            let filled = if !ready {
                Err(io::ErrorKind::WouldBlock.into())
            } else if is_exact {
                channel.fill_after_wait()
            } else {
                // Its last byte came before it was read, and its first before this side woke.
                channel.fill().map(|filled| (filled, filled.came_ns.min(woke_ns)))
            };
            match filled {
                Ok((filled, _)) if filled.bytes == 0 => return Err(closed()),
                Ok((filled, first_ns)) => {
                    // A stamp from before the wait is one of a clock that was set.
                    let now = mono_ns();
                    let came_ns = first_ns.clamp(asked_ns, now);
                    self.note_looks(run, came_ns, Some(asked_ns));
                    self.answered(run, came_ns - asked_ns);
                    run.line.received(Some((asked_ns, came_ns)), filled.bytes);
                    let last_ns = filled.came_ns.clamp(came_ns, now);
                    if is_exact {
                        run.line.arrived(Some(came_ns), last_ns, filled.bytes);
                    } else {
                        run.line.arrived_since(asked_ns, last_ns, filled.bytes);
                    }
                    if let Some((at_ns, room, quiet_ns)) = after_pause {
                        run.line.room_after_pause(at_ns, room, quiet_ns);
                    }
                    run.waiting_since_ns = None;
                    return Ok(());
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    // Some of what came meanwhile is seen only later.
                    self.note_looks(run, mono_ns().saturating_sub(1_000_000), Some(asked_ns));
                    self.heed(&mut run.patience, asked_ns, run.looked_ns)?;
                }
                Err(e) => return Err(lost(&e)),
            }
        }
    }

    /// Tells the timeline of the looks until then, of which it knows that this side was busy, or had waited since a moment.
    fn note_looks(&self, run: &mut Run, until_ns: u64, waiting_since_ns: Option<u64>) {
        let Some(looks) = &self.looks else { return };
        run.looks.extend(looks.seen());
        run.looked_ns = run.looks.back().map_or(run.looked_ns, |look| look.at_ns);
        while let Some(look) = run.looks.pop_front_if(|look| look.at_ns <= until_ns) {
            match waiting_since_ns {
                Some(since_ns) if look.at_ns > since_ns => run.line.still_waiting(since_ns, look.at_ns),
                _ => run.line.busy_until(look.at_ns),
            }
            let state = look.state.believed(look.since, run.requested_ns);
            run.line.look(look.asked_ns, look.at_ns, state);
            run.look_times_ns.push_back(look.at_ns.saturating_sub(look.asked_ns));
            if run.look_times_ns.len() > *LOOK_TIMES.end() {
                run.look_times_ns.pop_front();
            }
            if let (ServerState::Working, Some(wait)) = (state, look.wait) {
                *run.waits.entry(wait).or_default() += 1;
            }
        }
    }

    /// Whether to wait on for a server that has said nothing since then; asks it to cancel the query where not.
    fn heed(&mut self, patience: &mut Patience, silent_since_ns: u64, looked_ns: u64) -> Result<(), Trouble> {
        let now = mono_ns();
        let beside_ns = if patience.is_over(now) { self.heard_beside_ns(looked_ns) } else { 0 };
        match patience.heed(now, silent_since_ns.max(beside_ns)) {
            Heeded::GoOn => match self.session.unasked() {
                Some(error) => Err(patience.unasked(error)),
                None => Ok(()),
            },
            Heeded::Cancel => match self.session.cancel(self.login).map_err(|e| lost(&e))? {
                Some(out) => self.send_all(&out, patience),
                None => Err(patience.uncancelled()),
            },
            Heeded::GiveUp(trouble) => Err(trouble),
        }
    }

    /// When the server, or its host, last answered something beside the query, a look too: it may be asked for what takes long. Not where
    /// it has not even acknowledged what was sent on this connection, which is then dead by itself.
    fn heard_beside_ns(&mut self, looked_ns: u64) -> u64 {
        let is_heard = self.session.channel().info().is_none_or(|info| info.unacked == 0);
        if is_heard { self.beside.heard_ns().max(looked_ns) } else { 0 }
    }

    /// Ends a query whose answer was whole.
    fn sync(&mut self, end: &[u8], patience: &mut Patience) -> Result<(), Trouble> {
        self.send_all(end, patience)?;
        let asked_ns = mono_ns();
        loop {
            while let Some(step) = self.session.step(self.config).map_err(|e| lost(&e))? {
                if let Step::Over = step {
                    return Ok(());
                }
            }
            match self.session.channel().fill() {
                Ok(filled) if filled.bytes == 0 => return Err(closed()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.session.channel().wait(PATIENCE).map_err(|e| lost(&e))?;
                    self.heed(patience, asked_ns, 0)?;
                }
                Err(e) => return Err(lost(&e)),
            }
        }
    }
}

/// What the server was seen to wait for at more than half of all looks: without one it was seen at work, or elsewhere, for longer.
fn mostly(waits: HashMap<String, u64>, looks: u64) -> Option<String> {
    waits.into_iter().find(|(_, n)| n.saturating_mul(2) > looks).map(|(name, _)| name)
}

fn lost(error: &io::Error) -> Trouble {
    Trouble::Lost(format!("the connection broke: {error}"))
}

fn closed() -> Trouble {
    Trouble::Lost("the server closed the connection".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of forty looks two saw it sleep, and the others at work: it did not wait for most of the time.
    #[test]
    fn what_is_seldom_seen_is_not_what_the_server_waited_for() {
        let waits = |n| HashMap::from([("Timeout/PgSleep".to_owned(), n), ("IO/DataFileRead".to_owned(), 1)]);
        assert_eq!(mostly(waits(2), 40), None);
        assert_eq!(mostly(waits(20), 40), None);
        assert_eq!(mostly(waits(21), 40).as_deref(), Some("Timeout/PgSleep"));
        assert_eq!(mostly(HashMap::new(), 0), None);
    }
}
