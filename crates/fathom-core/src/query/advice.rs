//! What to do about it: only where the figures of this very run give a reason.

use super::{Confidence, Party};
use crate::text::count;
use crate::units::narrow::time_or_dash;
use std::collections::BTreeMap;

/// What a run found.
#[derive(Clone, Copy)]
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
    /// The time of all queries, of which the client's share is at least so much.
    pub(super) walls_ns: u64,
    pub(super) client_at_least: f64,
    /// For how long in all this machine kept the threads that ask from running; `None`: nobody knows.
    pub(super) kept_ns: Option<u64>,
    /// The server's address is a loopback address.
    pub(super) is_here: bool,
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
        Party::Path if of.is_here => lines.push(
            "the address is this host's own: what is called path is its kernel, and how soon it runs each end, or what a tunnel there leads to"
                .to_owned(),
        ),
        Party::Path => {}
        Party::Client => lines.push(of_a_client(of)),
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

/// What holds a client up: only what is known of it.
fn of_a_client(of: &Evidence<'_>) -> String {
    let connections = count(of.connections, "connection");
    let is_several = of.connections > 1;
    let clients_ns = of.client_at_least * of.walls_ns as f64;
    if let Some(kept_ns) = of.kept_ns.filter(|ns| *ns as f64 * 2.0 >= clients_ns) {
        let [kept, all] = [kept_ns, of.walls_ns].map(|ns| time_or_dash(Some(ns), 3));
        let sharing = match (is_several, of.is_here) {
            (true, true) => format!(" ({connections} and the server share its processors)"),
            (true, false) => format!(" ({connections} share its processors)"),
            (false, true) => " (the server may share its processors)".to_owned(),
            (false, false) => String::new(),
        };
        return format!(
            "this machine kept fathom from running for {kept} of the {all} that these queries took: see what stopped it, or what else runs here{sharing}"
        );
    }
    // Whether one works or waits for a processor that another has, it is this host's.
    if is_several {
        return format!("this host holds it up: work on rows, or {connections} that share its processors");
    }
    if of.kept_ns.is_none() {
        return "this host holds it up: work on rows, or other processes that it ran meanwhile".to_owned();
    }
    if of.path_at_most < 0.1 && of.server_at_most < 0.1 && !of.is_here {
        return "the client's own work on rows holds it up: neither server nor network would change that"
            .to_owned();
    }
    "the client's own work on rows is most of it".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_share_uses_observed_queries_only() {
        let waits = [("IO/DataFileRead".to_owned(), 2), ("Lock/tuple".to_owned(), 1)].into();
        let evidence = Evidence {
            verdict: (Some(Party::Server), Confidence::High),
            turns: 1,
            rtt_ns: None,
            wall_ns: 1,
            path_at_most: 1.0,
            server_at_most: 1.0,
            fetch_size: None,
            walls_ns: 1,
            client_at_least: 0.0,
            kept_ns: Some(0),
            is_here: false,
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
    fn busy_client_still_gets_path_advice() {
        let evidence = Evidence {
            verdict: (Some(Party::Client), Confidence::High),
            turns: 7,
            rtt_ns: Some(145_000_000),
            wall_ns: 2_590_000_000,
            path_at_most: 0.4,
            server_at_most: 0.05,
            fetch_size: Some(50),
            walls_ns: 25_900_000_000,
            client_at_least: 0.6,
            kept_ns: Some(20_000_000),
            is_here: false,
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
    /// A process that was stopped for 4 s was told that its work on rows held it up, and that no network would change that.
    #[test]
    fn paused_client_advice_blames_the_host() {
        const S: u64 = 1_000_000_000;
        let stopped = Evidence {
            verdict: (Some(Party::Client), Confidence::High),
            turns: 1,
            rtt_ns: Some(S / 1_000),
            wall_ns: 5 * S,
            path_at_most: 0.01,
            server_at_most: 0.05,
            fetch_size: None,
            walls_ns: 5 * S,
            client_at_least: 0.8,
            kept_ns: Some(4 * S),
            is_here: false,
            connections: 1,
            waits: &BTreeMap::new(),
            looked_at: 0,
        };
        let line = |of: Evidence<'_>| {
            let told = lines(&of);
            assert_eq!(told.len(), 1, "{told:?}");
            told[0].clone()
        };
        for (connections, is_here) in [(1, false), (1, true), (8, false), (8, true)] {
            let told = line(Evidence { is_here, connections, ..stopped });
            assert!(
                told.starts_with("this machine kept fathom from running for 4.00s of the 5.00s"),
                "{told}"
            );
            assert!(!told.contains("rows") && !told.contains("network"), "{told}");
            assert_eq!(told.contains("server"), is_here, "{told}");
        }
        // For less than half of its time: it worked.
        let told = line(Evidence { kept_ns: Some(S), ..stopped });
        assert!(told.contains("work on rows") && told.contains("network"), "{told}");
        // There is no network between it and a server of this host.
        let told = line(Evidence { kept_ns: Some(S), is_here: true, ..stopped });
        assert!(told.contains("work on rows") && !told.contains("network"), "{told}");
        // Nobody knows.
        let told = line(Evidence { kept_ns: None, ..stopped });
        assert!(told.contains("work on rows, or other processes"), "{told}");
        let path = Evidence { verdict: (Some(Party::Path), Confidence::High), ..stopped };
        assert_eq!(lines(&path), Vec::<String>::new());
        let told = line(Evidence { is_here: true, ..path });
        assert!(told.starts_with("the address is this host's own"), "{told}");
    }
}
