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
    without_estimate: u64,
    queries: u64,
}

impl Verdict {
    /// Takes a query.
    pub fn add(&mut self, split: &Split) {
        self.queries += 1;
        self.without_estimate += u64::from(split.estimates().is_none());
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

    /// A party's share of all of their time: at least, estimated (`None`: more than half of the queries have no estimate), at
    /// most.
    pub fn share(&self, party: Party) -> (f64, Option<f64>, f64) {
        let part = self.parts[party as usize];
        let of = |ns: u64| if self.wall_ns == 0 { 0.0 } else { ns as f64 / self.wall_ns as f64 };
        let estimate = (self.without_estimate * 2 <= self.queries).then(|| of(part.ns));
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
