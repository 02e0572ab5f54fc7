//! The reason why a setting holds against a limit, or does not.

use crate::library::{Longest, reaches_lent};
use crate::unit::exactly;
use fathom_core::limits::Limit;

/// Describes the reason. A pool's treatment of connections that wait in it says nothing about one that a caller holds.
pub(crate) fn why(limit: Limit, longest: Longest, limit_ns: u64, loses: bool) -> String {
    let (against, by) = (exactly(limit_ns), longest.by);
    let longest = longest.ns.map(|ns| exactly(u64::try_from(ns).unwrap_or(0)));
    match (limit, loses, longest) {
        (Limit::Idle, true, Some(longest)) => {
            format!("a connection may be idle for {longest} ({by}), and dies after {against}")
        }
        (Limit::Idle, true, None) => {
            format!("a connection may be idle without end, and dies after {against}")
        }
        (Limit::Idle, false, longest) => {
            let longest = longest.unwrap_or_default();
            if reaches_lent(by) {
                format!("no connection is silent for longer than {longest} ({by}), which is below {against}")
            } else {
                format!(
                    "no connection that waits in the pool is idle for longer than {longest} ({by}), which is below {against}; one that a caller holds may be"
                )
            }
        }
        (Limit::Age, true, Some(longest)) => {
            format!("a connection may become {longest} old ({by}), and ends at {against}")
        }
        (Limit::Age, true, None) => format!("a connection may become any age, and ends at {against}"),
        (Limit::Age, false, longest) => {
            let longest = longest.unwrap_or_default();
            format!(
                "no connection that waits in the pool becomes older than {longest} ({by}), which is below {against}; one that a caller holds may"
            )
        }
    }
}
