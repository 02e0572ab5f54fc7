//! Connections begin, within their rate and number, and say the first thing.

use super::super::flow::{Flow, Role, Stage};
use super::super::guard::CONTROLS;
use super::super::io::Output;
use super::super::plan::{OTHERS, S};
use super::super::settings::OPENINGS_A_SECOND;
use super::{Limits, Phase, Wanted};
use crate::peer_report::PeerReport;

/// A connection that cannot be opened is tried again so many times...
const TRIES: u32 = 5;
/// ...this long after.
const AGAIN_NS: u64 = S;

impl Limits {
    pub(super) fn open_controls(&mut self, now: u64) {
        self.phase = Phase::Starting(now);
        self.urgent = (0..CONTROLS).map(|_| Wanted::urgent(Role::Control, now)).collect();
    }

    /// Places among the cohorts and reserves whose connections are not open yet.
    pub(super) fn want(&mut self, role: Role, times: u32, not_before_ns: u64) {
        self.queue.extend((0..times).map(|_| Wanted { role, not_before_ns, tries: 0 }));
    }

    /// When the next connection is to be opened.
    pub(super) fn opening_ns(&self) -> Option<u64> {
        let urgent = self.urgent.iter().map(|wanted| wanted.not_before_ns).min();
        let room = self.flows.len() + OTHERS <= self.settings.connections.0;
        let queued = self.queue.iter().filter(|_| room).map(|wanted| wanted.not_before_ns).min();
        urgent.into_iter().chain(queued).min().map(|at| at.max(self.next_opening_ns))
    }

    pub(super) fn open_due(&mut self, now: u64) {
        while self.opening_ns().is_some_and(|at| at <= now) {
            let urgent = self.urgent.iter().position(|wanted| wanted.not_before_ns <= now);
            let urgent = urgent.and_then(|at| self.urgent.remove(at));
            let Some(wanted) = urgent.or_else(|| self.next_queued()) else { return };
            self.open(now, wanted);
        }
    }

    /// Of several that are due the first: the shortest length of the ladder.
    fn next_queued(&mut self) -> Option<Wanted> {
        let next = (0..self.queue.len()).min_by_key(|&at| self.queue[at].not_before_ns)?;
        Some(self.queue.remove(next))
    }

    fn open(&mut self, now: u64, wanted: Wanted) {
        let id = self.next_id;
        self.next_id += 1;
        self.opened += 1;
        // A host that comes back from a pause does not make up for it.
        self.next_opening_ns = now + S / u64::from(OPENINGS_A_SECOND);
        let mut flow = Flow::new(wanted.role, self.settings.session, id, now);
        flow.tries = wanted.tries;
        self.flows.insert(id, flow);
        self.outputs.push_back(Output::Open { id });
    }

    pub(super) fn connected(&mut self, now: u64, id: u32) {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.stage == Stage::Opening) else { return };
        flow.enter(Stage::Hello, now);
        flow.first_ns = now;
        if flow.role == Role::Report {
            return self.ask_reflector(now, id);
        }
        self.send(id);
    }

    fn ask_reflector(&mut self, now: u64, id: u32) {
        while let Some(question) = self.inquiry.next_question(now) {
            self.outputs.push_back(Output::Send { id, bytes: question.to_vec() });
        }
    }

    /// Takes what the reflector says; whether that was all.
    pub(super) fn reported(&mut self, bytes: &[u8]) -> bool {
        let mut reports: Vec<PeerReport> = Vec::new();
        let told = self.inquiry.receive(bytes, |_, report| reports.extend(report));
        self.reports.extend(reports);
        told.is_err() || self.inquiry.is_done()
    }

    /// A connection under test could not be opened, or broke before it was idle: another in its place, some times.
    pub(super) fn open_again(&mut self, now: u64, role: Role, tries: u32) {
        if tries + 1 < TRIES {
            return self.queue.push(Wanted { role, not_before_ns: now + AGAIN_NS, tries: tries + 1 });
        }
        if let Role::Test(cohort) = role {
            self.cohorts[cohort].voids();
        }
    }
}

impl Wanted {
    pub(super) fn urgent(role: Role, not_before_ns: u64) -> Self {
        Self { role, not_before_ns, tries: 0 }
    }
}
