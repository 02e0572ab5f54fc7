//! A run: logs in, begins what measures beside, asks query after query when they are due, and says what it came to.

use crate::beside::{Beside, Peer};
use crate::looks::Looks;
use crate::mysql::Mysql;
use crate::protocol::{Facts, Protocol, Watch};
use crate::query::{Answer, Asker, Trouble};
use crate::record::Record;
use crate::session::{self, Login, Session};
use crate::tds::Tds;
use crate::turns::{self, Turns};
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

/// "field size limit: 1 GB" (<https://www.postgresql.org/docs/15/limits.html>), of which the header takes some.
const VALUE_BYTES: u64 = (1 << 30) - 4;
/// "2^31-1 bytes" (<https://learn.microsoft.com/sql/t-sql/data-types/char-and-varchar-transact-sql>).
const LARGE_BYTES: u64 = 1 << 31;
/// Above the greatest `max_allowed_packet`: "The largest possible packet that can be transmitted … is 1GB"
/// (<https://dev.mysql.com/doc/refman/8.4/en/packet-too-large.html>).
const PACKET_BYTES: u64 = (1 << 30) + 1;
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
        remote: session::lookup(server)?,
        password: pgpass::password(&config.target, env)?,
        read_only: matches!(config.source, Source::Rows { .. }),
        within: session::WITHIN,
        stop: stop.clone(),
        is_impatient: false,
    };
    // The kernel begins to stamp a little after the first socket asks for it.
    let _stamping = timestamps::keep_enabled();
    let mut order = turns::order(configs.len(), mono_ns());
    let mut sessions = turns::sessions(&login, &configs, &mut order, begin)?;
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
        let text = "no round trip of the path could be measured beside the queries".to_owned();
        note(&mut outcome, &record, text);
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
    let ended = ask_all(&mut turns, config, stop, &record, &mut outcome);
    let in_the_end = turns.facts();
    let known = turns::notes(&each);
    for text in turns::notes(&in_the_end).into_iter().filter(|text| !known.contains(text)) {
        note(&mut outcome, &record, text);
    }
    turns::seen(&mut outcome.asked, &in_the_end);
    if outcome.failed().last().is_some_and(|failed| failed.error == NOT_WAITED_FOR) {
        turns.give_up_counting();
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

/// What the protocol cannot do.
fn unfit(config: &Config) -> Option<&'static str> {
    match (&config.target, &config.source) {
        (Target::Postgres(_), Source::Rows { row_bytes: VALUE_BYTES.., .. }) => {
            Some("--row-bytes: no value of PostgreSQL is 1 GiB or more; ask for less")
        }
        (Target::Postgres(_), _) if config.packet_size.is_some() => {
            Some("--packet-size: PostgreSQL's protocol has no packets; it is for mssql://")
        }
        (Target::Mysql(_), Source::Rows { row_bytes: PACKET_BYTES.., .. }) => {
            Some("--row-bytes: no value of MySQL is longer than 1 GiB; ask for less")
        }
        (Target::Mysql(_), _) if config.packet_size.is_some() => {
            Some("--packet-size: MySQL's packets are as long as what they hold; it is for mssql://")
        }
        (Target::Mysql(_), _) if config.fetch_size.is_some() => {
            Some("--fetch-size: mysql:// fetches all rows at once; leave it out")
        }
        (Target::Mssql(_), Source::Rows { row_bytes: LARGE_BYTES.., .. }) => {
            Some("--row-bytes: no value of SQL Server is 2 GiB or more; ask for less")
        }
        (Target::Mssql(_), _) if config.fetch_size.is_some() => {
            Some("--fetch-size: mssql:// fetches all rows at once; leave it out")
        }
        _ => None,
    }
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

/// Asks until it is enough; why it ended early, where it did.
fn ask_all(
    turns: &mut Turns<'_>,
    config: &Config,
    stop: &Stop,
    record: &Record,
    outcome: &mut Outcome,
) -> Option<Error> {
    let began_ns = mono_ns();
    let (mut number, mut told_ns, mut latest_ns) = (0, began_ns, 0);
    let settings = turns.settings();
    loop {
        let due_ns =
            || config.every.map_or_else(mono_ns, |every| began_ns + number * every.as_nanos() as u64);
        // Where queries take longer than they are apart, their due is of a time long ago.
        let is_over = |due_ns: u64| {
            let lasted_ns = due_ns.max(mono_ns()).saturating_sub(began_ns);
            stop.times() > 0
                || config.lasts.is_some_and(|lasts| lasted_ns >= lasts.as_nanos() as u64)
                || config.count.is_some_and(|count| number >= count.saturating_mul(settings))
        };
        if !is_over(due_ns())
            && let Err(error) = turns.log_in(number)
        {
            return (stop.times() == 0).then_some(error);
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
            return None;
        }
        let (turn, asker) = turns.next(number);
        let answer = asker.ask();
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
            let failure = failure(&trouble, asker, number, stop);
            if failure.is_none() {
                note(outcome, record, format!("query {number} was ended by you"));
            }
            return failure;
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
        Trouble::Stopped => None,
        Trouble::Refused(_) if stop.times() > 0 => None,
        Trouble::Refused(refusal) => {
            let to_do = asker.session.remedy(refusal);
            Some(Error::run(format!("query {number} failed at {address}: {}; {to_do}", refusal.words())))
        }
        Trouble::Lost(why) => Some(Error::run(format!(
            "query {number} has no whole answer from {address}: {why}; see the server's log for why it ended the session"
        ))),
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
            Trouble::Lost(why) => why,
            Trouble::Stopped => NOT_WAITED_FOR.to_owned(),
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
            "every_ns": config.every.map(|every| every.as_nanos() as u64),
            "fetch_size": config.fetch_size,
            "simple": config.simple,
            "packet_size": facts.packets.get("asked").filter(|_| settings.is_empty())
                .map(|asked| json!({ "asked": asked, "granted": facts.packets["granted"] })),
            "settings": (!settings.is_empty()).then(|| settings.iter().map(Setting::json).collect::<Vec<_>>()),
        },
    })
}
