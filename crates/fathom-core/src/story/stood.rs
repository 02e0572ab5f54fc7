//! When hosts stood still, as far as the whole recording knows: what waited for one of them to run was on no way meanwhile.

use super::join::{Joined, Pause};
use crate::spans;
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
        let span = |pause: &Pause<'_>| {
            let from_ns = pause.start.utc_ns();
            (from_ns, end(from_ns, pause.duration_ns))
        };
        let of = |local: bool| {
            spans::joined(joined.pauses.iter().filter(|pause| (pause.host == "local") == local).map(span))
        };
        Self { here: of(true), there: of(false) }
    }

    /// For how long at the most somebody waited for a host to run, of what took so long from this time on.
    pub(super) fn within(&self, from_ns: i64, took_ns: u64) -> u64 {
        let to_ns = end(from_ns, took_ns);
        (within(&self.here, from_ns, to_ns) + within(&self.there, from_ns, to_ns)).min(took_ns)
    }

    /// Whether that was most of it.
    pub(super) fn held_up(&self, from_ns: i64, took_ns: u64) -> bool {
        is_most(self.within(from_ns, took_ns), took_ns)
    }
}

/// When it ends that took so long from this time on.
fn end(from_ns: i64, took_ns: u64) -> i64 {
    from_ns.saturating_add_unsigned(took_ns)
}

fn within(spans: &[(i64, i64)], from_ns: i64, to_ns: i64) -> u64 {
    let first = spans.partition_point(|&(_, ended)| ended <= from_ns);
    let touched = spans[first..].iter().take_while(|&&(began, _)| began < to_ns);
    touched.map(|&(began, ended)| (ended.min(to_ns) - began.max(from_ns)).max(0) as u64).sum()
}
