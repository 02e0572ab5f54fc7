//! The reflector: what it said of the connection, and whether the one that said it is the one that served it.

use super::Direction;
use crate::peer_report::{PeerReport, Responder, Standing};

/// A time told as "so long ago" is known to a round trip and a millisecond; this covers both.
const TOLD_WITHIN_NS: u64 = 200_000_000;
/// A reply that was held up for longer is taken as given at so many times at the most, at the first and the last possible one too.
const TIMES: u64 = 64;
/// A reflector that took another's place so soon after a connection's end is what ended it, or what came of its end.
const SOON_NS: u64 = 60_000_000_000;

/// What the reflector said of the connection, and what this end knew when it asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// What it said.
    pub report: PeerReport,
    /// When it was asked, by this host's monotonic clock. It answered between then and `at_ns`: a reply may be held up.
    pub asked_ns: u64,
    /// When that came, by the same.
    pub at_ns: u64,
    /// The first sample of the silence: the one after the last that was answered.
    pub first_missing: u64,
    /// Samples that had been sent when it was to be asked.
    pub sent: u64,
    /// It was asked when the connection had ended.
    pub after_end: bool,
}

impl Reported {
    /// The same, as if the reply had been under way for no time, for each time at which it may have been given: the latest first.
    /// What the reflector calls so long ago is counted from there.
    pub(super) fn answers(self) -> impl Iterator<Item = Self> {
        let held_up_ns = self.at_ns.saturating_sub(self.asked_ns);
        // Within what such times are known to there is one.
        let steps =
            if held_up_ns > TOLD_WITHIN_NS { held_up_ns.div_ceil(TOLD_WITHIN_NS).min(TIMES) } else { 0 };
        (0..=steps).map(move |step| {
            let at_ns = self.at_ns - held_up_ns * step / steps.max(1);
            Self { asked_ns: at_ns, at_ns, ..self }
        })
    }

    /// Which way was lost: the reflector got the first missing request, and then its echo did not come; or it did not.
    /// An echo that could not have come before `ended_ns` was not lost by then.
    pub(super) fn direction(&self, ended_ns: u64, round_trip_ns: u64) -> Option<Direction> {
        let last_seq = self.report.last_seq.filter(|_| self.sent > self.first_missing)?;
        if last_seq < self.first_missing {
            return Some(Direction::Forward);
        }
        let too_late = |read: u64| read + round_trip_ns + TOLD_WITHIN_NS > ended_ns;
        (!self.read_ns().is_some_and(too_late)).then_some(Direction::Return)
    }

    /// Whether it did not end the connection. That it had not yet, when it was asked before the end, says nothing of that.
    pub(super) fn is_not_its_doing(&self) -> bool {
        self.report.is_not_its_doing() && (self.after_end || self.report.standing != Standing::Open)
    }

    /// When it last read from the connection.
    fn read_ns(&self) -> Option<u64> {
        let ago_ns = self.report.responder.and_then(|who| who.received_ago_ns)?;
        Some(self.at_ns.saturating_sub(ago_ns))
    }

    /// Whether it read from the connection after the end, so that requests were under way then.
    pub(super) fn received_after(&self, ended_ns: u64) -> bool {
        self.read_ns().is_some_and(|read| read > ended_ns + TOLD_WITHIN_NS)
    }

    /// Its latest long pause: from, to.
    pub(super) fn pause(&self) -> Option<(u64, u64)> {
        let who = self.report.responder?;
        let to = self.at_ns.saturating_sub(who.paused_ago_ns?);
        Some((to.saturating_sub(who.paused_ns?), to))
    }

    fn began_ns(&self) -> Option<u64> {
        Some(self.at_ns.saturating_sub(self.report.responder?.age_ns))
    }
}

/// Who answers now, compared with who served the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    /// It is not known who served it, or who answers.
    NotKnown,
    /// The same process.
    Same,
    /// Another process at the same place, which began before the connection's end.
    ReplacedBefore,
    /// The same, soon after its end.
    ReplacedSoon,
    /// The same, later.
    ReplacedLater,
    /// Another place behind the same address.
    Elsewhere,
    /// Who served it is not known; the one that answers began at its end or after.
    BeganAfter,
}

/// Who answers now, as far as that bears on the connection's end. `served_by`: who answered while the connection lived,
/// which began at `opened_ns` and ended at `ended_ns`.
pub(super) fn server(
    served_by: Option<u32>,
    reported: Option<Reported>,
    (opened_ns, ended_ns): (u64, u64),
) -> Server {
    let Some(reported) = reported else { return Server::NotKnown };
    let (Some(Responder { identity, .. }), Some(began)) = (reported.report.responder, reported.began_ns())
    else {
        return Server::NotKnown;
    };
    let soon = began <= ended_ns + SOON_NS;
    match served_by {
        Some(served) if served == identity => Server::Same,
        Some(served) if !fathom_wire::is_same_place(served, identity) => Server::Elsewhere,
        // It ran before the connection was made: so both do, or did, at one place, and the connection was with either.
        Some(_) if began < opened_ns => Server::NotKnown,
        Some(_) if began < ended_ns => Server::ReplacedBefore,
        Some(_) if soon => Server::ReplacedSoon,
        Some(_) => Server::ReplacedLater,
        None if began + TOLD_WITHIN_NS >= ended_ns && soon => Server::BeganAfter,
        None => Server::NotKnown,
    }
}
