//! How old the connections in use have become: a search that is killed before any of them died knows that.

use super::super::flow::Role;
use super::super::plan::S;
use super::lives::Noted;
use super::run::{Ages, Phase};
use crate::event::{EventKind, Lived};
use std::collections::BTreeMap;

/// A long search tells no more often than this, so that its recording stays small: up to two hours it is once a second.
const TIMES: u64 = 7_200;

impl Ages {
    /// When it is to be told again.
    pub(super) fn notes_ns(&self) -> Option<u64> {
        let every_ns = S.max(self.settings.up_to_ns / TIMES);
        (self.phase == Phase::Searching).then_some(self.noted.at_ns.max(self.links.began_ns) + every_ns)
    }

    pub(super) fn note_lives(&mut self, now: u64) {
        if self.notes_ns().is_none_or(|at| at > now) {
            return;
        }
        let open = self.links.flows.iter().filter(|(_, flow)| matches!(flow.role, Role::Test(_)));
        let open = open.filter_map(|(&id, _)| Some((id, self.life(id)?.least_ns)));
        let lives: BTreeMap<u32, u64> = open.collect();
        let older = |(id, least_ns): &(&u32, &u64)| self.noted.lives.get(id) != Some(least_ns);
        let lives_told = lives.iter().filter(older);
        let told: Vec<Lived> =
            lives_told.map(|(&connection, &least_ns)| Lived { connection, least_ns }).collect();
        self.noted = Noted { lives, at_ns: now };
        if !told.is_empty() {
            self.links.tell(None, EventKind::LimitsLived { lives: told });
        }
    }
}
