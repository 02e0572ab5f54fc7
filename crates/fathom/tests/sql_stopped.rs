//! `fathom sql` and its server against a real `PostgreSQL`, of which one is stopped for a while: whose time that is, and what goes on.
#![cfg(target_os = "linux")]

mod support;

use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::database::result;
use support::postgres::Postgres;
use support::probe::assert_sound;

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
    let deadline = Instant::now() + support::PATIENCE;
    while server.ask(&["--count", "1", "--query", ask])["rows"].as_u64() != Some(sleeping) {
        assert!(Instant::now() < deadline, "there were never {sleeping} asleep");
    }
}

/// SIGSTOP while the server works, for longer than the query takes and may take: the answer lies here, the rest is the client's, which
/// is told and recorded; and it is not too late.
#[test]
fn a_client_that_was_stopped_says_so_and_blames_nobody() {
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
    let log = std::fs::read_to_string(dir.join("events.jsonl")).unwrap();
    let paused = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).any(|event| {
        let is_long = event["duration_ns"].as_u64() > Some(3_500_000_000);
        event["kind"] == "pause" && event["host"] == "local" && is_long
    });
    assert!(paused, "{log}");
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
    let ask =
        ["--query", "SELECT pg_sleep(0.3)", "--for", "1h", "--connections", "3", "--connect-timeout", "1s"];
    let child = begun(server.sql(&ask));
    wait_until_asleep(&server, 3);
    server.kill();
    let out = child.wait_with_output().unwrap();
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    for one in outcome["connections"].as_array().unwrap() {
        assert!(one["lost_from"].as_u64() >= Some(1), "{outcome:#}");
    }
    let notes = outcome["notes"].to_string();
    assert!(
        notes.contains("is not replaced, though that was tried for ")
            && notes.contains("0 of 3 connections ask"),
        "{notes}"
    );
}

/// Its kernel acknowledges everything, and it says nothing: `--for 3s` still waited after 21 s (a stranger).
#[test]
fn a_server_that_is_frozen_is_not_waited_for() {
    let Some(server) = Postgres::start() else { return };
    let child = begun(server.sql(&["--query", "SELECT pg_sleep(0.5)", "--for", "1s"]));
    wait_until_asleep(&server, 1);
    server.freeze();
    let out = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(told.contains("the time of --for, and nothing for 10s"), "{told}");
    assert_eq!(out.status.code(), Some(1), "{told}");
}

/// A header, and the end of a binary copy, are no rows: the server counts what is one.
#[test]
fn rows_that_are_copied_are_those_that_the_server_counts() {
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
