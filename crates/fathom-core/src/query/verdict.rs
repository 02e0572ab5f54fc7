//! Of many queries: whose time most of it is, and how sure that is.

use super::{PARTIES, Part, Party, Split};

/// How sure a verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confidence {
    /// Even its lower bound is more than half of the time.
    High,
    /// Its estimate is more than half.
    Medium,
    /// No party's is.
    None,
}

/// Sums over queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verdict {
    wall_ns: u64,
    parts: [Part; 3],
    /// Wall time of queries without an estimate.
    without_estimate_ns: u64,
    queries: u64,
}

impl Verdict {
    /// Takes a query.
    pub fn add(&mut self, split: &Split) {
        self.queries += 1;
        if split.estimates().is_none() {
            self.without_estimate_ns = self.without_estimate_ns.saturating_add(split.wall_ns);
        }
        self.wall_ns = self.wall_ns.saturating_add(split.wall_ns);
        for (sum, part) in self.parts.iter_mut().zip(split.reckoned()) {
            sum.low_ns = sum.low_ns.saturating_add(part.low_ns);
            sum.ns = sum.ns.saturating_add(part.ns);
            sum.high_ns = sum.high_ns.saturating_add(part.high_ns);
        }
    }

    /// A query's wall time in the mean, and of it the parts by [`Party`]; `None`: there is no query.
    pub fn mean(&self) -> Option<(u64, [Part; 3])> {
        let wall_ns = self.wall_ns.checked_div(self.queries)?;
        let of = |ns: u64| ns / self.queries;
        Some((
            wall_ns,
            self.parts.map(|p| Part { low_ns: of(p.low_ns), ns: of(p.ns), high_ns: of(p.high_ns) }),
        ))
    }

    /// A party's share of all of their time: at least, estimated (`None`: more than half of the time is of queries that have no
    /// estimate, however few those are), at most.
    pub fn share(&self, party: Party) -> (f64, Option<f64>, f64) {
        let part = self.parts[party as usize];
        let of = |ns: u64| if self.wall_ns == 0 { 0.0 } else { ns as f64 / self.wall_ns as f64 };
        let estimate = (self.without_estimate_ns <= self.wall_ns / 2).then(|| of(part.ns));
        (of(part.low_ns), estimate, of(part.high_ns).min(1.0))
    }

    /// Whose time most of it is.
    pub fn most(&self) -> (Option<Party>, Confidence) {
        let sure = PARTIES.into_iter().find(|&party| self.share(party).0 > 0.5);
        if sure.is_some() {
            return (sure, Confidence::High);
        }
        let likely = PARTIES.into_iter().find(|&party| self.share(party).1.is_some_and(|share| share > 0.5));
        (likely, if likely.is_some() { Confidence::Medium } else { Confidence::None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that was cut for 1.5 s: one query has nearly all of the time, and nobody knows whose it was.
    #[test]
    fn one_long_query_that_nobody_can_split_leaves_no_estimate() {
        const MS: u64 = 1_000_000;
        let part = |low_ns, ns, high_ns| Part { low_ns, ns, high_ns };
        let quick = Split::of_recording(MS, [part(0, MS, MS), part(0, 0, MS), part(0, 0, 0)], None);
        let open = [part(0, 0, 1_500 * MS), part(0, 0, 1_499 * MS), part(0, 0, 0)];
        let long = Split::of_recording(1_500 * MS, open, Some("what was not seen"));
        let mut verdict = Verdict::default();
        for _ in 0..6 {
            verdict.add(&quick);
        }
        assert_eq!(verdict.most(), (Some(Party::Server), Confidence::Medium));
        verdict.add(&long);
        assert_eq!(verdict.share(Party::Server).1, None);
        assert_eq!(verdict.most(), (None, Confidence::None));
    }
}
