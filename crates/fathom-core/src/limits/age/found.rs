//! What the lives of connections amount to.

use super::super::outcome::{End, Outcome, Verdict};
use super::super::share::wilson;
use super::lives::{self, Bound, Life};
use super::plan::Pace;
use crate::event::{Death, Limit};
use std::collections::BTreeMap;

/// What lives amount to; of the search it says no more than that.
pub(in super::super) fn outcome_of(lives: &[Life], up_to_ns: u64, verdict: Verdict) -> Outcome {
    let window = lives::window(lives, 2 * Pace::of(up_to_ns).every_ns);
    let end = |(idle_ns, hits, of): Bound| End { idle_ns, hits, of, share_95: wilson(hits, of) };
    let deaths = lives.iter().filter(|life| life.most_ns.is_some()).count();
    let (survived, died) = match &window {
        Some(window) => {
            let (low, high) = window.bounds(lives);
            (Some(end(low)), Some(end(high)))
        }
        None => (lives::survived(lives, up_to_ns).map(end), None),
    };
    let mut how: BTreeMap<Death, u32> = BTreeMap::new();
    for at in window.iter().flat_map(|window| &window.died) {
        *how.entry(lives[*at].how.unwrap_or(Death::Other)).or_default() += 1;
    }
    Outcome {
        limit: Limit::Age,
        survived,
        died,
        confirmed: window.is_some(),
        how,
        up_to_ns,
        strays: (deaths - window.map_or(0, |window| window.died.len())) as u32,
        lives: lives.to_vec(),
        ..Outcome::of(&[], verdict)
    }
}
