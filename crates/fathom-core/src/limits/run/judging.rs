//! Connections are asked when their length is over, and what becomes of them is taken down.

use super::super::cohort::{Cohort, Died};
use super::super::flow::RTO_NS;
use super::super::io::KernelView;
use super::super::links::Heard;
use super::{
    ACK_DELAY_NS, Asked, Death, Flow, Limits, Pending, Phase, Role, Stage, TICK_NS, Verdict, deaths_of,
};
use crate::probe::NetError;

impl Limits {
    /// Asks the connections whose length is over, and the control connections.
    pub(super) fn ask_due(&mut self, now: u64) {
        let due = |flow: &Flow| flow.stage == Stage::Idle && self.turns_ns(flow).is_some_and(|at| at <= now);
        let due = self.links.ids(due);
        let tests =
            due.iter().any(|id| self.links.flows.get(id).is_some_and(|flow| flow.role != Role::Control));
        let beside = |flow: &Flow| tests && flow.role == Role::Control && flow.stage == Stage::Idle;
        // Beside each, the control connections are asked: was the path up then?
        let beside = self.links.flows.iter().filter(|(id, flow)| beside(flow) && !due.contains(id));
        let due: Vec<u32> = beside.map(|(id, _)| *id).chain(due.iter().copied()).collect();
        for id in due {
            let Some(flow) = self.links.flows.get(&id) else { continue };
            if flow.role == Role::Control {
                self.links.ask(now, id, Asked::new(now, None));
            } else {
                // The idleness goes on.
                self.links.look(id);
            }
        }
    }

    /// The kernel has been asked: now the connection is.
    pub(super) fn looked(&mut self, now: u64, id: u32, view: Option<KernelView>) {
        let Some(flow) = self.links.flows.get(&id) else { return };
        match flow.stage {
            Stage::Looking => {}
            Stage::Asked(asked) if asked.looked => return self.stayed_silent(now, id, asked, view),
            _ => return,
        }
        // Answers to keepalives, or traffic one way, are what is tried then, and end no idleness.
        let traffic = self.settings.keepalive_ns.is_some() || self.settings.one_way.is_some();
        let quiet = view.filter(|_| !traffic);
        let clock_ns = now - flow.since_ns;
        let idle_ns = clock_ns.min(quiet.map_or(u64::MAX, |view| view.quiet_ns));
        // Beyond a late acknowledgement, what was sent again at the beginning made the idleness begin later.
        let asked_ns = clock_ns.min(idle_ns.saturating_add(ACK_DELAY_NS + TICK_NS));
        let rto_ns = view.map(|view| view.rto_ns);
        // What was sent again at the beginning made it shorter, and with traffic the kernel does not tell: once, as of a
        // request that is not answered.
        let again_ns = if self.settings.one_way.is_some() { rto_ns.unwrap_or(RTO_NS) } else { 0 };
        let least_ns = idle_ns.saturating_sub(ACK_DELAY_NS + again_ns);
        self.links.times_out_after(rto_ns);
        self.links.ask(now, id, Asked::new(now, rto_ns).after(asked_ns, least_ns));
    }

    pub(super) fn received(&mut self, now: u64, id: u32, bytes: &[u8]) {
        match self.links.received(id, bytes) {
            Heard::Nothing => {}
            Heard::Opened => self.is_open(now, id),
            Heard::Answered(asked) => self.answered(now, id, asked),
            Heard::Reported => self.over(self.verdict, None),
            Heard::Foreign => {
                let verdict = if self.beginnings == 0 { Verdict::Failed } else { Verdict::Unclear };
                self.finish(now, verdict, Some(self.links.why_foreign()));
            }
        }
    }

    fn answered(&mut self, now: u64, id: u32, asked: Asked) {
        let Some(flow) = self.links.flows.get(&id) else { return };
        let had_traffic = self.had_traffic(flow, asked.least_ns);
        let Some(flow) = self.links.flows.get_mut(&id) else { return };
        match flow.role {
            Role::Test(cohort) if !had_traffic => {
                self.voids(id, cohort);
                self.links.close(id);
            }
            Role::Test(cohort) => {
                self.survives(id, cohort, asked.idle_ns, asked.least_ns);
                self.links.close(id);
            }
            Role::Control => {
                flow.enter(Stage::Idle, now);
                self.links.guard.control_answered(id, asked.at_ns, now);
                self.path_works(now, asked.at_ns, false);
            }
            _ => {}
        }
    }

    /// The first echo came.
    fn is_open(&mut self, now: u64, id: u32) {
        let Some(flow) = self.links.flows.get_mut(&id) else { return };
        let (began_ns, role) = (flow.first_ns, flow.role);
        flow.enter(Stage::Idle, now);
        flow.took_ns = now - began_ns;
        self.links.took(now - began_ns);
        match role {
            Role::Control => {
                self.links.guard.control_answered(id, began_ns, now);
                self.path_works(now, began_ns, false);
                if matches!(self.phase, Phase::Starting(_)) && self.links.guard.are_controls_ready() {
                    self.begin(now);
                }
            }
            Role::Fresh => {
                self.path_works(now, began_ns, true);
                self.links.close(id);
            }
            Role::Test(_) | Role::Reserve(_) => self.ask_for_segments(id, role),
            Role::Report => {}
        }
    }

    pub(super) fn closed(&mut self, now: u64, id: u32) {
        self.lost(now, id, Death::ClosedWhileIdle, Death::ClosedOnRequest, None);
    }

    pub(super) fn broken(&mut self, now: u64, id: u32, error: &NetError) {
        let (idle, asked) = deaths_of(error);
        self.lost(now, id, idle, asked, Some(error));
    }

    fn lost(&mut self, now: u64, id: u32, idle: Death, asked: Death, error: Option<&NetError>) {
        let Some(flow) = self.links.flows.get(&id) else { return };
        let (role, stage, tries, first_ns) = (flow.role, flow.stage, flow.tries, flow.first_ns);
        let idle_ns = if let Stage::Asked(asked) = stage { asked.idle_ns } else { now - flow.since_ns };
        let asked_ns = idle_ns + self.links.seen_late_ns(flow);
        let on_request = matches!(stage, Stage::Asked(_)) || self.answers_segment(flow, now);
        let how = if on_request { asked } else { idle };
        let before = matches!(stage, Stage::Opening | Stage::Hello);
        match role {
            // The kernel gave it up because keepalives stayed unanswered: in an outage too.
            Role::Test(cohort) if stage != Stage::Dead && !before && how == Death::Silent => {
                self.voids(id, cohort);
                self.links.close(id);
            }
            Role::Test(cohort) if stage != Stage::Dead && !before => {
                let died = Died { id, how, asked_ns, most_ns: now - first_ns, doubt_ns: 0 };
                self.pending.push(Pending { cohort, at_ns: now, died });
                self.links.close(id);
            }
            // It waited, and something ended it that it was idle for.
            Role::Reserve(_) if stage == Stage::Idle => {
                self.cohorts.push(Cohort::new(idle_ns, 1));
                let died = Died { id, how, asked_ns, most_ns: now - first_ns, doubt_ns: 0 };
                self.pending.push(Pending { cohort: self.cohorts.len() - 1, at_ns: now, died });
                self.links.close(id);
            }
            Role::Test(_) | Role::Reserve(_) => {
                self.links.close(id);
                if before {
                    self.open_again(now, role, tries);
                }
            }
            Role::Control if before => {
                self.links.close(id);
                self.control_not_opened(now, error);
            }
            Role::Control => self.all_died(now, how),
            Role::Fresh => self.fresh_failed(now, id),
            Role::Report => self.over(self.verdict, None),
        }
    }

    /// Silences that lasted for too long, and connections that took too long to open.
    pub(super) fn judge_silences(&mut self, now: u64) {
        let due = |flow: &Flow| flow.stage != Stage::Idle && self.due_ns(flow).is_some_and(|at| at <= now);
        for id in self.links.ids(due) {
            let Some(flow) = self.links.flows.get(&id) else { continue };
            let (role, tries) = (flow.role, flow.tries);
            match (flow.stage, role) {
                (Stage::Asked(asked), _) if asked.fresh_ns.is_none() => self.want_fresh(now),
                (Stage::Asked(_), Role::Control | Role::Test(_)) => self.links.look_at_silence(id),
                (_, Role::Control) => {
                    self.links.close(id);
                    self.control_not_opened(now, None);
                }
                (_, Role::Fresh) => self.fresh_failed(now, id),
                (_, Role::Report) => self.over(self.verdict, None),
                (_, Role::Test(_) | Role::Reserve(_)) => {
                    self.links.close(id);
                    self.open_again(now, role, tries);
                }
            }
        }
    }

    /// A silence has lasted for too long, and the kernel has said whether the request was acknowledged.
    fn stayed_silent(&mut self, now: u64, id: u32, asked: Asked, view: Option<KernelView>) {
        let how = self.links.death_in_silence(id, view);
        let seen_late_ns = self.links.flows.get(&id).map_or(0, |flow| self.links.seen_late_ns(flow));
        let Some(flow) = self.links.flows.get_mut(&id) else { return };
        let Role::Test(cohort) = flow.role else { return self.all_died(now, how) };
        // Its request may have been lost, and have arrived with the next attempt; more than that is an outage,
        // after which it had been idle for longer than it seems.
        if !self.links.guard.carried(asked.at_ns, asked.rto_ns) {
            self.voids(id, cohort);
            return self.links.close(id);
        }
        let most_ns = asked.at_ns + asked.rto_ns - flow.first_ns;
        flow.stage = Stage::Dead;
        let asked_ns = asked.idle_ns + seen_late_ns;
        let died = Died { id, how, asked_ns, most_ns, doubt_ns: asked.rto_ns };
        self.pending.push(Pending { cohort, at_ns: asked.at_ns, died });
    }

    /// Deaths that the control connections have outlived count.
    pub(super) fn settle(&mut self) {
        let Some(settled_ns) = self.links.guard.settled_ns() else { return };
        let (settled, pending) = self.pending.drain(..).partition(|death| death.at_ns <= settled_ns);
        self.pending = pending;
        let settled: Vec<Pending> = settled;
        for death in settled {
            self.dies(death.cohort, death.died);
        }
    }
}
