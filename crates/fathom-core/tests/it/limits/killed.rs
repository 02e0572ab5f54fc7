//! A search that is killed leaves what it knew a second ago.

use super::ages::{aged, ages};
use super::ends;
use super::world::{Random, S, World, go_on, run_ages};
use fathom_core::event::EventKind;
use fathom_core::limits::{Limit, Output, Recorded, Verdict};
use std::collections::BTreeMap;
use std::ops::Range;

tiers! {
    killed_age_search_keeps_living_connections: 0..2, 0..20;
}

/// Killed after 40 s, before any connection had died, it left nothing: "holds nothing that a search for limits knew".
fn killed_age_search_keeps_living_connections(seeds: Range<u64>) {
    for seed in seeds {
        let mut random = Random(seed ^ 0xF10);
        let limit = random.between(30 * S, 80 * S);
        let ran = run_ages(&aged(Some(limit), seed), ages(90 * S));
        let began = ran.told[0].mono_ns;
        let killed = began + random.between(3 * S, limit);
        let told: Vec<_> = ran.told.iter().filter(|event| event.mono_ns <= killed).cloned().collect();
        let mut recorded = Recorded::default();
        for event in &told {
            recorded.event(event);
        }
        assert_eq!(recorded.why_not("there", Limit::Age, &ages(90 * S)), None);
        let known = recorded.outcome().expect("something is known");
        assert!(known.took_ns + S >= killed - began, "{} of {}", known.took_ns, killed - began);
        // Each that had been answered a second ago is known to be as old as it was then, but for what is between two requests.
        let mut first: BTreeMap<u32, u64> = BTreeMap::new();
        for (at, output) in &ran.outputs {
            if let Output::Send { id, .. } = output {
                first.entry(*id).or_insert(*at);
            }
        }
        let old = first.values().filter(|at| began + **at + S + S / 2 < killed).count();
        assert!(known.lives.len() >= old && old > 0, "{} of {old}", known.lives.len());
        let oldest = known.lives.iter().map(|life| life.least_ns).max().expect("one");
        let lived = (killed - began - first[&0]).min(limit);
        assert!(oldest + 2 * S >= lived && oldest <= limit, "{oldest} {lived} {limit}");
        // Another goes on with it, and tells it again.
        let again = go_on(&aged(Some(limit), seed), ages(90 * S), &told);
        let void = again.told.iter().filter(|event| {
            matches!(event.kind, EventKind::LimitsJudged { .. }) && event.connection.is_none()
        });
        assert_eq!(void.count(), known.lives.len());
        let (lived, died) = ends(&again.outcome);
        assert_eq!(again.outcome.verdict, Verdict::Found);
        assert!(lived <= limit && limit <= died, "{lived} {limit} {died}");
    }
}

/// A recording of a week stays small.
#[test]
fn a_long_search_tells_seldom() {
    let world = World { stop_ns: Some(2_000 * S), ..aged(None, 1) };
    let ran = run_ages(&world, ages(20 * 7_200 * S));
    let lived = ran.told.iter().filter(|event| matches!(event.kind, EventKind::LimitsLived { .. })).count();
    assert!((90..=100).contains(&lived), "{lived} in 2,000 s");
}
