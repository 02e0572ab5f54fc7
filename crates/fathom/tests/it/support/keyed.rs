//! `fathom echo --key`, and what is sent to it by hand.

use crate::support::{FATHOM, Kept, PATIENCE, signal};
use fathom_wire::{About, Checker, HEADER_LEN, Integrity, Key, Question, Secret};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};

pub(crate) const SECRET: &str = "a secret of more than sixteen bytes";
pub(crate) const KEY: Key = Key { session: 77, connection: 5 };

/// `fathom echo --key` on a free port of loopback.
pub(crate) struct Keyed {
    child: Kept,
    out: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Keyed {
    pub(crate) fn start(key: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(FATHOM);
        command.args(["echo", "--json", "--listen", "127.0.0.1:0", "--key"]).arg(key).args(more);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut child = Kept(child);
        let mut out = BufReader::new(child.0.stdout.take().expect("piped"));
        let [tcp, udp] = [(); 2].map(|()| line(&mut out));
        assert_eq!(tcp["address"], udp["address"], "{tcp} {udp}");
        let address = tcp["address"].as_str().and_then(|a| a.parse().ok()).expect("an address");
        Self { child, out, address }
    }

    pub(crate) fn stop(self) -> Value {
        self.stop_and_hear().0
    }

    /// With what it told people.
    pub(crate) fn stop_and_hear(mut self) -> (Value, String) {
        signal(&self.child.0, "TERM");
        let (served, mut told) = (line(&mut self.out), String::new());
        self.child.0.stderr.take().expect("piped").read_to_string(&mut told).expect("text");
        (served, told)
    }

    pub(crate) fn tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream
    }

    pub(crate) fn udp(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        socket.connect(self.address).expect("loopback");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        socket
    }
}

pub(crate) fn line(out: &mut impl BufRead) -> Value {
    let mut text = String::new();
    out.read_line(&mut text).expect("text");
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text:?}"))
}

pub(crate) fn key_file(home: &Path, name: &str, text: &str) -> PathBuf {
    let path = home.join(name);
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("set");
    path
}

pub(crate) fn home() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().expect("a directory");
    let key = key_file(home.path(), "key", &format!("{SECRET}\n"));
    (home, key)
}

pub(crate) fn secret() -> Secret {
    Secret::new(SECRET.as_bytes())
}

pub(crate) fn frame(secret: Option<&Secret>, sequence: u64, size: u32) -> Vec<u8> {
    let mut bytes = vec![0; size as usize];
    KEY.fill_sealed(secret, sequence, size, 0, &mut bytes);
    bytes
}

pub(crate) fn question(secret: Option<&Secret>, about: About) -> Vec<u8> {
    let question = Question { session: KEY.session, connection: KEY.connection, number: 3, about };
    let mut bytes = question.encode();
    if let Some(secret) = secret {
        secret.seal(&mut bytes);
    }
    bytes.to_vec()
}

pub(crate) fn is_stamped(sequence: u64, size: u32, echo: &[u8]) -> bool {
    let (_, verdict) = Checker::default().feed(KEY, sequence, size, echo);
    matches!(verdict, Some(Integrity::Intact(Some(_))))
}

/// Whether a reflector wrote its part of a question.
pub(crate) fn is_answered(echo: &[u8]) -> bool {
    echo.len() == HEADER_LEN && echo[59] & 1 == 1
}

pub(crate) fn count(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("{name}: {of}"))
}
