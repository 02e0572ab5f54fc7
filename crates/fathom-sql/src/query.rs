//! One query: asked, and read to its end in constant memory.

mod reading;

use crate::beside::Beside;
use crate::done::Done;
use crate::error::{Loss, Trouble};
use crate::limit::is_ended;
use crate::login::{Login, is_closed};
use crate::looks::Looks;
use crate::looks::after::Before;
use crate::patience::Patience;
use crate::protocol::{Protocol, Step, Watch};
use crate::sending::Sending;
use crate::under_way::{Habits, Meanwhile, ROOM_EVERY_NS, UnderWay};
use crate::violation::{STALE, is_violation};
use crate::work::work_until;
use crate::{Config, Source, Stop};
use fathom_core::event::TcpInfo;
use fathom_core::query::{Party, Rtt, Served, Split};
use fathom_core::text::count;
use fathom_os::clock::mono_ns;
use fathom_os::pause::{RunQueue, Running};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A longer work on a row is cut into pieces.
const PIECE: Duration = Duration::from_millis(2);
/// For how late this side ran in a query, what it waited for a processor up to so long before it counts too: to ask takes 1 µs.
const SEAM_NS: u64 = 100_000;

/// A server is asked what it did for queries that took so long, and where there is so long until the next.
const AFTER_NS: u64 = 3_000_000;
/// Nobody waits longer for the answer, beyond four round trips, and in all: a server that is so busy is left alone.
const AFTER_WITHIN_NS: u64 = 100_000_000;
const AFTER_AT_MOST_NS: u64 = 1_000_000_000;

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
    /// For how long this process did not run, during it and since the one before.
    pub(crate) stood_ns: u64,
    /// For how long, during it, this machine kept this thread from running, as far as that was noticed: it waited for a processor, or
    /// the process did not run. Both may be of the same time, so that the longer counts. `None`: nobody knows.
    pub(crate) kept_ns: Option<u64>,
    /// Why it has no whole answer.
    pub(crate) error: Option<Trouble>,
    /// What the server answered elsewhere, where it is given up.
    pub(crate) meanwhile: Meanwhile,
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
    pub(crate) habits: Habits,
    pub(crate) run_queue: RunQueue,
    /// Learns when this process did not run; `None`: nobody knows.
    pub(crate) running: Option<Running>,
    /// What was seen when the query before it on this session, and on this thread, was over: the next begins with it.
    pub(crate) seam: Option<Seam>,
    /// What the server had counted before the query.
    pub(crate) before: Before,
}

/// Between two queries: what the kernel had counted, and for how long this thread had waited for a processor.
pub(crate) struct Seam {
    at_ns: u64,
    kernel: Option<TcpInfo>,
    waited_ns: Option<u64>,
}

/// Whether a server that says since when it is done could tell more: of what is over sooner nobody asks it.
fn is_open(split: &Split) -> bool {
    let server = split.part(Party::Server);
    split.wall_ns >= AFTER_NS
        && (split.why_not().is_some() || server.high_ns - server.low_ns > split.wall_ns / 4)
}

impl Asker<'_> {
    /// Asks it and reads the whole answer. The time of the run is over then, where it has one, and the next query is due then.
    pub(crate) fn ask(&mut self, over_ns: Option<u64>, next_ns: Option<u64>) -> Answer {
        if let (Some(looks), Some(watch)) = (&self.looks, &self.watch) {
            looks.watch(watch);
            self.before.begin(watch);
            // What came after the query before.
            drop(looks.seen());
        }
        self.beside.begin_slowest();
        // What is there by now nobody has asked for.
        let unasked = self.session.channel().unasked();
        let request = self.session.request(&self.sql, self.config);
        let (request, is_stale) = match unasked {
            Ok(is_there) => (request, is_there),
            Err(e) => (Err(e), false),
        };
        let bytes = request.as_ref().map_or(0, Vec::len);
        let sending = Sending::begin(bytes, self.session.channel());
        let (seam, now) = (self.seam.take(), mono_ns());
        let waited_ns = match &seam {
            Some(seam) if now.saturating_sub(seam.at_ns) < SEAM_NS => seam.waited_ns,
            _ => self.run_queue.waited_ns(),
        };
        // Nothing comes or goes between two queries.
        let before = seam.map_or_else(|| self.session.channel().info(), |seam| seam.kernel);
        let rtt = self.beside.rtt(now);
        let began_ns = mono_ns();
        // What was before is in no query.
        let pauses = self.running.as_mut().map_or(&[][..], |running| running.runs(began_ns));
        let idle_ns: u64 = pauses.iter().map(|(from_ns, to_ns)| to_ns.saturating_sub(*from_ns)).sum();
        let patience = Patience::new(began_ns, self.config.timeout, over_ns, &self.stop)
            .over_path(rtt.map(|rtt| rtt.high_ns));
        let habits = std::mem::take(&mut self.habits);
        let mut run = UnderWay::new(began_ns, patience, before.as_ref(), habits, waited_ns.is_some());
        run.sending = sending;
        run.is_stale = is_stale;
        run.line.sends_again_after(self.config.target.sends_again_after_ns());
        let lost = self.exchange(&mut run, request, rtt).err();
        let now = mono_ns();
        run.stood(self.running.as_mut(), now);
        let waited_after_ns = self.run_queue.waited_ns();
        let late_ns = waited_ns.zip(waited_after_ns).map(|(before, after)| after.saturating_sub(before));
        if let Some(late_ns) = late_ns {
            run.line.late_within(late_ns);
        }
        let waiting = run.waiting_since_ns;
        run.end_turn(self.looks.as_deref(), now, waiting);
        if let Some(since_ns) = waiting {
            // Of a wait that no bytes ended: the connection is lost, or the user did not want to wait.
            run.line.unanswered(since_ns, now);
        }
        let meanwhile = run.meanwhile(self.looks.as_deref(), now);
        if let Some(looks) = &self.looks {
            looks.query_ended();
        }
        if let Some(sending) = run.sending.take() {
            let (likely_ns, most_ns) = sending.took_ns(self.session.channel(), now.saturating_sub(began_ns));
            run.line.sending(likely_ns, most_ns);
        }
        let after = self.session.channel().info();
        self.seam = Some(Seam { at_ns: mono_ns(), kernel: after, waited_ns: waited_after_ns });
        let kernel = before.zip(after);
        let retransmits = kernel
            .as_ref()
            .map(|(before, after)| after.total_retrans.saturating_sub(before.total_retrans).into());
        if kernel.as_ref().is_some_and(|(before, after)| after.rcv_ooopack > before.rcv_ooopack) {
            run.line.disordered();
        }
        self.habits = run.habits();
        let (server_wait, done) = (run.waited_for(), run.done());
        let UnderWay { line, mut patience, refusal, first_row_ns, rows, stood_ns, is_cut_short, .. } = run;
        let (turns, looks, rtt_ns) = (line.turns().into(), line.looks().into(), line.rtt_ns());
        let mut split = line.end(now, retransmits, &self.beside.slowest(now, stood_ns));
        let mut error = lost.or_else(|| refusal.map(Trouble::Refused));
        // The round trip that only ends the batch is nobody's wait.
        if matches!(error, None | Some(Trouble::Refused(_)))
            && let Some(end) = self.session.after(self.config)
        {
            self.seam = None;
            error = self.sync(&end, &mut patience).err().or(error);
        }
        // An application would not have been done with it.
        let cut_short = is_cut_short.then_some(Trouble::Stopped { is_unanswered: false });
        let error = patience.judged(error).or(cut_short);
        if let Some(served) = done.served(None) {
            split.served(began_ns, &served);
        }
        if let Some(served) = self.asked_after(done, &split, rtt, error.is_none(), next_ns) {
            split.served(began_ns, &served);
        }
        let kept_ns = late_ns.max(self.running.is_some().then_some(stood_ns));
        let stood_ns = idle_ns + stood_ns;
        Answer {
            began_ns,
            first_row_ns,
            rows,
            turns,
            looks,
            server_wait,
            split,
            rtt_ns,
            kernel,
            stood_ns,
            kept_ns,
            error,
            meanwhile,
        }
    }

    /// What a server says of a query that is over, where not enough is known without, and there is time until the next.
    fn asked_after(
        &mut self,
        mut done: Done,
        split: &Split,
        rtt: Option<Rtt>,
        is_whole: bool,
        next_ns: Option<u64>,
    ) -> Option<Served> {
        let looks = self.looks.as_ref().filter(|_| is_whole && is_open(split) && self.stop.times() == 0);
        // A batch that had to be ended by itself was done with only then.
        let looks = looks.filter(|_| self.session.after(self.config).is_none());
        // Connections side by side load the server: one that waited for whoever looks at all of them would not.
        let looks = looks.filter(|_| self.config.connections == 1 || next_ns.is_some());
        let (now, rtt_ns) = (mono_ns(), rtt.map_or(0, |rtt| rtt.ns).saturating_mul(4));
        let until_ns = next_ns.unwrap_or(u64::MAX);
        let is_time = now.saturating_add(AFTER_NS).saturating_add(rtt_ns) < until_ns;
        let until_ns = until_ns.min(now + (AFTER_WITHIN_NS + rtt_ns).min(AFTER_AT_MOST_NS));
        let after = looks.filter(|_| is_time).and_then(|looks| looks.after(until_ns, &self.stop));
        let counted = after.as_ref().and_then(|after| after.counted.as_ref());
        let blocked_ns = self.before.blocked_ns(counted);
        let look = after?.look;
        self.habits.looked(&look);
        done.seen_after(&look);
        done.served(blocked_ns)
    }

    /// This thread runs: of what it missed the query is told, and of a query that has taken long whoever looks is.
    fn runs(&mut self, run: &mut UnderWay) -> u64 {
        let now = mono_ns();
        run.stood(self.running.as_mut(), now);
        if let Some(looks) = &self.looks {
            looks.runs(run.began_ns, now);
        }
        now
    }

    fn send(&mut self, run: &mut UnderWay, out: &[u8], rtt: Option<Rtt>) -> Result<(), Trouble> {
        let now = self.runs(run);
        run.end_turn(self.looks.as_deref(), now, None);
        run.request(now, rtt);
        self.send_all(out, &run.patience)
    }

    fn send_all(&mut self, out: &[u8], patience: &Patience) -> Result<(), Trouble> {
        let sent = self.session.channel().send(out, &patience.limit(mono_ns(), &self.login.clock));
        sent.map_err(|e| match e.kind() {
            _ if is_ended(&e) => Trouble::Stopped { is_unanswered: true },
            io::ErrorKind::TimedOut if e.raw_os_error().is_none() => patience.unsent(mono_ns()),
            _ => lost(&e),
        })
    }

    fn exchange(
        &mut self,
        run: &mut UnderWay,
        request: io::Result<Vec<u8>>,
        rtt: Option<Rtt>,
    ) -> Result<(), Trouble> {
        self.send(run, &request.map_err(|e| lost(&e))?, rtt)?;
        loop {
            while let Some(step) = self.session.step(self.config).map_err(|e| lost_of(&e, run.is_stale))? {
                match step {
                    Step::Rows(rows) => self.rows(run, rows)?,
                    Step::Counted { messages, rows } => run.rows = run.rows.saturating_sub(messages) + rows,
                    Step::Refused { refusal, .. } if refusal.is_fatal => {
                        return Err(Trouble::Lost(Loss::Told(refusal)));
                    }
                    Step::Refused { refusal, is_over } => {
                        // The first says why, and what follows what came of it.
                        run.refusal.get_or_insert(refusal);
                        if is_over {
                            return Ok(());
                        }
                    }
                    Step::Turn(out) => {
                        if let Some(trouble) = run.patience.between_pieces() {
                            return Err(trouble);
                        }
                        let rtt = self.beside.rtt(mono_ns());
                        self.send(run, &out, rtt)?;
                    }
                    Step::Also(out) => self.send_all(&out, &run.patience)?,
                    // The one before was answered twice, or by others: from here on each would have the answer of another.
                    Step::Over if run.is_stale => {
                        return Err(Trouble::Lost(Loss::NotUnderstood { words: STALE.to_owned() }));
                    }
                    Step::Over => return self.whole(run),
                }
            }
            let came = self.more(run);
            came.map_err(|trouble| match run.refusal.take_if(|_| self.is_of_the_error(&trouble)) {
                Some(refusal) => Trouble::Lost(Loss::Told(refusal)),
                None => trouble,
            })?;
        }
    }

    /// Whether the answer has the rows that fathom itself asked for: where a proxy lost all of them nothing else may tell. Of one that was to
    /// be ended early nobody expects them.
    fn whole(&self, run: &UnderWay) -> Result<(), Trouble> {
        let Source::Rows { rows, .. } = self.config.source else { return Ok(()) };
        let is_ended =
            run.refusal.is_some() || run.patience.cancelled_ns().is_some() || self.stop.times() > 0;
        if is_ended || run.rows == rows {
            return Ok(());
        }
        let came = count(run.rows, "row");
        let words = format!(
            "{came} came, and {rows} were asked for (a limit of the session's or a proxy's, or some were lost or doubled)"
        );
        Err(Trouble::Lost(Loss::NotUnderstood { words }))
    }

    /// Who closes after an error closes because of it, unless he was asked to end the query. Of `PostgreSQL` alone: after an error it does
    /// nothing more that was asked, and others may go on with the batch.
    fn is_of_the_error(&self, trouble: &Trouble) -> bool {
        let has_closed = match trouble {
            Trouble::Lost(Loss::Closed) => true,
            Trouble::Lost(Loss::Broke { kind, .. }) => is_closed(*kind),
            _ => false,
        };
        has_closed && matches!(self.config.target, crate::Target::Postgres(_)) && self.stop.times() == 0
    }

    /// Rows came, of which one is worked on for as long as `--think` says.
    fn rows(&mut self, run: &mut UnderWay, rows: u64) -> Result<(), Trouble> {
        run.first_row_ns.get_or_insert(run.read_ns - run.began_ns);
        run.rows += rows;
        if self.config.think.is_zero() {
            return Ok(());
        }
        self.work(run);
        // Many may lie here, each of which is worked on for long.
        let now = mono_ns();
        self.heed(&mut run.patience, now, now, 0)
    }

    fn work(&mut self, run: &mut UnderWay) {
        // Who wants to end no longer works.
        if self.stop.times() > 0 || !run.patience.works_on() {
            run.is_cut_short = true;
            return;
        }
        // In pieces, between which the kernel is asked what came meanwhile.
        let (mut now, pieces) = (self.room(run, 0), if self.config.think < PIECE { 1 } else { 4 });
        let (began_ns, stood_ns) = (now, run.stood_ns);
        let until_ns = began_ns + self.config.think.as_nanos() as u64;
        for left in (1..=pieces).rev() {
            let piece_ns = now + until_ns.saturating_sub(now) / left;
            work_until(piece_ns, &self.stop);
            now = self.room(run, ROOM_EVERY_NS);
        }
        run.patience.worked((now - began_ns).saturating_sub(run.stood_ns - stood_ns));
        run.is_cut_short |= self.stop.times() > 0;
    }

    /// Asks the kernel how much room there is for more, if so long nobody did; the time.
    fn room(&mut self, run: &mut UnderWay, every_ns: u64) -> u64 {
        let now = self.runs(run);
        run.room(self.session.channel(), self.looks.as_deref(), now, every_ns);
        now
    }
}

fn lost(error: &io::Error) -> Trouble {
    let words = error.to_string();
    // What TLS cannot open nobody has closed either.
    Trouble::Lost(if is_violation(error) || error.kind() == io::ErrorKind::InvalidData {
        Loss::NotUnderstood { words }
    } else {
        Loss::Broke { kind: error.kind(), words }
    })
}

/// The same of what was read; `is_stale`: it was there before anything was asked, which says more of it than what is wrong with it.
fn lost_of(error: &io::Error, is_stale: bool) -> Trouble {
    match lost(error) {
        Trouble::Lost(Loss::NotUnderstood { words }) if is_stale => {
            Trouble::Lost(Loss::NotUnderstood { words: format!("{STALE}: {words}") })
        }
        trouble => trouble,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_tls_record_is_not_a_close() {
        let damaged = io::Error::new(io::ErrorKind::InvalidData, "cannot decrypt peer's message");
        assert!(matches!(lost(&damaged), Trouble::Lost(Loss::NotUnderstood { .. })));
        assert!(matches!(lost(&io::ErrorKind::ConnectionReset.into()), Trouble::Lost(Loss::Broke { .. })));
    }
}
