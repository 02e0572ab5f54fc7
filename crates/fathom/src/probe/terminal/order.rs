//! In which order the paths stand in the table.

use crate::probe::live_state::{LiveStates, lock};
use fathom_core::units::narrow::supported;
use std::cmp::{Ordering, Reverse};

/// What the paths are sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum By {
    /// As they were given.
    #[default]
    Given,
    Name,
    P50,
    P99,
    Max,
    Unanswered,
}

/// An order, and whether it is turned round. Names rise; of figures the largest, which is the worst, is first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sort {
    pub(super) by: By,
    pub(super) turned: bool,
}

impl Sort {
    pub(super) fn next(self) -> Self {
        let by = match self.by {
            By::Given => By::Name,
            By::Name => By::P50,
            By::P50 => By::P99,
            By::P99 => By::Max,
            By::Max => By::Unanswered,
            By::Unanswered => By::Given,
        };
        Self { by, turned: false }
    }

    pub(super) fn turned(self) -> Self {
        Self { turned: !self.turned, ..self }
    }

    /// The order in words, such as `p99, largest first`; `None`: as the paths were given.
    pub(super) fn text(self) -> Option<String> {
        let name = match self.by {
            By::Given if self.turned => return Some("last given first".to_owned()),
            By::Given => return None,
            By::Name if self.turned => return Some("name, from Z to A".to_owned()),
            By::Name => return Some("name".to_owned()),
            By::P50 => "p50",
            By::P99 => "p99",
            By::Max => "max",
            By::Unanswered => "unanswered",
        };
        Some(format!("{name}, {} first", if self.turned { "smallest" } else { "largest" }))
    }
}

/// What a path may be sorted by.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
    unanswered: u64,
}

impl Figures {
    /// Those of every path. Without such an order nothing is looked at.
    pub(super) fn of(live: &LiveStates, sort: Sort) -> Vec<Self> {
        let live = lock(live);
        let of = |s: &fathom_core::statistics::Statistics| {
            let quantiles =
                matches!(sort.by, By::P50 | By::P99).then(|| supported(&s.rtt)).unwrap_or_default();
            let [p50_ns, _, p99_ns, _] = quantiles;
            Self { p50_ns, p99_ns, max_ns: s.rtt.max(), unanswered: s.unanswered }
        };
        live.iter().map(|state| of(state.shown())).collect()
    }
}

/// The paths in this order; empty: as they were given. Equals keep the order in which they were given, and paths
/// without a figure are last whichever way it goes.
pub(super) fn order(labels: &[&str], figures: &[Figures], sort: Sort) -> Vec<usize> {
    if sort == Sort::default() {
        return Vec::new();
    }
    let figure = |path: &usize| {
        let known = figures.get(*path).copied().unwrap_or_default();
        match sort.by {
            By::P50 => known.p50_ns,
            By::P99 => known.p99_ns,
            By::Max => known.max_ns,
            _ => Some(known.unanswered),
        }
    };
    let turn = |order: Ordering| if sort.turned { order.reverse() } else { order };
    let mut paths: Vec<usize> = (0..labels.len()).collect();
    paths.sort_by(|a, b| match sort.by {
        By::Given => turn(a.cmp(b)),
        By::Name => turn(labels[*a].cmp(labels[*b])),
        _ => match (figure(a), figure(b)) {
            (Some(a), Some(b)) => turn(Reverse(a).cmp(&Reverse(b))),
            (a, b) => a.is_none().cmp(&b.is_none()),
        },
    });
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worst_is_first_and_missing_figures_last() {
        let labels = ["b", "c", "a", "d"];
        let path = |p99_ns, unanswered| Figures { p99_ns, unanswered, ..Figures::default() };
        let figures = [path(Some(5), 0), path(None, 7), path(Some(9), 0), path(Some(5), 1)];
        let by = |by, turned| order(&labels, &figures, Sort { by, turned });
        assert_eq!(by(By::Given, false), Vec::<usize>::new());
        assert_eq!(by(By::Given, true), [3, 2, 1, 0]);
        assert_eq!(by(By::Name, false), [2, 0, 1, 3]);
        assert_eq!(by(By::Name, true), [3, 1, 0, 2]);
        assert_eq!(by(By::P99, false), [2, 0, 3, 1]);
        assert_eq!(by(By::P99, true), [0, 3, 2, 1]);
        assert_eq!(by(By::Unanswered, false), [1, 3, 0, 2]);
        assert_eq!(by(By::Unanswered, true), [0, 2, 3, 1]);
        assert_eq!(by(By::Max, false), [0, 1, 2, 3], "none has a figure yet");
    }

    #[test]
    fn sort_order_is_named_in_words() {
        let text = |by, turned| Sort { by, turned }.text();
        assert_eq!(text(By::Given, false), None);
        assert_eq!(text(By::P99, false).as_deref(), Some("p99, largest first"));
        assert_eq!(text(By::Unanswered, true).as_deref(), Some("unanswered, smallest first"));
    }
}
