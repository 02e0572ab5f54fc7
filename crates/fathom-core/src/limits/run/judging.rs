//! Connections are asked when their length is over, and what becomes of them is taken down.

use super::super::cohort::Died;
use super::{ACK_DELAY_NS, Asked, Came, Death, Flow, Limits, Pending, Phase, Role, Stage, Verdict};
use crate::cause::ClosingCause;
use crate::limits::io::{KernelView, Output};
use crate::probe::NetError;
use crate::probe::words::{cause_of, connect_advice};

impl Limits {
    /// Asks the connections whose length is over, and the control connections.
    pub(super) fn ask_due(&mut self, now: u64) {
        let due = |flow: &Flow| flow.stage == Stage::Idle && self.due_ns(flow).is_some_and(|at| at <= now);
        let due: Vec<u32> = self.flows.iter().filter(|(_, flow)| due(flow)).map(|(id, _)| *id).collect();
        let tests = due.iter().any(|id| self.flows.get(id).is_some_and(|flow| flow.role != Role::Control));
        let beside = |flow: &Flow| tests && flow.role == Role::Control && flow.stage == Stage::Idle;
        // Beside each, the control connections are asked: was the path up then?
        let beside = self.flows.iter().filter(|(id, flow)| beside(flow) && !due.contains(id));
        let due: Vec<u32> = beside.map(|(id, _)| *id).chain(due.iter().copied()).collect();
        for id in due {
            let Some(flow) = self.flows.get_mut(&id) else { continue };
            if flow.role == Role::Control {
                flow.enter(Stage::Asked(Asked::new(now, None, 0)), now);
                self.send(id);
            } else {
                // The idleness goes on: `since` stays.
                flow.stage = Stage::Looking;
                self.outputs.push_back(Output::Look { id });
            }
        }
    }

    /// The kernel has been asked: now the connection is.
    pub(super) fn looked(&mut self, now: u64, id: u32, view: Option<KernelView>) {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.stage == Stage::Looking) else { return };
        // Answers to keepalives are what is tried then, and end no idleness.
        let quiet = view.filter(|_| self.settings.keepalive_ns.is_none());
        let idle_ns = (now - flow.since_ns).min(quiet.map_or(u64::MAX, |view| view.quiet_ns));
        let least_ns = idle_ns.saturating_sub(ACK_DELAY_NS);
        flow.enter(Stage::Asked(Asked::new(now, view.map(|view| view.rto_ns), least_ns)), now);
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
                self.finish(
                    now,
                    if self.beginnings == 0 { Verdict::Failed } else { Verdict::Unclear },
                    Some(format!("{} {why}", self.settings.target)),
                );
            }
            (Came::Echo, Stage::Hello) => self.is_open(now, id),
            (Came::Echo, Stage::Asked(asked)) => self.answered(now, id, asked),
            // A part, or the echo of one that has been judged.
            (Came::Part | Came::Echo, _) => {}
        }
    }

    fn answered(&mut self, now: u64, id: u32, asked: Asked) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        match flow.role {
            Role::Test(cohort) => {
                self.survives(id, cohort, asked.least_ns);
                self.close(id);
            }
            Role::Control => {
                flow.enter(Stage::Idle, now);
                self.guard.control_answered(id, asked.at_ns, now);
                self.path_works(now, asked.at_ns, false);
            }
            _ => {}
        }
    }

    /// The first echo came.
    fn is_open(&mut self, now: u64, id: u32) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let began_ns = flow.first_ns;
        flow.enter(Stage::Idle, now);
        match flow.role {
            Role::Control => {
                self.guard.control_answered(id, began_ns, now);
                self.path_works(now, began_ns, false);
                if matches!(self.phase, Phase::Starting(_)) && self.guard.are_controls_ready() {
                    self.begin(now);
                }
            }
            Role::Fresh => {
                self.path_works(now, began_ns, true);
                self.close(id);
            }
            _ => {}
        }
    }

    pub(super) fn closed(&mut self, now: u64, id: u32) {
        self.lost(now, id, Death::ClosedWhileIdle, Death::ClosedOnRequest, None);
    }

    pub(super) fn broken(&mut self, now: u64, id: u32, error: &NetError) {
        let (idle, asked) = match cause_of(error) {
            ClosingCause::Reset => (Death::ResetWhileIdle, Death::ResetOnRequest),
            ClosingCause::TimedOut => (Death::Silent, Death::Silent),
            _ => (Death::Other, Death::Other),
        };
        self.lost(now, id, idle, asked, Some(error));
    }

    fn lost(&mut self, now: u64, id: u32, idle: Death, asked: Death, error: Option<&NetError>) {
        let Some(flow) = self.flows.get(&id) else { return };
        let (role, stage, tries, first_ns) = (flow.role, flow.stage, flow.tries, flow.first_ns);
        let how = if matches!(stage, Stage::Asked(_)) { asked } else { idle };
        let before = matches!(stage, Stage::Opening | Stage::Hello);
        match role {
            // The kernel gave it up because keepalives stayed unanswered: in an outage too.
            Role::Test(cohort) if stage != Stage::Dead && !before && how == Death::Silent => {
                self.voids(id, cohort);
                self.close(id);
            }
            Role::Test(cohort) if stage != Stage::Dead && !before => {
                let died = Died { id, how, most_ns: now - first_ns, doubt_ns: 0 };
                self.pending.push(Pending { cohort, at_ns: now, died });
                self.close(id);
            }
            Role::Test(_) | Role::Reserve(_) => {
                self.close(id);
                if before {
                    self.open_again(now, role, tries);
                }
            }
            Role::Control if before => {
                self.close(id);
                self.control_not_opened(
                    now,
                    error.map(|error| connect_advice(&self.settings.target, None, error)),
                );
            }
            Role::Control => self.all_died(now, how),
            Role::Fresh => {
                self.close(id);
                self.fresh_failed(now);
            }
            Role::Report => self.over(self.verdict, None),
        }
    }

    /// Silences that lasted for too long, and connections that took too long to open.
    pub(super) fn judge_silences(&mut self, now: u64) {
        let due = |flow: &Flow| flow.stage != Stage::Idle && self.due_ns(flow).is_some_and(|at| at <= now);
        let due: Vec<u32> = self.flows.iter().filter(|(_, flow)| due(flow)).map(|(id, _)| *id).collect();
        for id in due {
            let Some(flow) = self.flows.get_mut(&id) else { continue };
            let (role, tries) = (flow.role, flow.tries);
            match (flow.stage, role) {
                (Stage::Asked(asked), _) if asked.fresh_ns.is_none() => self.want_fresh(now),
                (Stage::Asked(_), Role::Control) => self.all_died(now, Death::Silent),
                (Stage::Asked(asked), Role::Test(cohort)) => {
                    // Its request may have been lost, and have arrived with the next attempt; more than that is an outage,
                    // after which it had been idle for longer than it seems.
                    if !self.guard.carried(asked.at_ns, asked.rto_ns) {
                        self.voids(id, cohort);
                        self.close(id);
                        continue;
                    }
                    let most_ns = asked.at_ns + asked.rto_ns - flow.first_ns;
                    flow.stage = Stage::Dead;
                    let died = Died { id, how: Death::Silent, most_ns, doubt_ns: asked.rto_ns };
                    self.pending.push(Pending { cohort, at_ns: asked.at_ns, died });
                }
                (_, Role::Control) => {
                    self.close(id);
                    self.control_not_opened(now, None);
                }
                (_, Role::Fresh) => {
                    self.close(id);
                    self.fresh_failed(now);
                }
                (_, Role::Report) => self.over(self.verdict, None),
                (_, Role::Test(_) | Role::Reserve(_)) => {
                    self.close(id);
                    self.open_again(now, role, tries);
                }
            }
        }
    }

    /// Deaths that the control connections have outlived count.
    pub(super) fn settle(&mut self) {
        let Some(settled_ns) = self.guard.settled_ns() else { return };
        let (settled, pending) = self.pending.drain(..).partition(|death| death.at_ns <= settled_ns);
        self.pending = pending;
        let settled: Vec<Pending> = settled;
        for death in settled {
            self.dies(death.cohort, death.died);
        }
    }
}
