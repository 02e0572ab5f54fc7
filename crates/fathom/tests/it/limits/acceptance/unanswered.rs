//! `fathom limits` against peers whose kernel acknowledges while the application does not answer. A server that stopped
//! reading is no limit of the path. A relay that drops requests is one where the reflector says that they never came, and
//! so is a firewall that drops answers where the reflector says that it sends them again. Flows that a firewall drops are
//! in `limits/idle.rs`.

use crate::support::faults::{Reflector, Site};
use crate::support::net::Host;
use crate::support::probe::{Outcome, Probe, fathom};
use crate::support::{FATHOM, free_port, needs, needs_root};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// A connection is answered for so long.
const LIMIT: Duration = Duration::from_secs(2);

/// Serves each connection on a thread of its own.
fn serve(one: impl Fn(TcpStream) + Send + Sync + Copy + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            stream.set_nodelay(true).expect("it can be set");
            thread::spawn(move || one(stream));
        }
    });
    address
}

/// What comes within `patience`; `None`: nothing came. Empty: the other end closed it.
fn next(stream: &mut TcpStream, patience: Duration) -> Option<Vec<u8>> {
    stream.set_read_timeout(Some(patience)).expect("it can be set");
    let mut bytes = [0; 4_096];
    match stream.read(&mut bytes) {
        Ok(n) => Some(bytes[..n].to_vec()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
        Err(_) => Some(Vec::new()),
    }
}

/// Keeps the connection open, and reads no more from it.
fn stays(stream: TcpStream) {
    std::mem::forget(stream);
}

/// Echoes until nothing came for a while, and reads no more then.
fn stops_when_idle(mut stream: TcpStream) {
    loop {
        match next(&mut stream, LIMIT) {
            None => return stays(stream),
            Some(bytes) if bytes.is_empty() => return,
            Some(bytes) => _ = stream.write_all(&bytes),
        }
    }
}

/// Echoes for a while, whatever comes, and reads no more then.
fn stops_at_an_age(mut stream: TcpStream) {
    let began = Instant::now();
    while let Some(left) = LIMIT.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
        match next(&mut stream, left) {
            Some(bytes) if bytes.is_empty() => return,
            Some(bytes) => _ = stream.write_all(&bytes),
            None => {}
        }
    }
    stays(stream);
}

fn search(target: SocketAddr, arguments: &str) -> Outcome {
    let mut command = Command::new(FATHOM);
    command.args(["limits", &target.to_string(), "--json"]).args(arguments.split_whitespace());
    Probe::spawn(&mut command).finish()
}

fn result(outcome: &Outcome) -> Value {
    let mut all = outcome.objects();
    assert_eq!(all.len(), 1, "{outcome:?}");
    all.remove(0)
}

/// The first of three searches whose servers here looked in time.
fn clear(again: impl Fn() -> Outcome) -> Outcome {
    let mut outcomes = std::iter::repeat_with(again).take(3);
    let clear = outcomes.find(|outcome| !is_blurred(outcome));
    clear.expect("the servers of three searches looked late at some of their connections")
}

/// The servers of a busy machine look late at some of their connections, so that these have another limit.
fn is_blurred(outcome: &Outcome) -> bool {
    let blurred = outcome.err.contains("that is neither one limit nor none");
    assert!(!blurred || result(outcome).get("died").is_none(), "{outcome:?}");
    blurred
}

/// Asserts that no limit is claimed, with the reason, the beginning and the way.
fn assert_no_limit_of_the_path(outcome: &Outcome) {
    let found = result(outcome);
    assert_eq!((outcome.code(), &found["verdict"]), (1, &json!("unclear")), "{found:#}");
    assert!(found.get("died").is_none(), "{found:#}");
    assert!(found["dies_from_ns"].as_u64() >= Some(LIMIT.as_nanos() as u64), "{found:#}");
    assert_eq!(found["by"], "unknown", "{found:#}");
    assert_eq!(found["how"].as_object().expect("how").keys().collect::<Vec<_>>(), ["not_answered"]);
    assert!(
        outcome
            .err
            .contains("were acknowledged and not answered: the path carries them to whoever acknowledges"),
        "{outcome:?}"
    );
}

#[test]
fn server_not_reading_leaves_idle_limit_unclear() {
    let home = tempfile::tempdir().expect("a directory");
    let record = home.path().join("r");
    let outcome = clear(|| {
        let _ = std::fs::remove_dir_all(&record);
        search(serve(stops_when_idle), &format!("--up-to 4s --record {}", record.display()))
    });
    assert_no_limit_of_the_path(&outcome);
    let survived = result(&outcome)["survived"]["idle_ns"].as_u64();
    assert!(survived >= Some(500_000_000) && survived <= Some(LIMIT.as_nanos() as u64), "{outcome:?}");
    // Its recording says the same, and no setting is held against it.
    let story = fathom(home.path(), &["recording", "explain", "r"]);
    assert!(
        story.out.contains("the application there, or a proxy before it that lost it: nobody tells"),
        "{story:?}"
    );
    assert_eq!(fathom(home.path(), &["recording", "verify", "r"]).code(), 0);
    std::fs::write(home.path().join("s.conf"), "net.ipv4.tcp_keepalive_time = 60\n").expect("a file");
    let check = fathom(home.path(), &["limits", "check", "--record", "r", "s.conf"]);
    assert!(check.code() == 2 && check.err.contains("whether that is a limit nobody tells"), "{check:?}");
}

#[test]
fn server_not_reading_leaves_age_limit_unclear() {
    let outcome = clear(|| search(serve(stops_at_an_age), "--age --up-to 6s --connections 16"));
    assert_no_limit_of_the_path(&outcome);
}

/// Passes on what comes until nothing came for a while, then takes it and passes nothing on: as a proxy whose way to the server
/// was forgotten.
fn relay(mut here: TcpStream, server: SocketAddr) {
    let Ok(mut there) = TcpStream::connect(server) else { return };
    there.set_nodelay(true).expect("it can be set");
    let (mut from, mut to) = (there.try_clone().expect("a socket"), here.try_clone().expect("a socket"));
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    while let Some(bytes) = next(&mut here, LIMIT) {
        if bytes.is_empty() || there.write_all(&bytes).is_err() {
            let _ = there.shutdown(Shutdown::Both);
            return;
        }
    }
    while next(&mut here, Duration::from_mins(1)).is_some_and(|bytes| !bytes.is_empty()) {}
}

#[test]
fn relay_dropping_requests_is_a_limit() {
    let server = SocketAddr::new([127, 0, 0, 1].into(), free_port());
    let _reflector = Reflector::start(&Host::this(), server);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            stream.set_nodelay(true).expect("it can be set");
            thread::spawn(move || relay(stream, server));
        }
    });
    let outcome = clear(|| search(target, "--up-to 4s"));
    let found = result(&outcome);
    assert_eq!((outcome.code(), &found["verdict"]), (0, &json!("found")), "{found:#}");
    assert_eq!(
        (&found["by"], found["how"].get("not_answered").is_some()),
        (&json!("between"), true),
        "{found:#}"
    );
    let end = |name: &str| found[name]["idle_ns"].as_u64().unwrap_or_else(|| panic!("no {name}: {found:#}"));
    let limit_ns = LIMIT.as_nanos() as u64;
    assert!(end("survived") <= limit_ns + 500_000_000 && limit_ns <= end("died"), "{found:#}");
}

/// A firewall that knows a connection for two seconds from the last answer's data, and takes data of the server's that it does not
/// know; requests pass, and acknowledgements without data, which are up to 80 bytes long.
#[test]
fn firewall_dropping_answers_is_a_limit() {
    if !(needs_root() && needs("nft")) {
        return;
    }
    let site = Site::routed();
    let (port, router) = (site.target.port(), site.router());
    router.on("nft add table ip fathom");
    router.on("nft add set ip fathom known { type inet_service; flags dynamic,timeout; timeout 2s; }");
    router.rule(&format!("tcp dport {port} tcp flags & (syn|ack) == syn add @known {{ tcp sport }}"));
    router.rule(&format!("tcp sport {port} ip length > 100 tcp dport != @known drop"));
    router.rule(&format!("tcp sport {port} ip length > 100 update @known {{ tcp dport }}"));
    let _reflector = Reflector::start(&site.net.reflector, site.target);
    let home = tempfile::tempdir().expect("a directory");
    let mut command = site.net.probe.fathom();
    command
        .args(["limits", &site.target.to_string(), "--json", "--up-to", "4s", "--record"])
        .arg(home.path().join("r"));
    let outcome = Probe::spawn(&mut command).finish();
    let found = result(&outcome);
    assert_eq!(
        (outcome.code(), &found["verdict"], &found["by"]),
        (0, &json!("found"), &json!("between")),
        "{found:#}"
    );
    assert!(found["how"].get("not_answered").is_some(), "{found:#}");
    let end = |name: &str| found[name]["idle_ns"].as_u64().unwrap_or_else(|| panic!("no {name}: {found:#}"));
    let limit_ns = LIMIT.as_nanos() as u64;
    assert!(end("survived") <= limit_ns && limit_ns <= end("died"), "{found:#}");
    let story = fathom(home.path(), &["recording", "explain", "r"]);
    assert!(story.out.contains("or its answer did not come back"), "{story:?}");
}
