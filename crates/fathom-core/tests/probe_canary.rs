//! Canary connections, step by step: a driver by hand, whose every answer and delay the test chooses.

use fathom_core::clock::Anchor;
use fathom_core::event::{Event, EventKind};
use fathom_core::loss::Reflector;
use fathom_core::peer_report::Standing as PeerStanding;
use fathom_core::probe::{
    Input, LinkId, NetError, Output, Probe, Progress, Purpose, Request, Settings, Transport, Worker,
};
use fathom_core::schedule::Pace;
use fathom_core::verdict::{Confidence, Direction, Fresh, Verdict};
use fathom_wire::rfc8762::{ErrorEstimate, Reflection};
use fathom_wire::{About, Answer, ConnectionView, Introduction, Question, Reply, Stamper, Standing};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const START: Anchor = Anchor { mono_ns: S, utc_ns: 1_800_000_000_000_000_000 };

/// A probe, and what it has asked for and nobody has done.
struct Hand {
    now: u64,
    probe: Probe,
    lanes: VecDeque<LinkId>,
    /// Canary connections that it began, and those that it closed, each with the time.
    canaries: Vec<(u64, LinkId)>,
    closed: Vec<(u64, LinkId)>,
    sends: VecDeque<LinkId>,
    events: Vec<Event>,
}

impl Hand {
    /// A probe whose lanes are all connected.
    fn connected(settings: Settings) -> Self {
        let worker = Worker::alone(settings.targets.len());
        let (probe, now) = (Probe::new(settings, worker, START), START.mono_ns);
        let (lanes, sends) = (VecDeque::new(), VecDeque::new());
        let mut hand = Self { now, probe, lanes, canaries: vec![], closed: vec![], sends, events: vec![] };
        hand.probe.start(now);
        hand.obey();
        for i in 0.. {
            let Some(&link) = hand.lanes.get(i) else { break };
            hand.connects(link);
        }
        hand
    }

    fn tell(&mut self, input: Input<'_>) {
        self.probe.handle(self.now, input);
        self.obey();
    }

    fn connects(&mut self, link: LinkId) {
        self.tell(Input::Connecting { link, since_ns: self.now });
        self.tell(Input::Connected { link, local: String::new(), resent: false, kernel: None });
    }

    fn breaks(&mut self, link: LinkId, kind: ErrorKind) {
        self.tell(Input::Broken { link, error: NetError::of_kind(kind) });
    }

    fn obey(&mut self) {
        while let Some(output) = self.probe.poll() {
            let now = self.now;
            match output {
                Output::Resolve { path } => {
                    let addresses = Ok(vec![SocketAddr::from(([10, 0, 0, 1], 7))]);
                    self.probe.handle(now, Input::Resolved { path, addresses });
                }
                Output::Look { link } => self.probe.handle(now, Input::Kernel { link, info: None }),
                Output::Connect { link, purpose: Purpose::Canary, .. } => self.canaries.push((now, link)),
                Output::Connect { link, .. } => self.lanes.push_back(link),
                Output::Send { link } => self.sends.push_back(link),
                Output::Close { link } => self.closed.push((now, link)),
                Output::Event { event, .. } => self.events.push(*event),
                _ => {}
            }
        }
    }

    /// Time passes, and the probe wakes when it wants to.
    fn until(&mut self, at: u64) {
        while let Some(wake) = self.probe.next_wake().filter(|wake| *wake <= at) {
            assert!(wake >= self.now || self.probe.next_wake() == Some(wake), "a wake-up in the past");
            self.now = self.now.max(wake);
            self.tell(Input::Wake);
        }
        self.now = at;
    }

    /// Does every send that was asked for on this connection, as a whole: the messages.
    fn sent_on(&mut self, link: LinkId) -> Vec<Vec<u8>> {
        let (mut messages, mut pen) = (Vec::new(), vec![0; 4_096]);
        while let Some(at) = self.sends.iter().position(|asked| *asked == link) {
            self.sends.remove(at);
            let Some(piece) = self.probe.write(link, &mut pen) else { continue };
            self.probe.stamp(link, self.now, &mut pen[..piece.len]);
            assert_eq!((piece.offset, piece.len), (0, piece.size), "it fits");
            messages.push(pen[..piece.len].to_vec());
            let progress = Progress::Whole;
            self.tell(Input::Sent { link, sent_ns: self.now, sent_utc_ns: None, progress });
        }
        messages
    }

    fn receives(&mut self, link: LinkId, bytes: &[u8]) {
        self.tell(Input::Received { link, bytes, stamps: None, kernel: None });
    }

    /// What explanations say that a fresh connection met, and when.
    fn met(&self) -> Vec<(u64, Fresh)> {
        let met = |event: &Event| match &event.kind {
            EventKind::ConnectionExplained { fresh, .. } => Some((event.mono_ns, *fresh)),
            _ => None,
        };
        self.events.iter().filter_map(met).collect()
    }
}

fn settings(transport: Transport) -> Settings {
    Settings { transport, pace: Pace::Every(S), ..Settings::new(vec!["host:7".to_owned()]) }
}

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
fn a_part_of_an_echo_gives_a_canary_no_more_time() {
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
fn a_part_of_the_large_sample_gives_a_canary_no_more_time() {
    let (mut hand, canary, _) = after_a_death(Settings { size: 1_000, ..settings(Transport::Tcp) });
    // An echo server, which answers no question.
    let small = hand.sent_on(canary);
    assert_eq!(small.iter().map(Vec::len).collect::<Vec<_>>(), [64, 64, 64], "a sample and two questions");
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
fn a_whole_answer_gives_a_canary_its_time_again() {
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
fn a_canary_sends_again_once_a_second_whatever_was_before_it() {
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
fn what_a_canary_is_to_send_does_not_gather() {
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
    assert!(waiting.len() <= 3, "a sample and two questions, not {}", waiting.len());
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
fn a_stamp_packet_that_is_sent_again_is_known_by_its_own_timestamp() {
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
fn what_a_kernel_takes_in_part_is_written_to_its_end() {
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
    assert_eq!((stream.len(), waits), (3 * 64, 3 * 9));
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

/// Ten thousand connections die at one time. Each death was looked for among all the others, when it was asked about and
/// when its reply came: they took ten times as long as ten times a thousand. Both are timed over as long a while and by
/// turns, and the best of five, so that what else runs on the machine counts little; its caches count, so twice as long is
/// no sign of it.
#[test]
fn ten_thousand_deaths_at_one_time_are_as_much_work_as_ten_times_a_thousand() {
    let times = (0..5).map(|_| ((0..10).map(|_| asking(1_000)).sum::<Duration>(), asking(10_000)));
    let (apart, at_once): (Vec<_>, Vec<_>) = times.unzip();
    let (apart, at_once) = (apart.iter().min().expect("five"), at_once.iter().min().expect("five"));
    eprintln!("ten times a thousand: {apart:?}; ten thousand: {at_once:?}");
    assert!(*at_once < *apart * 5, "ten times a thousand take {apart:?}, ten thousand {at_once:?}");
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
fn what_a_stopped_process_did_not_send_the_connection_did_not_refuse() {
    assert_eq!(why_not_sent(true), ["late"]);
    assert_eq!(why_not_sent(false), ["blocked"]);
}

/// A reflector's echo of these bytes, whose answers to questions say this of the connection.
fn answered(mut bytes: Vec<u8>, answer: Answer) -> Vec<u8> {
    Stamper::default().pass_answering(ConnectionView::default(), &mut bytes, |question| {
        Some(match question.about {
            About::Connection => Reply::Connection(answer),
            About::Reflector => Reply::Reflector(Introduction::default()),
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
                reply = Some((canary, answered(asked, answer)));
            }
            if silence == second
                && tenth == later
                && let Some((canary, bytes)) = &reply
            {
                hand.receives(*canary, &bytes.clone());
            }
        }
        hand.receives(lane, &answered(echoes, Answer::default()));
    }
    hand.until(hand.now + 60 * S);
    let told = |event: &Event| match &event.kind {
        EventKind::ConnectionExplained { explanation, .. } => Some(explanation.direction),
        _ => None,
    };
    hand.events.iter().filter_map(told).collect()
}

/// A reflector was asked about a silence, and its answer came in the next one: of that it could not know, and its "up to this
/// request" was taken for "none of the missing ones". It had received each.
#[test]
fn an_answer_about_an_earlier_silence_says_nothing_of_this_one() {
    for first in [11, 12, 13] {
        for later in [1, 9, 11, 12] {
            let told = held_up_answer(first, later, 14);
            assert_eq!(told.len(), 2, "two silences: {told:?}");
            assert!(!told.contains(&Some(Direction::Forward)), "{first}, {later}: {told:?}");
        }
    }
}

const SERVED: u32 = 1 << 14 | 7;
const SUCCESSOR: u32 = 1 << 14 | 8;

/// What a reflector answers to these bytes of a canary: this of the connection, and this of itself.
fn told(mut bytes: Vec<u8>, answer: Answer, introduction: Introduction) -> Vec<u8> {
    Stamper::default().pass_answering(ConnectionView::default(), &mut bytes, |question| {
        Some(match question.about {
            About::Connection => Reply::Connection(answer),
            About::Reflector => Reply::Reflector(introduction),
        })
    });
    bytes
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

/// The verdicts on ends, with their confidence.
fn verdicts(hand: &Hand) -> Vec<(Verdict, Option<Confidence>)> {
    let told = |event: &Event| match &event.kind {
        EventKind::ConnectionExplained { explanation, .. } => {
            Some((explanation.verdict, explanation.confidence))
        }
        _ => None,
    };
    hand.events.iter().filter_map(told).collect()
}

/// A reply that took three seconds says "I have run for two seconds": the reflector began after the connection's end, or before
/// the connection was made. At once it says which.
#[test]
fn when_a_reply_was_given_lies_between_its_question_and_its_coming() {
    for (takes, age_ns, verdict) in [
        (0, 0, (Verdict::PeerDown, Some(Confidence::Medium))),
        (0, 100 * MS, (Verdict::PeerDown, Some(Confidence::High))),
        (3 * S, 2 * S, (Verdict::Unknown, Some(Confidence::None))),
    ] {
        let (mut hand, canary) = served_and_broken();
        let messages = hand.sent_on(canary);
        let introduction = Introduction { age_ns, identity: SUCCESSOR, ..Introduction::default() };
        let reply = told(messages.concat(), Answer::default(), introduction);
        hand.until(hand.now + takes);
        hand.receives(canary, &reply);
        hand.until(hand.now + 60 * S);
        let met = hand.events.iter().find_map(|event| match &event.kind {
            EventKind::ConnectionExplained { fresh, .. } => Some(*fresh),
            _ => None,
        });
        assert_eq!(met, Some(Fresh::Echoed));
        assert_eq!(verdicts(&hand)[0], verdict, "after {takes} ns: {:?}", hand.events);
    }
}

/// A silence is asked about, the connection dies, and then the reply comes: it was given before the end or after, and says nothing of
/// who ended it. The question is asked again, and that reply does.
#[test]
fn a_reply_to_a_question_of_before_the_end_does_not_tell_who_made_it() {
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
        hand.receives(canary, &told(first, open, who));
        let again = hand.sent_on(canary).concat();
        assert_eq!(again.len(), 2 * 64, "it is asked about the end");
        if answered_again {
            let failed = Answer { standing: Standing::Failed, last_seq: 3, ..Answer::default() };
            hand.receives(canary, &told(again, failed, who));
        }
        hand.until(hand.now + 60 * S);
        let explained = hand.events.iter().filter_map(|event| match &event.kind {
            EventKind::ConnectionExplained { about, explanation, reflector, .. } if about == "closing" => {
                Some((explanation.verdict, reflector.as_ref().map(|report| report.standing)))
            }
            _ => None,
        });
        let (verdict, standing) = if answered_again {
            (Verdict::FlowForgotten, PeerStanding::Failed)
        } else {
            (Verdict::Unknown, PeerStanding::Open)
        };
        assert_eq!(explained.collect::<Vec<_>>(), [(verdict, Some(standing))], "{:?}", hand.events);
    }
}
