//! The search itself.

mod guarding;
mod judging;
mod left;
mod opening;
mod search;
mod speaking;
mod telling;

use super::band;
use super::cohort::{Bracket, Cohort};
use super::flow::{Asked, Flow, OPENED_WITHIN_NS, Role, Stage};
use super::guard::{PATIENCE_NS, control_every_ns};
use super::io::{Input, Output, Progress};
use super::links::{AGAIN_NS, Links, Wanted, deaths_of};
use super::outcome::{Outcome, Verdict};
use super::plan::Reserve;
use super::recorded::Recorded;
use super::settings::Settings;
use super::unanswered::unanswered;
use super::view::Standing;
use crate::event::{Became, Death, EventKind, OneWay, Side, What};
use std::collections::{BTreeMap, VecDeque};

/// An echo may be acknowledged so much later (Linux `TCP_DELACK_MIN`), and the idleness begins with that...
const ACK_DELAY_NS: u64 = 40_000_000;
/// ...and the kernel counts in ticks of so much.
const TICK_NS: u64 = 10_000_000;
/// How often it begins anew after something else ended all connections.
const MOST_BEGINNINGS: u32 = 4;

/// A death that counts once the control connections have outlived it.
#[derive(Debug, Clone, Copy)]
struct Pending {
    cohort: usize,
    at_ns: u64,
    died: super::cohort::Died,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The control connections are being opened, since then.
    Starting(u64),
    Searching,
    /// The reflector is asked about those that died.
    Reporting,
    Over,
}

/// Searches for the idle limit of the path to one target.
///
/// Use: `start`, then do what `poll` gives until it gives nothing; wait until `next_wake` or until the network does something,
/// tell that by `handle`, and so on until `is_over`; then `outcome`. `next_wake` may change with every `handle`. What is told
/// of connections that were closed changes nothing.
#[derive(Debug)]
pub struct Limits {
    settings: Settings,
    phase: Phase,
    links: Links,
    cohorts: Vec<Cohort>,
    reserves: Vec<Reserve>,
    pending: Vec<Pending>,
    /// Connections under test that are to be opened, and others, which go first.
    queue: Vec<Wanted>,
    urgent: VecDeque<Wanted>,
    next_opening_ns: u64,
    beginnings: u32,
    /// Rounds between the two ends of a bracket.
    rounds: u32,
    /// The cohorts from this one on are of those rounds.
    rounds_from: usize,
    /// Rounds at the ends of a band, and the ends in the last round.
    band_rounds: u32,
    band: Option<band::Ends>,
    /// The shorter end of a bracket that was tried at other moments, because connections died below it.
    tried_low_ns: Option<u64>,
    /// Lengths were given up because shorter ones were died of.
    given_up: bool,
    /// So many of the cohorts are of an earlier search.
    earlier: usize,
    verdict: Verdict,
    why: Option<String>,
}

impl Limits {
    /// Of these settings, which have been checked.
    pub fn new(settings: Settings) -> Self {
        Self {
            links: Links::new(&settings),
            settings,
            phase: Phase::Over,
            cohorts: Vec::new(),
            reserves: Vec::new(),
            pending: Vec::new(),
            queue: Vec::new(),
            urgent: VecDeque::new(),
            next_opening_ns: 0,
            beginnings: 0,
            rounds: 0,
            rounds_from: usize::MAX,
            band_rounds: 0,
            band: None,
            tried_low_ns: None,
            given_up: false,
            earlier: 0,
            verdict: Verdict::NotFound,
            why: None,
        }
    }

    /// Goes on where an earlier search for the same limit ended: what that judged is not tried again. Where it judged nothing, this
    /// one begins as any other.
    pub fn resumed(settings: Settings, earlier: &Recorded) -> Self {
        let cohorts = earlier.cohorts();
        Self { earlier: cohorts.len(), cohorts, ..Self::new(settings) }
    }

    /// Begins.
    pub fn start(&mut self, now: u64) {
        self.links.begin(now);
        self.next_opening_ns = now;
        self.tell_began();
        self.tell_earlier();
        self.open_controls(now);
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
            Input::Connected { id } => {
                self.links.connected(now, id);
            }
            Input::Broken { id, error } => self.broken(now, id, &error),
            Input::Closed { id } => self.closed(now, id),
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

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let judged = self.cohorts.iter().map(|cohort| u64::from(cohort.judged())).sum();
        let progress = Progress {
            begun: self.beginnings > 0,
            open: self.links.flows.len(),
            judged,
            left_ns: self.left_ns(),
            ..Progress::default()
        };
        Bracket::of(&self.cohorts).told(progress)
    }

    /// How far the connections of each length are, from the shortest.
    pub fn lengths(&self) -> Vec<Standing> {
        let mut open: BTreeMap<usize, u32> = BTreeMap::new();
        for flow in self.links.flows.values().filter(|flow| flow.stage != Stage::Dead) {
            if let Role::Test(cohort) = flow.role {
                *open.entry(cohort).or_default() += 1;
            }
        }
        let mut all: BTreeMap<u64, Standing> = BTreeMap::new();
        for (at, cohort) in self.cohorts.iter().enumerate() {
            let standing = all.entry(cohort.length_ns).or_default();
            let open = open.get(&at).copied().unwrap_or(0).min(cohort.open);
            standing.length_ns = cohort.length_ns;
            standing.open += open;
            standing.to_open += cohort.open - open;
            standing.survived += cohort.survived;
            standing.died += cohort.died.len() as u32;
            standing.void += cohort.void;
        }
        // Lengths that were given up because shorter ones were died of.
        all.into_values().filter(|s| s.to_open + s.open + s.survived + s.died + s.void > 0).collect()
    }

    /// What it found, so far or in the end.
    pub fn outcome(&self) -> Outcome {
        let found = self.links.told(Outcome::of(&self.cohorts, self.verdict));
        unanswered(Outcome {
            why: self.why.clone().or(found.why),
            confirmed: (found.confirmed || self.is_repeated()) && found.died.is_some(),
            up_to_ns: self.settings.up_to_ns,
            keepalive_ns: self.settings.keepalive_ns,
            one_way: self.settings.one_way,
            ..found
        })
    }

    /// When `handle` is to be called at the latest, if nothing happens. `None`: it is over.
    pub fn next_wake(&self) -> Option<u64> {
        let flows = self.links.flows.values().filter_map(|flow| self.due_ns(flow));
        let hopeless = match self.phase {
            Phase::Over => return None,
            Phase::Starting(since) if self.beginnings > 0 => Some(since + PATIENCE_NS),
            _ => self.links.guard.hopeless_ns(),
        };
        flows.chain(self.opening_ns()).chain(hopeless).min()
    }

    /// When something is due on a connection.
    fn due_ns(&self, flow: &Flow) -> Option<u64> {
        self.speaks_ns(flow).into_iter().chain(self.turns_ns(flow)).min()
    }

    /// When something is to become of a connection.
    fn turns_ns(&self, flow: &Flow) -> Option<u64> {
        match (flow.stage, flow.role) {
            (Stage::Opening | Stage::Hello, _) => Some(flow.since_ns + OPENED_WITHIN_NS),
            (Stage::Idle, Role::Test(cohort)) => {
                Some(flow.since_ns + self.cohorts[cohort].length_ns + ACK_DELAY_NS + TICK_NS)
            }
            (Stage::Idle, Role::Control) => {
                Some(flow.since_ns + control_every_ns(Bracket::of(&self.cohorts).survived_ns()))
            }
            (Stage::Asked(asked), _) => self.links.guard.silence_due_ns(&asked),
            _ => None,
        }
    }

    /// Does what is due.
    fn turn(&mut self, now: u64) {
        self.ask_due(now);
        self.speak_due(now);
        self.judge_silences(now);
        self.give_up_if_hopeless(now);
        self.settle();
        self.search(now);
        self.open_due(now);
        self.links.expected_ns = self.next_wake();
    }

    fn close_all(&mut self) {
        for id in self.links.ids(|_| true) {
            self.links.close(id);
        }
    }

    /// The end, at once.
    fn over(&mut self, verdict: Verdict, why: Option<String>) {
        if self.phase != Phase::Reporting {
            (self.verdict, self.why) = (verdict, why);
        }
        self.close_all();
        self.queue.clear();
        self.urgent.clear();
        self.phase = Phase::Over;
    }
}
