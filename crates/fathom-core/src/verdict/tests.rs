//! Each row of issue 14 tells its story: what was seen, and what may be said of it.

use super::*;
use crate::cause::ClosingCause as C;
use crate::peer_report::{Failure, PeerReport, Responder, Standing};

mod later;
mod senders;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// The end of every silence here, by the monotonic clock.
const END: u64 = 100 * S;
const PORT: u16 = 50_000;

/// A connection that timed out after 5 s with data unacknowledged, and nothing else known.
const DEAD: Facts = Facts {
    outcome: Outcome::Closed(C::TimedOut),
    ended_ns: END,
    opened_ns: S,
    silent_ns: 5 * S,
    round_trip_ns: MS,
    local_pause_ns: 0,
    destroyed_here: false,
    address_gone: false,
    not_an_echo: false,
    port_unreachable: false,
    remote_pause: None,
    paused_after_ns: None,
    tells_pauses: true,
    ever_answered: true,
    acknowledged: Acknowledged::No,
    room: Room::Sure,
    timeouts: 4,
    retransmits: Some(4),
    out_of_order: false,
    came_again: Some(0),
    idle: Idle { before_ns: S / 10, survived_ns: S / 10, earlier_ns: None },
    fresh: Fresh::NotTried,
    fresh_said_by: SaidBy::NotKnown,
    meanwhile: Fresh::Echoed,
    sent_since: true,
    others_lost: false,
    late: None,
    datagrams: None,
    served_by: Some(SERVED),
    answered_by: None,
    port: Some(PORT),
    reported: None,
};
const STALLED: Facts = Facts { outcome: Outcome::Recovered, ..DEAD };
const BROKEN: Facts = Facts { outcome: Outcome::Closed(C::Reset), silent_ns: 50 * MS, ..DEAD };

/// Identities: the one that served, its successor at the same place, and one at another place.
const SERVED: u32 = 1 << 14 | 7;
const SUCCESSOR: u32 = 1 << 14 | 8;
const ELSEWHERE: u32 = 2 << 14 | 7;

fn told(facts: &Facts) -> (Verdict, Option<Direction>, Option<Confidence>) {
    let explanation = explain(facts);
    assert!(!explanation.because.is_empty(), "a verdict without a reason: {explanation:?}");
    (explanation.verdict, explanation.direction, explanation.confidence)
}

fn verdict(facts: &Facts) -> Verdict {
    told(facts).0
}

#[expect(clippy::unnecessary_wraps, reason = "it reads as the field has it")]
fn late(forward_ms: u64, back_ms: u64) -> Option<Late> {
    Some(Late { forward_ns: forward_ms * MS, back_ns: back_ms * MS, calm: true })
}

/// 100 samples sent, the last answered is 59; the reflector that answers has run for `age_s` and said this 1 s after the
/// end.
fn reported(standing: Standing, last_seq: u64, identity: u32, age_s: u64) -> Reported {
    let known = standing != Standing::NotKnown;
    let responder = Responder {
        identity,
        age_ns: age_s * S,
        received_ago_ns: known.then_some(3 * S),
        paused_ago_ns: None,
        paused_ns: None,
        port: known.then_some(PORT),
        failure: None,
    };
    let report = PeerReport {
        standing,
        last_seq: known.then_some(last_seq),
        received_ns: known.then_some(0),
        unsent_bytes: known.then_some(0),
        unacked: None,
        began_ns: (!known).then_some(1_000),
        responder: Some(responder),
    };
    Reported { report, asked_ns: END + S, at_ns: END + S, first_missing: 60, sent: 100, after_end: true }
}

#[expect(clippy::unnecessary_wraps, reason = "it reads as the field has it")]
fn same(standing: Standing, last_seq: u64) -> Option<Reported> {
    Some(reported(standing, last_seq, SERVED, 1_000))
}

fn with(reported: Option<Reported>, change: impl FnOnce(&mut Responder)) -> Option<Reported> {
    let mut reported = reported?;
    let mut responder = reported.report.responder?;
    change(&mut responder);
    reported.report.responder = Some(responder);
    Some(reported)
}

#[test]
fn table_rows_are_reachable_and_consistent() {
    for (at, row) in table::TABLE.iter().enumerate() {
        assert_eq!(row.verdict == Verdict::Unknown, row.confidence == Confidence::None, "row {at}");
        assert!(row.could_be.is_empty() || row.verdict == Verdict::Unknown, "row {at}");
        assert!(row.needs.iter().all(|fact| !row.unless.contains(fact)), "row {at} forbids what it needs");
        for earlier in &table::TABLE[..at] {
            let hides =
                earlier.unless.is_empty() && earlier.needs.iter().all(|fact| row.needs.contains(fact));
            assert!(!hides, "row {at} is never reached: {:?} comes before", earlier.needs);
        }
    }
}

/// What `high` may rest on: a pause that its own clock saw, the word of the one whose it is, what was measured of the way.
#[test]
fn fresh_connection_alone_never_proves_peer_down() {
    for fresh in [Fresh::Refused, Fresh::NoHost, Fresh::NoAnswer, Fresh::Failed, Fresh::Connected] {
        // Row 6.
        let explanation = explain(&Facts { fresh, ..STALLED });
        assert_ne!(explanation.verdict, Verdict::PeerDown, "{fresh:?}");
        let (verdict, _, confidence) = told(&Facts { fresh, ..BROKEN });
        assert!(verdict != Verdict::PeerDown || confidence == Some(Confidence::Low), "{fresh:?}");
    }
    let refused = explain(&Facts { fresh: Fresh::Refused, ..DEAD });
    assert_eq!(refused.could_be, [Verdict::PathDown, Verdict::PeerDown]);
    let words = "a fresh connection was refused, by the host or by something before it";
    assert!(refused.because.iter().any(|sentence| sentence == words), "{refused:?}");
    // The reflector says itself that it ran all the time.
    for fresh in [Fresh::Refused, Fresh::NoHost] {
        let facts = Facts { fresh, reported: same(Standing::Open, 59), ..DEAD };
        assert_eq!(told(&facts), (Verdict::PathDown, Some(Direction::Forward), Some(Confidence::Medium)));
    }
}

#[test]
fn row_1_ongoing_stall_keeps_open_candidates() {
    // This flow alone gets nothing there: it may recover, or have been forgotten.
    let dead = Facts { outcome: Outcome::GoesOn, ..DEAD };
    let facts = Facts { reported: same(Standing::Open, 59), fresh: Fresh::Echoed, ..dead };
    let explanation = explain(&facts);
    assert_eq!(explanation.could_be, [Verdict::FlowForgotten, Verdict::PathDown], "{explanation:?}");
    // Nothing gets there: the reflector cannot have told of a pause that is not over.
    let facts = Facts { fresh: Fresh::NoAnswer, tells_pauses: true, ..dead };
    let explanation = explain(&facts);
    assert_eq!(explanation.could_be, [Verdict::PathDown, Verdict::PeerPaused]);
}

#[test]
fn row_2_lost_echo_is_no_pause() {
    for acknowledged in [Acknowledged::Late, Acknowledged::Alone, Acknowledged::No] {
        let seen = Facts { acknowledged, timeouts: 0, retransmits: Some(0), ..STALLED };
        // A later echo says that the reflector ran.
        let facts = Facts { late: late(1, 4_900), paused_after_ns: Some(0), ..seen };
        assert_eq!(told(&facts), (Verdict::PathDown, Some(Direction::Return), Some(Confidence::High)));
        // A pause of 60 ms in it explains nothing.
        let facts = Facts { remote_pause: Some(RemotePause { ns: 60 * MS, waited: Some(false) }), ..facts };
        assert_eq!(verdict(&facts), Verdict::PathDown);
        let facts = Facts { local_pause_ns: 60 * MS, ..facts };
        assert_eq!(verdict(&facts), Verdict::PathDown);
    }
    // Against an echo server that stamps nothing it may be either.
    let plain = Facts { tells_pauses: false, served_by: None, ..STALLED };
    let facts = Facts { acknowledged: Acknowledged::Late, timeouts: 0, retransmits: Some(0), ..plain };
    assert_eq!(explain(&facts).could_be, [Verdict::PeerPaused, Verdict::PathDown]);
}

/// STAMP: a reflector that was stopped stamps a request when it reads it. It was `path_down`, with high confidence.
#[test]
fn late_stamp_may_be_a_reflector_pause() {
    let stamp = Facts { tells_pauses: false, timeouts: 0, retransmits: None, came_again: None, ..STALLED };
    let facts = Facts { acknowledged: Acknowledged::NotKnown, late: late(4_900, 1), ..stamp };
    let explained = explain(&facts);
    assert_eq!((explained.verdict, explained.could_be.len()), (Verdict::Unknown, 2), "{explained:?}");
    assert!(explained.could_be.contains(&Verdict::PeerPaused), "{explained:?}");
    // It had read this one in time, and stood still at most between its stamp and the sending.
    let facts = Facts { late: late(1, 4_900), ..facts };
    assert_eq!(told(&facts), (Verdict::PathDown, Some(Direction::Return), Some(Confidence::Medium)));
}

#[test]
fn row_3_relay_acknowledgements_are_ignored() {
    let relayed = with(same(Standing::Open, 59), |who| who.port = Some(PORT + 1));
    let acknowledged =
        Facts { acknowledged: Acknowledged::Alone, timeouts: 0, retransmits: Some(0), ..STALLED };
    let facts = Facts { reported: relayed, ..acknowledged };
    assert_eq!(told(&facts), (Verdict::PathDown, Some(Direction::Forward), Some(Confidence::Medium)));
    // By its stamps it read the request late, and it says that it never stood still.
    let facts = Facts { late: late(4_900, 1), ..acknowledged };
    assert_eq!(told(&facts), (Verdict::PathDown, Some(Direction::Forward), Some(Confidence::Medium)));
}

#[test]
fn row_4_later_restart_leaves_cause_open() {
    let restarted = |age_s| Some(reported(Standing::NotKnown, 0, SUCCESSOR, age_s));
    let cut = Facts { fresh: Fresh::NoAnswer, meanwhile: Fresh::NotTried, ..DEAD };
    // It has run for half a second when it is asked, a second after the end.
    let mut later = reported(Standing::NotKnown, 0, SUCCESSOR, 0);
    if let Some(who) = &mut later.report.responder {
        who.age_ns = S / 2;
    }
    // The process that could tell of a pause of its host's, or of its host's end, is gone.
    let silent = explain(&Facts { reported: Some(later), ..cut });
    assert_eq!(silent.could_be, [Verdict::PathDown, Verdict::PeerDown, Verdict::PeerPaused]);
    (later.asked_ns, later.at_ns) = (later.asked_ns + 3_600 * S, later.at_ns + 3_600 * S);
    let silent = explain(&Facts { reported: Some(later), ..cut });
    assert_eq!(silent.could_be, [Verdict::PathDown, Verdict::PeerDown, Verdict::PeerPaused]);
    (later.asked_ns, later.at_ns) = (later.asked_ns - 3_600 * S, later.at_ns - 3_600 * S);
    // It had begun in the silence: the one that served the connection was gone before its end.
    let facts = Facts { reported: restarted(3), fresh: Fresh::Refused, ..cut };
    assert_eq!(told(&facts), (Verdict::PeerDown, None, Some(Confidence::High)));
    // An end that somebody made, at once, and another process there soon after.
    let facts = Facts { reported: Some(later), fresh: Fresh::Refused, ..BROKEN };
    assert_eq!(told(&facts), (Verdict::PeerDown, None, Some(Confidence::Medium)));
}

#[test]
fn row_5_other_backend_leaves_cause_unknown() {
    for facts in [BROKEN, Facts { outcome: Outcome::Closed(C::PeerClosed), ..BROKEN }, DEAD] {
        for age_s in [3, 1_000] {
            let other = Some(reported(Standing::NotKnown, 0, ELSEWHERE, age_s));
            let explanation = explain(&Facts { fresh: Fresh::Echoed, reported: other, ..facts });
            assert_eq!(explanation.verdict, Verdict::Unknown);
            assert!(explanation.could_be.contains(&Verdict::FlowForgotten), "{explanation:?}");
        }
    }
}

#[test]
fn row_7_read_after_death_gives_no_direction() {
    let read_later = with(same(Standing::Failed, 99), |who| who.received_ago_ns = Some(S / 10));
    let facts = Facts { fresh: Fresh::NoAnswer, meanwhile: Fresh::NotTried, reported: read_later, ..DEAD };
    let (verdict, direction, _) = told(&facts);
    assert_eq!((verdict, direction), (Verdict::PathDown, None));
    // The pause that it tells when it is asked covers the silence: from 6 s before the end to 500 ms after it.
    let paused =
        with(read_later, |who| (who.paused_ago_ns, who.paused_ns) = (Some(S / 2), Some(6 * S + S / 2)));
    let facts = Facts { reported: paused, ..facts };
    assert_eq!(told(&facts), (Verdict::PeerPaused, None, Some(Confidence::High)));
    // One that was over before the silence does not.
    let before = with(read_later, |who| (who.paused_ago_ns, who.paused_ns) = (Some(7 * S), Some(6 * S)));
    assert_eq!(self::verdict(&Facts { reported: before, ..facts }), Verdict::PathDown);
}

#[test]
fn row_8_pause_explains_only_what_it_covers() {
    let paused = |ns, waited| Some(RemotePause { ns, waited: Some(waited) });
    // The reflector stood still for 3 s of the 5 s, and then waited 2 s more for the request: the path was cut.
    let facts = Facts { remote_pause: paused(3 * S, false), late: late(4_900, 1), ..STALLED };
    assert_eq!(told(&facts), (Verdict::PathDown, Some(Direction::Forward), Some(Confidence::High)));
    // The request was the first that it read when it ran again.
    let facts = Facts { remote_pause: paused(4 * S, true), late: late(4_900, 1), ..STALLED };
    assert_eq!(told(&facts), (Verdict::PeerPaused, None, Some(Confidence::High)));
    // On a busy host it took its time to read the request, which was there: it had been acknowledged.
    let busy = RemotePause { ns: 4_800 * MS, waited: Some(false) };
    let facts = Facts { remote_pause: Some(busy), late: late(4_900, 1), ..STALLED };
    assert_eq!(verdict(&facts), Verdict::PathDown, "it had not arrived");
    let facts = Facts { acknowledged: Acknowledged::Alone, timeouts: 0, retransmits: Some(0), ..facts };
    assert_eq!(told(&facts), (Verdict::PeerPaused, None, Some(Confidence::High)));
    // Many short ones of this host explain no timeout of the kernel, whose timers ran.
    let facts = Facts { local_pause_ns: 4 * S, fresh: Fresh::Echoed, ..DEAD };
    assert_eq!(verdict(&facts), Verdict::FlowForgotten);
    let facts = Facts { local_pause_ns: 4 * S, timeouts: 0, retransmits: Some(0), ..STALLED };
    assert_eq!(told(&facts), (Verdict::LocalPaused, None, Some(Confidence::High)));
    // Half of a silence leaves the other half.
    let half = Facts { local_pause_ns: 5 * S / 2, timeouts: 1, ..STALLED };
    assert_ne!(verdict(&half), Verdict::LocalPaused);
    // It explains no end that came at once.
    let facts = Facts { local_pause_ns: 50 * MS, reported: same(Standing::Open, 99), ..BROKEN };
    assert_eq!(verdict(&facts), Verdict::FlowForgotten);
    // A reflector that does not say what waited.
    let older =
        Facts { remote_pause: Some(RemotePause { ns: 4_900 * MS, waited: None }), timeouts: 0, ..STALLED };
    assert_eq!(told(&older), (Verdict::PeerPaused, None, Some(Confidence::Medium)));
    assert_ne!(verdict(&Facts { timeouts: 3, ..older }), Verdict::PeerPaused);
}

#[test]
fn of_two_that_stood_still_the_longer_explains() {
    let both = |local_ns, remote_ns| Facts {
        local_pause_ns: local_ns,
        remote_pause: Some(RemotePause { ns: remote_ns, waited: Some(true) }),
        timeouts: 0,
        retransmits: Some(0),
        acknowledged: Acknowledged::Alone,
        ..STALLED
    };
    assert_eq!(verdict(&both(3 * S, 5 * S)), Verdict::PeerPaused);
    assert_eq!(verdict(&both(5 * S, 3 * S)), Verdict::LocalPaused);
    // The whole machine that both run on.
    assert_eq!(verdict(&both(5 * S, 5 * S)), Verdict::LocalPaused);
    // One after the other, each for a part.
    assert_eq!(verdict(&both(3 * S, 5 * S / 2)), Verdict::LocalPaused);
}

#[test]
fn row_9_lost_large_samples_mean_path() {
    let facts = Facts { fresh: Fresh::SmallOnly, reported: same(Standing::Open, 59), ..DEAD };
    assert_eq!(told(&facts), (Verdict::PathDown, Some(Direction::Forward), Some(Confidence::Medium)));
}

#[test]
fn row_10_idle_limit_needs_survival_or_repeat() {
    let died = |idle| verdict(&Facts { fresh: Fresh::Echoed, idle, ..DEAD });
    let idle = |before_s, survived_s| Idle {
        before_ns: before_s * S,
        survived_ns: survived_s * S,
        earlier_ns: None,
    };
    assert_eq!(died(idle(60, 10)), Verdict::IdleExpired);
    // A firewall was reloaded between the first sample and the second: nothing is known of any limit.
    assert_eq!(died(idle(3, 0)), Verdict::FlowForgotten);
    assert_eq!(died(idle(60, 60)), Verdict::FlowForgotten, "at its usual pace it was not idle");
    assert_eq!(died(idle(60, 40)), Verdict::FlowForgotten, "hardly longer than what passed");
    // The second time, and none has survived such a quiet.
    let again = Idle { earlier_ns: Some(3 * S), ..idle(3, 0) };
    assert_eq!(died(again), Verdict::IdleExpired);
    assert_eq!(died(Idle { survived_ns: 3 * S, ..again }), Verdict::FlowForgotten);
    // A RST at the limit, with nothing outstanding.
    let facts =
        Facts { idle: idle(60, 10), reported: same(Standing::Open, 59), fresh: Fresh::Echoed, ..BROKEN };
    assert_eq!(verdict(&facts), Verdict::IdleExpired);
    let facts = Facts { reported: same(Standing::ClosedIdle, 99), ..BROKEN };
    assert_eq!(told(&facts), (Verdict::IdleExpired, None, Some(Confidence::High)));
}

#[test]
fn row_11_host_destroyed_socket_is_unknown() {
    let here = Facts { destroyed_here: true, outcome: Outcome::Closed(C::LocalError), ..DEAD };
    let explanation = explain(&Facts { fresh: Fresh::Echoed, reported: same(Standing::Open, 99), ..here });
    assert_eq!(explanation.verdict, Verdict::Unknown);
    assert!(explanation.because[0].starts_with("this host's own kernel destroyed the socket"));
    let there = with(same(Standing::Failed, 99), |who| who.failure = Some(Failure::Aborted));
    let explanation = explain(&Facts { fresh: Fresh::Echoed, reported: there, ..BROKEN });
    assert_eq!(explanation.verdict, Verdict::Unknown);
    assert!(explanation.because[0].starts_with("the reflector's own host destroyed its socket"));
}

/// A connection whose own address this host no longer had got `flow_forgotten or path_down`. One whose interface was
/// down got `path_down` for certain.
#[test]
fn missing_address_or_own_route_is_local() {
    let local = (Verdict::Local, None, Some(Confidence::High));
    for facts in [DEAD, STALLED, Facts { outcome: Outcome::GoesOn, ..DEAD }] {
        for fresh in [Fresh::Echoed, Fresh::NoRoute, Fresh::NoAnswer, Fresh::NotTried] {
            assert_eq!(told(&Facts { address_gone: true, fresh, ..facts }), local, "{fresh:?}");
        }
        // The stamps of the first late echo name the way there, which began in this host.
        let no_route = Facts { fresh: Fresh::NoRoute, late: late(4_900, 0), ..facts };
        assert_eq!(told(&Facts { fresh_said_by: SaidBy::ThisHost, ..no_route }), local);
        assert_ne!(
            verdict(&Facts { fresh_said_by: SaidBy::Between([10, 0, 0, 1].into()), ..no_route }),
            Verdict::Local
        );
    }
    // What came from the network was not lost here; and a pause that covers the silence is what it was.
    assert_ne!(verdict(&Facts { address_gone: true, fresh: Fresh::Refused, ..BROKEN }), Verdict::Local);
    let paused = Facts { address_gone: true, timeouts: 0, local_pause_ns: 5 * S, ..DEAD };
    assert_eq!(verdict(&paused), Verdict::LocalPaused);
}

/// `flow_forgotten or path_down` was told of a server that sent each message twice, and whose connection the probe had ended.
#[test]
fn non_echo_peer_is_not_the_path() {
    let closed = Facts { outcome: Outcome::Closed(C::LocalError), not_an_echo: true, ..DEAD };
    for fresh in [Fresh::NotTried, Fresh::Echoed, Fresh::Connected, Fresh::Failed] {
        let explanation = explain(&Facts { fresh, ..closed });
        assert_eq!((explanation.verdict, explanation.could_be.as_slice()), (Verdict::Unknown, &[][..]));
        assert!(explanation.because[0].contains("does not echo"), "{explanation:?}");
    }
}

#[test]
fn row_14_direction_needs_nearly_all_delay() {
    let way = |late| told(&Facts { late, ..STALLED }).1;
    assert_eq!(way(late(4_900, 100)), Some(Direction::Forward));
    assert_eq!(way(late(100, 4_900)), Some(Direction::Return));
    // The request was held up, and then the reflector's kernel waited for acknowledgements that were held up too.
    assert_eq!(way(late(2_000, 3_000)), None);
    // A wait of this host's kernel for what went before looks as the way there does.
    let after_another = late(4_900, 100).map(|late| Late { calm: false, ..late });
    assert_eq!(way(after_another), None);
    // The round trip was hardly longer than usual: the silence was another's.
    assert_eq!(way(late(40, 0)), None);
}

#[test]
fn row_15_count_tells_datagram_loss_direction() {
    let udp = Facts {
        acknowledged: Acknowledged::NotKnown,
        timeouts: 0,
        retransmits: None,
        answered_by: Some(SERVED),
        ..STALLED
    };
    for (received, direction) in [(0, Some(Direction::Forward)), (9, Some(Direction::Return)), (4, None)] {
        let facts = Facts { datagrams: Some(Datagrams { missing: 9, received }), ..udp };
        assert_eq!(told(&facts), (Verdict::PathDown, direction, Some(Confidence::High)));
    }
    // Another process answers in the place of the one before.
    let facts = Facts { answered_by: Some(SUCCESSOR), ..udp };
    assert_eq!(told(&facts), (Verdict::PeerDown, None, Some(Confidence::Medium)));
    // Nothing listened: whoever says so, until the one that came after tells who it is.
    let unreachable =
        Facts { port_unreachable: true, outcome: Outcome::Closed(C::Unreachable), silent_ns: 1_000, ..udp };
    let facts = Facts { fresh: Fresh::Refused, ..unreachable };
    assert_eq!(told(&facts), (Verdict::PeerDown, None, Some(Confidence::Low)));
    let mut successor = reported(Standing::NotKnown, 0, SUCCESSOR, 0);
    if let Some(who) = &mut successor.report.responder {
        who.age_ns = S / 2;
    }
    let facts = Facts { reported: Some(successor), fresh: Fresh::Echoed, ..unreachable };
    assert_eq!(told(&facts), (Verdict::PeerDown, None, Some(Confidence::Medium)));
    let facts = Facts { reported: same(Standing::Open, 59), fresh: Fresh::Echoed, ..unreachable };
    assert_eq!(verdict(&facts), Verdict::PathDown, "it ran all the time");
}

#[test]
fn row_16_lone_acknowledgement_means_paused_peer() {
    let plain = Facts {
        tells_pauses: false,
        served_by: None,
        acknowledged: Acknowledged::Alone,
        timeouts: 0,
        retransmits: Some(0),
        ..STALLED
    };
    assert_eq!(told(&plain), (Verdict::PeerPaused, None, Some(Confidence::Medium)));
    // With later requests out, a kernel that holds echoes back behind a lost one does the same; surely so after losses.
    let likely = Facts { room: Room::Likely, ..plain };
    assert_eq!(told(&likely), (Verdict::PeerPaused, None, Some(Confidence::Low)));
    let lossy = explain(&Facts { room: Room::NotKnown, ..plain });
    assert_eq!(lossy.could_be, [Verdict::PeerPaused, Verdict::PathDown]);
    // A kernel takes connections for a service that never accepts them.
    assert_eq!(verdict(&Facts { ever_answered: false, ..plain }), Verdict::Unknown);
    // Unless later echoes had come and this one not: then it was lost.
    let (verdict, ..) = told(&Facts { out_of_order: true, ..plain });
    assert_eq!(verdict, Verdict::PathDown);
}

#[test]
fn peer_report_names_the_ending_side() {
    let facts =
        |cause, reported| Facts { outcome: Outcome::Closed(cause), fresh: Fresh::Echoed, reported, ..BROKEN };
    for (cause, standing) in [
        (C::PeerClosed, Standing::Open),
        (C::PeerClosed, Standing::ClosedByProbe),
        (C::Reset, Standing::Open),
        (C::Reset, Standing::Failed),
    ] {
        let (verdict, _, confidence) = told(&facts(cause, same(standing, 99)));
        let expected = (Verdict::FlowForgotten, Some(Confidence::Medium));
        assert_eq!((verdict, confidence), expected, "{cause} {standing:?}");
    }
    assert_eq!(verdict(&facts(C::PeerClosed, None)), Verdict::Unknown);
    assert_eq!(explain(&facts(C::Reset, None)).could_be, [Verdict::FlowForgotten, Verdict::PeerDown]);
    // Messages without a header: nobody knows whose the connection was, and the reflector began when it had ended.
    let mut began = reported(Standing::NotKnown, 0, SUCCESSOR, 0);
    if let Some(who) = &mut began.report.responder {
        who.age_ns = S / 2;
    }
    let small = Facts { served_by: None, ..facts(C::Reset, Some(began)) };
    assert_eq!(told(&small), (Verdict::PeerDown, None, Some(Confidence::Medium)));
    let old = Some(reported(Standing::NotKnown, 0, SUCCESSOR, 1_000));
    assert_eq!(verdict(&Facts { served_by: None, ..facts(C::Reset, old) }), Verdict::Unknown);
}

#[test]
fn docs_verdicts_md_has_this_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/verdicts.md");
    let text = std::fs::read_to_string(path).expect("docs/verdicts.md");
    let (begin, end) = ("<!-- the table, by make verdicts-table -->\n", "<!-- end of the table -->");
    let at = text.find(begin).expect("the beginning of the table") + begin.len();
    let to = text.find(end).expect("its end");
    if std::env::var_os("FATHOM_WRITE_DOCS").is_some() {
        let new = format!("{}{}{}", &text[..at], markdown(), &text[to..]);
        std::fs::write(path, new).expect("docs/verdicts.md is written");
        return;
    }
    assert!(text[at..to] == markdown(), "run `make verdicts-table`");
}
