//! Faults that a test makes on the path between a probe and its reflector, and what the probe recorded of them.
//!
//! Each fault has a network of its own, so that many run side by side. Nothing is asserted about how long this machine
//! takes; where a test sleeps, the length of the fault is what it tries.

use super::claims::checked_story;
use super::net::{Host, Net};
use super::probe::{Probe, assert_sound, fathom, wait_for_events};
use super::rows::{Events, Row, ended_with_its_peer, events, has_kind, of_kind, rows};
use super::{Kept, must, needs, needs_root};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{ChildStdout, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Connection refused, on Linux (`errno.h`).
pub(crate) const ECONNREFUSED: i64 = 111;

/// Whether faults can be made here; says so where they cannot.
pub(crate) fn can_make_faults() -> bool {
    needs_root() && needs("nft") && needs("conntrack")
}

/// A fault by its name, and what makes it, looks at what was recorded, and panics where that is not right.
pub(crate) type Fault = (&'static str, fn());

/// Makes all faults side by side, each once, or `FATHOM_REPEAT` times one after another; panics with the tally where
/// one of them was not recorded as it should be.
pub(crate) fn make_all(faults: &[Fault]) {
    if !can_make_faults() {
        return;
    }
    let times: u32 =
        std::env::var("FATHOM_REPEAT").map_or(1, |n| n.parse().expect("FATHOM_REPEAT is a number"));
    let tally = thread::scope(|scope| {
        let begun: Vec<_> = faults
            .iter()
            .map(|&(name, make)| {
                // A panic has said what was wrong, under the name of its thread.
                let round = move || std::panic::catch_unwind(make).is_ok();
                let rounds = move || (0..times).filter(|_| round()).count() as u32;
                let thread = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, rounds);
                (name, thread.expect("a thread"))
            })
            .collect();
        let joined =
            begun.into_iter().map(|(name, thread)| (name, thread.join().expect("it catches panics")));
        joined.collect::<Vec<_>>()
    });
    for (name, right) in &tally {
        println!("RATE {right} of {times} (bound {times}) {name}");
    }
    let wrong: Vec<_> = tally.iter().filter(|(_, right)| *right < times).collect();
    assert!(wrong.is_empty(), "recorded wrongly (fault, times right of {times}): {wrong:?}");
}

/// Runs a command on a host to its end, which must be a success.
pub(crate) fn on(host: &Host, line: &str) {
    let mut words = line.split_whitespace();
    let program = words.next().expect("a program");
    let out = host.command(program).args(words).output().unwrap_or_else(|e| panic!("{line}: {e}"));
    assert!(out.status.success(), "{line}: {}: {}", out.status, String::from_utf8_lossy(&out.stderr));
}

/// A namespace between two others that forwards, and may look at what it forwards.
#[derive(Debug)]
pub(crate) struct Router(String);

impl Router {
    /// Runs a command on it.
    pub(crate) fn on(&self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        must("ip", &[&["netns", "exec", &self.0], &words[..]].concat());
    }

    /// Adds a rule for what it forwards.
    pub(crate) fn rule(&self, rule: &str) {
        self.on("nft add table ip fathom");
        self.on("nft add chain ip fathom forward { type filter hook forward priority 0; }");
        self.on(&format!("nft add rule ip fathom forward {rule}"));
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // Where its making failed half-way there may be nothing to remove.
        let _ = std::process::Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

/// A probe's host and a reflector's host, with a cable or a router between them.
pub(crate) struct Site {
    pub(crate) net: Net,
    router: Option<Router>,
    /// Where the reflector is to listen.
    pub(crate) target: SocketAddr,
}

impl Site {
    /// Two hosts and a cable.
    pub(crate) fn cable() -> Self {
        let net = Net::new();
        let target = net.reflector_v4();
        Self { net, router: None, target }
    }

    /// The same, over IPv6.
    pub(crate) fn cable_v6() -> Self {
        let site = Self::cable();
        Self { target: site.net.reflector_v6(), ..site }
    }

    /// Two hosts and a router between them, over IPv6.
    pub(crate) fn routed_v6() -> Self {
        let site = Self::routed();
        let router = site.router();
        router.on("sysctl -q -w net.ipv6.conf.all.forwarding=1");
        for (host, port, network) in [(&site.net.probe, "left", 1), (&site.net.reflector, "right", 2)] {
            // Without duplicate address detection the addresses can be used at once.
            on(host, &format!("ip address add fd78:{network}::1/64 dev cable nodad"));
            router.on(&format!("ip address add fd78:{network}::fe/64 dev {port} nodad"));
            on(host, &format!("ip -6 route add default via fd78:{network}::fe"));
        }
        Self { target: "[fd78:2::1]:7007".parse().expect("an address"), ..site }
    }

    /// Two hosts and a router between them.
    pub(crate) fn routed() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let net = Net::new();
        let name = format!("fathom-{}-{}-m", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        must("ip", &["netns", "add", &name]);
        let router = Router(name);
        on(&net.probe, "ip link del cable");
        for (host, port, network) in [(&net.probe, "left", 1), (&net.reflector, "right", 2)] {
            on(host, &format!("ip link add cable type veth peer name {port} netns {}", router.0));
            on(host, &format!("ip address add 10.78.{network}.1/24 dev cable"));
            on(host, "ip link set cable up");
            router.on(&format!("ip address add 10.78.{network}.254/24 dev {port}"));
            router.on(&format!("ip link set {port} up"));
            on(host, &format!("ip route add default via 10.78.{network}.254"));
        }
        router.on("sysctl -q -w net.ipv4.ip_forward=1");
        Self { net, router: Some(router), target: "10.78.2.1:7007".parse().expect("an address") }
    }

    pub(crate) fn router(&self) -> &Router {
        self.router.as_ref().expect("a routed site")
    }

    /// A router that keeps track of flows, and drops what belongs to none that it has seen begin.
    pub(crate) fn firewalled() -> Self {
        let site = Self::routed();
        // The rule loads connection tracking for this namespace, and with it the setting.
        site.router().rule("ct state invalid drop");
        site.router().on("sysctl -q -w net.netfilter.nf_conntrack_tcp_loose=0");
        site
    }
}

/// From now on packets that match vanish, or what else the rule says, where they arrive at this host.
pub(crate) fn rule(host: &Host, rule: &str) {
    on(host, "nft add table ip fathom");
    on(host, "nft add chain ip fathom input { type filter hook input priority 0; }");
    on(host, &format!("nft add rule ip fathom input {rule}"));
}

/// Packets arrive again.
pub(crate) fn restore(host: &Host) {
    on(host, "nft flush ruleset");
}

/// `fathom echo` on a host.
pub(crate) struct Reflector {
    child: Kept,
    _out: BufReader<ChildStdout>,
}

impl Reflector {
    pub(crate) fn start(host: &Host, address: SocketAddr) -> Self {
        Self::start_with(host, address, "")
    }

    /// With further arguments, separated by blanks.
    pub(crate) fn start_with(host: &Host, address: SocketAddr, arguments: &str) -> Self {
        let mut command = host.fathom();
        command.args(["echo", "--json", "--listen", &address.to_string()]).args(arguments.split_whitespace());
        let mut said = tempfile::tempfile().expect("a file");
        let stderr = said.try_clone().expect("a second handle");
        let child = command.stdout(Stdio::piped()).stderr(stderr).spawn();
        let mut child = child.unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("text");
        if !line.contains("listening") {
            let mut why = String::new();
            said.rewind().and_then(|()| said.read_to_string(&mut why)).expect("text");
            panic!("{command:?}: {line:?}: {why}");
        }
        Self { child: Kept(child), _out: out }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Kills it: its kernel ends its connections.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

/// A probe that sends samples to its reflector, some of which have been answered.
pub(crate) struct Run {
    pub(crate) site: Site,
    pub(crate) reflector: Option<Reflector>,
    probe: Probe,
    home: TempDir,
    dir: PathBuf,
    /// Port of the probe's end of the first connection.
    pub(crate) port: u16,
}

impl Run {
    /// Ten samples a second, or what the arguments say.
    pub(crate) fn start(site: Site, arguments: &str) -> Self {
        let reflector = Some(Reflector::start(&site.net.reflector, site.target));
        Self::start_against(site, reflector, arguments)
    }

    /// As [`Run::start`], against another reflector where `reflector` is none.
    pub(crate) fn start_against(site: Site, reflector: Option<Reflector>, arguments: &str) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path().join("r");
        let pace = if arguments.contains("--every") || arguments.contains("--ping-pong") {
            ""
        } else {
            "--every 100ms"
        };
        let arguments = format!("{} {pace} --record r --json --quiet {arguments}", site.target);
        let probe = Probe::start_on(&site.net.probe, home.path(), &arguments);
        let opened = wait_for_events(&dir, "connection", |events| has_kind(events, "connection.opened"));
        let local =
            of_kind(&opened, "connection.opened")[0]["local"].as_str().expect("an address").to_owned();
        let local: SocketAddr = local.parse().expect("an address");
        let run = Self { site, reflector, probe, home, dir, port: local.port() };
        let enough = if arguments.contains("--every 100ms") { 12 } else { 1 };
        run.wait_for_samples(enough);
        run
    }

    fn wait_for_samples(&self, enough: usize) {
        let deadline = Instant::now() + super::PATIENCE;
        loop {
            let export = fathom(&self.dir, &["recording", "export", "."]);
            if export.out.lines().count() > enough {
                return;
            }
            assert!(Instant::now() < deadline, "no {enough} samples came back: {}", export.err);
            // The recording is flushed once a second.
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits until so many samples of a connection have been answered, or given up.
    pub(crate) fn wait_for_samples_on(&self, connection: u32, enough: usize) {
        super::wait_for("samples of a connection", || {
            // The recording is flushed once a second.
            let found =
                rows(&self.dir).iter().filter(|row| row.at("connection") == i64::from(connection)).count();
            (found >= enough).then_some(())
        });
    }

    pub(crate) fn wait_for(&self, what: &str, holds: impl FnMut(&Events) -> bool) -> Events {
        wait_for_events(&self.dir, what, holds)
    }

    /// Waits until the end of the first connection is explained.
    pub(crate) fn wait_for_closing(&self) -> Events {
        self.wait_for("the explanation of an end", |events| {
            explanations(events, "closing").iter().any(|event| event["connection"] == 0)
        })
    }

    /// Waits until the end of the first connection is explained by what the reflector said of it.
    pub(crate) fn wait_for_word(&self) -> Events {
        self.wait_for("the reflector's word", |events| {
            let said = |event: &&Value| event["connection"] == 0 && event["reflector"].is_object();
            explanations(events, "closing").iter().any(said)
        })
    }

    /// Sends the probe a signal.
    pub(crate) fn probe_pid(&self) -> u32 {
        self.probe.pid()
    }

    /// Ends the probe in order; what it recorded.
    pub(crate) fn end(self) -> (Events, Vec<Row>) {
        self.probe.signal("TERM");
        let outcome = self.probe.finish();
        assert_sound(&self.dir);
        let recorded = (events(&self.dir), rows(&self.dir));
        if !ends_unanswered(&recorded.0) {
            assert_eq!(outcome.code(), i32::from(lost_for_good(&recorded.0)), "{}", outcome.err);
        }
        checked_story(&self.dir, &recorded.0);
        drop((self.reflector, self.site, self.home));
        recorded
    }
}

/// Whether the last connection was lost, and attempts to come back led to none: one that was established and lost
/// without an answer brought nothing back, so that what was tried is all since the loss of one that had answered.
pub(crate) fn lost_for_good(events: &[Value]) -> bool {
    let closed = |event: &Value| event["kind"] == "connection.closed";
    let answered = |event: &Value| event["evidence"]["answered"].as_u64() > Some(0);
    let Some(last) = events.iter().rposition(closed) else {
        return false;
    };
    let proved = events.iter().rposition(|event| closed(event) && answered(event));
    let Some(began) = proved.or_else(|| events.iter().position(closed)) else {
        return false;
    };
    let tried = events[began..].iter().any(|event| event["kind"] == "connection.opening");
    events[last]["cause"] != "finished" && tried
}

/// Whether nothing was answered on the last connection, which we closed: had it been silent for long enough to be a stall,
/// what it was to end goes on; else it was too young to tell.
fn ends_unanswered(events: &[Value]) -> bool {
    let last = of_kind(events, "connection.closed").last().copied();
    last.is_some_and(|closed| closed["cause"] == "finished" && closed["evidence"]["answered"] == 0)
}

/// The explanations of stalls or of closings.
pub(crate) fn explanations<'a>(events: &'a [Value], about: &str) -> Vec<&'a Value> {
    of_kind(events, "connection.explained").into_iter().filter(|event| event["about"] == about).collect()
}

/// What was recorded of the end of the first connection must be this; the explanation that counts, which is the last.
pub(crate) fn assert_closed<'a>(events: &'a [Value], cause: &str, verdict: &str, fresh: &str) -> &'a Value {
    let first = |event: &&Value| event["connection"] == 0;
    let closed: Vec<_> = of_kind(events, "connection.closed").into_iter().filter(first).collect();
    let explained: Vec<_> = explanations(events, "closing").into_iter().filter(first).collect();
    // The second comes when the reflector could be asked only later.
    assert!(closed.len() == 1 && (1..=2).contains(&explained.len()), "{closed:?} {explained:?}");
    let last = explained[explained.len() - 1];
    let recorded = [&closed[0]["cause"], &last["verdict"], &last["fresh"]];
    assert_eq!(recorded, [cause, verdict, fresh], "{} {last}", closed[0]);
    assert!(last["because"].as_array().is_some_and(|facts| !facts.is_empty()), "{last}");
    if last.get("reflector").is_none() {
        assert!(last.get("direction").is_none(), "nothing came back that could tell: {last}");
    }
    last
}

/// What the reflector said of the connection, and the direction that follows from it, must be this.
pub(crate) fn assert_said(explained: &Value, standing: &str, direction: &str) {
    let said = [&explained["reflector"]["standing"], &explained["direction"]];
    assert_eq!(said, [standing, direction], "{explained}");
}

/// The explanation of the one stall of at least this length, which the first connection must have survived. (Shorter
/// ones are this machine's.)
pub(crate) fn long_stall(events: &[Value], length: Duration) -> &Value {
    let long = |event: &Value| event["duration_ns"].as_u64() >= Some(length.as_nanos() as u64);
    let at = events.iter().position(|event| event["kind"] == "stall.ended" && long(event));
    let at = at.unwrap_or_else(|| panic!("no stall of {length:?}: {events:#?}"));
    assert_eq!(events[at]["recovered"], true, "{}", events[at]);
    assert_eq!(events[at]["connection"], 0, "{}", events[at]);
    let explained = explanations(&events[at..], "stall");
    explained.first().unwrap_or_else(|| panic!("a stall without its explanation: {events:#?}"))
}

/// A server on this loopback address that closes its first connection in order and serves the others.
pub(crate) fn fin(loopback: &str) {
    let listener = TcpListener::bind((loopback, 0)).expect("loopback");
    let target = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for (nth, stream) in listener.incoming().enumerate() {
            let mut stream = stream.expect("accepted");
            thread::spawn(move || {
                let (mut buffer, mut left) = ([0; 4096], if nth == 0 { 20 * 64 } else { usize::MAX });
                while left > 0
                    && let Ok(n @ 1..) = stream.read(&mut buffer)
                    && stream.write_all(&buffer[..n]).is_ok()
                {
                    left = left.saturating_sub(n);
                }
            });
        }
    });
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("r");
    let probe = Probe::start(home.path(), &format!("{target} --every 50ms --record r --json --quiet"));
    wait_for_events(&dir, "an explanation", |events| has_kind(events, "connection.explained"));
    wait_for_events(&dir, "a new connection", |events| of_kind(events, "connection.opened").len() == 2);
    probe.signal("TERM");
    probe.finish().summary();
    assert_closed(&events(&dir), "peer_closed", "unknown", "echoed");
}

/// The reflector's process ends.
pub(crate) fn reflector_exits(site: Site) {
    let mut run = Run::start(site, "");
    run.reflector.take().expect("it runs").kill();
    run.wait_for_closing();
    let (events, _) = run.end();
    let cause = ended_with_its_peer(of_kind(&events, "connection.closed")[0]);
    assert_closed(&events, cause, "peer_down", "refused");
}
