//! Decides if the outcomes of the connections show one idle limit, no limit, or neither.
//!
//! With a limit, connections that are idle for less survive, and connections that are idle for longer die. A limit that nothing
//! contradicts needs no test: a length after which most died is tried again before it is a result. Deaths below the limit
//! contradict it, and so do connections that outlived it. One of fifty may have died below it; if more did, some have a shorter
//! limit. Deaths must also be more frequent beyond the bracket than just below it, by Fisher's exact test (one side, 1 in
//! 1,000): connections that die by chance, or have different limits, die as often on both sides. `limits::by_chance` counts in
//! virtual time how often these are still called a limit. The shorter end is tried again. If more than one of nine die there,
//! something ended all connections that were idle at one moment, or no single length is the limit: it may be a `band`.
//!
//! The result is also "no limit" if at most one connection of fifty died.

use super::cohort::{Bracket, Cohort, Died};
use crate::event::Death;

/// A bracket that chance would make so often, where deaths are as frequent on both sides of it, is none.
const BY_CHANCE: f64 = 1e-3;
/// Between two connections that are asked when they are due no more than this passes on a host that is not busy.
const BUSY_NS: u64 = 10_000_000;
/// One death among so many connections, and fewer, are none that a claim has to account for.
pub(super) const FEW: u32 = 50;

/// What contradicts both a limit and that there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Doubt {
    /// The shortest idleness of which a connection died.
    pub(super) from_ns: u64,
    pub(super) died: u32,
    pub(super) judged: u32,
    /// The longest that a connection survived.
    pub(super) survived_ns: u64,
}

/// See the module. `None`: the bracket, or that nothing died, is what the connections say.
pub(super) fn doubt(cohorts: &[Cohort], bracket: Bracket) -> Option<Doubt> {
    let judged = cohorts.iter().map(Cohort::judged).sum();
    let deaths = || cohorts.iter().flat_map(|cohort| &cohort.died);
    let low = Low::of(cohorts, bracket);
    let strays = low.strays(cohorts);
    let alike = |(_, high_ns)| Sides::of(cohorts, low, high_ns).are_alike(strays);
    let contradicted = strays * FEW > judged || low.is_refuted(cohorts) || bracket.died.is_some_and(alike);
    let from_ns = deaths().map(|died| died.most_ns).min().filter(|_| contradicted)?;
    let survived = cohorts.iter().filter(|cohort| cohort.survived > 0).map(|cohort| cohort.least_ns);
    let survived_ns = survived.max().unwrap_or(0);
    Some(Doubt { from_ns, died: deaths().count() as u32, judged, survived_ns })
}

/// True if a connection died of an idle time that the claim calls survived. So few died that the claim holds.
pub(super) fn has_strays(cohorts: &[Cohort], bracket: Bracket) -> bool {
    Low::of(cohorts, bracket).strays(cohorts) > 0
}

/// Idleness that most survived.
#[derive(Debug, Clone, Copy, Default)]
struct Low {
    /// The length that was planned, in ns.
    planned: u64,
    /// How long the connections were idle at the least, and, by this host's clock, at the most when they were asked.
    least_ns: u64,
    asked_ns: u64,
}

impl Low {
    fn of(cohorts: &[Cohort], bracket: Bracket) -> Self {
        let Some((at, least_ns)) = bracket.survived else { return Self::default() };
        let asked_ns = cohorts[at].asked_ns.iter().max().copied().unwrap_or(0);
        Self { planned: cohorts[at].length_ns, least_ns, asked_ns }
    }

    /// Whether one died of this idleness, or of less. One that was asked no later died of no more, though it may have been idle
    /// for a little longer at the most than others were at the least. Where this host was busy it may have been asked later
    /// than one that was planned with it, or before it; that is known but for what passes until the request is sent.
    fn contradicts(self, cohort: &Cohort, died: &Died) -> bool {
        let late_ns = if cohort.length_ns <= self.planned { BUSY_NS } else { 0 };
        died.asked_ns <= self.asked_ns + late_ns || died.most_ns <= self.least_ns
    }

    /// Number of connections that died of this idle time, or of less.
    fn strays(self, cohorts: &[Cohort]) -> u32 {
        let died = |cohort: &Cohort| cohort.died.iter().filter(|died| self.contradicts(cohort, died)).count();
        cohorts.iter().map(died).sum::<usize>() as u32
    }

    /// True if more than one of nine connections did not survive it, perhaps at another moment. A single death does not
    /// count: its request may have been lost, and retransmitted too late.
    fn is_refuted(self, cohorts: &[Cohort]) -> bool {
        let alike = || cohorts.iter().filter(|cohort| cohort.length_ns == self.planned);
        let survived: u32 = alike().map(|cohort| cohort.survived).sum();
        let died =
            alike().flat_map(|cohort| cohort.died.iter().filter(|died| self.contradicts(cohort, died)));
        let died = died.count() as u32;
        died > 1 && died * 8 > survived
    }

    /// Whether one that survived was idle for longer.
    fn is_outlived(self, cohort: &Cohort, asked_ns: u64) -> bool {
        cohort.length_ns > self.planned && asked_ns > self.asked_ns
    }
}

/// Connections on both sides of a bracket: how many died, and how many did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sides {
    /// Idle for less than its shorter end, but for three quarters of it at the least: chance has as much time with them.
    below: (u32, u32),
    /// Beyond it.
    beyond: (u32, u32),
}

impl Sides {
    fn of(cohorts: &[Cohort], low: Low, high_ns: u64) -> Self {
        // What ends connections late, or looks for them now and then, may do so by a quarter.
        let late_ns = high_ns + high_ns / 4;
        let while_idle = |died: &Died| matches!(died.how, Death::ResetWhileIdle | Death::ClosedWhileIdle);
        let mut sides = Self::default();
        for cohort in cohorts {
            let near = cohort.length_ns >= low.planned - low.planned / 4;
            for asked_ns in &cohort.asked_ns {
                let is_beyond = low.is_outlived(cohort, *asked_ns);
                sides.beyond.1 += u32::from(is_beyond);
                sides.below.1 += u32::from(near && !is_beyond);
            }
            for died in &cohort.died {
                match died.most_ns {
                    _ if low.contradicts(cohort, died) => sides.below.0 += u32::from(near),
                    ns if ns <= late_ns => sides.beyond.0 += 1,
                    // When it died is known only of one that was seen to end: it outlived the bracket.
                    _ => sides.beyond.1 += u32::from(while_idle(died)),
                }
            }
        }
        sides
    }

    /// Whether connections may die on both sides alike, where something says so.
    fn are_alike(self, strays: u32) -> bool {
        let nothing_says_so = strays == 0 && self.beyond.1 == 0;
        !nothing_says_so && fisher(self.below, self.beyond) >= BY_CHANCE
    }
}

/// The chance that so many of all deaths, or more, are among the second where both die alike: Fisher's exact test of two shares
/// (hits, misses), one side (Fisher, "On the interpretation of χ² from contingency tables, and the calculation of P", 1922).
fn fisher(first: (u32, u32), second: (u32, u32)) -> f64 {
    let (in_second, hits) = (second.0 + second.1, first.0 + second.0);
    let all = first.0 + first.1 + in_second;
    let ways = |hits_in_second: u32| {
        ln_choose(in_second, hits_in_second) + ln_choose(all - in_second, hits - hits_in_second)
    };
    let most = in_second.min(hits);
    (second.0..=most).map(|k| (ways(k) - ln_choose(all, hits)).exp()).sum::<f64>().min(1.0)
}

/// ln of the number of ways to choose so many of so many.
fn ln_choose(of: u32, some: u32) -> f64 {
    (0..some.min(of - some)).map(|k| (f64::from(of - k) / f64::from(k + 1)).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of `SciPy`'s `fisher_exact(..., alternative="greater")`, and the closed form where all of one side died.
    #[test]
    fn the_chance_of_two_shares_is_fishers() {
        for (first, second, chance) in [
            ((1, 11), (6, 0), 0.000_377_074),
            ((15, 15), (6, 0), 0.027_859_238),
            ((3, 27), (6, 1), 0.000_231_947),
            ((0, 0), (3, 3), 1.0),
            ((5, 5), (0, 7), 1.0),
        ] {
            let found = fisher(first, second);
            assert!((found / chance - 1.0).abs() < 1e-5, "{first:?} {second:?}: {found}");
        }
        for n in 1..30 {
            // The only way of all deaths in the second, of C(2n, n).
            let found = fisher((0, n), (n, 0));
            let all: f64 = (1..=n).map(|k| f64::from(n + k) / f64::from(k)).product();
            assert!((found * all - 1.0).abs() < 1e-9, "{n}: {found}");
        }
    }
}
