//! `fathom sql` on a path that dies silently, and queries that take too long: every run ends, says why, and keeps its recording.
use crate::support::database::{PASSWORD, far, says_the_same};
use crate::support::fabric::Fabric;
use crate::support::mariadb::Mariadb;
use crate::support::postgres::Postgres;
use crate::support::probe::assert_sound;
use crate::support::{ended, signal, wait_for};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

fn begin(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A run with its recording.
struct Asked {
    protocol: &'static str,
    dir: PathBuf,
    child: Child,
}

impl Asked {
    fn begin(
        fabric: &Fabric,
        (protocol, url): (&'static str, &str),
        name: &str,
        query: &str,
        arguments: &[&str],
    ) -> Self {
        let dir = fabric.path(&format!("{protocol}-{name}"));
        let mut command = fabric.on("here");
        command.args(["sql", url, "--quiet", "--json", "--query", query, "--every", "100ms"]);
        command.args(arguments).arg("--record").arg(&dir);
        for password in ["PGPASSWORD", "MYSQL_PWD", "SQLCMDPASSWORD"] {
            command.env(password, PASSWORD);
        }
        Self { protocol, dir, child: begin(command) }
    }

    fn is_under_way(&self) -> bool {
        self.dir.join("queries-00000.parquet").is_file()
    }

    /// The run; `None` where it has ended.
    fn goes_on(&mut self) -> Option<&Child> {
        self.child.try_wait().unwrap().is_none().then_some(&self.child)
    }

    /// Its output, its result and its messages.
    fn end(self) -> (Output, Value, String) {
        let (protocol, dir) = (self.protocol, self.dir);
        let output = ended(self.child);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let outcome: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{protocol}: {e}: {told}"));
        // One query has no whole answer.
        let [failed, cancelled] = ["failed", "cancelled"].map(|name| outcome[name].as_u64().unwrap());
        assert_eq!(failed + cancelled, 1, "{protocol}: {outcome:#}");
        assert!(outcome["queries"].as_u64() > Some(1), "{protocol}: {outcome:#}");
        assert_sound(&dir);
        says_the_same(&dir, &outcome);
        (output, outcome, told)
    }
}

/// The path drops all packets in both directions.
#[test]
fn dead_path_ends_run_with_reason() {
    let Some(fabric) = far("10.91.3.4", "10.91.3.5") else { return };
    let within = |program: &str| fabric.exec("there", program);
    let Some(postgres) = Postgres::start_with("10.91.3.5", within) else { return };
    let Some(mariadb) = Mariadb::start_with("10.91.3.5", &[], within) else { return };
    let (_echo, mssql) = fabric.tds("there", "10.91.3.5");
    let urls = [("postgres", postgres.url()), ("mysql", mariadb.url()), ("mssql", mssql)];
    let begin = |name: &str, arguments: &[&str]| -> Vec<Asked> {
        urls.iter()
            .map(|(protocol, url)| Asked::begin(&fabric, (protocol, url), name, "SELECT 1", arguments))
            .collect()
    };
    let limited = begin("timeout", &["--timeout", "3s", "--for", "100s"]);
    let mut once = begin("once", &["--for", "100s"]);
    let mut twice = begin("twice", &["--for", "100s"]);
    // Their time is short, so they begin last.
    for one in limited.iter().chain(&once).chain(&twice) {
        wait_for("queries on the disk", || one.is_under_way().then_some(()));
    }
    let mut timed = begin("for", &["--for", "8s"]);
    // Its second query takes long. Logins beside it, which fail within a second each, are no sign of life.
    let asleep = "SELECT SLEEP(IF(@n IS NULL, 0, 600)), @n := 1";
    let limits = ["--for", "3s", "--connect-timeout", "1s"];
    timed.push(Asked::begin(&fabric, ("mysql", &mariadb.url()), "asleep", asleep, &limits));
    for one in &timed {
        wait_for("queries on the disk", || one.is_under_way().then_some(()));
    }
    fabric.must("event", "link-cut --path far --direction both --for 1h");
    for one in limited {
        let protocol = one.protocol;
        let (output, outcome, told) = one.end();
        assert_eq!(output.status.code(), Some(1), "{protocol}: {told}");
        assert_eq!(outcome["failures"], json!({ "timed out": 1 }), "{protocol}: {outcome:#}");
        // The request to cancel it is lost as well.
        let why = "no whole answer within 3s, nor to the request to cancel it within 2s; ";
        assert!(told.contains(why) && told.lines().count() == 1, "{protocol}: {told}");
    }
    for one in once.iter().chain(&twice) {
        signal(&one.child, "INT");
    }
    wait_for("the end of those who ask again", || {
        let goes_on: Vec<_> = twice.iter_mut().filter_map(Asked::goes_on).collect();
        // Two signals that come at once are one request.
        for child in &goes_on {
            signal(child, "INT");
        }
        goes_on.is_empty().then_some(())
    });
    // The others still wait for an answer to the request to cancel.
    for one in &mut once {
        assert!(one.goes_on().is_some(), "{}: one request ends as soon as two", one.protocol);
    }
    for one in twice {
        let protocol = one.protocol;
        let (output, outcome, told) = one.end();
        assert_eq!((output.status.code(), told.as_str()), (Some(0), ""), "{protocol}");
        assert_eq!(outcome["cancelled"], 1, "{protocol}: {outcome:#}");
        let notes = outcome["notes"].to_string();
        assert!(notes.contains("was ended by you, before its answer came"), "{protocol}: {notes}");
        assert!(!notes.contains("broke") && !notes.contains("states are not known"), "{protocol}: {notes}");
    }
    for one in once {
        let protocol = one.protocol;
        let (output, outcome, told) = one.end();
        assert_eq!((output.status.code(), told.as_str()), (Some(0), ""), "{protocol}");
        assert_eq!(outcome["cancelled"], 1, "{protocol}: {outcome:#}");
    }
    for one in timed {
        let protocol = one.protocol;
        let (output, outcome, told) = one.end();
        assert_eq!(output.status.code(), Some(1), "{protocol}: {told}");
        assert_eq!(outcome["failures"], json!({ "timed out": 1 }), "{protocol}: {outcome:#}");
        assert!(
            told.contains("no whole answer within the time of --for, and nothing for 10s"),
            "{protocol}: {told}"
        );
        // MySQL is asked over a second connection, which fails, too.
        let unasked =
            protocol == "mysql" && told.contains("could not be asked to cancel it (cannot connect to ");
        let unheard = told.contains(", nor to the request to cancel it within 2s; ");
        assert!(unasked || unheard, "{protocol}: {told}");
    }
}

/// The server obeys the cancel, and the query has failed anyway.
#[test]
fn query_beyond_timeout_is_cancelled() {
    let Some(postgres) = Postgres::start() else { return };
    let Some(mariadb) = Mariadb::start() else { return };
    // MariaDB answers the cancelled query by a row.
    for (mut command, sleep) in
        [(postgres.sql(&[]), "SELECT pg_sleep(600)"), (mariadb.sql(&[]), "SELECT SLEEP(600)")]
    {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("kept");
        command.args(["--json", "--timeout", "300ms", "--query", sleep, "--record"]).arg(&kept);
        let output = ended(begin(command));
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), told.lines().count()), (Some(1), 1), "{told}");
        assert!(told.contains("query 1 was given up") && told.contains("within 300ms; "), "{told}");
        let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(outcome["failures"], json!({ "timed out": 1 }), "{outcome:#}");
        assert_sound(&kept);
        says_the_same(&kept, &outcome);
    }
    assert!(postgres.log().contains("canceling statement due to user request"), "{}", postgres.log());
    let asleep = "SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE = 'User sleep'";
    assert_eq!(mariadb.ask(&["--count", "1", "--query", asleep])["rows"], 0);
}

/// Round trips beside the query are answered, so it is not cancelled when the time of `--for` is over.
#[test]
fn long_query_is_awaited_past_run_time() {
    let Some(postgres) = Postgres::start() else { return };
    let long = begin(postgres.sql(&["--json", "--for", "500ms", "--query", "SELECT pg_sleep(12)"]));
    let long = ended(long);
    let outcome: Value = serde_json::from_slice(&long.stdout).unwrap();
    assert_eq!(
        (long.status.code(), &outcome["queries"], &outcome["failed"]),
        (Some(0), &json!(1), &json!(0))
    );
}
