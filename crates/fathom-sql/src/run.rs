//! A run: logs in, begins what measures beside, asks query after query when they are due, and says what it came to.

use crate::beside::Beside;
use crate::error::Trouble;
use crate::limit::Limit;
use crate::link::Peer;
use crate::looks::Looks;
use crate::mysql::Mysql;
use crate::protocol::{Facts, Protocol, Watch};
use crate::query::{Answer, Asker};
use crate::record::Record;
use crate::session::{self, Login, Session};
use crate::tds::Tds;
use crate::turns::{self, Turns};
use crate::unfit::unfit;
use crate::{Config, Error, Source, Stop, Target, pgpass};
use fathom_core::event::TcpInfo;
use fathom_core::query::{Asked, NOT_WAITED_FOR, Outcome, Setting};
use fathom_core::text::count;
use fathom_core::units::narrow::time_or_dash;
use fathom_os::clock::mono_ns;
use fathom_os::pause::RunQueue;
use fathom_os::timestamps;
use fathom_recording::Query;
use serde_json::{Value, json};
use std::net::ToSocketAddrs;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A progress line after so long, and then again.
const PROGRESS_NS: u64 = 2_000_000_000;

type Watched = (Option<Rc<Looks>>, Vec<Option<Arc<Watch>>>);

/// Runs it to its end; what it came to, and why it ended early, where it did.
pub fn run(config: &Config, stop: &Stop) -> Result<(Outcome, Option<Error>), Error> {
    let outcome = go(config, stop);
    stop.over();
    outcome
}

fn go(config: &Config, stop: &Stop) -> Result<(Outcome, Option<Error>), Error> {
    let configs = config.each();
    let unfit = configs.iter().find_map(unfit);
    unfit.map_or(Ok(()), |line| Err(Error::Usage(line.to_owned())))?;
    let server = config.target.server();
    let env = |name: &str| std::env::var(name).ok();
    let login = Login {
        server: server.clone(),
        remote: session::lookup(server, &Limit::within(config.connect_timeout, stop).impatient())?,
        password: pgpass::password(&config.target, env)?,
        read_only: matches!(config.source, Source::Rows { .. }),
        within: config.connect_timeout,
        stop: stop.clone(),
        is_impatient: false,
    };
    // The kernel begins to stamp a little after the first socket asks for it.
    let _stamping = timestamps::keep_enabled();
    let mut order = turns::order(configs.len(), mono_ns());
    // Nothing is lost yet: who ends the run waits for no session.
    let mut sessions = turns::sessions(&login.impatient(), &configs, &mut order, begin)?;
    let each: Vec<_> = sessions.iter_mut().map(|session| session.facts()).collect();
    let facts = each[0].clone();
    let settings = turns::settings(config, &configs, &each);
    let peer = peer(config, &login)?;
    let database = facts.database.as_deref().unwrap_or(&server.database);
    let label = format!("{}/{database}", server.address());
    let (record, writer) = Record::begin(
        config.recording.as_ref(),
        &label,
        login.remote,
        probe(config, database, &facts, &settings, &peer),
        config.tell,
    )?;
    let beside = Beside::begin(peer, stop, record.clone())?;
    let mut outcome = Outcome::new(Asked {
        target: label,
        server_version: facts.version.clone(),
        encrypted: Some(facts.encrypted),
        tds: if settings.is_empty() { facts.packets.clone() } else { Value::Null },
        counted: None,
        unanswered_beside: Some(0),
        unrecorded: Some(0),
        fetch_size: config.fetch_size,
        settings,
        notes: Vec::new(),
        recording: config.recording.as_ref().map(|recording| recording.dir.display().to_string()),
    });
    for text in turns::notes(&each) {
        note(&mut outcome, &record, text);
    }
    if beside.rtt(mono_ns()).is_none() {
        note(&mut outcome, &record, unmeasured(config, beside.why()));
    }
    let (looks, watches) = look(&mut sessions, &login, &configs[0]).unwrap_or_else(|error| {
        let text = match &config.target {
            Target::Mssql(_) => format!(
                "the server's states, and what it counts itself, are not known: {error}; the split goes on without them"
            ),
            _ => format!("the server's states are not known: {error}; the split goes on without them"),
        };
        note(&mut outcome, &record, text);
        (None, vec![None; sessions.len()])
    });
    let mut askers = Vec::new();
    for ((session, config), watch) in sessions.into_iter().zip(&configs).zip(watches) {
        let sql = match &config.source {
            Source::Rows { rows, row_bytes } => session.rows(*rows, *row_bytes),
            Source::Text { sql, .. } => sql.clone(),
        };
        askers.push(Asker {
            session,
            login: &login,
            config,
            sql,
            beside: beside.clone(),
            looks: looks.clone(),
            watch,
            stop: stop.clone(),
            look_times_ns: std::collections::VecDeque::new(),
            first_waits_ns: std::collections::VecDeque::new(),
            run_queue: RunQueue::of_this_thread(),
        });
    }
    let mut turns = Turns::new(askers, &configs, &each, order, begin);
    turns.count();
    say_uncounted(&mut turns, &mut outcome, &record);
    let End { error: ended, is_abandoned } = ask_all(&mut turns, config, stop, &record, &mut outcome);
    let in_the_end = turns.facts();
    let known = turns::notes(&each);
    for text in turns::notes(&in_the_end).into_iter().filter(|text| !known.contains(text)) {
        note(&mut outcome, &record, text);
    }
    turns::seen(&mut outcome.asked, &in_the_end);
    if is_abandoned {
        turns.give_up_counting();
        stop.leave();
    }
    turns.counted(&mut outcome.asked, ended.is_some());
    say_uncounted(&mut turns, &mut outcome, &record);
    turns.end_looks();
    stop.over();
    beside.end();
    let (unrecorded, recorded) = record.end(writer, outcome.json());
    outcome.asked.unrecorded = unrecorded;
    Ok((outcome, ended.or(recorded.err())))
}

/// Says something of the run, with its result and in its recording.
fn note(outcome: &mut Outcome, record: &Record, text: String) {
    record.note(text.clone());
    outcome.asked.notes.push(text);
}

/// That nobody knows the path's round trip, why, and what to do about it.
fn unmeasured(config: &Config, why: Option<String>) -> String {
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    let to_do = config.reflector.as_ref().map_or_else(String::new, |reflector| {
        format!(
            "; see that `fathom echo` runs at {reflector} and that its port is open, or leave --reflector out: the database's own port answers too"
        )
    });
    format!("no round trip of the path could be measured beside the queries{why}{to_do}")
}

/// Says, once, why what the server counts is not known.
fn say_uncounted(turns: &mut Turns<'_>, outcome: &mut Outcome, record: &Record) {
    if let Some(error) = turns.uncounted() {
        let text = format!("what the server counts itself is not known: {error}; the run goes on without it");
        note(outcome, record, text);
    }
}

/// Logs in.
fn begin(login: &Login, config: &Config) -> Result<Box<dyn Protocol>, Error> {
    Ok(match &config.target {
        Target::Postgres(_) => Box::new(Session::begin(login)?),
        Target::Mssql(_) => Box::new(Tds::begin(login, config.packet_size)?),
        Target::Mysql(_) => Box::new(Mysql::begin(login, config)?),
    })
}

/// What looks at the server, on a second connection, and how it sees each of these sessions.
fn look(sessions: &mut [Box<dyn Protocol>], login: &Login, config: &Config) -> Result<Watched, Error> {
    // Who ends the run waits for no session that is to look.
    let at_once = login.impatient();
    let watches = sessions.iter_mut().map(|session| session.watch(&at_once).map(Arc::new));
    let watches = watches.collect::<Result<Vec<_>, _>>()?;
    let looks = Looks::begin(begin(&at_once, config)?, Arc::clone(&watches[0]), login, &login.stop)?;
    Ok((Some(Rc::new(looks)), watches.into_iter().map(Some).collect()))
}

/// How the asking ended.
#[derive(Default)]
struct End {
    /// Why before its time, where nobody wanted that.
    error: Option<Error>,
    /// Of a query that the server had not answered.
    is_abandoned: bool,
}

/// Asks until it is enough.
fn ask_all(
    turns: &mut Turns<'_>,
    config: &Config,
    stop: &Stop,
    record: &Record,
    outcome: &mut Outcome,
) -> End {
    let began_ns = mono_ns();
    let over_ns = config.lasts.map(|lasts| began_ns.saturating_add(lasts.as_nanos() as u64));
    let (mut number, mut told_ns, mut latest_ns) = (0, began_ns, 0);
    let settings = turns.settings();
    loop {
        let due_ns =
            || config.every.map_or_else(mono_ns, |every| began_ns + number * every.as_nanos() as u64);
        // Where queries take longer than they are apart, their due is of a time long ago.
        let is_over = |due_ns: u64| {
            stop.times() > 0
                || over_ns.is_some_and(|over_ns| due_ns.max(mono_ns()) >= over_ns)
                || config.count.is_some_and(|count| number >= count.saturating_mul(settings))
        };
        if !is_over(due_ns())
            && let Err(error) = turns.log_in(number)
        {
            return End { error: (stop.times() == 0).then_some(error), is_abandoned: false };
        }
        // What a login takes is in no query.
        let due_ns = due_ns();
        if is_over(due_ns) || !wait_until(due_ns, stop) {
            if let Some(every) = config.every.filter(|every| latest_ns > every.as_nanos() as u64) {
                let (late, every) =
                    [latest_ns, every.as_nanos() as u64].map(|ns| time_or_dash(Some(ns), 3)).into();
                let text = format!(
                    "the queries took longer than the {every} from one to the next: the latest began {late} late"
                );
                note(outcome, record, text);
            }
            return End::default();
        }
        let (turn, asker) = turns.next(number);
        let answer = asker.ask(over_ns);
        let unseen = asker.looks.as_ref().and_then(|looks| looks.failure());
        if let Some(error) = &unseen {
            let text = format!("from query {} on the server's states are not known: {error}", number + 1);
            note(outcome, record, text);
        }
        let error = answer.error.clone();
        let began = answer.began_ns;
        latest_ns = latest_ns.max(began.saturating_sub(due_ns));
        let query = turn.of(row(number, due_ns, answer));
        outcome.add(&query);
        record.query(query, began);
        number += 1;
        if let Some(trouble) = error {
            outcome.asked.unanswered_beside = Some(asker.beside.failed());
            let error = failure(&trouble, asker, number, stop);
            if error.is_none() {
                note(outcome, record, format!("query {number} was ended by you{}", came_after(&trouble)));
            }
            let is_abandoned = matches!(
                trouble,
                Trouble::Stopped { is_unanswered: true } | Trouble::Late { is_unanswered: true, .. }
            );
            return End { error, is_abandoned };
        }
        let now = mono_ns();
        if !config.quiet && now - told_ns > PROGRESS_NS {
            told_ns = now;
            (config.tell)(&format!("{number} asked: {}", count(outcome.rows(), "row")));
        }
        outcome.asked.unanswered_beside = Some(asker.beside.failed());
        if unseen.is_some() {
            turns.end_looks();
        }
    }
}

/// A run that somebody ended did what was asked; anything else did not.
fn failure(trouble: &Trouble, asker: &Asker<'_>, number: u64, stop: &Stop) -> Option<Error> {
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

/// Whether nobody ended the run meanwhile.
fn wait_until(due_ns: u64, stop: &Stop) -> bool {
    while stop.times() == 0 {
        let now = mono_ns();
        if now >= due_ns {
            return true;
        }
        std::thread::sleep(Duration::from_nanos(due_ns - now).min(Duration::from_millis(50)));
    }
    false
}

fn row(number: u64, due_ns: u64, answer: Answer) -> Query {
    let kernel = answer.kernel.as_ref();
    let delta = |of: fn(&TcpInfo) -> u64| kernel.map(|(before, after)| of(after).saturating_sub(of(before)));
    Query {
        query: number,
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

fn peer(config: &Config, login: &Login) -> Result<Peer, Error> {
    let Some(reflector) = &config.reflector else {
        return Ok(match config.target {
            Target::Mysql(_) => Peer::Session(login.clone()),
            Target::Postgres(_) | Target::Mssql(_) => Peer::Port(login.remote),
        });
    };
    let with_port = if reflector.parse::<std::net::IpAddr>().is_ok() || !reflector.contains(':') {
        let host = reflector.trim_start_matches('[').trim_end_matches(']');
        (host, 7007).to_socket_addrs()
    } else {
        reflector.to_socket_addrs()
    };
    let unknown = |why: &dyn std::fmt::Display| {
        Error::Usage(format!("--reflector {reflector}: {why}; write HOST or HOST:PORT"))
    };
    let found = with_port.map_err(|e| unknown(&e))?.next();
    found.map(Peer::Reflector).ok_or_else(|| unknown(&"it has no address"))
}

/// The effective configuration, as the manifest has it. Its samples are those of a probe that measures as `beside` does.
fn probe(config: &Config, database: &str, facts: &Facts, settings: &[Setting], peer: &Peer) -> Value {
    let mode = match peer {
        Peer::Port(_) => "connect",
        Peer::Reflector(_) | Peer::Session(_) => "tcp",
    };
    let source = match &config.source {
        Source::Rows { rows, row_bytes } => json!({ "rows": rows, "row_bytes": row_bytes }),
        Source::Text { sql, is_shown: true } => json!({ "query": sql }),
        Source::Text { .. } => json!({ "query": null }),
    };
    json!({
        "mode": mode,
        "size": peer.size(),
        "interval_ns": null,
        "sql": {
            "protocol": match config.target {
                Target::Postgres(_) => "postgres",
                Target::Mssql(_) => "mssql",
                Target::Mysql(_) => "mysql",
            },
            "database": database,
            "source": source,
            "think_ns": config.think.as_nanos() as u64,
            "count": config.count,
            "duration_ns": config.lasts.map(|lasts| lasts.as_nanos() as u64),
            "timeout_ns": config.timeout.map(|timeout| timeout.as_nanos() as u64),
            "every_ns": config.every.map(|every| every.as_nanos() as u64),
            "fetch_size": config.fetch_size,
            "simple": config.simple,
            "packet_size": facts.packets.get("asked").filter(|_| settings.is_empty())
                .map(|asked| json!({ "asked": asked, "granted": facts.packets["granted"] })),
            "settings": (!settings.is_empty()).then(|| settings.iter().map(Setting::json).collect::<Vec<_>>()),
        },
    })
}
