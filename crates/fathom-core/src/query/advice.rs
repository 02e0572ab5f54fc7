//! What to do about it: only where the figures of this very run give a reason.

use super::{Confidence, Party};
use crate::text::count;
use crate::units::narrow::time_or_dash;
use std::collections::BTreeMap;

/// What a run found.
pub(super) struct Evidence<'a> {
    pub(super) verdict: (Option<Party>, Confidence),
    /// Medians.
    pub(super) turns: u64,
    pub(super) rtt_ns: Option<u64>,
    pub(super) wall_ns: u64,
    /// The path's share at most, and the server's.
    pub(super) path_at_most: f64,
    pub(super) server_at_most: f64,
    pub(super) fetch_size: Option<u32>,
    /// That asked side by side.
    pub(super) connections: u64,
    /// Queries by what the server waited for at more than half of their looks.
    pub(super) waits: &'a BTreeMap<String, u64>,
    /// Queries during which the server was looked at.
    pub(super) looked_at: u64,
}

/// Lines, each with its evidence; none where there is none.
pub(super) fn lines(of: &Evidence<'_>) -> Vec<String> {
    let mut lines = vec![];
    // What is not sure is no ground for a change.
    let (Some(party), Confidence::High) = of.verdict else { return lines };
    let turns = of.turns;
    if let (Some(rtt), true, Some(fetch)) = (of.rtt_ns, turns > 2, of.fetch_size) {
        // The path took no more than its share, which is of all round trips.
        let paths_ns = (of.wall_ns as f64 * of.path_at_most) as u64;
        let saved_ns = (rtt * (turns - 1)).min(paths_ns / turns * (turns - 1));
        // Less is nothing that anybody would notice.
        if saved_ns >= of.wall_ns / 10 {
            let saved = time_or_dash(Some(saved_ns), 3);
            lines.push(format!(
                "{turns} round trips a query: fetched at once instead of {fetch} by {fetch}, its rows would come {saved} sooner"
            ));
        }
    }
    match party {
        Party::Path => {}
        // Whether one works or waits for a processor that another has, it is this host's.
        Party::Client if of.connections > 1 => lines.push(format!(
            "this host holds it up: work on rows, or {} that share its processors",
            count(of.connections, "connection")
        )),
        Party::Client if of.path_at_most < 0.1 && of.server_at_most < 0.1 => lines.push(
            "the client's own work on rows holds it up: neither server nor network would change that"
                .to_owned(),
        ),
        Party::Client => lines.push("the client's own work on rows is most of it".to_owned()),
        Party::Server => {
            // In the others it worked, or waited for now this and now that.
            if let Some((wait, n)) = of.waits.iter().find(|(_, n)| **n * 2 > of.looked_at) {
                lines.push(format!(
                    "the server waited for {wait} for most of the time (in {n} of {} that were looked at)",
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
            wall_ns: 1,
            path_at_most: 1.0,
            server_at_most: 1.0,
            fetch_size: None,
            connections: 1,
            waits: &waits,
            looked_at: 3,
        };
        assert_eq!(
            lines(&evidence),
            ["the server waited for IO/DataFileRead for most of the time (in 2 of 3 that were looked at)"]
        );
        assert_eq!(lines(&Evidence { looked_at: 4, ..evidence }), Vec::<String>::new());
    }

    /// Seven round trips of 145 ms in 2.6 s of which most is the client's.
    #[test]
    fn what_the_path_takes_is_said_to_a_busy_client_too() {
        let evidence = Evidence {
            verdict: (Some(Party::Client), Confidence::High),
            turns: 7,
            rtt_ns: Some(145_000_000),
            wall_ns: 2_590_000_000,
            path_at_most: 0.4,
            server_at_most: 0.05,
            fetch_size: Some(50),
            connections: 1,
            waits: &BTreeMap::new(),
            looked_at: 0,
        };
        let told = lines(&evidence);
        assert!(told[0].contains("870ms sooner") && told.len() == 2, "{told:?}");
        assert!(!told[1].contains("neither"), "{told:?}");
        let alone = lines(&Evidence { turns: 1, path_at_most: 0.01, ..evidence });
        assert!(alone.len() == 1 && alone[0].contains("neither"), "{alone:?}");
        // Half of the time the server works before it: a faster one would be felt.
        let later = lines(&Evidence { turns: 1, path_at_most: 0.01, server_at_most: 0.5, ..evidence });
        assert!(later.len() == 1 && !later[0].contains("neither"), "{later:?}");
        // Of several nobody knows whether it was the work or the others.
        let several = lines(&Evidence { turns: 1, path_at_most: 0.01, connections: 8, ..evidence });
        assert_eq!(
            several,
            ["this host holds it up: work on rows, or 8 connections that share its processors"]
        );
    }
}
