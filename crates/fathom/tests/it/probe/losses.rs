//! Reflectors and paths that go away: the cause that the probe reports, and what it does not give up too early.
//!
//! Each test has network namespaces of its own, so that all run side by side.

use crate::support::counting::{Counting, Leave};
use crate::support::net::{Direction, Net};
use crate::support::probe::{Probe, assert_sound, fathom, wait_for_events};
use crate::support::reflector::Echo;
use crate::support::rows::{
    ANSWERED_LATE, Events, FIRST_ON_CONNECTION, Row, UNANSWERED, ended_with_its_peer, events, has_kind,
    of_kind, rows, story,
};
use crate::support::{needs, needs_root};
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Errors of Linux (`errno.h`).
const ECONNRESET: i64 = 104;
const ETIMEDOUT: i64 = 110;
const ECONNREFUSED: i64 = 111;

/// A probe that sends ten samples a second through a path of its own, with some samples answered already.
struct Run {
    net: Net,
    echo: Echo,
    probe: Probe,
    home: TempDir,
    dir: PathBuf,
}

impl Run {
    fn start(arguments: &str) -> Option<Self> {
        if !needs_root() || !needs("nft") {
            return None;
        }
        let net = Net::new();
        let target = net.reflector_v4();
        let echo = Echo::start_on(&net.reflector, target);
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path().join("r");
        let arguments = format!("{target} --every 100ms --record r --json {arguments}");
        let probe = Probe::start_on(&net.probe, home.path(), &arguments);
        wait_for_events(&dir, "connection", |events| has_kind(events, "connection.opened"));
        crate::support::wait_for("samples", || {
            let export = fathom(&dir, &["recording", "export", "."]);
            (export.out.lines().count() > 5).then_some(())
        });
        Some(Self { net, echo, probe, home, dir })
    }

    fn wait_for(&self, what: &str, holds: impl FnMut(&Events) -> bool) {
        wait_for_events(&self.dir, what, holds);
    }

    /// Ends the probe in order; the summary, the events and the samples, of which each is answered or not in agreement
    /// with its flags.
    fn end(self) -> (Value, Events, Vec<Row>) {
        self.probe.signal("TERM");
        let outcome = self.probe.finish();
        let summary = outcome.summary();
        assert_sound(&self.dir);
        let (events, rows) = (events(&self.dir), rows(&self.dir));
        assert!(rows.iter().all(|row| row.has(UNANSWERED) == row.rtt_ns().is_none()));
        assert!(rows.iter().all(|row| row.has(FIRST_ON_CONNECTION) == (row.at("seq") == 0)));
        drop((self.net, self.echo, self.home));
        (summary, events, rows)
    }
}

fn number(event: &Value, name: &str) -> i64 {
    event[name].as_i64().unwrap_or_else(|| panic!("{name}: {event}"))
}

/// A silence that a connection survived: its samples, and the stall that was recorded.
struct Silence {
    rows: Vec<Row>,
    stall: Value,
    longest_ns: i64,
}

/// Packets vanish in one direction, at least until the stall is recorded and for this long. `late_ns` is the probe's
/// `--timeout`.
fn silence(length: Duration, direction: Direction, options: &str, late_ns: i64) -> Option<Silence> {
    let run = Run::start(options)?;
    // A shorter one before would be this machine's.
    let before = of_kind(&events(&run.dir), "stall.ended").len();
    run.net.drop_packets(direction);
    let began = Instant::now();
    run.wait_for("stall", |events| of_kind(events, "stall.began").len() > before);
    // The first sample of the silence is due up to an interval after it began.
    thread::sleep((length + Duration::from_millis(150)).saturating_sub(began.elapsed()));
    let silent_ns = began.elapsed().as_nanos() as i64;
    run.net.restore();
    run.wait_for("end of the stall", |events| of_kind(events, "stall.ended").len() > before);
    let (summary, events, rows) = run.end();

    let connections: Vec<&str> =
        story(&events).into_iter().filter(|kind| kind.starts_with("connection.")).collect();
    assert_eq!(
        connections,
        ["connection.opening", "connection.opened", "connection.closed"],
        "the connection survives"
    );
    assert_eq!(of_kind(&events, "connection.closed")[0]["cause"], "finished");
    assert!(
        rows.iter().all(|row| row.at("connection") == 0 && row.rtt_ns().is_some()),
        "an echo was given up"
    );
    assert_eq!((&summary["unanswered"], &summary["answered"]), (&0.into(), &rows.len().into()), "{summary}");
    let back = |row: &Row| row.at("sent_ns") + row.at("rtt_ns");
    assert!(rows.windows(2).all(|pair| back(&pair[0]) <= back(&pair[1])), "echoes out of order");

    // Counted from when it was due, the first sample of the silence waited for all of it.
    let waited =
        rows.iter().filter_map(|row| Some(row.rtt_ns()? + row.at("lateness_ns"))).max().expect("samples");
    assert!(waited >= silent_ns - 150_000_000, "{waited} ns is shorter than the silence of {silent_ns} ns");
    let late = rows.iter().filter(|row| row.has(ANSWERED_LATE)).count();
    assert!(rows.iter().all(|row| row.has(ANSWERED_LATE) == (row.rtt_ns() > Some(late_ns))));
    assert_eq!(summary["late"], late, "{summary}");

    let first = rows.iter().max_by_key(|row| row.rtt_ns()).expect("samples");
    let stalls = of_kind(&events, "stall.ended");
    assert!(stalls.iter().all(|stall| stall["recovered"] == true), "{stalls:?}");
    let at = (0..stalls.len()).max_by_key(|&at| number(stalls[at], "duration_ns")).expect("a stall");
    assert_eq!(number(of_kind(&events, "stall.began")[at], "seq"), first.at("seq"), "{}", stalls[at]);
    assert!(number(stalls[at], "retransmits") > 0, "the kernel sent again: {}", stalls[at]);
    let longest_ns = first.at("rtt_ns");
    Some(Silence { stall: stalls[at].clone(), longest_ns, rows })
}

/// The silence is longer than `--stall-after`, and so than `--timeout`.
fn short_silence(direction: Direction) {
    let options = "--stall-after 500ms --timeout 300ms";
    let Some(silence) = silence(Duration::ZERO, direction, options, 300_000_000) else { return };
    assert!(silence.rows.iter().any(|row| row.has(ANSWERED_LATE)), "{}", silence.stall);
}

#[test]
fn outbound_silence_is_survived_stall() {
    short_silence(Direction::ToReflector);
}

#[test]
fn inbound_silence_is_survived_stall() {
    short_silence(Direction::FromReflector);
}

/// Silence for good: the connection ends as the arguments say, and the next attempts fail.
fn silence_for_good(arguments: &str, cause: &str, errno: Option<i64>) {
    let Some(run) = Run::start(&format!("{arguments} --stall-after 500ms")) else { return };
    run.net.drop_packets(Direction::ToReflector);
    run.wait_for("end of the connection", |events| has_kind(events, "connection.closed"));
    run.wait_for("another attempt", |events| of_kind(events, "connection.opening").len() >= 2);
    run.net.restore();
    run.wait_for("a new connection", |events| of_kind(events, "connection.opened").len() >= 2);
    let (summary, events, rows) = run.end();

    let connections: Vec<&str> =
        story(&events).into_iter().filter(|kind| kind.starts_with("connection.")).collect();
    let began = ["connection.opening", "connection.opened", "connection.closed", "connection.opening"];
    assert_eq!(connections[..4], began);
    let closed = of_kind(&events, "connection.closed");
    assert_eq!((&closed[0]["cause"], closed[0]["errno"].as_i64()), (&cause.into(), errno), "{}", closed[0]);
    assert_eq!(closed[1]["cause"], "finished", "{}", closed[1]);
    let lost = |stall: &&&Value| stall["recovered"] == false && stall["connection"] == 0;
    assert_eq!(of_kind(&events, "stall.ended").iter().filter(lost).count(), 1, "{events:#?}");
    // Every sample that was out is in the evidence and in the samples, and was out at least as long as was agreed.
    let evidence = &closed[0]["evidence"];
    let lost: Vec<&Row> = rows.iter().filter(|row| row.has(UNANSWERED)).collect();
    assert!(lost.iter().all(|row| row.at("connection") == 0), "the new connection works");
    assert_eq!(number(evidence, "outstanding"), lost.len() as i64, "{evidence}");
    assert_eq!(
        number(evidence, "sent"),
        number(evidence, "answered") + number(evidence, "outstanding"),
        "{evidence}"
    );
    assert_eq!(number(evidence, "last_answered_seq") + 1, lost[0].at("seq"), "{evidence}");
    assert!(number(evidence, "silent_ns") >= 1_000_000_000, "{evidence}");
    assert!(evidence["error"].is_string() && number(&evidence["tcp"], "backoff") > 0, "{evidence}");
    assert_eq!(summary["unanswered"], lost.len(), "{summary}");
    assert_eq!(summary["connections"][0]["cause"], cause, "{summary}");
    assert_eq!(summary["connections"][0]["errno"].as_i64(), errno, "{summary}");
}

#[test]
fn give_up_ends_permanently_silent_connection() {
    silence_for_good("--give-up 1s", "abandoned", None);
}

#[test]
fn user_timeout_ends_permanently_silent_connection() {
    silence_for_good("--user-timeout 1s", "timed_out", Some(ETIMEDOUT));
}

#[test]
fn permanent_silence_ends_run_without_reconnecting() {
    let Some(run) = Run::start("--give-up 1s --no-reconnect") else { return };
    run.net.drop_packets(Direction::FromReflector);
    let outcome = run.probe.finish();
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    assert!(
        outcome.err.lines().last().is_some_and(|line| line.contains("--no-reconnect")),
        "{}",
        outcome.err
    );
    assert_eq!(outcome.objects()[0]["connections"][0]["cause"], "abandoned");
    assert_sound(&run.dir);
}

#[test]
fn firewall_reset_is_a_reset() {
    let Some(run) = Run::start("") else { return };
    run.net.reset_connections();
    run.wait_for("end of the connection", |events| has_kind(events, "connection.closed"));
    run.wait_for("a refusal", |events| has_kind(events, "connection.refused"));
    run.net.restore();
    run.wait_for("a new connection", |events| of_kind(events, "connection.opened").len() == 2);
    crate::support::wait_for("a sample on it", || {
        let csv = fathom(&run.dir, &["recording", "export", "."]).out;
        crate::support::rows::parse(&csv).iter().any(|row| row.at("connection") == 1).then_some(())
    });
    let (summary, events, rows) = run.end();
    let closed = of_kind(&events, "connection.closed")[0];
    assert_eq!((&closed["cause"], number(closed, "errno")), (&"reset".into(), ECONNRESET), "{closed}");
    assert_eq!(number(of_kind(&events, "connection.refused")[0], "errno"), ECONNREFUSED);
    assert_eq!(summary["connections"][0]["cause"], "reset", "{summary}");
    let connections: Vec<i64> = rows.iter().map(|row| row.at("connection")).collect();
    assert!(
        connections.is_sorted() && connections.last() == Some(&1),
        "samples go on, on the new connection"
    );
}

#[test]
fn killed_reflector_ends_its_connections() {
    let Some(mut run) = Run::start("") else { return };
    let address = run.echo.address();
    // Its kernel ends what it leaves.
    let second = |net: &Net| Echo::start_on(&net.reflector, address);
    run.echo = {
        run.echo.kill();
        wait_for_events(&run.dir, "a refusal", |events| has_kind(events, "connection.refused"));
        second(&run.net)
    };
    run.wait_for("a new connection", |events| of_kind(events, "connection.opened").len() == 2);
    let (summary, events, _) = run.end();
    let closed = of_kind(&events, "connection.closed")[0];
    let cause = ended_with_its_peer(closed);
    assert_eq!(number(of_kind(&events, "connection.refused")[0], "errno"), ECONNREFUSED);
    let causes: Vec<&Value> =
        summary["connections"].as_array().expect("a list").iter().map(|c| &c["cause"]).collect();
    assert_eq!(causes, [cause, "finished"]);
}

#[test]
fn close_cause_matches_fin_or_reset() {
    for (leave, cause, errno) in
        [(Leave::ByFin(6), "peer_closed", None), (Leave::ByReset(6), "reset", Some(ECONNRESET))]
    {
        let reflector = Counting::start(64, leave);
        let home = tempfile::tempdir().expect("a directory");
        let arguments =
            format!("{} --every 50ms --record r --json --quiet --no-reconnect", reflector.address);
        let outcome = Probe::start(home.path(), &arguments).finish();
        assert_eq!(outcome.code(), 1, "{outcome:?}");
        assert_eq!(reflector.arrivals().len(), 6);
        let log = events(&home.path().join("r"));
        let closed = of_kind(&log, "connection.closed")[0];
        assert_eq!((&closed["cause"], closed["errno"].as_i64()), (&cause.into(), errno), "{closed}");
        // A RST overtakes echoes that were not read yet; before a FIN all are read.
        let answered = number(&closed["evidence"], "answered");
        assert!(answered <= 6 && (answered == 6 || cause == "reset"), "{closed}");
        assert_eq!(
            rows(&home.path().join("r")).iter().filter(|row| row.rtt_ns().is_some()).count() as i64,
            answered
        );
    }
}

#[test]
fn lost_datagrams_are_unanswered_and_schedule_continues() {
    if !needs_root() || !needs("nft") {
        return;
    }
    let net = Net::new();
    // IPv6 here, so that both families are seen over a real link.
    let target = net.reflector_v6();
    let _echo = Echo::start_on(&net.reflector, target);
    let home = tempfile::tempdir().expect("a directory");
    let arguments =
        format!("{target} --udp --every 50ms --timeout 1s --stall-after 500ms --record r --json --quiet");
    let probe = Probe::start_on(&net.probe, home.path(), &arguments);
    let dir = home.path().join("r");
    crate::support::wait_for("samples", || {
        let export = fathom(home.path(), &["recording", "export", "r"]);
        (export.out.lines().count() > 3).then_some(())
    });
    // Finding its neighbour may have taken a fresh link long enough to be a stall of its own.
    let before = of_kind(&events(&dir), "stall.ended").len();
    net.drop_packets(Direction::FromReflector);
    wait_for_events(&dir, "stall", |events| of_kind(events, "stall.began").len() > before);
    net.restore();
    wait_for_events(&dir, "end of the stall", |events| of_kind(events, "stall.ended").len() > before);
    probe.signal("INT");
    let summary = probe.finish().summary();
    assert_sound(&dir);
    let rows = rows(&dir);
    let lost = rows.iter().filter(|row| row.has(UNANSWERED)).count();
    assert!(lost > 0 && summary["unanswered"] == lost, "{summary}");
    assert_eq!(summary["connections"].as_array().map(Vec::len), Some(1), "{summary}");
    let answered_after = rows.iter().filter(|row| row.rtt_ns().is_some()).map(|row| row.at("seq")).max();
    let last_lost = rows.iter().filter(|row| row.has(UNANSWERED)).map(|row| row.at("seq")).max();
    assert!(answered_after > last_lost, "nothing was answered after the path came back");
}

#[test]
fn moved_name_is_followed() {
    // The hosts file of the probe alone: in a mount namespace of its own a file of ours lies over the machine's.
    if !needs_root() || !crate::support::needs_ipv6() {
        return;
    }
    let port = crate::support::free_port();
    let here = crate::support::net::Host::this();
    let [first, second] =
        ["127.0.0.1", "::1"].map(|ip| SocketAddr::new(ip.parse().expect("an address"), port));
    let going = Echo::start_on(&here, first);
    let home = tempfile::tempdir().expect("a directory");
    let (dir, hosts) = (home.path().join("r"), home.path().join("hosts"));
    let lead_to = |ip: IpAddr| std::fs::write(&hosts, format!("{ip} moves.test\n")).expect("a hosts file");
    lead_to(first.ip());
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "sh",
        "-c",
        "mount --bind hosts /etc/hosts && exec \"$@\"",
        "sh",
        crate::support::FATHOM,
    ]);
    command.args(format!("probe moves.test:{port} --every 50ms --record r --json --quiet").split(' '));
    let probe = Probe::spawn(command.current_dir(home.path()));
    wait_for_events(&dir, "connection", |events| has_kind(events, "connection.opened"));
    lead_to(second.ip());
    going.kill();
    let _coming = Echo::start_on(&here, second);
    wait_for_events(&dir, "a new connection", |events| of_kind(events, "connection.opened").len() == 2);
    probe.signal("TERM");
    probe.finish().summary();
    let log = events(&dir);
    let opened = of_kind(&log, "connection.opened");
    let remotes = [first, second].map(|address| address.to_string());
    assert_eq!(opened.iter().map(|event| &event["remote"]).collect::<Vec<_>>(), remotes.each_ref());
    let changed = of_kind(&log, "address.changed")[0];
    let addresses = [first, second].map(|address| address.ip().to_string());
    assert_eq!([&changed["from"], &changed["to"]], addresses.each_ref());
}

/// Silences of a given length. Their figures depend on this machine's timers.
mod acceptance {
    use super::*;
    use crate::support::rate::assert_rate;

    const S: i64 = 1_000_000_000;

    /// A silence of so many seconds, and the stall that the kernel's retransmissions make of it.
    fn whole(length_s: u32, direction: Direction) {
        let length = Duration::from_secs(length_s.into());
        let length_ns = i64::from(length_s) * S;
        let Some(silence) = silence(length, direction, "", 5 * S) else { return };
        let (stall, longest_ns) = (&silence.stall, silence.longest_ns);
        // The kernel's next retransmission comes after as much again at the most.
        assert!(longest_ns < 3 * length_ns, "{longest_ns} ns for a silence of {length:?}");
        let stalled: Vec<&Row> = silence.rows.iter().filter(|row| row.rtt_ns() >= Some(S)).collect();
        let due = (length_ns - S) / 100_000_000;
        assert!(stalled.len() as i64 > due / 2, "{} samples in the silence, {due} were due", stalled.len());
        // Sent one after another and answered together: each later one waited less.
        assert!(stalled.windows(2).all(|pair| pair[0].rtt_ns() > pair[1].rtt_ns()), "late echoes apart");
        assert!((number(stall, "duration_ns") - longest_ns).abs() < length_ns / 2, "{stall}: {longest_ns}");
        assert!(number(stall, "samples") >= stalled.len() as i64, "{stall}");
    }

    #[test]
    fn silence_length_is_measured() {
        assert_rate(2, 3, || {
            thread::scope(|all| {
                for (length_s, direction) in
                    [(3, Direction::ToReflector), (3, Direction::FromReflector), (20, Direction::ToReflector)]
                {
                    all.spawn(move || whole(length_s, direction));
                }
            });
        });
    }
}
