//! Whose time a query takes: the server's, the path's or this client's. Pure: times are arguments, and nothing is kept but
//! sums, so that a result of ten million rows needs as much memory as one of ten.
//!
//! A [`Timeline`] is fed by whoever drives the protocol: [`Timeline::request`] when a request was handed to the kernel,
//! [`Timeline::received`] for every read that gave bytes (and since when it had waited for them), [`Timeline::look`] for
//! what a second connection saw the server's backend do, and [`Timeline::end`] when the answer is whole; where none
//! comes any more, [`Timeline::unanswered`] says so first. `request` may come again: each begins a turn, for which the path takes
//! one round trip.
//!
//! The model, its assumptions and where it is blind: `docs/databases.md`. In short:
//! * The last busy time of a turn, in which nothing is waited for any more, is the client's, and so is busy time during which
//!   the server is blocked on sending to a client that has not read what it has. Busy time that a wait follows is hidden
//!   behind whoever is waited for, because a faster client would only have waited longer.
//! * Of the first wait of a turn one round trip is the path's; the rest is the server's, unless it says that it was done. Where
//!   it was not seen at work a lost packet may have been waited for: that widens the bounds.
//! * A later wait is the server's while it works, and the path's while it is blocked on sending or has sent everything. Where nothing
//!   came for long meanwhile, and round trips beside did, it may be either's.
//! * What nobody looked at is between server and path: it widens the bounds of both.

mod advice;
mod attribute;
mod busy;
mod connections;
mod counted;
mod figures;
mod logins;
mod outcome;
mod rate;
mod ratio;
mod row;
mod served;
mod silence;
mod split;
mod state;
mod stood;
mod sweep;
mod ties;
mod timeline;
mod turns;
mod verdict;
mod worked;

pub use busy::Room;
pub use connections::{Connection, MOST_CONNECTIONS};
pub use counted::Counted;
pub use figures::COUNT;
pub use logins::Logins;
pub use outcome::{Asked, Failed, Outcome};
pub use row::{CANCELLED, End, LATE, NOT_WAITED_FOR, Query};
pub use served::Served;
pub use split::{PARTIES, Part, Party, Split};
pub use state::{ServerState, Since};
pub use sweep::Setting;
pub use timeline::{AGAIN_NS, Timeline};
pub use verdict::{Confidence, Verdict};
pub use worked::Span;

/// A round trip of the path, beside a query: what it was by the samples of these moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rtt {
    /// The shortest it may have been, ns.
    pub low_ns: u64,
    /// The shortest that was seen, ns.
    pub seen_ns: u64,
    /// What it is taken to be, ns.
    pub ns: u64,
    /// What is longer than a usual one is longer than that, ns: the same, but where the path has just become slower, as far as is known.
    pub well_ns: u64,
    /// The longest it may have been, ns.
    pub high_ns: u64,
    /// What many of them take in the mean, ns.
    pub mean_ns: u64,
    /// How much one of them differs from the mean: the standard deviation, ns.
    pub deviation_ns: u64,
    /// Of how many these are.
    pub of: u32,
}

/// What a look, or a round trip beside, may take longer than the path's round trip in a world that is well.
const SLACK_NS: u64 = 5_000_000;

/// See [`Rtt::next`].
const BEYOND: f64 = 4.0;
const FEW: u32 = 4;

/// A round trip that takes longer was held up.
fn well_within(rtt_ns: u64) -> u64 {
    rtt_ns.saturating_mul(2).saturating_add(SLACK_NS)
}

impl Rtt {
    /// From round trips of the last moments: their least, median and greatest; the mean of them but for what held one up. `None`: there
    /// are none.
    pub fn of(round_trips_ns: &[u64]) -> Option<Self> {
        let mut sorted = round_trips_ns.to_vec();
        sorted.sort_unstable();
        let (&low_ns, &high_ns) = (sorted.first()?, sorted.last()?);
        let ns = sorted[(sorted.len() - 1) / 2];
        let well: Vec<f64> = sorted.iter().map(|&each| each.min(well_within(ns)) as f64).collect();
        let mean = well.iter().sum::<f64>() / well.len() as f64;
        let squares: f64 = well.iter().map(|each| (each - mean).powi(2)).sum();
        let deviation = (squares / (well.len() - 1).max(1) as f64).sqrt();
        let (mean_ns, deviation_ns) = (mean.round() as u64, deviation.round() as u64);
        Some(Self {
            low_ns,
            seen_ns: low_ns,
            ns,
            well_ns: ns,
            high_ns,
            mean_ns,
            deviation_ns,
            of: well.len() as u32,
        })
    }

    /// What the next one may be, where over a longer time none was shorter than `least_ns`.
    ///
    /// Of n that are alike the next is shorter than all of them once in n + 1 times, and as often longer: each end lies beyond by four times
    /// what one of n takes of the way from it to the median. By a simulation (even, normal and exponential ones, and sums of two of them) the
    /// next of 16 is below in 1 to 3 % and above in 1 to 4 %, in place of 6; of 4 in 8 to 12 and 5 to 10 %, in place of 20. Fewer say nothing
    /// from below, and little from above.
    #[must_use]
    pub fn next(self, least_ns: u64) -> Self {
        let seen_ns = self.seen_ns.min(least_ns);
        if self.of < FEW {
            return Self { low_ns: 0, seen_ns, high_ns: self.high_ns.saturating_mul(2), ..self };
        }
        let beyond = |ns: u64| (ns as f64 * BEYOND / f64::from(self.of)) as u64;
        let low_ns = self.low_ns.min(least_ns);
        Self {
            low_ns: low_ns.saturating_sub(beyond(self.ns - self.low_ns)),
            seen_ns,
            high_ns: self.high_ns.saturating_add(beyond(self.high_ns - self.ns)),
            ..self
        }
    }

    /// The same, where a usual one took no more than that.
    #[must_use]
    pub fn usually(self, ns: u64) -> Self {
        let ns = self.ns.min(ns).max(self.low_ns);
        Self { ns, well_ns: self.well_ns.min(ns), mean_ns: self.mean_ns.saturating_sub(self.ns - ns), ..self }
    }

    /// The same, for a connection of which some round trip, with or without the server's time, took no more than `own_ns`.
    ///
    /// Set-ups of connections may take longer than what follows them (a firewall or a balancer that treats first packets
    /// otherwise, a kernel that makes a socket): at least by what their least is longer than this connection's. By how much
    /// more nobody knows: the least falls by ten times as much, so that where a tenth is refuted nothing is known from below.
    #[must_use]
    pub fn beside_own(self, own_ns: u64) -> Self {
        let slower_ns = self.seen_ns.saturating_sub(own_ns);
        Self {
            low_ns: self.low_ns.min(own_ns).saturating_sub(slower_ns.saturating_mul(10)),
            seen_ns: self.seen_ns.min(own_ns),
            ns: self.ns.saturating_sub(slower_ns),
            well_ns: self.well_ns.saturating_sub(slower_ns),
            mean_ns: self.mean_ns.saturating_sub(slower_ns),
            ..self
        }
    }
}
