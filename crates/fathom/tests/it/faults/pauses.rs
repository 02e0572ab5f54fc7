//! Hosts that stand still, by SIGSTOP: told from faults of the network, on both ends, and with their true length, every
//! time (`FATHOM_REPEAT=10` makes each ten times).

use crate::support::faults::{Fault, Run, Site, explanations, long_stall, make_all};
use crate::support::probe::waited_ns;
use crate::support::rate::assert_rate;
use crate::support::rows::{Events, Row, has_kind, number, of_kind};
use crate::support::{all_stand, must, wait_for};
use fathom_os::clock::mono_ns;
use serde_json::Value;
use std::thread;
use std::time::Duration;

/// What a recorded length may be wrong by, from the figures that were to be reached.
const ACCURACY_NS: u64 = 10_000_000;
/// The flags of a sample that was under way while its own host, or the reflector's, did not run (`schema/recording.md`).
const OVERLAPS_LOCAL_PAUSE: i64 = 16;
const OVERLAPS_REMOTE_PAUSE: i64 = 32;

const FAULTS: &[Fault] = &[
    ("reflector stopped for 2 s", reflector_stopped),
    ("probe stopped for 2 s", probe_stopped),
    ("probe stopped for 2 s in ping-pong", probe_stopped_in_ping_pong),
    ("reflector stopped for 50 to 400 ms", reflector_stopped_briefly),
    ("probe stopped for 50 to 400 ms", probe_stopped_briefly),
    ("both stopped, one after the other", both_stopped),
    ("probe stopped as its run ends", probe_stopped_at_the_end),
];

/// When a process was stopped and went on, by the monotonic clock: between the first two and between the last two.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "every name ends with its unit")]
struct Stopped {
    unsignalled_ns: u64,
    standing_ns: u64,
    going_on_ns: u64,
    /// How long the kernel had let the process wait for a processor when the signal reached it: it stood still before it
    /// was stopped, and whoever says so is right.
    starved_ns: u64,
}

/// Stops a process for so long.
fn stop(pid: u32, length: Duration) -> Stopped {
    let signal = |name: &str| must("kill", &[name, &pid.to_string()]);
    let waited = waited_ns(pid);
    let unsignalled_ns = mono_ns();
    signal("-STOP");
    wait_for("all its threads to stand", || all_stand(pid).then_some(()));
    let standing_ns = mono_ns();
    let grew = |(tid, ns): (&String, &u64)| ns - waited.get(tid).copied().unwrap_or_default();
    let starved_ns = waited_ns(pid).iter().map(grew).max().unwrap_or_default();
    // The length of the pause is what is tried here.
    thread::sleep(length);
    let going_on_ns = mono_ns();
    signal("-CONT");
    Stopped { unsignalled_ns, standing_ns, going_on_ns, starved_ns }
}

fn pauses<'a>(events: &'a Events, host: &str) -> Vec<&'a Value> {
    of_kind(events, "pause").into_iter().filter(|event| event["host"] == host).collect()
}

/// By how much a value is below (negative) or above what is known of the truth; 0 within it.
fn outside(value: u64, least: u64, most: u64) -> i64 {
    value.cast_signed() - value.clamp(least, most).cast_signed()
}

/// The local pause that this stop was. Its end is when the probe ran again, which the event's stamp tells; its
/// beginning must be the signal's.
fn local_pause<'a>(events: &'a Events, stop: &Stopped) -> &'a Value {
    let covers = |event: &&Value| {
        let ended = number(event, "mono_ns");
        ended >= stop.going_on_ns && ended - number(event, "duration_ns") <= stop.going_on_ns
    };
    let all = pauses(events, "local");
    let pause = all.iter().copied().find(covers).unwrap_or_else(|| panic!("{stop:?} is not in {all:?}"));
    let began = number(pause, "mono_ns") - number(pause, "duration_ns");
    let error_ns = outside(began, stop.unsignalled_ns, stop.standing_ns);
    eprintln!("error of a local pause: {} us", error_ns / 1_000);
    assert!(
        error_ns.unsigned_abs() <= ACCURACY_NS + stop.starved_ns,
        "{pause} began at {began}, and was {stop:?}"
    );
    pause
}

/// The remote pause that this stop was: the first told after it. The reflector ran again when its echo came, or before.
fn remote_pause<'a>(events: &'a Events, stop: &Stopped) -> &'a Value {
    let all = pauses(events, "remote");
    let pause = all.iter().copied().find(|event| number(event, "mono_ns") >= stop.going_on_ns);
    let pause = pause.unwrap_or_else(|| panic!("{stop:?} is not in {all:?}"));
    let (shortest, longest) =
        (stop.going_on_ns - stop.standing_ns, number(pause, "mono_ns") - stop.unsignalled_ns);
    let error_ns = outside(number(pause, "duration_ns"), shortest, longest);
    eprintln!("error of a remote pause: {} us", error_ns / 1_000);
    assert!(
        error_ns.unsigned_abs() <= ACCURACY_NS + stop.starved_ns,
        "{pause} was between {shortest} and {longest}: {stop:?}"
    );
    pause
}

fn blames_the_network(events: &Events) -> bool {
    let all = explanations(events, "stall").into_iter().chain(explanations(events, "closing"));
    all.map(|event| event["verdict"].as_str().expect("a verdict"))
        .any(|verdict| ["path_down", "flow_forgotten", "idle_expired", "peer_down"].contains(&verdict))
}

fn wait_for_pause(run: &Run, host: &str, stop: &Stopped) {
    let after = |event: &&Value| number(event, "mono_ns") >= stop.going_on_ns;
    run.wait_for("a pause", |events| pauses(events, host).iter().any(after));
}

fn reflector_stopped() {
    let run = Run::start(Site::cable(), "");
    let pid = run.reflector.as_ref().expect("it runs").pid();
    let stop = stop(pid, Duration::from_secs(2));
    run.wait_for("the end of the stall", |events| has_kind(events, "connection.explained"));
    wait_for_pause(&run, "remote", &stop);
    let (events, rows) = run.end();
    let explained = long_stall(&events, Duration::from_millis(1_800));
    assert_eq!(explained["verdict"], "peer_paused", "{explained}");
    remote_pause(&events, &stop);
    assert!(!blames_the_network(&events), "{events:#?}");
    let waited: Vec<&Row> = rows.iter().filter(|row| row.rtt_ns() > Some(1_900_000_000)).collect();
    assert!(!waited.is_empty() && waited.iter().all(|row| row.has(OVERLAPS_REMOTE_PAUSE)), "{waited:?}");
}

/// Whatever else is seen, the network is not blamed, and what waited for the pause says so.
fn assert_local(events: &Events, rows: &[Row], stop: &Stopped) {
    let pause = local_pause(events, stop);
    assert_eq!(pause["reason"], "stopped", "{pause}");
    assert!(!blames_the_network(events), "{events:#?}");
    let unflagged = |row: &&Row| row.rtt_ns() > Some(1_000_000_000) && !row.has(OVERLAPS_LOCAL_PAUSE);
    assert_eq!(rows.iter().find(unflagged), None, "it waited for the pause");
    assert_eq!(of_kind(events, "connection.closed").len(), 1, "the connection survives");
}

fn probe_stopped() {
    let run = Run::start(Site::cable(), "");
    let stop = stop(run.probe_pid(), Duration::from_secs(2));
    wait_for_pause(&run, "local", &stop);
    let (events, rows) = run.end();
    assert_local(&events, &rows, &stop);
    // What could not be sent is counted, with its reason.
    let overrun = of_kind(&events, "schedule.overrun");
    assert!(
        overrun.iter().any(|event| event["reason"] == "late" && number(event, "skipped") >= 10),
        "{overrun:?}"
    );
}

/// Back to back a sample is under way but from the arrival of an echo to the sending that follows it. Both are stamped by the probe, and
/// a signal may reach it between the two: then it stood still for so long while nothing was under way, and no round trip has
/// that time in it.
fn stood_between_two(rows: &[Row], length_ns: i64) -> bool {
    let between = |pair: &[Row]| {
        let arrived = pair[0].rtt_ns().map(|rtt| pair[0].at("sent_ns") + rtt);
        arrived.is_some_and(|arrived| pair[1].at("sent_ns") - arrived > length_ns)
    };
    rows.windows(2).any(between)
}

fn probe_stopped_in_ping_pong() {
    let run = Run::start(Site::cable(), "--ping-pong --allow-high-rate");
    let stop = stop(run.probe_pid(), Duration::from_secs(2));
    wait_for_pause(&run, "local", &stop);
    let (events, rows) = run.end();
    assert_local(&events, &rows, &stop);
    let flagged =
        rows.iter().filter(|row| row.has(OVERLAPS_LOCAL_PAUSE) && row.rtt_ns() > Some(1_900_000_000));
    let under_way = usize::from(!stood_between_two(&rows, 1_900_000_000));
    assert_eq!(flagged.count(), under_way, "the one that was under way");
}

/// Lengths from the least that is always to be told.
const BRIEF_MS: [u64; 5] = [50, 60, 110, 230, 400];

fn reflector_stopped_briefly() {
    let run = Run::start(Site::cable(), "--every 20ms");
    let pid = run.reflector.as_ref().expect("it runs").pid();
    let mut stops = Vec::new();
    for ms in BRIEF_MS {
        stops.push(stop(pid, Duration::from_millis(ms)));
        wait_for_pause(&run, "remote", &stops[stops.len() - 1]);
    }
    let (events, _) = run.end();
    for stop in &stops {
        remote_pause(&events, stop);
    }
    assert!(!blames_the_network(&events), "{events:#?}");
}

fn probe_stopped_briefly() {
    let run = Run::start(Site::cable(), "--every 20ms");
    let mut stops = Vec::new();
    for ms in BRIEF_MS {
        stops.push(stop(run.probe_pid(), Duration::from_millis(ms)));
        wait_for_pause(&run, "local", &stops[stops.len() - 1]);
    }
    let (events, _) = run.end();
    for stop in &stops {
        local_pause(&events, stop);
    }
    assert!(!blames_the_network(&events), "{events:#?}");
}

/// What was told of delays: hosts did not run. That the story says nothing else is checked with every story.
fn assert_no_queue(events: &Events) {
    for event in of_kind(events, "delay.ended") {
        let paused = event["verdict"] == "local_paused" || event["verdict"] == "peer_paused";
        assert!(paused && event.get("direction").is_none(), "{event} {:?}", of_kind(events, "pause"));
    }
}

/// Told as a queue of 3 s on the way there and 1 s on the way back, with high confidence.
fn both_stopped() {
    let run = Run::start(Site::cable(), "--every 1s --stall-after 1500ms");
    let reflector = run.reflector.as_ref().expect("it runs").pid();
    let (second, probe) = (Duration::from_secs(1), run.probe_pid());
    let stopped = thread::scope(|scope| {
        let there = scope.spawn(|| stop(reflector, 12 * second / 5));
        // A sample is sent while the reflector stands; the length of this is what is tried.
        thread::sleep(second + second / 20);
        let here = stop(probe, 3 * second / 2);
        (there.join().expect("it was stopped"), here)
    });
    wait_for_pause(&run, "remote", &stopped.0);
    let after = |event: &&Value| number(event, "mono_ns") >= stopped.1.going_on_ns;
    let ended = |e: &Events| {
        ["delay.ended", "connection.explained"].iter().any(|kind| of_kind(e, kind).iter().any(after))
    };
    run.wait_for("an end of what was late", |events| ended(events));
    let (events, rows) = run.end();
    local_pause(&events, &stopped.1);
    remote_pause(&events, &stopped.0);
    assert_no_queue(&events);
    let waited = rows.iter().filter(|row| row.rtt_ns() > Some(1_500_000_000));
    assert!(waited.count() > 0, "no sample waited for both: {rows:?}");
}

/// In two of six runs the queue that there was none of stood beside the pause.
fn probe_stopped_at_the_end() {
    for connections in [1, 1, 2] {
        let arguments = format!("--ping-pong --allow-high-rate --connections {connections}");
        let run = Run::start(Site::cable(), &arguments);
        let stop = stop(run.probe_pid(), Duration::from_secs(1));
        let (events, rows) = run.end();
        local_pause(&events, &stop);
        assert_no_queue(&events);
        let waited = rows.iter().any(|row| row.rtt_ns() > Some(900_000_000));
        // One thread sends on both connections: while it has an echo of the one in its hands, a sample of the other is under way.
        let none = connections == 1 && stood_between_two(&rows, 900_000_000);
        assert!(waited != none, "{connections}: waited {waited}, and none was under way: {none}");
    }
}

mod acceptance {
    use super::*;

    #[test]
    fn every_pause_is_recorded_with_its_length() {
        // Lengths within 10 ms: a busy host may miss one.
        assert_rate(2, 3, || make_all(FAULTS));
    }
}
