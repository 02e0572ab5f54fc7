//! `fathom probe --connect --tls`: TLS 1.3 handshakes as samples, with a real `openssl s_server` and with listeners
//! that are none.

use crate::support::probe::{Outcome, Probe, assert_sound, fathom};
use crate::support::rows::{Row, UNANSWERED, events, has_kind, of_kind, rows};
use crate::support::{Kept, free_port, must, needs, wait_for};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use tempfile::TempDir;

const COUNT: usize = 10;

/// A TLS server with a certificate of its own making for `db.test` and 127.0.0.1.
struct Server {
    _child: Kept,
    files: TempDir,
    address: SocketAddr,
}

impl Server {
    /// `None`: there is no openssl here.
    fn start(names: &str, options: &[&str]) -> Option<Self> {
        if !needs("openssl") {
            return None;
        }
        let files = home();
        let at = |name: &str| files.path().join(name).display().to_string();
        let (key, certificate) = (at("key.pem"), at("certificate.pem"));
        let make = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test";
        let mut words: Vec<&str> = make.split(' ').collect();
        let names = format!("subjectAltName={names}");
        words.extend(["-keyout", &key, "-out", &certificate, "-addext", &names]);
        // What signs itself is its own issuer, and no authority of others.
        words.extend(["-addext", "basicConstraints=critical,CA:FALSE"]);
        must("openssl", &words);
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let log = std::fs::File::create(files.path().join("log")).expect("a file");
        let mut command = Command::new("openssl");
        command.args(["s_server", "-accept", &address.to_string(), "-cert", &certificate, "-key", &key]);
        command.args(["-www", "-msg"]).args(options).stdin(Stdio::null()).stdout(log).stderr(Stdio::null());
        let child = Kept(command.spawn().expect("openssl starts"));
        let server = Self { _child: child, files, address };
        wait_for("openssl to listen", || server.log().contains("ACCEPT").then_some(()));
        Some(server)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.files.path().join("log")).expect("a log")
    }

    fn certificate(&self) -> PathBuf {
        self.files.path().join("certificate.pem")
    }
}

fn home() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

fn run(home: &Path, target: SocketAddr, options: &str) -> Outcome {
    let line = format!("{target} --connect --tls --quiet --json --record r --every 20ms {options}");
    Probe::start(home, &line).finish()
}

#[test]
fn connection_and_handshake_are_timed() {
    let Some(server) = Server::start("DNS:db.test,IP:127.0.0.1", &[]) else { return };
    let home = home();
    let ca = format!("--tls-ca {} --count {COUNT}", server.certificate().display());
    let summary = run(home.path(), server.address, &ca).summary();
    let counted = [
        &summary["samples"],
        &summary["answered"],
        &summary["tls_ns"]["count"],
        &summary["connect_ns"]["count"],
    ];
    assert_eq!(counted, [COUNT; 4], "{summary}");
    assert_eq!((&summary["mode"], &summary["size"]), (&"connect-tls".into(), &0.into()), "{summary}");
    let dir = home.path().join("r");
    assert_sound(&dir);
    let (rows, events) = (rows(&dir), events(&dir));
    let opened = of_kind(&events, "connection.opened");
    assert_eq!((rows.len(), opened.len()), (COUNT, COUNT));
    for row in &rows {
        let opened = opened.iter().find(|event| event["connection"] == row.at("connection")).expect("opened");
        let [connect, tls] = ["connect_ns", "tls_ns"].map(|name| opened[name].as_i64().expect("a time"));
        assert!(connect > 0 && tls > 0, "{opened}");
        assert_eq!(Some(connect + tls), row.rtt_ns(), "{opened}");
    }
    let closed = of_kind(&events, "connection.closed");
    assert!(closed.len() == COUNT && closed.iter().all(|event| event["cause"] == "finished"), "{closed:?}");
    // The summary's distributions are those of the rows and events, and the recording's summary is the run's.
    assert_eq!(summary["rtt_ns"]["max"].as_i64(), rows.iter().filter_map(Row::rtt_ns).max());
    let read = fathom(home.path(), &["recording", "summary", "r", "--json"]).summary();
    for field in ["mode", "rtt_ns", "connect_ns", "tls_ns"] {
        assert_eq!(read[field], summary[field], "{field}");
    }
    // No other tool's words for a connection mean a handshake too.
    let refused = fathom(home.path(), &["recording", "export", "r", "--format", "psping"]);
    assert!(refused.code() == 2 && refused.err.contains("TLS handshakes"), "{refused:?}");
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(dir.join("recording.json")).expect("a manifest"))
            .expect("JSON");
    assert_eq!(manifest["probe"]["tls"]["version"], "1.3", "{manifest}");
    // Each was a whole handshake, and ended as RFC 8446, section 6.1, has it: with a close_notify.
    let log = wait_for("the server's log", || {
        let log = server.log();
        (log.matches("close_notify").count() >= COUNT).then_some(log)
    });
    let received =
        |what: &str| log.lines().filter(|line| line.starts_with("<<<") && line.contains(what)).count();
    assert_eq!((received("ClientHello"), received("Finished")), (COUNT, COUNT), "{log}");
    assert_eq!(received("close_notify"), COUNT, "{log}");
    assert_eq!(received("ApplicationData"), 0, "{log}");
}

#[test]
fn text_shows_handshake_beside_connection() {
    let Some(server) = Server::start("IP:127.0.0.1", &[]) else { return };
    let line = format!(
        "{} --connect --tls --tls-insecure --every 20ms --count 5 --no-record --plain",
        server.address
    );
    let outcome = Probe::start(home().path(), &line).finish();
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    let heading = outcome.out.lines().find(|line| line.contains("latency")).expect("a table");
    assert_eq!(
        heading.split_whitespace().collect::<Vec<_>>()[1..],
        ["rtt", "latency", "connect", "tls"],
        "{heading}"
    );
    assert!(outcome.out.contains("end of the TLS handshake"), "{}", outcome.out);
    assert!(outcome.err.contains("a connection and its TLS handshake every 20ms"), "{}", outcome.err);
    assert!(!outcome.err.contains("closed after"), "{}", outcome.err);
}

#[test]
fn trust_is_set_by_options() {
    let Some(server) = Server::start("DNS:db.test", &[]) else { return };
    let ca = format!("--tls-ca {}", server.certificate().display());
    for (options, said) in [
        ("", "--tls-ca FILE"),
        (ca.as_str(), "--tls-name"),
        (&format!("{ca} --tls-name web.test"), "--tls-name"),
    ] {
        let home = home();
        let outcome = run(home.path(), server.address, &format!("--count 2 {options}"));
        assert_eq!(outcome.code(), 1, "{options}: {outcome:?}");
        assert!(
            outcome.err.contains("certificate") && outcome.err.contains(said),
            "{options}: {}",
            outcome.err
        );
        let dir = home.path().join("r");
        assert_sound(&dir);
        let rows = rows(&dir);
        assert!(rows.len() == 2 && rows.iter().all(|row| row.has(UNANSWERED)), "{options}");
        let log = events(&dir);
        assert_eq!(of_kind(&log, "connection.refused").len(), 2, "{log:?}");
        assert!(!has_kind(&log, "connection.opened"), "{log:?}");
    }
    for options in [format!("{ca} --tls-name db.test"), "--tls-insecure".to_owned()] {
        let summary = run(home().path(), server.address, &format!("--count 2 {options}")).summary();
        assert_eq!(summary["answered"], 2, "{options}: {summary}");
    }
}

#[test]
fn older_tls_is_reported() {
    let Some(server) = Server::start("IP:127.0.0.1", &["-tls1_2"]) else { return };
    let outcome = run(home().path(), server.address, "--count 1 --tls-insecure");
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    assert!(outcome.err.contains("does not speak TLS 1.3"), "{}", outcome.err);
}

/// A listener that says this on each connection, and then closes it or waits for the other end to do so.
fn listener(says: &'static [u8], closes: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.write_all(says);
            if closes {
                // What has come is read first: otherwise the end would be a RST.
                let _ = stream.read(&mut [0; 4_096]);
            } else {
                let _ = stream.read_to_end(&mut Vec::new());
            }
        }
    });
    address
}

#[test]
fn port_without_tls_is_reported() {
    for (address, options, said) in [
        (listener(b"SSH-2.0-somebody\r\n", false), "", "does not speak TLS"),
        (listener(b"", true), "", "closed the connection during the TLS handshake"),
        (listener(b"", false), "--give-up 100ms", "did not finish the TLS handshake"),
    ] {
        let home = home();
        let outcome = run(home.path(), address, &format!("--count 2 --tls-insecure --timeout 1s {options}"));
        assert_eq!(outcome.code(), 1, "{said}: {outcome:?}");
        assert!(outcome.err.contains(said), "{said}: {}", outcome.err);
        let refused = events(&home.path().join("r"));
        let refused = of_kind(&refused, "connection.refused");
        assert!(
            refused.len() == 2
                && refused.iter().all(|event| event["error"].as_str().is_some_and(|e| e.contains(said))),
            "{refused:?}"
        );
    }
}
