//! What a reflector says of a connection, by when it was asked and when its reply comes.

use super::hand::{Hand, MS, S, settings};
use fathom_core::peer_report::Standing as Known;
use fathom_core::probe::{LinkId, Settings, Transport};
use fathom_core::schedule::Pace;
use fathom_core::verdict::{Confidence, Direction, Fresh, Verdict};
use fathom_wire::{About, Answer, ConnectionView, Introduction, Reply, Stamper, Standing};
use std::io::ErrorKind;

const SERVED: u32 = 1 << 14 | 7;
const SUCCESSOR: u32 = 1 << 14 | 8;

/// A reflector's echo of these bytes, whose answers to questions say this of the connection, and this of itself.
fn answered(mut bytes: Vec<u8>, answer: Answer, introduction: Introduction) -> Vec<u8> {
    Stamper::default().pass_answering(ConnectionView::default(), &mut bytes, |question| {
        Some(match question.about {
            About::Connection => Reply::Connection(answer),
            About::Reflector | About::Notices => Reply::Reflector(introduction),
        })
    });
    bytes
}

/// Two silences of one connection, each of which lasts so many tenths of a second and ends by all echoes; the reflector got each
/// request at once, and all was held up on the way back. What it says of the first silence comes `later` tenths of a
/// second into the second one. What the explanations say: the direction that each names.
fn held_up_answer(first: u64, later: u64, second: u64) -> Vec<Option<Direction>> {
    let pace = Pace::Every(100 * MS);
    let stall_after_ns = Some(300 * MS);
    let mut hand = Hand::connected(Settings { pace, stall_after_ns, ..settings(Transport::Tcp) });
    let lane = hand.lanes[0];
    let (mut sent, mut reply) = (0, None);
    for silence in [1, first, 1, second] {
        let mut echoes = Vec::new();
        for tenth in 0..silence {
            hand.until(hand.now + 100 * MS);
            let messages = hand.sent_on(lane);
            sent += messages.len() as u64;
            echoes.extend(messages.concat());
            if let Some(&(_, canary)) = hand.canaries.first()
                && reply.is_none()
            {
                hand.connects(canary);
                let asked = hand.sent_on(canary).concat();
                let answer = Answer { standing: Standing::Open, last_seq: sent - 1, ..Answer::default() };
                reply = Some((canary, answered(asked, answer, Introduction::default())));
            }
            if silence == second
                && tenth == later
                && let Some((canary, bytes)) = &reply
            {
                hand.receives(*canary, &bytes.clone());
            }
        }
        hand.receives(lane, &answered(echoes, Answer::default(), Introduction::default()));
    }
    hand.until(hand.now + 60 * S);
    hand.explained().iter().map(|it| it.explanation.direction).collect()
}

/// A reflector was asked about a silence, and its answer came in the next one: of that it could not know, and its "up to this
/// request" was taken for "none of the missing ones". It had received each.
#[test]
fn answer_about_earlier_silence_is_ignored() {
    for first in [11, 12, 13] {
        for later in [1, 9, 11, 12] {
            let told = held_up_answer(first, later, 14);
            assert_eq!(told.len(), 2, "two silences: {told:?}");
            assert!(!told.contains(&Some(Direction::Forward)), "{first}, {later}: {told:?}");
        }
    }
}

/// The one lane, which was served by [`SERVED`], breaks after 300 ms.
fn served_and_broken() -> (Hand, LinkId) {
    let mut hand = Hand::connected(Settings { pace: Pace::Every(100 * MS), ..settings(Transport::Tcp) });
    for _ in 0..3 {
        hand.until(hand.now + 100 * MS);
        let mut echo = hand.sent_on(hand.lanes[0]).concat();
        let view = ConnectionView { identity: SERVED, tells_pauses: true, ..ConnectionView::default() };
        Stamper::default().pass_answering(view, &mut echo, |_| None);
        hand.receives(hand.lanes[0], &echo);
    }
    hand.breaks(hand.lanes[0], ErrorKind::ConnectionReset);
    let (_, canary) = hand.canaries[0];
    hand.connects(canary);
    (hand, canary)
}

/// A reply that took three seconds says "I have run for two seconds": the reflector began after the connection's end, or before
/// the connection was made. At once it says which.
#[test]
fn reply_time_lies_between_question_and_arrival() {
    for (takes, age_ns, verdict) in [
        (0, 0, (Verdict::PeerDown, Some(Confidence::Medium))),
        (0, 100 * MS, (Verdict::PeerDown, Some(Confidence::High))),
        (3 * S, 2 * S, (Verdict::Unknown, Some(Confidence::None))),
    ] {
        let (mut hand, canary) = served_and_broken();
        let messages = hand.sent_on(canary);
        let introduction = Introduction { age_ns, identity: SUCCESSOR, ..Introduction::default() };
        let reply = answered(messages.concat(), Answer::default(), introduction);
        hand.until(hand.now + takes);
        hand.receives(canary, &reply);
        hand.until(hand.now + 60 * S);
        let explained = hand.explained();
        assert_eq!(explained[0].fresh, Fresh::Echoed);
        let told = (explained[0].explanation.verdict, explained[0].explanation.confidence);
        assert_eq!(told, verdict, "after {takes} ns: {explained:?}");
    }
}

/// A silence is asked about, the connection dies, and then the reply comes: it was given before the end or after, and says nothing of
/// who ended it. The question is asked again, and that reply does.
#[test]
fn reply_to_earlier_question_leaves_cause_unknown() {
    for answered_again in [false, true] {
        let mut hand = Hand::connected(Settings { pace: Pace::Every(100 * MS), ..settings(Transport::Tcp) });
        let lane = hand.lanes[0];
        for _ in 0..12 {
            hand.until(hand.now + 100 * MS);
            hand.sent_on(lane);
        }
        let (_, canary) = hand.canaries[0];
        hand.connects(canary);
        let first = hand.sent_on(canary).concat();
        hand.until(hand.now + 10 * MS);
        hand.breaks(lane, ErrorKind::ConnectionReset);
        let open = Answer { standing: Standing::Open, last_seq: 3, ..Answer::default() };
        let who = Introduction { identity: SERVED, age_ns: 1_000 * S, ..Introduction::default() };
        hand.receives(canary, &answered(first, open, who));
        let again = hand.sent_on(canary).concat();
        assert_eq!(again.len(), 2 * 64, "it is asked about the end");
        if answered_again {
            let failed = Answer { standing: Standing::Failed, last_seq: 3, ..Answer::default() };
            hand.receives(canary, &answered(again, failed, who));
        }
        hand.until(hand.now + 60 * S);
        let (verdict, standing) = if answered_again {
            (Verdict::FlowForgotten, Known::Failed)
        } else {
            (Verdict::Unknown, Known::Open)
        };
        let ends: Vec<_> = hand.explained().into_iter().filter(|it| it.about == "closing").collect();
        let told: Vec<_> = ends.iter().map(|it| (it.explanation.verdict, it.standing)).collect();
        assert_eq!(told, [(verdict, Some(standing))], "{ends:?}");
    }
}
