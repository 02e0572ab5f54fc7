//! Maintenance that the reflector's cloud announced, learned through canaries.

use super::hand::{Hand, MS, S, START, settings};
use fathom_core::event::EventKind;
use fathom_core::probe::{LinkId, Settings, Transport};
use fathom_core::schedule::Pace;
use fathom_wire::{About, Announced, Answer, ConnectionView, Introduction, Reply, Stamper};
use std::io::ErrorKind;

const STARTED: Announced = Announced {
    cloud: 1,
    what: 1,
    key: 7,
    begins_in_ms: Some(-60_000),
    started_ago_ms: Some(2_000),
    gone_ago_ms: None,
    lasts_ms: Some(5_000),
};

/// Echoes of a reflector with its identity, and with this answer about notices; `None`: it does not know that question.
#[expect(clippy::option_option, reason = "no answer, an answer that nothing is announced, one with a notice")]
fn echoed(mut bytes: Vec<u8>, notice: Option<Option<Announced>>) -> Vec<u8> {
    let view = ConnectionView { identity: 1 << 14 | 7, tells_pauses: true, ..ConnectionView::default() };
    Stamper::default().pass_answering(view, &mut bytes, |question| {
        Some(match (question.about, notice) {
            (About::Connection, _) => Reply::Connection(Answer::default()),
            (About::Notices, Some(notice)) => Reply::Notice(notice),
            (About::Reflector | About::Notices, _) => Reply::Reflector(Introduction::default()),
        })
    });
    bytes
}

fn served() -> (Hand, LinkId) {
    let mut hand = Hand::connected(Settings { pace: Pace::Every(100 * MS), ..settings(Transport::Tcp) });
    let lane = hand.lanes[0];
    for _ in 0..3 {
        hand.until(hand.now + 100 * MS);
        let sent = hand.sent_on(lane).concat();
        hand.receives(lane, &echoed(sent, None));
    }
    (hand, lane)
}

/// State and beginning (seconds before now) of each recorded notice of the reflector's host.
fn told(hand: &Hand) -> Vec<(String, i64)> {
    let told = hand.events.iter().filter_map(|event| {
        let EventKind::Maintenance { host, cloud, what, state, not_before, .. } = &event.kind else {
            return None;
        };
        assert_eq!((host.as_str(), cloud.as_str(), what.as_str()), ("remote", "azure", "Freeze"));
        let utc_ns = START.utc_ns + (event.mono_ns - START.mono_ns) as i64;
        let begins_ns = not_before.expect("it is known").as_nanosecond() as i64;
        Some((state.clone(), (utc_ns - begins_ns) / S as i64))
    });
    told.collect()
}

/// Each death asks. Each state of a notice is recorded once, and an older reflector does not know the question.
#[test]
fn each_state_of_remote_notice_is_told_once() {
    let (mut hand, _) = served();
    let gone = Announced { gone_ago_ms: Some(1_000), started_ago_ms: Some(9_000), ..STARTED };
    for notice in [None, Some(None), Some(Some(STARTED)), Some(Some(STARTED)), Some(Some(gone))] {
        let lane = *hand.lanes.back().expect("a lane");
        hand.breaks(lane, ErrorKind::ConnectionReset);
        let (_, canary) = *hand.canaries.last().expect("a death is asked about");
        hand.connects(canary);
        let asked = hand.sent_on(canary).concat();
        assert_eq!(asked.len(), 4 * 64, "a sample and three questions");
        hand.receives(canary, &echoed(asked, notice));
        hand.until(hand.now + 30 * S);
        let lane = *hand.lanes.back().expect("a lane");
        hand.connects(lane);
        let sent = hand.sent_on(lane).concat();
        hand.receives(lane, &echoed(sent, None));
    }
    assert_eq!(told(&hand), [("started".to_owned(), 2), ("gone".to_owned(), 9)]);
}

/// A host that stood still for longer than a canary waits was never asked.
#[test]
fn notice_is_asked_for_after_unanswered_canary() {
    let (mut hand, lane) = served();
    let mut held = Vec::new();
    for _ in 0..70 {
        hand.until(hand.now + 100 * MS);
        held.extend(hand.sent_on(lane).concat());
    }
    assert_eq!((hand.canaries.len(), hand.closed.len()), (1, 1), "it had no answer");
    hand.receives(lane, &echoed(held, None));
    let (_, canary) = hand.canaries[1];
    hand.connects(canary);
    let asked = hand.sent_on(canary).concat();
    assert_eq!(asked.len(), 2 * 64, "a sample and a question");
    hand.receives(canary, &echoed(asked, Some(Some(STARTED))));
    assert_eq!(told(&hand), [("started".to_owned(), 2)]);
    assert_eq!(hand.closed.last().map(|(_, link)| *link), Some(canary));
}
