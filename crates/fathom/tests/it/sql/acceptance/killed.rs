//! `fathom sql` whose session is ended at the server, by `KILL` or `pg_terminate_backend`: it names the cause, and advises no grant.
use crate::support::database::{PASSWORD, begun, refused, result};
use crate::support::mariadb::{Mariadb, sql};
use crate::support::postgres::Postgres;
use crate::support::{FATHOM, ended, wait_for};
use serde_json::Value;
use std::process::{Child, Command};

/// The client works on each row; the buffers hold less than a second of it.
const WORKS: [&str; 4] = ["--think", "1ms", "--count", "1"];

/// The run's error and its notes.
fn told(child: Child) -> (String, String) {
    let out = ended(child);
    let line = refused(&out, 1);
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    (line, outcome["notes"].to_string())
}

/// Waits until one session of the server is like `which`, and kills all that are like `whom`.
fn once_there(server: &Mariadb, which: &str, kill: &str, whom: &str) {
    server.wait_for_sessions(1, which);
    let kill = format!(
        "BEGIN NOT ATOMIC FOR one IN (SELECT ID FROM information_schema.PROCESSLIST WHERE {whom}) DO {kill} one.ID; END FOR; END"
    );
    server.ask(&["--count", "1", "--query", &kill]);
}

const ASLEEP: &str = "STATE = 'User sleep' AND TIME_MS > 100";

/// The server's log says nothing of a `KILL`.
#[test]
fn mariadb_kill_is_named_as_cause() {
    let Some(server) = Mariadb::start() else { return };
    let asleep = ["--query", "SELECT SLEEP(600)", "--count", "1"];
    let child = begun(server.sql(&asleep));
    once_there(&server, ASLEEP, "KILL", ASLEEP);
    let (line, notes) = told(child);
    assert!(line.contains("KILL") && !line.contains("see the server's log"), "{line}");
    assert!(!notes.contains("GRANT") && !notes.contains("states are not known"), "{notes}");
    // Its query only.
    let child = begun(server.sql(&asleep));
    once_there(&server, ASLEEP, "KILL QUERY", ASLEEP);
    let (line, notes) = told(child);
    assert!(line.contains("error 1317") && line.contains("somebody ended it by KILL"), "{line}");
    assert!(!notes.contains("GRANT"), "{notes}");
}

/// The client works on rows and notices late; until then the observer finds no such session.
#[test]
fn kill_during_client_work_suggests_no_grant() {
    let Some(server) = Mariadb::start() else { return };
    let works = [&WORKS[..], &["--rows", "1000000", "--row-bytes", "8000"]].concat();
    let child = begun(server.sql(&works));
    // Its state changes from row to row; its query does not.
    let sends = "INFO LIKE 'SELECT REPEAT%'";
    once_there(&server, &format!("{sends} AND STATE = 'Writing to net' AND TIME_MS > 100"), "KILL", sends);
    let (line, notes) = told(child);
    assert!(!notes.contains("GRANT") && !notes.contains("states are not known"), "{notes}");
    assert!(line.contains("query 1 has no whole answer") && line.contains("KILL"), "{line}");
}

fn once_active(server: &Postgres, wait: &str) {
    let which = format!("FROM pg_stat_activity WHERE state = 'active' AND wait_event = '{wait}'");
    let there = format!("SELECT pid {which}");
    wait_for("a query under way", || {
        (server.ask(&["--count", "1", "--query", &there])["rows"] == 1).then_some(())
    });
    server.ask(&["--count", "1", "--query", &format!("SELECT pg_terminate_backend(pid) {which}")]);
}

#[test]
fn pg_terminate_backend_is_named_as_cause() {
    let Some(server) = Postgres::start() else { return };
    let child = begun(server.sql(&["--query", "SELECT pg_sleep(600)", "--count", "1"]));
    once_active(&server, "PgSleep");
    let (line, notes) = told(child);
    assert!(
        line.contains("57P01") && line.contains("administrator ended the session (pg_terminate_backend)"),
        "{line}"
    );
    assert!(!line.contains("see the server's log"), "{line}");
    assert!(!notes.contains("pooler") && !notes.contains("states are not known"), "{notes}");
}

/// A backend that waits to send ends without a message.
#[test]
fn backend_terminated_while_sending_suggests_no_pooler() {
    let Some(server) = Postgres::start() else { return };
    let works = [&WORKS[..], &["--rows", "1000000", "--row-bytes", "8000"]].concat();
    let child = begun(server.sql(&works));
    once_active(&server, "ClientWrite");
    let (line, notes) = told(child);
    assert!(!notes.contains("pooler") && !notes.contains("states are not known"), "{notes}");
    assert!(line.contains("query 1 has no whole answer") && line.contains("pg_terminate_backend"), "{line}");
    assert!(line.contains("is gone from the server, which listed it before"), "{line}");
}

/// Only the observer's session is killed: another one takes its place.
#[test]
fn killed_observer_session_is_replaced() {
    let Some(server) = Mariadb::start() else { return };
    let few = format!("CREATE USER few IDENTIFIED BY '{PASSWORD}'");
    server.ask(&["--count", "1", "--query", &few]);
    let asleep = ["--query", "SELECT SLEEP(6)", "--count", "1"];
    let child = begun(sql(Command::new(FATHOM), &server.url_of("few", ""), &asleep));
    // The observer, and the session of round trips.
    let beside = "USER = 'few' AND IFNULL(INFO, '') NOT LIKE '%SLEEP(6)%'";
    once_there(&server, ASLEEP, "KILL", beside);
    let outcome = result(&ended(child));
    let notes = outcome["notes"].to_string();
    assert!(
        notes.contains("the session that looks at the server was lost, and has logged in anew"),
        "{notes}"
    );
    assert!(!notes.contains("states are not known"), "{notes}");
}

/// One of two sessions is terminated while the client works on its whole answer: the next session is observed, too.
#[test]
fn session_replaced_between_queries_is_observed() {
    let Some(server) = Postgres::start() else { return };
    let works = ["--rows", "1000", "--think", "500us", "--count", "6", "--connections", "2"];
    let child = begun(server.sql(&works));
    let which = "FROM pg_stat_activity WHERE state = 'idle' AND query LIKE 'SELECT pg_catalog.repeat%' \
                 AND state_change < now() - interval '100 ms'";
    wait_for("an answer that is whole", || {
        let end = format!("SELECT pg_terminate_backend(pid) {which} LIMIT 1");
        (server.ask(&["--count", "1", "--query", &end])["rows"] == 1).then_some(())
    });
    let out = ended(child);
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    let notes = outcome["notes"].to_string();
    assert!(notes.contains("has logged in anew") && !notes.contains("states are not known"), "{outcome:#}");
    assert_eq!(out.status.code(), Some(1), "one query has no answer: {outcome:#}");
}
