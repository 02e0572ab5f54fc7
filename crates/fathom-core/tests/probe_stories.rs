//! Faults that were seen in the field, or by strangers who tried the program, each played in virtual time.

mod world;

use fathom_core::event::EventKind;
use fathom_core::probe::{Request, Settings, Transport};
use fathom_core::schedule::Pace;
use fathom_core::verdict::{Confidence, Direction, Verdict};
use std::net::SocketAddr;
use world::{Fault, MS, Outcome, Random, S, START, World};

fn every(interval_ns: u64, duration_ns: u64) -> Settings {
    Settings {
        pace: Pace::Every(interval_ns),
        duration_ns: Some(duration_ns),
        ..Settings::new(vec!["host:7007".into()])
    }
}

/// When a stall began, on which connection, above which threshold.
type Began = (u64, Option<u32>, u64);

/// Three silences of 5 s in one run, and one as its last thing: the late echoes of the first used to raise the threshold
/// above the others.
#[test]
fn every_silence_of_a_run_is_a_stall_at_any_rate() {
    for interval in [S, 50 * MS, 5 * MS, MS] {
        let silences = [20, 40, 60, 78].map(|at| (at * S, Fault::Silence(5 * S)));
        let outcome = World::new(every(interval, 80 * S), 1).with(silences).run();
        outcome.check_laws();
        assert_eq!(outcome.stalls(), 4, "every {interval} ns");
    }
}

/// Without selective acknowledgements TCP repairs one lost segment a round trip (RFC 6582): long after a silence of 4 s
/// samples still queue behind what it held up. Those were learned from, and hid every later silence.
#[test]
fn what_queues_behind_a_silence_does_not_hide_the_next() {
    let silences = [20, 40, 60].map(|at| (at * S, Fault::Silence(4 * S)));
    let mut world = World::new(every(10 * MS, 70 * S), 1).with(silences);
    world.serial_ns = 2 * MS;
    let outcome = world.run();
    outcome.check_laws();
    let queued = |(_, sample): &&(usize, fathom_core::sample::Sample)| sample.rtt_ns > Some(S as i64);
    assert!(
        outcome.samples.iter().filter(queued).count() > 3 * 400,
        "what is sent after a silence queues too"
    );
    let thresholds = outcome.of(|kind| match kind {
        EventKind::StallBegan { threshold_ns, .. } => Some(*threshold_ns),
        _ => None,
    });
    let thresholds: Vec<u64> = thresholds.into_iter().map(|(.., threshold)| threshold).collect();
    assert_eq!(thresholds, [200 * MS; 3], "the least, as before the first silence");
}

/// While a stall goes on it is looked at every 250 ms. That look, which came after the stall was over, was the first at
/// the silence that followed: shorter ones were not seen, longer ones told late (seed 115,055 of `probe_laws`).
#[test]
fn a_silence_right_after_a_stall_is_a_stall() {
    for first in (500..1_000).step_by(10).map(|ms| ms * MS) {
        let faults = [(3 * S, Fault::Silence(first)), (3 * S + first + 20 * MS, Fault::Silence(220 * MS))];
        let outcome = World::new(every(5 * MS, 10 * S), 1).with(faults).run();
        outcome.check_laws();
        assert_eq!(outcome.stalls(), 2, "the first of {first} ns");
    }
}

/// A silence that was looked at and was no stall left the next look where it was: with a threshold that had fallen since,
/// the silence after it was missed.
#[test]
fn a_silence_after_one_that_was_no_stall_is_a_stall() {
    let faults = [(740 * MS, Fault::Silence(560 * MS)), (1_340 * MS, Fault::Silence(360 * MS))];
    let outcome = World::new(every(50 * MS, 5 * S), 1).with(faults).run();
    outcome.check_laws();
    let began = outcome.of(|kind| matches!(kind, EventKind::StallBegan { .. }).then_some(()));
    // The threshold is 200 ms since the first second's end: of the first silence, too, which lasted until 1.3 s.
    assert!(began.iter().any(|(at, ..)| *at > START.mono_ns + 1_350 * MS), "{began:?}");
}

/// A cut of 0.7 s in a run's first second was no stall, since nothing was usual before that second was over, and what it held up
/// was told as echoes that kept coming, late (a stranger). Ten round trips say what is usual, however soon they come.
#[test]
fn a_silence_in_the_first_second_is_a_stall() {
    for (interval, after) in [(50 * MS, 600 * MS), (20 * MS, 250 * MS), (5 * MS, 100 * MS), (MS, 50 * MS)] {
        let faults = [after, 1_500 * MS].map(|at| (at, Fault::Silence(700 * MS)));
        let outcome = World::new(every(interval, 4 * S), 1).with(faults).run();
        outcome.check_laws();
        assert_eq!(outcome.stalls(), 2, "every {interval} ns, after {after}");
        let late = outcome.of(|kind| matches!(kind, EventKind::DelayBegan { .. }).then_some(()));
        assert!(late.is_empty(), "every {interval} ns, after {after}: {late:?}");
    }
}

/// The kernel took the last message in part, and the peer read no more: nothing was armed that would end the run.
#[test]
fn a_last_message_that_is_never_taken_whole_ends_the_run() {
    let settings = Settings { count: Some(2), size: 100_000, duration_ns: None, ..every(100 * MS, S) };
    let mut world = World::new(settings, 1).with([(50 * MS, Fault::Silence(1_000_000 * S))]);
    (world.user_timeout_ns, world.must_end_ns) = (u64::MAX / 2, 600 * S);
    let outcome = world.run();
    outcome.check_laws();
    assert!(outcome.ended_ns < START.mono_ns + 30 * S, "{}", outcome.ended_ns);
}

/// A late echo of a datagram that had been given up counted twice, and cut the planned silence short: 34 samples stood
/// together where four do.
#[test]
fn a_late_echo_leaves_a_planned_silence_as_it_is() {
    let settings = Settings { transport: Transport::Udp, idle_gaps_ns: vec![S], ..every(S, 10 * S) };
    let mut world = World::new(Settings { pace: Pace::PingPong, ..settings }, 1);
    world.rtt_ns = 5 * MS;
    let outcome = world.with([(3_500 * MS, Fault::Slower(10))]).run();
    outcome.check_laws();
    let sent: Vec<i64> = outcome.samples.iter().map(|(_, sample)| sample.sent_ns).collect();
    let together: Vec<usize> = sent.chunk_by(|a, b| b - a < 500_000_000).map(<[i64]>::len).collect();
    // The last may be cut by the end of the run.
    let whole = &together[..together.len() - 1];
    assert!(whole.len() > 4 && whole.iter().all(|n| *n == 4), "{together:?}");
}

/// A freeze of 30 s at the articles' pace blinded the probe to anything under two minutes for most of an hour.
#[test]
fn a_long_freeze_does_not_blind_the_probe() {
    let faults = [(300, 25), (360, 2), (900, 3), (2_000, 2)].map(|(at, s)| (at * S, Fault::Silence(s * S)));
    let outcome = World::new(every(S, 3_600 * S), 1).with(faults).run();
    outcome.check_laws();
    assert_eq!(outcome.stalls(), 4);
}

/// A path that becomes ten times slower is told for a while and is then the usual one; ten minutes later a silence of
/// five usual tails is a stall again.
#[test]
fn a_path_that_changes_for_good_becomes_usual() {
    for interval in [S, 100 * MS] {
        let mut world = World::new(every(interval, 1_500 * S), 1)
            .with([(600 * S, Fault::Slower(10)), (1_300 * S, Fault::Silence(6 * S))]);
        world.rtt_ns = 100 * MS;
        let outcome = world.run();
        outcome.check_laws();
        let began = outcome.of(|kind| match kind {
            EventKind::StallBegan { threshold_ns, .. } => Some(*threshold_ns),
            _ => None,
        });
        let settled = START.mono_ns + 700 * S;
        let (early, late): (Vec<&Began>, Vec<&Began>) = began.iter().partition(|(at, ..)| *at < settled);
        assert!(early.len() < 60, "every {interval} ns: {} stalls while it changed", early.len());
        assert_eq!(late.len(), 1, "every {interval} ns: {late:?}");
        assert!((3 * S..5 * S).contains(&late[0].2), "four tails of a second: {} ns", late[0].2);
    }
}

/// One datagram in forty lost, back to back: each loss used to be waited for for a minute.
#[test]
fn a_ping_pong_over_datagrams_goes_on_after_a_loss() {
    let settings = Settings { transport: Transport::Udp, pace: Pace::PingPong, ..every(S, 10 * S) };
    let mut world = World::new(settings, 1);
    world.lost_percent = 2;
    let outcome = world.run();
    outcome.check_laws();
    // A round trip takes about a millisecond; a loss costs what a tail takes, and a datagram is lost on one way in 25.
    assert!(outcome.samples.len() > 3_000, "{} samples", outcome.samples.len());
    let lost = outcome.samples.iter().filter(|(_, s)| s.rtt_ns.is_none()).count();
    assert!(lost > 60, "{lost} lost");
}

/// A name with one dead address and four connections: each lane's failure used to be taken for another address.
#[test]
fn a_dead_address_is_passed_over_whatever_the_number_of_connections() {
    let dead = SocketAddr::from(([10, 0, 0, 9], 7007));
    for connections in [1, 2, 4, 8] {
        let mut world = World::new(Settings { connections, ..every(S, 10 * S) }, 1);
        world.addresses.insert(0, dead);
        world.dead = vec![dead];
        let outcome = world.run();
        outcome.check_laws();
        assert_eq!(outcome.end.fatal, None, "{connections} connections");
        assert_eq!(outcome.samples.len() as u32, 10 * connections, "{connections} connections");
    }
}

/// `--keep-trying --for 6s` and a reflector that comes after 4 s: the time counts from the first connection.
#[test]
fn the_time_counts_from_the_first_connection() {
    let mut world = World::new(Settings { keep_trying: true, ..every(100 * MS, 6 * S) }, 1);
    world.listens_ns = 4 * S;
    let outcome = world.run();
    outcome.check_laws();
    assert_eq!(outcome.samples.len(), 60);
    // Where none ever comes, it counts from the start.
    let mut world = World::new(Settings { keep_trying: true, ..every(100 * MS, 6 * S) }, 1);
    world.listens_ns = 100 * S;
    let outcome = world.run();
    assert!(outcome.samples.is_empty() && outcome.ended_ns <= START.mono_ns + 13 * S);
}

/// Attempts to come back are at most the pace apart, or five seconds: an outage is told to that precision.
#[test]
fn a_peer_that_returns_is_found_soon() {
    for down in [1, 8, 60, 600] {
        let outcome = World::new(every(S, 900 * S), down).with([(10 * S, Fault::PeerDown(down * S))]).run();
        outcome.check_laws();
        let opened = outcome.of(|kind| matches!(kind, EventKind::ConnectionOpened { .. }).then_some(()));
        let back = opened[1].0 - (START.mono_ns + (10 + down) * S);
        assert!(back <= 5 * S + 100 * MS, "down for {down} s, back {back} ns after");
        assert_eq!(outcome.samples.len() as u64 + outcome.skipped(), 900, "every due is told");
    }
}

/// The probe's host does not run for the last milliseconds of a run: what fell due in it is still sent. The end used to
/// come in the same turn, before the driver had sent: of 150,000 samples of ten thousand connections up to nine were not.
#[test]
fn what_falls_due_just_before_the_end_is_sent() {
    for connections in [1, 10, 1_000] {
        let settings = Settings { connections, ..every(u64::from(connections) * 100_000, S) };
        let pause = (S - MS, Fault::LocalPause(20 * MS));
        let outcome = World::new(settings, 1).with([pause]).run();
        outcome.check_laws();
        assert_eq!((outcome.samples.len(), outcome.skipped()), (10_000, 0), "{connections} connections");
    }
}

/// chrony slews at up to 83,333 ppm: that was a step every second.
#[test]
fn a_slewed_clock_is_not_set_every_second() {
    let faults = [(20 * S, Fault::Slew(83_333, 60 * S)), (120 * S, Fault::Step(2 * S as i64))];
    let outcome = World::new(every(S, 200 * S), 1).with(faults).run();
    let steps =
        outcome.of(|kind| if let EventKind::ClockStepped { step_ns } = kind { Some(*step_ns) } else { None });
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert_eq!(steps[0].2, 2 * S as i64);
}

/// Targets are independent: one that cannot be reached holds none of the others up.
#[test]
fn a_target_that_is_down_does_not_hold_up_another() {
    // The second path's name leads to an address that nobody answers at, for a second.
    let settings = Settings {
        targets: vec!["good:7007".into(), "bad:7007".into()],
        keep_trying: true,
        ..every(100 * MS, 2 * S)
    };
    let mut world = World::new(settings, 1);
    world.bad_paths = vec![1];
    let outcome = world.run();
    let of_good = outcome.samples.iter().filter(|(path, _)| *path == 0).count();
    assert_eq!(of_good, 20);
    let opened = outcome.of(|kind| matches!(kind, EventKind::ConnectionOpened { .. }).then_some(()));
    assert!(opened[0].0 < START.mono_ns + 100 * MS, "at once");
    // Without --keep-trying it is given up, and the others go on.
    let settings =
        Settings { targets: vec!["good:7007".into(), "bad:7007".into()], ..every(100 * MS, 2 * S) };
    let mut world = World::new(settings, 1);
    world.bad_paths = vec![1];
    let outcome = world.run();
    assert_eq!(outcome.samples.len(), 20);
    assert_eq!((outcome.end.given_up.len(), outcome.end.fatal), (1, None));
}

/// Connections are the samples, and none of them is answered: beyond a thousand that are being made the others wait, and
/// those that waited at the end had neither a row nor a word.
#[test]
fn connections_that_were_not_made_are_told() {
    let request = Request::Connect { tls: false };
    let settings = Settings { request, ..every(MS, 10 * S) };
    for stop_at in [None, Some(7 * S)] {
        let mut world = World::new(settings.clone(), 1).with([(100 * MS, Fault::Silence(1_000 * S))]);
        world.stops = stop_at.into_iter().collect();
        let outcome = world.run();
        let due =
            outcome.of(|kind| if let EventKind::ScheduleEnded { due } = kind { Some(*due) } else { None });
        let grid = stop_at.unwrap_or(10 * S) / MS;
        assert_eq!(due[0].2, outcome.samples.len() as u64 + outcome.skipped(), "due = rows + not sent");
        assert!(due[0].2.abs_diff(grid) <= 1, "{} of {grid} fell due", due[0].2);
    }
}

/// One backend of several behind an address refuses, and is faster in it than the others are to accept: another lane is
/// about to be connected, so the path is not given up.
#[test]
fn a_refusal_that_is_faster_than_the_others_gives_up_nothing() {
    for (refused, connections) in [(1, 2), (3, 4), (4, 5)] {
        let mut world = World::new(Settings { connections, ..every(S, 20 * S) }, 1);
        world.refused_first = refused;
        let outcome = world.run();
        outcome.check_laws();
        assert_eq!((outcome.end.fatal.as_deref(), outcome.end.given_up.len()), (None, 0));
        let opened = outcome.of(|kind| matches!(kind, EventKind::ConnectionOpened { .. }).then_some(()));
        assert_eq!(opened.len() as u32, connections, "each is connected in the end");
    }
    // Where every one is refused, that is the end.
    let mut world = World::new(Settings { connections: 4, ..every(S, 20 * S) }, 1);
    world.dead = world.addresses.clone();
    let outcome = world.run();
    assert!(outcome.end.fatal.is_some() && outcome.ended_ns < START.mono_ns + 3 * S, "{:?}", outcome.end);
}

/// One datagram of a hundred thousand is lost: after 65,536 more nothing was sent until it was given up, a minute later.
#[test]
fn a_lost_datagram_holds_up_no_other() {
    for pace in [Pace::Every(200_000), Pace::PingPong] {
        let transport = Transport::Udp;
        let mut world = World::new(Settings { transport, pace, ..every(S, 20 * S) }, 1);
        world.rtt_ns = 50_000;
        world.lose = vec![5_000];
        let outcome = world.run();
        outcome.check_laws();
        let unanswered = outcome.samples.iter().filter(|(_, sample)| sample.rtt_ns.is_none()).count();
        assert_eq!((unanswered, outcome.skipped()), (1, 0), "{pace:?}");
        assert!(outcome.samples.len() > 75_000, "{pace:?}: {}", outcome.samples.len());
    }
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
fn a_reflector_that_stops_between_stamp_and_sending_is_not_the_way_back() {
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
fn a_stall_is_explained_soon_where_the_next_echo_is_far() {
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
fn a_stall_while_another_waits_to_be_explained_is_seen_in_time() {
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
#[test]
fn what_the_peer_did_is_not_told_of_the_path_nor_the_other_way_round() {
    let mut told = std::collections::BTreeMap::new();
    for seed in 1..=200 {
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
    assert!(told.get(&(true, "peer_paused")) > Some(&100), "{told:?}");
    assert!(told.get(&(false, "path_down")) > Some(&100), "{told:?}");
}

/// Both hosts stopped, one after the other: the stop of the reflector's was told as a queue on the way
/// there and the rest of this one's as a queue on the way back, with high confidence.
#[test]
fn what_waited_for_either_host_is_no_delay_of_the_path() {
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
#[test]
fn a_pause_that_a_run_ends_with_is_no_delay_of_the_path() {
    let paces = [Pace::PingPong, Pace::Every(S), Pace::Every(50 * MS), Pace::Every(MS)];
    for (pace, transport) in paces.iter().flat_map(|pace| [(*pace, Transport::Tcp), (*pace, Transport::Udp)])
    {
        for ends_after in [MS, 90 * MS, 500 * MS, 2_500 * MS] {
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
#[test]
fn delays_of_the_path_and_stops_of_hosts_are_told_apart() {
    let mut told = std::collections::BTreeMap::new();
    for seed in 1..=300 {
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
        assert!(told.get(verdict) > Some(&least), "{told:?}");
    }
}
