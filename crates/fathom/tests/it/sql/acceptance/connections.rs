//! `fathom sql --connections` against a real `PostgreSQL` and a real `MariaDB`: several connections behave as one does, and
//! what happens to one does not affect the others.
use crate::sql::connections::{each, is_conserved, number};
use crate::support::database::{PASSWORD, begun, recorded, refused, result, says_the_same};
use crate::support::mariadb::{self, Mariadb};
use crate::support::postgres::{self, Postgres};
use crate::support::probe::assert_sound;
use crate::support::{FATHOM, PATIENCE, ended, signal, wait_for};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The connection of each recorded query, and whether it failed.
fn rows(dir: &Path) -> Vec<(i64, bool)> {
    let rows = recorded(dir, ["connection"]).into_iter();
    rows.map(|([connection], failed)| (connection.expect("a connection"), failed)).collect()
}

/// Eight queries of 200 ms sleep at the same time.
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
        // Each session was observed, and was seen to sleep.
        assert_eq!(one["verdict"], json!({ "party": "server", "confidence": "high" }), "{outcome:#}");
    }
    // The first query of each is a warm-up.
    assert_eq!(outcome["wall_ns"]["count"], 24, "{outcome:#}");
    assert_sound(&dir);
    says_the_same(&dir, &outcome);
    let rows = rows(&dir);
    for connection in 0..8 {
        assert_eq!(rows.iter().filter(|(of, _)| *of == connection).count(), 4, "{rows:?}");
    }
    // All eight have their first answer before any has its third.
    let firsts: std::collections::BTreeSet<_> = rows[..16].iter().map(|(of, _)| of).collect();
    assert_eq!(firsts.len(), 8, "{rows:?}");
}

/// Sessions with an even number sleep and give one row; the others work and give two.
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

/// Two of eight sessions are terminated at work: each logs in again, and the others go on.
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
    let deadline = Instant::now() + PATIENCE;
    for ended in 1..=2 {
        while log() < ended {
            assert!(Instant::now() < deadline, "it was never seen at work");
            server.ask(&["--count", "1", "--query", end]);
        }
    }
    let out = ended(child);
    let ended = log() as u64;
    let line = refused(&out, 1);
    assert!(line.contains("57P01") && line.contains("(connection "), "{line}");
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    is_conserved(&outcome, 8);
    // Only the terminated queries failed, and each connection asked its whole count.
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
    // The new session is observed, too.
    assert!(!outcome["notes"].to_string().contains("not known"), "{outcome:#}");
    assert_sound(&dir);
    says_the_same(&dir, &outcome);
    assert_eq!(rows(&dir).iter().filter(|(_, failed)| *failed).count() as u64, ended);
}

/// The password changes during the run. Lost connections try the old one once in all, because servers lock users out.
#[test]
fn changed_password_is_tried_once() {
    let Some(server) = Postgres::start() else { return };
    let user = format!("CREATE USER worker PASSWORD '{PASSWORD}'");
    server.ask(&["--count", "1", "--query", &user]);
    let url = server.url().replace("owner@", "worker@");
    let ask = ["--query", "SELECT pg_sleep(0.1)", "--count", "25", "--connections", "4"];
    let child = begun(postgres::sql(Command::new(FATHOM), &url, &ask));
    server.wait_until_asleep(4);
    server.ask(&["--count", "1", "--query", "ALTER USER worker PASSWORD 'another'"]);
    let end =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(0.1)' LIMIT 1";
    let log = |what: &str| server.log().matches(what).count();
    let deadline = Instant::now() + PATIENCE;
    let terminated = || log("terminating connection due to administrator command");
    while terminated() < 2 {
        assert!(Instant::now() < deadline, "their sessions were never at work");
        server.ask(&["--count", "1", "--query", end]);
    }
    let out = ended(child);
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    is_conserved(&outcome, 4);
    assert_eq!(log("password authentication failed for user \"worker\""), 1, "{outcome:#}");
    let whole = each(&outcome).iter().filter(|one| number(one, "queries") == 25);
    assert_eq!(
        (whole.count(), number(&outcome, "failed") as usize),
        (4 - terminated(), terminated()),
        "{outcome:#}"
    );
    let notes = outcome["notes"].to_string();
    assert_eq!(notes.matches("is not replaced").count(), terminated(), "{notes}");
}

#[test]
fn server_death_keeps_recording_of_all_connections() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let sleeps = "SELECT pg_sleep(0.01), repeat('x', 9000) FROM generate_series(1, 100000)";
    let child =
        begun(server.sql(&["--query", sleeps, "--connections", "8", "--record", dir.to_str().unwrap()]));
    server.wait_until_asleep(8);
    let pid = std::fs::read_to_string(server.home.path().join("data/postmaster.pid")).unwrap();
    // Immediate shutdown: https://www.postgresql.org/docs/15/server-shutdown.html
    assert!(Command::new("kill").args(["-QUIT", pid.lines().next().unwrap()]).status().unwrap().success());
    let out = ended(child);
    let line = refused(&out, 1);
    assert!(line.contains("has no whole answer"), "{line}");
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    is_conserved(&outcome, 8);
    assert_eq!((number(&outcome, "queries"), number(&outcome, "failed")), (8, 8), "{outcome:#}");
    assert!(each(&outcome).iter().all(|one| number(one, "failed") == 1), "{outcome:#}");
    assert_sound(&dir);
}

#[test]
fn ctrl_c_cancels_each_query_once() {
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
    server.wait_until_asleep(8);
    signal(&child, "INT");
    let outcome = result(&ended(child));
    is_conserved(&outcome, 8);
    assert_eq!((number(&outcome, "failed"), number(&outcome, "cancelled")), (0, 8), "{outcome:#}");
    // On a busy host there are other notes, too.
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
    server.wait_until_asleep(0);
    assert_sound(&dir);
}

#[test]
fn wrong_password_or_query_is_reported_once() {
    let Some(server) = Postgres::start() else { return };
    let wrong = server.sql(&["--connections", "8"]).env("PGPASSWORD", "wrong").output().unwrap();
    assert!(refused(&wrong, 1).contains("28P01"));
    let log = server.log();
    assert_eq!(log.matches("password authentication failed").count(), 1, "{log}");
    let line = refused(&server.sql(&["--connections", "8", "--query", "SELEC 1"]).output().unwrap(), 1);
    assert!(line.contains("42601") && line.contains("(connection "), "{line}");
}

/// A user with at most five sessions.
#[test]
fn postgresql_connection_limit_is_one_line_error() {
    let Some(server) = Postgres::start() else { return };
    let few = format!("CREATE USER few CONNECTION LIMIT 5 PASSWORD '{PASSWORD}'");
    server.ask(&["--count", "1", "--simple", "--query", &few]);
    let url = server.url().replace("owner@", "few@");
    let dir = server.home.path().join("kept");
    let ask = |connections: &str, more: &[&str]| {
        let arguments = [&["--rows", "10", "--count", "3", "--connections", connections][..], more].concat();
        postgres::sql(Command::new(FATHOM), &url, &arguments).output().unwrap()
    };
    let line = refused(&ask("9", &["--record", dir.to_str().unwrap()]), 1);
    assert!(line.contains("5 of 9 connections could be opened") && line.contains("(53300)"), "{line}");
    assert!(line.contains("ask over fewer") && !dir.exists(), "{line}");
    // All five are for the queries, and none for the observer.
    let outcome = result(&ask("5", &["--json"]));
    is_conserved(&outcome, 5);
    let notes = outcome["notes"].to_string();
    assert!(notes.contains("the server's states are not known") && notes.contains("(53300)"), "{notes}");
}

/// A session is ended by KILL, and a query by KILL QUERY on a session of its own.
#[test]
fn mariadb_sessions_are_observed_replaced_and_cancelled() {
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
    // One of them is killed while it sleeps, and logs in again.
    let child = begun(server.sql(&["--query", "SELECT SLEEP(0.5)", "--count", "4", "--connections", "8"]));
    wait_for("a session at work", || {
        let kill = "BEGIN NOT ATOMIC FOR one IN (SELECT ID FROM information_schema.PROCESSLIST \
                    WHERE INFO = 'SELECT SLEEP(0.5)' LIMIT 1) DO KILL one.ID; END FOR; END";
        let is_at_work = server.sessions("INFO = 'SELECT SLEEP(0.5)'") > 0;
        is_at_work.then(|| server.ask(&["--count", "1", "--query", kill]))
    });
    let out = ended(child);
    let line = refused(&out, 1);
    assert!(line.contains("(connection "), "{line}");
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    is_conserved(&outcome, 8);
    assert_eq!((number(&outcome, "queries"), number(&outcome, "failed")), (32, 1), "{outcome:#}");
    assert_eq!(each(&outcome).iter().map(|one| number(one, "sessions")).sum::<u64>(), 9, "{outcome:#}");
    // One Ctrl-C ends eight queries.
    let child = begun(server.sql(&["--query", "SELECT SLEEP(600)", "--connections", "8"]));
    let at_work = "INFO = 'SELECT SLEEP(600)'";
    server.wait_for_sessions(8, at_work);
    signal(&child, "INT");
    let outcome = result(&ended(child));
    is_conserved(&outcome, 8);
    assert_eq!((number(&outcome, "queries"), server.sessions(at_work)), (8, 0), "{outcome:#}");
}

/// A user with at most four sessions.
#[test]
fn mariadb_connection_limit_is_one_line_error() {
    let Some(server) = Mariadb::start() else { return };
    let few = format!("CREATE USER few IDENTIFIED BY '{PASSWORD}' WITH MAX_USER_CONNECTIONS 4");
    server.ask(&["--count", "1", "--query", &few]);
    let arguments = ["--query", "SELECT 1", "--count", "3", "--connections", "6"];
    let out = mariadb::sql(Command::new(FATHOM), &server.url_of("few", ""), &arguments).output();
    let line = refused(&out.unwrap(), 1);
    assert!(line.contains("4 of 6 connections could be opened") && line.contains("error 1226"), "{line}");
}
