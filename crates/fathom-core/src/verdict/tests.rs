use super::*;
use crate::peer_report::PeerReport;

const S: u64 = 1_000_000_000;

/// A connection that timed out after 5 s with data unacknowledged, and nothing else known.
const DEAD: Facts = Facts {
    outcome: Outcome::Closed(ClosingCause::TimedOut),
    silent_ns: 5 * S,
    local_pause_ns: 0,
    remote_pause_ns: None,
    unacked: Some(3),
    retransmits: Some(4),
    timeouts: 0,
    idle_ns: S / 10,
    idle_survived_ns: S / 10,
    fresh: Fresh::NotTried,
    others_lost: false,
    delays_ns: None,
    reported: None,
};
const STALLED: Facts = Facts { outcome: Outcome::Recovered, ..DEAD };

fn verdict(facts: &Facts) -> Verdict {
    let explanation = explain(facts);
    assert!(!explanation.because.is_empty(), "a verdict without a reason: {explanation:?}");
    explanation.verdict
}

#[test]
fn each_row_of_the_table() {
    use ClosingCause as C;
    let closed = |cause| Outcome::Closed(cause);
    for (facts, expected) in [
        (Facts { local_pause_ns: 3 * S, fresh: Fresh::Echoed, ..DEAD }, Verdict::LocalPaused),
        (Facts { remote_pause_ns: Some(4 * S), ..STALLED }, Verdict::PeerPaused),
        (Facts { unacked: Some(0), retransmits: Some(0), ..STALLED }, Verdict::PeerPaused),
        (
            Facts { outcome: closed(C::PeerClosed), fresh: Fresh::Refused, unacked: Some(0), ..DEAD },
            Verdict::PeerDown,
        ),
        (Facts { fresh: Fresh::NoHost, ..DEAD }, Verdict::PeerDown),
        (Facts { fresh: Fresh::NoAnswer, ..DEAD }, Verdict::PathDown),
        (Facts { fresh: Fresh::NoRoute, ..DEAD }, Verdict::PathDown),
        (Facts { fresh: Fresh::Forbidden, ..DEAD }, Verdict::PathDown),
        (Facts { fresh: Fresh::Echoed, idle_ns: 60 * S, ..DEAD }, Verdict::IdleExpired),
        (
            Facts { outcome: closed(C::Reset), fresh: Fresh::Echoed, idle_ns: 60 * S, ..DEAD },
            Verdict::IdleExpired,
        ),
        (Facts { fresh: Fresh::Echoed, ..DEAD }, Verdict::FlowForgotten),
        (Facts { fresh: Fresh::Echoed, others_lost: true, ..DEAD }, Verdict::PathDown),
        (
            Facts { outcome: closed(C::Reset), fresh: Fresh::Echoed, unacked: Some(0), ..DEAD },
            Verdict::FlowForgotten,
        ),
        (Facts { outcome: closed(C::PeerClosed), fresh: Fresh::Echoed, ..DEAD }, Verdict::Unknown),
        (STALLED, Verdict::PathDown),
        (DEAD, Verdict::Unknown),
        (Facts { fresh: Fresh::Connected, ..DEAD }, Verdict::Unknown),
        (Facts { fresh: Fresh::Failed, ..DEAD }, Verdict::Unknown),
        (Facts { retransmits: None, unacked: None, ..STALLED }, Verdict::Unknown),
    ] {
        assert_eq!(verdict(&facts), expected, "{facts:?}");
    }
}

#[test]
fn a_short_pause_does_not_explain_a_long_silence() {
    assert_eq!(verdict(&Facts { local_pause_ns: S, fresh: Fresh::Echoed, ..DEAD }), Verdict::FlowForgotten);
    assert_eq!(verdict(&Facts { remote_pause_ns: Some(S), ..STALLED }), Verdict::PathDown);
}

#[test]
fn a_pause_does_not_explain_an_end_that_came_at_once() {
    let reset = Outcome::Closed(ClosingCause::Reset);
    let facts =
        Facts { outcome: reset, silent_ns: S / 50, local_pause_ns: S / 50, fresh: Fresh::Echoed, ..DEAD };
    assert_eq!(verdict(&facts), Verdict::FlowForgotten);
}

#[test]
fn of_two_that_stood_still_the_longer_explains() {
    let both = |local_pause_ns, remote| Facts { local_pause_ns, remote_pause_ns: Some(remote), ..STALLED };
    assert_eq!(verdict(&both(3 * S, 5 * S)), Verdict::PeerPaused);
    assert_eq!(verdict(&both(5 * S, 3 * S)), Verdict::LocalPaused);
    // The whole machine that both run on.
    assert_eq!(verdict(&both(5 * S, 5 * S)), Verdict::LocalPaused);
}

#[test]
fn acknowledgements_after_timeouts_are_a_path_that_came_back() {
    // They pass again, and what the peer had sent and lost it sends again only later.
    let facts = Facts { unacked: Some(0), timeouts: 3, ..STALLED };
    assert_eq!(verdict(&facts), Verdict::PathDown);
}

#[test]
fn a_connection_at_its_usual_pace_was_not_idle() {
    let once_a_minute = Facts { fresh: Fresh::Echoed, idle_ns: 60 * S, idle_survived_ns: 60 * S, ..DEAD };
    assert_eq!(verdict(&once_a_minute), Verdict::FlowForgotten);
}

#[test]
fn stamps_tell_the_direction() {
    let direction = |delays| explain(&Facts { delays_ns: Some(delays), ..STALLED }).direction;
    assert_eq!(direction((5 * S as i64, 0)), Some(Direction::Forward));
    assert_eq!(direction((0, 5 * S as i64)), Some(Direction::Return));
    assert_eq!(direction((S as i64, S as i64)), None);
    assert_eq!(explain(&STALLED).direction, None);
}

/// 100 samples sent, the last answered is 59, and the reflector says this; it began before the connection did.
fn reported(standing: Standing, last_seq: Option<u64>) -> Reported {
    let known = standing != Standing::NotKnown;
    let report = PeerReport {
        standing,
        last_seq,
        received_ns: known.then_some(0),
        unsent_bytes: known.then_some(0),
        unacked: None,
        began_ns: (!known).then_some(1_000),
    };
    Reported { report, first_missing: 60, sent: 100, opened_there_ns: Some(2_000) }
}

fn dead(cause: ClosingCause, fresh: Fresh, reported: Reported) -> Facts {
    Facts { outcome: Outcome::Closed(cause), fresh, reported: Some(reported), ..DEAD }
}

#[test]
fn the_peer_report_tells_the_direction_of_stalls_and_ends() {
    let stalled = Facts { fresh: Fresh::Echoed, ..STALLED };
    let no_answer = Facts { fresh: Fresh::NoAnswer, ..DEAD };
    let forgotten = Facts { fresh: Fresh::Echoed, ..DEAD };
    for (facts, verdict) in [
        (stalled, Verdict::PathDown),
        (no_answer, Verdict::PathDown),
        (forgotten, Verdict::FlowForgotten),
        (Facts { idle_ns: 60 * S, ..forgotten }, Verdict::IdleExpired),
        // UDP: no kernel sends again, and the stall is over.
        (Facts { retransmits: None, unacked: None, ..stalled }, Verdict::PathDown),
    ] {
        for (last_seq, direction) in
            [(59, Direction::Forward), (60, Direction::Return), (99, Direction::Return)]
        {
            let facts = Facts { reported: Some(reported(Standing::Open, Some(last_seq))), ..facts };
            let explanation = explain(&facts);
            assert_eq!((explanation.verdict, explanation.direction), (verdict, Some(direction)), "{facts:?}");
        }
    }
}

#[test]
fn a_peer_report_about_nothing_missing_tells_no_direction() {
    let all_answered = Reported { first_missing: 100, ..reported(Standing::Open, Some(99)) };
    let facts = dead(ClosingCause::TimedOut, Fresh::NoAnswer, all_answered);
    assert_eq!(explain(&facts).direction, None);
    assert!(explain(&facts).because.iter().any(|fact| fact == "which way was lost is not known"));
}

#[test]
fn peer_report_and_stamps_that_differ_tell_no_direction() {
    let report = Some(reported(Standing::Open, Some(59)));
    let way =
        |delays_ns| explain(&Facts { reported: report, delays_ns: Some(delays_ns), ..STALLED }).direction;
    assert_eq!(way((5 * S as i64, 0)), Some(Direction::Forward));
    assert_eq!(way((0, 5 * S as i64)), None);
    assert_eq!(way((0, 0)), Some(Direction::Forward), "stamps that say nothing contradict nothing");
}

#[test]
fn who_ended_it_by_the_peer_report() {
    use ClosingCause as C;
    let not_known = |began_ns| {
        let mut reported = reported(Standing::NotKnown, None);
        reported.report.began_ns = Some(began_ns);
        reported
    };
    for (facts, expected) in [
        (dead(C::PeerClosed, Fresh::Echoed, reported(Standing::ClosedIdle, Some(99))), Verdict::IdleExpired),
        (dead(C::PeerClosed, Fresh::Echoed, reported(Standing::Open, Some(99))), Verdict::FlowForgotten),
        (
            dead(C::PeerClosed, Fresh::Echoed, reported(Standing::ClosedByProbe, Some(99))),
            Verdict::FlowForgotten,
        ),
        (dead(C::Reset, Fresh::Echoed, reported(Standing::Open, Some(99))), Verdict::FlowForgotten),
        // Started anew; or another one behind the same address.
        (dead(C::PeerClosed, Fresh::Echoed, not_known(3_000)), Verdict::PeerDown),
        (dead(C::Reset, Fresh::Echoed, not_known(3_000)), Verdict::PeerDown),
        (dead(C::TimedOut, Fresh::NoAnswer, not_known(3_000)), Verdict::PeerDown),
        (dead(C::TimedOut, Fresh::NoRoute, not_known(3_000)), Verdict::PathDown),
        (dead(C::PeerClosed, Fresh::Echoed, not_known(1_000)), Verdict::Unknown),
        (dead(C::Reset, Fresh::Echoed, not_known(1_000)), Verdict::FlowForgotten),
    ] {
        assert_eq!(verdict(&facts), expected, "{facts:?}");
    }
}

#[test]
fn echoes_that_are_lost_while_acknowledgements_pass_are_no_pause() {
    let with = |last_seq, unacked| {
        let mut reported = reported(Standing::Open, Some(last_seq));
        reported.report.unacked = unacked;
        explain(&Facts { unacked: Some(0), retransmits: Some(0), reported: Some(reported), ..STALLED })
    };
    assert_eq!(with(59, Some(0)).verdict, Verdict::PeerPaused, "it has not read what its kernel has");
    let lost = with(99, Some(3));
    assert_eq!((lost.verdict, lost.direction), (Verdict::PathDown, Some(Direction::Return)));
    assert_eq!(with(99, None).verdict, Verdict::Unknown);
}
