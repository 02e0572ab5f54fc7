//! One moment that ends all connections that are idle, and none that are in use: a clean-up, a failover that keeps active flows.

use super::world::{Fault, Kind, Random, S, World};
use super::{ran, settings, world};
use fathom_core::limits::Verdict;
use std::ops::Range;

tiers! {
    single_idle_flush_is_no_limit: 0..4, 0..100;
}

/// "Idle limit between 55.49 s and 56.88 s", confirmed by a reserve that had been idle at that moment too.
fn single_idle_flush_is_no_limit(seeds: Range<u64>) {
    for seed in seeds {
        let mut random = Random(seed ^ 0x0E);
        let at = random.between(5 * S, 300 * S);
        let idle = random.between(S, 6 * S);
        let kind = random.one_of(&[Kind::Silent, Kind::ResetOnPacket]);
        let loss = random.one_of(&[0, 0, 10]);
        let world = World { seed, loss, faults: vec![Fault::FlushIdle(at, idle)], ..world(None, kind) };
        let outcome = ran(&world, &settings(200 * S)).outcome;
        assert_ne!(outcome.verdict, Verdict::Found, "{world:?}: {outcome:#?}");
    }
}
