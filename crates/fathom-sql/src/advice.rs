//! What to do about it: only where the figures of this very run give a reason.

use fathom_core::query::{Confidence, Party};
use fathom_core::units::narrow::time_or_dash;
use std::collections::BTreeMap;

/// What a run found.
pub(crate) struct Evidence<'a> {
    pub(crate) verdict: (Option<Party>, Confidence),
    /// Medians.
    pub(crate) turns: u64,
    pub(crate) rtt_ns: Option<u64>,
    pub(crate) fetch_size: Option<u32>,
    /// Queries by what the server waited for most.
    pub(crate) waits: &'a BTreeMap<String, u64>,
    pub(crate) answered: u64,
}

/// Lines, each with its evidence; none where there is none.
pub(crate) fn lines(of: &Evidence<'_>) -> Vec<String> {
    let mut lines = vec![];
    // What is not sure is no ground for a change.
    let (Some(party), Confidence::High) = of.verdict else { return lines };
    let turns = of.turns;
    match party {
        Party::Path => {
            if let (Some(rtt), true, Some(fetch)) = (of.rtt_ns, turns > 2, of.fetch_size) {
                let saved = time_or_dash(Some(rtt * (turns - 1)), 3);
                lines.push(format!(
                    "{turns} round trips a query: fetched at once instead of {fetch} by {fetch}, its rows would come {saved} sooner"
                ));
            }
        }
        Party::Client => lines.push(
            "the client's own work on rows holds it up: neither server nor network would change that"
                .to_owned(),
        ),
        Party::Server => {
            if let Some((wait, n)) = of.waits.iter().max_by_key(|(_, n)| **n) {
                lines.push(format!(
                    "the server waited most for {wait} (in {n} of {} that were looked at)",
                    of.answered
                ));
            }
        }
    }
    lines
}
