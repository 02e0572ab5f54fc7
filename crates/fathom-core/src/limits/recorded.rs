//! What the events of a search's recording amount to: of a search that ended its result, of another what is known so far.

use super::age::{Life, outcome_of};
use super::cohort::{Cohort, Died};
use super::outcome::{Meanwhile, Outcome, Verdict};
use super::settings::Settings;
use super::unanswered::unanswered;
use super::words::one_way;
use crate::event::{Became, Death, Event, EventKind, Limit, Lived, OneWay, Side, What};
use crate::text::count;
use crate::units::{duration_compact, duration_text as duration};
use std::collections::BTreeMap;

/// Takes the events of a recording one after the other; [`Recorded::outcome`] then says what they amount to.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    limit: Limit,
    up_to_ns: u64,
    /// Connections of each length: one of which not all were judged says nothing.
    connections: u32,
    keepalive_ns: Option<u64>,
    one_way: Option<OneWay>,
    cohorts: Vec<Cohort>,
    lives: Vec<Life>,
    /// Connections in use that lived when it was last told.
    open: BTreeMap<u32, Life>,
    meanwhile: Vec<Meanwhile>,
    first_ns: Option<u64>,
    last_ns: u64,
    judged: u64,
    ended: Option<Box<Outcome>>,
}

impl Recorded {
    /// Takes note of an event.
    pub fn event(&mut self, event: &Event) {
        let first_ns = *self.first_ns.get_or_insert(event.mono_ns);
        self.last_ns = self.last_ns.max(event.mono_ns);
        match &event.kind {
            EventKind::LimitsBegan(began) => {
                (self.limit, self.up_to_ns, self.one_way) = (began.limit, began.up_to_ns, began.one_way);
                (self.connections, self.keepalive_ns) = (began.connections, began.keepalive_ns);
            }
            EventKind::LimitsJudged { length_ns, became, asked_ns, least_ns, most_ns, doubt_ns, how } => {
                self.judged += 1;
                if self.limit == Limit::Age {
                    event.connection.map(|id| self.open.remove(&id));
                    let (Some(least_ns), most_ns, how) = (*least_ns, *most_ns, *how) else { return };
                    // When it began is known from when it was last answered, or died, roughly; nothing is concluded from it.
                    let lived_ns = most_ns.unwrap_or(least_ns);
                    let began_after_ns = event.mono_ns.saturating_sub(first_ns).saturating_sub(lived_ns);
                    return self.lives.push(Life { began_after_ns, least_ns, most_ns, how });
                }
                let cohort = self.cohort(*length_ns);
                cohort.open = cohort.open.max(1);
                // Older recordings do not say when it was asked: when it was to be.
                let asked_ns = asked_ns.unwrap_or(*length_ns);
                match (became, least_ns, most_ns) {
                    (Became::Survived, Some(least_ns), _) => cohort.survives(asked_ns, *least_ns),
                    (Became::Died, _, Some(most_ns)) => cohort.dies(Died {
                        id: event.connection.unwrap_or(0),
                        how: how.unwrap_or(Death::Other),
                        asked_ns,
                        most_ns: *most_ns,
                        doubt_ns: doubt_ns.unwrap_or(0),
                    }),
                    _ => cohort.voids(),
                }
            }
            EventKind::LimitsLived { lives } => {
                let after_ns = event.mono_ns.saturating_sub(first_ns);
                for Lived { connection, least_ns } in lives {
                    let began_after_ns = after_ns.saturating_sub(*least_ns);
                    let life = Life { began_after_ns, least_ns: *least_ns, most_ns: None, how: None };
                    self.open.insert(*connection, life);
                }
            }
            EventKind::LimitsHappened { what } => {
                let over = matches!(what, What::Outage { lasted_ns: Some(_), .. });
                let begun = |happened: &&mut Meanwhile| over && happened.what.is_outage_that_goes_on();
                let outage = self.meanwhile.iter_mut().find(begun);
                if let Some(outage) = outage {
                    outage.what = what.clone();
                } else {
                    let after_ns = event.mono_ns.saturating_sub(first_ns).saturating_sub(what.began_ago_ns());
                    self.meanwhile.push(Meanwhile { after_ns, what: what.clone() });
                }
            }
            EventKind::LimitsEnded { result } => {
                self.ended = serde_json::from_value(result.clone()).ok().map(Box::new);
            }
            _ => {}
        }
    }

    fn cohort(&mut self, length_ns: u64) -> &mut Cohort {
        let at = self.cohorts.iter().position(|cohort| cohort.length_ns == length_ns);
        let at = at.unwrap_or_else(|| {
            self.cohorts.push(Cohort::new(length_ns, self.connections));
            self.cohorts.len() - 1
        });
        &mut self.cohorts[at]
    }

    /// Which limit was searched for.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// How often the kernel sent keepalives, in ns. `None`: it sent none.
    pub fn keepalive_ns(&self) -> Option<u64> {
        self.keepalive_ns
    }

    /// Connections that were judged.
    pub fn judged(&self) -> u64 {
        self.judged
    }

    /// Whether all is known that the search was for.
    pub fn is_settled(&self) -> bool {
        let settled = |outcome: &Outcome| matches!(outcome.verdict, Verdict::Found | Verdict::NotFound);
        self.ended.as_deref().is_some_and(settled)
    }

    /// Why a search for `limit` with these settings cannot go on from here; `None`: it can. `target` is what this one was of.
    pub fn why_not(&self, target: &str, limit: Limit, settings: &Settings) -> Option<String> {
        if self.known() == 0 {
            return Some("it holds nothing that a search for limits knew; leave out --resume".to_owned());
        }
        if self.is_settled() {
            return Some("its search came to its end; see it with `fathom recording summary`".to_owned());
        }
        if target != settings.target {
            return Some(format!("it was a search of {target}, not of {}", settings.target));
        }
        match (self.limit, limit) {
            (Limit::Age, Limit::Idle) => {
                return Some("it was a search for the age limit; give --age too".to_owned());
            }
            (Limit::Idle, Limit::Age) => {
                return Some("it was a search for the idle limit; leave out --age".to_owned());
            }
            _ => {}
        }
        if self.keepalive_ns != settings.keepalive_ns {
            return Some(self.keepalive_ns.map_or_else(
                || "it sent no keepalives; leave out --keepalive".to_owned(),
                |ns| format!("it sent keepalives; give --keepalive {} too", duration(ns)),
            ));
        }
        if self.one_way != settings.one_way {
            return Some(self.one_way.map_or_else(
                || "its connections had no traffic one way; leave out --one-way".to_owned(),
                |traffic| format!("its connections had {}; give {} too", one_way(traffic), options(traffic)),
            ));
        }
        let survived = self.outcome()?.survived.filter(|end| end.idle_ns >= settings.up_to_ns)?;
        let (lived, up_to) = (duration(survived.idle_ns), duration_compact(settings.up_to_ns));
        Some(format!("its connections survived {lived} already, and --up-to is {up_to}; give more"))
    }

    /// The connections of each length. Nothing can be said of those that were open when it broke off.
    pub(super) fn cohorts(&self) -> Vec<Cohort> {
        let mut cohorts = self.cohorts.clone();
        for cohort in &mut cohorts {
            cohort.void += std::mem::take(&mut cohort.open);
        }
        cohorts
    }

    /// Of those that were in use when it broke off it is known how old they had become.
    pub(super) fn lives(&self) -> Vec<Life> {
        self.lives.iter().chain(self.open.values()).copied().collect()
    }

    /// Connections of which something is known.
    pub fn known(&self) -> u64 {
        self.judged + self.open.len() as u64
    }

    /// What a search that goes on knows from this one.
    pub fn in_words(&self) -> String {
        let judged = count(self.judged, "connection");
        match self.open.len() as u64 {
            0 => format!("{judged} judged"),
            open => format!("{judged} judged, {} in use", count(open, "connection")),
        }
    }

    /// What it amounts to. `None`: no search is recorded here.
    pub fn outcome(&self) -> Option<Outcome> {
        if let Some(ended) = &self.ended {
            return Some((**ended).clone());
        }
        let known = match self.limit {
            Limit::Idle => Outcome::of(&self.cohorts, Verdict::Stopped),
            Limit::Age => outcome_of(&self.lives(), self.up_to_ns, Verdict::Stopped),
        };
        (self.known() > 0).then(|| {
            unanswered(Outcome {
                limit: self.limit,
                up_to_ns: self.up_to_ns,
                keepalive_ns: self.keepalive_ns,
                one_way: self.one_way,
                meanwhile: self.meanwhile.clone(),
                took_ns: self.last_ns.saturating_sub(self.first_ns.unwrap_or(0)),
                ..known
            })
        })
    }
}

/// How it is asked for.
fn options(traffic: OneWay) -> String {
    let every = duration_compact(traffic.every_ns);
    match traffic.from {
        Side::Here => format!("--one-way {every}"),
        Side::There => format!("--one-way {every} --one-way-from there"),
    }
}
