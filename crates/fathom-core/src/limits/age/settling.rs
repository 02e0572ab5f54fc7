//! Which deaths are of connections by themselves, and whether enough is known.

use super::super::flow::{Role, Stage};
use super::super::outcome::Verdict;
use super::super::why::not_asked_again;
use super::lives::{self, Life};
use super::run::{Ages, Dying, MOST_MOMENTS, Phase};
use crate::event::{Became, What};

/// So many deaths of one moment are no coincidence: connections begin further apart than a moment is long, so an age limit ends
/// two in a moment at the most.
const TOGETHER: usize = 3;

/// So many that ended before they were asked again are no coincidence.
const NOT_ASKED: usize = 3;

impl Ages {
    /// Deaths count when every other connection has been answered a moment later.
    pub(super) fn settle(&mut self, now: u64) {
        if self.phase != Phase::Searching {
            return;
        }
        self.dying.sort_by_key(|dying| dying.at_ns);
        let mut found = false;
        while let Some(first) = self.dying.first().map(|dying| dying.at_ns) {
            let until_ns = first + self.pace.moment_ns;
            if self.seen_until_ns().is_some_and(|seen| seen <= until_ns) || now <= until_ns {
                break;
            }
            let (moment, later) = self.dying.drain(..).partition(|dying| dying.at_ns <= until_ns);
            self.dying = later;
            self.settled(now, moment);
            found = true;
            if self.phase != Phase::Searching {
                return;
            }
        }
        if found && lives::window(&self.lives(), 2 * self.pace.every_ns).is_some() {
            return self.finish(now, Verdict::Found, None);
        }
        if found && self.none_was_asked_again() {
            let most_ns = self.lives().iter().filter_map(|life| life.most_ns).max().unwrap_or(0);
            let why = self.links.target_does(&not_asked_again(most_ns, self.pace.every_ns));
            return self.finish(now, Verdict::Unclear, Some(why));
        }
        let tested = self.links.flows.values().any(|flow| matches!(flow.role, Role::Test(_)));
        let queued = self.queue.iter().any(|wanted| matches!(wanted.role, Role::Test(_)));
        if !tested && !queued && self.dying.is_empty() {
            let lives = self.lives();
            let told = |life: &Life| life.most_ns.is_some() || life.least_ns >= self.settings.up_to_ns;
            if lives.iter().any(told) && self.links.guard.hopeless_ns().is_none() {
                return self.finish(now, Verdict::NotFound, None);
            }
            let why = "too few connections could be judged".to_owned();
            self.finish(now, Verdict::Unclear, Some(why));
        }
    }

    /// Whether connections end before they are asked again: whatever ends them, their age is not known from that.
    fn none_was_asked_again(&self) -> bool {
        let lives = self.lives();
        let died = lives.iter().filter(|life| life.most_ns.is_some()).count();
        died >= NOT_ASKED && lives.iter().all(|life| life.least_ns == 0)
    }

    /// Up to when every connection that is open is known to have lived; `None`: none is open.
    pub(super) fn seen_until_ns(&self) -> Option<u64> {
        let open = self.links.flows.iter().filter(|(_, flow)| {
            matches!(flow.role, Role::Test(_)) && !matches!(flow.stage, Stage::Opening | Stage::Hello)
        });
        open.filter_map(|(id, _)| self.known.get(id)).map(|known| known.alive_ns).min()
    }

    fn settled(&mut self, now: u64, moment: Vec<Dying>) {
        let together = moment.len() >= TOGETHER;
        let connections = moment.len() as u32;
        for Dying { doubt_ns, mut judged, .. } in moment {
            if together {
                // It would have lived on: of its age no more is known than that it was reached.
                (judged.life.most_ns, judged.life.how) = (None, None);
                self.tell_judged(Some(judged.id), Became::Void, Some(judged.life), 0);
            } else {
                self.tell_judged(Some(judged.id), Became::Died, Some(judged.life), doubt_ns);
            }
            self.judged.push(judged);
        }
        if !together {
            return;
        }
        self.links.happened(now, What::DiedTogether { connections });
        self.moments += 1;
        if self.moments > MOST_MOMENTS {
            let why = "connections of different ages died together again and again; find out why first (`fathom probe` explains each)";
            return self.finish(now, Verdict::Unclear, Some(why.to_owned()));
        }
        self.want(now, connections);
    }
}
