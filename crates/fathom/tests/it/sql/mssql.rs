//! `fathom sql mssql://` against `fathom echo --tds`: sizes of packets, encryption, the split of a query's time, errors and recordings.
use crate::support::database::{PASSWORD, begun, is, refused, result, says_the_same};
use crate::support::probe::assert_sound;
use crate::support::reflector::Echo;
use crate::support::{FATHOM, database, ended, signal, wait_for};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// For a server that does not encrypt.
const PLAIN: &str = "?sslmode=disable";

fn sql(server: SocketAddr, parameters: &str, arguments: &[&str]) -> Command {
    let url = format!("mssql://reader@{server}/sales{parameters}");
    database::sql(Command::new(FATHOM), "SQLCMDPASSWORD", &url, arguments)
}

fn ask(server: SocketAddr, arguments: &[&str]) -> Value {
    result(&sql(server, PLAIN, arguments).arg("--json").output().unwrap())
}

/// A relay between clients and a server that keeps what the server sends.
struct Tap {
    address: SocketAddr,
    passed: Arc<AtomicU64>,
    /// The first megabyte of each connection.
    kept: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Tap {
    const KEPT: usize = 1 << 20;

    fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (passed, kept) = (Arc::<AtomicU64>::default(), Arc::<Mutex<Vec<Vec<u8>>>>::default());
        let tap = Self { address, passed: Arc::clone(&passed), kept: Arc::clone(&kept) };
        thread::spawn(move || {
            for (nth, client) in listener.incoming().enumerate() {
                let (client, Ok(server)) = (client.unwrap(), TcpStream::connect(server)) else { return };
                let (there, back) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                kept.lock().unwrap().push(Vec::new());
                thread::spawn(move || pass(there, server, |_| {}));
                let (passed, kept) = (Arc::clone(&passed), Arc::clone(&kept));
                thread::spawn(move || {
                    pass(back, client, |bytes| {
                        passed.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                        let kept = &mut kept.lock().unwrap()[nth];
                        let room = Self::KEPT - kept.len().min(Self::KEPT);
                        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    });
                });
            }
        });
        tap
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut see: impl FnMut(&[u8])) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(n) = from.read(&mut bytes) {
        see(&bytes[..n]);
        if n == 0 || to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    _ = to.shutdown(std::net::Shutdown::Both);
    _ = from.shutdown(std::net::Shutdown::Both);
}

/// Lengths of a server's packets, message by message (MS-TDS 2.2.3).
fn messages(mut wire: &[u8]) -> Vec<Vec<usize>> {
    let (mut messages, mut message) = (Vec::new(), Vec::new());
    while wire.len() >= 8 {
        let length = usize::from(u16::from_be_bytes([wire[2], wire[3]]));
        message.push(length);
        if wire[1] & 1 == 1 {
            messages.push(std::mem::take(&mut message));
        }
        wire = &wire[length.min(wire.len())..];
    }
    assert!(message.is_empty() && wire.is_empty(), "whole messages");
    messages
}

#[test]
fn wire_packets_have_granted_size() {
    let (echo, server) = Echo::start_tds(&[]);
    for asked in ["512", "4096", "16384", "32767"] {
        let tap = Tap::start(server);
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("kept");
        let rows = ["--rows", "300", "--row-bytes", "500", "--count", "3", "--json"];
        let arguments = [&rows[..], &["--packet-size", asked, "--record"]].concat();
        let outcome = result(&sql(tap.address, PLAIN, &arguments).arg(&kept).output().unwrap());
        let granted: usize = asked.parse().unwrap();
        assert_eq!((&outcome["rows"], &outcome["queries"]), (&900.into(), &3.into()), "{outcome:#}");
        let tds = &outcome["tds"];
        assert_eq!((&tds["asked"], &tds["granted"]), (&granted.into(), &granted.into()), "{outcome:#}");
        // The session that asks got most. Before its queries come prelogin, login and its own number.
        let wires = tap.kept.lock().unwrap();
        let wire = wires.iter().max_by_key(|wire| wire.len()).unwrap();
        let messages = messages(wire);
        let replies = &messages[2..];
        let big: Vec<_> = replies.iter().filter(|reply| reply.iter().sum::<usize>() > 150_000).collect();
        assert_eq!(big.len(), 3, "{replies:?}");
        for reply in &big {
            let (last, full) = reply.split_last().unwrap();
            assert!(full.iter().all(|&length| length == granted) && *last <= granted, "{reply:?}");
        }
        let (packets, bytes) = (replies.concat().len(), replies.concat().iter().sum::<usize>());
        assert_eq!((&tds["packets"], &tds["bytes"]), (&packets.into(), &bytes.into()), "{tds:#}");
        assert_eq!((&tds["too_long"], &tds["not_full"]), (&0.into(), &0.into()), "{tds:#}");
        assert_sound(&kept);
        let manifest = std::fs::read_to_string(kept.join("recording.json")).unwrap();
        let manifest: Value = serde_json::from_str(&manifest).unwrap();
        let size = json!({ "asked": granted, "granted": granted });
        assert_eq!(manifest["probe"]["sql"]["packet_size"], size);
        assert_eq!(manifest["probe"]["sql"]["protocol"], "mssql");
    }
    drop(echo);
}

#[test]
fn encrypted_session_matches_plain_with_smaller_packets() {
    let (_echo, server) = Echo::start_tds(&["--tds-encrypt"]);
    for (mode, encrypted, granted) in
        [("", true, 16_383), ("?sslmode=require", true, 16_383), (PLAIN, false, 32_767)]
    {
        let tap = Tap::start(server);
        let arguments =
            ["--rows", "700", "--row-bytes", "300", "--count", "2", "--json", "--packet-size", "32767"];
        let outcome = result(&sql(tap.address, mode, &arguments).output().unwrap());
        assert_eq!(
            (&outcome["rows"], &outcome["encrypted"]),
            (&1_400.into(), &encrypted.into()),
            "{outcome:#}"
        );
        let tds = &outcome["tds"];
        let expected = [&32_767.into(), &Value::from(granted), &Value::from(granted), &0.into()];
        assert_eq!(
            [&tds["asked"], &tds["granted"], &tds["longest"], &tds["too_long"]],
            expected,
            "{outcome:#}"
        );
        let notes = outcome["notes"].to_string();
        assert_eq!(notes.contains("16383 bytes were granted, and 32767 asked for"), encrypted, "{notes}");
        // `fathom echo` refuses sslmode=login, so it is not advised.
        assert!(!notes.contains("sslmode=login"), "{notes}");
        assert_eq!(notes.contains("the password went over the path"), !encrypted, "{notes}");
        // The rows' text is on the wire, or is not.
        let shown = tap.kept.lock().unwrap().iter().any(|wire| wire.windows(8).any(|w| w == b"abcdefgh"));
        assert_eq!(shown, !encrypted, "{mode}");
    }
    let mode = "?sslmode=verify-full";
    let line = refused(&sql(server, mode, &[]).output().unwrap(), 1);
    assert!(
        line.contains("the TLS handshake failed: its certificate is signed by nobody who is trusted here"),
        "{line}"
    );
    assert!(line.contains("sslmode=require without a file checks no certificate"), "{line}");
}

#[test]
fn errors_are_one_line_with_advice() {
    let (echo, server) = Echo::start_tds(&[]);
    let line = |server, parameters: &str, arguments: &[&str]| {
        refused(&sql(server, parameters, arguments).output().unwrap(), 1)
    };
    for mode in ["", "?sslmode=require"] {
        let told = line(server, mode, &[]);
        assert!(told.contains("does not encrypt") && told.contains("?sslmode=disable"), "{told}");
    }
    let (_encrypts, encrypting) = Echo::start_tds(&["--tds-encrypt"]);
    for server in [server, encrypting] {
        let told = line(server, "?sslmode=login", &[]);
        assert!(
            told.contains("does not encrypt a login alone") && told.contains("?sslmode=require"),
            "{told}"
        );
    }
    let unknown = line(server, PLAIN, &["--query", "SELECT name FROM customers"]);
    assert!(unknown.contains("no database") && unknown.contains("(error 50000)"), "{unknown}");
    // Another protocol on the port: an echo of what was said.
    let other = line(echo.address(), "", &[]);
    assert!(other.contains("does not speak SQL Server's protocol"), "{other}");
}

#[test]
fn password_and_stdin_query_are_not_recorded() {
    let (_echo, server) = Echo::start_tds(&[]);
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    let url = format!("mssql://reader:{PASSWORD}@{server}/sales{PLAIN}");
    let mut command = Command::new(FATHOM);
    command.args(["sql", &url, "--query", "-", "--count", "2", "--json", "--record"]).arg(&kept);
    command.env_remove("SQLCMDPASSWORD").env("FATHOM_CLOUD", "off").stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT * FROM fathom_rows(5, 10)").unwrap();
    let out = ended(child);
    assert_eq!(result(&out)["rows"], 10);
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(told.contains("SQLCMDPASSWORD") && !told.contains(PASSWORD), "{told}");
    for file in std::fs::read_dir(&kept).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(PASSWORD) && !text.contains("fathom_rows"));
    }
    assert!(std::fs::read_to_string(kept.join("recording.json")).unwrap().contains("LEFT-OUT"));
    assert_sound(&kept);
}

/// The observer's session sees the server wait.
#[test]
fn server_sleep_is_attributed_to_server() {
    let (_echo, server) = Echo::start_tds(&[]);
    let thinks = ask(server, &["--count", "3", "--query", "SELECT * FROM fathom_rows(10, 10, '300ms')"]);
    is(&thinks, "server");
    // Sleeps may be longer than asked for.
    assert!(thinks["mean_ns"]["server"]["high"].as_f64() >= Some(300e6), "{thinks:#}");
    let waits: Vec<_> = thinks["server_waits"].as_object().unwrap().keys().collect();
    assert_eq!(waits, ["WAITFOR"], "{thinks:#}");
    has_all_parts_or_none(&thinks);
}

fn has_all_parts_or_none(outcome: &Value) {
    let parts = ["server_ns", "path_ns", "client_ns"].map(|part| &outcome[part]["count"]);
    assert!(parts.iter().all(|count| *count == parts[0]), "{outcome:#}");
}

/// The client works for longer than `--timeout`, which does not count it.
#[test]
fn client_work_is_attributed_to_client() {
    let (_echo, server) = Echo::start_tds(&[]);
    let works = ask(server, &["--count", "2", "--rows", "60", "--think", "5ms", "--timeout", "250ms"]);
    assert_eq!((&works["failed"], &works["rows"]), (&0.into(), &120.into()), "{works:#}");
    is(&works, "client");
    has_all_parts_or_none(&works);
    // More rows than the buffers hold: the server waits for the client, and the bounds contain the client's sleep.
    let works = ask(server, &["--count", "2", "--rows", "1200", "--row-bytes", "8000", "--think", "400us"]);
    assert!(works["looks"].as_u64() > Some(0), "{works:#}");
    assert!(!works["notes"].to_string().contains("are not known"), "{works:#}");
    let of = |part: &Value| part.as_f64().unwrap();
    let slept = 1_200.0 * 400e3 / of(&works["wall_ns"]["p50"]);
    assert!(of(&works["shares"]["client"]["high"]) >= slept, "{works:#}");
    assert!(of(&works["shares"]["server"]["low"]) <= 1.0 - slept, "{works:#}");
    assert!(of(&works["shares"]["path"]["low"]) <= 1.0 - slept, "{works:#}");
}

/// Queries of 200 ms are due each 10 ms for half a second.
#[test]
fn late_queries_are_noted() {
    let (_echo, server) = Echo::start_tds(&[]);
    let sleeps = ["--query", "SELECT * FROM fathom_rows(1, 1, '200ms')", "--every", "10ms", "--for", "500ms"];
    let late = ask(server, &sleeps);
    assert!(late["queries"].as_u64() <= Some(3), "{late:#}");
    let notes = late["notes"].as_array().unwrap().iter().filter_map(|note| note.as_str());
    let notes: Vec<_> = notes.filter(|note| note.contains("after they were due")).collect();
    assert!(matches!(&notes[..], [one] if !one.contains("latest 0ns")), "{late:#}");
}

#[test]
fn query_beyond_timeout_is_cancelled() {
    let (echo, server) = Echo::start_tds(&[]);
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    let sleeps = ["--query", "SELECT * FROM fathom_rows(10, 10, '60s')", "--timeout", "300ms", "--record"];
    let mut command = sql(server, PLAIN, &sleeps);
    command.arg(&kept);
    let out = ended(begun(command));
    let told = refused(&out, 1);
    assert!(told.contains("query 1 was given up") && told.contains("within 300ms; "), "{told}");
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(outcome["failures"], json!({ "timed out": 1 }), "{outcome:#}");
    assert_sound(&kept);
    says_the_same(&kept, &outcome);
    let served = echo.stop_tds();
    assert_eq!(served["stopped"], 1, "the server was told: {served:#}");
}

/// The server counts a slow client's time as the network's. The count stands beside the split, in the summary and in the recording.
#[test]
fn server_counts_stand_beside_split() {
    let (echo, server) = Echo::start_tds(&["--tds-send-buffer", "64KiB"]);
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    let arguments =
        ["--count", "2", "--rows", "1200", "--row-bytes", "8000", "--think", "400us", "--json", "--record"];
    let outcome = result(&sql(server, PLAIN, &arguments).arg(&kept).output().unwrap());
    says_the_same(&kept, &outcome);
    assert_sound(&kept);
    let waits = echo.stop_tds()["waits"].clone();
    let counted = &outcome["server_counted"];
    assert_eq!(counted["wait"], "ASYNC_NETWORK_IO", "{outcome:#}");
    assert_eq!(counted["waits"], waits["shown_count"], "{counted:#} {waits:#}");
    let (ns, really) = (counted["ns"].as_u64().unwrap(), waits["blocked_ns"].as_u64().unwrap());
    // The server tells whole milliseconds, and the last microseconds of a wait late.
    assert!((ns..ns + 2_000_000).contains(&really), "{counted:#} {waits:#}");
    // Two queries of half a second; the server counts the warm-up, too.
    assert!(ns > 0 && counted["queries"] == 2, "{counted:#}");
    assert!(counted["wall_ns"].as_u64() >= Some(2 * 1_200 * 400_000), "{counted:#}");
    assert!(counted["client_ns"]["high"].as_u64() > Some(0), "{counted:#}");
    let explained = Command::new(FATHOM).args(["recording", "explain"]).arg(&kept).output().unwrap();
    let told = String::from_utf8_lossy(&explained.stdout).replace('\n', " ");
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("the server itself counted "), "{told}");
    assert!(told.contains("its count does not tell the two apart"), "{told}");
}

/// The server has room for the measured session and the observer's, and not for a third.
#[test]
fn missing_server_counts_are_noted_once() {
    let (echo, server) = Echo::start_tds(&["--tds-sessions", "2"]);
    // Connections that are only set up would take room, too.
    let beside = echo.address().to_string();
    let arguments = ["--count", "3", "--rows", "5", "--json", "--reflector", &beside];
    let outcome = result(&sql(server, PLAIN, &arguments).output().unwrap());
    assert_eq!((&outcome["queries"], &outcome["failed"]), (&3.into(), &0.into()), "{outcome:#}");
    assert_eq!(outcome["server_counted"], Value::Null);
    let notes = outcome["notes"].as_array().unwrap();
    let uncounted: Vec<_> = notes.iter().filter(|note| note.to_string().contains("17809")).collect();
    assert_eq!(uncounted.len(), 1, "{notes:?}");
    assert!(uncounted[0].to_string().contains("the run goes on without it"), "{notes:?}");
}

/// Starts a query of ten gigabytes through a relay, and waits until a part of the answer came.
fn under_way(server: SocketAddr, kept: &str) -> (Tap, Child) {
    let tap = Tap::start(server);
    let endless = ["--query", "SELECT * FROM fathom_rows(100000000, 100)", "--record", kept];
    // Encrypted where the server can.
    let child = begun(sql(tap.address, "?sslmode=prefer", &endless));
    wait_for("rows", || (tap.passed.load(Ordering::Relaxed) > 10_000_000).then_some(()));
    (tap, child)
}

#[test]
fn ctrl_c_stops_query_and_prints_summary() {
    for encrypt in [&[][..], &["--tds-encrypt"]] {
        let (echo, server) = Echo::start_tds(encrypt);
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("kept");
        let (_tap, child) = under_way(server, kept.to_str().unwrap());
        signal(&child, "INT");
        let outcome = result(&ended(child));
        assert_eq!((&outcome["queries"], &outcome["cancelled"]), (&1.into(), &1.into()), "{outcome:#}");
        assert_eq!(outcome["failed"], 0, "{outcome:#}");
        let notes = outcome["notes"].to_string();
        assert!(notes.contains("query 1 was ended by you"), "{notes}");
        assert_sound(&kept);
        let served = echo.stop_tds();
        assert_eq!(served["stopped"], 1, "the server was told: {served:#}");
    }
}

#[test]
fn killed_server_leaves_recording_sound() {
    let (echo, server) = Echo::start_tds(&[]);
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    let (_tap, child) = under_way(server, kept.to_str().unwrap());
    echo.kill();
    let line = refused(&ended(child), 1);
    assert!(line.contains("query 1 has no whole answer"), "{line}");
    assert_sound(&kept);
    assert!(kept.join("queries-00000.parquet").is_file());
}

mod acceptance {
    use super::*;

    /// Runs where `FATHOM_MSSQL_URL` names a real SQL Server.
    #[test]
    fn real_sql_server_answers() {
        let Ok(url) = std::env::var("FATHOM_MSSQL_URL") else {
            eprintln!("SKIPPED: FATHOM_MSSQL_URL names no SQL Server");
            return;
        };
        for size in ["4096", "8192"] {
            let mut command = Command::new(FATHOM);
            command.args(["sql", &url, "--quiet", "--json", "--rows", "20000", "--row-bytes", "200"]);
            command.args(["--count", "3", "--packet-size", size]);
            let outcome = result(&command.output().unwrap());
            assert_eq!(outcome["rows"], 60_000, "{outcome:#}");
            assert_eq!(outcome["tds"]["granted"].to_string(), size, "{outcome:#}");
            assert_eq!((&outcome["tds"]["too_long"], &outcome["tds"]["not_full"]), (&0.into(), &0.into()));
        }
    }
}
