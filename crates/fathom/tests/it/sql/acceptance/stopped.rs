//! `fathom sql` while it, a process of the server or the whole server stops, ends or starts again.
use crate::support::database::{begun, refused, result, says_the_same, sql};
use crate::support::mariadb::Mariadb;
use crate::support::postgres::Postgres;
use crate::support::probe::assert_sound;
use crate::support::rate::assert_rate;
use crate::support::reflector::Echo;
use crate::support::{FATHOM, ended, must, wait_for};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

fn signal(process: u32, name: &str) {
    must("kill", &[&format!("-{name}"), &process.to_string()]);
}

/// The client stops for longer than the query takes and may take: the rest is the client's time, and the query is not too late.
#[test]
fn client_pause_is_attributed_to_client() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let ask = ["--query", "SELECT pg_sleep(1)", "--count", "1", "--timeout", "3s", "--record"];
    let child = begun(server.sql(&[&ask[..], &[dir.to_str().unwrap()]].concat()));
    server.wait_until_asleep(1);
    signal(child.id(), "STOP");
    // The length of the pause is the fault.
    std::thread::sleep(Duration::from_secs(4));
    signal(child.id(), "CONT");
    let outcome = result(&ended(child));
    assert_eq!(outcome["verdict"], json!({ "party": "client", "confidence": "high" }), "{outcome:#}");
    assert_eq!(outcome["failed"], 0, "{outcome:#}");
    assert!(outcome["notes"].to_string().contains("this host stood still for "), "{outcome:#}");
    // It is not blamed on the client's work on rows.
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

/// The title of a process of the server, which says what it does.
fn title(process: u32) -> String {
    let title = std::fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
    title.trim_matches(['\0', ' ']).to_owned()
}

/// The server's process for the session of this query.
fn backend_of(server: &Postgres, query: &str) -> u32 {
    let file = server.home.path().join("pid");
    let note =
        format!("COPY (SELECT pid FROM pg_stat_activity WHERE query = '{query}') TO '{}'", file.display());
    server.ask(&["--count", "1", "--simple", "--query", &note]);
    std::fs::read_to_string(&file).unwrap().trim().parse().unwrap()
}

#[test]
fn late_request_pickup_is_attributed_to_server() {
    assert_rate(2, 3, late_pickups_are_the_servers);
}

/// The backend is stopped while it idles: it takes the next request up seconds after its kernel has acknowledged it.
fn late_pickups_are_the_servers() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let ask = ["--query", "SELECT pg_sleep(0.4)", "--count", "8", "--every", "1500ms", "--record"];
    let child = begun(server.sql(&[&ask[..], &[dir.to_str().unwrap()]].concat()));
    server.wait_until_asleep(1);
    let backend = backend_of(&server, "SELECT pg_sleep(0.4)");
    for _ in 0..2 {
        for does in [" SELECT", " idle"] {
            wait_for(does, || title(backend).ends_with(does).then_some(()));
        }
        signal(backend, "STOP");
        // The length of the stop is the fault.
        std::thread::sleep(Duration::from_secs(4));
        signal(backend, "CONT");
    }
    let outcome = result(&ended(child));
    assert_eq!(outcome["verdict"], json!({ "party": "server", "confidence": "high" }), "{outcome:#}");
    let part = |bound: &str| outcome["mean_ns"]["path"][bound].as_u64().unwrap();
    // The kernel's delayed acknowledgement, and an answer that may have been lost for 200 ms, in two of eight.
    assert!(part("high") < 100_000_000, "{outcome:#}");
    says_the_same(&dir, &outcome);
    assert_sound(&dir);
}

/// Two times `pg_ctl restart` under four connections.
#[test]
fn all_connections_come_back_after_restart() {
    let Some(mut server) = Postgres::start() else { return };
    let ask = ["--query", "SELECT pg_sleep(0.3)", "--count", "12", "--connections", "4"];
    let child = begun(server.sql(&ask));
    for _ in 0..2 {
        server.wait_until_asleep(4);
        server.restart();
    }
    let out = ended(child);
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

/// The server is killed and does not come back.
#[test]
fn lost_connections_are_reported_as_not_replaced() {
    let Some(mut server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let ask =
        ["--query", "SELECT pg_sleep(0.3)", "--for", "1h", "--connections", "3", "--connect-timeout", "1s"];
    let child = begun(server.sql(&[&ask[..], &["--record", dir.to_str().unwrap()]].concat()));
    server.wait_until_asleep(3);
    server.kill();
    let out = ended(child);
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    for one in outcome["connections"].as_array().unwrap() {
        assert!(one["lost_from"].as_u64() >= Some(1), "{outcome:#}");
    }
    says_the_same(&dir, &outcome);
    let notes = outcome["notes"].to_string();
    assert!(
        notes.contains("is not replaced, though that was tried for ")
            && notes.contains("0 of 3 connections ask"),
        "{notes}"
    );
}

/// Its kernel acknowledges everything, and it says nothing.
#[test]
fn frozen_postgresql_is_given_up() {
    let Some(server) = Postgres::start() else { return };
    let child = begun(server.sql(&["--query", "SELECT pg_sleep(0.5)", "--for", "1s"]));
    server.wait_until_asleep(1);
    server.freeze();
    let out = ended(child);
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(told.contains("the time of --for, and nothing for 10s"), "{told}");
    assert_eq!(out.status.code(), Some(1), "{told}");
}

/// One of the server's processes is stopped, and then all of them.
#[test]
fn stopped_backend_and_frozen_server_are_distinguished() {
    let Some(server) = Postgres::start() else { return };
    for is_whole in [false, true] {
        let ask = ["--query", "SELECT pg_sleep(0.5)", "--for", "1h", "--timeout", "3s"];
        let child = begun(server.sql(&ask));
        server.wait_until_asleep(1);
        let stopped = (!is_whole).then(|| backend_of(&server, "SELECT pg_sleep(0.5)"));
        match stopped {
            Some(backend) => signal(backend, "STOP"),
            None => server.freeze(),
        }
        let out = ended(child);
        if let Some(backend) = stopped {
            // A stopped session also counts as asleep.
            signal(backend, "CONT");
            server.wait_until_asleep(0);
        }
        let told = refused(&out, 1);
        let why = "no whole answer within 3s, nor to the request to cancel it within 2s; ";
        let what = if is_whole {
            "nor was anything else asked of the server answered meanwhile: see that it runs"
        } else {
            "meanwhile the server answers on another session, and says there that this one "
        };
        assert!(told.contains(&format!("{why}{what}")), "{told}");
        assert_eq!(told.contains("can be reached"), is_whole, "{told}");
    }
}

/// The server ends idle sessions before the next query is due. The observer's session is lost and replaced, too.
#[test]
fn postgresql_idle_timeout_is_named_as_cause() {
    let Some(server) = Postgres::start() else { return };
    let alter = "ALTER ROLE owner SET idle_session_timeout = '1s'";
    server.ask(&["--count", "1", "--query", alter]);
    let pauses = ["--query", "SELECT 1", "--count", "3", "--every", "1400ms"];
    let out = server.sql(&pauses).output().unwrap();
    let told = refused(&out, 1);
    let says = [
        "query 2 ",
        "(57P05)",
        "the server lets no session idle for the 1.4s of --every (idle_session_timeout",
    ];
    assert!(says.iter().all(|says| told.contains(says)), "{told}");
    // More frequent queries keep the session.
    let outcome = server.ask(&["--query", "SELECT 1", "--count", "12", "--every", "50ms"]);
    assert_eq!((&outcome["queries"], &outcome["failed"]), (&json!(12), &json!(0)), "{outcome:#}");
}

/// `fathom` is stopped between two queries until the server ends its idle session: not `--every` is the cause.
#[test]
fn session_lost_during_host_pause_names_pause() {
    let Some(server) = Postgres::start() else { return };
    server.ask(&["--count", "1", "--query", "ALTER ROLE owner SET idle_session_timeout = '1200ms'"]);
    let count =
        "SELECT 1 FROM pg_stat_activity WHERE usename = 'owner' AND state = 'idle' AND query = 'SELECT 7'";
    let child = begun(server.sql(&["--query", "SELECT 7", "--every", "600ms", "--for", "1h"]));
    let idle_sessions = || server.ask(&["--count", "1", "--query", count])["rows"].as_u64().unwrap();
    wait_for("an idle session", || (idle_sessions() == 1).then_some(()));
    signal(child.id(), "STOP");
    wait_for("the end of its session", || (idle_sessions() == 0).then_some(()));
    signal(child.id(), "CONT");
    let told = String::from_utf8_lossy(&ended(child).stderr).into_owned();
    let says =
        ["(57P05)", "this host stood still for ", "before that, beside the 600ms of --every, and the server"];
    assert!(says.iter().all(|says| told.contains(says)), "{told}");
}

/// `MariaDB` ends an idle session without a message. Before that it is restarted under two connections.
#[test]
fn mariadb_restart_is_survived_idle_timeout_named() {
    let Some(mut server) = Mariadb::start() else { return };
    let child = begun(server.sql(&["--query", "SELECT SLEEP(0.3)", "--count", "8", "--connections", "2"]));
    server.wait_for_sessions(2, "STATE = 'User sleep'");
    signal(server.id(), "TERM");
    server.begin_again("ready for connections");
    let out = ended(child);
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    for one in outcome["connections"].as_array().unwrap() {
        assert_eq!((&one["queries"], &one["lost_from"]), (&json!(8), &Value::Null), "{outcome:#}");
        assert_eq!((&one["failed"], &one["sessions"]), (&json!(1), &json!(2)), "{outcome:#}");
    }
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(told.contains("has no whole answer") && told.contains("another one failed alike"), "{told}");
    // The least that it can be.
    server.ask(&["--count", "1", "--query", "SET GLOBAL wait_timeout = 1"]);
    let pauses = ["--query", "SELECT 1", "--count", "2", "--every", "1400ms"];
    let out = server.sql(&pauses).output().unwrap();
    let told = refused(&out, 1);
    assert!(told.contains("query 2 ") && told.contains("(wait_timeout)"), "{told}");
}

/// A server of SQL Server's protocol that stops in the middle of its answers.
#[test]
fn frozen_mssql_is_given_up() {
    let (echo, server) = Echo::start_tds(&[]);
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    let url = format!("mssql://reader@{server}/sales?sslmode=disable");
    let ask =
        ["--query", "SELECT * FROM fathom_rows(100, 100)", "--for", "1h", "--timeout", "1s", "--record"];
    let mut command = sql(Command::new(FATHOM), "SQLCMDPASSWORD", &url, &ask);
    command.arg(&kept);
    let child = begun(command);
    wait_for("queries", || kept.join("queries-00000.parquet").exists().then_some(()));
    signal(echo.pid(), "STOP");
    let out = ended(child);
    signal(echo.pid(), "CONT");
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(told.contains("no whole answer within 1s, nor to the request to cancel it within 2s"), "{told}");
    assert_eq!(out.status.code(), Some(1), "{told}");
    assert_sound(&kept);
}
