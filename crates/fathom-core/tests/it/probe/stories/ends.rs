//! Runs that a user ends: what is in flight then is neither answered nor lost.

use super::every;
use crate::world::{Fault, MS, Outcome, S, World};
use fathom_core::probe::{Request, Settings, Transport};

const RTT_NS: u64 = 400 * MS;

/// Rows with and without an answer, and samples in flight at the end.
fn counts(outcome: &Outcome) -> (usize, usize, u64) {
    let answered = outcome.samples.iter().filter(|(_, sample)| sample.rtt_ns.is_some()).count();
    (answered, outcome.samples.len() - answered, outcome.in_flight().values().sum())
}

/// The user asks twice at the same moment: the run ends at once.
fn ended_at_once(settings: Settings, at_ns: u64, faults: &[(u64, Fault)]) -> Outcome {
    let mut world = World::new(settings, 1).with(faults.iter().copied());
    world.rtt_ns = RTT_NS;
    world.stops = [at_ns, at_ns].into();
    let outcome = world.run();
    outcome.check_laws();
    outcome
}

#[test]
fn samples_in_flight_are_not_lost() {
    let tcp = every(100 * MS, 60 * S);
    let udp = Settings { transport: Transport::Udp, ..tcp.clone() };
    let connect = Settings { request: Request::Connect { tls: false }, ..tcp.clone() };
    for settings in [tcp, udp, connect] {
        let what = format!("{:?} {:?}", settings.transport, settings.request);
        let (answered, unanswered, in_flight) = counts(&ended_at_once(settings, 5 * S + 50 * MS, &[]));
        assert!(answered > 40, "{what}: {answered} answered");
        // Of those sent in the last 400 ms, each 100 ms after the one before.
        assert_eq!((unanswered, in_flight), (0, RTT_NS / (100 * MS)), "{what}");
    }
}

/// From the 4th second on nothing comes back. The run ends in the 12th: samples sent before the 7th have waited for
/// longer than the time-out of 5 s.
#[test]
fn samples_beyond_timeout_are_lost() {
    let silence = [(4 * S, Fault::Silence(1_000 * S))];
    for transport in [Transport::Tcp, Transport::Udp] {
        let settings = Settings { transport, ..every(100 * MS, 60 * S) };
        let outcome = ended_at_once(settings, 12 * S, &silence);
        let (_, unanswered, in_flight) = counts(&outcome);
        assert!((28..=36).contains(&unanswered), "{transport:?}: {unanswered} unanswered");
        assert!((48..=51).contains(&in_flight), "{transport:?}: {in_flight} in flight");
        assert_eq!(outcome.stalls(), 1, "{transport:?}");
    }
}

/// Echoes of later samples arrived, so the missing one was lost on its way.
#[test]
fn datagram_lost_before_others_is_lost() {
    let settings = Settings { transport: Transport::Udp, ..every(100 * MS, 60 * S) };
    let mut world = World::new(settings, 1);
    (world.rtt_ns, world.lose) = (RTT_NS, vec![40]);
    world.stops = [5 * S, 5 * S].into();
    let outcome = world.run();
    outcome.check_laws();
    let (_, unanswered, in_flight) = counts(&outcome);
    assert_eq!(unanswered, 1);
    assert!((3..=5).contains(&in_flight), "{in_flight}");
}
