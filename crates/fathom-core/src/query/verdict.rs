//! Of many queries: whose time most of it is, and how sure that is.

use super::{PARTIES, Part, Party, Split};

/// How sure a verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confidence {
    /// Even its lower bound is more than half of the time.
    High,
    /// What is estimated to be its own, and of queries without an estimate what surely is, comes to more than half.
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
    /// The estimates of the others, and the least of those.
    known_ns: [u64; 3],
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
        let known = split.estimates().unwrap_or_else(|| PARTIES.map(|party| split.part(party).low_ns));
        for (sum, ns) in self.known_ns.iter_mut().zip(known) {
            *sum = sum.saturating_add(ns);
        }
        for (sum, part) in self.parts.iter_mut().zip(split.reckoned()) {
            sum.low_ns = sum.low_ns.saturating_add(part.low_ns);
            sum.ns = sum.ns.saturating_add(part.ns);
            sum.high_ns = sum.high_ns.saturating_add(part.high_ns);
        }
    }

    /// The wall time of all of them.
    pub(super) fn wall_ns(&self) -> u64 {
        self.wall_ns
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

    /// Whose time most of it is. What of a query is open, because nobody could tell server and path apart (the path was cut), speaks for
    /// nobody.
    pub fn most(&self) -> (Option<Party>, Confidence) {
        let sure = PARTIES.into_iter().find(|&party| self.share(party).0 > 0.5);
        if sure.is_some() {
            return (sure, Confidence::High);
        }
        let is_most = |party: Party| self.known_ns[party as usize] > self.wall_ns / 2;
        let likely = PARTIES.into_iter().find(|&party| is_most(party));
        (likely, if likely.is_some() { Confidence::Medium } else { Confidence::None })
    }

    /// Who surely has more than either of the others can have, be it most of the time or not.
    pub fn greatest(&self) -> Option<Party> {
        PARTIES.into_iter().find(|&party| {
            let low_ns = self.parts[party as usize].low_ns;
            PARTIES.into_iter().all(|other| other == party || self.parts[other as usize].high_ns < low_ns)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that was cut for 1.5 s: one query has nearly all of the time, and nobody knows whose it was.
    #[test]
    fn one_long_unsplit_query_prevents_verdict() {
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

    /// The article's experiment on a quiet machine: no estimates, and less than half is the path's for sure. But nobody had more.
    #[test]
    fn certainly_greatest_party_is_named() {
        let part = |low_ns, high_ns| Part { low_ns, ns: low_ns, high_ns };
        let of = |path: Part| {
            let mut verdict = Verdict::default();
            let parts = [part(0, 2_800), path, part(300, 5_100)];
            verdict.add(&Split::of_recording(13_800, parts, Some("what was not seen")));
            (verdict.most(), verdict.greatest())
        };
        let nobody = (None, Confidence::None);
        assert_eq!(of(part(5_900, 13_500)), (nobody, Some(Party::Path)));
        // As much the client may have had.
        assert_eq!(of(part(5_100, 13_500)), (nobody, None));
        let sure = (Some(Party::Path), Confidence::High);
        assert_eq!(of(part(7_000, 13_500)), (sure, Some(Party::Path)));
    }

    /// The same beside queries that took longer in all, half of it the path's: the middle of what was open made it the server's.
    #[test]
    fn unsplit_time_counts_for_no_party() {
        const MS: u64 = 1_000_000;
        let part = |ns| Part { low_ns: ns, ns, high_ns: ns };
        let open = Part { low_ns: 0, ns: 0, high_ns: 1_500 * MS };
        let cut = Split::of_recording(1_500 * MS, [open, open, part(0)], Some("what was not seen"));
        let others = Split::of_recording(1_800 * MS, [part(1_000 * MS), part(800 * MS), part(0)], None);
        let mut verdict = Verdict::default();
        verdict.add(&others);
        assert_eq!(verdict.most(), (Some(Party::Server), Confidence::High));
        verdict.add(&cut);
        assert!(verdict.share(Party::Server).1.is_some_and(|share| share > 0.5), "{verdict:?}");
        assert_eq!(verdict.most(), (None, Confidence::None));
        // Where the others have more than half of all, it is theirs.
        for _ in 0..2 {
            verdict.add(&others);
            verdict.add(&Split::of_recording(900 * MS, [part(900 * MS), part(0), part(0)], None));
        }
        assert_eq!(verdict.most(), (Some(Party::Server), Confidence::High));
    }
}
