//! A limit that is a band: connections that are idle for less than its lower end live on, those that are idle for longer than its
//! upper end are dead, and between the two some die and others live. A device that looks for idle connections now and then has
//! such a limit, and so have several instances with limits of their own.
//!
//! Both ends are tried by connections that begin at different moments, because connections that begin together meet the same
//! look of the device. And there must be a lower end: connections that die by chance, at any idleness alike, have none.

use super::cohort::{Bracket, Cohort};
use super::plan::SHORTEST_NS;

/// Connections that try the lower end, and the upper one, in each round.
pub(super) const LOW_TRIES: u32 = 12;
pub(super) const HIGH_TRIES: u32 = 6;
/// So many of those must have been judged.
const LOW_LEAST: u32 = 10;
const HIGH_LEAST: u32 = 5;
/// Deaths that a constant hazard would have made below the lower end, at the least: by chance there is none of 7 in 1 of 1,000
/// cases (Poisson).
const HAZARD_DEATHS: f64 = 7.0;

/// A band.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Band {
    /// Its ends, as places among the cohorts.
    pub(super) ends: Bracket,
    /// The shortest idleness of which a connection died, at the most.
    pub(super) first_ns: u64,
}

/// Both ends as far as they are known, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    /// The longest length of which, and below which, all lived.
    pub(super) low_ns: u64,
    /// A length of which all died, or one that is yet to be tried.
    pub(super) high_ns: u64,
}

/// The shortest idleness of which a connection died, when it was asked: one whose request was sent again may have died of more.
fn first_death_ns(cohorts: &[Cohort]) -> Option<u64> {
    let died = cohorts.iter().flat_map(|cohort| &cohort.died);
    died.map(|died| died.asked_ns.min(died.most_ns)).min()
}

/// The longest idleness that a connection survived.
fn longest_life_ns(cohorts: &[Cohort]) -> u64 {
    cohorts.iter().flat_map(|cohort| &cohort.asked_ns).max().copied().unwrap_or(0)
}

/// Whether all connections of this length, in whichever round, lived, or all died.
fn all_alike(cohorts: &[Cohort], length_ns: u64) -> bool {
    let alike = || cohorts.iter().filter(|cohort| cohort.length_ns == length_ns);
    alike().all(|cohort| cohort.died.is_empty()) || alike().all(|cohort| cohort.survived == 0)
}

/// The place of the longest length that all survived, below the first death.
fn low(cohorts: &[Cohort]) -> Option<(usize, u64)> {
    let first_ns = first_death_ns(cohorts)?;
    let lived = |cohort: &Cohort| {
        cohort.survived > 0
            && cohort.asked_ns.iter().all(|asked_ns| *asked_ns < first_ns)
            && all_alike(cohorts, cohort.length_ns)
    };
    let lived = cohorts.iter().enumerate().filter(|(_, cohort)| lived(cohort));
    lived.map(|(at, cohort)| (at, cohort.least_ns)).max_by_key(|(_, least_ns)| *least_ns)
}

/// The place of the shortest length that all died of, above the longest life.
fn high(cohorts: &[Cohort]) -> Option<(usize, u64)> {
    let longest_ns = longest_life_ns(cohorts);
    let died = |(at, cohort): (usize, &Cohort)| {
        let most_ns = cohort.died.iter().map(|died| died.most_ns).max()?;
        let dead = cohort.length_ns > longest_ns && all_alike(cohorts, cohort.length_ns);
        // One that was seen to end may have died of less than others lived.
        Some((at, most_ns.max(cohort.length_ns))).filter(|_| dead)
    };
    cohorts.iter().enumerate().filter_map(died).min_by_key(|(_, most_ns)| *most_ns)
}

/// Where to try both ends of a band next. `None`: it has no lower end, or nothing died.
pub(super) fn ends(cohorts: &[Cohort], up_to_ns: u64) -> Option<Ends> {
    let first_ns = first_death_ns(cohorts)?;
    let low_ns = low(cohorts).map_or(first_ns / 2, |(at, _)| cohorts[at].length_ns);
    let longest_ns = longest_life_ns(cohorts);
    let high_ns = match high(cohorts) {
        Some((at, _)) => cohorts[at].length_ns,
        None => longest_ns.saturating_add(longest_ns.saturating_sub(low_ns).max(SHORTEST_NS)),
    };
    (low_ns >= SHORTEST_NS && high_ns <= up_to_ns).then_some(Ends { low_ns, high_ns })
}

impl Band {
    /// What the cohorts say; `None`: they say that there is no band, or too little.
    pub(super) fn of(cohorts: &[Cohort]) -> Option<Self> {
        let (low, high) = (low(cohorts)?, high(cohorts)?);
        let died_from_ns = first_death_ns(cohorts)?;
        let first_ns = cohorts.iter().flat_map(|cohort| &cohort.died).map(|died| died.most_ns).min()?;
        let near_ns = cohorts[low.0].length_ns - cohorts[low.0].length_ns / 16;
        let asked = || cohorts.iter().flat_map(|cohort| &cohort.asked_ns).copied();
        let lived = asked().filter(|asked_ns| (near_ns..died_from_ns).contains(asked_ns)).count() as u32;
        let beyond = cohorts.iter().filter(|cohort| cohort.length_ns >= cohorts[high.0].length_ns);
        let died: usize = beyond.map(|cohort| cohort.died.len()).sum();
        let ends = Bracket { survived: Some(low), died: Some(high) };
        let is_tried = lived >= LOW_LEAST && died as u32 >= HIGH_LEAST;
        (is_tried && !may_be_hazard(cohorts, low.1)).then_some(Self { ends, first_ns })
    }
}

/// Whether a hazard that is the same at any idleness may have spared all that were idle for so long.
fn may_be_hazard(cohorts: &[Cohort], low_ns: u64) -> bool {
    let (mut deaths, mut all_ns, mut below_ns) = (0.0, 0.0, 0.0);
    for cohort in cohorts {
        for asked_ns in &cohort.asked_ns {
            all_ns += *asked_ns as f64;
            below_ns += (*asked_ns).min(low_ns) as f64;
        }
        for died in &cohort.died {
            deaths += 1.0;
            all_ns += died.asked_ns as f64;
        }
    }
    deaths / all_ns * below_ns < HAZARD_DEATHS
}
