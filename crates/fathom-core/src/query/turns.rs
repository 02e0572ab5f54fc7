//! The round trips that the path takes of a query's turns. What one of them took nobody knows, but what those beside took: so the path has
//! of each first wait what a usual one takes, and of all of them together as much as so many take in the mean.

use super::split::Party::{Path, Server};
use super::{Rtt, Split};

/// So much is as near as estimates come.
const NEAR_NS: f64 = 5_000_000.0;

/// Of all turns.
#[derive(Debug, Clone, Default)]
pub(super) struct RoundTrips {
    /// What is left of the turn's.
    pub(super) left: Option<Rtt>,
    /// What was reckoned with, and of how many turns.
    usual_ns: (u64, u64),
    /// In the mean they take so much, which the mean itself may be off by so much, and their sum by the root of the other.
    mean_ns: u64,
    mean_error_ns: f64,
    square_ns: f64,
    /// Of the first waits the path was given so much. Of the rest so much may have been the path's, and of that so much the server's.
    given_ns: u64,
    slower_ns: u64,
    faster_ns: u64,
}

impl RoundTrips {
    /// A turn begins.
    pub(super) fn begin(&mut self, rtt: Option<Rtt>) {
        self.left = rtt;
        let Some(rtt) = rtt else { return };
        self.usual_ns = (self.usual_ns.0.saturating_add(rtt.ns), self.usual_ns.1 + 1);
        self.mean_ns = self.mean_ns.saturating_add(rtt.mean_ns);
        self.mean_error_ns += rtt.deviation_ns as f64 / f64::from(rtt.of.max(1)).sqrt();
        self.square_ns += (rtt.deviation_ns as f64).powi(2);
    }

    /// Of several turns the mean of what was reckoned with; `None`: nothing was known.
    pub(super) fn rtt_ns(&self) -> Option<u64> {
        self.usual_ns.0.checked_div(self.usual_ns.1)
    }

    /// A first wait, or a piece of one: how much of it is the path's; `None`: nobody knows a round trip.
    pub(super) fn wait(&mut self, ns: u64) -> Option<u64> {
        let rtt = self.left.as_mut()?;
        let path_ns = ns.min(rtt.ns);
        self.given_ns += path_ns;
        self.faster_ns += path_ns - ns.min(rtt.low_ns);
        self.slower_ns += ns.min(rtt.high_ns) - path_ns;
        for left in [&mut rtt.low_ns, &mut rtt.ns, &mut rtt.high_ns] {
            *left = left.saturating_sub(ns);
        }
        Some(path_ns)
    }

    /// What may have been the other's.
    pub(super) fn doubt(&self, split: &mut Split) {
        split.doubt(Server, &[Path], self.slower_ns);
        split.doubt(Path, &[Server], self.faster_ns);
    }

    /// What quick turns left of what all of them take is that of slow ones. By how much the sum may be wrong is open, where that is
    /// more than little: one standard error, of as many as were measured beside and as many as there were turns.
    pub(super) fn settle(&self, split: &mut Split) {
        split.shift(Server, Path, self.mean_ns.saturating_sub(self.given_ns).min(self.slower_ns));
        let error_ns = self.mean_error_ns.hypot(self.square_ns.sqrt());
        if error_ns > NEAR_NS {
            split.unsteady((error_ns as u64).min(self.slower_ns.saturating_add(self.faster_ns)));
        }
    }
}
