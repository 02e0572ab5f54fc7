//! Connections are asked again and again, and what becomes of them is taken down.

use super::super::flow::{Asked, Came, Flow, Role, Stage};
use super::super::io::Output;
use super::super::outcome::Verdict;
use super::run::{AGAIN_NS, Ages, Dying, Judged, Phase, TRIES, Wanted};
use crate::cause::ClosingCause;
use crate::event::{Became, Death, What};
use crate::probe::NetError;
use crate::probe::words::{cause_of, connect_advice};

impl Ages {
    pub(super) fn connected(&mut self, now: u64, id: u32) {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.stage == Stage::Opening) else { return };
        flow.enter(Stage::Hello, now);
        flow.first_ns = now;
        if flow.role == Role::Report {
            return self.ask_reflector(now, id);
        }
        if let Some(known) = self.known.get_mut(&id) {
            (known.began_ns, known.alive_ns) = (Some(now), now);
        }
        self.send(id);
    }

    pub(super) fn ask_due(&mut self, now: u64) {
        let due = |flow: &Flow| flow.stage == Stage::Idle && self.due_ns(flow).is_some_and(|at| at <= now);
        let due: Vec<u32> = self.flows.iter().filter(|(_, flow)| due(flow)).map(|(id, _)| *id).collect();
        for id in due {
            let Some(flow) = self.flows.get_mut(&id) else { continue };
            flow.stage = Stage::Looking;
            self.outputs.push_back(Output::Look { id });
        }
    }

    /// The kernel has been asked: now the connection is.
    pub(super) fn looked(&mut self, now: u64, id: u32, rto_ns: Option<u64>) {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.stage == Stage::Looking) else { return };
        flow.enter(Stage::Asked(Asked::new(now, rto_ns, 0)), now);
        self.send(id);
    }

    pub(super) fn received(&mut self, now: u64, id: u32, bytes: &[u8]) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        if flow.role == Role::Report {
            if self.reported(bytes) {
                self.over(self.verdict, None);
            }
            return;
        }
        match (flow.receive(bytes), flow.stage) {
            (Came::Foreign, _) => {
                let why = "does not send back what it is sent; name the port of `fathom echo`, or of another echo server (RFC 862)";
                let verdict = if self.phase == Phase::Starting { Verdict::Failed } else { Verdict::Unclear };
                self.finish(now, verdict, Some(format!("{} {why}", self.settings.target)));
            }
            (Came::Echo, Stage::Hello) => self.is_open(now, id),
            (Came::Echo, Stage::Asked(asked)) => self.answered(now, id, asked),
            (Came::Part | Came::Echo, _) => {}
        }
    }

    /// The first echo came.
    fn is_open(&mut self, now: u64, id: u32) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let (role, sent_ns) = (flow.role, flow.first_ns);
        flow.enter(Stage::Idle, now);
        if role == Role::Fresh {
            self.close(id);
            return self.path_works(now, sent_ns, true);
        }
        self.path_works(now, sent_ns, false);
        if self.phase == Phase::Starting {
            self.phase = Phase::Searching;
            self.want(now, self.settings.per_length - 1);
        }
    }

    fn answered(&mut self, now: u64, id: u32, asked: Asked) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        // The next one is due after this one was sent, not after its echo.
        flow.enter(Stage::Idle, asked.at_ns);
        if let Some(known) = self.known.get_mut(&id) {
            known.alive_ns = asked.at_ns;
        }
        self.path_works(now, asked.at_ns, false);
        if let Some(life) = self.life(id).filter(|life| life.least_ns >= self.settings.up_to_ns) {
            self.judged.push(Judged { id, life });
            self.tell_judged(id, Became::Survived, life, 0);
            self.close(id);
        }
    }

    /// What was sent then was answered: whoever was asked before and is silent is so for another reason than the path.
    fn path_works(&mut self, now: u64, sent_ns: u64, is_fresh: bool) {
        if let Some(since_ns) = self.guard.answered(sent_ns, is_fresh) {
            self.outage_is_over(now - since_ns);
        }
        for flow in self.flows.values_mut() {
            if let Stage::Asked(asked) = &mut flow.stage
                && (is_fresh || sent_ns > asked.at_ns)
            {
                asked.fresh_ns.get_or_insert(now);
            }
        }
    }

    pub(super) fn broken(&mut self, now: u64, id: u32, error: &NetError) {
        let (rest, asked) = match cause_of(error) {
            ClosingCause::Reset => (Death::ResetWhileIdle, Death::ResetOnRequest),
            ClosingCause::TimedOut => (Death::Silent, Death::Silent),
            _ => (Death::Other, Death::Other),
        };
        self.lost(now, id, rest, asked, Some(error));
    }

    pub(super) fn lost(&mut self, now: u64, id: u32, rest: Death, asked: Death, error: Option<&NetError>) {
        let Some(flow) = self.flows.get(&id) else { return };
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
            _ => {
                self.close(id);
                self.fresh_failed(now);
            }
        }
    }

    /// It died at this moment, as far as is known, or some time after it was last answered.
    fn dies(&mut self, id: u32, at_ns: u64, most_at_ns: u64, doubt_ns: u64, how: Death) {
        let Some((life, known)) = self.life(id).zip(self.known.get(&id)) else { return };
        let life = super::Life { most_ns: Some(most_at_ns - known.opened_ns), how: Some(how), ..life };
        self.dying.push(Dying { at_ns, doubt_ns, judged: Judged { id, life } });
        self.close(id);
    }

    /// Nothing can be said of how it would have gone on: another begins in its place.
    fn voids(&mut self, now: u64, id: u32) {
        if let Some(life) = self.life(id) {
            self.judged.push(Judged { id, life });
            self.tell_judged(id, Became::Void, life, 0);
        }
        self.close(id);
        self.want(now, 1);
    }

    /// It could not be opened, or broke before its first echo.
    fn not_opened(&mut self, now: u64, id: u32, error: Option<&NetError>) {
        let Some(flow) = self.flows.get(&id) else { return };
        let (role, tries) = (flow.role, flow.tries + 1);
        self.close(id);
        self.known.remove(&id);
        if self.phase == Phase::Starting {
            let silent = "takes connections and sends nothing back; name the port of `fathom echo`, or of another echo server (RFC 862)";
            let target = &self.settings.target;
            let why = error
                .map_or_else(|| format!("{target} {silent}"), |error| connect_advice(target, None, error));
            return self.over(Verdict::Failed, Some(why));
        }
        // It was as fresh as one can be.
        if self.guard.fresh_failed(now) {
            self.happened(now, What::Outage { lasted_ns: None });
        }
        if tries < TRIES {
            self.queue.push_back(Wanted { role, not_before_ns: now + AGAIN_NS, tries });
        }
    }

    /// A fresh connection was not answered either: whoever is silent was asked while the path was down.
    fn fresh_failed(&mut self, now: u64) {
        if self.guard.fresh_failed(now) {
            self.happened(now, What::Outage { lasted_ns: None });
        }
        let silent = self.flows.iter().filter_map(|(&id, flow)| match (flow.role, flow.stage) {
            (Role::Test(_), Stage::Asked(asked)) => {
                (asked.fresh_ns.is_none() && asked.doubted_ns() <= now).then_some(id)
            }
            _ => None,
        });
        for id in silent.collect::<Vec<u32>>() {
            self.voids(now, id);
        }
    }

    /// Silences that lasted for too long, and connections that took too long to open.
    pub(super) fn judge_silences(&mut self, now: u64) {
        let due = |flow: &Flow| flow.stage != Stage::Idle && self.due_ns(flow).is_some_and(|at| at <= now);
        let due: Vec<u32> = self.flows.iter().filter(|(_, flow)| due(flow)).map(|(id, _)| *id).collect();
        for id in due {
            let Some(flow) = self.flows.get(&id) else { continue };
            match (flow.stage, flow.role) {
                (Stage::Asked(asked), _) if asked.fresh_ns.is_none() => {
                    if self.guard.fresh_from_ns().is_some_and(|from| from <= now) {
                        self.guard.fresh_begins();
                        self.queue.push_back(Wanted { role: Role::Fresh, not_before_ns: now, tries: 0 });
                    }
                }
                // Its request may have been lost, and have arrived with the next attempt.
                (Stage::Asked(asked), Role::Test(_)) => {
                    self.dies(id, asked.at_ns, asked.at_ns + asked.rto_ns, asked.rto_ns, Death::Silent);
                }
                (_, Role::Report) => self.over(self.verdict, None),
                (_, Role::Fresh) => {
                    self.close(id);
                    self.fresh_failed(now);
                }
                _ => self.not_opened(now, id, None),
            }
        }
    }
}
