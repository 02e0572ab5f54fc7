//! Reflectors to measure against: ours, xinetd's and socat's.

use super::net::Host;
use super::{Kept, free_port, wait_for};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Loopback of both families.
pub(crate) const LOOPBACK: [&str; 2] = ["127.0.0.1", "::1"];

/// A reflector that is ready.
pub(crate) trait Reflector {
    /// Where it answers, TCP and UDP alike.
    fn address(&self) -> SocketAddr;
    /// Whether it stamps our frames.
    fn stamps(&self) -> bool;
    /// Whether each datagram is echoed, on any machine.
    fn echoes_every_datagram(&self) -> bool {
        true
    }
}

/// `fathom echo`.
pub(crate) struct Echo {
    child: Kept,
    out: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Echo {
    /// Starts it on a free port of this address.
    pub(crate) fn start(address: &str) -> Self {
        Self::start_on(&Host::this(), SocketAddr::new(address.parse().expect("an address"), 0))
    }

    /// Starts it on a host, on this address and port.
    pub(crate) fn start_on(host: &Host, address: SocketAddr) -> Self {
        Self::start_with(host, address, &[])
    }

    /// Starts it on a free port of loopback, with options.
    pub(crate) fn start_as(options: &[&str]) -> Self {
        Self::start_with(&Host::this(), SocketAddr::from(([127, 0, 0, 1], 0)), options)
    }

    /// The same with a STAMP reflector on another port of this address, and where that is.
    pub(crate) fn start_stamp(host: &Host, address: SocketAddr, options: &[&str]) -> (Self, SocketAddr) {
        let stamp = address.to_string();
        let mut echo = Self::start_with(
            host,
            SocketAddr::new(address.ip(), 0),
            &[&["--stamp", &stamp], options].concat(),
        );
        let listening = line(&mut echo.out);
        assert_eq!(listening["protocol"], "stamp", "{listening}");
        let address = listening["address"].as_str().and_then(|a| a.parse().ok()).expect("an address");
        (echo, address)
    }

    /// Starts it on free ports of loopback, with a TDS server too, and where that is.
    pub(crate) fn start_tds(options: &[&str]) -> (Self, SocketAddr) {
        let mut echo = Self::start_as(&[&["--tds", "0"], options].concat());
        let listening = line(&mut echo.out);
        assert_eq!(listening["protocol"], "tds", "{listening}");
        let address = listening["address"].as_str().and_then(|a| a.parse().ok()).expect("an address");
        (echo, address)
    }

    fn start_with(host: &Host, address: SocketAddr, options: &[&str]) -> Self {
        let mut command = host.fathom();
        command.args(["echo", "--json", "--listen", &address.to_string()]).args(options);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let listening = line(&mut out);
        assert_eq!(listening["event"], "listening", "{listening}");
        let address = listening["address"].as_str().and_then(|a| a.parse().ok()).expect("an address");
        // The second line is the other protocol's, on the same port.
        let other = line(&mut out);
        assert_eq!(other["address"], listening["address"], "{other}");
        Self { child: Kept(child), out, address }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        super::signal(&self.child.0, name);
    }

    /// Kills it: the kernel closes its connections.
    pub(crate) fn kill(self) {
        drop(self);
    }

    /// Ends one that serves TDS in order; what it counted of that.
    pub(crate) fn stop_tds(mut self) -> Value {
        super::signal(&self.child.0, "TERM");
        assert_eq!(line(&mut self.out)["event"], "served");
        line(&mut self.out)
    }

    /// Ends it in order; what it counted.
    pub(crate) fn stop(mut self) -> Value {
        super::signal(&self.child.0, "TERM");
        let served = line(&mut self.out);
        assert_eq!(served["event"], "served", "{served}");
        served
    }
}

fn line(out: &mut impl BufRead) -> Value {
    let mut text = String::new();
    out.read_line(&mut text).expect("text");
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text:?}"))
}

impl Reflector for Echo {
    fn address(&self) -> SocketAddr {
        self.address
    }
    fn stamps(&self) -> bool {
        true
    }
}

/// xinetd with its internal echo service, as the articles set it up, but on a port that needs no right.
pub(crate) struct Xinetd {
    _child: Kept,
    _files: TempDir,
    address: SocketAddr,
}

impl Xinetd {
    pub(crate) fn start(address: &str) -> Self {
        let ip: IpAddr = address.parse().expect("an address");
        let xinetd = Self::start_on(&Host::this(), SocketAddr::new(ip, free_port()));
        answers_tcp(xinetd.address);
        answers_udp(xinetd.address);
        xinetd
    }

    /// Starts it on a host, on this address and port; it is ready a moment later.
    pub(crate) fn start_on(host: &Host, address: SocketAddr) -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let ip = address.ip();
        let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
        let service = |id, socket, protocol, wait| {
            format!(
                "service echo\n{{\n id = {id}\n type = INTERNAL UNLISTED\n socket_type = {socket}\n protocol = {protocol}\n \
                 wait = {wait}\n user = root\n port = {}\n bind = {ip}\n flags = {family}\n disable = no\n}}\n",
                address.port()
            )
        };
        let config = [
            "defaults\n{\n instances = UNLIMITED\n cps = 10000 1\n}\n".to_owned(),
            service("echo-stream", "stream", "tcp", "no"),
            service("echo-dgram", "dgram", "udp", "yes"),
        ]
        .concat();
        let conf = files.path().join("xinetd.conf");
        fs::write(&conf, config).expect("written");
        let mut command = host.command("/usr/sbin/xinetd");
        command.arg("-dontfork").arg("-f").arg(conf).arg("-pidfile").arg(files.path().join("pid"));
        let child = command
            .arg("-filelog")
            .arg(files.path().join("log"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = Kept(child.expect("xinetd starts"));
        Self { _child: child, _files: files, address }
    }
}

impl Reflector for Xinetd {
    fn address(&self) -> SocketAddr {
        self.address
    }
    fn stamps(&self) -> bool {
        false
    }
    /// A datagram that comes while its child for the one before ends gets no echo.
    fn echoes_every_datagram(&self) -> bool {
        false
    }
}

/// socat, a process a connection; and beside it an echo of datagrams that stamps nothing. (socat has a process a datagram
/// too; on a busy machine it was seen to answer nothing any more.)
pub(crate) struct Socat {
    _child: Kept,
    _datagrams: PlainDatagrams,
    address: SocketAddr,
}

/// Sends each datagram back as it came (RFC 862), until it is dropped.
struct PlainDatagrams(Arc<AtomicBool>);

impl PlainDatagrams {
    fn start(address: SocketAddr) -> Self {
        let socket = UdpSocket::bind(address).expect("a free port");
        // Only so often is it looked whether it is to end.
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
        let over = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&over);
        std::thread::spawn(move || {
            let mut bytes = vec![0; 65_536];
            while !end.load(Ordering::Relaxed) {
                if let Ok((n, from)) = socket.recv_from(&mut bytes) {
                    // Its sender may have gone.
                    let _ = socket.send_to(&bytes[..n], from);
                }
            }
        });
        Self(over)
    }
}

impl Drop for PlainDatagrams {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Socat {
    pub(crate) fn start(address: &str) -> Self {
        let ip: IpAddr = address.parse().expect("an address");
        let address = SocketAddr::new(ip, free_port());
        let (version, bind) = if ip.is_ipv4() { (4, ip.to_string()) } else { (6, format!("[{ip}]")) };
        let port = address.port();
        let mut command = Command::new("socat");
        // Pieces of a pipe's atomic size: a larger one could wait for room that only its own reader makes.
        command
            .args(["-b", "4096", &format!("TCP{version}-LISTEN:{port},bind={bind},reuseaddr,fork"), "PIPE"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = Kept(command.spawn().expect("socat starts"));
        let datagrams = PlainDatagrams::start(address);
        answers_tcp(address);
        Self { _child: child, _datagrams: datagrams, address }
    }
}

impl Reflector for Socat {
    fn address(&self) -> SocketAddr {
        self.address
    }
    fn stamps(&self) -> bool {
        false
    }
}

/// Waits until a connection is accepted.
pub(crate) fn answers_tcp(address: SocketAddr) {
    let stream = wait_for("a reflector's TCP port", || TcpStream::connect(address).ok());
    // Its end is waited for too, so that the process that serves it is gone.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let _ = (&stream).read(&mut [0; 1]);
}

/// Waits until a datagram comes back.
fn answers_udp(address: SocketAddr) {
    let any = if address.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let socket = UdpSocket::bind(any).expect("loopback");
    socket.connect(address).expect("loopback");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
    wait_for("a reflector's UDP port", || {
        // Until the port is open both calls may report that it was not.
        let _ = socket.send(b"ready?");
        socket.recv(&mut [0; 16]).ok()
    });
}
