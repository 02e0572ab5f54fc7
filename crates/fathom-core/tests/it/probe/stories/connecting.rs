//! Targets that cannot be reached, or not at once, and how they are come back to.

use super::every;
use crate::world::{Fault, MS, Outcome, S, START, World};
use fathom_core::event::EventKind;
use fathom_core::probe::{Request, Settings};
use fathom_core::statistics::{LOCAL, Outage, Statistics};
use std::net::SocketAddr;

/// A name with one dead address and four connections: each lane's failure used to be taken for another address.
#[test]
fn dead_address_is_skipped_for_all_lanes() {
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

/// Targets are independent: one that cannot be reached holds none of the others up.
#[test]
fn unreachable_target_does_not_block_others() {
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
fn unmade_connections_are_counted() {
    let request = Request::Connect { tls: false };
    let settings = Settings { request, ..every(MS, 10 * S) };
    for stop_at in [None, Some(7 * S)] {
        let mut world = World::new(settings.clone(), 1).with([(100 * MS, Fault::Silence(1_000 * S))]);
        world.stops = stop_at.into_iter().collect();
        let outcome = world.run();
        let due =
            outcome.of(|kind| if let EventKind::ScheduleEnded { due } = kind { Some(*due) } else { None });
        let grid = stop_at.unwrap_or(10 * S) / MS;
        let in_flight: u64 = outcome.in_flight().values().sum();
        let told = outcome.samples.len() as u64 + outcome.skipped() + in_flight;
        assert_eq!(due[0].2, told, "due = rows + not sent + in flight");
        assert!(due[0].2.abs_diff(grid) <= 1, "{} of {grid} fell due", due[0].2);
    }
}

/// `--connect` to a name whose first address is silent or refuses: nine of ten samples, or all of them, were lost to it.
#[test]
fn setup_mode_tries_each_address_first() {
    let bad = SocketAddr::from(([10, 0, 0, 9], 7007));
    for (silent, give_up_ns) in [(true, None), (true, Some(S)), (false, None)] {
        let request = Request::Connect { tls: false };
        let settings = Settings { request, give_up_ns, count: Some(10), ..every(100 * MS, 10 * S) };
        let mut world = World::new(settings, 1);
        world.addresses.insert(0, bad);
        if silent {
            world.silent = vec![bad];
        } else {
            world.dead = vec![bad];
        }
        let outcome = world.run();
        outcome.check_laws();
        assert!(outcome.samples.iter().all(|(_, sample)| sample.rtt_ns.is_some()), "silent: {silent}");
        assert_eq!((outcome.samples.len(), outcome.end.refused.as_deref()), (10, None));
        let limit_ns = if silent { give_up_ns.unwrap_or(5 * S) } else { 100 * MS };
        assert!(outcome.ended_ns <= START.mono_ns + limit_ns + 3 * S, "{}", outcome.ended_ns);
        let named = outcome.of(|kind| match kind {
            EventKind::ConnectionRefused { remote, .. } => remote.clone(),
            _ => None,
        });
        assert!(named.iter().all(|(.., remote)| *remote == bad.to_string()) && named.len() == 1, "{named:?}");
    }
}

/// The serving address falls silent and another answers, or the name resolves to another address from then on.
#[test]
fn setup_mode_leaves_silent_address() {
    for moves in [false, true] {
        let settings = Settings { request: Request::Connect { tls: false }, ..every(100 * MS, 60 * S) };
        let mut world = World::new(settings, 1);
        let first = world.addresses[0];
        if !moves {
            world.addresses.push(SocketAddr::from(([10, 0, 0, 2], 7007)));
        }
        world.goes_silent = Some((first, START.mono_ns + 20 * S, moves));
        let outcome = world.run();
        outcome.check_laws();
        let made = outcome.of(|kind| match kind {
            EventKind::ConnectionOpened { remote, .. } => Some(*remote != first.to_string()),
            _ => None,
        });
        let back = made.iter().find(|(.., elsewhere)| *elsewhere).expect("another address is found");
        assert!(back.0 < START.mono_ns + 23 * S, "back after {} ns", back.0 - START.mono_ns - 20 * S);
        assert_eq!(
            outcome.of(|kind| matches!(kind, EventKind::ConnectionUnanswered { .. }).then_some(())).len(),
            1
        );
    }
}

/// For nine seconds each attempt hung, and the recording said that nothing had happened.
#[test]
fn hanging_attempts_are_an_outage() {
    let settings = Settings { request: Request::Connect { tls: false }, ..every(500 * MS, 30 * S) };
    let cut = (5 * S + 10 * MS, Fault::Silence(9 * S - 10 * MS));
    let outcome = World::new(settings.clone(), 1).with([cut]).run();
    outcome.check_laws();
    let outages = outages(&outcome);
    let [outage] = outages.as_slice() else { panic!("{outages:?}") };
    assert_eq!(outage.began_ns, START.mono_ns + 5 * S + 500 * MS, "with the first attempt in it");
    let end = outage.end.expect("it is over");
    assert!(end.at_ns - (START.mono_ns + 14 * S) < 100 * MS, "{end:?}");
    assert!(end.uncertain_ns <= 3 * S, "{end:?}");
    // The event repeats soon, while the outage lasts.
    let told = outcome.of(|kind| match kind {
        EventKind::ConnectionUnanswered { attempts, .. } => Some(*attempts),
        _ => None,
    });
    assert!(told[0].0 < START.mono_ns + 8 * S && told.len() > 3, "{told:?}");
    assert!(told.last().is_some_and(|(.., attempts)| *attempts > 10), "{told:?}");
    // The path is cut until the end: the outage is not over.
    let outcome = World::new(settings, 1).with([(5 * S + 10 * MS, Fault::Silence(60 * S))]).run();
    assert!(self::outages(&outcome)[0].end.is_none());
}

/// One lost SYN, retransmitted after a second, is no outage, however rarely connections are made.
#[test]
fn one_lost_syn_is_no_outage() {
    for interval_ns in [100 * MS, S, 5 * S] {
        let settings = Settings { request: Request::Connect { tls: false }, ..every(interval_ns, 40 * S) };
        // Nothing passes while one of them is begun; the world sends again at once when it does.
        let outcome = World::new(settings, 1).with([(20 * S - MS, Fault::Silence(S + 2 * MS))]).run();
        outcome.check_laws();
        let expected = usize::from(interval_ns == 100 * MS);
        assert_eq!(outages(&outcome).len(), expected, "every {interval_ns} ns: ten lost in a row are one");
    }
}

/// This host has no port for three seconds: samples due then were not sent, and the target was not to blame.
#[test]
fn missing_ports_are_not_the_target() {
    for request in [Request::Connect { tls: false }, Request::Echo] {
        let settings = Settings { request, ..every(100 * MS, 20 * S) };
        let faults = [(5 * S, Fault::NoPorts(3 * S)), (5 * S, Fault::Reset)];
        let outcome = World::new(settings, 1).with(faults).run();
        outcome.check_laws();
        let mut told = Statistics::default();
        outcome.events.iter().for_each(|(_, event)| told.event(event));
        outcome.samples.iter().for_each(|(_, sample)| told.sample(sample));
        assert!((25..=60).contains(&told.not_sent.of(LOCAL)), "{request:?}: {:?}", told.not_sent);
        // The reset is the peer's, and the samples until it was known.
        assert!(
            told.availability() > Some(0.99),
            "{request:?}: {:?} {:?}",
            told.availability(),
            told.not_sent
        );
        let local: Vec<bool> = told.outages.all().iter().map(|outage| outage.local).collect();
        let expected: &[bool] = if request == Request::Echo { &[false, true] } else { &[true] };
        assert_eq!(local, expected, "{request:?}");
    }
}

fn outages(outcome: &Outcome) -> Vec<Outage> {
    let mut told = Statistics::default();
    outcome.events.iter().for_each(|(_, event)| told.event(event));
    told.outages.all()
}

/// One backend of several behind an address refuses, and is faster in it than the others are to accept: another lane is
/// about to be connected, so the path is not given up.
#[test]
fn fast_refusal_does_not_give_up_path() {
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
