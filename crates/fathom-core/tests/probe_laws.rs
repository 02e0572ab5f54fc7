//! A thousand runs in virtual time, with random schedules and random faults: whatever happens, each sample resolves
//! once, each due is sent or told, each silence is one stall with one explanation, and equal seeds give equal runs.

mod world;

use fathom_core::event::EventKind;
use fathom_core::probe::{Settings, Transport};
use fathom_core::sample::Sample;
use fathom_core::schedule::Pace;
use std::collections::BTreeSet;
use world::{Fault, MS, Outcome, Random, S, START, World};

const EVERY_NS: [u64; 6] = [S, 100 * MS, 50 * MS, 10 * MS, 5 * MS, 2 * MS];

fn settings(random: &mut Random) -> Settings {
    let paths = random.between(1, 4) as usize;
    let every = EVERY_NS[random.below(EVERY_NS.len() as u64) as usize];
    let slow = every >= 100 * MS;
    Settings {
        session: random.next() as u32,
        connections: if slow { random.between(1, 5) as u32 } else { 1 },
        pace: if random.below(8) == 0 { Pace::PingPong } else { Pace::Every(every) },
        size: [1, 16, 64, 64, 64, 1_000][random.below(6) as usize],
        duration_ns: Some(if slow { random.between(20, 200) * S } else { random.between(5, 20) * S }),
        stall_after_ns: (random.below(2) == 0).then(|| random.between(200, 2_000) * MS),
        give_up_ns: (random.below(4) == 0).then(|| random.between(3, 20) * S),
        reconnect: random.below(8) != 0,
        timeout_ns: random.between(1, 6) * S,
        ..Settings::new((0..paths).map(|p| format!("host-{p}:7007")).collect())
    }
}

fn faults(random: &mut Random, span_ns: u64) -> Vec<(u64, Fault)> {
    let mut at = 0;
    let count = random.below(7);
    let fault = |random: &mut Random| {
        let duration = random.between(50, 12_000) * MS;
        match random.below(9) {
            0..3 => Fault::Silence(duration),
            3 => Fault::ForgetFlows,
            4 => Fault::Reset,
            5 => Fault::Fin,
            6 => Fault::PeerDown(duration),
            7 => Fault::Step(random.between(0, 10 * S) as i64 - (5 * S) as i64),
            _ => Fault::LocalPause(random.between(1, 3_000) * MS),
        }
    };
    let mut faults = Vec::new();
    for _ in 0..count {
        at += random.between(MS, 2 * span_ns / (count + 1));
        faults.push((at, fault(random)));
    }
    faults
}

fn run(seed: u64) -> (Settings, Vec<(u64, Fault)>, Option<u64>, Outcome) {
    let mut random = Random(seed);
    let settings = settings(&mut random);
    let faults = faults(&mut random, settings.duration_ns.unwrap_or(S));
    let mut world = World::new(settings.clone(), seed).with(faults.clone());
    if settings.pace == Pace::PingPong {
        world.rtt_ns = 20 * MS;
    }
    world.user_timeout_ns = random.between(4, 40) * S;
    world.stop_at = (random.below(5) == 0).then(|| random.below(settings.duration_ns.unwrap_or(S)));
    let stopped = world.stop_at;
    (settings, faults, stopped, world.run())
}

/// Each due is a row or was told as not sent, and the run says how many there were.
fn check_dues(settings: &Settings, outcome: &Outcome, stopped: bool) {
    let Pace::Every(every) = settings.pace else { return };
    let mut dues = BTreeSet::new();
    for (path, sample) in &outcome.samples {
        // By the wall clock, which steps: only the lateness is of use, and the order on each connection.
        assert!(sample.lateness_ns >= 0, "{sample:?}");
        dues.insert((*path, sample.connection, sample.seq));
    }
    let told = outcome.of(|kind| if let EventKind::ScheduleEnded { due } = kind { Some(*due) } else { None });
    let told: u64 = told.iter().map(|(.., due)| due).sum();
    assert_eq!(told, dues.len() as u64 + outcome.skipped(), "due = rows + not sent");
    if stopped || !settings.reconnect || !outcome.end.given_up.is_empty() || outcome.end.fatal.is_some() {
        return;
    }
    let lanes = settings.targets.len() as u64 * u64::from(settings.connections);
    let per_lane = settings.duration_ns.expect("it has one").div_ceil(every);
    let all = dues.len() as u64 + outcome.skipped();
    // Paths begin at different times, on one grid: the first due of each lies within one interval of its beginning.
    assert!(all <= lanes * per_lane && all + lanes >= lanes * per_lane, "{all} of {}", lanes * per_lane);
}

/// Every silence beyond the threshold is a stall; nothing else is.
fn check_silences(settings: &Settings, outcome: &Outcome) {
    let Some(threshold) = settings.stall_after_ns else { return };
    // A lane's connections come one after another, so each silence of a link is told apart by its time.
    let long = outcome.silences.iter().filter(|(_, from, to)| to - from > threshold).count();
    let exact = outcome.silences.iter().filter(|(_, from, to)| to - from == threshold).count();
    let stalls = outcome.stalls();
    assert!((long..=long + exact).contains(&stalls), "{stalls} stalls of {long} silences");
}

fn check(seed: u64) {
    let (settings, faults, stopped, outcome) = run(seed);
    let checked = std::panic::catch_unwind(|| {
        outcome.check_laws();
        let paused = faults.iter().any(|(_, fault)| matches!(fault, Fault::LocalPause(_)));
        check_dues(&settings, &outcome, stopped.is_some());
        if let Some(at) = stopped {
            // A second for the last echoes, and what a pause of this host adds.
            let late = outcome.ended_ns.saturating_sub(START.mono_ns + at);
            assert!(late <= 5 * S || settings.duration_ns < Some(at), "ended {late} ns after it was told to");
        }
        if !paused {
            check_silences(&settings, &outcome);
        }
    });
    if let Err(panic) = checked {
        eprintln!("seed {seed}: {settings:?}\n{faults:?}");
        for (path, event) in &outcome.events {
            eprintln!("{path:?} {} {:?} {:?}", event.mono_ns, event.connection, event.kind);
        }
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_thousand_random_runs_keep_the_laws() {
    let seeds = std::env::var("FATHOM_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000);
    let first = std::env::var("FATHOM_FIRST_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let workers = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    std::thread::scope(|scope| {
        for worker in 0..workers {
            scope.spawn(move || (first..first + seeds).filter(|s| s % workers == worker).for_each(check));
        }
    });
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 1..40 {
        let ((.., one), (.., other)) = (run(seed), run(seed));
        assert!(one == other, "seed {seed}");
        assert!(!one.samples.is_empty() || !one.events.is_empty());
    }
}

#[test]
fn datagrams_are_sent_answered_or_lost_once_each() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let every = EVERY_NS[random.below(5) as usize];
        let settings = Settings {
            transport: Transport::Udp,
            pace: if seed % 2 == 0 { Pace::PingPong } else { Pace::Every(every) },
            duration_ns: Some(10 * S),
            size: [16, 64, 200][random.below(3) as usize],
            ..Settings::new(vec!["host".into()])
        };
        let mut world = World::new(settings, seed).with([(3 * S, Fault::Silence(2 * S))]);
        world.lost_percent = random.below(30);
        world.rtt_ns = 5 * MS;
        let outcome = world.run();
        outcome.check_laws();
        let answered = |s: &&(usize, Sample)| s.1.rtt_ns.is_some();
        assert!(outcome.samples.iter().filter(answered).count() > 0, "seed {seed}");
        let kinds = |kind: &EventKind| matches!(kind, EventKind::ConnectionClosed { .. }).then_some(());
        assert_eq!(outcome.of(kinds).len(), 1, "seed {seed}");
    }
}
