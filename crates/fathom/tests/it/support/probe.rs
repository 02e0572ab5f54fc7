//! A probe under test: the built binary, its output and its ending.

use super::net::Host;
use super::rows::{Events, events};
use super::{Kept, PATIENCE, must, signal, wait_for};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A running probe.
pub(crate) struct Probe {
    child: Kept,
    out: JoinHandle<String>,
    err: JoinHandle<String>,
}

/// How a command ended and what it said.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Probe {
    /// Starts `fathom probe` with these arguments, separated by blanks, in a directory, on a host.
    pub(crate) fn start_on(host: &Host, cwd: &Path, arguments: &str) -> Self {
        let mut words = vec!["probe"];
        words.extend(arguments.split_whitespace());
        Self::spawn(host.fathom().args(words).current_dir(cwd))
    }

    /// The same on this host.
    pub(crate) fn start(cwd: &Path, arguments: &str) -> Self {
        Self::start_on(&Host::this(), cwd, arguments)
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|e| panic!("{command:?}: {e}"));
        // Read as it comes: a full pipe would hold the probe up.
        let out = read_all(child.stdout.take().expect("piped"));
        let err = read_all(child.stderr.take().expect("piped"));
        Self { child: Kept(child), out, err }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child.0, name);
    }

    /// Kills it with SIGKILL and gives the moment just before.
    pub(crate) fn kill_9(mut self) -> Instant {
        let before = Instant::now();
        self.child.0.kill().expect("it runs");
        let status = self.child.0.wait().expect("it was ours");
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9),
            "it ended by itself: {status}"
        );
        before
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Outcome {
        let status = wait_for("the probe to end", || self.child.0.try_wait().expect("it is ours"));
        Outcome { status, out: self.out.join().expect("text"), err: self.err.join().expect("text") }
    }
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).expect("output is UTF-8");
        text
    })
}

/// Runs `fathom` with these arguments to its end, in a directory.
pub(crate) fn fathom(cwd: &Path, arguments: &[&str]) -> Outcome {
    Probe::spawn(Command::new(super::FATHOM).args(arguments).current_dir(cwd)).finish()
}

impl Outcome {
    /// The exit code; a death by signal is a failure of the test.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("it died: {self:?}"))
    }

    /// Asserts success and gives the summaries that `--json` printed: one JSON object a line and nothing else.
    pub(crate) fn summaries(&self) -> Vec<Value> {
        assert_eq!(self.code(), 0, "{}", self.err);
        self.objects()
    }

    /// The lines that it told its user.
    pub(crate) fn told(&self) -> Vec<&str> {
        self.err.lines().filter(|line| line.starts_with("fathom: ")).collect()
    }

    /// The lines of standard output, each of which must be one JSON object.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let object = |line: &str| {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
            assert!(value.is_object(), "{line}");
            value
        };
        self.out.lines().map(object).collect()
    }

    /// The one summary of a run with one target.
    pub(crate) fn summary(&self) -> Value {
        let mut all = self.summaries();
        assert_eq!(all.len(), 1, "{}", self.out);
        all.remove(0)
    }
}

/// Waits until the event log of a recording that is being written fulfils a condition.
pub(crate) fn wait_for_events(dir: &Path, what: &str, mut holds: impl FnMut(&Events) -> bool) -> Events {
    let mut last = Events::new();
    let deadline = Instant::now() + PATIENCE;
    while !holds(&last) {
        assert!(Instant::now() < deadline, "waited in vain for {what}; so far: {last:#?}");
        thread::sleep(Duration::from_millis(10));
        last = events(dir);
    }
    last
}

/// How long each thread has waited for a processor in its life. The kernel adds a wait when it is over
/// (Documentation/scheduler/sched-stats.rst), so one that had begun before the first look is in the second whole.
pub(crate) fn waited_ns(pid: u32) -> BTreeMap<String, u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    tasks
        .map(|task| {
            let task = task.expect("listed");
            let stat = std::fs::read_to_string(task.path().join("schedstat")).expect("it runs");
            let waited = stat.split_whitespace().nth(1).expect("three fields").parse().expect("a number");
            (task.file_name().to_string_lossy().into_owned(), waited)
        })
        .collect()
}

/// The same of threads of these names.
pub(crate) fn waited_ns_of(pid: u32, names: &[&str]) -> BTreeMap<String, u64> {
    let name =
        |task: &str| std::fs::read_to_string(format!("/proc/{pid}/task/{task}/comm")).unwrap_or_default();
    let mut waited = waited_ns(pid);
    waited.retain(|task, _| names.contains(&name(task).trim_end()));
    waited
}

/// Asserts that `fathom recording verify` finds nothing wrong, and that what its summary counts adds up.
pub(crate) fn assert_sound(dir: &Path) {
    let dir = dir.display().to_string();
    must(super::FATHOM, &["recording", "verify", &dir]);
    let summary = must(super::FATHOM, &["recording", "summary", "--json", &dir]);
    for summary in summary.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")) {
        // Of a throughput test, a search or an application it is another object.
        if summary["not_recorded"].is_object() {
            assert_adds_up(&summary);
        }
    }
}

/// The law of each recording's summary: every due sample is answered, unanswered, corrupt, in flight at the end, not
/// sent, or recorded as lost.
fn assert_adds_up(summary: &Value) {
    let number = |name: &str| summary[name].as_u64().unwrap_or_else(|| panic!("{name}: {summary}"));
    let resolved: u64 = ["answered", "unanswered", "corrupt"].map(number).iter().sum();
    assert_eq!(number("samples"), resolved, "{summary}");
    let lost = summary["not_recorded"].as_object().expect("them").values();
    let lost: u64 = lost.map(|n| n.as_u64().expect("a count")).sum();
    assert_eq!(number("due"), resolved + number("in_flight") + number("not_sent") + lost, "{summary}");
}

/// Everything below a directory, hidden files too, as paths relative to it.
pub(crate) fn left_behind(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in std::fs::read_dir(&next).expect("a directory") {
            let path = entry.expect("listed").path();
            if path.is_dir() {
                todo.push(path.clone());
            }
            found.push(path.strip_prefix(dir).expect("below it").to_owned());
        }
    }
    found
}
