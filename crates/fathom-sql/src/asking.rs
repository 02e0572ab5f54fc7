//! One connection: asks query after query when they are due, until it is enough. Several do so side by side, each on a thread of its
//! own; what they come to is written down in the order in which queries end.

use crate::beside::Beside;
use crate::error::Trouble;
use crate::lock::lock;
use crate::query::{Answer, Asker};
use crate::record::Record;
use crate::turns::Turns;
use crate::{Config, Error, Stop};
use fathom_core::event::TcpInfo;
use fathom_core::query::{NOT_WAITED_FOR, Outcome};
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
/// From one try to replace a lost session to the next, at first; then twice as long.
const LOG_IN_AFTER: Duration = Duration::from_millis(250);
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
    /// A query ended that the server had not answered.
    pub(crate) is_abandoned: bool,
    told_ns: u64,
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
        if let Some(every) = config.every.filter(|every| self.latest_ns > every.as_nanos() as u64) {
            let [late, every] = [self.latest_ns, every.as_nanos() as u64].map(|ns| time_or_dash(Some(ns), 3));
            let text = format!(
                "the queries{recording} took longer than the {every} from one to the next: the latest began {late} late"
            );
            self.note(record, text);
        }
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
        let (mut asked, mut lost, mut latest_ns) = (0, 0, 0);
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
                let mut book = self.book();
                book.latest_ns = book.latest_ns.max(latest_ns);
                return;
            }
            let (turn, asker) = turns.next(asked);
            let answer = asker.ask(plan.over_ns);
            let (trouble, began_ns) = (answer.error.clone(), answer.began_ns);
            latest_ns = latest_ns.max(began_ns.saturating_sub(due_ns));
            let query = turn.of(row(connection, due_ns, answer));
            let Written { number, is_unseen } = self.write_down(asker, query, began_ns);
            asked += 1;
            let Some(trouble) = trouble else {
                lost = 0;
                if is_unseen {
                    turns.end_looks();
                }
                continue;
            };
            lost += 1;
            self.explain(&trouble, asker, number, connection);
            if !matches!(trouble, Trouble::Lost(_)) || !self.is_one_of_several() {
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
                self.book().note(self.record, text);
                return;
            }
            if !self.log_in_again(turns, connection) {
                return;
            }
        }
    }

    /// Writes a query down, as the next of the run.
    fn write_down(&self, asker: &Asker<'_>, query: Query, began_ns: u64) -> Written {
        let mut book = self.book();
        let query = Query { query: book.outcome.queries(), ..query };
        let (number, connection) = (query.query, query.connection);
        // A session that was lost is not seen either.
        let unseen = asker.looks.as_ref().and_then(|looks| looks.failure());
        let is_news = !self.is_one_of_several() || (query.error.is_none() && !book.is_unseen);
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

    /// What becomes of the run where a query has no whole answer.
    fn explain(&self, trouble: &Trouble, asker: &Asker<'_>, number: u64, connection: u64) {
        let of = self.of(connection);
        let error = failure(trouble, asker, &format!("{}{of}", number + 1), self.stop);
        let mut book = self.book();
        match error {
            Some(error) => _ = book.error.get_or_insert(error),
            None => book.ended.entry(came_after(trouble)).or_insert((0, number)).0 += 1,
        }
        book.is_abandoned |= matches!(
            trouble,
            Trouble::Stopped { is_unanswered: true } | Trouble::Late { is_unanswered: true, .. }
        );
    }

    /// A session was lost, and others may live: logs in for another, more than once while they do.
    fn log_in_again(&self, turns: &mut Turns<'_>, connection: u64) -> bool {
        self.alive.fetch_sub(1, Ordering::Relaxed);
        let until_ns = mono_ns().saturating_add(self.config.connect_timeout.as_nanos() as u64);
        let mut wait = LOG_IN_AFTER;
        let outcome = loop {
            let Err(error) = turns.log_in_again() else { break Ok(()) };
            let next_ns = mono_ns() + wait.as_nanos() as u64;
            wait *= 2;
            let is_alone = self.alive.load(Ordering::Relaxed) == 0;
            if is_alone || self.is_ended() || next_ns >= until_ns || !self.wait_until(next_ns) {
                break Err(error);
            }
        };
        // The end of this one takes it away again.
        self.alive.fetch_add(1, Ordering::Relaxed);
        if self.is_ended() && outcome.is_err() {
            return false;
        }
        let text = match &outcome {
            Ok(()) => format!("connection {connection} was lost, and has logged in anew"),
            Err(error) => format!("connection {connection} was lost, and is not replaced: {error}"),
        };
        self.book().note(self.record, text);
        outcome.is_ok()
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

/// A run that somebody ended did what was asked; anything else did not.
fn failure(trouble: &Trouble, asker: &Asker<'_>, number: &str, stop: &Stop) -> Option<Error> {
    let address = asker.login.server.address();
    match trouble {
        Trouble::Stopped { .. } => None,
        // What follows a request to cancel is nobody's fault.
        Trouble::Refused(_) | Trouble::Lost(_) if stop.times() > 0 => None,
        Trouble::Refused(refusal) => {
            let to_do = asker.session.remedy(refusal, &asker.sql, asker.config);
            Some(Error::run(format!("query {number} failed at {address}: {}; {to_do}", refusal.words())))
        }
        Trouble::Late { why, is_unanswered: true } => Some(Error::run(format!(
            "query {number} was given up at {address}: {why}; see that the server can be reached (fathom probe {address} --connect), or give \
             a query longer by --timeout"
        ))),
        Trouble::Late { why, is_unanswered: false } => Some(Error::run(format!(
            "query {number} was given up at {address}: {why}; give a query longer by --timeout, or see what it waits for at the server"
        ))),
        Trouble::Lost(why) => Some(Error::run(format!(
            "query {number} has no whole answer from {address}: {why}; see the server's log for why it ended the session"
        ))),
    }
}

/// What became of a query that the user ended, where that is not what the server makes of every such query.
fn came_after(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Lost(why) => format!(", and then {why}"),
        Trouble::Stopped { is_unanswered: true } => ", before its answer came".to_owned(),
        Trouble::Stopped { is_unanswered: false } => ", before all of its answer was taken".to_owned(),
        Trouble::Refused(_) | Trouble::Late { .. } => String::new(),
    }
}

/// All of its row but what it is of the run.
fn row(connection: u64, due_ns: u64, answer: Answer) -> Query {
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
        error: answer.error.map(|trouble| match trouble {
            Trouble::Refused(refusal) => refusal.words(),
            Trouble::Lost(why) | Trouble::Late { why, .. } => why,
            Trouble::Stopped { .. } => NOT_WAITED_FOR.to_owned(),
        }),
        is_first: false,
        setting: None,
        login: None,
        fetch_size: None,
        packet_size: None,
    }
}
