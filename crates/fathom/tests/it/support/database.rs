//! A real database server as a child of the test, and `fathom sql` asking it.

use super::FATHOM;
use super::fabric::Fabric;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const PASSWORD: &str = "s3cret-w0rd";

/// A running server with its log in its home. Dropped, it is killed.
pub(crate) struct Server {
    process: Child,
    command: Command,
    pub(crate) home: TempDir,
    pub(crate) address: String,
}

impl Server {
    /// Starts it, and waits until its log says that it is `ready`.
    pub(crate) fn start(mut command: Command, home: TempDir, address: String, ready: &str) -> Self {
        let process = launch(&mut command, home.path());
        let server = Self { process, command, home, address };
        server.wait_for_log(ready);
        server
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    /// Waits until the log contains this.
    pub(crate) fn wait_for_log(&self, text: &str) {
        let deadline = Instant::now() + super::PATIENCE;
        while !self.log().contains(text) {
            assert!(Instant::now() < deadline, "no {text:?} in the log: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for the end of a server that was asked to end, and starts it again with an empty log.
    pub(crate) fn begin_again(&mut self, ready: &str) {
        self.process.wait().unwrap();
        self.process = launch(&mut self.command, self.home.path());
        self.wait_for_log(ready);
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        // A stopped child process would never notice, and would stay.
        _ = Command::new("pkill").args(["-CONT", "-P", &self.process.id().to_string()]).status();
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn launch(command: &mut Command, home: &Path) -> Child {
    let log = std::fs::File::create(home.join("log")).unwrap();
    command.stdout(Stdio::null()).stderr(log).spawn().expect("a server")
}

/// Two hosts, `here` and `there`, 20 ms from each other and back.
pub(crate) fn far(here: &str, there: &str) -> Option<Fabric> {
    Fabric::up(&format!(
        r#"
format = 1
[[host]]
name = "here"
address = "{here}"
[[host]]
name = "there"
address = "{there}"
[[path]]
label = "far"
from = "here"
to = "there"
rtt = {{ min = "20ms", mean = "20.1ms", p95 = "20.3ms", p99 = "20.5ms" }}
"#
    ))
}

/// `fathom sql`, with the password in this variable.
pub(crate) fn sql(mut command: Command, password: &str, url: &str, arguments: &[&str]) -> Command {
    command.args(["sql", url, "--quiet"]).args(arguments).env(password, PASSWORD).env("FATHOM_CLOUD", "off");
    command.stdin(Stdio::null());
    command
}

/// Starts a run that prints its result as JSON.
pub(crate) fn begun(mut command: Command) -> Child {
    command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The result of a run that succeeded.
pub(crate) fn result(out: &Output) -> Value {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// The single line on standard error of a run that ended with this exit code.
pub(crate) fn refused(out: &Output, code: i32) -> String {
    let line = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!((out.status.code(), line.lines().count()), (Some(code), 1), "{line}");
    line
}

/// The verdict names this party with high confidence. On a busy machine the server may be observed too seldom, which the run
/// reports: then the verdict names no other party, and this one may have most of the time.
pub(crate) fn is(outcome: &Value, party: &str) {
    let seldom_seen = "what the server did while it was waited for was not seen often enough";
    let (named, confidence) = (&outcome["verdict"]["party"], &outcome["verdict"]["confidence"]);
    if outcome["without_split"][seldom_seen].is_null() {
        assert_eq!((named.as_str(), confidence.as_str()), (Some(party), Some("high")), "{outcome:#}");
        return;
    }
    assert!(named.is_null() || named == party, "{outcome:#}");
    assert!(outcome["shares"][party]["high"].as_f64() > Some(0.5), "{outcome:#}");
}

/// The recording reports its queries as the live run did, in figures and in words.
pub(crate) fn says_the_same(dir: &Path, live: &Value) {
    let recording = |command: &str, arguments: &[&str]| {
        let out =
            Command::new(FATHOM).args(["recording", command]).arg(dir).args(arguments).output().unwrap();
        assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let summary: Value = serde_json::from_str(&recording("summary", &["--json"])).unwrap();
    assert_eq!(&summary["queries"], live);
    let text = recording("summary", &[]);
    let wanted = live["queries"].as_u64().unwrap();
    assert!(text.starts_with(&format!("{}: {wanted} quer", live["target"].as_str().unwrap())), "{text}");
    let story = recording("explain", &["--json"]);
    let told = story.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_queries = |line: &Value| {
        line["statement"].as_str().is_some_and(|text| text.starts_with(&format!("{wanted} quer")))
    };
    let told: Vec<Value> = told.filter(of_queries).collect();
    assert_eq!((told.len(), &told[0]["confidence"]), (1, &live["verdict"]["confidence"]), "{story}");
}

/// Of each recorded query these integer columns, and whether the query failed.
pub(crate) fn recorded<const N: usize>(dir: &Path, columns: [&str; N]) -> Vec<([Option<i64>; N], bool)> {
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::Int64Type;
    let file = std::fs::File::open(dir.join("queries-00000.parquet")).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(file, 65_536).unwrap();
    let mut rows = Vec::new();
    for batch in reader {
        let batch = batch.unwrap();
        let errors = batch.column_by_name("error").unwrap();
        let value = |name: &str, row: usize| {
            let column = batch.column_by_name(name).unwrap().as_primitive::<Int64Type>();
            column.is_valid(row).then(|| column.value(row))
        };
        rows.extend(
            (0..batch.num_rows()).map(|row| (columns.map(|name| value(name, row)), errors.is_valid(row))),
        );
    }
    rows
}
