//! Three parts that sum to the whole, and how far each may be from the truth.

use std::fmt;

/// Whose time it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Party {
    /// The database server.
    Server,
    /// The network between the two, and both kernels.
    Path,
    /// This process, and the host that it runs on.
    Client,
}

/// All of them, in the order in which they are shown.
pub const PARTIES: [Party; 3] = [Party::Server, Party::Path, Party::Client];

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Server => "server",
            Self::Path => "path",
            Self::Client => "client",
        })
    }
}

/// One party's part of a query's wall time, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Part {
    /// It is at least so much.
    pub low_ns: u64,
    /// The estimate; the three of a split sum to its wall time.
    pub ns: u64,
    /// It is at most so much.
    pub high_ns: u64,
}

/// The parts of one query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Split {
    /// From before the first request to the whole answer, processed, in ns.
    pub wall_ns: u64,
    /// The parts by [`Party`].
    pub(super) parts: [Part; 3],
    /// Of the wall time so much may be one party's or another's, in ns. A recording does not say it.
    pub open_ns: u64,
    /// Of that so much may be the client's.
    pub(super) tied_ns: u64,
    /// And so much is open because the path's round trips vary.
    pub(super) unsteady_ns: u64,
    /// And so much because nothing came while the server said that it was sending.
    pub(super) silent_ns: u64,
    /// So long nothing came, whatever the server said, and round trips did.
    pub(super) quiet_ns: u64,
    /// A first wait had no round trip to be compared with.
    pub without_rtt: bool,
    /// Something was sent again, or round trips beside were held up.
    pub(super) was_held_up: bool,
    /// It is known that nothing was.
    pub(super) was_well: bool,
    /// What a recording says.
    recorded: Option<Recorded>,
}

/// Whether the estimates are given, as it is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recorded {
    Estimates,
    Bounds(&'static str),
}

/// Where more than this share of the wall time is open, the estimates are not given.
const OPEN_AT_MOST: f64 = 0.25;

const NO_RTT: &str = "no round trip of the path was measured beside it";
const TIED: &str =
    "rows still came while the client worked on others, so that it or the path may have held them up";
const HELD_UP: &str =
    "the path held up what was sent on it, or beside it, so that server and path cannot be told apart";
const UNSTEADY: &str =
    "the path's round trips vary too much for the server's time and the path's to be told apart";
const SILENT: &str = "nothing came for long while the server said that it was sending: it stood still, or what it had sent was lost on the way";
const SELDOM_SEEN: &str = "what the server did while it was waited for was not seen often enough";

impl Split {
    /// As it was recorded: the parts, and why there are bounds alone.
    pub fn of_recording(wall_ns: u64, parts: [Part; 3], no_split: Option<&str>) -> Self {
        let why = |told: &str| {
            [NO_RTT, TIED, HELD_UP, UNSTEADY, SILENT, SELDOM_SEEN]
                .into_iter()
                .find(|why| *why == told)
                .unwrap_or("for a reason of a later version")
        };
        let recorded = no_split.map_or(Recorded::Estimates, |told| Recorded::Bounds(why(told)));
        Self { wall_ns, parts, recorded: Some(recorded), ..Self::default() }
    }

    /// The parts, of which those without an estimate are taken to be as far from the least to the most that they may be as makes the
    /// three sum to the wall time.
    pub fn reckoned(&self) -> [Part; 3] {
        if self.estimates().is_some() {
            return self.parts;
        }
        let sum = |of: fn(&Part) -> u64| self.parts.iter().map(|part| u128::from(of(part))).sum::<u128>();
        let (low, high) = (sum(|part| part.low_ns), sum(|part| part.high_ns));
        let (left, open) = (u128::from(self.wall_ns).saturating_sub(low), high.saturating_sub(low).max(1));
        self.parts.map(|part| {
            let own = u128::from(part.high_ns.saturating_sub(part.low_ns)) * left / open;
            Part { ns: part.low_ns.saturating_add(u64::try_from(own).unwrap_or(u64::MAX)), ..part }
        })
    }

    /// A party's part; its estimate is to be used only where [`Split::why_not`] is `None`.
    pub fn part(&self, party: Party) -> Part {
        self.parts[party as usize]
    }

    /// The estimates in the order of [`PARTIES`], which sum to the wall time; `None` where [`Split::why_not`] has a reason.
    pub fn estimates(&self) -> Option<[u64; 3]> {
        self.why_not().is_none().then(|| self.parts.map(|part| part.ns))
    }

    /// Why there are bounds alone.
    pub fn why_not(&self) -> Option<&'static str> {
        match self.recorded {
            Some(Recorded::Estimates) => None,
            Some(Recorded::Bounds(why)) => Some(why),
            None if self.open_ns as f64 <= OPEN_AT_MOST * self.wall_ns as f64 => None,
            None if self.without_rtt => Some(NO_RTT),
            None if self.tied_ns > self.open_ns / 2 => Some(TIED),
            None if self.unsteady_ns > self.open_ns / 2 => Some(UNSTEADY),
            None if self.silent_ns > self.open_ns / 2 => Some(SILENT),
            None if self.was_held_up => Some(HELD_UP),
            None => Some(SELDOM_SEEN),
        }
    }

    /// Time that is surely this party's.
    pub(super) fn give(&mut self, party: Party, ns: u64) {
        let part = &mut self.parts[party as usize];
        part.low_ns += ns;
        part.ns += ns;
        part.high_ns += ns;
    }

    /// Time that may be any of these; the first is the estimate.
    pub(super) fn give_one_of(&mut self, parties: &[Party], ns: u64) {
        self.open_ns += ns;
        self.tied_ns += if parties.contains(&Party::Client) { ns } else { 0 };
        for (party, is_estimate) in parties.iter().zip(std::iter::once(true).chain(std::iter::repeat(false)))
        {
            let part = &mut self.parts[*party as usize];
            part.high_ns += ns;
            part.ns += if is_estimate { ns } else { 0 };
        }
    }

    /// As [`Split::give_one_of`] of two, half of it each.
    pub(super) fn give_half(&mut self, a: Party, b: Party, ns: u64) {
        self.give_one_of(&[a, b], ns / 2);
        self.give_one_of(&[b, a], ns - ns / 2);
    }

    /// So much of what is others' may be this party's.
    pub(super) fn may_be(&mut self, party: Party, ns: u64) {
        let part = &mut self.parts[party as usize];
        part.high_ns = part.high_ns.saturating_add(ns).min(self.wall_ns).max(part.ns);
    }

    /// This side was busy for no longer, or late: however fast it were, no more could be saved.
    pub(super) fn client_at_most(&mut self, ns: u64) {
        let client = &mut self.parts[Party::Client as usize];
        client.high_ns = client.high_ns.min(ns).max(client.ns);
    }

    /// So much of what was given to `from` may be one of these's: the estimates stay.
    pub(super) fn doubt(&mut self, from: Party, to: &[Party], ns: u64) {
        let from = &mut self.parts[from as usize];
        // Never more than is surely its own.
        let ns = ns.min(from.low_ns);
        from.low_ns -= ns;
        for party in to {
            self.parts[*party as usize].high_ns += ns;
        }
    }

    /// So much of one party's estimate is rather the other's, as far as both bounds allow it.
    pub(super) fn shift(&mut self, from: Party, to: Party, ns: u64) {
        let (Part { low_ns, ns: has_ns, .. }, to_part) = (self.part(from), self.part(to));
        let ns = ns.min(has_ns - low_ns).min(to_part.high_ns - to_part.ns);
        self.parts[from as usize].ns -= ns;
        self.parts[to as usize].ns += ns;
    }

    /// So much of the estimates is open, because the path's round trips vary.
    pub(super) fn unsteady(&mut self, ns: u64) {
        self.unsteady_ns = ns.min(self.wall_ns - self.open_ns);
        self.open_ns += self.unsteady_ns;
    }

    /// So much of the path's estimate is open: nothing came, though the server said that it was sending.
    pub(super) fn silent(&mut self, ns: u64) {
        self.silent_ns = ns.min(self.wall_ns - self.open_ns);
        self.open_ns += self.silent_ns;
    }

    /// No party has what surely is another's, however often it was doubted whether something is its own.
    pub(super) fn agree(&mut self) {
        let sure_ns: u64 = self.parts.iter().map(|part| part.low_ns).sum();
        for part in &mut self.parts {
            part.high_ns = part.high_ns.min(self.wall_ns - (sure_ns - part.low_ns));
        }
    }
}
