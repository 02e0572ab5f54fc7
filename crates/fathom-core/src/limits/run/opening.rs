//! Connections begin, within their rate and number, and say the first thing.

use super::super::flow::Role;
use super::super::guard::CONTROLS;
use super::super::plan::{OTHERS, S};
use super::super::settings::OPENINGS_A_SECOND;
use super::{Limits, Phase, Wanted};

impl Limits {
    pub(super) fn open_controls(&mut self, now: u64) {
        self.phase = Phase::Starting(now);
        self.urgent = (0..CONTROLS).map(|_| Wanted::first(Role::Control, now)).collect();
    }

    /// Places among the cohorts and reserves whose connections are not open yet.
    pub(super) fn want(&mut self, role: Role, times: u32, not_before_ns: u64) {
        self.queue.extend((0..times).map(|_| Wanted::first(role, not_before_ns)));
    }

    /// When the next connection is to be opened.
    pub(super) fn opening_ns(&self) -> Option<u64> {
        let urgent = self.urgent.iter().map(|wanted| wanted.not_before_ns).min();
        let room = self.links.flows.len() + OTHERS <= self.settings.connections.0;
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
        // A host that comes back from a pause does not make up for it.
        self.next_opening_ns = now + S / u64::from(OPENINGS_A_SECOND);
        self.links.open(now, wanted);
    }

    /// A connection under test could not be opened, or broke before it was idle: another in its place, some times.
    pub(super) fn open_again(&mut self, now: u64, role: Role, tries: u32) {
        match (Wanted::again(role, tries, now), role) {
            (Some(wanted), _) => self.queue.push(wanted),
            (None, Role::Test(cohort)) => self.cohorts[cohort].voids(),
            (None, _) => {}
        }
    }
}
