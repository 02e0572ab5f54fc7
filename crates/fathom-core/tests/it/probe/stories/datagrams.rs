//! Datagrams that are lost, or late.

use super::every;
use crate::world::{Fault, MS, S, World};
use fathom_core::probe::{Settings, Transport};
use fathom_core::schedule::Pace;

/// A late echo of a datagram that had been given up counted twice, and cut the planned silence short: 34 samples stood
/// together where four do.
#[test]
fn late_echo_keeps_the_planned_silence() {
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

/// One datagram in forty lost, back to back: each loss used to be waited for for a minute.
#[test]
fn udp_ping_pong_continues_after_loss() {
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

tiers! {
    a_lost_datagram_holds_up_no_other: &[super::Pace::Every(200_000)], &[super::Pace::Every(200_000), super::Pace::PingPong];
}

/// One datagram of a hundred thousand is lost: after 65,536 more nothing was sent until it was given up, a minute later.
fn a_lost_datagram_holds_up_no_other(paces: &[Pace]) {
    for &pace in paces {
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
