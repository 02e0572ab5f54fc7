//! A run: logs in, begins what measures beside, has its connections ask, and says what it came to.

use crate::asking::{Book, Shared};
use crate::backlog::Lost;
use crate::beside::Beside;
use crate::counts::Counting;
use crate::limit::Limit;
use crate::link::Peer;
use crate::login::Login;
use crate::looks::{Looker, Looks};
use crate::lookup::lookup;
use crate::mysql::Mysql;
use crate::protocol::{Facts, Protocol, Watch};
use crate::query::Asker;
use crate::record::Record;
use crate::session::Session;
use crate::stood::Standing;
use crate::tds::Tds;
use crate::turns::{self, Turns};
use crate::under_way::Habits;
use crate::unfit::unfit;
use crate::{Config, Error, Source, Stop, Target, connections, pgpass};
use fathom_core::host_port;
use fathom_core::query::{Asked, Connection, Outcome, Setting};
use fathom_core::text::count;
use fathom_os::clock::mono_ns;
use fathom_os::pause::RunQueue;
use fathom_os::timestamps;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::ToSocketAddrs;
use std::sync::Arc;

/// What looks, at each connection, and how it sees each session.
type Watched = (Option<Looker>, Vec<Option<Arc<Looks>>>, Vec<Option<Arc<Watch>>>);

/// Runs it to its end; what it came to, and why it ended early, where it did.
pub fn run(config: &Config, stop: &Stop) -> Result<(Outcome, Option<Error>), Error> {
    let outcome = go(config, stop);
    stop.over();
    outcome
}

fn go(config: &Config, stop: &Stop) -> Result<(Outcome, Option<Error>), Error> {
    let configs = config.each();
    let unfit = configs.iter().find_map(unfit).map(str::to_owned).or_else(|| connections::unfit(config));
    unfit.map_or(Ok(()), |line| Err(Error::Usage(line)))?;
    let server = config.target.server();
    let password = pgpass::password(&config.target, |name| std::env::var_os(name))?;
    let mut standing = Standing::begin();
    let clock = standing.clock();
    let login = Login {
        server: server.clone(),
        remote: lookup(server, &Limit::within(config.connect_timeout, stop, &clock).impatient())?,
        password,
        read_only: matches!(config.source, Source::Rows { .. }),
        within: config.connect_timeout,
        stop: stop.clone(),
        clock: clock.clone(),
        is_impatient: false,
        barred: Arc::default(),
        reached: Arc::default(),
    };
    // The kernel begins to stamp a little after the first socket asks for it.
    let _stamping = timestamps::keep_enabled();
    let mut order = turns::order(configs.len(), mono_ns());
    // Nothing is lost yet: who ends the run waits for no session.
    let at_once = login.impatient();
    let mut sessions = turns::sessions(&at_once, &configs, &mut order, begin)?;
    let is_one = config.connections == 1;
    if !is_one {
        sessions = connections::open(&at_once, config, sessions, begin)?;
    }
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
    standing.record(record.clone());
    let beside = Beside::begin(peer, stop, record.clone(), &clock)?;
    let mut outcome = Outcome::new(Asked {
        target: label,
        server_version: facts.version.clone(),
        encrypted: Some(facts.encrypted),
        tds: if settings.is_empty() { facts.packets.clone() } else { Value::Null },
        counted: None,
        unanswered_beside: Some(0),
        unrecorded: Some(0),
        kept_ns: None,
        is_here: login.remote.ip().to_canonical().is_loopback(),
        is_pooled: false,
        fetch_size: config.fetch_size,
        settings,
        connections: match config.connections {
            1 => vec![],
            several => {
                vec![Connection { counted: None, unrecorded: Some(0), lost_from: None }; several as usize]
            }
        },
        notes: Vec::new(),
        recording: config.recording.as_ref().map(|recording| recording.dir.display().to_string()),
    });
    for text in turns::notes(&each) {
        note(&mut outcome, &record, text);
    }
    if beside.rtt(mono_ns()).is_none() {
        note(&mut outcome, &record, unmeasured(config, beside.why()));
    }
    let looking = look(&mut sessions, &login, &configs[0]);
    // Whoever ended the run asks no query on it.
    let is_usable = stop.times() > 0 || sessions.iter().all(|session| session.is_ready());
    if let (Err(error), false) = (&looking, is_usable) {
        // What comes yet would be taken for the answer to the query.
        stop.over();
        beside.end();
        record.end(writer, outcome.json()).1?;
        return Err(error.clone());
    }
    let (looker, looks, watches) = looking.unwrap_or_else(|error| {
        let text = match &config.target {
            Target::Mssql(_) => format!(
                "the server's states, and what it counts itself, are not known: {error}; the split goes on without them"
            ),
            _ => format!("the server's states are not known: {error}; the split goes on without them"),
        };
        note(&mut outcome, &record, text);
        (None, vec![None; sessions.len()], vec![None; sessions.len()])
    });
    if let Some(text) = pooled(&watches.iter().flatten().map(AsRef::as_ref).collect::<Vec<_>>()) {
        outcome.asked.is_pooled = true;
        note(&mut outcome, &record, text);
    }
    let counting = Counting::begin(watches.first().and_then(Option::as_ref), &login, &configs[0], begin);
    let mut begun = sessions.into_iter().zip(looks).zip(watches).zip(&each);
    let mut asking = Vec::new();
    while begun.len() > 0 {
        let beside = beside.of(asking.len());
        // Of several connections each has one session; of one they are of its settings.
        let own = begun.by_ref().take(if is_one { each.len() } else { 1 });
        let (mut askers, mut facts) = (Vec::new(), Vec::new());
        for ((((session, looks), watch), known), config) in own.zip(&configs) {
            askers.push(asker(session, looks, watch, &login, config, &beside));
            facts.push(known);
        }
        asking.push(Turns::new(askers, &configs, &facts, order.clone(), begin, &counting));
    }
    asking.iter_mut().for_each(Turns::count);
    say_uncounted(&counting, &mut outcome, &record);
    let shared = Shared::new(config, stop, &record, &beside, outcome);
    let began = ask(&shared, &mut asking);
    let mut book = shared.into_book();
    book.close(&record, config);
    let Book { mut outcome, error, is_abandoned, .. } = book;
    let ended = error.or(began.err());
    let in_the_end = asking.iter_mut().flat_map(Turns::facts).collect();
    let (in_the_end, known) = (turns::together(in_the_end, config.connections), turns::notes(&each));
    for text in turns::notes(&in_the_end).into_iter().filter(|text| !known.contains(text)) {
        note(&mut outcome, &record, text);
    }
    turns::seen(&mut outcome.asked, &in_the_end);
    if is_abandoned {
        counting.give_up();
        stop.leave();
    }
    if ended.is_some() {
        counting.last_try();
    }
    let counted: Vec<_> = asking.iter_mut().map(Turns::counted).collect();
    if counting.is_whole() {
        turns::count_in(&mut outcome.asked, &counted);
        if outcome.asked.counted.is_none() && counted.iter().flatten().any(|(_, lost)| *lost > 0) {
            let text =
                "what the server counted itself is not known: it went with the session, which was lost";
            note(&mut outcome, &record, text.to_owned());
        }
    }
    say_uncounted(&counting, &mut outcome, &record);
    for text in standing.end() {
        note(&mut outcome, &record, text);
    }
    looker.iter().for_each(Looker::end);
    match looker.as_ref().map_or(0, Looker::reopened) {
        0 => {}
        n => {
            let times = if n == 1 { String::new() } else { format!(" {}", count(n, "time")) };
            let text =
                format!("the session that looks at the server was lost{times}, and has logged in anew");
            note(&mut outcome, &record, text);
        }
    }
    stop.over();
    beside.end();
    let (lost, recorded) = record.end(writer, outcome.json());
    outcome.asked.unrecorded = lost.as_ref().map(Lost::all);
    for (connection, at) in outcome.asked.connections.iter_mut().zip(0..) {
        connection.unrecorded = lost.as_ref().map(|lost| lost.of(at));
    }
    Ok((outcome, ended.or(recorded.err())))
}

/// What asks on this session.
fn asker<'a>(
    session: Box<dyn Protocol>,
    looks: Option<Arc<Looks>>,
    watch: Option<Arc<Watch>>,
    login: &'a Login,
    config: &'a Config,
    beside: &Beside,
) -> Asker<'a> {
    let sql = match &config.source {
        Source::Rows { rows, row_bytes } => session.rows(*rows, *row_bytes),
        Source::Text { sql, .. } => sql.clone(),
    };
    Asker {
        session,
        login,
        config,
        sql,
        beside: beside.clone(),
        looks,
        watch,
        stop: login.stop.clone(),
        habits: Habits::default(),
        run_queue: RunQueue::of_this_thread(),
        running: login.clock.running(),
        seam: None,
        before: crate::looks::after::Before::default(),
    }
}

/// Asks, each connection on a thread of its own; the first is on this one. An error: not all of them could be begun.
fn ask(shared: &Shared<'_>, asking: &mut [Turns<'_>]) -> Result<(), Error> {
    let Some((first, others)) = asking.split_first_mut() else { return Ok(()) };
    std::thread::scope(|scope| {
        let begun = others.iter_mut().zip(1..).try_for_each(|(turns, at)| {
            let run = move || shared.ask_all(turns, at);
            connections::spawn(scope, format!("ask {at}"), run).map(drop)
        });
        if begun.is_err() {
            shared.end();
        }
        shared.ask_all(first, 0);
        begun
    })
}

/// Says something of the run, with its result and in its recording.
fn note(outcome: &mut Outcome, record: &Record, text: String) {
    record.note(text.clone());
    outcome.asked.notes.push(text);
}

/// Signs of a pooler or balancer: fewer server sessions than connections, or other sessions than the logins named.
fn pooled(watches: &[&Watch]) -> Option<String> {
    let sessions: BTreeSet<(&str, Option<&str>)> =
        watches.iter().map(|watch| (watch.sql.as_str(), watch.of.as_deref())).collect();
    let seen = if sessions.len() < watches.len() {
        let (connections, sessions) = (watches.len() as u64, sessions.len() as u64);
        format!(
            "{} are served by {} of the server",
            count(connections, "connection"),
            count(sessions, "session")
        )
    } else if watches.iter().any(|watch| watch.is_anothers) {
        "another session of the server answers than the one that the login named".to_owned()
    } else {
        return None;
    };
    Some(format!(
        "{seen}: a pooler or balancer is between, and what waits in its queue looks like the server's time; ask the server without it to tell \
         the two apart"
    ))
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
fn say_uncounted(counting: &Counting, outcome: &mut Outcome, record: &Record) {
    if let Some(error) = counting.uncounted() {
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
    let watches = connections::watches(sessions, &at_once)?;
    let (of_looks, own) = (at_once.clone(), config.clone());
    let open = Box::new(move || begin(&of_looks, &own));
    // The sessions of one connection are asked in turn.
    let each = if config.connections == 1 { watches[..1].to_vec() } else { watches.clone() };
    let (looker, looks) = Looker::begin(open, each, login, &login.stop)?;
    let looks: Vec<_> = looks.into_iter().map(Arc::new).collect();
    let of_each = (0..sessions.len()).map(|at| looks.get(at).or(looks.first()).cloned());
    Ok((Some(looker), of_each.collect(), watches.into_iter().map(Some).collect()))
}

fn peer(config: &Config, login: &Login) -> Result<Peer, Error> {
    let Some(reflector) = &config.reflector else {
        return Ok(match config.target {
            Target::Mysql(_) => Peer::Session(Box::new(login.clone())),
            Target::Postgres(_) | Target::Mssql(_) => Peer::Port(login.remote),
        });
    };
    let unknown = |why: &dyn std::fmt::Display| {
        Error::Usage(format!("--reflector {reflector}: {why}; write HOST or HOST:PORT"))
    };
    let (host, port) = host_port::split(reflector).map_err(|why| unknown(&why))?;
    let mut found = (host, port.unwrap_or(7007)).to_socket_addrs().map_err(|e| unknown(&e))?;
    found.next().map(Peer::Reflector).ok_or_else(|| unknown(&"it has no address"))
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
            "encrypted": facts.encrypted,
            "source": source,
            "think_ns": config.think.as_nanos() as u64,
            "count": config.count,
            "duration_ns": config.lasts.map(|lasts| lasts.as_nanos() as u64),
            "timeout_ns": config.timeout.map(|timeout| timeout.as_nanos() as u64),
            "connections": config.connections,
            "every_ns": config.every.map(|every| every.as_nanos() as u64),
            "fetch_size": config.fetch_size,
            "simple": config.simple,
            "packet_size": facts.packets.get("asked").filter(|_| settings.is_empty())
                .map(|asked| json!({ "asked": asked, "granted": facts.packets["granted"] })),
            "settings": (!settings.is_empty()).then(|| settings.iter().map(Setting::json).collect::<Vec<_>>()),
        },
    })
}
