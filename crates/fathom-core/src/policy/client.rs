//! The application: requests that are due at a rate, whatever becomes of those before (open loop).

mod connections;
mod recovery;
mod tries;

use super::breaker::Breaker;
use super::budget::Budget;
use super::io::{Counts, Input, Outcome, Output};
use super::pool::{Connection, Pool, State};
use super::request::{Request, Stage};
use super::retry::Dice;
use super::settings::{Fallback, Policy};
use super::timers::{Timer, Timers};
use crate::backoff::Backoff;
use crate::cause::ClosingCause;
use crate::event::{Circuit, Ended, EventKind, TryFailed, Why};
use crate::schedule::Schedule;
use recovery::Monitor;
use std::collections::{BTreeMap, VecDeque};

/// An application under a policy.
///
/// Use: `start`, then do what `poll` gives until it gives nothing; wait until `next_wake` or until the network does something,
/// tell that by `handle`, and so on until `is_over`. `next_wake` may change with every `handle`. Time never goes back. What is
/// told of connections that were closed changes nothing.
#[derive(Debug)]
pub struct Client {
    policy: Policy,
    schedule: Schedule,
    counts: Counts,
    requests: BTreeMap<u64, Request>,
    connections: BTreeMap<u32, Connection>,
    /// The first target's, and the fallback's where there is one.
    pools: Vec<Pool>,
    next_id: u32,
    timers: Timers,
    dice: Dice,
    budget: Budget,
    breaker: Option<Breaker>,
    monitor: Option<Monitor>,
    /// Between attempts to have as many connections as the pool should.
    filling: Backoff,
    /// When a request was last answered.
    answered_ns: Option<u64>,
    started: bool,
    stopping: bool,
    outputs: VecDeque<Output>,
}

impl Client {
    /// Of this policy, with requests that are due by this schedule. With the same seed and the same world it does the same.
    pub fn new(policy: Policy, schedule: Schedule, seed: u64) -> Self {
        let mut pools = vec![Pool::new(policy.pool, 0)];
        if let Some(Fallback::Target(_)) = policy.fallback {
            pools.push(Pool::new(policy.pool, policy.pool.max));
        }
        let places = policy.pool.max * pools.len() as u32;
        Self {
            schedule,
            counts: Counts::default(),
            requests: BTreeMap::new(),
            connections: BTreeMap::new(),
            pools,
            next_id: 0,
            timers: Timers::default(),
            dice: Dice::new(seed),
            budget: Budget::new(policy.retry.as_ref().and_then(|retry| retry.budget)),
            breaker: policy.breaker.map(Breaker::new),
            monitor: policy.recovery.map(|rule| Monitor::new(rule, places)),
            // Numbers of its own: from the same seed it would draw those of the dice.
            filling: Backoff::new(!seed),
            answered_ns: None,
            started: false,
            stopping: false,
            outputs: VecDeque::new(),
            policy,
        }
    }

    /// Begins: the pool is filled, and the first request may be due.
    pub fn start(&mut self, now: u64) {
        self.started = true;
        self.fill(now);
        self.handle(now, Input::Wake);
    }

    /// Takes what the world did.
    pub fn handle(&mut self, now: u64, input: Input) {
        match input {
            Input::Wake => {}
            input if self.is_monitors(input) => self.check_heard(now, input),
            Input::Connected { id } => self.connected(now, id),
            Input::Lost { id } => self.lost(now, id),
            Input::Answered { id, ask } => self.answered(now, id, ask),
            Input::Stop => self.stop(now),
            Input::Over => self.over(now),
        }
        // What came in is known by now: an answer at the moment of a timeout is an answer.
        while let Some(timer) = self.timers.take(now) {
            match timer {
                Timer::Request(request) => self.request_waited(now, request),
                Timer::Connection(id) => self.connection_waited(now, id),
                Timer::Pool => self.fill(now),
                Timer::Recovery => self.check_is_due(now),
            }
        }
        while let Some(due_ns) = self.due(now) {
            self.begin(now, due_ns);
        }
        if self.is_idle_for_good() {
            self.close_all();
        }
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When `handle` is to be called at the latest.
    pub fn next_wake(&self) -> Option<u64> {
        let due = self.schedule.next_due_ns().filter(|_| !self.stopping);
        due.into_iter().chain(self.timers.next_ns()).min()
    }

    /// Whether it has ended: no request will be due, each has ended, and no connection is open.
    pub fn is_over(&self) -> bool {
        self.started && self.is_idle_for_good() && self.standing().0 == 0
    }

    /// What became of its requests so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Connections that are open or being opened, and what its breaker does.
    pub fn standing(&self) -> (usize, Option<Circuit>) {
        let checks = usize::from(self.monitor.is_some_and(|monitor| monitor.is_checking()));
        (self.connections.len() + checks, self.breaker.as_ref().map(Breaker::state))
    }

    fn is_idle_for_good(&self) -> bool {
        (self.stopping || self.schedule.is_over()) && self.requests.is_empty()
    }

    fn due(&mut self, now: u64) -> Option<u64> {
        if self.stopping { None } else { self.schedule.take(now) }
    }

    fn stop(&mut self, now: u64) {
        if std::mem::replace(&mut self.stopping, true) {
            self.give_up_all(now);
        }
    }

    fn over(&mut self, now: u64) {
        while let Some(due_ns) = self.due(now) {
            self.falls_due(due_ns);
        }
        self.stopping = true;
        self.give_up_all(now);
    }

    fn give_up_all(&mut self, now: u64) {
        let all: Vec<u64> = self.requests.keys().copied().collect();
        for request in all {
            self.give_up(now, request);
        }
    }
}
