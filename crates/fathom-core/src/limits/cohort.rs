//! The connections that are idle for one length, what became of them, and the bracket that follows.

use super::io::Progress;
use crate::event::Death;

/// A death that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Died {
    pub(super) id: u32,
    pub(super) how: Death,
    /// By this host's clock it had been idle for so long when it was asked, or was seen to end, at the most: but for the time
    /// that every first echo takes.
    pub(super) asked_ns: u64,
    /// It had been idle for so long at the most when it died.
    pub(super) most_ns: u64,
    /// How much of that is doubt about when its request arrived.
    pub(super) doubt_ns: u64,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Cohort {
    pub(super) length_ns: u64,
    /// Connections of it that are still to be opened or judged.
    pub(super) open: u32,
    /// Those that survived.
    pub(super) survived: u32,
    /// They had been idle for so long at the least.
    pub(super) least_ns: u64,
    /// For how long each of them had been idle by this host's clock when it was asked.
    pub(super) asked_ns: Vec<u64>,
    pub(super) died: Vec<Died>,
    /// Those of which nothing can be said: asked while the path was down, never opened, died with all others.
    pub(super) void: u32,
}

impl Cohort {
    pub(super) fn new(length_ns: u64, open: u32) -> Self {
        Self { length_ns, open, ..Self::default() }
    }

    pub(super) fn judged(&self) -> u32 {
        self.survived + self.died.len() as u32
    }

    pub(super) fn survives(&mut self, asked_ns: u64, least_ns: u64) {
        self.open -= 1;
        self.asked_ns.push(asked_ns);
        self.least_ns = if self.survived == 0 { least_ns } else { self.least_ns.min(least_ns) };
        self.survived += 1;
    }

    pub(super) fn dies(&mut self, died: Died) {
        self.open -= 1;
        self.died.push(died);
    }

    pub(super) fn voids(&mut self) {
        self.open -= 1;
        self.void += 1;
    }

    /// It is idle for so long at the most that it died; `None`: not more than half of it did, or not all is known.
    pub(super) fn limit_ns(&self) -> Option<u64> {
        let most = self.died.iter().map(|died| died.most_ns).max()?;
        (self.open == 0 && self.died.len() as u32 * 2 > self.judged() + self.void).then_some(most)
    }

    /// More than half of all that belong to it survived.
    fn is_survivor(&self) -> bool {
        self.survived * 2 > self.judged() + self.open + self.void
    }
}

/// The longest survived and the shortest died, as places among the cohorts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bracket {
    pub(super) survived: Option<(usize, u64)>,
    pub(super) died: Option<(usize, u64)>,
}

impl Bracket {
    /// What the cohorts say. A length of which most died says nothing where a longer one was survived.
    pub(super) fn of(cohorts: &[Cohort]) -> Self {
        let each = || cohorts.iter().enumerate();
        let survived = each().filter(|(_, c)| c.is_survivor()).map(|(i, c)| (i, c.least_ns));
        let survived = survived.max_by_key(|(_, least)| *least);
        let at_least = survived.map_or(0, |(_, least)| least);
        let died = each().filter_map(|(i, c)| Some((i, c.limit_ns()?))).filter(|(_, most)| *most > at_least);
        // Of those that died at one moment, the one with the most of them.
        let died = died.min_by_key(|&(i, most)| (most, std::cmp::Reverse(cohorts[i].died.len()), i));
        Self { survived, died }
    }

    pub(super) fn survived_ns(&self) -> u64 {
        self.survived.map_or(0, |(_, ns)| ns)
    }

    /// How wide it is, but for what no further test can tell. `None`: nothing died.
    pub(super) fn gap_ns(&self, cohorts: &[Cohort]) -> Option<u64> {
        let (at, most) = self.died?;
        let doubt = cohorts[at].died.iter().map(|died| died.doubt_ns).max().unwrap_or(0);
        Some(most.saturating_sub(doubt).saturating_sub(self.survived_ns()))
    }

    pub(super) fn told(&self, progress: Progress) -> Progress {
        Progress { survived_ns: self.survived_ns(), died_ns: self.died.map(|(_, ns)| ns), ..progress }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cohort(length_ns: u64, survived: u32, died: u32) -> Cohort {
        let mut cohort = Cohort::new(length_ns, survived + died);
        (0..survived).for_each(|_| cohort.survives(length_ns, length_ns));
        let death =
            Died { id: 0, how: Death::Silent, asked_ns: length_ns, most_ns: length_ns + 3, doubt_ns: 2 };
        (0..died).for_each(|_| cohort.dies(death));
        cohort
    }

    fn bracket(cohorts: &[Cohort]) -> (u64, Option<u64>) {
        let bracket = Bracket::of(cohorts);
        (bracket.survived_ns(), bracket.died.map(|(_, ns)| ns))
    }

    #[test]
    fn bracket_lies_between_survival_and_death() {
        let open = Cohort { open: 1, ..cohort(10, 0, 2) };
        for (what, cohorts, expected) in [
            ("nothing is known", vec![], (0, None)),
            ("all survived", vec![cohort(10, 3, 0), cohort(20, 3, 0)], (20, None)),
            ("two died", vec![cohort(10, 3, 0), cohort(20, 1, 2), cohort(30, 0, 3)], (10, Some(23))),
            ("all died", vec![cohort(10, 0, 3)], (0, Some(13))),
            ("deaths below a survival", vec![cohort(10, 0, 3), cohort(20, 3, 0)], (20, None)),
            ("one of two", vec![cohort(10, 2, 1), cohort(20, 1, 1), cohort(30, 0, 3)], (10, Some(33))),
            ("a length is still open", vec![open], (0, None)),
        ] {
            assert_eq!(bracket(&cohorts), expected, "{what}");
        }
        assert_eq!(Bracket::of(&[cohort(10, 0, 3)]).gap_ns(&[cohort(10, 0, 3)]), Some(11));
    }
}
