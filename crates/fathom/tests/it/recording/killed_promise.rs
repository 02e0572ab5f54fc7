//! The law of a kill (`schema/recording.md`, "What a kill takes"): after recovery every sample that was sent more than 1.5 s before
//! has its row, or its loss is told, on its connection or without one. Held over several connections, of which some are silent,
//! over datagrams, several probing threads, and the seams of a rotation.

use crate::support::bystander::Bystander;
use crate::support::noting::{Arrival, Noting, Rule};
use crate::support::probe::{Probe, assert_sound, fathom, waited_ns_of};
use crate::support::rows::{events, manifest, number, of_kind, recordings, rows};
use crate::support::{Random, wait_for};
use fathom_os::peer::Peer;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// What is promised, where this host lets the threads of a probe run.
const PROMISED: Duration = Duration::from_millis(1_500);
/// How long before the kill it is looked at how long they wait: those that send, and the one that writes.
const LOOK: Duration = Duration::from_secs(3);
const THREADS: [&str; 2] = ["probe", "record"];
/// How long a run goes on before that at the least: with it there are samples that are older than what is promised, wherever a host
/// is judged at all (it holds a probe up for less than half of the look).
const BEFORE: Duration = Duration::from_millis(2_500);

/// So many samples of a connection that was cut were sent, at the most, and nobody read them.
const NOT_READ: u64 = 8;

/// Further kills of the first case where this host let none of a test be judged.
const FURTHER: u64 = 6;

/// What is run, against whom, and how often.
type Case = (String, Rule, u64);

/// Cases that rest for most of their time: how many kills were judged.
fn side_by_side(cases: &[Case]) -> u64 {
    thread::scope(|scope| {
        let each = cases.iter().map(|(words, rule, times)| scope.spawn(|| kills(words, *rule, *times)));
        let each: Vec<_> = each.collect();
        each.into_iter().map(|kills| kills.join().unwrap_or_else(|panic| resume_unwind(panic))).sum()
    })
}

/// A test of which this host let no kill be judged has tried nothing: then the lightest case is tried on, alone.
fn some_are_judged(mut judged: u64, (words, rule, _): &Case) {
    let mut random = Random(0x0FA7_0017 + words.len() as u64);
    for further in 1..=FURTHER {
        if judged > 0 {
            break;
        }
        eprintln!("{words}: none was judged; further kill {further} of {FURTHER} at most");
        judged += u64::from(kill(words, *rule, BEFORE + Duration::from_millis(random.below(1_200)), false));
    }
    assert!(
        judged > 0,
        "{words}: no kill could be judged: this host held the probe up for more than half of each look"
    );
}

/// How many of them were judged.
fn kills(words: &str, rule: Rule, times: u64) -> u64 {
    let mut random = Random(0x0FA7_0031 + words.len() as u64);
    let mut judged = 0;
    for time in 0..times {
        // Every other one within a seam, or right behind it, where the last recording has no rows yet.
        let in_a_seam = words.contains("--rotate") && time % 2 == 1;
        let before_look = BEFORE + Duration::from_millis(random.below(1_200));
        judged += u64::from(kill(words, rule, before_look, in_a_seam));
    }
    judged
}

/// Stops it within a seam: the next recording has just been told how far the run has come, and the one before may not say yet that the
/// run goes on elsewhere.
fn stop_within_a_seam(pid: u32, kept: &Path) -> Instant {
    let peer = Peer::open(pid).expect("it runs");
    let before = recordings(kept).len();
    let deadline = Instant::now() + Duration::from_mins(1);
    let next = loop {
        assert!(Instant::now() < deadline, "no seam");
        if let Some(next) = recordings(kept).split_off(before).pop() {
            break next;
        }
        thread::sleep(Duration::from_micros(100));
    };
    while !next.join(".progress").exists() {
        assert!(Instant::now() < deadline, "it does not go on");
    }
    let now = Instant::now();
    peer.stand_still().expect("it runs");
    now
}

/// Kills one, and holds what it left to the law; whether what is promised could be judged too.
fn kill(words: &str, rule: Rule, before_look: Duration, in_a_seam: bool) -> bool {
    let how = if in_a_seam { "within a seam" } else { "at any moment" };
    let case = format!("{words}, {rule:?}, killed {how} after {:?}", before_look + LOOK);
    let home = in_memory();
    let reflector = Noting::start(64, rule);
    let line = format!("{} {words} --allow-high-rate --record kept --quiet", reflector.address);
    let probe = Probe::start(home.path(), &line);
    wait_for("the first sample", || (!reflector.arrivals().is_empty()).then_some(()));
    // The moment of the kill is what is tried here.
    thread::sleep(before_look);
    let waited_before = waited_ns_of(probe.pid(), &THREADS);
    let (bystander, looks) = (Bystander::start(home.path()), Instant::now());
    thread::sleep(LOOK);
    let stopped = in_a_seam.then(|| stop_within_a_seam(probe.pid(), &home.path().join("kept")));
    let waited = waited_ns_of(probe.pid(), &THREADS);
    let killed = probe.kill_9();
    let killed = stopped.unwrap_or(killed);
    let (held, looked) = (bystander.held(), killed - looks);
    // A thread that is not let run writes nothing.
    assert!(waited.len() >= THREADS.len(), "{case}: {waited:?}");
    let since = |(task, ns): (&String, &u64)| ns - waited_before.get(task).unwrap_or(&0);
    let starved = Duration::from_nanos(waited.iter().map(since).max().unwrap_or(0));

    let kept = home.path().join("kept");
    let all = if words.contains("--rotate") { recordings(&kept) } else { vec![kept] };
    let (mut stand, mut told) = (BTreeSet::new(), BTreeMap::<Option<u32>, u64>::new());
    for dir in &all {
        let recovered = fathom(Path::new("."), &["recording", "recover", &dir.display().to_string()]);
        assert_eq!(recovered.code(), 0, "{case}: {recovered:?}");
        assert_sound(dir);
        for row in rows(dir) {
            let sample = (row.at("connection") as u32, row.at("seq") as u64);
            assert!(stand.insert(sample), "{case}: {sample:?} stands twice");
        }
        for lost in of_kind(&events(dir), "recording.overflowed") {
            let connection = lost["connection"].as_u64().map(|connection| connection as u32);
            *told.entry(connection).or_default() += number(lost, "lost");
        }
    }
    let arrivals = reflector.arrivals();
    let bound = PROMISED + starved + held;
    if (starved + held) * 2 > looked {
        // So it was before anybody looked, and for how long nobody knows.
        eprintln!(
            "{case}: {starved:?} starved, {held:?} held of {looked:?}: that it is sound is all that is judged"
        );
        return false;
    }
    // Otherwise nothing is tried here.
    let judged = arrivals.iter().filter(|(_, _, at)| killed.saturating_duration_since(*at) > bound).count();
    assert!(judged > 0, "{case}: nothing is older than {bound:?}");
    let mut missing = BTreeMap::<u32, (u64, Duration)>::new();
    for &(connection, seq, at) in &arrivals {
        let age = killed.saturating_duration_since(at);
        if age > bound && !stand.contains(&(connection, seq)) {
            let of = missing.entry(connection).or_default();
            *of = (of.0 + 1, of.1.max(age));
        }
    }
    let untold: u64 = missing
        .iter()
        .map(|(&connection, (samples, _))| samples.saturating_sub(*told.get(&Some(connection)).unwrap_or(&0)))
        .sum();
    let of_several = told.get(&None).copied().unwrap_or(0);
    eprintln!(
        "{case}: {} came, {judged} judged, {} rows, {} told, starved {starved:?}, held {held:?}, missing {missing:?}",
        arrivals.len(),
        stand.len(),
        told.values().sum::<u64>()
    );
    assert!(
        untold <= of_several,
        "{case}: {missing:?} are missing, {told:?} are told; {starved:?} starved, {held:?} held"
    );
    assert_told_once(&arrivals, &stand, &told, &case);
    if rule == Rule::All {
        assert_in_their_recordings(&all, starved, &case);
    }
    true
}

/// What has no row is told by one recording at most. The last that were sent may not have been read.
fn assert_told_once(
    arrivals: &[Arrival],
    stand: &BTreeSet<(u32, u64)>,
    told: &BTreeMap<Option<u32>, u64>,
    case: &str,
) {
    let mut came = BTreeMap::<u32, u64>::new();
    for (connection, ..) in arrivals {
        *came.entry(*connection).or_default() += 1;
    }
    for (&connection, &came) in &came {
        let rows = stand.iter().filter(|(of, _)| *of == connection).count() as u64;
        let told = told.get(&Some(connection)).copied().unwrap_or(0);
        assert!(
            rows + told <= came + NOT_READ,
            "{case}: connection {connection}: {came} came, {rows} rows, {told} told"
        );
    }
    let (all, told) = (arrivals.len() as u64, told.values().sum::<u64>());
    let not_read = NOT_READ * came.len() as u64;
    assert!(stand.len() as u64 + told <= all + not_read, "{case}: {told} told, {all} came");
}

/// Where no disk holds up a recording's beginning at a seam, whose time is added to what is promised, and which nobody can see
/// from outside: beside a whole CI that was longer than a second.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

/// What was answered stands in the recording of its moment, but for what was on its way to the file. Rows came 5.5 s late.
fn assert_in_their_recordings(all: &[PathBuf], starved: Duration, case: &str) {
    for dir in all.iter().skip(1) {
        let began: jiff::Timestamp =
            manifest(dir)["started_at"].as_str().expect("a moment").parse().expect("a moment");
        let oldest = rows(dir).iter().map(|row| row.at("sent_ns")).min();
        let late_ns = oldest.map_or(0, |sent| began.as_nanosecond() as i64 - sent);
        let most_ns = (Duration::from_millis(500) + starved).as_nanos() as i64;
        assert!(late_ns <= most_ns, "{case}: {}: a row is {late_ns} ns late", dir.display());
    }
}

mod acceptance {
    use super::*;

    /// Two seams and more in a run, and a kill at any distance from one.
    #[test]
    fn killed_run_accounts_for_seams() {
        let paced = ["--every 100ms --connections 2", "--every 10ms", "--every 1ms"];
        let cases = paced.map(|words| (format!("{words} --rotate 1s"), Rule::All, 2));
        let judged = side_by_side(&cases) + kills("--ping-pong --rotate 1s", Rule::All, 2);
        some_are_judged(judged, &cases[0]);
    }

    /// The rows of those that go on stood for the samples of the silent ones, and nothing of these was told.
    #[test]
    fn killed_run_accounts_for_silent_connections() {
        let silent = Rule::OddSilentFrom(5);
        let cases = [
            ("--every 100ms --connections 4", 1),
            ("--udp --every 100ms --connections 4", 1),
            ("--every 10ms --connections 4", 1),
            ("--udp --every 10ms --connections 4", 1),
            ("--every 10ms --connections 4 --rotate 1s", 2),
        ];
        let cases = cases.map(|(words, times)| (words.to_owned(), silent, times));
        some_are_judged(side_by_side(&cases), &cases[0]);
    }

    /// A datagram without an answer gets its row a minute later, whatever came after it.
    #[test]
    fn killed_run_accounts_for_lost_datagrams() {
        let cases = [
            ("--udp --every 100ms", 1),
            ("--udp --every 10ms --connections 2", 1),
            ("--udp --every 1ms --connections 4", 1),
            ("--udp --every 10ms --connections 2 --rotate 1s", 4),
        ];
        let cases = cases.map(|(words, times)| (words.to_owned(), Rule::Loses, times));
        some_are_judged(side_by_side(&cases), &cases[0]);
    }

    /// Each of them keeps a processor busy.
    #[test]
    fn killed_run_accounts_for_every_thread() {
        let cases = [
            ("--threads 2 --connections 2", Rule::All),
            ("--threads 4 --connections 8", Rule::All),
            ("--threads 16 --connections 16", Rule::All),
            ("--threads 3 --connections 6", Rule::OddSilentFrom(50)),
            ("--threads 2 --connections 4 --udp --timeout 100ms", Rule::Loses),
            ("--threads 2 --connections 4 --rotate 1s", Rule::All),
        ];
        let cases = cases.map(|(words, rule)| (format!("--ping-pong {words}"), rule, 1));
        let judged = cases.iter().map(|(words, rule, times)| kills(words, *rule, *times)).sum();
        // Threads that wait for what is lost rest in between.
        some_are_judged(judged, &cases[4]);
    }
}
