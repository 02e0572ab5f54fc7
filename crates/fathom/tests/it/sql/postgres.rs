//! `fathom sql` against a real `PostgreSQL`: the split of a query's time, its recording, errors, Ctrl-C and a kill.
use crate::support::database::{PASSWORD, begun, is, recorded, refused, result, says_the_same};
use crate::support::postgres::{Postgres, WITHOUT_OBSERVER, sql};
use crate::support::probe::assert_sound;
use crate::support::{FATHOM, ended, signal, wait_for};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What `fathom recording` prints of a recording.
fn recording(arguments: &[&str], dir: &Path) -> String {
    let out = Command::new(FATHOM).arg("recording").args(arguments).arg(dir).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// The lines of the recording's explanation.
pub(super) fn story(dir: &Path) -> Vec<Value> {
    recording(&["explain", "--json"], dir).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn client_work_and_server_sleep_are_distinguished() {
    let Some(server) = Postgres::start() else { return };
    let client = server.ask(&["--count", "3", "--rows", "50", "--think", "2ms"]);
    is(&client, "client");
    // Sleeps may be longer than asked for.
    assert!(client["client_ns"]["p50"].as_f64() >= Some(100e6), "{client:#}");
    let asleep = server.ask(&["--count", "3", "--query", "SELECT pg_sleep(0.15)"]);
    is(&asleep, "server");
    assert!(asleep["wall_ns"]["p50"].as_f64() >= Some(150e6), "{asleep:#}");
    let waits: Vec<_> = asleep["server_waits"].as_object().unwrap().keys().collect();
    assert_eq!(waits, ["Timeout/PgSleep"], "{asleep:#}");
}

/// Rows, round trips and queries are counted, and the recording repeats the run's result in figures and word for word.
#[test]
fn recording_repeats_counts_and_words() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("fetched");
    let rows = ["--count", "4", "--rows", "1000", "--row-bytes", "50", "--fetch-size", "100"];
    let outcome = server.ask(&[&rows[..], &["--record", dir.to_str().unwrap()]].concat());
    // The tenth answer does not say that it is the last.
    let counts = ["rows", "turns", "queries", "connections"].map(|name| &outcome[name]);
    assert_eq!(counts, [&json!(4_000), &json!(11), &json!(4), &Value::Null], "{outcome:#}");
    // A row is its 50 bytes and 11 of the protocol's.
    assert!(outcome["bytes_received"].as_u64() >= Some(4_000 * 61), "{outcome:#}");
    assert_sound(&dir);
    assert_eq!(recorded(&dir, ["connection", "turns"]), [([Some(0), Some(11)], false); 4]);
    let events = std::fs::read_to_string(dir.join("events.jsonl")).unwrap();
    let mut events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ended = events.find(|event| event["kind"] == "sql.ended").expect("sql.ended");
    assert_eq!(ended["result"], outcome);
    says_the_same(&dir, &outcome);

    let dir = server.home.path().join("at-once");
    let words = server.sql(&["--count", "3", "--rows", "10", "--record", dir.to_str().unwrap()]).output();
    let live = String::from_utf8(words.unwrap().stdout).unwrap();
    let summary = recording(&["summary"], &dir);
    assert!(live.lines().count() > 5 && summary.starts_with(&live), "{live}\n{summary}");
    assert!(summary[live.len()..].contains("a connection beside the queries"), "{summary}");

    let swept = server.ask(&["--count", "3", "--rows", "100", "--fetch-size", "0,10"]);
    let turns: Vec<_> = swept["settings"].as_array().unwrap().iter().map(|one| &one["turns"]).collect();
    assert_eq!((turns, &swept["rows"]), (vec![&json!(1), &json!(11)], &json!(600)), "{swept:#}");
}

#[test]
fn errors_are_one_line_with_advice() {
    let Some(server) = Postgres::start() else { return };
    for (query, says) in [
        ("SELECT 1; SELECT 2", ["42601", "several statements at once need --simple"]),
        ("SELEC ';'", ["42601", "; mend the query"]),
        ("COPY pg_class FROM STDIN", ["COPY from stdin failed", "fathom sends no rows to a server"]),
        ("SELECT pg_terminate_backend(pg_backend_pid())", ["57P01", "(pg_terminate_backend)"]),
    ] {
        let told = refused(&server.sql(&["--query", query]).output().unwrap(), 1);
        assert!(says.iter().all(|says| told.contains(says)), "{query}: {told}");
    }
    let (own, other) = (server.url(), format!("postgres://owner@{}/nothere", server.address));
    for (url, password, says) in [
        (&own, Some("wrong"), "28P01"),
        (&own, None, "PGPASSWORD"),
        (&other, Some(PASSWORD), "3D000"),
        (&format!("{own}?sslmode=require"), Some(PASSWORD), "does not speak TLS"),
    ] {
        let mut command = sql(Command::new(FATHOM), url, &[]);
        command.env_remove("PGPASSWORD").env("HOME", "/nonexistent");
        password.map(|password| command.env("PGPASSWORD", password));
        let told = refused(&command.output().unwrap(), 1);
        assert!(told.contains(says), "{url} {password:?}: {told}");
    }
}

/// The server's words contain the end of a line and an escape sequence.
#[test]
fn failed_query_is_explained_on_one_line() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let says = "DO $$ BEGIN RAISE EXCEPTION E'no\n\tfathom: 21 queries\r\x1b[2J'; END $$";
    let ask = ["--json", "--query", says, "--record", dir.to_str().unwrap()];
    let out = server.sql(&ask).output().unwrap();
    let line = refused(&out, 1);
    assert!(line.contains("at 127.0.0.1:") && line.contains(": no fathom: 21 queries "), "{line}");
    assert!(line.contains("P0001") && !line.trim_end().contains(char::is_control), "{line:?}");
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(outcome["failures"], json!({ "SQLSTATE P0001": 1 }), "{outcome:#}");
    assert_eq!(outcome["mean_ns"], Value::Null);
    says_the_same(&dir, &outcome);
    let told = story(&dir);
    let at = |wanted: &str| told.iter().position(|line| line["statement"].as_str().unwrap().contains(wanted));
    let (failed, all) = (at("query 1 failed after"), at("1 failed (SQLSTATE P0001: 1)"));
    assert!(failed.is_some() && failed < all, "{told:#?}");
    let text = recording(&["explain"], &dir);
    assert!(!text.lines().any(|line| line.trim_start().starts_with("fathom: 21")), "{text}");
}

/// The note on missing permission names a grant that helps.
#[test]
fn permission_note_gives_working_grant() {
    let Some(server) = Postgres::start() else { return };
    let once = |statement: &str| server.ask(&["--count", "1", "--simple", "--query", statement]);
    once(WITHOUT_OBSERVER);
    let url = server.url().replace("owner@", "md5user@");
    let notes = || -> Vec<String> {
        let ask = ["--json", "--count", "2", "--query", "SELECT 1"];
        let outcome = result(&sql(Command::new(FATHOM), &url, &ask).output().unwrap());
        outcome["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap().to_owned()).collect()
    };
    let told = notes();
    let grant = "GRANT EXECUTE ON FUNCTION pg_catalog.pg_stat_get_activity(integer) TO \"md5user\"";
    assert!(told.iter().any(|note| note.contains("42501") && note.contains(grant)), "{told:?}");
    once(grant);
    let told = notes();
    assert!(!told.iter().any(|note| note.contains("not known")), "{told:?}");
}

#[test]
fn password_and_stdin_query_are_not_recorded() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let url = server.url().replace("owner@", &format!("owner:{PASSWORD}@"));
    let ask = ["--count", "2", "--query", "-", "--record", dir.to_str().unwrap()];
    let mut command = sql(Command::new(FATHOM), &url, &ask);
    command.env_remove("PGPASSWORD").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT 'pr1vate'").unwrap();
    assert!(ended(child).status.success());
    for file in std::fs::read_dir(&dir).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(PASSWORD) && !text.contains("pr1vate"));
    }
    assert!(std::fs::read_to_string(dir.join("recording.json")).unwrap().contains("LEFT-OUT"));
}

#[test]
fn ctrl_c_cancels_query_and_prints_summary() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    // The server's log says when it sleeps.
    let sleeps = "DO $$ BEGIN RAISE LOG 'begun'; PERFORM pg_sleep(600); END $$";
    let child = begun(server.sql(&["--query", sleeps, "--record", dir.to_str().unwrap()]));
    server.wait_for_log("LOG:  begun");
    signal(&child, "INT");
    let outcome = result(&ended(child));
    let counts = ["queries", "failed", "cancelled"].map(|name| outcome[name].as_u64().unwrap());
    assert_eq!((counts, &outcome["failures"]), ([1, 0, 1], &json!({})), "{outcome:#}");
    says_the_same(&dir, &outcome);
    assert_sound(&dir);
    assert!(server.log().contains("canceling statement due to user request"), "{}", server.log());
    // On a busy host there are other notes, too.
    let notes = outcome["notes"].as_array().unwrap();
    assert!(notes.contains(&json!("query 1 was ended by you")), "{outcome:#}");
}

/// The killed run has no result, but its queries are on the disk.
#[test]
fn killed_run_still_summarizes_its_queries() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let ask = ["--query", "SELECT 1", "--for", "1h", "--every", "1ms", "--record", dir.to_str().unwrap()];
    let mut child = server.sql(&ask).stdout(Stdio::null()).spawn().unwrap();
    wait_for("queries on the disk", || dir.join("queries-00000.parquet").is_file().then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    let summary: Value = serde_json::from_str(&recording(&["summary", "--json"], &dir)).unwrap();
    let queries = &summary["queries"];
    assert!(queries["queries"].as_u64() > Some(0), "{summary:#}");
    assert_eq!((&queries["encrypted"], &queries["unanswered_beside"]), (&json!(false), &Value::Null));
}
