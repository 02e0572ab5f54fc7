//! A middlebox that scans for idle flows, at intervals from a tenth of the allowed idle time to more than all of it. A
//! flow lives until the scan, so the limit is a band: nothing dies below its lower end, nothing lives above its upper
//! end.

use super::world::{Random, S, World};
use super::{KINDS, ends, ran, settings, world};
use crate::chance::{is_rare, is_usual, runs};
use fathom_core::limits::Verdict;
use std::ops::Range;

tiers! {
    swept_limit_is_a_band: 0..8, 0..100;
}

fn swept_limit_is_a_band(seeds: Range<u64>) {
    let (mut found, mut too_high, of) = (0, 0, runs(&seeds));
    for seed in seeds {
        let mut random = Random(seed ^ 0x5EE9);
        let scale = random.one_of(&[S, S, 10 * S]);
        let limit = random.between(2 * scale, 20 * scale);
        let every = limit * random.between(10, 150) / 100;
        let kind = KINDS[(seed % 4) as usize];
        let world = World { seed, sweeps_every_ns: Some(every), ..world(Some(limit), kind) };
        let outcome = ran(&world, &settings(4 * limit)).outcome;
        let (survived, died) = ends(&outcome);
        assert_ne!(outcome.verdict, Verdict::NotFound, "{world:?}: {outcome:#?}");
        assert!(outcome.dies_from_ns.is_none_or(|from| from >= limit), "{world:?}: {outcome:#?}");
        if outcome.verdict != Verdict::Found {
            continue;
        }
        found += 1;
        // Some of those that are idle for a little longer than the limit die of it, and all are tried by chance.
        too_high += u64::from(survived > limit + limit / 8);
        assert!(survived < died && died >= limit, "{world:?}: {outcome:#?}");
        let text = outcome.text("there");
        assert_eq!(text.contains("band"), outcome.is_band(), "{text}");
    }
    assert!(is_usual(found, of, 85), "{found} of {of} found one");
    assert!(is_rare(too_high, of, 3), "{too_high} of {of} are too high");
}
