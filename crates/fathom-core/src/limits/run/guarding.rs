//! What happens to more than the idle connections: outages, and the end of all connections.

use super::super::flow::Role;
use super::super::guard::PATIENCE_NS;
use super::{AGAIN_NS, Death, Limits, MOST_BEGINNINGS, Phase, Verdict, Wanted, What};
use crate::probe::NetError;

impl Limits {
    /// A silence is to be told from an outage.
    pub(super) fn want_fresh(&mut self, now: u64) {
        if self.links.guard.fresh_from_ns().is_some_and(|from| from <= now) {
            self.links.guard.fresh_begins();
            self.urgent.push_back(Wanted::first(Role::Fresh, now));
        }
    }

    /// What was sent then was answered.
    pub(super) fn path_works(&mut self, now: u64, sent_ns: u64, is_fresh: bool) {
        self.links.path_works(now, sent_ns, is_fresh, |_| is_fresh);
    }

    /// A fresh connection was not answered either: what is silent now was asked while the path was down.
    pub(super) fn fresh_failed(&mut self, now: u64, id: u32) {
        self.links.fresh_failed(now, id);
        for (id, cohort) in self.links.silent(now) {
            self.voids(id, cohort);
            self.links.close(id);
        }
    }

    /// A control connection could not be opened: by this error, or it was silent.
    pub(super) fn control_not_opened(&mut self, now: u64, error: Option<&NetError>) {
        if self.beginnings == 0 {
            return self.over(Verdict::Failed, Some(self.links.why_not_opened(error)));
        }
        self.urgent.push_back(Wanted::first(Role::Control, now + AGAIN_NS));
    }

    pub(super) fn give_up_if_hopeless(&mut self, now: u64) {
        let since = match self.phase {
            Phase::Starting(since) if self.beginnings > 0 => Some(since + PATIENCE_NS),
            _ => self.links.guard.hopeless_ns(),
        };
        if since.is_some_and(|at| at <= now) {
            self.finish(now, Verdict::Unclear, Some(self.links.why_hopeless()));
        }
    }

    /// A connection that was never idle died: whatever died with it did not die of idleness. What is settled stays; the
    /// rest begins anew.
    pub(super) fn all_died(&mut self, now: u64, how: Death) {
        if self.beginnings == 0 {
            let why =
                "ended a connection that was in use after its first echo; is it an echo server (RFC 862)?";
            return self.over(Verdict::Failed, Some(self.links.target_does(why)));
        }
        self.links.happened(now, What::AllDied { how });
        self.tell_all_void();
        self.close_all();
        self.queue.clear();
        self.pending.clear();
        self.links.guard.forget_connections();
        for cohort in &mut self.cohorts {
            cohort.void += std::mem::take(&mut cohort.open);
        }
        if self.beginnings >= MOST_BEGINNINGS {
            let why = "connections that were never idle died again and again; `fathom limits --age` tells whether at one age (`fathom probe` explains each)";
            return self.finish(now, Verdict::Unclear, Some(why.to_owned()));
        }
        self.open_controls(now);
        self.urgent.iter_mut().for_each(|wanted| wanted.not_before_ns = now + AGAIN_NS);
    }
}
