//! How long a query is waited for: until the user ends the run, until the query is older than it may be, or until the run's time is over
//! and the server says nothing. Then the server is asked to cancel it, has a while to answer that, and is left.

use crate::error::Trouble;
use crate::limit::Limit;
use crate::pauses::{Pauses, after};
use crate::stood::Clock;
use crate::{Error, Stop};
use fathom_core::query::LATE;
use fathom_core::units::narrow::time_or_dash;
use std::time::Duration;

/// After a request to cancel, the server has so long to answer...
const CANCEL_WITHIN: Duration = Duration::from_secs(2);
/// ...or so many round trips: a request may need a session of its own, with TLS and a login.
const CANCEL_ROUND_TRIPS: u32 = 8;
/// Once the time of a run is over, a server that has said nothing for so long is not waited for.
const SILENT_WITHIN: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(crate) struct Patience {
    stop: Stop,
    began_ns: u64,
    /// The whole answer is to be here within this, but for what this side works on rows.
    timeout: Option<Duration>,
    /// For how long it has.
    worked_ns: u64,
    /// The time of the run is over then.
    over_ns: Option<u64>,
    cancelled_ns: Option<u64>,
    /// The server has so long to answer that.
    cancel_within: Duration,
    /// When this process did not run, since the query began.
    pauses: Pauses,
    /// Why the query takes too long, where it does.
    late: Option<String>,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heeded {
    GoOn,
    /// The server is to be asked to cancel the query.
    Cancel,
    GiveUp(Trouble),
}

impl Patience {
    /// With a query that begins now.
    pub(crate) fn new(began_ns: u64, timeout: Option<Duration>, over_ns: Option<u64>, stop: &Stop) -> Self {
        // Who says how long a query may take has said it.
        let over_ns = over_ns.filter(|_| timeout.is_none());
        let (stop, cancelled_ns, late) = (stop.clone(), None, None);
        Self {
            stop,
            began_ns,
            timeout,
            worked_ns: 0,
            over_ns,
            cancelled_ns,
            cancel_within: CANCEL_WITHIN,
            pauses: Pauses::default(),
            late,
        }
    }

    /// Over a path with such a round trip.
    #[must_use]
    pub(crate) fn over_path(self, rtt_ns: Option<u64>) -> Self {
        let round_trips = Duration::from_nanos(rtt_ns.unwrap_or(0)).saturating_mul(CANCEL_ROUND_TRIPS);
        Self { cancel_within: CANCEL_WITHIN.max(round_trips), ..self }
    }

    /// This process did not run from then to then, after what was told before.
    pub(crate) fn stood(&mut self, from_ns: u64, to_ns: u64) {
        self.pauses.add(from_ns, to_ns);
    }

    /// This side worked on rows for so long, without what was told that it did not run.
    pub(crate) fn worked(&mut self, ns: u64) {
        self.worked_ns = self.worked_ns.saturating_add(ns);
    }

    /// When the time that the whole answer has is over: who works on rows waits for nobody.
    fn timeout_ns(&self) -> Option<u64> {
        let worked = Duration::from_nanos(self.worked_ns);
        self.timeout.map(|timeout| self.pauses.run_after(self.began_ns, timeout.saturating_add(worked)))
    }

    /// Whether the time of the run is over.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        self.over_ns.is_some_and(|over_ns| now_ns >= over_ns)
    }

    /// Whether rows are still worked on: what was cancelled is only read to its end.
    pub(crate) fn works_on(&self) -> bool {
        self.cancelled_ns.is_none()
    }

    /// Whether to wait on, where nothing has been heard of the server since then.
    pub(crate) fn heed(&mut self, now_ns: u64, silent_since_ns: u64) -> Heeded {
        if self.stop.times() > 1 {
            return Heeded::GiveUp(Trouble::Stopped { is_unanswered: true });
        }
        if let Some(at_ns) = self.cancelled_ns {
            return if now_ns < self.pauses.run_after(at_ns, self.cancel_within) {
                Heeded::GoOn
            } else {
                Heeded::GiveUp(self.unanswered())
            };
        }
        if self.stop.times() == 0 {
            self.late = self.too_late(now_ns, silent_since_ns);
            if self.late.is_none() {
                return Heeded::GoOn;
            }
        }
        self.cancelled_ns = Some(now_ns);
        Heeded::Cancel
    }

    /// When the server was asked to cancel the query.
    pub(crate) fn cancelled_ns(&self) -> Option<u64> {
        self.cancelled_ns
    }

    fn too_late(&self, now_ns: u64, silent_since_ns: u64) -> Option<String> {
        if let Some(timeout) = self.timeout.filter(|_| self.timeout_ns().is_some_and(|at_ns| now_ns >= at_ns))
        {
            let beside = match self.worked_ns {
                0 => String::new(),
                ns => format!(" beside the {} of --think", time_or_dash(Some(ns), 3)),
            };
            return Some(format!("{LATE}{timeout:?}{beside}"));
        }
        let over_ns = self.over_ns?;
        (now_ns >= over_ns && now_ns >= self.pauses.run_after(silent_since_ns, SILENT_WITHIN))
            .then(|| format!("{LATE}the time of --for, and nothing for {SILENT_WITHIN:?}"))
    }

    /// The request to cancel came to nothing either.
    fn unanswered(&self) -> Trouble {
        self.ended(true, &format!(", nor to the request to cancel it within {:?}", self.cancel_within))
    }

    /// Nobody can be asked to cancel it.
    pub(crate) fn uncancelled(&self) -> Trouble {
        self.ended(true, ", and the session does not tell by what to cancel it")
    }

    /// Nobody took the request to cancel it: the session is closed, which ends it once the server sends something.
    pub(crate) fn unasked(&self, error: &Error) -> Trouble {
        let more = format!(
            "; the server could not be asked to cancel it ({error}), so its session was closed, and it may go on until it sends \
             something"
        );
        match &self.late {
            Some(late) => Trouble::Late { why: format!("{late}{more}"), is_unanswered: true },
            None => Trouble::Left { why: more },
        }
    }

    /// It was ended: because it took too long, or else by the user.
    fn ended(&self, is_unanswered: bool, more: &str) -> Trouble {
        match &self.late {
            Some(late) => Trouble::Late { why: format!("{late}{more}"), is_unanswered },
            None => Trouble::Stopped { is_unanswered },
        }
    }

    /// What became of a query that had taken too long already, whatever came then: an answer after all, or that it was cancelled.
    pub(crate) fn judged(&self, trouble: Option<Trouble>) -> Option<Trouble> {
        match trouble {
            None | Some(Trouble::Refused(_)) if self.late.is_some() => Some(self.ended(false, "")),
            trouble => trouble,
        }
    }

    /// Where a query that was to be cancelled has come to a point at which it waits for us: it goes on no further.
    pub(crate) fn between_pieces(&self) -> Option<Trouble> {
        self.cancelled_ns.map(|_| self.ended(false, ""))
    }

    /// For how long this side tries to send.
    pub(crate) fn limit(&self, now_ns: u64, clock: &Clock) -> Limit {
        if let Some(at_ns) = self.cancelled_ns {
            return Limit::until(Some(self.pauses.run_after(at_ns, self.cancel_within)), &self.stop, clock);
        }
        let timeout = self.timeout_ns();
        let over = self.over_ns.map(|over_ns| over_ns.max(after(now_ns, SILENT_WITHIN)));
        // What is not sent whole needs no cancel.
        Limit::until(timeout.into_iter().chain(over).min(), &self.stop, clock).impatient()
    }

    /// It could not be sent within that.
    pub(crate) fn unsent(&self, now_ns: u64) -> Trouble {
        if self.cancelled_ns.is_some() {
            return self.unanswered();
        }
        let late = self.too_late(now_ns, 0).unwrap_or_else(|| format!("{LATE}the time of --for"));
        Trouble::Late { why: format!("{late}: it could not be sent"), is_unanswered: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Loss, Refusal};

    const S: u64 = 1_000_000_000;

    fn late(why: &str, is_unanswered: bool) -> Trouble {
        Trouble::Late { why: why.to_owned(), is_unanswered }
    }

    #[test]
    fn query_is_cancelled_at_its_deadline() {
        use Heeded::{Cancel, GoOn};
        let t = |s| Some(Duration::from_secs(s));
        // A query that began at 100 s: its timeout, when the run is over, now, and since when nothing came.
        for (timeout, over, now, silent_since, heeded) in [
            (None, None, 10_000, 100, GoOn),
            (t(5), None, 104, 100, GoOn),
            (t(5), None, 105, 105, Cancel),
            // Of a run whose time is over it is the server that says nothing, not the query that takes long.
            (None, Some(102), 111, 103, GoOn),
            (None, Some(102), 111, 101, Cancel),
            (None, Some(102), 10_000, 9_995, GoOn),
            (None, Some(200), 150, 100, GoOn),
            (None, Some(200), 200, 100, Cancel),
            // Who says how long a query may take has said it.
            (t(60), Some(102), 150, 100, GoOn),
        ] {
            let mut patience = Patience::new(100 * S, timeout, over.map(|over| over * S), &Stop::default());
            let was = patience.heed(now * S, silent_since * S);
            assert_eq!(was, heeded, "{timeout:?} {over:?} {now} {silent_since}");
        }
    }

    #[test]
    fn cancel_request_has_its_own_deadline() {
        let stop = Stop::default();
        let mut patience = Patience::new(0, Some(Duration::from_secs(5)), None, &stop);
        assert_eq!(patience.between_pieces(), None);
        assert_eq!(patience.heed(5 * S, 0), Heeded::Cancel);
        assert_eq!(patience.heed(7 * S - 1, 0), Heeded::GoOn);
        let why = "no whole answer within 5s, nor to the request to cancel it within 2s";
        assert_eq!(patience.heed(7 * S, 0), Heeded::GiveUp(late(why, true)));
        // Its whole answer, or what the server says of the cancel, comes too late; a lost connection says more.
        let why = "no whole answer within 5s";
        assert_eq!(patience.judged(None), Some(late(why, false)));
        assert_eq!(patience.judged(Some(Trouble::Refused(Refusal::default()))), Some(late(why, false)));
        assert_eq!(patience.between_pieces(), Some(late(why, false)));
        let lost = Some(Trouble::Lost(Loss::Closed));
        assert_eq!(patience.judged(lost.clone()), lost);
        stop.ask();
        stop.ask();
        assert_eq!(patience.heed(6 * S, 0), Heeded::GiveUp(Trouble::Stopped { is_unanswered: true }));
    }

    /// A KILL takes five round trips, and more where one is lost.
    #[test]
    fn long_path_extends_cancel_deadline() {
        let patience = Patience::new(0, Some(Duration::from_secs(5)), None, &Stop::default());
        let mut patience = patience.over_path(Some(S / 2));
        assert_eq!(patience.heed(5 * S, 0), Heeded::Cancel);
        assert_eq!(patience.heed(9 * S - 1, 0), Heeded::GoOn);
        let why = "no whole answer within 5s, nor to the request to cancel it within 4s";
        assert_eq!(patience.heed(9 * S, 0), Heeded::GiveUp(late(why, true)));
        let why = "no whole answer within 5s, and the session does not tell by what to cancel it";
        assert_eq!(patience.uncancelled(), late(why, true));
    }

    /// `fathom` was stopped for 10 s (SIGSTOP): the answer was there, or the server had no time for it.
    #[test]
    fn process_pause_extends_query_deadline() {
        let mut patience = Patience::new(S, Some(Duration::from_secs(5)), None, &Stop::default());
        patience.stood(2 * S, 12 * S);
        assert_eq!(patience.heed(12 * S, S), Heeded::GoOn);
        assert_eq!(patience.heed(16 * S, S), Heeded::Cancel);
        patience.stood(17 * S, 30 * S);
        assert_eq!(patience.heed(30 * S, S), Heeded::GoOn);
        assert!(matches!(patience.heed(31 * S, S), Heeded::GiveUp(_)));
        // Nor is the server silent for as long as nobody listened.
        let mut patience = Patience::new(S, None, Some(2 * S), &Stop::default());
        patience.stood(2 * S, 15 * S);
        assert_eq!(patience.heed(15 * S, S), Heeded::GoOn);
        // 1 s before, and 9 afterwards: that it was kept from running for a moment does not begin it anew.
        patience.stood(20 * S, 20 * S + S / 2);
        assert_eq!(patience.heed(24 * S, S), Heeded::GoOn);
        assert_eq!(patience.heed(24 * S + S / 2, S), Heeded::Cancel);
    }

    /// A client that thought for longer than `--timeout` had the server time out (a stranger).
    #[test]
    fn client_work_extends_query_deadline() {
        let mut patience = Patience::new(S, Some(Duration::from_secs(5)), None, &Stop::default());
        patience.worked(20 * S);
        assert_eq!(patience.heed(25 * S, 25 * S), Heeded::GoOn);
        // It was stopped for a second while it worked.
        patience.stood(26 * S, 27 * S);
        patience.worked(2 * S);
        assert_eq!(patience.heed(29 * S - 1, 28 * S), Heeded::GoOn);
        assert!(patience.works_on());
        assert_eq!(patience.heed(29 * S, 28 * S), Heeded::Cancel);
        assert!(!patience.works_on());
        let why = "no whole answer within 5s beside the 22.0s of --think";
        assert_eq!(patience.judged(None), Some(late(why, false)));
    }

    #[test]
    fn the_user_is_heeded_at_once() {
        let stop = Stop::default();
        let mut patience = Patience::new(0, None, None, &stop);
        stop.ask();
        assert_eq!(patience.heed(S, S), Heeded::Cancel);
        assert_eq!(patience.heed(2 * S, S), Heeded::GoOn);
        // The server has answered, and is not taken for lost.
        assert_eq!(patience.between_pieces(), Some(Trouble::Stopped { is_unanswered: false }));
        assert_eq!(patience.heed(3 * S, S), Heeded::GiveUp(Trouble::Stopped { is_unanswered: true }));
        assert_eq!(patience.judged(None), None);
    }
}
