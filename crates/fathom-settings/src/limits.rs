//! What settings are held against.

use crate::unit::exactly;
use fathom_core::limits::{Found, Limit, Outcome, Verdict};

/// The limits of a path, in ns. Absent: there is none, or it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Connections that were idle for less lived on.
    pub idle_ns: Option<u64>,
    /// Connections that were younger lived on.
    pub age_ns: Option<u64>,
}

impl Limits {
    /// What a search found, whichever it was. An error says why it cannot be used.
    pub fn found(found: &Found) -> Result<Self, String> {
        match found {
            Found::Lengths(outcome) => Self::of(outcome),
            Found::Rate(_) => Err("it was a search for the rate ceiling, which no setting is held against; use one for the idle limit, or for the age limit".to_owned()),
        }
    }

    /// What a search found: the longest that connections survived, because what lies above it was not seen to be safe. A search
    /// that found no limit holds nothing against any setting. An error says why it cannot be used.
    pub fn of(outcome: &Outcome) -> Result<Self, String> {
        if let Some(every_ns) = outcome.keepalive_ns {
            return Err(format!(
                "it was made with a keepalive every {}, so it does not say for how long a connection may be idle; use one made without --keepalive",
                exactly(every_ns)
            ));
        }
        if outcome.one_way.is_some() {
            return Err("it was made with traffic one way, so it does not say for how long a connection may be idle; use one made without --one-way".to_owned());
        }
        if let Some(ns) = outcome.dies_from_ns.filter(|_| outcome.is_unanswered()) {
            return Err(format!(
                "from {} on requests were acknowledged and not answered, by the application there or by a proxy that lost what is behind it: whether that is a limit nobody tells; look at the application, or search again with `fathom echo` in its place",
                exactly(ns)
            ));
        }
        if matches!(outcome.verdict, Verdict::Unclear | Verdict::Failed) {
            let dies = outcome.dies_from_ns.map_or_else(String::new, |ns| {
                format!(": connections died from {} on, and others did not", exactly(ns))
            });
            return Err(format!("it came to no clear result{dies}; search again"));
        }
        if outcome.has_many_strays() {
            return Err(format!(
                "{} of its connections died of less than others survived, so no setting is known to be safe; find out why first (fathom probe explains each)",
                outcome.strays
            ));
        }
        if outcome.verdict == Verdict::Stopped && outcome.died.is_none() {
            return Err("the search ended early, before it found a limit or that there is none; go on with fathom limits HOST --resume DIR".to_owned());
        }
        let found_ns = match (outcome.survived, outcome.died) {
            (Some(survived), Some(_)) => Some(survived.idle_ns),
            (None, Some(died)) => {
                let ns = exactly(died.idle_ns);
                return Err(format!(
                    "no connection survived as much as {ns}, so no setting is known to be safe"
                ));
            }
            (_, None) => None,
        };
        Ok(match outcome.limit {
            Limit::Idle => Self { idle_ns: found_ns, age_ns: None },
            Limit::Age => Self { idle_ns: None, age_ns: found_ns },
        })
    }

    /// Both, and of one that both have the shorter.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let shorter = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Self { idle_ns: shorter(self.idle_ns, other.idle_ns), age_ns: shorter(self.age_ns, other.age_ns) }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (Limit, u64)> {
        let idle = self.idle_ns.map(|ns| (Limit::Idle, ns));
        idle.into_iter().chain(self.age_ns.map(|ns| (Limit::Age, ns)))
    }
}
