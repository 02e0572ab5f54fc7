use super::*;
use crate::event::Evidence;

const S: u64 = 1_000_000_000;

fn event(at_s: u64, connection: Option<u32>, kind: EventKind) -> Event {
    let at = Timestamp::from_second(at_s as i64).unwrap();
    Event { at, mono_ns: at_s * S, connection, kind }
}

fn opening(at_s: u64) -> Event {
    let [target, remote] = ["t", "r"].map(String::from);
    event(at_s, None, EventKind::ConnectionOpening { target, remote, attempt: 1, lane: Some(0) })
}

fn refused(at_s: u64) -> Event {
    failed(at_s, None, false)
}

fn failed(at_s: u64, waited_s: Option<u64>, local: bool) -> Event {
    let (target, error) = ("t".to_owned(), "refused".to_owned());
    let kind = EventKind::ConnectionRefused {
        target,
        remote: None,
        errno: None,
        error,
        retry_in_ns: Some(S),
        waited_ns: waited_s.map(|s| s * S),
        local,
        lane: Some(0),
    };
    event(at_s, None, kind)
}

fn unanswered(at_s: u64, waited_s: u64) -> Event {
    let (target, remote) = ("t".to_owned(), "10.0.0.9:7".to_owned());
    let (attempts, waited_ns, latest_waited_ns) = (2, waited_s * S, S);
    let kind = EventKind::ConnectionUnanswered { target, remote, attempts, waited_ns, latest_waited_ns };
    event(at_s, None, kind)
}

fn spans(outages: &Outages) -> Vec<(u64, u64, bool)> {
    let span = |outage: &Outage| (outage.began_ns / S, outage.lasted_ns(99 * S) / S, outage.local);
    outages.all().iter().map(span).collect()
}

/// A datagram socket.
fn bound(at_s: u64, connection: u32) -> Event {
    established(at_s, connection, 0)
}

fn opened(at_s: u64, connection: u32) -> Event {
    established(at_s, connection, 1_000)
}

fn established(at_s: u64, connection: u32, connect_ns: i64) -> Event {
    let [target, local, remote] = ["t", "l", "r"].map(String::from);
    let kind = EventKind::ConnectionOpened {
        target,
        local,
        remote,
        connect_ns,
        tls_ns: None,
        interface: None,
        lane: Some(0),
    };
    event(at_s, Some(connection), kind)
}

fn closed(at_s: u64, connection: u32, cause: ClosingCause, answered: u64, silent_s: Option<u64>) -> Event {
    let silent_ns = silent_s.map(|s| s * S);
    let evidence =
        Evidence { sent: 9, answered, outstanding: 9 - answered, silent_ns, ..Evidence::default() };
    let kind = EventKind::ConnectionClosed { cause, verdict: None, errno: None, age_ns: 2 * S, evidence };
    event(at_s, Some(connection), kind)
}

fn told(events: &[Event]) -> Outages {
    let mut outages = Outages::default();
    for event in events {
        outages.event(event);
    }
    outages
}

/// From the last byte to the connection that answers again; the peer was back at the earliest when the latest attempt that
/// failed was begun.
#[test]
fn outage_spans_last_byte_to_answering_connection() {
    let outages = told(&[
        opening(1),
        opened(1, 0),
        closed(10, 0, ClosingCause::Reset, 9, Some(3)),
        opening(11),
        refused(12),
        opening(14),
        opened(15, 1),
        closed(20, 1, ClosingCause::Finished, 9, Some(0)),
    ]);
    let end = Some(OutageEnd { connection: Some(1), at_ns: 15 * S, uncertain_ns: 4 * S });
    let began_at = Timestamp::from_second(7).unwrap();
    let cause = Some(ClosingCause::Reset);
    assert_eq!(outages.all(), [Outage { connection: Some(0), cause, end, ..Outage::since(began_at, 7 * S) }]);
    assert_eq!((outages.current(), outages.lost_for_good()), (None, None));
    assert_eq!(outages.all()[0].lasted_ns(99 * S), 8 * S);
}

#[test]
fn what_never_comes_back_is_lost_for_good() {
    let lost = [opening(1), opened(1, 0), closed(3, 0, ClosingCause::Reset, 9, Some(0))];
    assert_eq!(told(&lost).lost_for_good(), None, "nobody has tried to come back yet");
    let outages = told(&[&lost[..], &[opening(4), refused(4), opening(6), refused(6)]].concat());
    assert_eq!(outages.lost_for_good(), outages.current());
    assert_eq!(outages.current().map(|o| (o.began_ns, o.lasted_ns(12 * S))), Some((3 * S, 9 * S)));
}

/// Over UDP each attempt is "established" at once, and lost with the next ICMP message.
#[test]
fn a_connection_that_answers_nothing_ends_no_outage() {
    let mut events = vec![opening(1), bound(1, 0), closed(3, 0, ClosingCause::Unreachable, 9, Some(0))];
    for at in 4..9 {
        let connection = at as u32 - 3;
        let end = closed(at + 1, connection, ClosingCause::Unreachable, 0, None);
        events.extend([opening(at), bound(at, connection), end]);
    }
    assert_eq!(told(&events).all().len(), 1);
    assert!(told(&events).lost_for_good().is_some_and(|o| o.began_ns == 3 * S));
    events.extend([opening(10), bound(10, 7), closed(12, 7, ClosingCause::Finished, 5, Some(0))]);
    let outages = told(&events).all();
    let end = Some(OutageEnd { connection: Some(7), at_ns: 10 * S, uncertain_ns: S });
    assert_eq!((outages.len(), outages[0].began_ns, outages[0].end), (1, 3 * S, end));
    // The last one was sent on, and nothing came back until the run ended.
    let last = events.len() - 1;
    events[last] = closed(12, 7, ClosingCause::Finished, 0, None);
    assert!(told(&events).lost_for_good().is_some(), "nobody accepted it");
    events[last - 1] = opened(10, 7);
    assert!(told(&events).lost_for_good().is_none(), "it was accepted, and had no time to answer");
    let stall = EventKind::StallBegan { seq: 0, outstanding: 1, threshold_ns: S };
    events.insert(last, event(11, Some(7), stall));
    assert!(told(&events).lost_for_good().is_some());
}

#[test]
fn only_silence_to_the_end_is_outage() {
    let stall = EventKind::StallBegan { seq: 4, outstanding: 1, threshold_ns: S };
    let over = EventKind::StallEnded { duration_ns: S, samples: 1, recovered: true, retransmits: None };
    let end = closed(12, 0, ClosingCause::Finished, 4, Some(8));
    let silent = [opening(1), opened(1, 0), event(5, Some(0), stall), end];
    let outages = told(&silent);
    assert_eq!(outages.all().len(), 1);
    assert_eq!((outages.all()[0].began_ns, outages.all()[0].cause), (4 * S, None));
    assert_eq!(outages.lost_for_good(), None, "the connection was there to the end");
    let mut recovered = silent.to_vec();
    recovered.insert(3, event(9, Some(0), over));
    assert!(told(&recovered).all().is_empty());
}

#[test]
fn weeks_of_outages_take_bounded_memory() {
    let mut outages = Outages::default();
    outages.event(&opened(1, 0));
    for n in 0..3_000 {
        let at = 2 + 3 * u64::from(n);
        for event in [closed(at, n, ClosingCause::Reset, 9, Some(0)), opening(at + 1), opened(at + 2, n + 1)]
        {
            outages.event(&event);
        }
    }
    assert_eq!((outages.all().len(), outages.omitted()), (OUTAGES_KEPT + 1, 3_000 - 1_001));
}

/// A server closes what is idle for a second, and samples are due every three: each connection between was there and was asked
/// nothing. Three outages of 2.2 s were told of a path that answered every sample.
#[test]
fn unused_connection_is_not_an_outage() {
    let unasked = |at_s: u64, connection, age_ns| {
        let cause = ClosingCause::PeerClosed;
        let kind = EventKind::ConnectionClosed {
            cause,
            verdict: None,
            errno: None,
            age_ns,
            evidence: Evidence::default(),
        };
        event(at_s, Some(connection), kind)
    };
    let events = |age_ns| {
        [
            opened(1, 0),
            closed(10, 0, ClosingCause::PeerClosed, 9, Some(1)),
            opening(11),
            opened(11, 1),
            unasked(14, 1, age_ns),
            opening(15),
            opened(15, 2),
            closed(20, 2, ClosingCause::Finished, 9, Some(0)),
        ]
    };
    let spans = |age_ns| {
        let all = told(&events(age_ns)).all();
        all.iter().map(|o| (o.connection, o.began_ns / S, o.lasted_ns(99 * S) / S)).collect::<Vec<_>>()
    };
    assert_eq!(spans(3 * S), [(Some(0), 9, 2), (Some(1), 14, 1)]);
    // What accepts and closes at once, as a proxy before a dead server does, was not there.
    assert_eq!(spans(S / 1_000), [(Some(0), 9, 6)]);
}

/// Attempts that had hung for two minutes were "not over after 0ns". One that failed late, after others were made,
/// began another outage.
#[test]
fn outage_begins_with_first_failed_attempt() {
    let hung = told(&[opened(5, 0), unanswered(12, 2), unanswered(18, 8), opened(20, 1)]);
    assert_eq!(spans(&hung), [(10, 10, false)]);
    let outage = &hung.all()[0];
    assert_eq!(outage.remote.as_deref(), Some("10.0.0.9:7"));
    assert_eq!(
        outage.end.map(|end| end.uncertain_ns),
        Some(3 * S),
        "the latest had waited for a second at 18"
    );
    let failed_alone = told(&[opened(5, 0), failed(50, Some(40), false)]);
    assert_eq!(spans(&failed_alone), [(10, 89, false)]);
    let late = told(&[opened(5, 0), unanswered(12, 2), opened(20, 1), failed(50, Some(40), false)]);
    assert_eq!(spans(&late), [(10, 10, false)], "a connection was made since it was begun");
}

/// This host's failures have outages of their own; all outages together cover the same time.
#[test]
fn local_and_remote_outages_stay_apart() {
    let outages = told(&[
        opened(1, 0),
        closed(10, 0, ClosingCause::Reset, 9, Some(2)),
        failed(11, Some(0), true),
        failed(13, Some(0), true),
        refused(15),
        refused(16),
        opened(20, 1),
    ]);
    assert_eq!(spans(&outages), [(8, 3, false), (11, 4, true), (15, 5, false)]);
    assert!(outages.all().iter().all(|outage| outage.connection == Some(0)), "the same one is missing");
    assert!(outages.lost_for_good().is_none());
    let lost = told(&[
        opened(1, 0),
        closed(10, 0, ClosingCause::Reset, 9, Some(2)),
        opening(11),
        failed(11, None, true),
    ]);
    assert!(lost.lost_for_good().is_some_and(|outage| outage.local));
}
