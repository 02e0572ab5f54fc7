//! `fathom sql --connections`: the same query side by side, against a real `PostgreSQL`, a real `MariaDB` and `fathom echo --tds`. What
//! holds for one connection holds for each of several, and what one meets is not the others'.
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use crate::support::FATHOM;
use crate::support::database::{PASSWORD, result, says_the_same};
use crate::support::mariadb::Mariadb;
use crate::support::postgres::Postgres;
use crate::support::probe::assert_sound;
use crate::support::reflector::Echo;

fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("{name}: {of:#}"))
}

fn each(outcome: &Value) -> &Vec<Value> {
    outcome["connections"].as_array().unwrap_or_else(|| panic!("{outcome:#}"))
}

/// The law: what is counted in all is what the connections have together, and each asked what it answered and what failed.
fn is_conserved(outcome: &Value, connections: usize) {
    let each = each(outcome);
    assert_eq!(each.len(), connections, "{outcome:#}");
    for name in ["queries", "failed", "cancelled", "rows", "unrecorded"] {
        let sum: u64 = each.iter().map(|one| number(one, name)).sum();
        assert_eq!(sum, number(outcome, name), "{name}: {outcome:#}");
    }
    for one in each {
        let kinds = one["failures"].as_object().unwrap().values();
        assert_eq!(kinds.map(|n| n.as_u64().unwrap()).sum::<u64>(), number(one, "failed"), "{outcome:#}");
    }
}

/// The connection of each row that is recorded, in their order, and whether it failed.
fn rows(dir: &Path) -> Vec<(i64, bool)> {
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;
    let file = std::fs::File::open(dir.join("queries-00000.parquet")).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let mut rows = Vec::new();
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        let connection = batch.column_by_name("connection").unwrap();
        let connection = connection.as_primitive::<arrow_array::types::Int64Type>().clone();
        let error = batch.column_by_name("error").unwrap().clone();
        rows.extend((0..batch.num_rows()).map(|row| (connection.value(row), !error.is_null(row))));
    }
    rows
}

/// One line on standard error, and exit code 1.
fn refused(out: &Output) -> String {
    let line = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!((out.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    line
}

fn begun(mut command: Command) -> Child {
    command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the server says that so many sessions sleep in a query.
fn wait_until_asleep(server: &Postgres, sleeping: u64) {
    let ask = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    let deadline = Instant::now() + crate::support::PATIENCE;
    while number(&server.ask(&["--count", "1", "--query", ask]), "rows") != sleeping {
        assert!(Instant::now() < deadline, "there were never {sleeping} at work");
    }
}

/// Eight that sleep for 200 ms each at the same time: the time of each is its own, and none waits for another.
#[test]
fn eight_connections_run_queries_concurrently() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let kept = dir.to_str().unwrap();
    let ask = ["--query", "SELECT pg_sleep(0.2)", "--count", "4", "--connections", "8", "--record", kept];
    let outcome = server.ask(&ask);
    is_conserved(&outcome, 8);
    assert_eq!((number(&outcome, "queries"), number(&outcome, "failed")), (32, 0), "{outcome:#}");
    for one in each(&outcome) {
        assert_eq!((number(one, "queries"), number(one, "sessions")), (4, 1), "{outcome:#}");
        // Each session was looked at by itself, and was seen to sleep.
        assert_eq!(one["verdict"], json!({ "party": "server", "confidence": "high" }), "{outcome:#}");
    }
    // The first of each finds nothing warm.
    assert_eq!(outcome["wall_ns"]["count"], 24, "{outcome:#}");
    assert_sound(&dir);
    says_the_same(&dir, &outcome);
    let rows = rows(&dir);
    for connection in 0..8 {
        assert_eq!(rows.iter().filter(|(of, _)| *of == connection).count(), 4, "{rows:?}");
    }
    // They are side by side: all eight had their first answer before any had its third.
    let firsts: std::collections::BTreeSet<_> = rows[..16].iter().map(|(of, _)| of).collect();
    assert_eq!(firsts.len(), 8, "{rows:?}");
}

/// Sessions with an even number sleep and give a row; the others work and give two. Whoever looks sees each as it is, and no other.
#[test]
fn each_observation_belongs_to_its_session() {
    let Some(server) = Postgres::start() else { return };
    let ask = "SELECT CASE WHEN pg_backend_pid() % 2 = 0 THEN pg_sleep(0.3)::text \
               ELSE (SELECT count(md5(a::text)) FROM generate_series(1, 300000) a)::text END \
               FROM generate_series(1, 1 + pg_backend_pid() % 2)";
    let outcome = server.ask(&["--query", ask, "--count", "5", "--connections", "8"]);
    is_conserved(&outcome, 8);
    for one in each(&outcome) {
        let waits = &one["server_waits"];
        match number(one, "rows") {
            5 => assert!(waits["Timeout/PgSleep"].as_u64() > Some(0) && number(one, "looks") > 4, "{one:#}"),
            10 => assert!(waits["Timeout/PgSleep"].is_null(), "{one:#}"),
            _ => panic!("{one:#}"),
        }
    }
}

/// One connection is as it was before there could be several, but for the column.
#[test]
fn one_by_itself_is_as_it_was() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let outcome = server.ask(&["--count", "4", "--rows", "10", "--record", dir.to_str().unwrap()]);
    assert!(outcome["connections"].is_null(), "{outcome:#}");
    assert_eq!(rows(&dir), [(0, false); 4]);
    assert_sound(&dir);
}

/// One of eight is ended by somebody while they are at work, twice: it logs in anew, and the others are not disturbed.
#[test]
fn lost_session_logs_in_again_others_continue() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let sleeps = "SELECT pg_sleep(0.3)";
    let child = begun(server.sql(&[
        "--query",
        sleeps,
        "--count",
        "20",
        "--connections",
        "8",
        "--record",
        dir.to_str().unwrap(),
    ]));
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(0.3)' AND state = 'active' LIMIT 1";
    let log = || server.log().matches("terminating connection due to administrator command").count();
    let deadline = Instant::now() + crate::support::PATIENCE;
    for ended in 1..=2 {
        while log() < ended {
            assert!(Instant::now() < deadline, "it was never seen at work");
            server.ask(&["--count", "1", "--query", end]);
        }
    }
    let out = crate::support::ended(child);
    let ended = log() as u64;
    let line = refused(&out);
    assert!(line.contains("57P01") && line.contains("(connection "), "{line}");
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    is_conserved(&outcome, 8);
    // What was lost is what was ended; every other one was answered, and none was asked too few.
    assert_eq!(outcome["failures"], json!({ "SQLSTATE 57P01": ended }), "{outcome:#}");
    assert_eq!(number(&outcome, "queries"), 160, "{outcome:#}");
    let sessions: u64 = each(&outcome).iter().map(|one| number(one, "sessions")).sum();
    assert_eq!(sessions, 8 + ended, "{outcome:#}");
    for one in each(&outcome) {
        assert_eq!(
            (number(one, "queries"), number(one, "failed") + 1),
            (20, number(one, "sessions")),
            "{outcome:#}"
        );
    }
    let anew = outcome["notes"].as_array().unwrap().iter();
    let anew = anew.filter(|note| note.as_str().unwrap().ends_with("was lost, and has logged in anew"));
    assert_eq!(anew.count() as u64, ended, "{outcome:#}");
    // The new session is looked at as the one before was: nobody's states are unknown.
    assert!(!outcome["notes"].to_string().contains("not known"), "{outcome:#}");
    assert_sound(&dir);
    says_the_same_though_it_failed(&dir, &outcome);
    assert_eq!(rows(&dir).iter().filter(|(_, failed)| *failed).count() as u64, ended);
}

/// The user's password is another by now: a lost connection tried the old one a dozen times, and so did the next; servers shut users out
/// for that. It is tried once, whoever is lost, and the others ask on.
#[test]
fn a_password_that_was_changed_is_tried_once() {
    let Some(server) = Postgres::start() else { return };
    let user = format!("CREATE USER worker PASSWORD '{PASSWORD}'");
    server.ask(&["--count", "1", "--query", &user]);
    let url = server.url().replace("owner@", "worker@");
    let ask = ["--query", "SELECT pg_sleep(0.1)", "--count", "25", "--connections", "4"];
    let child = begun(crate::support::postgres::sql(Command::new(FATHOM), &url, &ask));
    wait_until_asleep(&server, 4);
    server.ask(&["--count", "1", "--query", "ALTER USER worker PASSWORD 'another'"]);
    let end =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(0.1)' LIMIT 1";
    let log = |what: &str| server.log().matches(what).count();
    let deadline = Instant::now() + crate::support::PATIENCE;
    let ended = || log("terminating connection due to administrator command");
    while ended() < 2 {
        assert!(Instant::now() < deadline, "they were never ended");
        server.ask(&["--count", "1", "--query", end]);
    }
    let out = crate::support::ended(child);
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    is_conserved(&outcome, 4);
    assert_eq!(log("password authentication failed for user \"worker\""), 1, "{outcome:#}");
    let whole = each(&outcome).iter().filter(|one| number(one, "queries") == 25);
    assert_eq!((whole.count(), number(&outcome, "failed") as usize), (4 - ended(), ended()), "{outcome:#}");
    let notes = outcome["notes"].to_string();
    assert_eq!(notes.matches("is not replaced").count(), ended(), "{notes}");
}

fn says_the_same_though_it_failed(dir: &Path, outcome: &Value) {
    let out = Command::new(FATHOM).args(["recording", "summary", "--json"]).arg(dir).output().unwrap();
    let summary: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(&summary["queries"], outcome);
}

#[test]
fn server_death_keeps_recording_of_all_connections() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let sleeps = "SELECT pg_sleep(0.01), repeat('x', 9000) FROM generate_series(1, 100000)";
    let child =
        begun(server.sql(&["--query", sleeps, "--connections", "8", "--record", dir.to_str().unwrap()]));
    wait_until_asleep(&server, 8);
    let pid = std::fs::read_to_string(server.home.path().join("data/postmaster.pid")).unwrap();
    // Immediate shutdown: https://www.postgresql.org/docs/15/server-shutdown.html
    assert!(Command::new("kill").args(["-QUIT", pid.lines().next().unwrap()]).status().unwrap().success());
    let out = crate::support::ended(child);
    let line = refused(&out);
    assert!(line.contains("has no whole answer"), "{line}");
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    is_conserved(&outcome, 8);
    assert_eq!((number(&outcome, "queries"), number(&outcome, "failed")), (8, 8), "{outcome:#}");
    assert!(each(&outcome).iter().all(|one| number(one, "failed") == 1), "{outcome:#}");
    assert_sound(&dir);
}

/// Each is cancelled once, and none goes on.
#[test]
fn ctrl_c_cancels_all_of_them_once() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let child = begun(server.sql(&[
        "--query",
        "SELECT pg_sleep(600)",
        "--connections",
        "8",
        "--record",
        dir.to_str().unwrap(),
    ]));
    wait_until_asleep(&server, 8);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let outcome = result(&crate::support::ended(child));
    is_conserved(&outcome, 8);
    assert_eq!((number(&outcome, "failed"), number(&outcome, "cancelled")), (0, 8), "{outcome:#}");
    // A busy host may have kept fathom from running, which is told too.
    assert!(
        outcome["notes"].as_array().unwrap().contains(&json!("8 queries were ended by you")),
        "{outcome:#}"
    );
    assert_eq!(
        server.log().matches("canceling statement due to user request").count(),
        8,
        "{}",
        server.log()
    );
    wait_until_asleep(&server, 0);
    assert_sound(&dir);
}

#[test]
fn wrong_password_or_query_is_reported_once() {
    let Some(server) = Postgres::start() else { return };
    let wrong = server.sql(&["--connections", "8"]).env("PGPASSWORD", "wrong").output().unwrap();
    assert!(refused(&wrong).contains("28P01"));
    let log = server.log();
    assert_eq!(log.matches("password authentication failed").count(), 1, "{log}");
    let line = refused(&server.sql(&["--connections", "8", "--query", "SELEC 1"]).output().unwrap());
    assert!(line.contains("42601") && line.contains("(connection "), "{line}");
}

/// More than the server takes, by a user of whom it takes five.
#[test]
fn postgresql_connection_limit_is_one_line_error() {
    let Some(server) = Postgres::start() else { return };
    let few = format!("CREATE USER few CONNECTION LIMIT 5 PASSWORD '{PASSWORD}'");
    server.ask(&["--count", "1", "--simple", "--query", &few]);
    let url = server.url().replace("owner@", "few@");
    let dir = server.home.path().join("kept");
    let ask = |connections: &str, more: &[&str]| {
        let arguments = [&["--rows", "10", "--count", "3", "--connections", connections][..], more].concat();
        crate::support::postgres::sql(Command::new(FATHOM), &url, &arguments).output().unwrap()
    };
    let line = refused(&ask("9", &["--record", dir.to_str().unwrap()]));
    assert!(line.contains("5 of 9 connections could be opened") && line.contains("(53300)"), "{line}");
    assert!(line.contains("ask over fewer") && !dir.exists(), "{line}");
    // All five are for the queries: nobody can look, and the split goes on without.
    let outcome = result(&ask("5", &["--json"]));
    is_conserved(&outcome, 5);
    let notes = outcome["notes"].to_string();
    assert!(notes.contains("the server's states are not known") && notes.contains("(53300)"), "{notes}");
    for (wrong, says) in [("0", "1..=64"), ("65", "1..=64")] {
        let out = ask(wrong, &[]);
        let line = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(2) && line.contains(says), "{line}");
    }
    let out = ask("2", &["--fetch-size", "5,10"]);
    let line = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.code() == Some(2) && line.contains("the mixture"), "{line}");
}

/// `MariaDB`: sessions are ended by KILL, and queries by KILL QUERY on a session of its own each.
#[test]
fn the_same_of_mariadb() {
    let Some(server) = Mariadb::start() else { return };
    let dir = server.home.path().join("kept");
    let kept = dir.to_str().unwrap();
    let outcome =
        server.ask(&["--query", "SELECT SLEEP(0.3)", "--count", "3", "--connections", "8", "--record", kept]);
    is_conserved(&outcome, 8);
    assert_eq!((number(&outcome, "queries"), number(&outcome, "failed")), (24, 0), "{outcome:#}");
    assert!(each(&outcome).iter().all(|one| one["verdict"]["party"] == "server"), "{outcome:#}");
    assert_sound(&dir);
    says_the_same(&dir, &outcome);
    // One of them is killed while it sleeps: it logs in anew.
    let child = begun(server.sql(&["--query", "SELECT SLEEP(0.5)", "--count", "4", "--connections", "8"]));
    let number_of =
        "SELECT GROUP_CONCAT(ID) FROM information_schema.PROCESSLIST WHERE INFO = 'SELECT SLEEP(0.5)'";
    let file = server.home.path().join("tmp/at-work");
    let who = format!("{number_of} INTO OUTFILE '{}'", file.display());
    let deadline = Instant::now() + crate::support::PATIENCE;
    let killed = loop {
        assert!(Instant::now() < deadline, "nobody is at work");
        _ = std::fs::remove_file(&file);
        server.ask(&["--count", "1", "--query", &who]);
        let list = std::fs::read_to_string(&file).unwrap_or_default();
        if let Some(one) = list.trim().split(',').next().and_then(|id| id.parse::<u64>().ok()) {
            break one;
        }
    };
    server.ask(&["--count", "1", "--query", &format!("KILL {killed}")]);
    let out = crate::support::ended(child);
    let line = refused(&out);
    assert!(line.contains("(connection "), "{line}");
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    is_conserved(&outcome, 8);
    assert_eq!((number(&outcome, "queries"), number(&outcome, "failed")), (32, 1), "{outcome:#}");
    assert_eq!(each(&outcome).iter().map(|one| number(one, "sessions")).sum::<u64>(), 9, "{outcome:#}");
    // Eight that would go on for ever; one Ctrl-C.
    let child = begun(server.sql(&["--query", "SELECT SLEEP(600)", "--connections", "8"]));
    let at_work = "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO = 'SELECT SLEEP(600)'";
    let asleep = || number(&server.ask(&["--count", "1", "--query", at_work]), "rows");
    let deadline = Instant::now() + crate::support::PATIENCE;
    while asleep() != 8 {
        assert!(Instant::now() < deadline, "there were never eight at work");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let outcome = result(&crate::support::ended(child));
    is_conserved(&outcome, 8);
    assert_eq!((number(&outcome, "queries"), asleep()), (8, 0), "{outcome:#}");
}

/// What the server counts itself is of all sessions together, and of each: clients that work on rows that no buffer holds.
#[test]
fn server_counts_are_sums_over_sessions() {
    let (echo, server) = Echo::start_tds(&["--tds-send-buffer", "64KiB"]);
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("kept");
    let url = format!("mssql://reader@{server}/sales?sslmode=disable");
    let arguments = [
        "--connections",
        "3",
        "--count",
        "2",
        "--rows",
        "1200",
        "--row-bytes",
        "8000",
        "--think",
        "400us",
        "--json",
        "--record",
    ];
    let mut command = crate::support::database::sql(Command::new(FATHOM), "SQLCMDPASSWORD", &url, &arguments);
    let outcome = result(&command.arg(&dir).output().unwrap());
    is_conserved(&outcome, 3);
    assert_sound(&dir);
    says_the_same(&dir, &outcome);
    let waits = echo.stop_tds()["waits"].clone();
    for name in ["waits", "ns", "queries", "wall_ns"] {
        let of_each = each(&outcome).iter().map(|one| number(&one["server_counted"], name));
        assert_eq!(of_each.sum::<u64>(), number(&outcome["server_counted"], name), "{name}: {outcome:#}");
    }
    assert!(each(&outcome).iter().all(|one| number(&one["server_counted"], "ns") > 0), "{outcome:#}");
    assert_eq!(outcome["server_counted"]["waits"], waits["shown_count"], "{outcome:#} {waits:#}");
    // The packets are those of all answers: six, of 1,200 rows of 8,000 bytes.
    assert!(number(&outcome["tds"], "bytes") >= 6 * 1_200 * 8_000, "{outcome:#}");
}

/// Passes bytes between clients and a server, and cuts the connection of this ordinal when so many of the server's have come over it.
fn cutting(server: SocketAddr, ordinal: usize, after: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let pass = |mut from: TcpStream, mut to: TcpStream, mut left: usize| {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            left = left.saturating_sub(n);
            if left == 0 || to.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        for end in [from, to] {
            _ = end.shutdown(Shutdown::Both);
        }
    };
    std::thread::spawn(move || {
        for (at, client) in listener.incoming().enumerate() {
            let (Ok(client), Ok(there)) = (client, TcpStream::connect(server)) else { return };
            // What is not read soon holds the server up.
            socket2::SockRef::from(&there).set_recv_buffer_size(64 << 10).unwrap();
            socket2::SockRef::from(&client).set_send_buffer_size(64 << 10).unwrap();
            let (to_client, to_server) = (client.try_clone().unwrap(), there.try_clone().unwrap());
            std::thread::spawn(move || pass(client, to_server, usize::MAX));
            let left = if at == ordinal { after } else { usize::MAX };
            std::thread::spawn(move || pass(there, to_client, left));
        }
    });
    address
}

/// A session that is lost takes what was counted of it along: what was counted of the other, and of the one that took its place, was
/// thrown away with it.
#[test]
fn lost_session_keeps_other_sessions_counts() {
    let (echo, server) = Echo::start_tds(&["--tds-send-buffer", "64KiB"]);
    // The second that asks; who measures beside goes elsewhere.
    let url = format!("mssql://reader@{}/sales?sslmode=disable", cutting(server, 1, 2_000_000));
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("kept");
    let beside = echo.address().to_string();
    // More than what lies between has room for, so that the server waits.
    let rows = ["--rows", "3000", "--row-bytes", "8000", "--think", "100us", "--connections", "2"];
    let arguments = [&rows[..], &["--count", "2", "--json", "--reflector", &beside, "--record"]].concat();
    let mut command = crate::support::database::sql(Command::new(FATHOM), "SQLCMDPASSWORD", &url, &arguments);
    let out = command.arg(&dir).output().unwrap();
    refused(&out);
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    is_conserved(&outcome, 2);
    assert_sound(&dir);
    says_the_same(&dir, &outcome);
    assert_eq!((number(&outcome, "queries"), number(&outcome, "failed")), (4, 1), "{outcome:#}");
    let of_each = [0, 1].map(|at| &each(&outcome)[at]["server_counted"]);
    let lost = [&outcome["server_counted"], of_each[0], of_each[1]].map(|of| number(of, "lost_sessions"));
    assert_eq!(lost, [1, 0, 1], "{outcome:#}");
    for name in ["waits", "ns"] {
        let [first, second] = of_each.map(|of| number(of, name));
        assert!(first + second > 0, "{outcome:#}");
        assert_eq!(first + second, number(&outcome["server_counted"], name), "{outcome:#}");
    }
}

/// A user of whom `MariaDB` takes four sessions at once: what it says is passed on.
#[test]
fn mariadb_connection_limit_is_one_line_error() {
    let Some(server) = Mariadb::start() else { return };
    let few = format!("CREATE USER few IDENTIFIED BY '{PASSWORD}' WITH MAX_USER_CONNECTIONS 4");
    server.ask(&["--count", "1", "--query", &few]);
    let arguments = ["--query", "SELECT 1", "--count", "3", "--connections", "6"];
    let out = crate::support::mariadb::sql(Command::new(FATHOM), &server.url_of("few", ""), &arguments).output();
    let line = refused(&out.unwrap());
    assert!(line.contains("4 of 6 connections could be opened") && line.contains("error 1226"), "{line}");
}
