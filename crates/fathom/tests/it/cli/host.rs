//! `fathom host`: a study's side on a host, called as `sshd` would call it. Each test's host is a home of its own.
use fathom_host::process::Identity;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The runner's mark in the environment of its own processes.
const MARK: (&str, &str) = ("FATHOMETER_STUDY", "ab12");
const PATIENCE: Duration = Duration::from_mins(1);

struct Host {
    home: tempfile::TempDir,
}

/// What was answered: the lines, and the bytes of pieces by name.
struct Told {
    lines: Vec<Value>,
    pieces: Vec<(String, Vec<u8>)>,
}

impl Told {
    fn of(output: &[u8]) -> Self {
        let mut rest = output.strip_prefix(b"\n").expect("an answer begins on a line of its own");
        let (mut lines, mut pieces) = (Vec::new(), Vec::new());
        while !rest.is_empty() {
            let end = rest.iter().position(|&b| b == b'\n').expect("a whole line");
            let line: Value = serde_json::from_slice(&rest[..end]).unwrap();
            rest = &rest[end + 1..];
            if line["is"] == "piece" {
                let length = usize::try_from(line["length"].as_u64().unwrap()).unwrap();
                pieces.push((line["name"].as_str().unwrap().to_owned(), rest[..length].to_vec()));
                rest = &rest[length..];
            }
            lines.push(line);
        }
        assert_eq!(lines[0], json!({"is": "fathom-host", "format": 1}));
        Self { lines, pieces }
    }

    fn all(&self, is: &str) -> Vec<&Value> {
        self.lines.iter().filter(|line| line["is"] == is).collect()
    }

    fn one(&self, is: &str) -> &Value {
        let all = self.all(is);
        assert_eq!(all.len(), 1, "{is} in {:?}", self.lines);
        all[0]
    }

    fn piece(&self, name: &str) -> String {
        let piece = self.pieces.iter().find(|piece| piece.0 == name);
        String::from_utf8(piece.map(|piece| piece.1.clone()).unwrap_or_default()).unwrap()
    }
}

impl Host {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    fn ask_bytes(&self, request: &[u8]) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fathom"))
            .args(["host", "answer"])
            .env("HOME", self.home.path())
            .env("FATHOM_CLOUD", "off")
            .env(MARK.0, MARK.1)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It may have answered, and gone, before it read all.
        let _ = child.stdin.take().unwrap().write_all(request);
        child.wait_with_output().unwrap()
    }

    fn ask_as(&self, study: &str, ask: &Value) -> Told {
        let request = json!({"format": 1, "study": study, "host": "vm", "ask": ask});
        let output = self.ask_bytes(format!("{request}\n").as_bytes());
        let told = Told::of(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{:?}", told.lines);
        assert_eq!(told.lines.last(), Some(&json!({"is": "end"})));
        told
    }

    fn ask(&self, ask: &Value) -> Told {
        self.ask_as("ab12", ask)
    }

    fn start(&self, job: &str, limit_s: u64, argv: &[&str]) -> Told {
        self.ask(&json!({"verb": "start", "job": job, "limit_s": limit_s, "argv": argv}))
    }

    /// A reflector that listens.
    fn reflector(&self, job: &str) {
        self.start(job, 600, &ECHO);
        let listening = || self.ask(&json!({"verb": "said", "job": job})).piece("out").contains("listening");
        until("a reflector that listens", listening);
    }

    fn state(&self, job: &str) -> Value {
        let told = self.ask(&json!({"verb": "look", "job": job, "budget": 0}));
        let mut state = told.one("state").clone();
        state.as_object_mut().unwrap().remove("is");
        state
    }

    /// How a job ended, when it has.
    fn ended(&self, job: &str) -> Value {
        until("its end", || self.state(job)["state"] != "running");
        self.state(job)
    }

    fn job(&self, job: &str) -> PathBuf {
        self.home.path().join(".fathom/studies/ab12/vm/jobs").join(job)
    }

    /// A process that left word of itself.
    fn process(&self, job: &str, name: &str) -> Identity {
        let path = self.job(job).join(name);
        until("a word of a process", || path.exists());
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }
}

impl Drop for Host {
    /// Of what a test that failed left.
    fn drop(&mut self) {
        if self.home.path().join(".fathom/studies/ab12").exists() {
            self.ask_bytes(
                b"{\"format\":1,\"study\":\"ab12\",\"host\":\"vm\",\"ask\":{\"verb\":\"clear\"}}\n",
            );
        }
    }
}

const ECHO: [&str; 4] = ["echo", "--json", "--listen", "tcp://127.0.0.1:0"];

fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn job_starts_once_reports_end_and_is_removed() {
    let host = Host::new();
    assert_eq!(host.ask(&json!({"verb": "hello"})).all("job"), Vec::<&Value>::new());
    let first = host.start("good", 60, &["--version"]);
    assert!(first.one("started")["age_s"].as_u64().unwrap() < 3600);
    assert_eq!(host.ended("good"), json!({"state": "exited", "code": 0}));
    let program = host.process("good", "program");
    // The answer to the first call may have been lost.
    assert_eq!(host.start("good", 60, &["--version"]).one("started")["state"], "exited");
    assert_eq!(host.process("good", "program"), program);
    let said = host.ask(&json!({"verb": "said", "job": "good"}));
    assert_eq!(said.piece("out"), format!("fathom {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(said.piece("err"), "");
    host.start("bad", 60, &["no-such-command"]);
    assert_eq!(host.ended("bad"), json!({"state": "exited", "code": 2}));
    assert!(host.ask(&json!({"verb": "said", "job": "bad"})).piece("err").contains("no-such-command"));
    let names = |told: &Told| told.all("job").iter().map(|j| j["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&host.ask(&json!({"verb": "hello"}))), ["bad", "good"]);
    host.ask(&json!({"verb": "drop", "job": "bad"}));
    assert_eq!(names(&host.ask(&json!({"verb": "hello"}))), ["good"]);
    assert_eq!(host.ask(&json!({"verb": "clear"})).one("cleared")["processes"], 0);
    assert!(!host.home.path().join(".fathom/studies").exists());
    // Once more, and of what never was.
    host.ask(&json!({"verb": "clear"}));
    host.ask(&json!({"verb": "drop", "job": "good"}));
}

#[test]
fn a_study_ends_what_is_its_own_alone() {
    let host = Host::new();
    host.reflector("reflector-tcp-1");
    let another = json!({"verb": "start", "job": "reflector-tcp-1", "limit_s": 600, "argv": ECHO});
    host.ask_as("cd34", &another);
    host.ask_as("cd34", &json!({"verb": "drop", "job": "reflector-tcp-1"}));
    host.ask_as("cd34", &json!({"verb": "clear"}));
    assert_eq!(host.state("reflector-tcp-1"), json!({"state": "running"}));
    let processes = ["supervisor", "program"].map(|name| host.process("reflector-tcp-1", name));
    assert!(processes.iter().all(Identity::runs));
    // The supervisor, and the reflector.
    assert_eq!(host.ask(&json!({"verb": "clear"})).one("cleared")["processes"], 2);
    assert!(!processes.iter().any(Identity::runs));
}

#[test]
fn clear_spares_runner_on_same_machine() {
    // A study over SSH to its own machine ended "interrupted": what bore the study's mark was ended, and the runner's own
    // `ssh` bears it.
    let mut runners: Child =
        Command::new("cat").env(MARK.0, MARK.1).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let host = Host::new();
    host.reflector("reflector");
    // And what runs for a host bears no mark by which the runner would take it for its own.
    let program = host.process("reflector", "program").pid;
    let environment = fs::read(format!("/proc/{program}/environ")).unwrap();
    assert!(!environment.split(|&b| b == 0).any(|entry| entry.starts_with(MARK.0.as_bytes())));
    host.ask(&json!({"verb": "clear"}));
    assert_eq!(runners.try_wait().unwrap(), None);
    drop(runners.stdin.take());
    assert!(runners.wait().unwrap().success());
}

#[test]
fn clear_spares_process_with_reused_pid() {
    let host = Host::new();
    let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    host.start("job", 60, &["--version"]);
    host.ended("job");
    let gone = host.process("job", "program");
    fs::remove_file(host.job("job").join("ended")).unwrap();
    for name in ["program", "supervisor"] {
        let word = json!({"pid": cat.id(), "start": gone.start, "boot": gone.boot, "began_s": 0});
        fs::write(host.job("job").join(name), word.to_string()).unwrap();
    }
    assert_eq!(host.state("job"), json!({"state": "lost"}));
    assert_eq!(host.ask(&json!({"verb": "clear"})).one("cleared")["processes"], 0);
    assert_eq!(cat.try_wait().unwrap(), None);
    drop(cat.stdin.take());
    assert!(cat.wait().unwrap().success());
}

#[test]
fn exit_is_reported_as_it_was() {
    let host = Host::new();
    host.reflector("killed");
    host.process("killed", "program").kill().unwrap();
    assert_eq!(host.ended("killed"), json!({"state": "killed", "signal": 9}));
    // Its time is over before it begins.
    host.start("expired", 0, &ECHO);
    assert_eq!(host.ended("expired"), json!({"state": "expired"}));
    // A request to end is passed on: the reflector ends in order.
    host.reflector("asked");
    host.process("asked", "supervisor").ask_to_end().unwrap();
    assert_eq!(host.ended("asked"), json!({"state": "exited", "code": 0}));
    // Without its supervisor nobody could tell of it any more: it ends.
    host.reflector("orphan");
    let (supervisor, program) = (host.process("orphan", "supervisor"), host.process("orphan", "program"));
    supervisor.kill().unwrap();
    until("the orphan's end", || !program.runs());
    assert_eq!(host.ended("orphan"), json!({"state": "lost"}));
}

#[test]
fn files_arrive_in_pieces_without_following_links() {
    let host = Host::new();
    let rec = host.job("run").join("rec");
    fs::create_dir_all(&rec).unwrap();
    fs::write(rec.join("recording.json"), "{}").unwrap();
    fs::write(rec.join("events.jsonl"), "abc").unwrap();
    fs::write(rec.join("samples-00000.parquet.tmp"), "on its way").unwrap();
    fs::write(rec.join(".lock"), "").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", rec.join("samples-00000.parquet")).unwrap();
    let want = json!([["events.jsonl", 1], ["samples-00000.parquet", 0], ["recording.json", 0], ["none", 0]]);
    let look = host.ask(&json!({"verb": "look", "job": "run", "budget": 3, "want": want}));
    let names: Vec<_> = look.all("file").iter().map(|file| file["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["events.jsonl", "recording.json"]);
    assert_eq!(look.all("file")[0]["size"], 3);
    // Two bytes of the first, and one is left for the other.
    assert_eq!(
        look.pieces,
        [("events.jsonl".to_owned(), b"bc".to_vec()), ("recording.json".to_owned(), b"{".to_vec())]
    );
    let sums = host.ask(&json!({"verb": "sums", "job": "run"}));
    // FIPS 180-2, appendix B.1.
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(sums.all("sum")[0], &json!({"is": "sum", "name": "events.jsonl", "sha256": abc}));
    assert_eq!(sums.all("sum").len(), 2);
}

#[test]
fn invalid_request_is_one_line_error() {
    let host = Host::new();
    let path = |job: &str| {
        let request =
            json!({"format": 1, "study": "ab12", "host": "vm", "ask": {"verb": "drop", "job": job}});
        format!("{request}\n").into_bytes()
    };
    let beside = host.home.path().join("precious");
    fs::write(&beside, "kept").unwrap();
    let long = vec![b'a'; 1 << 20];
    for request in [
        path("../../../../../precious"),
        path("/etc"),
        path("a\u{1b}]0;owned\u{7}"),
        b"\n".to_vec(),
        b"".to_vec(),
        b"{\"format\":1}\n".to_vec(),
        vec![b'['; 100_000],
        [vec![b'['; 100_000], b"\n".to_vec()].concat(),
        long,
        b"\xff\xfe\n".to_vec(),
    ] {
        let output = host.ask_bytes(&request);
        assert_eq!(output.status.code(), Some(2));
        let told = Told::of(&output.stdout);
        let message = told.one("error")["message"].as_str().unwrap();
        assert!(message.starts_with("the request is not understood"), "{message}");
        assert!(!message.contains('\u{1b}'), "{message}");
        assert_eq!(output.stderr, b"");
    }
    assert_eq!(fs::read_to_string(&beside).unwrap(), "kept");
    assert!(!Path::new(&host.home.path().join(".fathom")).exists());
}
