//! `fathom sql` against a real `PostgreSQL`: the split of a query's time in bulk, errors, recordings and row counts.
use crate::sql::postgres::story;
use crate::support::database::{begun, far, is, refused, result, says_the_same};
use crate::support::postgres::{Postgres, sql};
use crate::support::probe::assert_sound;
use crate::support::rate::assert_rate;
use crate::support::{FATHOM, ended, must, signal, wait_for};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

#[test]
fn postgresql_work_and_sleep_are_distinguished() {
    let Some(server) = Postgres::start() else { return };
    // Sleeps may be longer than asked for.
    let client = server.ask(&["--count", "5", "--rows", "100", "--think", "2ms"]);
    is(&client, "client");
    assert!(client["client_ns"]["p50"].as_f64() >= Some(200e6), "{client:#}");
    assert!(client["shares"]["client"]["low"].as_f64() > Some(0.9), "{client:#}");
    let asleep = server.ask(&["--count", "5", "--query", "SELECT pg_sleep(0.2)"]);
    is(&asleep, "server");
    // On a busy machine queries may lack a split. A split leaves up to a quarter open, and another party may have half of that.
    assert!(asleep["server_ns"]["p50"].as_f64().is_none_or(|ns| ns > 200e6 * 0.875), "{asleep:#}");
    assert_eq!(asleep["server_waits"], json!({ "Timeout/PgSleep": 4 }), "{asleep:#}");
    let advice = asleep["advice"][0].as_str().unwrap_or_default();
    assert!(advice.contains("(in 4 of 4 that were looked at)"), "{asleep:#}");
    // It works, and sleeps at the end: no wait has most of the time, and there is no advice.
    let busy = "SELECT count(md5(a::text || b::text)), pg_sleep(0.015) FROM generate_series(1, 1000) a, generate_series(1, 300) b";
    let busy = server.ask(&["--count", "5", "--query", busy]);
    assert!(busy["looks"].as_u64() > Some(8) && busy["wall_ns"]["p50"].as_f64() > Some(60e6), "{busy:#}");
    assert_eq!((&busy["server_waits"], &busy["advice"]), (&json!({}), &json!([])), "{busy:#}");
    // Queries of 200 ms are due each 10 ms for half a second.
    let over = server.ask(&["--query", "SELECT pg_sleep(0.2)", "--every", "10ms", "--for", "500ms"]);
    assert!(over["queries"].as_u64() <= Some(3), "{over:#}");
    assert!(over["notes"].to_string().contains("late"), "{over:#}");
    // Row by row.
    let slow = server.ask(&[
        "--count",
        "3",
        "--query",
        "SELECT pg_sleep(0.002), repeat('x', 9000) FROM generate_series(1, 200)",
    ]);
    is(&slow, "server");
}

/// Asks `SELECT 1`, stops its backend so often for so many milliseconds, and ends the run.
fn stopped(server: &Postgres, arguments: &[&str], stops: usize, stop_ms: u64, run_ms: u64) -> Value {
    let asked = begun(server.sql(&[&["--query", "SELECT 1", "--for", "1h"][..], arguments].concat()));
    let which = "SELECT pid FROM pg_stat_activity WHERE query = 'SELECT 1' AND pid <> pg_backend_pid()";
    let file = server.home.path().join("data/pid");
    _ = std::fs::remove_file(&file);
    let who = format!("COPY ({which}) TO '{}'", file.display());
    let pid = wait_for("a session of the run", || {
        server.ask(&["--count", "1", "--simple", "--query", &who]);
        std::fs::read_to_string(&file).unwrap_or_default().trim().parse::<u32>().ok()
    });
    for _ in 0..stops {
        for (stops, lasts) in [("-STOP", stop_ms), ("-CONT", run_ms)] {
            must("kill", &[stops, &pid.to_string()]);
            std::thread::sleep(Duration::from_millis(lasts));
        }
    }
    signal(&asked, "INT");
    result(&ended(asked))
}

#[test]
fn stopped_backend_is_not_blamed_on_path() {
    assert_rate(2, 3, stopped_backend_has_the_time);
}

/// A stopped backend still shows its last state: it waits for a request.
fn stopped_backend_has_the_time() {
    let Some(server) = Postgres::start() else { return };
    let outcome = stopped(&server, &["--every", "50ms"], 3, 400, 100);
    assert!(outcome["mean_ns"]["wall"].as_f64() >= Some(10e6), "it was stopped within queries: {outcome:#}");
    assert_ne!(outcome["verdict"]["party"], "path", "{outcome:#}");
    // On a busy machine a part is the client's.
    let shares = &outcome["shares"];
    let clients = shares["client"]["low"].as_f64().unwrap();
    assert!(shares["server"]["high"].as_f64().unwrap() + clients > 0.9, "{outcome:#}");
    // Short stops: the last state is recent.
    let outcome = stopped(&server, &[], 40, 60, 10);
    // At least 95 % of the queries were not stopped: the path's certain part is at most theirs.
    assert!(outcome["mean_ns"]["path"]["low"].as_f64() <= outcome["path_ns"]["p95"].as_f64(), "{outcome:#}");
    assert!(outcome["shares"]["server"]["high"].as_f64() > Some(0.4), "{outcome:#}");
}

/// The client's work on rows does not count as waiting.
#[test]
fn client_work_does_not_count_towards_timeout() {
    let Some(server) = Postgres::start() else { return };
    let works = ["--rows", "100", "--think", "40ms", "--timeout", "2s", "--count", "1"];
    let outcome = server.ask(&works);
    assert_eq!((&outcome["failed"], &outcome["rows"]), (&0.into(), &100.into()), "{outcome:#}");
    is(&outcome, "client");
    // A server that sends no more is late anyway, and the message names the client's work.
    let sleeps =
        "SELECT repeat('x', 9000), CASE WHEN n = 20 THEN pg_sleep(600) END FROM generate_series(1, 20) n";
    let works = ["--query", sleeps, "--think", "200ms", "--timeout", "2s", "--count", "1"];
    let line = refused(&server.sql(&works).output().unwrap(), 1);
    let worked = line.split_once("no whole answer within 2s beside the ").expect(&line).1;
    let (worked, rest) = worked.split_once("s of --think; ").expect(&line);
    // The end of the nineteenth row stays in the server's buffer.
    assert!(
        worked.parse::<f64>().unwrap() >= 3.5 && rest.starts_with("give a query longer by --timeout"),
        "{line}"
    );
}

#[test]
fn split_continues_without_monitoring_permission() {
    let Some(server) = Postgres::start() else { return };
    let url = server.url_without_observer();
    // Lost answers may take as long as these, so the path is possible.
    for sleep in ["SELECT pg_sleep(0.05)", "SELECT pg_sleep(0.8)"] {
        let arguments = ["--json", "--count", "3", "--query", sleep];
        let outcome = result(&sql(Command::new(FATHOM), &url, &arguments).output().unwrap());
        assert!(outcome["notes"].to_string().contains("42501"), "{outcome:#}");
        let verdict = json!({ "party": "server", "confidence": "medium" });
        assert_eq!(outcome["verdict"], verdict, "{outcome:#}");
    }
    // Without observation such a query has bounds only, and a reason.
    let slow = [
        "--json",
        "--count",
        "3",
        "--query",
        "SELECT pg_sleep(0.001), repeat('x', 9000) FROM generate_series(1, 100)",
    ];
    let slow = result(&sql(Command::new(FATHOM), &url, &slow).output().unwrap());
    assert_eq!(slow["without_split"].as_object().map(serde_json::Map::len), Some(1), "{slow:#}");
    assert_eq!(slow["verdict"]["confidence"], "none", "{slow:#}");
}

#[test]
fn terminated_backend_leaves_recording_sound() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let sleeps = "SELECT pg_sleep(0.01), repeat('x', 9000) FROM generate_series(1, 100000)";
    let child = begun(server.sql(&["--query", sleeps, "--record", dir.to_str().unwrap()]));
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE state = 'active' AND wait_event = 'PgSleep'";
    // In the middle of its answer.
    wait_for("a session at work", || {
        server.ask(&["--count", "1", "--query", end]);
        server.log().contains("terminating connection due to administrator command").then_some(())
    });
    let line = refused(&ended(child), 1);
    assert!(line.contains("57P01"), "{line}");
    assert_sound(&dir);
}

/// A round trip of 20 ms; then the client's work, and the server's.
#[test]
fn delay_before_postgresql_is_the_paths() {
    let Some(fabric) = far("10.91.1.4", "10.91.1.5") else { return };
    let Some(server) = Postgres::start_with("10.91.1.5", |program| fabric.exec("there", program)) else {
        return;
    };
    let ask = |arguments: &[&str]| {
        let mut command = sql(fabric.exec("here", FATHOM), &server.url(), arguments);
        result(&command.arg("--json").output().unwrap())
    };
    let pieces = ask(&["--count", "5", "--rows", "1000", "--fetch-size", "100"]);
    is(&pieces, "path");
    assert_eq!(pieces["turns"], 11);
    assert!(pieces["path_ns"]["p50"].as_f64() >= Some(11.0 * 20e6), "{pieces:#}");
    is(&ask(&["--count", "5", "--query", "SELECT pg_sleep(0.3)"]), "server");
    is(&ask(&["--count", "3", "--rows", "200", "--think", "2ms"]), "client");
}

/// The run ends as it should, or by a query that fails.
#[test]
fn query_lateness_is_noted_however_run_ends() {
    let Some(server) = Postgres::start() else { return };
    server.ask(&["--count", "1", "--query", "CREATE SEQUENCE asked"]);
    let query = "SELECT pg_sleep(0.2), 1 / (nextval('asked') - 4)";
    for (count, code) in [("3", 0), ("9", 1)] {
        let out =
            server.sql(&["--json", "--query", query, "--every", "10ms", "--count", count]).output().unwrap();
        assert_eq!(out.status.code(), Some(code), "{}", String::from_utf8_lossy(&out.stderr));
        let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
        let notes = outcome["notes"].as_array().unwrap().iter().filter_map(|note| note.as_str());
        let late: Vec<_> = notes.filter(|note| note.contains("after they were due")).collect();
        assert!(matches!(&late[..], [one] if !one.contains("latest 0ns")), "{outcome:#}");
        server.ask(&["--count", "1", "--query", "ALTER SEQUENCE asked RESTART 2"]);
    }
}

#[test]
fn recording_repeats_live_summary() {
    let Some(server) = Postgres::start() else { return };
    let asked = |name: &str, arguments: &[&str]| {
        let dir = server.home.path().join(name);
        let outcome = server.ask(&[arguments, &["--record", dir.to_str().unwrap()]].concat());
        says_the_same(&dir, &outcome);
        (dir, outcome)
    };
    // Enough queries for a p95.
    let (dir, slept) = asked("slept", &["--count", "21", "--query", "SELECT pg_sleep(0.02)"]);
    assert!(slept["wall_ns"]["p95"].as_u64() >= Some(20_000_000), "{slept:#}");
    let mean = &slept["mean_ns"];
    assert!(mean["server"]["low"].as_u64() <= mean["wall"].as_u64(), "{slept:#}");
    let told = story(&dir);
    let line = told.iter().find(|line| line["statement"].as_str().unwrap().contains("the server:")).unwrap();
    assert!(line["evidence"][0].as_str().unwrap().starts_with("of a query's "), "{line:#}");
    // One query, which is a warm-up; and rows in several round trips.
    asked("one", &["--count", "1", "--rows", "10"]);
    asked("pieces", &["--count", "5", "--rows", "1000", "--fetch-size", "10"]);
}

/// Without observation some queries have bounds only.
#[test]
fn recording_repeats_bounds_without_split() {
    let Some(server) = Postgres::start() else { return };
    let url = server.url_without_observer();
    let dir = server.home.path().join("kept");
    let slow = "SELECT pg_sleep(0.002 * (random() * 2)::int), repeat('x', 9000) FROM generate_series(1, 20)";
    let arguments = ["--json", "--count", "12", "--query", slow, "--record", dir.to_str().unwrap()];
    let out = sql(Command::new(FATHOM), &url, &arguments).output().unwrap();
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(outcome["notes"].to_string().contains("42501"), "{outcome:#}");
    // On a busy machine there may be other reasons, too.
    assert!(outcome["without_split"].as_object().is_some_and(|reasons| !reasons.is_empty()), "{outcome:#}");
    says_the_same(&dir, &outcome);
}

/// The server's count is compared with the rows that came where it counts rows that it sent.
#[test]
fn row_count_matches_for_every_statement_kind() {
    let Some(server) = Postgres::start() else { return };
    let (simple, extended, fetched) = (&["--simple"][..], &[][..], &["--fetch-size", "3"][..]);
    for (query, rows, hows) in [
        ("SELECT generate_series(1, 10)", 10, &[simple, extended, fetched, &["--fetch-size", "5"]][..]),
        ("VALUES (1), (2), (3)", 3, &[simple, extended, fetched]),
        ("EXPLAIN SELECT 1", 1, &[simple, extended, fetched]),
        ("SHOW work_mem", 1, &[simple, extended, fetched]),
        // A header and the end of a binary copy are no rows.
        ("COPY (VALUES (1), (2), (3)) TO STDOUT (FORMAT text)", 3, &[simple, extended, fetched]),
        ("COPY (VALUES (1), (2), (3)) TO STDOUT (FORMAT csv, header)", 3, &[simple, extended, fetched]),
        ("COPY (VALUES (1), (2), (3)) TO STDOUT (FORMAT binary)", 3, &[simple, extended, fetched]),
        // The tag is "SELECT 5", and no row is sent.
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
        // The rule's query has rows, and the tag counts the INSERT.
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
