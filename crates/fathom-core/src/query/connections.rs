//! Connections that ask the same query side by side: what each came to.
//!
//! What is counted is conserved on each as it is in all: those asked are those answered, those that the user ended and those of each
//! kind of failure together, and the figures of all connections are of the same queries as those of each.

use super::counted::All;
use super::figures::{Warm, median};
use super::{Counted, End, Query};
use crate::text::count;
use crate::units::narrow::time_or_dash;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Connections that a run has at most.
pub const MOST_CONNECTIONS: u64 = 64;

/// What is known of one of them beside its queries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Connection {
    /// As [`super::Asked::counted`], of its own sessions.
    pub counted: Option<Counted>,
    /// As [`super::Asked::unrecorded`], of its own queries.
    pub unrecorded: Option<u64>,
    /// It was lost, and had no session any more from when the query of this ordinal of the run was the next.
    pub lost_from: Option<u64>,
}

/// Of each.
#[derive(Debug, Clone, Default)]
struct One {
    queries: u64,
    cancelled: u64,
    failures: BTreeMap<String, u64>,
    rows: u64,
    /// How often it had logged in when its latest query was asked.
    sessions: u64,
    all: All,
    warm: Warm,
}

/// What they came to.
#[derive(Debug, Clone, Default)]
pub(super) struct Connections(Vec<One>);

/// Which of these it is of.
fn place(query: &Query, known: &[Connection]) -> Option<usize> {
    usize::try_from(query.connection).ok().filter(|at| *at < known.len())
}

impl Connections {
    /// Takes a query of one of these, answered or not.
    pub(super) fn add(&mut self, query: &Query, known: &[Connection]) {
        let Some(at) = place(query, known) else { return };
        self.0.resize_with(known.len(), One::default);
        let one = &mut self.0[at];
        one.queries += 1;
        one.rows = one.rows.saturating_add(query.rows);
        one.sessions = one.sessions.max(query.login.unwrap_or(0).saturating_add(1));
        one.all.add(query);
        match query.end() {
            End::Answered => one.warm.add(query),
            End::Cancelled => one.cancelled += 1,
            End::Failed(kind) => *one.failures.entry(kind).or_default() += 1,
        }
    }

    /// As a person reads it; `None`: there is one only, or none has an answer.
    pub(super) fn words(&self, known: &[Connection]) -> Option<String> {
        let medians =
            self.0.iter().zip(0u64..).filter_map(|(one, at)| Some((median(&one.warm.figures.wall)?, at)));
        let medians: Vec<_> = medians.collect();
        let (least, most) = (medians.iter().min()?, medians.iter().max()?);
        let of = |(ns, at): &(u64, u64)| format!("{} (connection {at})", time_or_dash(Some(*ns), 3));
        let without = match known.len() - medians.len() {
            0 => String::new(),
            1 => "; one has no answer".to_owned(),
            n => format!("; {n} have no answer"),
        };
        let mut lost: Vec<_> = known.iter().filter_map(|one| one.lost_from).collect();
        lost.sort_unstable();
        let fewer = match (lost.first(), lost.last(), known.len() - lost.len()) {
            (Some(first), Some(last), left) if first == last => {
                format!(", {left} from query {} on", first + 1)
            }
            (Some(first), Some(last), left) => {
                format!(", fewer from query {} on and {left} from query {} on", first + 1, last + 1)
            }
            _ => String::new(),
        };
        Some(format!(
            "{} side by side{fewer}: the median of each lies between {} and {}{without}",
            count(known.len() as u64, "connection"),
            of(least),
            of(most)
        ))
    }

    /// As a program reads it (docs/databases.md); null: there is one only.
    pub(super) fn json(&self, known: &[Connection]) -> Value {
        if known.is_empty() {
            return Value::Null;
        }
        let nothing = One::default();
        let each = known.iter().enumerate().map(|(at, known)| {
            let one = self.0.get(at).unwrap_or(&nothing);
            let mut object = one.warm.figures.json();
            let others = [
                ("connection", json!(at)),
                ("queries", json!(one.queries)),
                ("failed", json!(one.failures.values().sum::<u64>())),
                ("failures", json!(one.failures)),
                ("cancelled", json!(one.cancelled)),
                ("rows", json!(one.rows)),
                ("sessions", json!(one.sessions)),
                ("looks", json!(one.warm.figures.looks)),
                ("server_waits", json!(one.warm.figures.waits)),
                ("without_split", json!(one.warm.figures.no_split)),
                ("server_counted", one.all.json(known.counted.as_ref())),
                ("unrecorded", json!(known.unrecorded)),
                ("lost_from", json!(known.lost_from)),
            ];
            object.extend(others.map(|(name, value)| (name.to_owned(), value)));
            Value::Object(object)
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Asked, Outcome, Part, Split};
    use super::*;

    fn query(number: u64, connection: u64, wall_ns: u64, error: Option<&str>) -> Query {
        let all = Part { low_ns: wall_ns, ns: wall_ns, high_ns: wall_ns };
        let split = Split::of_recording(wall_ns, [all, Part::default(), Part::default()], None);
        let error = error.map(str::to_owned);
        let is_first = number < 3;
        Query { query: number, connection, split, error, is_first, rows: 2, turns: 1, ..Query::default() }
    }

    fn outcome(connections: usize, queries: impl IntoIterator<Item = Query>) -> Outcome {
        let each = vec![Connection { counted: None, unrecorded: Some(0), lost_from: None }; connections];
        let mut outcome = Outcome::new(Asked { connections: each, ..Asked::default() });
        queries.into_iter().for_each(|query| outcome.add(&query));
        outcome
    }

    /// The law: whatever is counted in all is the sum of what each connection has, by kind of failure too.
    #[test]
    fn totals_equal_sum_of_connections() {
        let kinds = [
            None,
            None,
            None,
            Some("reset by peer"),
            Some("mended (40001)"),
            Some(super::super::NOT_WAITED_FOR),
        ];
        let queries = (0..97).map(|n| query(n, n * n % 3, 1 + n * 1_000, kinds[(n % 6) as usize]));
        let json = outcome(3, queries).json();
        let each = json["connections"].as_array().unwrap();
        assert_eq!(each.len(), 3);
        let number = |of: &Value, name: &str| of[name].as_u64().unwrap();
        for name in ["queries", "failed", "cancelled", "rows"] {
            let sum: u64 = each.iter().map(|one| number(one, name)).sum();
            assert_eq!(sum, number(&json, name), "{name}: {json:#}");
        }
        let counts = |of: &Value| of["wall_ns"]["count"].as_u64().unwrap();
        assert_eq!(each.iter().map(counts).sum::<u64>(), counts(&json), "{json:#}");
        for (kind, n) in json["failures"].as_object().unwrap() {
            let of_each = each.iter().map(|one| one["failures"][kind].as_u64().unwrap_or(0));
            assert_eq!(of_each.sum::<u64>(), n.as_u64().unwrap(), "{kind}: {json:#}");
        }
        for one in each {
            let kinds = one["failures"].as_object().unwrap().values();
            assert_eq!(kinds.map(|n| n.as_u64().unwrap()).sum::<u64>(), number(one, "failed"));
        }
    }

    #[test]
    fn median_spread_is_reported_for_several_connections() {
        let walls = [(0, 7), (1, 3), (2, 9), (0, 7), (1, 3), (2, 9)];
        let queries = || (0..).zip(walls).map(|(n, (of, ms))| query(n, of, ms * 1_000_000, None));
        let text = outcome(3, queries()).text();
        let wanted = "3 connections side by side: the median of each lies between 3.00ms (connection 1) and 9.00ms (connection 2)\n";
        assert!(text.contains(wanted), "{text}");
        let silent = outcome(4, queries()).text();
        assert!(silent.contains("9.00ms (connection 2); one has no answer\n"), "{silent}");
        let one = outcome(0, queries());
        assert!(!one.text().contains("side by side") && one.json()["connections"].is_null());
    }
}
