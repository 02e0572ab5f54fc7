//! What has been decided is taken down, and told as events for the recording.

use super::super::cohort::{Cohort, Died};
use super::super::flow::{Role, Stage};
use super::{Became, EventKind, Limits};
use crate::event::{Limit, LimitsBegan};

impl Limits {
    pub(super) fn tell_began(&mut self) {
        let kind = EventKind::LimitsBegan(LimitsBegan {
            limit: Limit::Idle,
            up_to_ns: self.settings.up_to_ns,
            connections: self.settings.per_length,
            keepalive_ns: self.settings.keepalive_ns,
            one_way: self.settings.one_way,
        });
        self.links.tell(None, kind);
    }

    /// What an earlier search judged stands in this one's recording too, which says nothing without it.
    pub(super) fn tell_earlier(&mut self) {
        for at in 0..self.earlier {
            let Cohort { least_ns, ref asked_ns, ref died, void, .. } = self.cohorts[at];
            let (asked_ns, died) = (asked_ns.clone(), died.clone());
            for asked_ns in asked_ns {
                self.tell_judged(None, at, Became::Survived, Some((asked_ns, least_ns)), None);
            }
            for death in died {
                self.tell_judged(None, at, Became::Died, None, Some(death));
            }
            for _ in 0..void {
                self.tell_judged(None, at, Became::Void, None, None);
            }
        }
    }

    pub(super) fn survives(&mut self, id: u32, cohort: usize, asked_ns: u64, least_ns: u64) {
        self.cohorts[cohort].survives(asked_ns, least_ns);
        self.tell_judged(Some(id), cohort, Became::Survived, Some((asked_ns, least_ns)), None);
    }

    pub(super) fn dies(&mut self, cohort: usize, died: Died) {
        self.cohorts[cohort].dies(died);
        self.tell_judged(Some(died.id), cohort, Became::Died, None, Some(died));
    }

    pub(super) fn voids(&mut self, id: u32, cohort: usize) {
        self.cohorts[cohort].voids();
        self.tell_judged(Some(id), cohort, Became::Void, None, None);
    }

    /// Nothing can be said of any connection that is open and has not been judged.
    pub(super) fn tell_all_void(&mut self) {
        let is_open = |id: u32, stage: Stage| {
            stage != Stage::Dead || self.pending.iter().any(|pending| pending.died.id == id)
        };
        let open = self.links.flows.iter().filter_map(|(&id, flow)| match flow.role {
            Role::Test(cohort) if is_open(id, flow.stage) => Some((id, cohort)),
            _ => None,
        });
        // Those that the other end closed are no longer open, and wait to be settled.
        let closed = self.pending.iter().filter(|pending| !self.links.flows.contains_key(&pending.died.id));
        let all: Vec<(u32, usize)> =
            open.chain(closed.map(|pending| (pending.died.id, pending.cohort))).collect();
        for (id, cohort) in all {
            self.tell_judged(Some(id), cohort, Became::Void, None, None);
        }
    }

    fn tell_judged(
        &mut self,
        connection: Option<u32>,
        cohort: usize,
        became: Became,
        lived: Option<(u64, u64)>,
        died: Option<Died>,
    ) {
        let kind = EventKind::LimitsJudged {
            length_ns: self.cohorts[cohort].length_ns,
            became,
            asked_ns: lived.map(|(asked_ns, _)| asked_ns).or(died.map(|died| died.asked_ns)),
            least_ns: lived.map(|(_, least_ns)| least_ns),
            most_ns: died.map(|died| died.most_ns),
            doubt_ns: died.map(|died| died.doubt_ns).filter(|doubt| *doubt > 0),
            how: died.map(|died| died.how),
        };
        self.links.tell(connection, kind);
    }
}
