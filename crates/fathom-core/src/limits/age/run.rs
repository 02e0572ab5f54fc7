//! The search itself.

use super::super::flow::{Flow, OPENED_WITHIN_NS, Role, Stage};
use super::super::io::{Input, Output, Progress};
use super::super::links::{Links, Wanted};
use super::super::outcome::{Outcome, Verdict};
use super::super::recorded::Recorded;
use super::super::settings::Settings;
use super::super::unanswered::unanswered;
use super::super::view::Standing;
use super::found::outcome_of;
use super::lives::{self, Life, Noted};
use super::plan::Pace;
use crate::event::{Became, Death, EventKind, Limit, LimitsBegan};
use std::collections::{BTreeMap, VecDeque};

/// How often connections may die together before the search gives up.
pub(super) const MOST_MOMENTS: u32 = 3;

/// What is known of a connection under test.
#[expect(clippy::struct_field_names, reason = "all of them are times, and say so")]
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) opened_ns: u64,
    /// When it was established; `None`: it is not yet.
    pub(super) began_ns: Option<u64>,
    /// When the last request was sent that it answered.
    pub(super) alive_ns: u64,
}

/// A life that is over, and of which connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged {
    pub(super) id: u32,
    pub(super) life: Life,
}

/// A death that counts once it is known that the others did not die with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dying {
    pub(super) at_ns: u64,
    pub(super) doubt_ns: u64,
    pub(super) judged: Judged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first connection is being opened.
    Starting,
    Searching,
    /// The reflector is asked about those that died.
    Reporting,
    Over,
}

/// Searches for the age limit of the path to one target. It is used as [`super::super::Limits`] is.
#[derive(Debug)]
pub struct Ages {
    pub(super) settings: Settings,
    pub(super) pace: Pace,
    pub(super) phase: Phase,
    pub(super) links: Links,
    pub(super) known: BTreeMap<u32, Known>,
    /// Beginnings so far: each has its distance to the one before.
    beginnings: u64,
    last_beginning_ns: u64,
    pub(super) queue: VecDeque<Wanted>,
    pub(super) dying: Vec<Dying>,
    /// Lives that are over, but for those that ended together with others.
    pub(super) judged: Vec<Judged>,
    pub(super) noted: Noted,
    /// Those that an earlier search saw.
    earlier: Vec<Life>,
    /// Connections that are to be seen.
    pub(super) connections: u32,
    pub(super) moments: u32,
    pub(super) verdict: Verdict,
    why: Option<String>,
}

impl Ages {
    /// Of these settings: `per_length` is the number of connections.
    pub fn new(settings: Settings) -> Self {
        Self {
            connections: settings.per_length,
            links: Links::new(&settings),
            pace: Pace::of(settings.up_to_ns),
            settings,
            phase: Phase::Over,
            known: BTreeMap::new(),
            beginnings: 0,
            last_beginning_ns: 0,
            queue: VecDeque::new(),
            dying: Vec::new(),
            judged: Vec::new(),
            noted: Noted::default(),
            earlier: Vec::new(),
            moments: 0,
            verdict: Verdict::NotFound,
            why: None,
        }
    }

    /// Goes on where an earlier search for the same limit ended: what that saw counts. Where it judged nothing, this
    /// one begins as any other.
    pub fn resumed(settings: Settings, earlier: &Recorded) -> Self {
        let earlier = earlier.lives();
        let told = |life: &&Life| life.most_ns.is_some() || life.least_ns >= settings.up_to_ns;
        let told = earlier.iter().filter(told).count() as u32;
        let connections = settings.per_length.saturating_sub(told).max(1);
        Self { earlier, connections, ..Self::new(settings) }
    }

    /// Begins.
    pub fn start(&mut self, now: u64) {
        self.links.begin(now);
        self.last_beginning_ns = now;
        self.phase = Phase::Starting;
        let kind = EventKind::LimitsBegan(LimitsBegan {
            limit: Limit::Age,
            up_to_ns: self.settings.up_to_ns,
            connections: self.settings.per_length,
            keepalive_ns: None,
            one_way: None,
        });
        self.links.tell(None, kind);
        // What an earlier search saw stands in this one's recording too, which says nothing without it.
        for life in self.earlier.clone() {
            let became = match life.most_ns {
                Some(_) => Became::Died,
                None if life.least_ns >= self.settings.up_to_ns => Became::Survived,
                None => Became::Void,
            };
            self.tell_judged(None, became, Some(life), 0);
        }
        self.queue.push_back(Wanted::first(Role::Test(0), now));
        self.turn(now);
    }

    /// Takes what the world did.
    pub fn handle(&mut self, now: u64, input: Input<'_>) {
        if self.phase == Phase::Over {
            return;
        }
        self.links.now_is(now);
        match input {
            Input::Wake => {}
            Input::Connected { id } => self.connected(now, id),
            Input::Broken { id, error } => self.broken(now, id, &error),
            Input::Closed { id } => self.lost(now, id, Death::ClosedWhileIdle, Death::ClosedOnRequest, None),
            Input::Received { id, bytes } => self.received(now, id, bytes),
            Input::Kernel { id, view } => self.looked(now, id, view),
            Input::Stop => self.over(Verdict::Stopped, None),
        }
        self.turn(now);
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Output> {
        self.links.poll()
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// When `handle` is to be called at the latest, if nothing happens. `None`: it is over.
    pub fn next_wake(&self) -> Option<u64> {
        if self.phase == Phase::Over {
            return None;
        }
        let flows = self.links.flows.values().filter_map(|flow| self.due_ns(flow));
        let queued = self.queue.iter().map(|wanted| wanted.not_before_ns);
        // Where no other connection will be answered, deaths count when their moment is over.
        let alone = self.seen_until_ns().is_none();
        let settles = self.dying.iter().filter(|_| alone).map(|dying| dying.at_ns + self.pace.moment_ns + 1);
        flows.chain(queued).chain(settles).chain(self.links.guard.hopeless_ns()).chain(self.notes_ns()).min()
    }

    /// When something is due on a connection.
    pub(super) fn due_ns(&self, flow: &Flow) -> Option<u64> {
        match flow.stage {
            Stage::Opening | Stage::Hello => Some(flow.since_ns + OPENED_WITHIN_NS),
            Stage::Idle => Some(flow.since_ns + self.pace.every_ns),
            Stage::Asked(asked) => self.links.guard.silence_due_ns(&asked),
            Stage::Looking | Stage::Dead => None,
        }
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let lives = self.lives();
        let bound = lives::survived(&lives, self.settings.up_to_ns);
        let window = lives::window(&lives, 2 * self.pace.every_ns);
        let open = self.links.flows.keys().filter_map(|id| self.known.get(id)).map(|known| known.opened_ns);
        let to_come = self.queue.iter().map(|wanted| wanted.not_before_ns);
        let begun_ns = open.chain(to_come).max().map(|at| at.saturating_add(self.settings.up_to_ns));
        // The last request of the last one, what became of it, and whether others died at the same moment.
        let judged_ns = self.links.hello_ns() + self.links.judged_within_ns();
        let settled_ns = 2 * self.pace.every_ns + self.pace.moment_ns + judged_ns;
        let last_ns =
            begun_ns.unwrap_or(self.links.now_ns).saturating_add(settled_ns + self.links.hello_ns());
        Progress {
            limit: Limit::Age,
            begun: self.phase != Phase::Starting && self.beginnings > 0,
            open: self.links.flows.len(),
            judged: self.judged.len() as u64,
            survived_ns: bound.map_or(0, |(age, ..)| age),
            died_ns: window.map(|window| window.bounds(&lives).1.0),
            left_ns: last_ns.saturating_sub(self.links.now_ns),
        }
    }

    /// There are no lengths to look at: all connections are to become equally old.
    pub fn lengths(&self) -> Vec<Standing> {
        Vec::new()
    }

    /// What it found, so far or in the end.
    pub fn outcome(&self) -> Outcome {
        let found = outcome_of(&self.lives(), self.settings.up_to_ns, self.verdict);
        let why = self.why.clone().or_else(|| found.why.clone());
        unanswered(Outcome { why, ..self.links.told(found) })
    }

    /// Of all connections but those that died together with others, in the order in which they began.
    pub(super) fn lives(&self) -> Vec<Life> {
        let open = self.links.flows.iter().filter(|(_, flow)| matches!(flow.role, Role::Test(_)));
        let open = open.filter_map(|(id, _)| self.life(*id));
        let judged = self.judged.iter().map(|judged| judged.life);
        let mut lives: Vec<Life> = self.earlier.iter().copied().chain(judged).chain(open).collect();
        lives.sort_by_key(|life| life.began_after_ns);
        lives
    }

    /// Of a connection that lives.
    pub(super) fn life(&self, id: u32) -> Option<Life> {
        let known = self.known.get(&id)?;
        let began_ns = known.began_ns?;
        Some(Life {
            began_after_ns: began_ns - self.links.began_ns,
            least_ns: known.alive_ns.saturating_sub(began_ns),
            most_ns: None,
            how: None,
        })
    }

    /// Does what is due.
    fn turn(&mut self, now: u64) {
        self.ask_due(now);
        self.judge_silences(now);
        if self.phase == Phase::Searching && self.links.guard.hopeless_ns().is_some_and(|at| at <= now) {
            self.finish(now, Verdict::Unclear, Some(self.links.why_hopeless()));
        }
        self.settle(now);
        self.open_due(now);
        self.note_lives(now);
        self.links.expected_ns = self.next_wake();
    }

    /// So many connections begin, one after the other.
    pub(super) fn want(&mut self, now: u64, connections: u32) {
        for _ in 0..connections {
            self.beginnings += 1;
            let apart_ns = self.pace.apart_ns(self.settings.session, self.beginnings);
            self.last_beginning_ns = self.last_beginning_ns.max(now) + apart_ns;
            self.queue.push_back(Wanted::first(Role::Test(0), self.last_beginning_ns));
        }
    }

    fn open_due(&mut self, now: u64) {
        self.hurry(now);
        while let Some(at) = self.queue.iter().position(|wanted| wanted.not_before_ns <= now) {
            let Some(wanted) = self.queue.remove(at) else { return };
            let id = self.links.open(now, wanted);
            if let Role::Test(_) = wanted.role {
                self.known.insert(id, Known { opened_ns: now, began_ns: None, alive_ns: now });
            }
        }
    }

    /// Where no connection is open the next begins now, and the others as long after it as they were to.
    fn hurry(&mut self, now: u64) {
        let tests = || self.queue.iter().filter(|wanted| matches!(wanted.role, Role::Test(_)));
        let Some(next_ns) = tests().map(|wanted| wanted.not_before_ns).min().filter(|at| *at > now) else {
            return;
        };
        if self.phase != Phase::Searching || !self.links.flows.is_empty() || !self.dying.is_empty() {
            return;
        }
        let sooner_ns = next_ns - now;
        self.queue.iter_mut().for_each(|wanted| wanted.not_before_ns -= sooner_ns);
        self.last_beginning_ns -= sooner_ns;
    }

    pub(super) fn tell_judged(
        &mut self,
        connection: Option<u32>,
        became: Became,
        life: Option<Life>,
        doubt_ns: u64,
    ) {
        let kind = EventKind::LimitsJudged {
            length_ns: self.settings.up_to_ns,
            became,
            asked_ns: None,
            least_ns: life.map(|life| life.least_ns),
            most_ns: life.and_then(|life| life.most_ns),
            doubt_ns: (doubt_ns > 0).then_some(doubt_ns),
            how: life.and_then(|life| life.how),
        };
        self.links.tell(connection, kind);
    }

    /// Enough is known. The reflector is asked about those that died of their age.
    pub(super) fn finish(&mut self, now: u64, verdict: Verdict, why: Option<String>) {
        (self.verdict, self.why) = (verdict, why.clone());
        if verdict != Verdict::Found {
            return self.over(verdict, why);
        }
        let died = self.judged.iter().rev().filter(|judged| judged.life.most_ns.is_some());
        self.links.inquire(died.map(|judged| judged.id));
        self.close_all();
        self.phase = Phase::Reporting;
        self.queue.push_back(Wanted::first(Role::Report, now));
    }

    /// Those that live are as old as they were last seen.
    fn close_all(&mut self) {
        for id in self.links.ids(|_| true) {
            let tested = self
                .links
                .flows
                .get(&id)
                .is_some_and(|flow| matches!(flow.role, Role::Test(_)) && flow.stage != Stage::Dead);
            if let Some(life) = self.life(id).filter(|_| tested) {
                self.judged.push(Judged { id, life });
                self.tell_judged(Some(id), Became::Void, Some(life), 0);
            }
            self.links.close(id);
        }
        self.queue.clear();
        // Whether others died with these will not be known.
        for Dying { judged, .. } in std::mem::take(&mut self.dying) {
            self.tell_judged(Some(judged.id), Became::Void, None, 0);
        }
    }

    /// The end, at once.
    pub(super) fn over(&mut self, verdict: Verdict, why: Option<String>) {
        if self.phase != Phase::Reporting {
            (self.verdict, self.why) = (verdict, why);
        }
        self.close_all();
        self.phase = Phase::Over;
    }
}
