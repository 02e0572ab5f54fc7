//! What the lives of connections amount to.

use super::super::outcome::{End, Outcome, Verdict};
use super::super::share::wilson;
use super::super::why::no_age_for_all;
use super::chance::may_be_chance;
use super::lives::{self, Bound, Life};
use super::plan::Pace;
use crate::event::{Death, Limit};
use std::collections::BTreeMap;

/// What lives amount to; of the search it says no more than that.
pub(in super::super) fn outcome_of(lives: &[Life], up_to_ns: u64, verdict: Verdict) -> Outcome {
    let window = lives::window(lives, 2 * Pace::of(up_to_ns).every_ns);
    let end = |(idle_ns, hits, of): Bound| End { idle_ns, hits, of, share_95: wilson(hits, of) };
    let (survived, died) = match &window {
        Some(window) => {
            let (low, high) = window.bounds(lives);
            (Some(end(low)), Some(end(high)))
        }
        None => (lives::survived(lives, up_to_ns).map(end), None),
    };
    let dies_from_ns = window.is_none().then(|| contradicts(lives, up_to_ns, verdict)).flatten();
    let (survived, verdict, why) = match dies_from_ns {
        Some(_) => {
            // Who ended it knows that it says nothing yet.
            let verdict = if verdict == Verdict::NotFound { Verdict::Unclear } else { verdict };
            let why = (verdict == Verdict::Unclear).then(|| no_age_for_all(lives, up_to_ns));
            (lives::survived_by_all(lives).map(end), verdict, why)
        }
        None => (survived, verdict, None),
    };
    // What may have died of the limit is no stray: a request that was lost may leave the age at death known to seconds only.
    let ends = survived.zip(died);
    let is_stray = |(at, life): &(usize, &Life)| {
        let of_it = ends.is_some_and(|(low, high)| {
            life.least_ns <= high.idle_ns && life.most_ns.is_some_and(|most| most >= low.idle_ns)
        });
        let counted = window.as_ref().is_some_and(|window| window.died.contains(at));
        life.most_ns.is_some() && !of_it && !counted
    };
    let strays = lives.iter().enumerate().filter(is_stray).count();
    let mut how: BTreeMap<Death, u32> = BTreeMap::new();
    for at in window.iter().flat_map(|window| &window.died) {
        *how.entry(lives[*at].how.unwrap_or(Death::Other)).or_default() += 1;
    }
    Outcome {
        limit: Limit::Age,
        why,
        dies_from_ns,
        survived,
        died,
        confirmed: window.is_some(),
        how,
        up_to_ns,
        strays: strays as u32,
        lives: lives.to_vec(),
        ..Outcome::of(&[], verdict)
    }
}

/// From which age on connections died, where that is no limit and cannot be left aside as chance either: fewer than three of four
/// became as old as was asked for, or the ages are not those of chance.
fn contradicts(lives: &[Life], up_to_ns: u64, verdict: Verdict) -> Option<u64> {
    let from_ns = lives.iter().filter_map(|life| life.most_ns).min()?;
    let (died, became) = lives::died_and_became(lives, up_to_ns);
    let many = died * 3 > became;
    let contradicted = match verdict {
        Verdict::NotFound => many || may_be_chance(lives) == Some(false),
        Verdict::Unclear => true,
        _ => may_be_chance(lives) == Some(false),
    };
    contradicted.then_some(from_ns)
}
