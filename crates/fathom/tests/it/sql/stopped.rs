//! `fathom sql` and its server against a real `PostgreSQL`, of which one is stopped for a while: whose time that is, and what goes on.
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use crate::support::FATHOM;
use crate::support::database::{result, says_the_same};
use crate::support::mariadb::Mariadb;
use crate::support::postgres::Postgres;
use crate::support::probe::assert_sound;
use crate::support::reflector::Echo;

fn signal(process: u32, name: &str) {
    let done = Command::new("kill").args([name, &process.to_string()]).status().unwrap();
    assert!(done.success(), "kill {name} {process}");
}

fn begun(mut command: Command) -> Child {
    command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until so many sessions of the server sleep in a query.
fn wait_until_asleep(server: &Postgres, sleeping: u64) {
    let ask = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    let deadline = Instant::now() + crate::support::PATIENCE;
    while server.ask(&["--count", "1", "--query", ask])["rows"].as_u64() != Some(sleeping) {
        assert!(Instant::now() < deadline, "there were never {sleeping} asleep");
    }
}

/// SIGSTOP while the server works, for longer than the query takes and may take: the answer lies here, the rest is the client's, which
/// is told and recorded; and it is not too late.
#[test]
fn client_pause_is_attributed_to_client() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let ask = ["--query", "SELECT pg_sleep(1)", "--count", "1", "--timeout", "3s", "--record"];
    let child = begun(server.sql(&[&ask[..], &[dir.to_str().unwrap()]].concat()));
    wait_until_asleep(&server, 1);
    signal(child.id(), "-STOP");
    // For so long nobody runs it: that is the fault, not a wait for something.
    std::thread::sleep(Duration::from_secs(4));
    signal(child.id(), "-CONT");
    let outcome = result(&child.wait_with_output().unwrap());
    assert_eq!(outcome["verdict"], json!({ "party": "client", "confidence": "high" }), "{outcome:#}");
    assert_eq!(outcome["failed"], 0, "{outcome:#}");
    assert!(outcome["notes"].to_string().contains("this host stood still for "), "{outcome:#}");
    // The client's own work on rows was said to hold it up, and that no network would change that (a stranger).
    let advice = outcome["advice"].as_array().unwrap();
    let [advice] = &advice[..] else { panic!("{outcome:#}") };
    let advice = advice.as_str().unwrap();
    assert!(advice.starts_with("this machine kept fathom from running for "), "{advice}");
    assert!(!advice.contains("rows") && !advice.contains("network"), "{advice}");
    assert!(outcome["kept_from_running_ns"].as_u64() > Some(3_500_000_000), "{outcome:#}");
    says_the_same(&dir, &outcome);
    let log = std::fs::read_to_string(dir.join("events.jsonl")).unwrap();
    let paused = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).any(|event| {
        let is_long = event["duration_ns"].as_u64() > Some(3_500_000_000);
        event["kind"] == "pause" && event["host"] == "local" && is_long
    });
    assert!(paused, "{log}");
    assert_sound(&dir);
}

/// What a process of the server says that it does, in its title.
fn title(process: u32) -> String {
    let title = std::fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
    title.trim_matches(['\0', ' ']).to_owned()
}

/// The process of the server that is asked this, or was asked it last.
fn backend_of(server: &Postgres, query: &str) -> u32 {
    let file = server.home.path().join("pid");
    let note =
        format!("COPY (SELECT pid FROM pg_stat_activity WHERE query = '{query}') TO '{}'", file.display());
    server.ask(&["--count", "1", "--simple", "--query", &note]);
    std::fs::read_to_string(&file).unwrap().trim().parse().unwrap()
}

/// Its backend stopped while it idles, so that it takes the next request up seconds late, which its kernel had acknowledged (a stranger:
/// nobody was named).
#[test]
fn late_request_pickup_is_attributed_to_server() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let ask = ["--query", "SELECT pg_sleep(0.4)", "--count", "8", "--every", "1500ms", "--record"];
    let child = begun(server.sql(&[&ask[..], &[dir.to_str().unwrap()]].concat()));
    wait_until_asleep(&server, 1);
    let backend = backend_of(&server, "SELECT pg_sleep(0.4)");
    for _ in 0..2 {
        for does in [" SELECT", " idle"] {
            crate::support::wait_for(does, || title(backend).ends_with(does).then_some(()));
        }
        signal(backend, "-STOP");
        // For so long it does not run: that is the fault, not a wait for something.
        std::thread::sleep(Duration::from_secs(4));
        signal(backend, "-CONT");
    }
    let outcome = result(&child.wait_with_output().unwrap());
    assert_eq!(outcome["verdict"], json!({ "party": "server", "confidence": "high" }), "{outcome:#}");
    let part = |bound: &str| outcome["mean_ns"]["path"][bound].as_u64().unwrap();
    // What its kernel waits before it says that the request is there, and a lost answer, which would come after 200 ms, in two of eight.
    assert!(part("high") < 100_000_000, "{outcome:#}");
    says_the_same(&dir, &outcome);
    assert_sound(&dir);
}

/// `pg_ctl restart` under four connections: 1 to 3 of 8 came back, by chance, and the run went on as one of 8 (a stranger). Twice.
#[test]
fn all_connections_come_back_after_a_restart() {
    let Some(mut server) = Postgres::start() else { return };
    let ask = ["--query", "SELECT pg_sleep(0.3)", "--count", "12", "--connections", "4"];
    let child = begun(server.sql(&ask));
    for _ in 0..2 {
        wait_until_asleep(&server, 4);
        server.restart();
    }
    let out = child.wait_with_output().unwrap();
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    for one in outcome["connections"].as_array().unwrap() {
        assert_eq!(one["lost_from"], Value::Null, "{outcome:#}");
        assert_eq!((&one["queries"], one["sessions"].as_u64() >= Some(3)), (&json!(12), true), "{outcome:#}");
    }
    let notes = outcome["notes"].to_string();
    assert!(!notes.contains("not replaced") && !notes.contains("states are not known"), "{notes}");
    assert!(notes.contains("the session that looks at the server was lost"), "{notes}");
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(told.contains("57P01") && told.contains("others failed alike"), "{told}");
}

/// It is gone for good: how many ask from when on is told.
#[test]
fn who_does_not_come_back_is_told() {
    let Some(mut server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let ask =
        ["--query", "SELECT pg_sleep(0.3)", "--for", "1h", "--connections", "3", "--connect-timeout", "1s"];
    let child = begun(server.sql(&[&ask[..], &["--record", dir.to_str().unwrap()]].concat()));
    wait_until_asleep(&server, 3);
    server.kill();
    let out = child.wait_with_output().unwrap();
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    for one in outcome["connections"].as_array().unwrap() {
        assert!(one["lost_from"].as_u64() >= Some(1), "{outcome:#}");
    }
    // The recording had none of it (a stranger).
    says_the_same(&dir, &outcome);
    let notes = outcome["notes"].to_string();
    assert!(
        notes.contains("is not replaced, though that was tried for ")
            && notes.contains("0 of 3 connections ask"),
        "{notes}"
    );
}

/// Its kernel acknowledges everything, and it says nothing: `--for 3s` still waited after 21 s (a stranger).
#[test]
fn frozen_postgresql_is_given_up() {
    let Some(server) = Postgres::start() else { return };
    let child = begun(server.sql(&["--query", "SELECT pg_sleep(0.5)", "--for", "1s"]));
    wait_until_asleep(&server, 1);
    server.freeze();
    let out = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(told.contains("the time of --for, and nothing for 10s"), "{told}");
    assert_eq!(out.status.code(), Some(1), "{told}");
}

/// "See that the server can be reached", though it answered 63 looks meanwhile (a stranger): one of its processes is stopped, and all of them.
#[test]
fn stopped_backend_and_frozen_server_are_distinguished() {
    let Some(server) = Postgres::start() else { return };
    for is_whole in [false, true] {
        let ask = ["--query", "SELECT pg_sleep(0.5)", "--for", "1h", "--timeout", "3s"];
        let child = begun(server.sql(&ask));
        wait_until_asleep(&server, 1);
        let stopped = (!is_whole).then(|| backend_of(&server, "SELECT pg_sleep(0.5)"));
        match stopped {
            Some(backend) => signal(backend, "-STOP"),
            None => server.freeze(),
        }
        let out = child.wait_with_output().unwrap();
        if let Some(backend) = stopped {
            // One that is stopped says that it sleeps, too: then there was never one alone.
            signal(backend, "-CONT");
            wait_until_asleep(&server, 0);
        }
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        let why = "no whole answer within 3s, nor to the request to cancel it within 2s; ";
        let what = if is_whole {
            "nor was anything else asked of the server answered meanwhile: see that it runs"
        } else {
            "meanwhile the server answers on another session, and says there that this one "
        };
        assert!(told.contains(&format!("{why}{what}")), "{told}");
        assert_eq!(told.contains("can be reached"), is_whole, "{told}");
        assert_eq!((out.status.code(), told.lines().count()), (Some(1), 1), "{told}");
    }
}

/// A header, and the end of a binary copy, are no rows: the server counts what is one.
#[test]
fn copied_rows_match_server_count() {
    let Some(server) = Postgres::start() else { return };
    for format in ["text", "csv, header", "binary"] {
        let copy = format!("COPY (SELECT generate_series(1, 3)) TO STDOUT (FORMAT {format})");
        for how in [&[][..], &["--simple"], &["--fetch-size", "2"]] {
            let outcome = server.ask(&[&["--count", "2", "--query", &copy], how].concat());
            assert_eq!(
                (&outcome["queries"], &outcome["rows"]),
                (&json!(2), &json!(6)),
                "{format} {how:?}: {outcome:#}"
            );
        }
    }
}

/// What a server counts is held against the rows that came: only where it counts rows that it sent.
#[test]
fn row_count_matches_for_every_statement_kind() {
    let Some(server) = Postgres::start() else { return };
    let (simple, extended, fetched) = (&["--simple"][..], &[][..], &["--fetch-size", "3"][..]);
    for (query, rows, hows) in [
        ("SELECT generate_series(1, 10)", 10, &[simple, extended, fetched, &["--fetch-size", "5"]][..]),
        ("VALUES (1), (2), (3)", 3, &[simple, extended, fetched]),
        ("EXPLAIN SELECT 1", 1, &[simple, extended, fetched]),
        ("SHOW work_mem", 1, &[simple, extended, fetched]),
        // "SELECT 5", of rows that are sent to nobody.
        ("CREATE TEMP TABLE t AS SELECT generate_series(1, 5)", 0, &[simple, extended, fetched]),
        ("SELECT g INTO TEMP t FROM generate_series(1, 5) AS g", 0, &[simple, extended, fetched]),
        (
            "CREATE TEMP TABLE t (a int); INSERT INTO t SELECT generate_series(1, 4) RETURNING a; UPDATE t SET a = 7; SELECT * FROM t",
            8,
            &[simple],
        ),
        (
            "BEGIN; DECLARE c CURSOR FOR SELECT generate_series(1, 9); FETCH 5 FROM c; MOVE 2 FROM c; FETCH ALL FROM c; COMMIT",
            7,
            &[simple],
        ),
        (
            "PREPARE p AS SELECT generate_series(1, 3); EXECUTE p; CREATE TEMP TABLE t AS EXECUTE p; COPY t TO STDOUT",
            6,
            &[simple],
        ),
        // Rows of the rule's query, and the count of the INSERT.
        (
            "CREATE TEMP TABLE t (a int); CREATE RULE r AS ON INSERT TO t DO ALSO SELECT generate_series(1, 3); INSERT INTO t VALUES (1)",
            3,
            &[simple],
        ),
    ] {
        for how in hows {
            let outcome = server.ask(&[&["--count", "1", "--query", query], *how].concat());
            assert_eq!(
                (&outcome["failed"], &outcome["rows"]),
                (&json!(0), &json!(rows)),
                "{query} {how:?}: {outcome:#}"
            );
        }
    }
}

/// A server that lets nobody idle, asked with longer pauses: the first session is gone when the second query is due, with a word of it. What
/// looks at it is lost as well, and comes back.
#[test]
fn postgresql_idle_timeout_is_named_as_cause() {
    let Some(server) = Postgres::start() else { return };
    let alter = "ALTER ROLE owner SET idle_session_timeout = '1s'";
    server.ask(&["--count", "1", "--query", alter]);
    let pauses = ["--query", "SELECT 1", "--count", "3", "--every", "1400ms"];
    let out = server.sql(&pauses).output().unwrap();
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!((out.status.code(), told.lines().count()), (Some(1), 1), "{told}");
    let says = [
        "query 2 ",
        "(57P05)",
        "the server lets no session idle for the 1.4s of --every (idle_session_timeout",
    ];
    assert!(says.iter().all(|says| told.contains(says)), "{told}");
    // Asked often enough nobody idles, however long the run is.
    let outcome = server.ask(&["--query", "SELECT 1", "--count", "12", "--every", "50ms"]);
    assert_eq!((&outcome["queries"], &outcome["failed"]), (&json!(12), &json!(0)), "{outcome:#}");
}

/// `fathom` was stopped between two queries, and the server has ended its idle session: that it lets none idle for the time of `--every` is
/// not what happened.
#[test]
fn session_lost_during_host_pause_names_pause() {
    let Some(server) = Postgres::start() else { return };
    server.ask(&["--count", "1", "--query", "ALTER ROLE owner SET idle_session_timeout = '1200ms'"]);
    let count =
        "SELECT 1 FROM pg_stat_activity WHERE usename = 'owner' AND state = 'idle' AND query = 'SELECT 7'";
    let child = begun(server.sql(&["--query", "SELECT 7", "--every", "600ms", "--for", "1h"]));
    let deadline = Instant::now() + crate::support::PATIENCE;
    while server.ask(&["--count", "1", "--query", count])["rows"].as_u64() != Some(1) {
        assert!(Instant::now() < deadline, "it never asked");
    }
    signal(child.id(), "-STOP");
    while server.ask(&["--count", "1", "--query", count])["rows"].as_u64() != Some(0) {
        assert!(Instant::now() < deadline, "its session never ended");
    }
    signal(child.id(), "-CONT");
    let told = String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr).into_owned();
    let says =
        ["(57P05)", "this host stood still for ", "before that, beside the 600ms of --every, and the server"];
    assert!(says.iter().all(|says| told.contains(says)), "{told}");
}

/// The same of `MariaDB`, which says nothing when it ends an idle session; and `systemctl restart mariadb` under two connections.
#[test]
fn mariadb_restart_is_survived_idle_timeout_named() {
    let Some(mut server) = Mariadb::start() else { return };
    let child = begun(server.sql(&["--query", "SELECT SLEEP(0.3)", "--count", "8", "--connections", "2"]));
    let asleep = "SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE = 'User sleep'";
    let deadline = Instant::now() + crate::support::PATIENCE;
    while server.ask(&["--count", "1", "--query", asleep])["rows"].as_u64() != Some(2) {
        assert!(Instant::now() < deadline, "there were never two asleep");
    }
    signal(server.id(), "-TERM");
    server.begin_again("ready for connections");
    let out = child.wait_with_output().unwrap();
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    for one in outcome["connections"].as_array().unwrap() {
        assert_eq!((&one["queries"], &one["lost_from"]), (&json!(8), &Value::Null), "{outcome:#}");
        assert_eq!((&one["failed"], &one["sessions"]), (&json!(1), &json!(2)), "{outcome:#}");
    }
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(told.contains("has no whole answer") && told.contains("another one failed alike"), "{told}");
    // A second is the least that it can be.
    server.ask(&["--count", "1", "--query", "SET GLOBAL wait_timeout = 1"]);
    let pauses = ["--query", "SELECT 1", "--count", "2", "--every", "1400ms"];
    let out = server.sql(&pauses).output().unwrap();
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!((out.status.code(), told.lines().count()), (Some(1), 1), "{told}");
    assert!(told.contains("query 2 ") && told.contains("(wait_timeout)"), "{told}");
}

/// A server of SQL Server's kind that is frozen in the middle of an answer: told as what it is, and all of it recorded.
#[test]
fn frozen_mssql_is_given_up() {
    let (echo, server) = Echo::start_tds(&[]);
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    let url = format!("mssql://reader@{server}/sales?sslmode=disable");
    let ask =
        ["--query", "SELECT * FROM fathom_rows(100, 100)", "--for", "1h", "--timeout", "1s", "--record"];
    let mut command = crate::support::database::sql(Command::new(FATHOM), "SQLCMDPASSWORD", &url, &ask);
    command.arg(&kept);
    let child = begun(command);
    crate::support::wait_for("queries", || kept.join("queries-00000.parquet").exists().then_some(()));
    signal(echo.pid(), "-STOP");
    let out = child.wait_with_output().unwrap();
    signal(echo.pid(), "-CONT");
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(told.contains("no whole answer within 1s, nor to the request to cancel it within 2s"), "{told}");
    assert_eq!(out.status.code(), Some(1), "{told}");
    assert_sound(&kept);
}
