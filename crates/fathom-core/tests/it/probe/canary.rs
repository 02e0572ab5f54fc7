//! Canary connections, step by step, and what is made of the replies that come on them.

mod hand;
mod notices;
mod replies;

use fathom_core::event::{Event, EventKind};
use fathom_core::loss::Reflector;
use fathom_core::probe::{Input, LinkId, NetError, Progress, Request, Settings, Transport};
use fathom_core::schedule::Pace;
use fathom_core::verdict::Fresh;
use fathom_wire::Question;
use fathom_wire::rfc8762::{ErrorEstimate, Reflection};
use hand::{Hand, MS, S, START, settings};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// The one lane of a run dies, and the canary that asks why is connected.
fn after_a_death(settings: Settings) -> (Hand, LinkId, u64) {
    let mut hand = Hand::connected(settings);
    hand.until(START.mono_ns + 10 * MS);
    hand.sent_on(hand.lanes[0]);
    hand.breaks(hand.lanes[0], ErrorKind::ConnectionReset);
    let (asked_ns, canary) = hand.canaries[0];
    hand.connects(canary);
    (hand, canary, asked_ns)
}

/// Thirty bytes of the canary's echo moved its deadline and armed no timer for the new one: it was never looked at again,
/// the death never explained, and a run whose time was up did not end.
#[test]
fn partial_echo_does_not_extend_canary_deadline() {
    let (mut hand, canary, asked_ns) = after_a_death(settings(Transport::Tcp));
    let sample = hand.sent_on(canary).remove(0);
    hand.until(asked_ns + 3_900 * MS);
    hand.receives(canary, &sample[..30]);
    hand.until(asked_ns + 60 * S);
    assert_eq!(hand.met(), [(asked_ns + 4 * S, Fresh::Connected)]);
}

/// The same of the sample of the missing one's size, which comes back in several reads as a rule: the first of them took
/// the deadline away, and what is large was lost and never told.
#[test]
fn partial_large_sample_does_not_extend_deadline() {
    let (mut hand, canary, _) = after_a_death(Settings { size: 1_000, ..settings(Transport::Tcp) });
    // An echo server, which answers no question.
    let small = hand.sent_on(canary);
    assert_eq!(small.iter().map(Vec::len).collect::<Vec<_>>(), [64; 4], "a sample and three questions");
    hand.until(hand.now + 50 * MS);
    hand.receives(canary, &small.concat());
    let began_ns = hand.now;
    let large = hand.sent_on(canary);
    assert_eq!(large.iter().map(Vec::len).collect::<Vec<_>>(), [1_000]);
    hand.until(began_ns + S);
    hand.receives(canary, &large[0][..500]);
    hand.until(began_ns + 60 * S);
    assert_eq!(hand.met(), [(began_ns + 2 * S, Fresh::SmallOnly)]);
}

/// A whole answer gives as much time again, however late it comes.
#[test]
fn whole_answer_extends_canary_deadline() {
    let (mut hand, canary, asked_ns) = after_a_death(settings(Transport::Tcp));
    let messages = hand.sent_on(canary);
    hand.until(asked_ns + 3 * S);
    hand.receives(canary, &messages[0]);
    hand.until(asked_ns + 6 * S);
    hand.receives(canary, &messages[1]);
    hand.until(asked_ns + 60 * S);
    assert_eq!(hand.met(), [(asked_ns + 10 * S, Fresh::Echoed)]);
}

/// Each canary began a chain of timers by which datagrams were sent again, and the next one took the chains of those
/// before for its own: after eight deaths in a second, eight datagrams a second.
#[test]
fn canary_resends_once_a_second() {
    let mut hand = Hand::connected(Settings { connections: 9, ..settings(Transport::Udp) });
    let lanes = hand.lanes.clone();
    for (i, link) in lanes.iter().take(8).enumerate() {
        hand.until(START.mono_ns + (i as u64 + 1) * 100 * MS);
        hand.breaks(*link, ErrorKind::ConnectionRefused);
        let (_, canary) = *hand.canaries.last().expect("a death is asked about");
        let error = NetError::of_kind(ErrorKind::ConnectionRefused);
        hand.tell(Input::ConnectFailed { link: canary, error });
    }
    hand.until(START.mono_ns + 900 * MS);
    hand.breaks(lanes[8], ErrorKind::ConnectionRefused);
    let (asked_ns, canary) = *hand.canaries.last().expect("a death is asked about");
    hand.connects(canary);
    let mut samples = 0;
    for tenth in 0..39 {
        hand.until(asked_ns + tenth * 100 * MS);
        let is_question =
            |message: &Vec<u8>| Question::decode(message.first_chunk().expect("64 bytes")).is_some();
        samples += hand.sent_on(canary).iter().filter(|message| !is_question(message)).count();
    }
    assert!((3..=4).contains(&samples), "{samples} times in four seconds");
}

/// The kernel takes nothing for a minute while datagrams come that are no answers: what is to be sent again does not
/// gather, and the canary's time ends.
#[test]
fn canary_send_queue_stays_bounded() {
    let mut hand = Hand::connected(settings(Transport::Udp));
    hand.breaks(hand.lanes[0], ErrorKind::ConnectionRefused);
    let (asked_ns, canary) = hand.canaries[0];
    hand.connects(canary);
    assert_eq!(hand.sends.iter().filter(|link| **link == canary).count(), 1);
    for tenth in 1..40 {
        hand.until(asked_ns + tenth * 100 * MS);
        hand.receives(canary, b"no answer of anything");
    }
    let waiting = hand.sent_on(canary);
    assert!(waiting.len() <= 4, "a sample and three questions, not {}", waiting.len());
    for tenth in 40..600 {
        hand.until(asked_ns + tenth * 100 * MS);
        hand.receives(canary, b"no answer of anything");
    }
    let closed = hand.closed.iter().find(|(_, link)| *link == canary);
    assert_eq!(closed.map(|(at, _)| *at), Some(asked_ns + 4 * S), "it is over after its time");
}

/// The answer to a STAMP packet bears its timestamp. That of the packet that was sent again was compared with the
/// timestamp of the one that was lost, so a reflector that answered was taken for one that does not.
#[test]
fn resent_stamp_packet_uses_its_own_timestamp() {
    let request = Request::Stamp(Reflector::default());
    let mut hand = Hand::connected(Settings { request, size: 48, ..settings(Transport::Udp) });
    hand.breaks(hand.lanes[0], ErrorKind::ConnectionRefused);
    let (asked_ns, canary) = hand.canaries[0];
    hand.connects(canary);
    assert_eq!(hand.sent_on(canary).len(), 1, "it is lost");
    hand.until(asked_ns + 1_100 * MS);
    let mut answer = hand.sent_on(canary).remove(0);
    let (utc_ns, error) = (START.utc_ns, ErrorEstimate::of(None));
    Reflection { sequence: Some(0), received_ns: utc_ns, sent_ns: utc_ns, error, ttl: 64 }.write(&mut answer);
    hand.until(asked_ns + 1_200 * MS);
    hand.receives(canary, &answer);
    hand.until(asked_ns + 60 * S);
    assert_eq!(hand.met(), [(asked_ns + 1_200 * MS, Fresh::Echoed)]);
}

/// What a kernel does not take at once is written on when it takes more: a question of which half was written was dropped,
/// and the next one took its place in the stream.
#[test]
fn partial_kernel_write_is_completed() {
    let (mut hand, canary, asked_ns) = after_a_death(settings(Transport::Tcp));
    let mut stream = Vec::new();
    let mut pen = vec![0; 4_096];
    let mut waits = 0;
    while hand.sends.iter().any(|link| *link == canary) {
        hand.sends.retain(|link| *link != canary);
        let piece = hand.probe.write(canary, &mut pen).expect("it was asked to be sent");
        // Seven bytes at a time.
        let taken = piece.len.min(7);
        stream.extend_from_slice(&pen[..taken]);
        let offset = piece.offset + taken;
        let progress = if offset == piece.size { Progress::Whole } else { Progress::UpTo(offset) };
        let (sent_ns, sent_utc_ns) = (hand.now, None);
        hand.tell(Input::Sent { link: canary, sent_ns, sent_utc_ns, progress });
        if progress != Progress::Whole {
            assert!(!hand.sends.contains(&canary), "not before it is writable");
            hand.until(hand.now + MS);
            hand.tell(Input::Writable { link: canary });
            waits += 1;
        }
    }
    assert_eq!((stream.len(), waits), (4 * 64, 4 * 9));
    hand.receives(canary, &stream);
    assert_eq!(hand.met(), [(hand.now, Fresh::Echoed)], "{asked_ns}");
}

/// So many connections die at one time: how long it takes to ask the reflector about each and to take its replies.
fn asking(connections: u32) -> Duration {
    let connect_rate = None;
    // None was answered yet, and the target is not given up for that.
    let more = Settings { connections, connect_rate, keep_trying: true, ..settings(Transport::Tcp) };
    let mut hand = Hand::connected(more);
    let lanes: Vec<LinkId> = hand.lanes.iter().copied().collect();
    assert_eq!(lanes.len(), connections as usize);
    hand.sends.clear();
    for link in lanes {
        hand.breaks(link, ErrorKind::ConnectionReset);
    }
    let (_, canary) = hand.canaries[0];
    let (mut asking, mut reads) = (Duration::ZERO, 0);
    let began = Instant::now();
    hand.connects(canary);
    while hand.closed.last().is_none_or(|(_, link)| *link != canary) {
        // What follows the last reply, the explanations themselves, is not asking.
        asking = began.elapsed();
        let messages = hand.sent_on(canary).concat();
        assert!(!messages.is_empty(), "it asks as long as it is not done");
        hand.receives(canary, &messages);
        reads += 1;
    }
    assert_eq!(hand.met().len(), connections as usize, "each death is explained");
    // A sample and two questions about each, 64 on the way at a time.
    assert!(reads <= 2 + 2 * connections / 32, "{reads} reads");
    asking
}

#[test]
fn simultaneous_deaths_need_few_reads() {
    asking(1_000);
}

mod acceptance {
    use super::*;

    /// Each death was looked for among all the others: ten thousand took ten times as long as ten times a thousand. Both are timed
    /// by turns, and the best of five counts.
    #[test]
    fn simultaneous_deaths_cost_linear_time() {
        let times = (0..5).map(|_| ((0..10).map(|_| asking(1_000)).sum::<Duration>(), asking(10_000)));
        let (apart, at_once): (Vec<_>, Vec<_>) = times.unzip();
        let (apart, at_once) = (apart.iter().min().expect("five"), at_once.iter().min().expect("five"));
        assert!(*at_once < *apart * 5, "ten times a thousand take {apart:?}, ten thousand {at_once:?}");
    }
}

/// Why samples were not sent, once something may be sent again three seconds later.
fn why_not_sent(takes: bool) -> Vec<String> {
    let mut hand = Hand::connected(Settings { pace: Pace::Every(30 * MS), ..settings(Transport::Tcp) });
    let link = hand.lanes[0];
    hand.until(START.mono_ns + 10 * MS);
    hand.sent_on(link);
    hand.until(START.mono_ns + 40 * MS);
    if takes {
        hand.sent_on(link);
    } else {
        let mut pen = vec![0; 4_096];
        hand.sends.clear();
        let piece = hand.probe.write(link, &mut pen).expect("a sample is due");
        hand.probe.stamp(link, hand.now, &mut pen[..piece.len]);
        let (sent_ns, sent_utc_ns) = (hand.now, None);
        hand.tell(Input::Sent { link, sent_ns, sent_utc_ns, progress: Progress::Nothing });
    }
    // A system tells with what comes that more would be taken, whether or not that was ever otherwise.
    hand.now += 3 * S;
    hand.tell(Input::Writable { link });
    let why = |event: &Event| match &event.kind {
        EventKind::ScheduleOverrun { reason, .. } => Some(reason.clone()),
        _ => None,
    };
    hand.events.iter().filter_map(why).collect()
}

/// "29 samples due were not sent: the connection took no more data", of a process that was stopped.
#[test]
fn stopped_process_is_late_not_blocked() {
    assert_eq!(why_not_sent(true), ["late"]);
    assert_eq!(why_not_sent(false), ["blocked"]);
}
