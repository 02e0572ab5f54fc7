//! What a recording of `fathom sql` says of its queries after the run: the same as the run itself did.
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use crate::support::database::{PASSWORD, says_the_same};
use crate::support::postgres::{Postgres, sql};
use crate::support::{FATHOM, PATIENCE};

/// The lines of the story.
fn story(dir: &Path) -> Vec<Value> {
    let out = Command::new(FATHOM).args(["recording", "explain", "--json"]).arg(dir).output().unwrap();
    String::from_utf8_lossy(&out.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_summary_is_that_of_the_live_run() {
    let Some(server) = Postgres::start() else { return };
    let asked = |name: &str, arguments: &[&str]| {
        let dir = server.home.path().join(name);
        let outcome = server.ask(&[arguments, &["--record", dir.to_str().unwrap()]].concat());
        says_the_same(&dir, &outcome);
        (dir, outcome)
    };
    // Queries that have a split; enough of them for a p95.
    let (dir, slept) = asked("slept", &["--count", "21", "--query", "SELECT pg_sleep(0.02)"]);
    assert!(slept["wall_ns"]["p95"].as_u64() >= Some(20_000_000), "{slept:#}");
    let mean = &slept["mean_ns"];
    assert!(mean["server"]["low"].as_u64() <= mean["wall"].as_u64(), "{slept:#}");
    let told = story(&dir);
    let line = told.iter().find(|line| line["statement"].as_str().unwrap().contains("the server:")).unwrap();
    assert!(line["evidence"][0].as_str().unwrap().starts_with("of a query's "), "{line:#}");
    // One only, which is the first; and rows in several turns.
    asked("one", &["--count", "1", "--rows", "10"]);
    asked("pieces", &["--count", "5", "--rows", "1000", "--fetch-size", "10"]);
}

/// Where nobody may look at the server there are bounds alone, of some queries and not of others.
#[test]
fn queries_without_a_split_come_to_the_same() {
    let Some(server) = Postgres::start() else { return };
    let url = server.url_of_who_may_not_look();
    let dir = server.home.path().join("kept");
    let slow = "SELECT pg_sleep(0.002 * (random() * 2)::int), repeat('x', 9000) FROM generate_series(1, 20)";
    let arguments = ["--json", "--count", "12", "--query", slow, "--record", dir.to_str().unwrap()];
    let out = sql(Command::new(FATHOM), &url, &arguments).output().unwrap();
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(outcome["notes"][0].as_str().unwrap().contains("42501"), "{outcome:#}");
    // On a busy machine some lack it for another reason, too.
    assert!(outcome["without_split"].as_object().is_some_and(|reasons| !reasons.is_empty()), "{outcome:#}");
    says_the_same(&dir, &outcome);
}

#[test]
fn failed_query_is_explained_with_its_kind() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let query = "SELECT 1 / 0";
    let out = server.sql(&["--json", "--query", query, "--record", dir.to_str().unwrap()]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(outcome["failures"], json!({ "SQLSTATE 22012": 1 }), "{outcome:#}");
    assert_eq!(outcome["mean_ns"], Value::Null);
    says_the_same(&dir, &outcome);
    let told = story(&dir);
    let at = |wanted: &str| told.iter().position(|line| line["statement"].as_str().unwrap().contains(wanted));
    let (failed, all) = (at("query 1 failed after"), at("1 failed (SQLSTATE 22012: 1)"));
    assert!(failed.is_some() && failed < all, "{told:#?}");
}

/// The text of a run is what the summary begins with, word for word.
#[test]
fn the_words_are_those_of_the_live_run() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let out =
        server.sql(&["--count", "5", "--rows", "10", "--record", dir.to_str().unwrap()]).output().unwrap();
    let live = String::from_utf8(out.stdout).unwrap();
    let summary = Command::new(FATHOM).args(["recording", "summary"]).arg(&dir).output().unwrap();
    let summary = String::from_utf8(summary.stdout).unwrap();
    assert!(live.lines().count() > 5 && summary.starts_with(&live), "{live}\n{summary}");
    assert!(summary[live.len()..].contains("a connection beside the queries"), "{summary}");
}

/// A run that was killed has no result; its queries have been on the disk since.
#[test]
fn killed_run_still_summarizes_its_queries() {
    let Some(server) = Postgres::start() else { return };
    let dir = server.home.path().join("kept");
    let mut child = sql(
        Command::new(FATHOM),
        &server.url(),
        &["--query", "SELECT 1", "--for", "1h", "--every", "1ms", "--record", dir.to_str().unwrap()],
    )
    .env("PGPASSWORD", PASSWORD)
    .stdout(Stdio::null())
    .spawn()
    .unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !dir.join("queries-00000.parquet").is_file() {
        assert!(Instant::now() < deadline, "nothing is on the disk");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let out = Command::new(FATHOM).args(["recording", "summary", "--json"]).arg(&dir).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let of: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(of["queries"]["queries"].as_u64() > Some(0), "{of:#}");
    assert_eq!(
        (&of["queries"]["encrypted"], &of["queries"]["unanswered_beside"]),
        (&Value::Bool(false), &Value::Null)
    );
}
