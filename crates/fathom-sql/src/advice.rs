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
    /// Queries during which the server was looked at.
    pub(crate) looked_at: u64,
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
                    of.looked_at
                ));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_counted_among_the_queries_that_were_looked_at() {
        let waits = [("IO/DataFileRead".to_owned(), 2), ("Lock/tuple".to_owned(), 1)].into();
        let evidence = Evidence {
            verdict: (Some(Party::Server), Confidence::High),
            turns: 1,
            rtt_ns: None,
            fetch_size: None,
            waits: &waits,
            looked_at: 3,
        };
        assert_eq!(
            lines(&evidence),
            ["the server waited most for IO/DataFileRead (in 2 of 3 that were looked at)"]
        );
    }
}
