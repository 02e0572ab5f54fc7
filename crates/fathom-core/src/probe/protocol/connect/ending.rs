//! The end of connections that are samples: their time limits, room for others, and the end of a path's run.

use super::{AT_ONCE, Dial, Dialer};
use crate::event::EventKind;
use crate::probe::context::Context;
use crate::probe::io::{ErrorSource, LinkId, NetError, Output};
use crate::probe::path::Path;
use crate::probe::policy::reconnect::{PAUSED_NS, READ_WITHIN_NS, limit_ns};
use crate::probe::timers::Timer;
use std::io::ErrorKind;

impl Dialer {
    pub(super) fn one_ended(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        if self.drain_ns.is_some() {
            self.tell_unmade(now, cx);
            self.over |= self.dials.is_empty();
        } else if self.dials.len() + 1 == AT_ONCE {
            self.dial_due(now, path, cx);
        }
    }

    /// Handles the time limit of a connection. If this host did not run meanwhile, what arrived is read first.
    pub(in crate::probe) fn limit(
        &mut self,
        at: u64,
        now: u64,
        link: LinkId,
        path: &mut Path,
        cx: &mut Context,
    ) {
        if now.saturating_sub(at) < PAUSED_NS {
            self.late(now, link, path, cx);
        } else {
            cx.timers.set(now + READ_WITHIN_NS, Timer::DialLimit, link.place);
        }
    }

    /// Ends a connection that was not made in time. One that was made in time has another limit.
    pub(super) fn late(&mut self, now: u64, link: LinkId, path: &mut Path, cx: &mut Context) {
        match self.dials.get(&link).map(|dial| (dial.done_ns, dial.established_ns)) {
            Some((None, Some(_))) => {
                let text = format!(
                    "{} was connected and did not finish the TLS handshake; does it speak TLS on that port?",
                    path.target()
                );
                let kind = ErrorKind::TimedOut;
                let error = NetError { kind, errno: None, text, source: ErrorSource::Tls };
                self.failed(now, link, &error, path, cx);
            }
            Some((None, None)) => {
                self.failed(now, link, &NetError::of_kind(ErrorKind::TimedOut), path, cx);
            }
            Some((Some(_), _)) | None => {}
        }
    }

    /// Ends a connection that was closed here and that the peer has not closed.
    pub(in crate::probe) fn closing_late(
        &mut self,
        now: u64,
        link: LinkId,
        path: &mut Path,
        cx: &mut Context,
    ) {
        if self.dials.get(&link).is_some_and(|dial| dial.done_ns.is_some()) {
            self.closed(now, link, None, path, cx);
        }
    }

    /// Runs once a second: gives up dues that waited too long for room, and makes room if unanswered connections take
    /// all of it.
    pub(in crate::probe) fn tick(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        if self.drain_ns.is_none() && self.dials.len() >= AT_ONCE {
            let overdue = self.schedule.as_mut().and_then(|schedule| schedule.skip_overdue(now));
            cx.skipped(now, self.path, None, overdue, "blocked");
            let begun_by = now.saturating_sub(limit_ns(cx.settings.timeout_ns));
            let hangs = |dial: &Dial| dial.done_ns.is_none() && dial.sent_ns < begun_by;
            let hanging = self.dials.iter().filter(|(_, dial)| hangs(dial)).map(|(&link, _)| link);
            for link in hanging.collect::<Vec<_>>() {
                self.late(now, link, path, cx);
            }
        }
        self.tell_unmade(now, cx);
    }

    /// Makes no more connections, and records what fell due before as not made. Attempts in progress are given up then.
    pub(in crate::probe) fn drain(&mut self, now: u64, linger_ns: u64, cx: &mut Context) {
        let given_up = self.schedule.as_mut().and_then(|schedule| schedule.skip_unconnected(now));
        let reason = if self.dials.len() < AT_ONCE { "late" } else { "blocked" };
        cx.skipped(now, self.path, None, given_up, reason);
        self.tell_unmade(now, cx);
        let at_ns = now.saturating_add(linger_ns);
        self.drain_ns = Some(self.drain_ns.map_or(at_ns, |before| before.min(at_ns)));
        if self.dials.is_empty() {
            self.over = true;
        } else {
            cx.timers.set(at_ns, Timer::DialDrain, self.path);
        }
    }

    /// Ends the wait for the last connections.
    pub(in crate::probe) fn drained(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        if self.drain_ns.is_none_or(|at| now < at) {
            return;
        }
        for link in self.links() {
            if !self.let_go(now, link, cx) {
                self.late(now, link, path, cx);
            }
        }
        self.tell_unmade(now, cx);
        self.over = true;
    }

    /// The run ends before the attempt reached its timeout: it did not fail.
    fn let_go(&mut self, now: u64, link: LinkId, cx: &mut Context) -> bool {
        let timeout_ns = cx.settings.timeout_ns;
        let in_flight = |dial: &Dial| dial.done_ns.is_none() && now.saturating_sub(dial.sent_ns) < timeout_ns;
        if !self.dials.get(&link).is_some_and(in_flight) {
            return false;
        }
        let dial = self.dials.remove(&link);
        cx.emit(Output::Close { link });
        let kind = EventKind::SamplesInFlight { samples: 1 };
        cx.event(now, Some(self.path), dial.map(|dial| dial.connection), kind);
        true
    }

    /// Ends at once, without waiting for the peers to close what was measured.
    pub(in crate::probe) fn end(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        self.drained(now, path, cx);
        for link in self.links() {
            self.closing_late(now, link, path, cx);
        }
    }

    fn links(&self) -> Vec<LinkId> {
        self.dials.keys().copied().collect()
    }
}
