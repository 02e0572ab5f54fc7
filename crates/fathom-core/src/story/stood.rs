//! When hosts stood still, as far as the whole recording knows: what waited for one of them to run was on no way meanwhile.

use super::join::{Joined, Pause};
use crate::verdict::is_most;

/// Times without overlaps, in order: from, to, in ns since the Unix epoch.
type Spans = Vec<(i64, i64)>;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Stood {
    here: Spans,
    /// A reflector's pause is told with an echo, and was before that; nobody knows when.
    there: Spans,
}

impl Stood {
    pub(super) fn of(joined: &Joined<'_>) -> Self {
        let of = |local: bool| joined.pauses.iter().filter(move |pause| (pause.host == "local") == local);
        Self { here: merged(of(true)), there: merged(of(false)) }
    }

    /// For how long at the most somebody waited for a host to run, of what took so long from this time on.
    pub(super) fn within(&self, from_ns: i64, took_ns: u64) -> u64 {
        let to_ns = from_ns.saturating_add(i64::try_from(took_ns).unwrap_or(i64::MAX));
        (within(&self.here, from_ns, to_ns) + within(&self.there, from_ns, to_ns)).min(took_ns)
    }

    /// Whether that was most of it.
    pub(super) fn held_up(&self, from_ns: i64, took_ns: u64) -> bool {
        is_most(self.within(from_ns, took_ns), took_ns)
    }
}

fn merged<'a>(pauses: impl Iterator<Item = &'a Pause<'a>>) -> Spans {
    let span = |pause: &Pause<'_>| {
        let from = pause.start.utc_ns();
        (from, from.saturating_add(i64::try_from(pause.duration_ns).unwrap_or(i64::MAX)))
    };
    let mut spans: Spans = pauses.map(span).collect();
    spans.sort_unstable();
    spans.dedup_by(|next, before| {
        let overlaps = next.0 <= before.1;
        if overlaps {
            before.1 = before.1.max(next.1);
        }
        overlaps
    });
    spans
}

fn within(spans: &[(i64, i64)], from_ns: i64, to_ns: i64) -> u64 {
    let first = spans.partition_point(|&(_, ended)| ended <= from_ns);
    let touched = spans[first..].iter().take_while(|&&(began, _)| began < to_ns);
    touched.map(|&(began, ended)| (ended.min(to_ns) - began.max(from_ns)).max(0) as u64).sum()
}
