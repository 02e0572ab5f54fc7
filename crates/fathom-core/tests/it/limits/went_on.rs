//! Searches that break off, and others that go on from what those knew; and how long a search says that it has yet to go.

use super::laws::check;
use super::world::{Kind, Ran, Random, S, World, go_on, run};
use super::{any_world, ends, ran, settings, world};
use crate::chance::{is_many, runs};
use fathom_core::event::{Became, Event, EventKind};
use fathom_core::limits::{Limit, Recorded, Settings, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

tiers! {
    a_search_goes_on_where_another_ended: 0..4, 0..100;
    no_search_takes_longer_than_it_says: 0..6, 0..80;
}

/// A recording that breaks off says no more than what had been judged by then, and nothing of a length some of whose
/// connections had not been.
#[test]
fn interrupted_recording_reports_what_was_judged() {
    let limit = 9 * S;
    let Ran { told, outcome, .. } = ran(&world(Some(limit), Kind::ResetOnPacket), &settings(60 * S));
    let mut recorded = Recorded::default();
    assert_eq!(recorded.outcome(), None);
    let mut died = false;
    for event in &told {
        recorded.event(event);
        let Some(known) = recorded.outcome() else { continue };
        assert_eq!((known.verdict, known.up_to_ns), (Verdict::Stopped, 60 * S));
        let (survived, most) = ends(&known);
        assert!(survived <= limit && limit <= most, "{survived} {most}");
        assert!(known.survived.is_none_or(|end| end.hits >= 2), "{known:#?}");
        died |= known.died.is_some();
    }
    assert!(died && ends(&recorded.outcome().expect("it is known")) == ends(&outcome));
}

/// A search that breaks off anywhere, and another that goes on: the bracket contains the limit, and what the first one knew is
/// not tried again.
fn a_search_goes_on_where_another_ended(seeds: Range<u64>) {
    let settings = settings(600 * S);
    let (mut saved, of) = (0, runs(&seeds));
    for seed in seeds {
        let world = any_world(seed);
        let whole = ran(&world, &settings);
        let mut told = whole.told.clone();
        let before = Random(seed).below(told.len() as u64 + 1) as usize;
        told.truncate(before);
        let again = go_on(&world, settings.clone(), &told);
        check(&again, &settings, &world);
        let (survived, died) = ends(&again.outcome);
        let limit = world.limit_ns.expect("it has one");
        let within = limit <= 600 * S;
        let verdict = if within { Verdict::Found } else { Verdict::NotFound };
        assert_eq!(again.outcome.verdict, verdict, "{before} of it: {world:?}: {:#?}", again.outcome);
        assert!(survived <= limit && limit <= died, "{survived} {limit} {died}: {world:?}");
        let judged: BTreeSet<u64> = whole_lengths(&told, settings.per_length);
        let bracket = |length: &&u64| {
            again.told.iter().any(|event| {
                let EventKind::LimitsJudged { length_ns, .. } = &event.kind else { return false };
                event.connection.is_some() && length_ns == *length
            })
        };
        let again_tried: Vec<&u64> = judged.iter().filter(bracket).collect();
        assert!(again_tried.len() <= 1, "but for the shorter end: {again_tried:?}: {world:?}");
        saved += u64::from(again.outcome.opened < whole.outcome.opened);
    }
    assert!(
        !is_many(of) || saved * 5 >= of * 3,
        "{saved} of {of} opened fewer connections than a whole search"
    );
}

/// Lengths all of whose connections survived.
fn whole_lengths(told: &[Event], per_length: u32) -> BTreeSet<u64> {
    let mut survived: BTreeMap<u64, u32> = BTreeMap::new();
    for event in told {
        if let EventKind::LimitsJudged { length_ns, became: Became::Survived, .. } = &event.kind {
            *survived.entry(*length_ns).or_default() += 1;
        }
    }
    survived.into_iter().filter(|(_, times)| *times >= per_length).map(|(length, _)| length).collect()
}

/// What was "at most 8 s" took 11: wherever the limit is, however it kills, and whether the search goes on from another, what is
/// told of the time to go is a bound, at every moment.
fn no_search_takes_longer_than_it_says(seeds: Range<u64>) {
    let check = |ran: &Ran, what: &dyn std::fmt::Debug| {
        assert!(!ran.left.is_empty(), "{what:?}");
        for (at, left) in &ran.left {
            let (at_s, left_s, took_s) = (*at as f64 / 1e9, *left as f64 / 1e9, ran.took_ns as f64 / 1e9);
            assert!(
                at + left >= ran.took_ns,
                "after {at_s} s at most {left_s} s to go, and it took {took_s} s: {what:?} {:#?}",
                ran.outcome
            );
        }
    };
    for seed in seeds {
        let mut random = Random(1_000 + seed);
        let up_to_ns = [S, 8 * S, 40 * S, 200 * S][random.below(4) as usize];
        let mut world = World { loss: 0, ..any_world(seed) };
        world.limit_ns = random.percent(80).then(|| random.between(up_to_ns / 4, up_to_ns * 11 / 10));
        let per_length = random.one_of(&[1, 3, 9]);
        let settings = Settings { per_length, ..settings(up_to_ns) };
        let whole = run(&world, settings.clone());
        check(&whole, &(&world, &settings));
        // And where it was stopped and goes on.
        world.stop_ns = Some(random.between(S / 2, whole.took_ns.max(S)));
        let stopped = run(&world, settings.clone());
        let earlier = stopped.told.iter().any(|e| matches!(e.kind, EventKind::LimitsJudged { .. }));
        if stopped.outcome.verdict == Verdict::Stopped && earlier {
            world.stop_ns = None;
            check(&go_on(&world, settings.clone(), &stopped.told), &("went on", &world, &settings));
        }
    }
}

/// A search that survived a minute was said to go on up to ten seconds, and had nothing to do.
#[test]
fn resume_refuses_known_or_different_searches() {
    let mut world = world(None, Kind::Silent);
    world.stop_ns = Some(65 * S);
    let stopped = run(&world, settings(600 * S));
    let mut recorded = Recorded::default();
    stopped.told.iter().for_each(|event| recorded.event(event));
    let why = |up_to_s: u64, limit| recorded.why_not("there", limit, &settings(up_to_s * S));
    assert_eq!(why(600, Limit::Idle), None);
    let refused = why(10, Limit::Idle).expect("refused");
    assert!(refused.contains("survived") && refused.contains("--up-to is 10s"), "{refused}");
    assert!(why(600, Limit::Age).is_some_and(|why| why.contains("leave out --age")));
    let elsewhere = recorded.why_not("elsewhere", Limit::Idle, &settings(600 * S));
    assert!(elsewhere.is_some_and(|why| why.contains("a search of elsewhere, not of there")));
}
