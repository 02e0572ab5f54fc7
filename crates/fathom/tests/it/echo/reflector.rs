//! A reflector under test: the built binary, on ports that the system chose.

use fathom_wire::{Checker, Integrity, Key, ReflectorStamps};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Long enough for any machine; a test that waits so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const FATHOM: &str = env!("CARGO_BIN_EXE_fathom");

pub(crate) struct Reflector {
    child: Child,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
    pub(crate) tcp: Option<SocketAddr>,
    pub(crate) udp: Option<SocketAddr>,
}

impl Reflector {
    /// Starts `fathom echo` on this address (TCP and UDP) with further arguments.
    pub(crate) fn start(listen: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(FATHOM);
        command.args(["echo", "--json", "--listen", listen]).args(arguments);
        Self::spawn(command)
    }

    /// Starts a command that ends up as `fathom echo --json` with one TCP and one UDP socket, or one of them.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("fathom starts");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let err = BufReader::new(child.stderr.take().expect("piped"));
        let only_one = command.get_args().any(|a| a == "--tcp-only" || a == "--udp-only");
        let (mut tcp, mut udp) = (None, None);
        for _ in 0..if only_one { 1 } else { 2 } {
            let line = json_line(&mut out);
            assert_eq!(line["event"], "listening", "{line}");
            let address = line["address"].as_str().and_then(|a| a.parse().ok());
            *(if line["protocol"] == "tcp" { &mut tcp } else { &mut udp }) = address;
        }
        Self { child, out, err, tcp, udp }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.tcp.expect("it serves TCP"))
    }

    /// The next line of standard error that contains this.
    pub(crate) fn said(&mut self, what: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.err.read_line(&mut line).expect("text"), 0, "it ended without saying {what:?}");
            if line.contains(what) {
                return line;
            }
        }
    }

    /// Ends it with SIGTERM; what it counted, and the rest of what it said.
    pub(crate) fn stop(mut self) -> (Value, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
        let counts = json_line(&mut self.out);
        assert_eq!(counts["event"], "served", "{counts}");
        let mut said = String::new();
        self.err.read_to_string(&mut said).expect("text");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}: {said}");
        (counts, said)
    }

    /// Resident memory in KiB, by the kernel.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("Linux tells VmRSS");
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
    }
}

impl Drop for Reflector {
    fn drop(&mut self) {
        // Only where a test failed half-way: `stop` has waited for it otherwise, and then both do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn json_line(out: &mut impl BufRead) -> Value {
    let mut line = String::new();
    out.read_line(&mut line).expect("text");
    serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(reachable(address)).expect("the reflector accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.set_nodelay(true).expect("set");
    stream
}

/// A UDP socket of this host that talks to the reflector.
pub(crate) fn udp(local: &str, reflector: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(local).expect("an address of this host");
    socket.connect(reachable(reflector)).expect("loopback");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    socket
}

/// Where to find a socket that listens on every address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let loopback = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(loopback, address.port())
}

pub(crate) fn frame(key: Key, sequence: u64, size: u32) -> Vec<u8> {
    let mut bytes = vec![0; size as usize];
    key.fill(sequence, size, 0, &mut bytes);
    bytes
}

/// The stamps in a whole echo, which must be intact and stamped.
pub(crate) fn stamps_of(key: Key, sequence: u64, echo: &[u8]) -> ReflectorStamps {
    match Checker::default().feed(key, sequence, echo.len() as u32, echo) {
        (_, Some(Integrity::Intact(Some(stamps)))) => stamps,
        other => panic!("echo {sequence}: {other:?}"),
    }
}

/// Sends these bytes and reads as many.
pub(crate) fn round_trip(stream: &mut TcpStream, bytes: &[u8]) -> Vec<u8> {
    stream.write_all(bytes).expect("sent");
    let mut echo = vec![0; bytes.len()];
    stream.read_exact(&mut echo).expect("echoed");
    echo
}

pub(crate) fn utc_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as i64
}

/// `SplitMix64`, seeded: the same bytes and sizes in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        fathom_wire::pattern::mix(self.0)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Says visibly that a test could not run here; in CI that is a failure.
pub(crate) fn skip(why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "CI must run this test: {why}");
    eprintln!("SKIPPED: {why}");
}

pub(crate) fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout.trim_ascii() == b"0")
}

pub(crate) fn has_ipv6() -> bool {
    UdpSocket::bind("[::1]:0").is_ok()
}
