//! What is told of an outage holds: it began and lasted as it is said, and none is told that was not.

use super::ages::{aged, ages};
use super::world::{Fault, Kind, MS, Ran, Random, S, World, run, run_ages};
use super::{any_world, settings, world};
use crate::chance::is_rare;
use fathom_core::limits::{Recorded, Verdict, What};
use std::ops::Range;

tiers! {
    reported_outage_times_contain_the_truth: 0..4, 0..120;
    without_an_outage_none_is_reported: 0..5, 0..120;
}

/// When each outage began, and for how long it lasted at the least and at the most.
fn told(ran: &Ran) -> Vec<(u64, u64, u64)> {
    let outages = ran.outcome.meanwhile.iter().filter_map(|meanwhile| match meanwhile.what {
        What::Outage { lasted_ns: Some(most_ns), least_ns, .. } => {
            Some((meanwhile.after_ns, least_ns.expect("it is known"), most_ns))
        }
        _ => None,
    });
    outages.collect()
}

/// The recording says the same.
fn check_recorded(ran: &Ran) {
    let mut recorded = Recorded::default();
    ran.told.iter().for_each(|event| recorded.event(event));
    if let Some(known) = recorded.outcome() {
        assert_eq!(known.meanwhile, ran.outcome.meanwhile);
    }
}

/// A path that was cut for 40 s was said to have been so for 32.1 s, from 8 s later on; cuts of 4 s were not told at all.
fn reported_outage_times_contain_the_truth(seeds: Range<u64>) {
    let (mut loose, mut of) = (0, 0);
    for seed in seeds {
        let mut random = Random(seed ^ 0x0F11);
        let from = random.between(4 * S, 20 * S);
        let to = from + random.between(3 * S, 40 * S);
        // The second one is told as the first is.
        let (from_2, length) = (to + 20 * S, random.between(3 * S, 12 * S));
        let faults = vec![Fault::Outage(from, to), Fault::Outage(from_2, from_2 + length)];
        let rtt_ns = random.between(MS / 10, 150 * MS);
        let ran = if seed % 2 == 0 {
            run(&World { seed, rtt_ns, faults, ..world(None, Kind::Silent) }, settings(90 * S))
        } else {
            run_ages(&World { rtt_ns, faults, ..aged(None, seed) }, ages(90 * S))
        };
        check_recorded(&ran);
        let outages = told(&ran);
        assert_eq!(
            outages.len(),
            2,
            "{from} {to} {from_2} {length}: {:#?} {}",
            ran.outcome.meanwhile,
            ran.outcome.text("there")
        );
        for ((began, least, most), (from, lasted)) in
            outages.into_iter().zip([(from, to - from), (from_2, length)])
        {
            let meanwhile = &ran.outcome.meanwhile;
            // A packet is on its way for half a round trip.
            let began_late = began.saturating_sub(from);
            assert!(began + rtt_ns >= from && began_late <= 2 * S, "{began} {from}: {meanwhile:#?}");
            assert!(least <= lasted + rtt_ns && lasted <= most, "{least} {lasted} {most}: {meanwhile:#?}");
            loose += u64::from(most - least > lasted / 2 + 3 * S);
            of += 1;
        }
    }
    assert!(is_rare(loose, of, 10), "{loose} of {of} are hardly known");
}

fn without_an_outage_none_is_reported(seeds: Range<u64>) {
    for seed in seeds {
        let mut random = Random(seed ^ 0xF11);
        let at = random.between(4 * S, 40 * S);
        let faults = match random.below(3) {
            0 => Vec::new(),
            1 => vec![Fault::Flush(at)],
            _ => vec![Fault::Pause(at, at + random.between(2 * S, 20 * S))],
        };
        let world = World { limit_ns: None, loss: random.one_of(&[0, 100, 300]), faults, ..any_world(seed) };
        let ran = if seed % 2 == 0 {
            run(&world, settings(60 * S))
        } else {
            run_ages(&World { age_ns: Some(random.between(5 * S, 90 * S)), ..world.clone() }, ages(60 * S))
        };
        check_recorded(&ran);
        assert_eq!(told(&ran), [], "{world:?}");
    }
}

/// Connections that were never idle died four times: the reason stood on standard error alone, and nothing said what would tell.
#[test]
fn unclear_search_explains_next_step() {
    let faults = (1..8).map(|n| Fault::Restart(n * 6 * S, 100 * MS)).collect();
    let ran = run(&World { faults, ..world(None, Kind::Silent) }, settings(60 * S));
    assert_eq!(ran.outcome.verdict, Verdict::Unclear, "{:#?}", ran.outcome);
    let text = ran.outcome.text("there");
    assert!(
        text.contains(
            "  why: connections that were never idle died again and again; `fathom limits --age` tells"
        ),
        "{text}"
    );
    assert!(text.contains("no idle limit (--age tells whether they die at one age)"), "{text}");
}
