//! A fabric under test, made by the built binary as root, and what it says that it did.

use super::probe::Probe;
use super::{FATHOM, Kept, needs, needs_root};
use arrow_array::Array as _;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int64Type, UInt32Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// The text of a preset, `scenarios/NAME.toml`.
pub(crate) fn preset(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(format!("{name}.toml"));
    fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// A fabric that is up. Dropped, it is down.
pub(crate) struct Fabric {
    home: TempDir,
    name: String,
}

impl Fabric {
    /// Of a scenario's text, with the truth and each packet's stamps; None, visibly, where this machine cannot.
    pub(crate) fn up(scenario: &str) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !needs_root() || !needs("ip") {
            return None;
        }
        let home = tempfile::tempdir().expect("a directory");
        let name = format!("p{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        fs::write(home.path().join("scenario.toml"), scenario).expect("a file");
        let fabric = Self { home, name };
        fabric.must("up", "scenario.toml --truth truth --packets");
        Some(fabric)
    }

    /// Where its files stand, and recordings may.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(FATHOM);
        command.current_dir(self.home.path()).env("FATHOM_CLOUD", "off").env_remove("FATHOM_FABRIC");
        command.arg("fabric");
        command
    }

    /// Runs `fathom fabric VERB --name ... ARGUMENTS`, which must succeed.
    pub(crate) fn must(&self, verb: &str, arguments: &str) {
        let mut command = self.command();
        let out = command.args([verb, "--name", &self.name]).args(arguments.split(' ')).output();
        let out = out.expect("a command");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{verb} {arguments}: {}: {said}", out.status);
    }

    /// A program, to be run on a host.
    pub(crate) fn exec(&self, host: &str, program: &str) -> Command {
        let mut command = self.command();
        command.args(["exec", "--name", &self.name, host, "--", program]);
        command
    }

    /// The binary, to be run on a host.
    pub(crate) fn on(&self, host: &str) -> Command {
        self.exec(host, FATHOM)
    }

    /// A reflector on a host that listens by now, on every address.
    pub(crate) fn reflector(&self, host: &str) -> Kept {
        let mut command = self.on(host);
        command.args(["echo", "--json", "--tcp-only", "--listen", "0.0.0.0:7"]);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("text");
        assert!(line.contains("listening"), "{line:?}");
        Kept(child)
    }

    /// `fathom echo --tds` on a host, which listens by now, and its URL.
    pub(crate) fn tds(&self, host: &str, address: &str) -> (Kept, String) {
        let mut command = self.on(host);
        command
            .args(["echo", "--json", "--tds", "--allow", "10.0.0.0/8", "--listen"])
            .arg(format!("{address}:7007"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let listens = |line: &String| line.contains("\"tds\"");
        assert!(lines.by_ref().take(5).map(|line| line.unwrap()).any(|line| listens(&line)), "it listens");
        // What it says later is read by nobody, and a closed pipe is none of its troubles here.
        (Kept(child), format!("mssql://reader@{address}:1433/sales?sslmode=disable"))
    }

    /// A probe on a host, with these arguments, separated by blanks, that records into this directory.
    pub(crate) fn probe(&self, host: &str, dir: &str, arguments: &str) -> Probe {
        let mut command = self.on(host);
        command.args(["probe", "--json", "--quiet", "--record", dir]).args(arguments.split(' '));
        Probe::spawn(&mut command)
    }

    /// Where a recording stands.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Takes it down. What it did is complete then.
    pub(crate) fn down(&self) -> Truth {
        let out = self.command().args(["down", &self.name]).output().expect("a command");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let text = fs::read_to_string(self.path("truth/truth.jsonl")).expect("truth.jsonl");
        let lines = text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}")));
        Truth { lines: lines.collect(), packets: packets(&self.path("truth/truth-packets.parquet")) }
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        // Down already is no matter.
        let _ = self.command().args(["down", &self.name]).output();
    }
}

/// What a fabric did.
pub(crate) struct Truth {
    /// The lines of truth.jsonl.
    pub(crate) lines: Vec<Value>,
    /// TCP packets that were delivered, in the order in which they came in.
    pub(crate) packets: Vec<Packet>,
}

/// One packet that was delivered; times in ns since the Unix epoch.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    pub(crate) in_ns: i64,
    pub(crate) due_ns: i64,
    pub(crate) out_ns: i64,
    pub(crate) from: String,
    pub(crate) path: String,
    pub(crate) size: u32,
}

fn packets(file: &Path) -> Vec<Packet> {
    let file = File::open(file).expect("truth-packets.parquet");
    let mut all = Vec::new();
    for batch in ParquetRecordBatchReader::try_new(file, 4_096).expect("Parquet") {
        let batch = batch.expect("rows");
        let times = |name: &str| batch.column_by_name(name).expect(name).as_primitive::<Int64Type>().clone();
        let words = |name: &str| batch.column_by_name(name).expect(name).as_string::<i32>().clone();
        let (came, due, out) = (times("in_ns"), times("due_ns"), times("out_ns"));
        let (from, path, protocol) = (words("from"), words("path"), words("protocol"));
        let size = batch.column_by_name("size").expect("size").as_primitive::<UInt32Type>().clone();
        let delivered = |&i: &usize| protocol.value(i) == "tcp" && out.is_valid(i);
        all.extend((0..batch.num_rows()).filter(delivered).map(|i| Packet {
            in_ns: came.value(i),
            due_ns: due.value(i),
            out_ns: out.value(i),
            from: from.value(i).to_owned(),
            path: path.value(i).to_owned(),
            size: size.value(i),
        }));
    }
    all.sort_by_key(|packet| packet.in_ns);
    all
}

impl Truth {
    /// The lines of one kind.
    pub(crate) fn of_kind<'a>(&'a self, kind: &str) -> Vec<&'a Value> {
        self.lines.iter().filter(|line| line["kind"] == kind).collect()
    }
}

/// When a line of the truth or of a recording's events says that it happened, in ns since the Unix epoch.
pub(crate) fn utc_ns(line: &Value) -> i64 {
    let at = line["at"].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok());
    let at = at.unwrap_or_else(|| panic!("no time: {line}"));
    i64::try_from(at.as_nanosecond()).expect("a time of ours")
}
