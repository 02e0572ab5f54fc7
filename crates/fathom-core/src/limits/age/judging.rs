//! Connections are asked again and again, and what becomes of them is taken down.

use super::super::flow::{Asked, Flow, Role, Stage};
use super::super::io::KernelView;
use super::super::links::{Heard, Wanted, deaths_of};
use super::super::outcome::Verdict;
use super::run::{Ages, Dying, Judged, Phase};
use crate::event::{Became, Death};
use crate::probe::NetError;

impl Ages {
    pub(super) fn connected(&mut self, now: u64, id: u32) {
        if self.links.connected(now, id)
            && let Some(known) = self.known.get_mut(&id)
        {
            (known.began_ns, known.alive_ns) = (Some(now), now);
        }
    }

    pub(super) fn ask_due(&mut self, now: u64) {
        let due = |flow: &Flow| flow.stage == Stage::Idle && self.due_ns(flow).is_some_and(|at| at <= now);
        for id in self.links.ids(due) {
            self.links.look(id);
        }
    }

    /// The kernel has been asked: now the connection is.
    pub(super) fn looked(&mut self, now: u64, id: u32, view: Option<KernelView>) {
        match self.links.flows.get(&id).map(|flow| flow.stage) {
            Some(Stage::Looking) => {
                let rto_ns = view.map(|view| view.rto_ns);
                self.links.times_out_after(rto_ns);
                self.links.ask(now, id, Asked::new(now, rto_ns));
            }
            // Its request may have been lost, and have arrived with the next attempt.
            Some(Stage::Asked(asked)) if asked.looked => {
                let how = self.links.death_in_silence(id, view);
                self.dies(id, asked.at_ns, asked.at_ns + asked.rto_ns, asked.rto_ns, how);
            }
            _ => {}
        }
    }

    pub(super) fn received(&mut self, now: u64, id: u32, bytes: &[u8]) {
        match self.links.received(id, bytes) {
            Heard::Nothing => {}
            Heard::Opened => self.is_open(now, id),
            Heard::Answered(asked) => self.answered(now, id, asked),
            Heard::Reported => self.over(self.verdict, None),
            Heard::Foreign => {
                let starting = self.phase == Phase::Starting;
                let verdict = if starting { Verdict::Failed } else { Verdict::Unclear };
                self.finish(now, verdict, Some(self.links.why_foreign()));
            }
        }
    }

    /// The first echo came.
    fn is_open(&mut self, now: u64, id: u32) {
        let Some(flow) = self.links.flows.get_mut(&id) else { return };
        let (role, sent_ns) = (flow.role, flow.first_ns);
        flow.enter(Stage::Idle, now);
        self.links.took(now - sent_ns);
        if role == Role::Fresh {
            self.links.close(id);
            return self.path_works(now, sent_ns, true);
        }
        self.path_works(now, sent_ns, false);
        if self.phase == Phase::Starting {
            self.phase = Phase::Searching;
            self.want(now, self.connections - 1);
        }
    }

    fn answered(&mut self, now: u64, id: u32, asked: Asked) {
        let Some(flow) = self.links.flows.get_mut(&id) else { return };
        // The next one is due after this one was sent, not after its echo.
        flow.enter(Stage::Idle, asked.at_ns);
        if let Some(known) = self.known.get_mut(&id) {
            known.alive_ns = asked.at_ns;
        }
        self.path_works(now, asked.at_ns, false);
        if let Some(life) = self.life(id).filter(|life| life.least_ns >= self.settings.up_to_ns) {
            self.judged.push(Judged { id, life });
            self.tell_judged(Some(id), Became::Survived, Some(life), 0);
            self.links.close(id);
        }
    }

    /// What was sent then was answered: whoever was asked before and is silent is so for another reason than the path.
    fn path_works(&mut self, now: u64, sent_ns: u64, is_fresh: bool) {
        self.links.path_works(now, sent_ns, is_fresh, |asked| is_fresh || sent_ns > asked.at_ns);
    }

    pub(super) fn broken(&mut self, now: u64, id: u32, error: &NetError) {
        let (rest, asked) = deaths_of(error);
        self.lost(now, id, rest, asked, Some(error));
    }

    pub(super) fn lost(&mut self, now: u64, id: u32, rest: Death, asked: Death, error: Option<&NetError>) {
        let Some(flow) = self.links.flows.get(&id) else { return };
        let (role, stage) = (flow.role, flow.stage);
        match role {
            Role::Test(_) if matches!(stage, Stage::Opening | Stage::Hello) => {
                self.not_opened(now, id, error);
            }
            Role::Test(_) => {
                let how = if matches!(stage, Stage::Asked(_)) { asked } else { rest };
                // The kernel gave it up after a long silence of the path.
                if how == Death::Silent {
                    self.voids(now, id);
                } else {
                    self.dies(id, now, now, 0, how);
                }
            }
            Role::Report => self.over(self.verdict, None),
            _ => self.fresh_failed(now, id),
        }
    }

    /// It died at this moment, as far as is known, or some time after it was last answered.
    fn dies(&mut self, id: u32, at_ns: u64, most_at_ns: u64, doubt_ns: u64, how: Death) {
        let Some((life, known)) = self.life(id).zip(self.known.get(&id)) else { return };
        let life = super::Life { most_ns: Some(most_at_ns - known.opened_ns), how: Some(how), ..life };
        self.dying.push(Dying { at_ns, doubt_ns, judged: Judged { id, life } });
        self.links.close(id);
    }

    /// Nothing can be said of how it would have gone on: another begins in its place.
    fn voids(&mut self, now: u64, id: u32) {
        if let Some(life) = self.life(id) {
            self.judged.push(Judged { id, life });
            self.tell_judged(Some(id), Became::Void, Some(life), 0);
        }
        self.links.close(id);
        self.want(now, 1);
    }

    /// It could not be opened, or broke before its first echo.
    fn not_opened(&mut self, now: u64, id: u32, error: Option<&NetError>) {
        let Some(flow) = self.links.flows.get(&id) else { return };
        let (role, tries) = (flow.role, flow.tries);
        self.known.remove(&id);
        if self.phase == Phase::Starting {
            self.links.close(id);
            return self.over(Verdict::Failed, Some(self.links.why_not_opened(error)));
        }
        // It was as fresh as one can be.
        self.links.fresh_failed(now, id);
        self.queue.extend(Wanted::again(role, tries, now));
    }

    /// A fresh connection was not answered either: whoever is silent was asked while the path was down.
    fn fresh_failed(&mut self, now: u64, id: u32) {
        self.links.fresh_failed(now, id);
        for (id, _) in self.links.silent(now) {
            self.voids(now, id);
        }
    }

    /// Silences that lasted for too long, and connections that took too long to open.
    pub(super) fn judge_silences(&mut self, now: u64) {
        let due = |flow: &Flow| flow.stage != Stage::Idle && self.due_ns(flow).is_some_and(|at| at <= now);
        for id in self.links.ids(due) {
            let Some(flow) = self.links.flows.get(&id) else { continue };
            match (flow.stage, flow.role) {
                (Stage::Asked(asked), _) if asked.fresh_ns.is_none() => {
                    if self.links.guard.fresh_from_ns().is_some_and(|from| from <= now) {
                        self.links.guard.fresh_begins();
                        self.queue.push_back(Wanted::first(Role::Fresh, now));
                    }
                }
                (Stage::Asked(_), Role::Test(_)) => self.links.look_at_silence(id),
                (_, Role::Report) => self.over(self.verdict, None),
                (_, Role::Fresh) => self.fresh_failed(now, id),
                _ => self.not_opened(now, id, None),
            }
        }
    }
}
