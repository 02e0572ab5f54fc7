//! What the databases of the tests have in common: a real server that is a child of the test, and `fathom sql` asking it.

use super::FATHOM;
use super::fabric::Fabric;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;
use tempfile::TempDir;

pub(crate) const PASSWORD: &str = "s3cret-w0rd";

/// A port of this host that nobody has.
pub(crate) fn a_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server under way, with its log in its home. Dropped, it is killed.
pub(crate) struct Server {
    process: Child,
    command: Command,
    pub(crate) home: TempDir,
    pub(crate) address: String,
}

impl Server {
    /// Starts it, and waits until its log says that it is `ready`.
    pub(crate) fn start(mut command: Command, home: TempDir, address: String, ready: &str) -> Self {
        let log = std::fs::File::create(home.path().join("log")).unwrap();
        let process = command.stdout(Stdio::null()).stderr(log).spawn().expect("a server");
        let server = Self { process, command, home, address };
        let deadline = Instant::now() + super::PATIENCE;
        while !server.log().contains(ready) {
            assert!(Instant::now() < deadline, "{}", server.log());
            std::thread::yield_now();
        }
        server
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// It was asked to end: waits until it has, and starts it again.
    pub(crate) fn begin_again(&mut self, ready: &str) {
        self.process.wait().unwrap();
        let log = std::fs::File::create(self.home.path().join("log")).unwrap();
        self.process = self.command.stdout(Stdio::null()).stderr(log).spawn().expect("a server");
        let deadline = Instant::now() + super::PATIENCE;
        while !self.log().contains(ready) {
            assert!(Instant::now() < deadline, "{}", self.log());
            std::thread::yield_now();
        }
    }

    /// It dies, as of a fault.
    pub(crate) fn kill(&mut self) {
        // Those of its processes that are stopped would never learn of it, and stay.
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

pub(crate) fn result(out: &Output) -> Value {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Most of it is this party's, for sure. Where a busy machine kept whoever looks at the server from seeing it often enough, which the
/// run says then, it names nobody else, and that party may have most of it.
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

/// What a recording says of its queries is what the live run said at its end: in figures and in words.
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
