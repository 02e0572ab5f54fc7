//! Requests that were acknowledged and not answered.
//!
//! Whoever acknowledges has the request: the path carried it, and the acknowledgement back. Mostly that is the kernel of the host
//! whose application does not read any more, or does not answer; it may be a proxy on the way that has lost what lies
//! behind it, and then only a reflector can tell, which never got the request. So no limit is claimed of them unless it does.

use super::outcome::{By, Outcome, Verdict};
use super::why::not_answered;
use crate::event::{Death, Limit};

/// What was found, without a limit where what died was not answered for another reason than the path.
pub(super) fn unanswered(found: Outcome) -> Outcome {
    let times = found.how.get(&Death::NotAnswered).copied().unwrap_or(0);
    let most = times > 0 && times * 2 > found.how.values().sum();
    let Some(died) = found.died.filter(|_| most && found.by == By::Unknown) else { return found };
    let strays = match found.limit {
        Limit::Idle => found.lengths.iter().map(|row| row.died).sum(),
        Limit::Age => found.lives.iter().filter(|life| life.most_ns.is_some()).count() as u32,
    };
    Outcome {
        verdict: Verdict::Unclear,
        why: Some(not_answered(found.limit, died.idle_ns)),
        died: None,
        confirmed: false,
        dies_from_ns: found.dies_from_ns.or(Some(died.idle_ns)),
        strays,
        ..found
    }
}

impl Outcome {
    /// Whether no limit of the path is claimed because requests were acknowledged and not answered.
    pub fn is_unanswered(&self) -> bool {
        self.dies_from_ns.is_some() && self.died.is_none() && self.how.contains_key(&Death::NotAnswered)
    }
}
