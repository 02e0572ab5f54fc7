//! Targets that cannot be reached, or not at once, and how they are come back to.

use super::every;
use crate::world::{Fault, MS, S, START, World};
use fathom_core::event::EventKind;
use fathom_core::probe::{Request, Settings};
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
        assert_eq!(due[0].2, outcome.samples.len() as u64 + outcome.skipped(), "due = rows + not sent");
        assert!(due[0].2.abs_diff(grid) <= 1, "{} of {grid} fell due", due[0].2);
    }
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
