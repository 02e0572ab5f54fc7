//! Searches for idle limits with traffic in one direction: it keeps connections open where the middlebox counts it and it comes
//! in time, and nowhere else.

use super::laws::check_told;
use super::world::{Counts, Kind, MS, Ran, Random, S, World, run};
use super::{KINDS, ends, settings, world};
use crate::chance::{is_many, runs};
use fathom_core::limits::{OneWay, Output, Recorded, Settings, Side, Verdict};
use fathom_wire::OneWay as Frame;
use std::collections::BTreeMap;
use std::ops::Range;

tiers! {
    counted_one_way_traffic_keeps_connections_open: 0..6, 0..120;
}

fn with(traffic: OneWay, up_to_ns: u64) -> Settings {
    Settings { one_way: Some(traffic), ..settings(up_to_ns) }
}

fn by_chance(seed: u64) -> (World, OneWay, Settings) {
    let mut random = Random(seed);
    let limit = random.between(3 * S, 20 * S);
    let counts = random.one_of(&[Counts::All, Counts::FromHere, Counts::FromThere]);
    let from = random.one_of(&[Side::Here, Side::There]);
    // In whole milliseconds, as a reflector is asked.
    let every_ns = if random.percent(75) { limit / 3 } else { limit + limit / 2 } / MS * MS;
    let world = World {
        counts,
        seed,
        rtt_ns: random.between(MS / 10, 100 * MS),
        loss: random.one_of(&[0, 0, 10, 100]),
        ..world(Some(limit), random.one_of(&KINDS))
    };
    let traffic = OneWay { every_ns, from };
    (world, traffic, with(traffic, 45 * S))
}

/// Segments of this side on each connection, with the moment of each, and when it was asked.
fn said(ran: &Ran) -> BTreeMap<u32, (Vec<u64>, u64)> {
    let mut all: BTreeMap<u32, (Vec<u64>, u64)> = BTreeMap::new();
    for (at, output) in &ran.outputs {
        match output {
            Output::Send { id, bytes } if bytes.first_chunk().and_then(Frame::decode).is_some() => {
                all.entry(*id).or_default().0.push(*at);
            }
            Output::Look { id } => all.entry(*id).or_default().1 = *at,
            _ => {}
        }
    }
    all
}

fn counted_one_way_traffic_keeps_connections_open(seeds: Range<u64>) {
    let (mut kept, of) = ([0, 0], runs(&seeds));
    for seed in seeds {
        let (world, traffic, settings) = by_chance(seed);
        let limit = world.limit_ns.expect("one");
        let ran = run(&world, settings.clone());
        check_told(&ran, &world);
        let outcome = &ran.outcome;
        assert_eq!(outcome.one_way, Some(traffic));
        let counted = match world.counts {
            Counts::All => true,
            Counts::FromHere => traffic.from == Side::Here,
            Counts::FromThere => traffic.from == Side::There,
        };
        let (survived, died) = ends(outcome);
        if counted && traffic.every_ns < limit {
            kept[usize::from(traffic.from == Side::There)] += 1;
            assert_eq!(outcome.verdict, Verdict::NotFound, "{traffic:?} {world:?}: {outcome:#?}");
            assert!(survived >= 44 * S, "{traffic:?} {world:?}: {outcome:#?}");
        } else {
            assert_eq!(outcome.verdict, Verdict::Found, "{traffic:?} {world:?}: {outcome:#?}");
            assert!(
                survived <= limit && limit <= died,
                "{survived} {limit} {died}: {traffic:?} {world:?}: {outcome:#?}"
            );
        }
        for (id, (at, asked)) in said(&ran) {
            // Nothing is said on a connection that has been asked, and what is said is so far apart.
            assert!(asked == 0 || at.iter().all(|at| *at <= asked), "{id} {at:?} {asked}");
            assert!(at.windows(2).all(|two| two[1] - two[0] >= traffic.every_ns), "{id} {at:?}");
            assert!(traffic.from == Side::Here || at.len() <= 1, "{id} {at:?}");
        }
    }
    assert!(!is_many(of) || kept.iter().all(|kept| kept * 8 > of), "{kept:?} of {of} were kept open");
}

/// A RST in answer to a segment of this side is one in answer to a packet, not one that came while nothing moved.
#[test]
fn reset_after_own_segment_is_on_request() {
    let traffic = OneWay { every_ns: 8 * S, from: Side::Here };
    let world = world(Some(6 * S), Kind::ResetOnPacket);
    let outcome = run(&world, with(traffic, 20 * S)).outcome;
    let hows: Vec<_> = outcome.how.keys().collect();
    assert_eq!(hows, [&fathom_core::limits::Death::ResetOnRequest], "{outcome:#?}");
}

#[test]
fn plain_echo_server_fails_one_way_search() {
    for from in [Side::Here, Side::There] {
        let world = World { plain: true, ..world(None, Kind::Silent) };
        let outcome = run(&world, with(OneWay { every_ns: S, from }, 10 * S)).outcome;
        assert_eq!(outcome.verdict, Verdict::Failed, "{outcome:#?}");
        assert!(outcome.why.is_some_and(|why| why.contains("needs `fathom echo` there")));
    }
}

/// Where the reflector does not send what it was asked for, nothing is said of traffic from there.
#[test]
fn traffic_that_did_not_come_proves_nothing() {
    let world = World { mute: true, ..world(None, Kind::Silent) };
    let outcome = run(&world, with(OneWay { every_ns: S, from: Side::There }, 10 * S)).outcome;
    assert_eq!(outcome.verdict, Verdict::Unclear, "{outcome:#?}");
    assert!(ends(&outcome).0 <= 4 * S, "{outcome:#?}");
}

#[test]
fn resume_requires_the_same_traffic() {
    let traffic = OneWay { every_ns: 2 * S, from: Side::There };
    let world = World { stop_ns: Some(20 * S), ..world(None, Kind::Silent) };
    let told = run(&world, with(traffic, 60 * S)).told;
    let mut recorded = Recorded::default();
    for event in &told {
        recorded.event(event);
    }
    assert_eq!(recorded.outcome().and_then(|outcome| outcome.one_way), Some(traffic));
    let why = |settings: &Settings| recorded.why_not("there", fathom_core::limits::Limit::Idle, settings);
    assert_eq!(why(&with(traffic, 60 * S)), None);
    assert!(
        why(&settings(60 * S)).is_some_and(|why| why.contains("give --one-way 2s --one-way-from there too"))
    );
    let other = with(OneWay { from: Side::Here, ..traffic }, 60 * S);
    assert!(why(&other).is_some_and(|why| why.contains("--one-way-from there too")));
}
