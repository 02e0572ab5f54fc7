//! What happens to more than the idle connections: outages, and the end of all connections.

use super::super::flow::{Role, Stage};
use super::super::guard::PATIENCE_NS;
use super::super::plan::S;
use super::{Death, Limits, MOST_BEGINNINGS, Phase, Verdict, Wanted, What};

/// From the end of all connections until it is tried again.
const AGAIN_NS: u64 = S;

impl Limits {
    /// A silence is to be told from an outage.
    pub(super) fn want_fresh(&mut self, now: u64) {
        if self.guard.fresh_from_ns().is_some_and(|from| from <= now) {
            self.guard.fresh_begins();
            self.urgent.push_back(Wanted::urgent(Role::Fresh, now));
        }
    }

    /// What was sent then was answered.
    pub(super) fn path_works(&mut self, now: u64, sent_ns: u64, is_fresh: bool) {
        if let Some(since_ns) = self.guard.answered(sent_ns, is_fresh) {
            self.outage_is_over(now - since_ns);
        }
        if is_fresh {
            for flow in self.flows.values_mut() {
                if let Stage::Asked(asked) = &mut flow.stage {
                    asked.fresh_ns.get_or_insert(now);
                }
            }
        }
    }

    /// A fresh connection was not answered either: what is silent now was asked while the path was down.
    pub(super) fn fresh_failed(&mut self, now: u64) {
        if self.guard.fresh_failed(now) {
            self.happened(now, What::Outage { lasted_ns: None });
        }
        let silent = self.flows.iter().filter_map(|(&id, flow)| match (flow.role, flow.stage) {
            (Role::Test(cohort), Stage::Asked(asked))
                if asked.fresh_ns.is_none() && asked.doubted_ns() <= now =>
            {
                Some((id, cohort))
            }
            _ => None,
        });
        let silent: Vec<(u32, usize)> = silent.collect();
        for (id, cohort) in silent {
            self.voids(id, cohort);
            self.close(id);
        }
    }

    /// A control connection could not be opened; why, where that is known.
    pub(super) fn control_not_opened(&mut self, now: u64, why: Option<String>) {
        if self.beginnings == 0 {
            let silent = "takes connections and sends nothing back; name the port of `fathom echo`, or of another echo server (RFC 862)";
            let why = why.unwrap_or_else(|| format!("{} {silent}", self.settings.target));
            return self.over(Verdict::Failed, Some(why));
        }
        self.urgent.push_back(Wanted::urgent(Role::Control, now + AGAIN_NS));
    }

    pub(super) fn give_up_if_hopeless(&mut self, now: u64) {
        let since = match self.phase {
            Phase::Starting(since) if self.beginnings > 0 => Some(since + PATIENCE_NS),
            _ => self.guard.hopeless_ns(),
        };
        if since.is_some_and(|at| at <= now) {
            self.finish(
                now,
                Verdict::Unclear,
                Some(format!("{} has not answered for a minute", self.settings.target)),
            );
        }
    }

    /// A connection that was never idle died: whatever died with it did not die of idleness. What is settled stays; the
    /// rest begins anew.
    pub(super) fn all_died(&mut self, now: u64, how: Death) {
        if self.beginnings == 0 {
            let why =
                "ended a connection that was in use after its first echo; is it an echo server (RFC 862)?";
            return self.over(Verdict::Failed, Some(format!("{} {why}", self.settings.target)));
        }
        self.happened(now, What::AllDied { how });
        self.tell_all_void();
        let ids: Vec<u32> = self.flows.keys().copied().collect();
        for id in ids {
            self.close(id);
        }
        self.queue.clear();
        self.pending.clear();
        self.guard.forget_connections();
        for cohort in &mut self.cohorts {
            cohort.void += std::mem::take(&mut cohort.open);
        }
        if self.beginnings >= MOST_BEGINNINGS {
            let why = "connections that were never idle died again and again; find out why first (`fathom probe` explains each)";
            return self.finish(now, Verdict::Unclear, Some(why.to_owned()));
        }
        self.open_controls(now);
        self.urgent.iter_mut().for_each(|wanted| wanted.not_before_ns = now + AGAIN_NS);
    }
}
