//! A request, try after try, to its one end.
//!
//! ```text
//!                   the breaker lets it through       a connection is free
//!     due, or rested -------------------------> waiting -----------------> sent -----> answered
//!        ^      \                                  |                         |
//!        |       \ open                            | not in time             | not in time, or the connection was lost
//!        |        v                                v                         v
//!        |       shed                            the try failed <------------+
//!        |                                         |        \
//!        +-- rested: retries, time and budget left-+         +---> fallback, or failed, or (something was sent) ambiguous
//!            and nothing was sent, or it is idempotent
//! ```

use super::{
    Circuit, Client, Ended, EventKind, Fallback, Outcome, Output, Request, Stage, Timer, TryFailed, Why,
};
use crate::cause::ClosingCause;
use crate::event::BreakerChanged;
use crate::policy::breaker::{Breaker, Permit};

impl Client {
    /// A request is due, and is tried.
    pub(super) fn begin(&mut self, now: u64, due_ns: u64) {
        let request = self.falls_due(due_ns);
        self.try_now(now, request);
    }

    /// A request is due; its number.
    pub(super) fn falls_due(&mut self, due_ns: u64) -> u64 {
        let request = self.counts.due;
        self.counts.due += 1;
        self.counts.in_flight += 1;
        self.budget.due();
        let deadline_ns = due_ns.saturating_add(self.policy.requests.deadline_ns);
        self.requests.insert(request, Request::new(due_ns, deadline_ns));
        request
    }

    fn try_now(&mut self, now: u64, id: u64) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        // This host did not run: nobody waits for it any more.
        if now >= request.deadline_ns {
            request.retry_not_made |= request.tries > 0;
            return self.serve_otherwise(now, id, Outcome::Failed);
        }
        let guarded = request.target == 0;
        let admitted = if guarded { self.ask_breaker(now, |breaker| breaker.admit(now)) } else { None };
        let Some(request) = self.requests.get_mut(&id) else { return };
        if let Some(permit) = admitted {
            request.permit = permit;
            if permit.is_none() {
                let shed = request.tries == 0;
                request.retry_not_made |= !shed;
                return self.serve_otherwise(now, id, if shed { Outcome::Shed } else { Outcome::Failed });
            }
        }
        let until_ns = now.saturating_add(self.policy.pool.wait_ns).min(request.deadline_ns);
        request.tries += 1;
        let target = request.target;
        let ticket = self.pools[target].wait(id, false);
        (request.since_ns, request.stage) = (now, Stage::Waiting(until_ns, ticket));
        self.timers.set(Timer::Request(id), Some(until_ns));
        self.serve(now, target);
    }

    /// A connection is free for it.
    pub(super) fn send(&mut self, now: u64, id: u64, connection: u32, ask: u64) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let until_ns = now.saturating_add(self.policy.requests.try_timeout_ns).min(request.deadline_ns);
        (request.since_ns, request.stage) = (now, Stage::Sent(connection));
        let due_ns = request.due_ns;
        self.timers.set(Timer::Request(id), Some(until_ns));
        self.outputs.push_back(Output::Send { id: connection, ask, request: Some((id, due_ns)) });
    }

    pub(super) fn request_answered(&mut self, now: u64, id: u64) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let fallback = request.target > 0;
        let permit = request.permit.take();
        self.judge(now, permit, false);
        if !fallback {
            self.budget.answered();
            self.answered_ns = Some(now);
        }
        self.end(now, id, if fallback { Outcome::Fallback } else { Outcome::Answered });
    }

    /// The time of what it is doing is over.
    pub(super) fn request_waited(&mut self, now: u64, id: u64) {
        match self.requests.get(&id).map(|request| request.stage) {
            Some(Stage::Waiting(..) | Stage::Validating(..)) => {
                self.leave_the_queue(id);
                self.try_failed(now, id, Why::PoolWait);
            }
            Some(Stage::Sent(connection)) => {
                // An answer that comes later would be taken for the next request's.
                self.close(connection, ClosingCause::Abandoned);
                let target = self.requests.get(&id).map_or(0, |request| request.target);
                self.try_failed(now, id, Why::TimedOut);
                self.fill(now);
                self.serve(now, target);
            }
            Some(Stage::Resting) => self.try_now(now, id),
            None => {}
        }
    }

    pub(super) fn leave_the_queue(&mut self, id: u64) {
        if let Some(request) = self.requests.get(&id)
            && let Stage::Waiting(_, ticket) = request.stage
        {
            self.pools[request.target].leave(ticket);
        }
    }

    /// Its time to wait for a connection was over before this moment, or nobody waits for its answer: where this host did
    /// not run for a while, a connection may become free before the timers are looked at.
    pub(super) fn waited_in_vain(&self, now: u64, id: u64) -> bool {
        self.requests.get(&id).is_some_and(|request| match request.stage {
            Stage::Waiting(until_ns, _) | Stage::Validating(until_ns, _) => {
                until_ns < now || request.deadline_ns <= now
            }
            Stage::Sent(_) | Stage::Resting => false,
        })
    }

    /// Its try failed: another one, or its end.
    pub(super) fn try_failed(&mut self, now: u64, id: u64, why: Why) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let sent = matches!(request.stage, Stage::Sent(_));
        request.maybe_done |= sent;
        let (permit, first_target) = (request.permit.take(), request.target == 0);
        self.judge(now, permit, true);
        if first_target {
            self.budget.failed();
        }
        let retry_in_ns = self.retry_in(now, id);
        let Some(request) = self.requests.get_mut(&id) else { return };
        let failed = TryFailed {
            request: id,
            attempt: request.tries,
            why,
            sent,
            after_ns: now - request.since_ns,
            fallback: !first_target,
            retry_in_ns,
        };
        self.outputs.push_back(Output::Event(EventKind::TryFailed(failed)));
        match retry_in_ns {
            Some(wait_ns) => {
                (request.stage, request.retries) = (Stage::Resting, request.retries + 1);
                self.timers.set(Timer::Request(id), Some(now.saturating_add(wait_ns)));
            }
            None => self.serve_otherwise(now, id, Outcome::Failed),
        }
    }

    /// How long until it is tried again; `None`: it is not.
    fn retry_in(&mut self, now: u64, id: u64) -> Option<u64> {
        let (rule, request) = (self.policy.retry.as_ref()?, self.requests.get_mut(&id)?);
        let harmless = !request.maybe_done || self.policy.requests.idempotent;
        if !harmless || request.target > 0 || request.retries >= rule.at_most {
            return None;
        }
        let dice = &mut self.dice;
        let wait_ns = request.waits.next_ns(&rule.backoff, |low, high| dice.between(low, high));
        let in_time = now.saturating_add(wait_ns) < request.deadline_ns;
        (in_time && self.budget.take()).then_some(wait_ns)
    }

    /// It will not be tried again: the fallback serves it, or it ends so; if something was sent, it is ambiguous.
    fn serve_otherwise(&mut self, now: u64, id: u64, otherwise: Outcome) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        // What may have been done and must not be done twice is asked of nobody else, and no old answer is true of it.
        let harmless = !request.maybe_done || self.policy.requests.idempotent;
        let otherwise = if request.maybe_done { Outcome::Ambiguous } else { otherwise };
        match self.policy.fallback {
            Some(Fallback::Target(_)) if harmless && request.target == 0 && now < request.deadline_ns => {
                request.target = 1;
                self.try_now(now, id);
            }
            Some(Fallback::LastAnswer(at_most_ns))
                if harmless && self.answered_ns.is_some_and(|at| now - at <= at_most_ns) =>
            {
                self.end(now, id, Outcome::Fallback);
            }
            _ => self.end(now, id, otherwise),
        }
    }

    /// The user waits no longer for it.
    pub(super) fn give_up(&mut self, now: u64, id: u64) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        request.retry_not_made |= request.stage == Stage::Resting && request.tries > 0;
        let (stage, maybe_done) = (request.stage, request.maybe_done);
        self.leave_the_queue(id);
        if let Stage::Sent(connection) = stage {
            self.close(connection, ClosingCause::Finished);
        }
        let ambiguous = maybe_done || matches!(stage, Stage::Sent(_));
        self.end(now, id, if ambiguous { Outcome::Ambiguous } else { Outcome::Failed });
    }

    fn end(&mut self, now: u64, id: u64, outcome: Outcome) {
        let Some(request) = self.requests.remove(&id) else { return };
        self.timers.set(Timer::Request(id), None);
        self.counts.ended(outcome);
        self.outputs.push_back(Output::Ended { request: id, outcome });
        if outcome != Outcome::Answered {
            let waited_ns = now.saturating_sub(request.due_ns);
            let (tries, retry_not_made) = (request.tries, request.retry_not_made);
            let ended = Ended { request: id, outcome, waited_ns, tries, retry_not_made };
            self.outputs.push_back(Output::Event(EventKind::RequestEnded(ended)));
        }
    }

    /// Tells the breaker how a try ended that it let through.
    fn judge(&mut self, now: u64, permit: Option<Permit>, failed: bool) {
        if let Some(permit) = permit {
            self.ask_breaker(now, |breaker| breaker.ended(now, permit, failed));
        }
    }

    /// Does something with the breaker, and tells what that changed. `None`: there is none.
    pub(super) fn ask_breaker<T>(&mut self, now: u64, act: impl FnOnce(&mut Breaker) -> T) -> Option<T> {
        let breaker = self.breaker.as_mut()?;
        let from = breaker.state();
        let done = act(breaker);
        let to = breaker.state();
        if from != to {
            self.outputs.push_back(Output::Event(EventKind::BreakerChanged(BreakerChanged { from, to })));
            if to == Circuit::Open {
                self.begin_monitoring(now);
            } else {
                self.end_monitoring();
            }
        }
        Some(done)
    }
}
