//! `fathom sql mssql://` against `fathom echo --tds`: sizes of packets as asked, granted and seen on the wire, with and without TLS;
//! what it says where something is wrong, and what it keeps.
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use crate::support::probe::assert_sound;
use crate::support::reflector::Echo;
use crate::support::{FATHOM, wait_for};

const PASSWORD: &str = "s3cret-w0rd";
/// For a server that does not encrypt.
const PLAIN: &str = "?sslmode=disable";

fn sql(server: SocketAddr, parameters: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(FATHOM);
    command
        .args(["sql", &format!("mssql://reader@{server}/sales{parameters}"), "--quiet"])
        .args(arguments)
        .env("SQLCMDPASSWORD", PASSWORD)
        .env("FATHOM_CLOUD", "off")
        .stdin(Stdio::null());
    command
}

fn result(out: &Output) -> Value {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// One line on standard error.
fn refused(out: &Output, code: i32) -> String {
    let line = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!((out.status.code(), line.lines().count()), (Some(code), 1), "{line}");
    line
}

/// Passes bytes between clients and a server, and keeps what the server sends.
struct Tap {
    address: SocketAddr,
    passed: Arc<AtomicU64>,
    /// Of each connection the first megabyte.
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
        let arguments = [
            "--rows",
            "300",
            "--row-bytes",
            "500",
            "--count",
            "3",
            "--json",
            "--packet-size",
            asked,
            "--record",
        ];
        let outcome = result(&sql(tap.address, PLAIN, &arguments).arg(&kept).output().unwrap());
        let granted: usize = asked.parse().unwrap();
        assert_eq!((&outcome["rows"], &outcome["queries"]), (&900.into(), &3.into()), "{outcome:#}");
        let tds = &outcome["tds"];
        assert_eq!((&tds["asked"], &tds["granted"]), (&granted.into(), &granted.into()), "{outcome:#}");
        // The session that asks is the one that was sent most; after prelogin, login and its own number, its queries.
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
        let size = serde_json::json!({ "asked": granted, "granted": granted });
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
        // `fathom echo` would refuse what was advised.
        assert!(!notes.contains("sslmode=login"), "{notes}");
        assert_eq!(notes.contains("the password went over the path"), !encrypted, "{notes}");
        // What the rows are made of is on the wire, or is not.
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
fn what_is_wrong_is_one_line() {
    let (echo, server) = Echo::start_tds(&[]);
    let line = |parameters: &str, arguments: &[&str], code| {
        refused(&sql(server, parameters, arguments).output().unwrap(), code)
    };
    for mode in ["", "?sslmode=require"] {
        let told = line(mode, &[], 1);
        assert!(told.contains("does not encrypt") && told.contains("?sslmode=disable"), "{told}");
    }
    // With --tds-encrypt it was told that it does not encrypt, and to use --tds-encrypt.
    let (_encrypts, encrypting) = Echo::start_tds(&["--tds-encrypt"]);
    for server in [server, encrypting] {
        let told = refused(&sql(server, "?sslmode=login", &[]).output().unwrap(), 1);
        assert!(
            told.contains("does not encrypt a login alone") && told.contains("?sslmode=require"),
            "{told}"
        );
    }
    let unknown = line(PLAIN, &["--query", "SELECT name FROM customers"], 1);
    assert!(unknown.contains("no database") && unknown.contains("(error 50000)"), "{unknown}");
    assert!(line("", &["--fetch-size", "10"], 2).contains("--fetch-size"));
    let small = sql(server, "", &["--packet-size", "511"]).output().unwrap();
    assert!(String::from_utf8_lossy(&small.stderr).contains("511 is not in 512..=32767"));
    assert!(line("?sslmode=maybe", &[], 2).contains("sslmode"));
    let postgres =
        Command::new(FATHOM).args(["sql", "postgres://me@127.0.0.1:1/d", "--packet-size", "512"]).output();
    assert!(refused(&postgres.unwrap(), 2).contains("mssql://"));
    // Another protocol on the port: an echo of what was said.
    let other = refused(&sql(echo.address(), "", &[]).output().unwrap(), 1);
    assert!(other.contains("does not speak SQL Server's protocol"), "{other}");
}

#[test]
fn no_secret_is_kept_or_shown() {
    let (_echo, server) = Echo::start_tds(&[]);
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    let url = format!("mssql://reader:{PASSWORD}@{server}/sales{PLAIN}");
    let mut command = Command::new(FATHOM);
    command.args(["sql", &url, "--rows", "5", "--count", "2", "--json", "--record"]).arg(&kept);
    let out = command.env_remove("SQLCMDPASSWORD").output().unwrap();
    result(&out);
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(told.contains("SQLCMDPASSWORD") && !told.contains(PASSWORD), "{told}");
    for file in std::fs::read_dir(&kept).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(PASSWORD));
    }
    assert!(std::fs::read_to_string(kept.join("recording.json")).unwrap().contains("LEFT-OUT"));
    assert_sound(&kept);
}

#[test]
fn server_thinking_and_client_work_are_distinguished() {
    let (_echo, server) = Echo::start_tds(&[]);
    let ask = |arguments: &[&str]| result(&sql(server, PLAIN, arguments).arg("--json").output().unwrap());
    let thinks = ask(&["--count", "3", "--query", "SELECT * FROM fathom_rows(10, 10, '800ms')"]);
    let is = |party: &str| serde_json::json!({ "party": party, "confidence": "high" });
    assert_eq!(thinks["verdict"], is("server"), "{thinks:#}");
    // At the most its part is all that was waited for, and that is no less than it thinks.
    assert!(thinks["mean_ns"]["server"]["high"].as_f64() >= Some(800e6), "{thinks:#}");
    let works = ask(&["--count", "3", "--rows", "100", "--think", "2ms"]);
    assert_eq!(works["verdict"], is("client"), "{works:#}");
    for outcome in [thinks, works] {
        let parts = ["server_ns", "path_ns", "client_ns"].map(|part| outcome[part]["count"].clone());
        assert!(parts.iter().all(|count| *count == parts[0]), "all or none: {outcome:#}");
    }
}

/// What the server says of itself on the second session is looked at, and whatever it says the bounds hold what was put in.
#[test]
fn a_server_says_what_it_does() {
    let (_echo, server) = Echo::start_tds(&[]);
    let ask = |arguments: &[&str]| result(&sql(server, PLAIN, arguments).arg("--json").output().unwrap());
    let thinks = ask(&["--count", "3", "--query", "SELECT * FROM fathom_rows(10, 10, '300ms')"]);
    assert_eq!(
        thinks["verdict"],
        serde_json::json!({ "party": "server", "confidence": "high" }),
        "{thinks:#}"
    );
    assert_eq!(thinks["server_waits"], serde_json::json!({ "WAITFOR": 2 }), "{thinks:#}");
    // More than all buffers hold: while this side works the server is blocked, on and off.
    let works = ask(&["--count", "2", "--rows", "3000", "--row-bytes", "8000", "--think", "400us"]);
    assert!(works["looks"].as_u64() > Some(0), "{works:#}");
    assert!(!works["notes"].to_string().contains("are not known"), "{works:#}");
    let of = |part: &Value| part.as_f64().unwrap();
    let slept = 3_000.0 * 400e3 / of(&works["wall_ns"]["p50"]);
    assert!(of(&works["shares"]["client"]["high"]) >= slept, "{works:#}");
    assert!(of(&works["shares"]["server"]["low"]) <= 1.0 - slept, "{works:#}");
    assert!(of(&works["shares"]["path"]["low"]) <= 1.0 - slept, "{works:#}");
}

/// A client that works on rows that no buffer holds: what the server counts of that, it counts as the network's. It stands beside the
/// split, in the summary, in the recording, and to the millisecond as the server tells it at its end.
#[test]
fn what_the_server_counts_stands_beside_the_split() {
    let (echo, server) = Echo::start_tds(&["--tds-send-buffer", "64KiB"]);
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    let arguments =
        ["--count", "3", "--rows", "1200", "--row-bytes", "8000", "--think", "400us", "--json", "--record"];
    let outcome = result(&sql(server, PLAIN, &arguments).arg(&kept).output().unwrap());
    crate::support::database::says_the_same(&kept, &outcome);
    assert_sound(&kept);
    let waits = echo.stop_tds()["waits"].clone();
    let counted = &outcome["server_counted"];
    assert_eq!(counted["wait"], "ASYNC_NETWORK_IO", "{outcome:#}");
    assert_eq!(counted["waits"], waits["shown_count"], "{counted:#} {waits:#}");
    let (ns, really) = (counted["ns"].as_u64().unwrap(), waits["blocked_ns"].as_u64().unwrap());
    // It is told in whole ms, and of a wait that has just ended perhaps without its last µs.
    assert!((ns..ns + 2_000_000).contains(&really), "{counted:#} {waits:#}");
    // Three queries of half a second, of which one finds nothing warm: the server counts it too.
    assert!(ns > 0 && counted["queries"] == 3, "{counted:#}");
    assert!(counted["wall_ns"].as_u64() >= Some(3 * 1_200 * 400_000), "{counted:#}");
    assert!(counted["client_ns"]["high"].as_u64() > Some(0), "{counted:#}");
    let explained = Command::new(FATHOM).args(["recording", "explain"]).arg(&kept).output().unwrap();
    let told = String::from_utf8_lossy(&explained.stdout).replace('\n', " ");
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("the server itself counted "), "{told}");
    assert!(told.contains("its count does not tell the two apart"), "{told}");
}

/// There is room for the session that is measured, and for one that looks: none for a third.
#[test]
fn missing_server_counts_are_noted_once() {
    let (echo, server) = Echo::start_tds(&["--tds-sessions", "2"]);
    // A connection that is set up to the server's port takes one of them, too.
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

/// Begins a query of ten gigabytes through a tap, and waits until a part of it came.
fn under_way(server: SocketAddr, arguments: &[&str]) -> (Tap, std::process::Child) {
    let tap = Tap::start(server);
    let endless = ["--query", "SELECT * FROM fathom_rows(100000000, 100)"];
    // Encrypted where the server can.
    let mut command = sql(tap.address, "?sslmode=prefer", &endless);
    let child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("rows", || (tap.passed.load(Ordering::Relaxed) > 10_000_000).then_some(()));
    (tap, child)
}

#[test]
fn ctrl_c_stops_query_and_prints_summary() {
    for encrypt in [&[][..], &["--tds-encrypt"]] {
        let (echo, server) = Echo::start_tds(encrypt);
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("kept");
        let (_tap, child) = under_way(server, &["--json", "--record", kept.to_str().unwrap()]);
        crate::support::signal(&child, "INT");
        let outcome = result(&crate::support::ended(child));
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
    let (_tap, child) = under_way(server, &["--record", kept.to_str().unwrap()]);
    echo.kill();
    let line = refused(&crate::support::ended(child), 1);
    assert!(line.contains("query 1 has no whole answer"), "{line}");
    assert_sound(&kept);
    assert!(kept.join("queries-00000.parquet").is_file());
}

/// A real SQL Server was not run here: where there is one, its URL says so.
#[test]
fn a_real_server_answers() {
    let Ok(url) = std::env::var("FATHOM_MSSQL_URL") else {
        eprintln!("SKIPPED: FATHOM_MSSQL_URL names no SQL Server");
        return;
    };
    for size in ["4096", "8192"] {
        let mut command = Command::new(FATHOM);
        command.args([
            "sql",
            &url,
            "--quiet",
            "--json",
            "--rows",
            "20000",
            "--row-bytes",
            "200",
            "--count",
            "3",
        ]);
        let outcome = result(&command.args(["--packet-size", size]).output().unwrap());
        assert_eq!(outcome["rows"], 60_000, "{outcome:#}");
        assert_eq!(outcome["tds"]["granted"].to_string(), size, "{outcome:#}");
        assert_eq!((&outcome["tds"]["too_long"], &outcome["tds"]["not_full"]), (&0.into(), &0.into()));
    }
}
