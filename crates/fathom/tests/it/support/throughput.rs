//! Ends of throughput tests: our reflector's, iperf3's, and peers that misbehave.

use super::probe::{Outcome, Probe};
use super::{FATHOM, Kept, PATIENCE, free_port, wait_for};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};

/// `fathom echo --throughput`.
pub(crate) struct Service {
    child: Kept,
    out: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Service {
    /// Starts it on free ports of loopback, with more arguments.
    pub(crate) fn start(more: &[&str]) -> Self {
        Self::start_as(Command::new(FATHOM), more)
    }

    /// The same, with no more memory of its own than so much: what asks for more kills it, and not this host.
    pub(crate) fn start_within(kib: u32, more: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -v {kib} && exec \"$0\" \"$@\""), FATHOM]);
        Self::start_as(shell, more)
    }

    fn start_as(mut command: Command, more: &[&str]) -> Self {
        command.args(["echo", "--json", "--listen", "tcp://127.0.0.1:0", "--throughput", "0"]).args(more);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut child = Kept(child);
        let mut out = BufReader::new(child.0.stdout.take().expect("piped"));
        let address = loop {
            let listening = line(&mut out);
            assert_eq!(listening["event"], "listening", "{listening}");
            if listening["protocol"] == "iperf3" {
                break listening["address"].as_str().and_then(|a| a.parse().ok()).expect("an address");
            }
        };
        Self { child, out, address }
    }

    /// The most memory that it has ever had resident, in KiB.
    #[cfg(target_os = "linux")]
    pub(crate) fn memory_peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.0.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells it");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Ends it in order; which tests it served.
    pub(crate) fn stop(mut self) -> Value {
        super::signal(&self.child.0, "TERM");
        let served = line(&mut self.out);
        assert_eq!(served["event"], "served", "{served}");
        let served = line(&mut self.out);
        assert_eq!(served["event"], "throughput_served", "{served}");
        served
    }
}

fn line(out: &mut impl BufRead) -> Value {
    let mut text = String::new();
    out.read_line(&mut text).expect("text");
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text:?}"))
}

/// `iperf3 -s`, for one test.
pub(crate) struct IperfServer {
    child: Kept,
    pub(crate) address: SocketAddr,
}

impl IperfServer {
    pub(crate) fn start() -> Self {
        let port = free_port();
        let mut command = Command::new("iperf3");
        // Told line by line, so that it can be seen to listen: a connection to look would be its one test.
        command.args(["-s", "-1", "-4", "--forceflush", "-p", &port.to_string()]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("iperf3 starts");
        let mut child = Kept(child);
        let mut out = BufReader::new(child.0.stdout.take().expect("piped"));
        let mut told = String::new();
        while !told.contains("Server listening") {
            told.clear();
            assert_ne!(out.read_line(&mut told).expect("text"), 0, "iperf3 ended");
        }
        // Read on, or a full pipe would hold it up.
        std::thread::spawn(move || out.read_to_string(&mut told));
        Self { child, address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    /// Kills it in the middle of whatever it does.
    pub(crate) fn kill(self) {
        drop(self);
    }

    pub(crate) fn signal(&self, name: &str) {
        super::signal(&self.child.0, name);
    }
}

/// Runs `iperf3 -c` against an address to its end; what its `-J` says, which is JSON whether it fails or not.
pub(crate) fn iperf_client(server: SocketAddr, more: &[&str]) -> Value {
    let port = server.port().to_string();
    let mut command = Command::new("iperf3");
    command.args(["-c", &server.ip().to_string(), "-p", &port, "-J"]).args(more);
    if !more.iter().any(|option| ["-t", "-n"].contains(option)) {
        command.args(["-t", "1"]);
    }
    let outcome = Probe::spawn(&mut command).finish();
    serde_json::from_str(&outcome.out).unwrap_or_else(|e| panic!("{e}: {outcome:?}"))
}

/// Runs `fathom probe --throughput` to its end.
pub(crate) fn measure(home: &Path, server: SocketAddr, more: &str) -> Outcome {
    Probe::start(home, &format!("{server} --throughput --quiet {more}")).finish()
}

/// A server that says these bytes to whoever connects, after it has read as many as `after`, and then waits for the
/// other end to hang up.
pub(crate) fn parrot(after: usize, says: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        while let Ok((mut peer, _)) = listener.accept() {
            let mut read = vec![0; after];
            if peer.read_exact(&mut read).is_ok() {
                let _ = std::io::Write::write_all(&mut peer, says);
                let _ = peer.shutdown(std::net::Shutdown::Write);
                let _ = peer.read_to_end(&mut read);
            }
        }
    });
    address
}

/// Connects and gives a cookie; the connection, with patience for what comes back.
pub(crate) fn guest(server: SocketAddr, cookie: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    std::io::Write::write_all(&mut stream, cookie).expect("it fits");
    stream
}

/// A document of iperf3's control connection, its length before it.
pub(crate) fn document(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("it is short");
    [&length.to_be_bytes(), text.as_bytes()].concat()
}

/// What one end counted on one way of a summary, in bytes.
pub(crate) fn counted(summary: &Value, way: &str, end: &str) -> u64 {
    let of = summary["ways"].as_array().expect("ways").iter().find(|it| it["way"] == way);
    let of = of.unwrap_or_else(|| panic!("no {way}: {summary}"));
    of[end]["bytes"].as_u64().unwrap_or_else(|| panic!("no {way} {end}: {summary}"))
}

/// Waits until a line of the event log shows that data flows.
pub(crate) fn wait_until_it_flows(dir: &Path) {
    wait_for("an interval", || {
        std::fs::read_to_string(dir.join("events.jsonl"))
            .ok()
            .filter(|text| text.contains("throughput.interval"))
    });
}
