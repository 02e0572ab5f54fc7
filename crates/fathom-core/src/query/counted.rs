//! What a server itself counts of the time that it could not send, beside what the split gives path and client of the same queries.
//! The server sees that nobody takes its bytes, and not whether the path or the client is why.

use super::{PARTIES, Part, Party, Query};
use crate::text::count;
use crate::units::narrow::time_or_dash;
use serde_json::{Map, Value, json};

/// Waits that a server counted for a session: since it began, or between two readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// What the server calls them: `ASYNC_NETWORK_IO`.
    pub wait: String,
    /// How many, by the server's own account: it may cut a long one into several.
    pub waits: u64,
    /// How long in all; a server may count whole milliseconds.
    pub ns: u64,
    /// Sessions that were lost, of which what was counted has gone with them: it was so much at the least.
    pub lost_sessions: u64,
}

impl Counted {
    /// As `fathom sql --json` and `sql.ended` have it; `None`: nothing was counted, or by an earlier version.
    pub fn of(value: &Value) -> Option<Self> {
        let (waits, ns) = (value["waits"].as_u64()?, value["ns"].as_u64()?);
        // Of an earlier version nothing was counted where one was lost.
        let lost_sessions = value["lost_sessions"].as_u64().unwrap_or(0);
        Some(Self { wait: value["wait"].as_str()?.to_owned(), waits, ns, lost_sessions })
    }

    /// What was counted since an earlier reading; `None`: it was set back meanwhile.
    #[must_use]
    pub fn since(&self, before: &Self) -> Option<Self> {
        let (waits, ns) = (self.waits.checked_sub(before.waits)?, self.ns.checked_sub(before.ns)?);
        Some(Self { wait: self.wait.clone(), waits, ns, lost_sessions: self.lost_sessions })
    }

    /// With those of another session.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let (waits, ns) = (self.waits.saturating_add(other.waits), self.ns.saturating_add(other.ns));
        let lost_sessions = self.lost_sessions.saturating_add(other.lost_sessions);
        Self { wait: self.wait.clone(), waits, ns, lost_sessions }
    }
}

/// Sums over all queries, also of those that are in no figure: the server counts them too.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct All {
    queries: u64,
    wall_ns: u64,
    parts: [Part; 3],
}

impl All {
    pub(super) fn add(&mut self, query: &Query) {
        self.queries += 1;
        self.wall_ns = self.wall_ns.saturating_add(query.split.wall_ns);
        for (sum, party) in self.parts.iter_mut().zip(PARTIES) {
            let part = query.split.part(party);
            sum.low_ns = sum.low_ns.saturating_add(part.low_ns);
            sum.high_ns = sum.high_ns.saturating_add(part.high_ns);
        }
    }

    /// As a person reads it.
    pub(super) fn words(&self, counted: &Counted) -> String {
        let time = |ns| time_or_dash(Some(ns), 3);
        let what = match counted.waits {
            0 => format!("no {}", counted.wait),
            waits => format!("{} of {} ({})", time(counted.ns), counted.wait, count(waits, "wait")),
        };
        let lost = match counted.lost_sessions {
            0 => String::new(),
            n => format!(", but for what went with {},", count(n, "lost session")),
        };
        let of = |party: Party| {
            let part = self.parts[party as usize];
            format!("{} to {}", time(part.low_ns), time(part.high_ns))
        };
        format!(
            "{what}{lost} in {} of {} in all, of which by the split path {}, client {}",
            if self.queries == 1 { "1 query".to_owned() } else { format!("{} queries", self.queries) },
            time(self.wall_ns),
            of(Party::Path),
            of(Party::Client),
        )
    }

    /// As a program reads it (docs/databases.md); null: the server counted nothing.
    pub(super) fn json(&self, counted: Option<&Counted>) -> Value {
        let Some(counted) = counted else { return Value::Null };
        let part = |party: Party| {
            let part = self.parts[party as usize];
            (format!("{party}_ns"), json!({ "low": part.low_ns, "high": part.high_ns }))
        };
        let others = [
            ("wait", json!(counted.wait)),
            ("waits", json!(counted.waits)),
            ("ns", json!(counted.ns)),
            ("lost_sessions", json!(counted.lost_sessions)),
            ("queries", json!(self.queries)),
            ("wall_ns", json!(self.wall_ns)),
        ];
        let others = others.map(|(name, value)| (name.to_owned(), value));
        let of: Map<_, _> = others.into_iter().chain([Party::Path, Party::Client].map(part)).collect();
        of.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Split;

    fn counted(waits: u64, ns: u64) -> Counted {
        Counted { wait: "ASYNC_NETWORK_IO".to_owned(), waits, ns, lost_sessions: 0 }
    }

    #[test]
    fn a_count_that_was_set_back_is_ignored() {
        let before = counted(3, 40);
        assert_eq!(counted(5, 41).since(&before), Some(counted(2, 1)));
        assert_eq!(before.since(&before), Some(counted(0, 0)));
        assert_eq!(counted(5, 39).since(&before), None);
        assert_eq!(counted(2, 50).since(&before), None);
    }

    /// The cold one and the one that failed are counted by the server as well.
    #[test]
    fn server_count_is_compared_with_all_queries() {
        let mut all = All::default();
        let part = |low_ns, high_ns| Part { low_ns, ns: low_ns, high_ns };
        for (is_first, error) in [(true, None), (false, None), (false, Some("reset".to_owned()))] {
            let parts = [part(1_000_000, 1_000_000), part(2_000_000, 3_000_000), part(5_000_000, 7_000_000)];
            let split = Split::of_recording(10_000_000, parts, None);
            all.add(&Query { split, error, is_first, ..Query::default() });
        }
        let count = counted(2, 20_000_000);
        assert_eq!(
            all.words(&count),
            "20.0ms of ASYNC_NETWORK_IO (2 waits) in 3 queries of 30.0ms in all, of which by the split path 6.00ms to 9.00ms, client \
             15.0ms to 21.0ms"
        );
        let json = all.json(Some(&count));
        assert_eq!(json["client_ns"], json!({ "low": 15_000_000, "high": 21_000_000 }));
        assert_eq!((Counted::of(&json), Counted::of(&Value::Null)), (Some(count), None));
        assert!(all.json(None).is_null());
        assert!(all.words(&counted(0, 0)).starts_with("no ASYNC_NETWORK_IO in 3 queries"));
        // What was counted of a session that was lost is not known, nor that it is nothing.
        let partial = Counted { lost_sessions: 1, ..counted(2, 20_000_000) }.and(&counted(1, 1_000_000));
        let words = "21.0ms of ASYNC_NETWORK_IO (3 waits), but for what went with 1 lost session, in 3 queries of 30.0ms";
        assert!(all.words(&partial).starts_with(words), "{}", all.words(&partial));
        assert_eq!(Counted::of(&all.json(Some(&partial))), Some(partial));
    }
}
