//! A searching host that is busy: it comes late to what is due, by up to half a second, all the time.

use super::world::{Fault, MS, Random, S, World, run};
use super::{KINDS, ends, settings, world};
use fathom_core::limits::{OneWay, Settings, Side, Verdict};
use std::ops::Range;

tiers! {
    busy_host_still_finds_the_limit: 0..10, 0..400;
}

/// Now and then it does not run, for up to so long.
fn busy(most_ns: u64, random: &mut Random) -> Vec<Fault> {
    let mut at = 0;
    let pauses = std::iter::from_fn(|| {
        at += random.between(S / 10, 3 * S);
        let from = at;
        at += random.between(MS, most_ns);
        Some(Fault::Pause(from, at))
    });
    pauses.take_while(|pause| matches!(pause, Fault::Pause(_, to) if *to < 100 * S)).collect()
}

/// Connections that were asked late, and died, are not held against others of the same length that were asked in time.
fn busy_host_still_finds_the_limit(seeds: Range<u64>) {
    for seed in seeds {
        let mut random = Random(seed ^ 0xB05);
        let limit = random.between(S, 20 * S);
        let most_ns = random.one_of(&[50 * MS, 200 * MS, 500 * MS]);
        let mut faults = busy(most_ns, &mut random);
        // Now and then it is stopped for seconds, twice.
        if random.percent(30) {
            let at = random.between(S, limit);
            let lasts = random.between(S, 6 * S);
            faults = vec![Fault::Pause(at, at + lasts), Fault::Pause(at + 2 * lasts, at + 3 * lasts)];
        }
        let traffic = OneWay { every_ns: S, from: Side::Here };
        let one_way = random.percent(50).then_some(traffic);
        let counts = super::Counts::FromThere;
        let world = World { seed, counts, faults, ..world(Some(limit), random.one_of(&KINDS)) };
        let outcome = run(&world, Settings { one_way, ..settings(2 * limit) }).outcome;
        let (survived, died) = ends(&outcome);
        assert!(survived <= limit && limit <= died, "{survived} {limit} {died}: {world:?}: {outcome:#?}");
        assert_eq!(outcome.verdict, Verdict::Found, "{limit}: {world:?}: {outcome:#?}");
    }
}
