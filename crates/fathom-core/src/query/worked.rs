//! When a server worked on a request of which no answer had come: what the path did meanwhile cannot have held up the request, which was
//! there, and held up no answer, as far as was seen.

/// From one moment to another, on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it began: ns.
    pub from_ns: u64,
    /// When it was over.
    pub to_ns: u64,
}

impl Span {
    /// How long it was.
    pub fn ns(self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    fn both(self, other: Self) -> u64 {
        Self { from_ns: self.from_ns.max(other.from_ns), to_ns: self.to_ns.min(other.to_ns) }.ns()
    }
}

/// So many are kept: a result that is fetched in ten million turns needs no more memory than one of ten.
const KEPT: usize = 256;

/// The spans of a query's turns.
#[derive(Debug, Clone, Default)]
pub(super) struct Worked {
    spans: Vec<Span>,
    /// The one that goes on.
    now: Option<Span>,
}

impl Worked {
    /// A look that was asked for then, and answered then, saw it work, and nothing had come.
    pub(super) fn seen(&mut self, asked_ns: u64, at_ns: u64) {
        // It had the request when the first was answered at the latest, and no answer when the last was asked for.
        let (from_ns, to_ns) = self.now.map_or((at_ns, at_ns), |now| (now.from_ns, asked_ns.max(now.to_ns)));
        self.now = Some(Span { from_ns, to_ns });
    }

    /// A look saw something else, or the turn is over.
    pub(super) fn end(&mut self) {
        let span = self.now.take().filter(|span| span.ns() > 0 && self.spans.len() < KEPT);
        self.spans.extend(span);
    }

    /// What of a round trip beside the query's own packets may have suffered, too.
    pub(super) fn outside(&self, round_trip: Span) -> u64 {
        round_trip.ns().saturating_sub(self.spans.iter().map(|span| span.both(round_trip)).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_between_observations_is_not_the_path() {
        let mut worked = Worked::default();
        for (asked_ns, at_ns) in [(10, 20), (30, 31), (60, 90)] {
            worked.seen(asked_ns, at_ns);
        }
        worked.end();
        worked.seen(200, 210);
        worked.end();
        for (from_ns, to_ns, outside_ns) in
            [(0, 15, 15), (25, 55, 0), (10, 70, 20), (20, 60, 0), (190, 230, 40)]
        {
            assert_eq!(worked.outside(Span { from_ns, to_ns }), outside_ns, "{from_ns} to {to_ns}");
        }
    }
}
