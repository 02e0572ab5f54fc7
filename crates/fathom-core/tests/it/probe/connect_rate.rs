//! Thousands of connections that are lost together, in virtual time: how they come back.

use crate::world::{Fault, MS, Outcome, S, World};
use fathom_core::event::EventKind;
use fathom_core::probe::{Settings, Transport};
use fathom_core::schedule::Pace;

fn thousands(connections: u32) -> Settings {
    let pace = Pace::Every(20 * S);
    let duration_ns = Some(60 * S);
    Settings { connections, pace, duration_ns, ..Settings::new(vec!["10.0.0.1:7007".into()]) }
}

/// When each attempt to connect began.
fn attempts(outcome: &Outcome) -> Vec<u64> {
    let opening = |kind: &EventKind| matches!(kind, EventKind::ConnectionOpening { .. }).then_some(());
    outcome.of(opening).into_iter().map(|(at, ..)| at).collect()
}

/// The most attempts in any stretch of this length.
fn most_within(times: &[u64], window_ns: u64) -> usize {
    let within =
        |(n, from): (usize, &u64)| times[n..].iter().take_while(|at| **at < from + window_ns).count();
    times.iter().enumerate().map(within).max().unwrap_or(0)
}

tiers! {
    lost_connections_come_back_one_after_another: 300, 3_000;
    schedule_waits_for_lanes_still_connecting: 300, 3_000;
}

/// 3,000 connections that a server's restart ended came back at 11,700 attempts a second, onto a server that had just
/// risen.
fn lost_connections_come_back_one_after_another(connections: u32) {
    let both = 2 * connections as usize;
    for fault in [Fault::Reset, Fault::PeerDown(3 * S)] {
        let outcome = World::new(thousands(connections), 1).with([(20 * S, fault)]).run();
        outcome.check_laws();
        let times = attempts(&outcome);
        assert!(times.len() >= both, "{fault:?}: {} attempts", times.len());
        // 500 a second, and 50 after a while without any.
        for (window, most) in [(100 * MS, 50 + 50), (S, 500 + 50), (3 * S, 1_500 + 50)] {
            let seen = most_within(&times, window);
            assert!(seen <= most + 2, "{fault:?}: {seen} attempts in {window} ns");
        }
        let opened = |kind: &EventKind| matches!(kind, EventKind::ConnectionOpened { .. }).then_some(());
        assert_eq!(outcome.of(opened).len(), both, "{fault:?}: each is back, once");
    }
}

/// A schedule that began without those who had to wait for their turn would tell their samples as not sent.
fn schedule_waits_for_lanes_still_connecting(connections: u32) {
    let outcome = World::new(thousands(connections), 1).run();
    outcome.check_laws();
    let skipped = |kind: &EventKind| matches!(kind, EventKind::ScheduleOverrun { .. }).then_some(());
    assert_eq!(outcome.of(skipped).len(), 0);
}

/// The ceiling is what the settings say; datagrams begin with no handshake, and have none.
#[test]
fn the_ceiling_is_the_settings() {
    let slow = Settings { connect_rate: Some(10), ..thousands(100) };
    let outcome = World::new(slow, 1).with([(20 * S, Fault::Reset)]).run();
    assert_eq!(attempts(&outcome).len(), 200);
    assert!(most_within(&attempts(&outcome), S) <= 10 + 1 + 2);
    for free in [
        Settings { connect_rate: None, ..thousands(100) },
        Settings { connect_rate: Some(1), transport: Transport::Udp, ..thousands(100) },
    ] {
        let outcome = World::new(free, 1).run();
        assert_eq!(most_within(&attempts(&outcome), S), 100);
    }
}
