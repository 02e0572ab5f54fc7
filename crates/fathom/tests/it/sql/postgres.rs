//! `fathom sql` against a real `PostgreSQL`, which the test starts as an unprivileged user: whose time a query takes, what it
//! says where something is wrong, and what it keeps.
use serde_json::Value;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use crate::support::FATHOM;
use crate::support::database::{PASSWORD, far, is, result, says_the_same};
use crate::support::postgres::{Postgres, sql};
use crate::support::probe::assert_sound;

/// One line on standard error, and exit code 1.
fn refused(out: &Output) -> String {
    let line = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!((out.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    line
}

#[test]
fn client_work_and_server_sleep_are_distinguished() {
    let Some(server) = Postgres::start() else { return };
    // Sleeps are longer than what was asked for, and how much longer is the machine's: the least is held against.
    let client = server.ask(&["--count", "5", "--rows", "100", "--think", "2ms"]);
    is(&client, "client");
    assert!(client["client_ns"]["p50"].as_f64() >= Some(200e6), "{client:#}");
    assert!(client["shares"]["client"]["low"].as_f64() > Some(0.9), "{client:#}");
    let asleep = server.ask(&["--count", "5", "--query", "SELECT pg_sleep(0.2)"]);
    is(&asleep, "server");
    // On a busy machine none may have a split. Of one that has a quarter may be open, of which another may have half.
    assert!(asleep["server_ns"]["p50"].as_f64().is_none_or(|ns| ns > 200e6 * 0.875), "{asleep:#}");
    assert_eq!(asleep["server_waits"], serde_json::json!({ "Timeout/PgSleep": 4 }), "{asleep:#}");
    let advice = asleep["advice"][0].as_str().unwrap_or_default();
    assert!(advice.contains("(in 4 of 4 that were looked at)"), "{asleep:#}");
    // It works, and sleeps at the end: no wait is most of the time, and none is advised on.
    let busy = "SELECT count(md5(a::text || b::text)), pg_sleep(0.015) FROM generate_series(1, 1000) a, generate_series(1, 300) b";
    let busy = server.ask(&["--count", "5", "--query", busy]);
    assert!(busy["looks"].as_u64() > Some(8) && busy["wall_ns"]["p50"].as_f64() > Some(60e6), "{busy:#}");
    assert_eq!(
        (&busy["server_waits"], &busy["advice"]),
        (&serde_json::json!({}), &serde_json::json!([])),
        "{busy:#}"
    );
    // Half a second, of which each query takes 200 ms, due every ten: no more than fit, and somebody is told.
    let over = server.ask(&["--query", "SELECT pg_sleep(0.2)", "--every", "10ms", "--for", "500ms"]);
    assert!(over["queries"].as_u64() <= Some(3), "{over:#}");
    assert!(over["notes"][0].as_str().is_some_and(|note| note.contains("late")), "{over:#}");
    // Row by row, while others are on their way.
    let slow = server.ask(&[
        "--count",
        "3",
        "--query",
        "SELECT pg_sleep(0.002), repeat('x', 9000) FROM generate_series(1, 200)",
    ]);
    is(&slow, "server");
}

/// Asks `SELECT 1`, and meanwhile stops its backend and lets it go on, for so many milliseconds each; then the run is ended.
fn stopped(server: &Postgres, arguments: &[&str], stops: usize, stop_ms: u64, run_ms: u64) -> Value {
    let ask = ["--json", "--query", "SELECT 1", "--for", "1h"];
    let asked = server.sql(&ask).args(arguments).stdout(Stdio::piped()).spawn();
    let asked = asked.expect("fathom sql");
    let which = "SELECT pid FROM pg_stat_activity WHERE query = 'SELECT 1' AND pid <> pg_backend_pid()";
    let file = server.home.path().join("data/pid");
    _ = std::fs::remove_file(&file);
    let who = format!("COPY ({which}) TO '{}'", file.display());
    let deadline = Instant::now() + Duration::from_secs(20);
    let pid = loop {
        server.ask(&["--count", "1", "--simple", "--query", &who]);
        let pid = std::fs::read_to_string(&file).unwrap_or_default();
        if let Ok(pid) = pid.trim().parse::<u32>() {
            break pid.to_string();
        }
        assert!(Instant::now() < deadline, "nobody asks");
    };
    for _ in 0..stops {
        for (signal, lasts) in [("-STOP", stop_ms), ("-CONT", run_ms)] {
            assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
            std::thread::sleep(Duration::from_millis(lasts));
        }
    }
    crate::support::signal(&asked, "INT");
    result(&crate::support::ended(asked))
}

/// A backend that stands still shows what it did last: that it waits for a request. "Most of it is the path", high, by a stranger.
#[test]
fn stopped_backend_is_not_blamed_on_path() {
    let Some(server) = Postgres::start() else { return };
    let outcome = stopped(&server, &["--every", "50ms"], 3, 400, 100);
    assert!(outcome["mean_ns"]["wall"].as_f64() >= Some(10e6), "it was stopped within queries: {outcome:#}");
    assert_ne!(outcome["verdict"]["party"], "path", "{outcome:#}");
    // A busy machine keeps the client from running, which is the client's.
    let shares = &outcome["shares"];
    let clients = shares["client"]["low"].as_f64().unwrap();
    assert!(shares["server"]["high"].as_f64().unwrap() + clients > 0.9, "{outcome:#}");
    // What it did last it did just before the request.
    let outcome = stopped(&server, &[], 40, 60, 10);
    // Nineteen of twenty queries were not stopped: what is surely the path's is in the mean no more than theirs. (Of the stops a
    // hundred times as much comes on each.)
    assert!(outcome["mean_ns"]["path"]["low"].as_f64() <= outcome["path_ns"]["p95"].as_f64(), "{outcome:#}");
    assert!(outcome["shares"]["server"]["high"].as_f64() > Some(0.4), "{outcome:#}");
}

#[test]
fn what_is_asked_is_counted_and_kept() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let outcome = server.ask(&[
        "--count",
        "4",
        "--rows",
        "1000",
        "--row-bytes",
        "50",
        "--fetch-size",
        "100",
        "--record",
        dir.to_str().unwrap(),
    ]);
    // The last hundred does not say that it is the last.
    assert_eq!(
        (&outcome["rows"], &outcome["turns"], &outcome["queries"]),
        (&4_000.into(), &11.into(), &4.into()),
        "{outcome:#}"
    );
    // A row is its 50 bytes and 11 of the protocol's.
    assert!(outcome["bytes_received"].as_u64() >= Some(4_000 * 61));
    assert_sound(&dir);
    assert!(dir.join("queries-00000.parquet").is_file());
    let events = std::fs::read_to_string(dir.join("events.jsonl")).unwrap();
    let told = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|event| event["kind"] == "sql.ended");
    assert_eq!(told.expect("sql.ended")["result"], outcome);
    says_the_same(&dir, &outcome);
    // A row of its own is missing, and it shows.
    std::fs::remove_file(dir.join("queries-00000.parquet")).unwrap();
    let verified = Command::new(FATHOM).args(["recording", "verify"]).arg(&dir).output().unwrap();
    let said = String::from_utf8_lossy(&verified.stdout);
    assert!(!verified.status.success() && said.contains("queries-00000.parquet"), "{said}");
    let line = refused(&Command::new(FATHOM).args(["recording", "summary"]).arg(&dir).output().unwrap());
    assert!(line.contains("queries-00000.parquet: it is missing"), "{line}");
}

#[test]
fn password_and_stdin_query_are_not_recorded() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let url = server.url().replace("owner@", &format!("owner:{PASSWORD}@"));
    let mut child =
        sql(Command::new(FATHOM), &url, &["--count", "2", "--query", "-", "--record", dir.to_str().unwrap()]);
    let mut child =
        child.env_remove("PGPASSWORD").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT 'pr1vate'").unwrap();
    assert!(crate::support::ended(child).status.success());
    for file in std::fs::read_dir(&dir).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(PASSWORD) && !text.contains("pr1vate"));
    }
    assert!(std::fs::read_to_string(dir.join("recording.json")).unwrap().contains("LEFT-OUT"));
}

#[test]
fn what_is_wrong_is_one_line() {
    let Some(server) = Postgres::start() else { return };
    let line = |arguments: &[&str]| refused(&server.sql(arguments).output().unwrap());
    assert!(line(&["--query", "SELEC 1"]).contains("42601"));
    // In each protocol, of which the extended one needs another Sync; nothing is waited for.
    for protocol in [&["--simple"][..], &[], &["--fetch-size", "10"]] {
        let copy = ["--query", "COPY pg_class FROM STDIN"];
        assert!(line(&[&copy, protocol].concat()).contains("only reads"), "{protocol:?}");
    }
    let url = |url: &str, password: Option<&str>| {
        let mut command = sql(Command::new(FATHOM), url, &[]);
        command.env_remove("PGPASSWORD").env("HOME", "/nonexistent");
        password.map(|password| command.env("PGPASSWORD", password));
        refused(&command.output().unwrap())
    };
    let own = server.url();
    assert!(url(&own, Some("wrong")).contains("28P01"));
    assert!(url(&own, None).contains("PGPASSWORD"));
    assert!(
        url(&own.replace("/postgres", "/nothere").replace("nothere://", "postgres://"), Some(PASSWORD))
            .contains("3D000")
    );
    assert!(url(&format!("{own}?sslmode=require"), Some(PASSWORD)).contains("does not speak TLS"));
    assert!(url("postgres://me@nohost.invalid/x", None).contains("nohost.invalid"));
}

/// An end of a line in what the server says began a line in the program's name.
#[test]
fn what_a_server_says_is_one_line_too() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let says = "DO $$ BEGIN RAISE EXCEPTION E'no\n\tfathom: 21 queries\r\x1b[2J'; END $$";
    let ask = ["--query", says, "--record", dir.to_str().unwrap()];
    let line = refused(&server.sql(&ask).output().unwrap());
    assert!(line.contains("at 127.0.0.1:") && line.contains(": no fathom: 21 queries "), "{line}");
    assert!(line.contains("P0001") && !line.trim_end().contains(char::is_control), "{line:?}");
    let told = Command::new(FATHOM).args(["recording", "explain"]).arg(&dir).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(!told.lines().any(|line| line.trim_start().starts_with("fathom: 21")), "{told}");
}

/// A variable that is not UTF-8 was taken for one that is not set: "no password supplied", though there was one.
#[test]
fn non_utf8_password_error_names_variable() {
    use std::os::unix::ffi::OsStrExt as _;
    for (name, scheme) in [("PGPASSWORD", "postgres"), ("MYSQL_PWD", "mysql"), ("SQLCMDPASSWORD", "mssql")] {
        let mut command = Command::new(FATHOM);
        command.args(["sql", &format!("{scheme}://me@127.0.0.1:1/d"), "--query", "SELECT 1"]);
        command.env(name, std::ffi::OsStr::from_bytes(b"s3cret\xff"));
        let line = refused(&command.stdin(Stdio::null()).output().unwrap());
        assert!(line.contains(&format!("{name} is not UTF-8")) && !line.contains("s3cret"), "{line}");
    }
}

/// What this client works on rows is no time of the server: it was said to have no whole answer within `--timeout`.
#[test]
fn client_work_does_not_count_towards_timeout() {
    let Some(server) = Postgres::start() else { return };
    let works = ["--rows", "100", "--think", "40ms", "--timeout", "2s", "--count", "1"];
    let outcome = server.ask(&works);
    assert_eq!((&outcome["failed"], &outcome["rows"]), (&0.into(), &100.into()), "{outcome:#}");
    is(&outcome, "client");
    // A server that says nothing more is late nevertheless, and how long the client worked is told beside.
    let sleeps =
        "SELECT repeat('x', 9000), CASE WHEN n = 20 THEN pg_sleep(600) END FROM generate_series(1, 20) n";
    let works = ["--query", sleeps, "--think", "200ms", "--timeout", "2s", "--count", "1"];
    let line = refused(&server.sql(&works).output().unwrap());
    let worked = line.split_once("no whole answer within 2s beside the ").expect(&line).1;
    let (worked, rest) = worked.split_once("s of --think; ").expect(&line);
    // The end of the nineteenth row lies in the server's buffer.
    assert!(
        worked.parse::<f64>().unwrap() >= 3.5 && rest.starts_with("give a query longer by --timeout"),
        "{line}"
    );
}

#[test]
fn split_continues_without_monitoring_permission() {
    let Some(server) = Postgres::start() else { return };
    let url = server.url_of_who_may_not_look();
    // A lost answer takes as long as the shorter one, and one that is lost again and again as the other: that may have been the path's.
    for sleep in ["SELECT pg_sleep(0.05)", "SELECT pg_sleep(0.8)"] {
        let arguments = ["--json", "--count", "3", "--query", sleep];
        let outcome = result(&sql(Command::new(FATHOM), &url, &arguments).output().unwrap());
        assert!(outcome["notes"][0].as_str().is_some_and(|note| note.contains("42501")), "{outcome:#}");
        let verdict = serde_json::json!({ "party": "server", "confidence": "medium" });
        assert_eq!(outcome["verdict"], verdict, "{outcome:#}");
    }
    // What looks alone can tell has bounds, and a reason.
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
    let child = server
        .sql(&["--query", sleeps, "--record", dir.to_str().unwrap()])
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE state = 'active' AND wait_event = 'PgSleep'";
    let deadline = Instant::now() + Duration::from_secs(30);
    // Until it is in the middle of its answer.
    while !server.log().contains("terminating connection due to administrator command") {
        assert!(Instant::now() < deadline, "it was never seen at work");
        server.ask(&["--count", "1", "--query", end]);
    }
    let line = refused(&crate::support::ended(child));
    assert!(line.contains("57P01"), "{line}");
    assert_sound(&dir);
}

#[test]
fn ctrl_c_cancels_query_and_prints_summary() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let ask = ["--json", "--query", "SELECT pg_sleep(600)", "--record", dir.to_str().unwrap()];
    let child = server.sql(&ask).stdout(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let sleeping = || {
        server.ask(&[
            "--count",
            "1",
            "--query",
            "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'",
        ])["rows"]
            == 1
    };
    while !sleeping() {
        assert!(Instant::now() < deadline, "it never slept");
    }
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let outcome = result(&crate::support::ended(child));
    assert_eq!((&outcome["queries"], &outcome["failed"]), (&1.into(), &0.into()), "{outcome:#}");
    assert_eq!((&outcome["cancelled"], &outcome["failures"]), (&1.into(), &serde_json::json!({})));
    says_the_same(&dir, &outcome);
    assert_sound(&dir);
    assert!(server.log().contains("canceling statement due to user request"), "{}", server.log());
    assert!(!sleeping(), "the server still works on it");
    // A busy host may have kept fathom from running, which is told too.
    let notes = outcome["notes"].as_array().unwrap();
    assert!(notes.contains(&"query 1 was ended by you".into()), "{outcome:#}");
}

/// 20 ms there and back; then what the client does, and what the server does.
#[test]
fn delay_on_the_path_is_the_paths() {
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

#[test]
fn a_password_file_that_others_read_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut command = sql(Command::new(FATHOM), "postgres://me@127.0.0.1:1/x", &[]);
    let out = command.env_remove("PGPASSWORD").env("PGPASSFILE", file.path()).output().unwrap();
    assert!(refused(&out).contains("chmod 600"));
    assert!(Path::new(file.path()).is_file());
}

/// A run that a query ends which fails: "the latest 0ns" (a stranger), and where it ends as it should.
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
