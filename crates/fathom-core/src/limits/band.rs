//! A limit that is a band. Connections that are idle for less than its lower end survive, and connections that are idle
//! for longer than its upper end die. Between the ends some die and others survive. A device that scans for idle
//! connections periodically has such a limit, and so have several instances with different limits.
//!
//! The search tries both ends with connections that begin at different moments, because connections that begin together
//! meet the same scan. A band needs a lower end: connections that die by chance, after any idle time, have none.

use super::cohort::{Bracket, Cohort};
use super::plan::SHORTEST_NS;

/// Connections per round at the lower end, and at the upper end.
pub(super) const LOW_TRIES: u32 = 12;
pub(super) const HIGH_TRIES: u32 = 6;
/// Minimum number of judged connections at each end.
const LOW_LEAST: u32 = 10;
const HIGH_LEAST: u32 = 5;
/// Minimum of deaths that a constant hazard predicts below the lower end. If 7 are expected, none happens in 1 of 1,000
/// cases (Poisson).
const HAZARD_DEATHS: f64 = 7.0;

/// A band.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Band {
    /// Indexes of both ends among the cohorts.
    pub(super) ends: Bracket,
    /// Upper bound of the shortest idle time after which a connection died.
    pub(super) first_ns: u64,
}

/// Both ends as far as they are known, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    /// The longest length at and below which all connections lived.
    pub(super) low_ns: u64,
    /// A length after which all connections died, or one that is not tried yet.
    pub(super) high_ns: u64,
}

/// The shortest idle time after which a connection was found dead. If its request was retransmitted, it may have died
/// of a longer one.
fn first_death_ns(cohorts: &[Cohort]) -> Option<u64> {
    let died = cohorts.iter().flat_map(|cohort| &cohort.died);
    died.map(|died| died.asked_ns.min(died.most_ns)).min()
}

/// The longest idleness that a connection survived.
fn longest_life_ns(cohorts: &[Cohort]) -> u64 {
    cohorts.iter().flat_map(|cohort| &cohort.asked_ns).max().copied().unwrap_or(0)
}

/// True if all connections of this length lived, or all died, over all rounds.
fn all_alike(cohorts: &[Cohort], length_ns: u64) -> bool {
    let alike = || cohorts.iter().filter(|cohort| cohort.length_ns == length_ns);
    alike().all(|cohort| cohort.died.is_empty()) || alike().all(|cohort| cohort.survived == 0)
}

/// Index of the longest length that all connections survived, below the first death.
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

/// Index of the shortest length after which all connections died, above the longest survival.
fn high(cohorts: &[Cohort]) -> Option<(usize, u64)> {
    let longest_ns = longest_life_ns(cohorts);
    let died = |(at, cohort): (usize, &Cohort)| {
        let most_ns = cohort.died.iter().map(|died| died.most_ns).max()?;
        let dead = cohort.length_ns > longest_ns && all_alike(cohorts, cohort.length_ns);
        // A connection that was seen to end may have died of a shorter idle time than others survived.
        Some((at, most_ns.max(cohort.length_ns))).filter(|_| dead)
    };
    cohorts.iter().enumerate().filter_map(died).min_by_key(|(_, most_ns)| *most_ns)
}

/// The lengths at which to try both ends of a band next. `None`: it has no lower end, or nothing died.
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
    /// The band that the cohorts show. `None`: they show that there is no band, or too little.
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
