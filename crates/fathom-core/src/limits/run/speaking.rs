//! Traffic in one direction, where idle connections are to have it: it is no question, and nobody answers it.
//!
//! Of this side's segments each is sent when it is due; a host that comes back from a pause sends one. Those of the other
//! side are asked for at once, when the idleness begins, because a word in between would be traffic in the other direction.

use super::super::flow::{Flow, Role, Stage};
use super::super::plan::{longest_of, segments};
use super::{Limits, OneWay, Side};

impl Limits {
    /// When this side is to send its next segment.
    pub(super) fn speaks_ns(&self, flow: &Flow) -> Option<u64> {
        let OneWay { every_ns, .. } = self.settings.one_way.filter(|traffic| traffic.from == Side::Here)?;
        let is_idle = flow.stage == Stage::Idle && matches!(flow.role, Role::Test(_) | Role::Reserve(_));
        is_idle.then(|| flow.spoke_ns.unwrap_or(flow.since_ns) + every_ns)
    }

    pub(super) fn speak_due(&mut self, now: u64) {
        for id in self.links.ids(|flow| self.speaks_ns(flow).is_some_and(|at| at <= now)) {
            self.links.say(id, 0, 0);
            if let Some(flow) = self.links.flows.get_mut(&id) {
                flow.spoke_ns = Some(now);
            }
        }
    }

    /// Its idleness begins: the other side is asked for its segments.
    pub(super) fn ask_for_segments(&mut self, id: u32, role: Role) {
        let Some(OneWay { every_ns, from: Side::There }) = self.settings.one_way else { return };
        let length_ns = match role {
            Role::Test(cohort) => self.cohorts[cohort].length_ns,
            Role::Reserve(at) => longest_of(&self.reserves[at]),
            _ => return,
        };
        let segments = segments(length_ns, every_ns);
        if segments > 0 {
            self.links.say(id, segments, every_ns);
        }
    }

    /// Whether a connection had the traffic that it was to have in so long: a reflector that stood still sent none.
    pub(super) fn had_traffic(&self, flow: &Flow, idle_ns: u64) -> bool {
        let Some(OneWay { every_ns, from: Side::There }) = self.settings.one_way else { return true };
        let due = segments(idle_ns, every_ns).min(flow.segments);
        flow.heard * 2 >= due.saturating_sub(1)
    }

    /// Whether what came now is the answer to a segment of this side's.
    pub(super) fn answers_segment(&self, flow: &Flow, now: u64) -> bool {
        flow.spoke_ns.is_some_and(|at| now - at <= self.links.rto_ns)
    }
}
