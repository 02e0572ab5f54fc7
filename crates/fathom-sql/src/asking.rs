//! One connection: asks query after query when they are due, until it is enough. Several do so side by side, each on a thread of its
//! own; what they come to is written down in the order in which queries end.

use crate::beside::Beside;
use crate::connections::Retries;
use crate::error::Trouble;
use crate::failed::{self, Kind};
use crate::lock::lock;
use crate::query::{Answer, Asker};
use crate::record::Record;
use crate::turns::Turns;
use crate::{Config, Error, Stop};
use fathom_core::event::TcpInfo;
use fathom_core::query::Outcome;
use fathom_core::text::count;
use fathom_core::units::narrow::time_or_dash;
use fathom_os::clock::mono_ns;
use fathom_recording::Query;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A progress line after so long, and then again.
const PROGRESS_NS: u64 = 2_000_000_000;
/// Of several connections one whose sessions were lost so often, one after the other, before they answered anything, is given up.
const LOST_IN_A_ROW: u64 = 3;

/// What the connections of a run share.
pub(crate) struct Shared<'a> {
    pub(crate) config: &'a Config,
    pub(crate) stop: &'a Stop,
    pub(crate) record: &'a Record,
    pub(crate) beside: &'a Beside,
    pub(crate) began_ns: u64,
    book: Mutex<Book>,
    /// A query failed so that no other is to begin, on whichever connection.
    is_over: AtomicBool,
    /// Connections that have a session.
    alive: AtomicU64,
}

/// What they came to so far.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) outcome: Outcome,
    /// Why the run did not do what was asked, the first of it.
    pub(crate) error: Option<Error>,
    /// Of the queries that failed, besides the one that `error` is of: how many did by the same kind of failure, and by others.
    failed_alike: u64,
    failed_otherwise: u64,
    kind: Option<Kind>,
    /// A query ended that the server had not answered.
    pub(crate) is_abandoned: bool,
    told_ns: u64,
    /// Queries that began later than they were due by more than they are apart, and by how much the latest of them.
    overdue: u64,
    latest_ns: u64,
    /// How long connections waited for the recording, in all.
    waited_ns: u64,
    /// Queries that the user ended, by what became of them: how many, and the first.
    ended: BTreeMap<String, (u64, u64)>,
    is_unseen: bool,
}

impl Book {
    /// Says something of the run, with its result and in its recording.
    pub(crate) fn note(&mut self, record: &Record, text: String) {
        record.note(text.clone());
        self.outcome.asked.notes.push(text);
    }

    /// Of several that failed the first is told, and how many others did.
    fn with_others(&self, error: Error) -> Error {
        let others = |n: u64, how: &str| match n {
            0 => String::new(),
            1 => format!("; another one failed {how}"),
            n => format!("; {n} others failed {how}"),
        };
        let (alike, otherwise) =
            (others(self.failed_alike, "alike"), others(self.failed_otherwise, "otherwise"));
        match error {
            Error::Run(line) => Error::Run(format!("{line}{alike}{otherwise}")),
            error => error,
        }
    }

    /// What is said of all connections together, when they are at their end.
    pub(crate) fn close(&mut self, record: &Record, config: &Config) {
        for (came_after, (n, first)) in std::mem::take(&mut self.ended) {
            let text = match n {
                1 => format!("query {} was ended by you{came_after}", first + 1),
                n => format!(
                    "{n} queries were ended by you{}",
                    came_after.replace(", before", ", each before")
                ),
            };
            self.note(record, text);
        }
        let recording = if self.waited_ns > 0 { ", with what they waited for the recording," } else { "" };
        if self.waited_ns > 0 {
            let waited = time_or_dash(Some(self.waited_ns), 3);
            let of = if config.connections > 1 { " of all connections together" } else { "" };
            let text = format!(
                "queries came faster than they could be recorded: between them {waited}{of} went into waiting for the recording, and into no query's time"
            );
            self.note(record, text);
        }
        if let Some(every) = config.every.filter(|_| self.overdue > 0) {
            let [late, every] = [self.latest_ns, every.as_nanos() as u64].map(|ns| time_or_dash(Some(ns), 3));
            let (of, all) = (self.overdue, count(self.outcome.queries(), "query"));
            let text = format!(
                "{of} of {all} began more than the {every} from one to the next after they were due, the latest {late}: those before{recording} took too long"
            );
            self.note(record, text);
        }
        self.error = self.error.take().map(|error| self.with_others(error));
    }
}

/// Of a query that is written down: its ordinal in the run, and whether nobody looks at the server any more.
struct Written {
    number: u64,
    is_unseen: bool,
}

/// When the queries of a connection are due.
struct Plan<'a> {
    shared: &'a Shared<'a>,
    first_ns: u64,
    every_ns: Option<u64>,
    /// The time of the run is over then.
    over_ns: Option<u64>,
    /// So many are asked.
    most: Option<u64>,
}

impl<'a> Plan<'a> {
    fn new(shared: &'a Shared<'a>, connection: u64, settings: u64) -> Self {
        let (config, began_ns) = (shared.config, shared.began_ns);
        let every_ns = config.every.map(|every| every.as_nanos() as u64);
        // Each has a phase of its own.
        let first_ns = began_ns + every_ns.map_or(0, |ns| ns / config.connections * connection);
        let over_ns = config.lasts.map(|lasts| began_ns.saturating_add(lasts.as_nanos() as u64));
        let most = config.count.map(|count| count.saturating_mul(settings));
        Self { shared, first_ns, every_ns, over_ns, most }
    }

    fn due_ns(&self, asked: u64) -> u64 {
        self.every_ns.map_or_else(mono_ns, |ns| self.first_ns + asked * ns)
    }

    /// Where queries take longer than they are apart, their due is of a time long ago.
    fn is_over(&self, due_ns: u64, asked: u64) -> bool {
        self.shared.is_ended()
            || self.over_ns.is_some_and(|over_ns| due_ns.max(mono_ns()) >= over_ns)
            || self.most.is_some_and(|most| asked >= most)
    }
}

impl<'a> Shared<'a> {
    /// Of a run whose queries begin now.
    pub(crate) fn new(
        config: &'a Config,
        stop: &'a Stop,
        record: &'a Record,
        beside: &'a Beside,
        outcome: Outcome,
    ) -> Self {
        let began_ns = mono_ns();
        let book = Mutex::new(Book { outcome, told_ns: began_ns, ..Book::default() });
        let (is_over, alive) = (AtomicBool::new(false), config.connections.into());
        Self { config, stop, record, beside, began_ns, book, is_over, alive }
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }

    /// The end of what it shares.
    pub(crate) fn into_book(self) -> Book {
        self.book.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// No other query begins, on no connection.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether nobody wants another query.
    fn is_ended(&self) -> bool {
        self.stop.times() > 0 || self.is_over.load(Ordering::Relaxed)
    }

    fn is_one_of_several(&self) -> bool {
        self.config.connections > 1
    }

    /// Which connection, where there are several.
    fn of(&self, connection: u64) -> String {
        if self.is_one_of_several() { format!(" (connection {connection})") } else { String::new() }
    }

    /// Asks until it is enough, as the connection of this number, on the thread that is its own.
    pub(crate) fn ask_all(&self, turns: &mut Turns<'_>, connection: u64) {
        turns.on_this_thread();
        self.ask_until_over(turns, connection);
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }

    fn ask_until_over(&self, turns: &mut Turns<'_>, connection: u64) {
        let plan = Plan::new(self, connection, turns.settings());
        // Asked on this connection, and how many sessions were lost since it had an answer.
        let (mut asked, mut lost) = (0, 0);
        loop {
            // What the recording takes is in no query.
            let waited_ns = self.record.wait(|| self.is_ended());
            if waited_ns > 0 {
                self.book().waited_ns += waited_ns;
            }
            if !plan.is_over(plan.due_ns(asked), asked)
                && let Err(error) = turns.log_in(asked)
            {
                if self.stop.times() == 0 {
                    self.book().error.get_or_insert(error);
                }
                return;
            }
            // What a login takes is in no query.
            let due_ns = plan.due_ns(asked);
            if plan.is_over(due_ns, asked) || !self.wait_until(due_ns) {
                return;
            }
            let (turn, asker) = turns.next(asked);
            let next_ns = plan.every_ns.map(|_| plan.due_ns(asked + 1));
            let answer = asker.ask(plan.over_ns, next_ns);
            let (trouble, began_ns, stood_ns) = (answer.error.clone(), answer.began_ns, answer.stood_ns);
            let meanwhile = answer.meanwhile;
            let is_cancelled = trouble.as_ref().is_some_and(|of| failed::is_cancelled(of, self.stop));
            let late_ns = began_ns.saturating_sub(due_ns);
            if plan.every_ns.is_some_and(|every_ns| late_ns > every_ns) {
                let mut book = self.book();
                book.overdue += 1;
                book.latest_ns = book.latest_ns.max(late_ns);
            }
            let query = turn.of(row(connection, due_ns, answer, is_cancelled));
            let is_lost = matches!(trouble, Some(Trouble::Lost(_)));
            let Written { number, is_unseen } = self.write_down(asker, query, began_ns, is_lost);
            asked += 1;
            let Some(trouble) = trouble else {
                lost = 0;
                if is_unseen {
                    turns.end_looks();
                }
                continue;
            };
            lost += 1;
            let named = format!("{}{}", number + 1, self.of(connection));
            let error = if is_cancelled {
                None
            } else {
                failed::failure(&trouble, asker, &named, stood_ns, meanwhile)
            };
            self.explain(&trouble, error, number);
            if is_lost {
                turns.lost();
            }
            if !is_lost || !self.is_one_of_several() {
                // What a server says of the query it says to all.
                self.end();
                return;
            }
            if plan.is_over(plan.due_ns(asked), asked) {
                return;
            }
            if lost >= LOST_IN_A_ROW {
                let times = count(lost, "time");
                let text = format!("connection {connection} was lost {times} in a row, and is given up");
                self.is_one_fewer(connection, number + 1, &text);
                return;
            }
            if !self.log_in_again(turns, &plan, asked, connection) {
                return;
            }
        }
    }

    /// Writes a query down, as the next of the run; whether its session is lost.
    fn write_down(&self, asker: &Asker<'_>, query: Query, began_ns: u64, is_lost: bool) -> Written {
        let mut book = self.book();
        let query = Query { query: book.outcome.queries(), ..query };
        let (number, connection) = (query.query, query.connection);
        // One that is gone is another after its login.
        let is_gone = |error: &Error| matches!(error, Error::Gone(_));
        let unseen = asker.looks.as_ref().and_then(|looks| looks.failure()).filter(|error| !is_gone(error));
        // A session that was lost is not seen either, and no query follows on it.
        let is_news =
            if self.is_one_of_several() { query.error.is_none() && !book.is_unseen } else { !is_lost };
        if let Some(error) = unseen.as_ref().filter(|_| is_news) {
            book.is_unseen = true;
            let of = self.of(connection);
            let text = format!("from query {}{of} on the server's states are not known: {error}", number + 1);
            book.note(self.record, text);
        }
        book.outcome.add(&query);
        book.outcome.asked.unanswered_beside = Some(self.beside.failed());
        self.record.query(query, began_ns);
        let now = mono_ns();
        if !self.config.quiet && now - book.told_ns > PROGRESS_NS {
            book.told_ns = now;
            let rows = count(book.outcome.rows(), "row");
            (self.config.tell)(&format!("{} asked: {rows}", book.outcome.queries()));
        }
        Written { number, is_unseen: unseen.is_some() }
    }

    /// What becomes of the run where a query has no whole answer; no error: the user ended it.
    fn explain(&self, trouble: &Trouble, error: Option<Error>, number: u64) {
        let mut book = self.book();
        match error {
            Some(error) => {
                let kind = Kind::of(trouble);
                match &book.kind {
                    None => (book.kind, book.error) = (Some(kind), book.error.take().or(Some(error))),
                    Some(first) if *first == kind => book.failed_alike += 1,
                    Some(_) => book.failed_otherwise += 1,
                }
            }
            None => book.ended.entry(failed::came_after(trouble)).or_insert((0, number)).0 += 1,
        }
        book.is_abandoned |= matches!(
            trouble,
            Trouble::Stopped { is_unanswered: true }
                | Trouble::Left { .. }
                | Trouble::Late { is_unanswered: true, .. }
        );
    }

    /// A session was lost: logs in for another, for as long as the server may let somebody in later; and where it says that it will not,
    /// for as long as others have a session, unless it is the user or the password that it does not want.
    fn log_in_again(&self, turns: &mut Turns<'_>, plan: &Plan<'_>, asked: u64, connection: u64) -> bool {
        self.alive.fetch_sub(1, Ordering::Relaxed);
        let (lost_ns, lost_from) = (mono_ns(), self.book().outcome.queries());
        let (mut retries, mut tries) = (Retries::begin(self.config.connect_timeout), 0_u64);
        let outcome = loop {
            tries += 1;
            let Err(error) = turns.log_in_again() else { break Ok(()) };
            let may_pass = error.passes() || (!error.is_barred() && self.alive.load(Ordering::Relaxed) > 0);
            let next_ns = retries.next(may_pass).filter(|next_ns| !plan.is_over(*next_ns, asked));
            if next_ns.is_none_or(|next_ns| !self.wait_until(next_ns)) {
                break Err(error);
            }
        };
        // The end of this one takes it away again.
        self.alive.fetch_add(1, Ordering::Relaxed);
        if self.is_ended() && outcome.is_err() {
            return false;
        }
        let took = time_or_dash(Some(mono_ns() - lost_ns), 3);
        match &outcome {
            Ok(()) => {
                let after = if tries > 1 { format!(" after {took}") } else { String::new() };
                let text = format!("connection {connection} was lost, and has logged in anew{after}");
                self.book().note(self.record, text);
            }
            Err(error) => {
                let tried =
                    if tries > 1 { format!(", though that was tried for {took}") } else { String::new() };
                let text = format!("connection {connection} was lost, and is not replaced{tried}: {error}");
                self.is_one_fewer(connection, lost_from, &text);
            }
        }
        outcome.is_ok()
    }

    /// A connection has no session any more from here on: the load is another, which nobody is to overlook.
    fn is_one_fewer(&self, connection: u64, lost_from: u64, text: &str) {
        let mut book = self.book();
        if let Some(one) =
            usize::try_from(connection).ok().and_then(|at| book.outcome.asked.connections.get_mut(at))
        {
            one.lost_from = Some(lost_from);
        }
        let all = count(book.outcome.asked.connections.len() as u64, "connection");
        let left = book.outcome.asked.connections.iter().filter(|one| one.lost_from.is_none()).count();
        let text = format!("{text}; from query {} on {left} of {all} ask", lost_from + 1);
        if !self.config.quiet {
            (self.config.tell)(&text);
        }
        book.note(self.record, text);
    }

    /// Whether nobody ended the run meanwhile.
    fn wait_until(&self, due_ns: u64) -> bool {
        while !self.is_ended() {
            let now = mono_ns();
            if now >= due_ns {
                return true;
            }
            std::thread::sleep(Duration::from_nanos(due_ns - now).min(Duration::from_millis(50)));
        }
        false
    }
}

/// All of its row but what it is of the run.
fn row(connection: u64, due_ns: u64, answer: Answer, is_cancelled: bool) -> Query {
    let kernel = answer.kernel.as_ref();
    let delta = |of: fn(&TcpInfo) -> u64| kernel.map(|(before, after)| of(after).saturating_sub(of(before)));
    Query {
        query: 0,
        connection,
        started_ns: 0,
        lateness_ns: answer.began_ns as i64 - due_ns as i64,
        first_row_ns: answer.first_row_ns,
        rows: answer.rows,
        turns: answer.turns,
        bytes_received: delta(|info| info.bytes_received),
        bytes_sent: delta(|info| info.bytes_acked),
        segments_received: delta(|info| info.data_segs_in.into()),
        retransmits: delta(|info| info.total_retrans.into()),
        rtt_ns: answer.rtt_ns,
        looks: answer.looks,
        split: answer.split,
        server_wait: answer.server_wait,
        kept_ns: answer.kept_ns,
        error: answer.error.as_ref().map(|trouble| failed::words(trouble, is_cancelled)),
        is_first: false,
        setting: None,
        login: None,
        fetch_size: None,
        packet_size: None,
    }
}
