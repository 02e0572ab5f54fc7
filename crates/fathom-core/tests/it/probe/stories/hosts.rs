//! Hosts that stand still: what is their doing is not told of the path, nor the other way round.

use super::every;
use crate::chance::{is_many, runs};
use crate::world::{Fault, MS, Outcome, Random, S, START, World};
use fathom_core::event::EventKind;
use fathom_core::probe::{Settings, Transport};
use fathom_core::schedule::Pace;
use fathom_core::verdict::{Confidence, Direction, Verdict};
use std::ops::Range;

tiers! {
    peer_pauses_and_silences_are_distinguished: 1..7, 1..201;
    final_pause_is_not_path_delay: &[90], &[1, 90, 500, 2_500];
    path_delays_and_host_stops_are_distinguished: 1..11, 1..301;
}

/// What the run says of its stalls: verdict, way and confidence.
fn verdicts(outcome: &Outcome) -> Vec<(Verdict, Option<Direction>, Option<Confidence>)> {
    let told = outcome.of(|kind| match kind {
        EventKind::ConnectionExplained { about, explanation, .. } if about == "stall" => {
            Some((explanation.verdict, explanation.direction, explanation.confidence))
        }
        _ => None,
    });
    told.into_iter().map(|(.., told)| told).collect()
}

/// Connected after 1.0 to 1.2 ms, the first sample is stamped 0.5 to 0.6 ms later, and its echo comes as much after that; so it is
/// with those that are due whole seconds later. At this time an echo is on the way back.
const STAMPED: u64 = 1_950_000;

/// CI, in the demo under load: the reflector was stopped between its stamp of an echo and the sending of it, and the probe said
/// with high confidence that the path was down on the way back. Only an echo that it stamps afterwards can tell.
#[test]
fn reflector_stop_after_stamp_is_peer_pause() {
    for interval in [S, 50 * MS, 5 * MS, 500_000] {
        let pauses = [10, 20].map(|at| (at * S + STAMPED, Fault::PeerPause(1_500 * MS)));
        let settings = Settings { stall_after_ns: Some(500 * MS), ..every(interval, 30 * S) };
        let mut world = World::new(settings, 1).with(pauses);
        (world.peer_tells, world.rtt_ns) = (true, MS);
        let outcome = world.run();
        outcome.check_laws();
        let paused = (Verdict::PeerPaused, None, Some(Confidence::High));
        assert_eq!(verdicts(&outcome), [paused; 2], "every {interval} ns");
    }
}

/// The same as the last thing of a run: no later echo tells, and the way back is not held to be sure.
#[test]
fn what_no_later_echo_tells_is_not_sure() {
    for interval in [S, 50 * MS, 5 * MS] {
        let pause = (10 * S - interval + STAMPED, Fault::PeerPause(1_500 * MS));
        let settings = Settings { stall_after_ns: Some(500 * MS), ..every(interval, 10 * S) };
        let mut world = World::new(settings, 1).with([pause]);
        (world.peer_tells, world.rtt_ns) = (true, MS);
        let outcome = world.run();
        outcome.check_laws();
        let all = verdicts(&outcome);
        let [(verdict, _, confidence)] = all[..] else { panic!("every {interval} ns: {all:?}") };
        assert_eq!(
            (verdict, confidence),
            (Verdict::PathDown, Some(Confidence::Medium)),
            "every {interval} ns"
        );
    }
}

/// One sample an hour: a verdict that waited for the next echo was not in the recording for an hour, nor after a crash.
#[test]
fn stall_is_explained_before_distant_echo() {
    let settings = Settings { stall_after_ns: Some(500 * MS), ..every(3_600 * S, 7_300 * S) };
    let pause = (3_600 * S + STAMPED, Fault::PeerPause(1_500 * MS));
    let mut world = World::new(settings, 1).with([pause]);
    (world.peer_tells, world.rtt_ns) = (true, MS);
    let outcome = world.run();
    outcome.check_laws();
    let medium = (Verdict::PathDown, Some(Direction::Return), Some(Confidence::Medium));
    assert_eq!(verdicts(&outcome), [medium]);
    let at = outcome.of(|kind| matches!(kind, EventKind::ConnectionExplained { .. }).then_some(()))[0].0;
    assert!(at < START.mono_ns + 3_610 * S, "{at}");
}

/// The explanation that was waited for kept the look at the next silence away.
#[test]
fn stall_during_pending_explanation_is_seen() {
    let settings = Settings { stall_after_ns: Some(200 * MS), ..every(3 * S, 20 * S) };
    let faults = [(9 * S + STAMPED, Fault::PeerPause(1_500 * MS)), (12 * S + MS, Fault::Silence(350 * MS))];
    let mut world = World::new(settings, 1).with(faults);
    (world.peer_tells, world.rtt_ns) = (true, MS);
    let outcome = world.run();
    outcome.check_laws();
    assert_eq!((outcome.stalls(), verdicts(&outcome).len()), (2, 2));
}

/// The law of both: whatever the pace and the moment, no pause of a reflector that tells its pauses is surely the path's doing, and
/// no silence of the path is its pause.
fn peer_pauses_and_silences_are_distinguished(seeds: Range<u64>) {
    let (mut told, of) = (std::collections::BTreeMap::new(), runs(&seeds));
    for seed in seeds {
        let mut random = Random(seed);
        let interval = random.one_of(&[S, 300 * MS, 50 * MS, 5 * MS, MS]);
        let faults: Vec<(u64, Fault)> = (1..=3)
            .map(|n| {
                let (at, lasts) = (n * 10 * S + random.below(S), random.between(700 * MS, 6 * S));
                (at, if random.percent(60) { Fault::PeerPause(lasts) } else { Fault::Silence(lasts) })
            })
            .collect();
        let settings = Settings { stall_after_ns: Some(500 * MS), ..every(interval, 38 * S) };
        let mut world = World::new(settings, seed).with(faults.clone());
        (world.peer_tells, world.kernel_tells, world.rtt_ns) = (true, random.percent(50), MS);
        let outcome = world.run();
        outcome.check_laws();
        let began = outcome.of(|kind| matches!(kind, EventKind::StallBegan { .. }).then_some(()));
        let verdicts = verdicts(&outcome);
        assert_eq!(began.len(), verdicts.len(), "seed {seed}");
        for ((at, ..), (verdict, _, confidence)) in began.into_iter().zip(verdicts) {
            let before = |fault: &&(u64, Fault)| START.mono_ns + fault.0 <= at;
            let (_, fault) = faults.iter().rev().find(before).expect("no stall without a fault");
            let wrong = match fault {
                Fault::PeerPause(_) => verdict == Verdict::PathDown,
                _ => verdict == Verdict::PeerPaused,
            };
            assert!(
                !wrong || confidence < Some(Confidence::High),
                "seed {seed}: {fault:?} is told as {verdict}"
            );
            *told.entry((matches!(fault, Fault::PeerPause(_)), verdict.name())).or_insert(0) += 1;
        }
    }
    for right in [(true, "peer_paused"), (false, "path_down")] {
        assert!(!is_many(of) || told.get(&right).is_some_and(|times| times * 2 > of), "{told:?}");
    }
}

/// Both hosts stopped, one after the other: the stop of the reflector's was told as a queue on the way
/// there and the rest of this one's as a queue on the way back, with high confidence.
#[test]
fn host_pauses_are_not_path_delay() {
    for interval in [S, 300 * MS, 50 * MS] {
        let stops = [8, 20, 37].into_iter().flat_map(|at| {
            [(at * S - S / 2, Fault::PeerPause(3 * S)), (at * S + 900 * MS, Fault::LocalPause(2 * S))]
        });
        let settings = Settings { stall_after_ns: Some(S), ..every(interval, 42 * S) };
        let mut world = World::new(settings, 1).with(stops);
        (world.peer_tells, world.rtt_ns) = (true, MS);
        let outcome = world.run();
        outcome.check_laws();
        let delayed = outcome.of(|kind| match kind {
            EventKind::DelayEnded { verdict, .. } => Some(*verdict),
            _ => None,
        });
        let paused = |verdict| matches!(verdict, Verdict::LocalPaused | Verdict::PeerPaused);
        assert!(delayed.iter().all(|(.., verdict)| paused(*verdict)), "every {interval} ns: {delayed:?}");
    }
}

/// A stop as the last thing of a run: no echo in time follows, and the queue that nobody had seen was told.
fn final_pause_is_not_path_delay(ends_after_ms: &[u64]) {
    let paces = [Pace::PingPong, Pace::Every(S), Pace::Every(50 * MS), Pace::Every(MS)];
    for (pace, transport) in paces.iter().flat_map(|pace| [(*pace, Transport::Tcp), (*pace, Transport::Udp)])
    {
        for ends_after in ends_after_ms.iter().map(|ms| ms * MS) {
            let settings = Settings { pace, transport, ..every(S, 60 * S) };
            let stop = 10 * S + STAMPED;
            let mut world = World::new(settings, 1).with([(stop, Fault::LocalPause(1_200 * MS))]);
            (world.peer_tells, world.rtt_ns) = (true, MS);
            world.stops = [stop + 1_200 * MS + ends_after].into();
            world.run().check_laws();
        }
    }
}

/// The law of all three: whatever stops and whatever is slow, hosts are not blamed for the path, nor the path for hosts.
fn path_delays_and_host_stops_are_distinguished(seeds: Range<u64>) {
    let (mut told, of) = (std::collections::BTreeMap::new(), runs(&seeds));
    for seed in seeds {
        let mut random = Random(seed);
        let pace = random.one_of(&[1_000, 300, 50, 5, 0]);
        let pace = if pace == 0 { Pace::PingPong } else { Pace::Every(pace * MS) };
        let mut faults: Vec<(u64, Fault)> = Vec::new();
        for n in 1..=3 {
            let (at, lasts) = (n * 10 * S + random.below(S), random.between(300 * MS, 4 * S));
            let other = (at + random.below(lasts), random.between(300 * MS, 4 * S));
            match random.below(4) {
                0 => faults.extend([(at, Fault::PeerPause(lasts)), (other.0, Fault::LocalPause(other.1))]),
                1 => faults.push((at, Fault::LocalPause(lasts))),
                2 => faults
                    .extend([(at, Fault::LocalPause(lasts)), (at + lasts + MS, Fault::PeerPause(other.1))]),
                _ => faults.extend([(at, Fault::Slower(1_000)), (at + 4 * S, Fault::Faster(1_000))]),
            }
        }
        faults.sort_by_key(|(at, _)| *at);
        let stall_after_ns = random.one_of(&[None, Some(S), Some(2 * S)]);
        let settings = Settings { pace, stall_after_ns, ..every(S, random.between(15, 38) * S) };
        let mut world = World::new(settings, seed).with(faults.clone());
        (world.peer_tells, world.rtt_ns) = (random.percent(80), MS);
        let outcome = world.run();
        let checked = std::panic::catch_unwind(|| outcome.check_laws());
        assert!(checked.is_ok(), "seed {seed}: {pace:?} {faults:?}");
        let ended = outcome.of(|kind| match kind {
            EventKind::DelayEnded { verdict, .. } => Some(*verdict),
            _ => None,
        });
        for (.., verdict) in ended {
            *told.entry(verdict.name()).or_insert(0) += 1;
        }
    }
    for (verdict, least) in [("delayed", 20), ("local_paused", 20), ("peer_paused", 5)] {
        assert!(!is_many(of) || told.get(verdict) > Some(&least), "{told:?}");
    }
}
