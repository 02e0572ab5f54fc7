//! A run whose recording is rotated at every moment of a fault in turn: what the stories of both recordings say is what the story of
//! one recording would, and the long round trips that came over the seam are not taken for a slow path.

use crate::world::{Fault, MS, Outcome, S, START, World};
use fathom_core::event::{Event, EventKind};
use fathom_core::probe::Settings;
use fathom_core::rotation::Tally;
use fathom_core::sample::Sample;
use fathom_core::schedule::Pace;
use fathom_core::story::{Gatherer, Line, Measured, State, tell};
use fathom_core::verdict::Verdict;
use jiff::Timestamp;
use std::collections::BTreeSet;

/// What a recorder is given, in order.
enum Given<'a> {
    Sample(&'a Sample),
    Event(&'a Event),
}

impl Given<'_> {
    /// When that was, by the monotonic clock.
    fn at(&self) -> u64 {
        match self {
            Given::Sample(sample) => {
                let sent_ns = (sample.sent_ns - START.utc_ns) as u64 + START.mono_ns;
                sent_ns + sample.rtt_ns.unwrap_or(0) as u64
            }
            Given::Event(event) => event.mono_ns,
        }
    }
}

fn utc(mono_ns: u64) -> Timestamp {
    let ns = START.utc_ns + (mono_ns - START.mono_ns) as i64;
    Timestamp::from_nanosecond(ns.into()).expect("a time")
}

fn in_order(outcome: &Outcome) -> Vec<Given<'_>> {
    let mut all = Vec::new();
    let mut samples = outcome.samples.iter().map(|(_, sample)| Given::Sample(sample)).enumerate().peekable();
    for ((_, event), before) in outcome.events.iter().zip(&outcome.samples_before) {
        while let Some((_, sample)) = samples.next_if(|(n, _)| n < before) {
            all.push(sample);
        }
        all.push(Given::Event(event));
    }
    all.extend(samples.map(|(_, sample)| sample));
    all
}

/// What a recording that holds this says, but for its heading and its counts.
fn story(given: &[Given<'_>], first: Option<Event>, last: Option<Event>) -> Vec<Line> {
    let events = given.iter().filter_map(|one| match one {
        Given::Event(event) => Some((*event).clone()),
        Given::Sample(_) => None,
    });
    let events: Vec<Event> = first.into_iter().chain(events).chain(last).collect();
    let mut gatherer = Gatherer::new(&events);
    for one in given {
        if let Given::Sample(sample) = one {
            gatherer.sample(sample);
        }
    }
    let measured = Measured {
        label: String::new(),
        reflector: String::new(),
        mode: "tcp".to_owned(),
        size: 64,
        interval_ns: None,
        started_at: events.first().map_or(Timestamp::UNIX_EPOCH, |event| event.at),
        ended_at: events.last().map(|event| event.at),
        state: State::Finished,
    };
    let mut lines = tell(&measured, &events, &gatherer.finish());
    lines.pop();
    lines.remove(0);
    lines
}

/// The stories of both recordings where the seam is before this one.
fn over_a_seam(given: &[Given<'_>], at: usize) -> [Vec<Line>; 2] {
    let (before, after) = given.split_at(at);
    let mut tally = Tally::default();
    for one in before {
        match one {
            Given::Sample(sample) => tally.sample(sample),
            Given::Event(event) => tally.event(event),
        }
    }
    let mono_ns = before.last().map_or(START.mono_ns, Given::at);
    let event = |kind| Event { at: utc(mono_ns), mono_ns, connection: None, kind };
    let carried = tally.carried(mono_ns);
    let rotated = EventKind::RecordingRotated { next: String::new(), carried: carried.clone() };
    let continues = EventKind::RecordingContinues { previous: String::new(), carried };
    [story(before, None, Some(event(rotated))), story(after, Some(event(continues)), None)]
}

fn verdicts<'a>(lines: impl IntoIterator<Item = &'a Line>) -> BTreeSet<&'static str> {
    lines.into_iter().filter_map(|line| line.verdict.map(Verdict::name)).collect()
}

/// Tries every seam from the fault's beginning until it is long over.
fn at_every_seam(fault: Fault, serial_ns: u64, peer_tells: bool) {
    let settings = Settings {
        pace: Pace::Every(20 * MS),
        duration_ns: Some(30 * S),
        ..Settings::new(vec!["h:7".into()])
    };
    let mut world = World::new(settings, 1).with([(10 * S, fault)]);
    (world.serial_ns, world.peer_tells) = (serial_ns, peer_tells);
    let outcome = world.run();
    outcome.check_laws();
    let given = in_order(&outcome);
    let whole = story(&given, None, None);
    let said = verdicts(&whole);
    let during = |one: &Given<'_>| (START.mono_ns + 9_900 * MS..START.mono_ns + 20 * S).contains(&one.at());
    let seams = (0..given.len()).filter(|&at| during(&given[at]));
    let mut tried = 0;
    for at in seams {
        tried += 1;
        let [first, second] = over_a_seam(&given, at);
        let both = verdicts(first.iter().chain(&second));
        assert_eq!(both, said, "{fault:?}, seam before {at}: {first:#?} {second:#?}, and as one: {whole:#?}");
    }
    assert!(tried > 300, "{tried} seams");
}

type Row = (Fault, u64, bool);

const STALLS: &[Row] = &[(Fault::Silence(3 * S), 2 * MS, false), (Fault::PeerPause(3 * S), 5 * MS, true)];
const MORE_STALLS: &[Row] = &[
    (Fault::Silence(3 * S), 0, false),
    (Fault::PeerPause(3 * S), 0, false),
    (Fault::PeerPause(3 * S), 2 * MS, false),
    (Fault::Silence(3 * S), 5 * MS, true),
];
const HOST_PAUSES: &[Row] =
    &[(Fault::LocalPause(3 * S), 0, false), (Fault::LocalPause(3 * S), 2 * MS, false)];

tiers! {
    verdict_survives_any_rotation_point: &[super::STALLS, super::HOST_PAUSES], &[super::MORE_STALLS];
}

/// The seam lay between the first late echo and the others: the stall had ended in the one recording, and the other had round
/// trips of seconds without a word of it, which it told as "round trips fell without a silence. Verdict: delayed".
fn verdict_survives_any_rotation_point(rows: &[&[Row]]) {
    for &(fault, serial_ns, peer_tells) in rows.iter().copied().flatten() {
        at_every_seam(fault, serial_ns, peer_tells);
    }
}
