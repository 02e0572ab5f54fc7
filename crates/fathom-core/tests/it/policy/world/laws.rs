//! The laws, checked from what went in and came out alone: nothing of the client is looked at but its counts.

use fathom_core::cause::ClosingCause;
use fathom_core::event::{EventKind, TryFailed};
use fathom_core::policy::{BudgetRule, Circuit, Counts, Fallback, Input, Jitter, Outcome, Output, Policy};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000 * MS;

#[derive(Debug, Clone, Copy)]
struct Link {
    target: usize,
    place: u32,
    connected_ns: Option<u64>,
    /// What is out on it.
    out: Option<(u64, Option<u64>)>,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Laws {
    rules: Policy,
    interval_ns: u64,
    requests: u64,
    now: u64,
    links: BTreeMap<u32, Link>,
    sends: BTreeMap<u64, u32>,
    answered: BTreeSet<u64>,
    ended: BTreeMap<u64, Outcome>,
    sums: Counts,
    retries: BTreeMap<u64, (u32, u64)>,
    retried: u64,
    /// Of the throttle, exact in thousandths.
    tokens: i64,
    circuit: Circuit,
    opened_ns: u64,
    /// Requests that were due while the breaker was open.
    barred: BTreeSet<u64>,
    /// Those of this moment: it may be the one in which the target is found to be back.
    barred_now: std::ops::Range<u64>,
    /// Checks of the recovery monitor that were answered since the breaker opened or one failed.
    back: u32,
    /// Until when its monitor rests.
    rests_ns: u64,
    seen_due: u64,
    stopped: bool,
    pub(crate) transitions: Vec<(Circuit, Circuit)>,
    pub(crate) most_open: usize,
    /// Connections that were begun.
    pub(crate) begun: u64,
    /// Connections while the last request was under way.
    pub(crate) open_before_the_end: usize,
}

fn law(name: &str, holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{name}: {}", why())) }
}

impl Laws {
    pub(crate) fn new(rules: Policy, interval_ns: u64, requests: u64) -> Self {
        let tokens = match rules.retry.as_ref().and_then(|retry| retry.budget) {
            Some(BudgetRule::Throttle { tokens, .. }) => i64::from(tokens) * 1_000,
            _ => 0,
        };
        Self {
            rules,
            interval_ns,
            requests,
            now: 0,
            links: BTreeMap::new(),
            sends: BTreeMap::new(),
            answered: BTreeSet::new(),
            ended: BTreeMap::new(),
            sums: Counts::default(),
            retries: BTreeMap::new(),
            retried: 0,
            tokens,
            circuit: Circuit::Closed,
            opened_ns: 0,
            barred: BTreeSet::new(),
            barred_now: 0..0,
            back: 0,
            rests_ns: 0,
            seen_due: 0,
            stopped: false,
            transitions: Vec::new(),
            most_open: 0,
            begun: 0,
            open_before_the_end: 0,
        }
    }

    pub(crate) fn was_sent(&self, request: u64) -> bool {
        self.sends.contains_key(&request)
    }

    fn due_by(&self, now: u64) -> u64 {
        (now / self.interval_ns + 1).min(self.requests)
    }

    fn due_ns(&self, request: u64) -> u64 {
        request * self.interval_ns
    }

    /// Time has come to this moment, and nothing has been done in it yet.
    pub(crate) fn begins(&mut self, now: u64) {
        self.now = now;
        let open_ns = self.rules.breaker.map_or(0, |breaker| breaker.open_ns);
        let due = self.due_by(now);
        self.barred_now = 0..0;
        if self.circuit == Circuit::Open && now < self.opened_ns + open_ns && !self.stopped {
            self.barred_now = self.seen_due..due;
            self.barred.extend(self.barred_now.clone());
        }
        self.seen_due = due;
    }

    pub(crate) fn stopped(&mut self) {
        self.stopped = true;
    }

    pub(crate) fn input(&mut self, input: Input) {
        match input {
            Input::Connected { id } => {
                if let Some(link) = self.links.get_mut(&id) {
                    link.connected_ns = Some(self.now);
                }
            }
            Input::Answered { id, ask } => {
                let monitors = self.monitors();
                if let Some(link) = self.links.get_mut(&id)
                    && let Some((asked, request)) = link.out
                {
                    // Another answer than was asked for: the client closes it.
                    if asked == ask {
                        link.out = None;
                        self.answered.extend(request);
                        self.back += u32::from(monitors == Some(link.place));
                    }
                }
            }
            Input::Lost { id } => {
                if let Some(link) = self.links.remove(&id) {
                    self.check_over(link, false);
                }
            }
            Input::Wake | Input::Stop | Input::Over => {}
        }
    }

    pub(crate) fn output(&mut self, now: u64, output: &Output) -> Result<(), String> {
        match output {
            Output::Open { id, target, place } => self.opens(*id, *target, *place),
            Output::Send { id, ask, request } => self.sends(now, *id, *ask, *request),
            Output::Close { id, cause } => self.closes(now, *id, *cause),
            Output::Ended { request, outcome } => self.ends(*request, *outcome),
            Output::Event(EventKind::TryFailed(failed)) => self.fails(now, failed),
            Output::Event(EventKind::BreakerChanged(changed)) => self.switches(now, changed.from, changed.to),
            Output::Event(_) => Ok(()),
        }
    }

    /// The recovery monitor's place: behind those of the pools.
    pub(crate) fn monitors(&self) -> Option<u32> {
        let pools = if let Some(Fallback::Target(_)) = self.rules.fallback { 2 } else { 1 };
        self.rules.recovery.map(|_| pools * self.rules.pool.max)
    }

    fn opens(&mut self, id: u32, target: usize, place: u32) -> Result<(), String> {
        self.begun += 1;
        let monitors = self.monitors();
        let is_check = |place: u32| Some(place) == monitors;
        let others = || self.links.values().filter(|link| is_check(link.place) == is_check(place));
        if is_check(place) {
            let may = self.circuit == Circuit::Open && target == 0;
            law("a recovery monitor asks while the breaker is open", may, || format!("{:?}", self.circuit))?;
            let rested = self.now >= self.rests_ns;
            law("a recovery monitor rests between its checks", rested, || format!("at {}", self.now))?;
            law("a recovery monitor has one check", others().count() == 0, || place.to_string())?;
        }
        let others = || others().filter(|link| link.target == target);
        law("a pool never exceeds its maximum", others().count() < self.rules.pool.max as usize, || {
            format!("{} are open to target {target}", others().count())
        })?;
        law("a place has one connection", others().all(|link| link.place != place), || place.to_string())?;
        let link = Link { target, place, connected_ns: None, out: None };
        law("a number is given once", self.links.insert(id, link).is_none(), || id.to_string())
    }

    fn sends(&mut self, now: u64, id: u32, ask: u64, request: Option<(u64, u64)>) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&id) else { return Err(format!("sent on nothing: {id}")) };
        let Some(connected_ns) = link.connected_ns else {
            return Err(format!("sent before connected: {id}"));
        };
        law("one at a time on a connection", link.out.is_none(), || format!("{id}: {:?}", link.out))?;
        link.out = Some((ask, request.map(|(request, _)| request)));
        let target = link.target;
        let Some((request, due_ns)) = request else { return Ok(()) };
        let old = self.rules.age.is_some_and(|age| now >= connected_ns + age.at_most_ns);
        law("nothing is sent on a connection that is too old", !old, || format!("{id} at {now}"))?;
        law("sent when due, not before", due_ns == self.due_ns(request) && due_ns <= now, || {
            due_ns.to_string()
        })?;
        law("nothing is sent after the deadline", now < due_ns + self.rules.requests.deadline_ns, || {
            format!("request {request}, due at {due_ns}, at {now}")
        })?;
        law("nothing is sent for who has gone", !self.ended.contains_key(&request), || request.to_string())?;
        let barred = target == 0 && self.barred.contains(&request);
        law("an open breaker lets nothing through", !barred, || format!("request {request} at {now}"))?;
        let sends = self.sends.entry(request).or_default();
        *sends += 1;
        let once = self.rules.requests.idempotent || *sends == 1;
        law("what is ambiguous is never sent twice", once, || format!("request {request}"))
    }

    fn closes(&mut self, now: u64, id: u32, cause: ClosingCause) -> Result<(), String> {
        let Some(link) = self.links.remove(&id) else { return Err(format!("closed twice: {id}")) };
        self.check_over(link, cause == ClosingCause::Finished);
        if cause != ClosingCause::Refreshed {
            return Ok(());
        }
        let young = match (self.rules.age, link.connected_ns) {
            (Some(age), Some(connected)) => now < connected + age.at_most_ns - age.jitter_ns,
            _ => true,
        };
        law("an age lies within its jitter", !young, || format!("{id} at {now}"))
    }

    fn check_over(&mut self, link: Link, well: bool) {
        if self.monitors() == Some(link.place) {
            self.rests_ns = self.now + self.rules.recovery.map_or(0, |rule| rule.every_ns);
            self.back = if well { self.back } else { 0 };
        }
    }

    fn ends(&mut self, request: u64, outcome: Outcome) -> Result<(), String> {
        let before = self.ended.insert(request, outcome);
        law("a request ends once", before.is_none(), || {
            format!("request {request}: {before:?}, {outcome:?}")
        })?;
        let sum = match outcome {
            Outcome::Answered => &mut self.sums.answered,
            Outcome::Failed => &mut self.sums.failed,
            Outcome::Ambiguous => &mut self.sums.ambiguous,
            Outcome::Shed => &mut self.sums.shed,
            Outcome::Fallback => &mut self.sums.fallback,
        };
        *sum += 1;
        if outcome == Outcome::Answered
            && let Some(BudgetRule::Throttle { tokens, ratio }) = self.budget()
        {
            self.tokens = (self.tokens + (ratio * 1e3).round() as i64).min(i64::from(tokens) * 1_000);
        }
        let (sent, answered) = (self.was_sent(request), self.answered.contains(&request));
        let true_to_it = match outcome {
            Outcome::Answered => answered,
            Outcome::Failed => !sent,
            Outcome::Ambiguous => sent && !answered,
            Outcome::Shed => !sent && self.rules.breaker.is_some(),
            Outcome::Fallback => match self.rules.fallback {
                Some(Fallback::Target(_)) => answered,
                Some(Fallback::LastAnswer(_)) => !answered && (!sent || self.rules.requests.idempotent),
                None => false,
            },
        };
        law("an end is what it is called", true_to_it, || {
            format!("request {request} {outcome:?}: sent {sent}, answered {answered}")
        })
    }

    fn budget(&self) -> Option<BudgetRule> {
        self.rules.retry.as_ref().and_then(|retry| retry.budget)
    }

    fn fails(&mut self, now: u64, failed: &TryFailed) -> Result<(), String> {
        if !failed.fallback {
            self.tokens = (self.tokens - 1_000).max(0);
        }
        let Some(wait) = failed.retry_in_ns else { return Ok(()) };
        let Some(rule) = self.rules.retry.clone() else { return Err("retried without a rule".to_owned()) };
        let (done, last) = self.retries.get(&failed.request).copied().unwrap_or((0, rule.backoff.first_ns));
        law("retries of a request are counted", done < rule.at_most, || format!("{failed:?}"))?;
        let deadline_ns = self.due_ns(failed.request) + self.rules.requests.deadline_ns;
        law("nobody waits beyond the deadline", now + wait < deadline_ns, || format!("{failed:?}"))?;
        self.retries.insert(failed.request, (done + 1, wait));
        self.retried += 1;
        let due = self.due_by(now);
        let within = match rule.budget {
            None => true,
            Some(BudgetRule::Share { share, burst }) => {
                self.retried as f64 <= f64::from(burst) + share * due as f64 + 1e-6
            }
            Some(BudgetRule::Throttle { tokens, .. }) => 2 * self.tokens > i64::from(tokens) * 1_000,
        };
        law("never beyond the retry budget", within, || format!("{} retries, {due} due", self.retried))?;
        let (first, cap) = (rule.backoff.first_ns, rule.backoff.cap_ns);
        let ceiling = (u128::from(first) << done).min(u128::from(cap)) as u64;
        let (low, high) = match rule.backoff.jitter {
            Jitter::None => (ceiling, ceiling),
            Jitter::Full => (0, ceiling),
            Jitter::Equal => (ceiling / 2, ceiling),
            Jitter::Decorrelated => (first, (3 * last).min(cap)),
        };
        law("a wait lies within its jitter", (low..=high).contains(&wait), || {
            format!("{wait} {low}..={high}")
        })
    }

    fn switches(&mut self, now: u64, from: Circuit, to: Circuit) -> Result<(), String> {
        use Circuit::{Closed, HalfOpen, Open};
        let open_ns = self.rules.breaker.map_or(u64::MAX, |breaker| breaker.open_ns);
        let legal = match (from, to) {
            (Closed, Open) | (HalfOpen, Open | Closed) => true,
            (Open, HalfOpen) => {
                let is_back = self.rules.recovery.is_some_and(|rule| self.back == rule.after);
                if is_back {
                    self.barred.retain(|request| !self.barred_now.contains(request));
                }
                is_back || now >= self.opened_ns.saturating_add(open_ns)
            }
            _ => false,
        };
        law("a breaker changes as it may", legal && from == self.circuit, || {
            format!("{from:?} {to:?} at {now}")
        })?;
        self.circuit = to;
        self.transitions.push((from, to));
        if to == Open {
            (self.opened_ns, self.back) = (now, 0);
            self.rests_ns = now + self.rules.recovery.map_or(0, |rule| rule.every_ns);
        }
        Ok(())
    }

    /// Everything of this moment has been done.
    pub(crate) fn moment(&mut self, now: u64, counts: Counts, connections: usize) -> Result<(), String> {
        self.most_open = self.most_open.max(connections);
        if counts.in_flight > 0 {
            self.open_before_the_end = connections;
        }
        let c = counts;
        let sum = c.answered + c.failed + c.ambiguous + c.shed + c.fallback + c.in_flight;
        law("what was due is what became of it", c.due == sum, || format!("{c:?}"))?;
        let in_flight = c.due - self.ended.len() as u64;
        let own = Counts { due: c.due, in_flight, ..self.sums };
        law("what was due is what became of it", c == own, || format!("{c:?}, seen {own:?}"))?;
        let due = self.due_by(now);
        law("what is due is due", c.due == due || self.stopped && c.due <= due, || format!("{c:?}, {due}"))?;
        law("a pool never leaks", connections == self.links.len(), || {
            format!("{connections} known, {} open", self.links.len())
        })
    }

    pub(crate) fn over(&self) -> Result<(), String> {
        law("a pool never leaks", self.links.is_empty(), || format!("{:?}", self.links))
    }
}
