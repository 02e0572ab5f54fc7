//! The connections: opened when they are wanted, given to those that wait, closed when they are too old or too many.

use super::{Client, ClosingCause, Connection, Output, Stage, State, Timer, Why};

/// The longest wait between two attempts to have as many connections as the pool should.
const FILLING_AT_MOST_NS: u64 = 5_000_000_000;

impl Client {
    /// Gives connections to those that wait for one, and opens more where there may be more.
    pub(super) fn serve(&mut self, now: u64, target: usize) {
        while let Some(request) = self.pools[target].next_waiting() {
            if self.waited_in_vain(now, request) {
                self.leave_the_queue(request);
                self.try_failed(now, request, Why::PoolWait);
                continue;
            }
            let Some(id) = self.pools[target].next_idle() else { break };
            let Some(connection) = self.connections.get(&id).copied() else { break };
            if connection.retire_ns.is_some_and(|at| at <= now) {
                self.close(id, ClosingCause::Refreshed);
                continue;
            }
            self.leave_the_queue(request);
            self.pools[target].not_idle(id);
            self.lend(now, id, connection, request);
        }
        while self.pools[target].wants_more() && self.open(now, target) {}
    }

    /// Gives an idle connection to a request; one that was idle for long is asked first whether it works.
    fn lend(&mut self, now: u64, id: u32, connection: Connection, request: u64) {
        let rule = self.policy.pool;
        let State::Idle { since_ns } = connection.state else { return };
        if rule.validate_after_ns.is_some_and(|after| now - since_ns.max(connection.worked_ns) >= after) {
            if let Some(waiting) = self.requests.get_mut(&request)
                && let Stage::Waiting(until_ns, _) = waiting.stage
            {
                waiting.stage = Stage::Validating(until_ns, id);
            }
            return self.check(now, id, Some(request), since_ns);
        }
        let ask = self.next_ask(id);
        self.set_state(id, State::Busy { ask, request });
        self.timers.set(Timer::Connection(id), None);
        self.send(now, request, id, ask);
    }

    /// Asks a connection that is not among the idle ones any more whether it works.
    fn check(&mut self, now: u64, id: u32, request: Option<u64>, since_ns: u64) {
        let ask = self.next_ask(id);
        self.set_state(id, State::Checking { ask, request, since_ns });
        let until_ns = now.saturating_add(self.policy.pool.validation_timeout_ns);
        self.timers.set(Timer::Connection(id), Some(until_ns));
        self.outputs.push_back(Output::Send { id, ask, request: None });
    }

    /// Begins a connection, if there may be another.
    fn open(&mut self, now: u64, target: usize) -> bool {
        let Some(place) = self.pools[target].take_place() else { return false };
        let id = self.next_id;
        self.next_id += 1;
        let state = State::Opening;
        let (worked_ns, has_answered, asks) = (now, false, 0);
        let connection = Connection { target, place, state, retire_ns: None, worked_ns, has_answered, asks };
        self.connections.insert(id, connection);
        self.timers.set(Timer::Connection(id), Some(now.saturating_add(self.policy.connect_timeout_ns)));
        self.outputs.push_back(Output::Open { id, target, place });
        true
    }

    /// Opens connections until there are as many as there always should be.
    pub(super) fn fill(&mut self, now: u64) {
        while !self.stopping && self.pools[0].open < self.pools[0].rule.min as usize && self.open(now, 0) {}
    }

    pub(super) fn connected(&mut self, now: u64, id: u32) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.state != State::Opening {
            return;
        }
        let target = connection.target;
        if let Some(age) = self.policy.age {
            let lasts = self.dice.between(age.at_most_ns - age.jitter_ns, age.at_most_ns);
            connection.retire_ns = Some(now.saturating_add(lasts));
        }
        connection.worked_ns = now;
        self.pools[target].opening -= 1;
        self.becomes_idle(now, id, now);
        self.serve(now, target);
    }

    pub(super) fn answered(&mut self, now: u64, id: u32, asked: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        (connection.worked_ns, connection.has_answered) = (now, true);
        let connection = *connection;
        let target = connection.target;
        if target == 0 {
            self.filling.succeeded();
        }
        match connection.state {
            State::Busy { ask, request } if ask == asked => {
                self.becomes_idle(now, id, now);
                self.request_answered(now, request);
            }
            State::Checking { ask, request, since_ns } if ask == asked => match request {
                Some(request)
                    if self.is_validating(request, id)
                        && connection.retire_ns.is_some_and(|at| at <= now) =>
                {
                    self.close(id, ClosingCause::Refreshed);
                    self.wait_again(request, target);
                }
                Some(request) if self.is_validating(request, id) && !self.waited_in_vain(now, request) => {
                    let ask = self.next_ask(id);
                    self.set_state(id, State::Busy { ask, request });
                    self.timers.set(Timer::Connection(id), None);
                    self.send(now, request, id, ask);
                }
                _ => self.becomes_idle(now, id, since_ns),
            },
            // Nothing was asked that this answers: whatever talks there cannot be understood.
            _ => return self.lost_for(now, id, Some(ClosingCause::LocalError)),
        }
        self.serve(now, target);
    }

    /// Whether it still waits for the answer of this connection: meanwhile it may have been tried again, and wait for another's.
    fn is_validating(&self, request: u64, connection: u32) -> bool {
        let stage = self.requests.get(&request).map(|request| request.stage);
        matches!(stage, Some(Stage::Validating(_, asked)) if asked == connection)
    }

    pub(super) fn lost(&mut self, now: u64, id: u32) {
        self.lost_for(now, id, None);
    }

    /// A connection has gone, or does not work and is closed for this.
    fn lost_for(&mut self, now: u64, id: u32, cause: Option<ClosingCause>) {
        let Some(connection) = self.connections.get(&id).copied() else { return };
        match cause {
            Some(cause) => self.close(id, cause),
            None => self.forget(id, &connection),
        }
        let target = connection.target;
        match connection.state {
            State::Opening => {
                // The caller that has waited for longest learns of it, as with database/sql.
                if let Some(request) = self.pools[target].next_waiting() {
                    self.leave_the_queue(request);
                    self.try_failed(now, request, Why::NotConnected);
                }
                self.fill_later(now);
                return self.serve(now, target);
            }
            State::Busy { request, .. } => self.try_failed(now, request, Why::ConnectionLost),
            State::Checking { request: Some(request), .. } if self.is_validating(request, id) => {
                self.wait_again(request, target);
            }
            State::Checking { .. } | State::Idle { .. } => {}
        }
        if connection.has_answered {
            self.fill(now);
        } else {
            // Whoever accepts connections and ends them at once would be asked for the next one as fast as it can.
            self.fill_later(now);
        }
        self.serve(now, target);
    }

    /// The connection that it was to have does not work: it is the next to get one.
    fn wait_again(&mut self, id: u64, target: usize) {
        if let Some(request) = self.requests.get_mut(&id)
            && let Stage::Validating(until_ns, _) = request.stage
        {
            request.stage = Stage::Waiting(until_ns, self.pools[target].wait(id, true));
        }
    }

    fn fill_later(&mut self, now: u64) {
        // One wait at a time: each that fails meanwhile would put the next attempt off.
        if self.pools[0].open < self.pools[0].rule.min as usize && !self.timers.is_set(Timer::Pool) {
            let wait = self.filling.next_wait_ns(FILLING_AT_MOST_NS);
            self.timers.set(Timer::Pool, Some(now.saturating_add(wait.max(1))));
        }
    }

    /// The time of what it is doing is over.
    pub(super) fn connection_waited(&mut self, now: u64, id: u32) {
        let Some(connection) = self.connections.get(&id).copied() else { return };
        let (target, rule) = (connection.target, self.policy.pool);
        let State::Idle { since_ns } = connection.state else {
            return self.lost_for(now, id, Some(ClosingCause::Abandoned));
        };
        let least = if target == 0 { rule.min as usize } else { 0 };
        let unneeded = rule.idle_ns.is_some_and(|idle| now >= since_ns.saturating_add(idle))
            && self.pools[target].open > least;
        if connection.retire_ns.is_some_and(|at| at <= now) {
            self.close(id, ClosingCause::Refreshed);
            self.fill(now);
        } else if unneeded {
            self.close(id, ClosingCause::Finished);
        } else if rule.check_every_ns.is_some_and(|every| now >= connection.worked_ns.saturating_add(every)) {
            self.pools[target].not_idle(id);
            self.check(now, id, None, since_ns);
        } else {
            self.watch(now, id);
        }
    }

    fn becomes_idle(&mut self, now: u64, id: u32, since_ns: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.state = State::Idle { since_ns };
        let target = connection.target;
        let later = |other: &u32| match self.connections.get(other).map(|other| other.state) {
            Some(State::Idle { since_ns: other_ns }) => other_ns > since_ns,
            _ => false,
        };
        // From the end, where those that have just become idle belong.
        let before = self.pools[target].idle.iter().rposition(|other| !later(other));
        self.pools[target].idle.insert(before.map_or(0, |at| at + 1), id);
        self.watch(now, id);
    }

    /// When an idle connection is to be looked at next.
    fn watch(&mut self, now: u64, id: u32) {
        let (rule, Some(connection)) = (self.policy.pool, self.connections.get(&id)) else { return };
        let State::Idle { since_ns } = connection.state else { return };
        // One that is kept because there are few may be one too many later.
        let unneeded = rule.idle_ns.map(|idle| {
            let at = since_ns.saturating_add(idle);
            if at > now { at } else { now.saturating_add(idle) }
        });
        let check = rule.check_every_ns.map(|every| connection.worked_ns.saturating_add(every));
        let at = connection.retire_ns.into_iter().chain(unneeded).chain(check).min();
        self.timers.set(Timer::Connection(id), at);
    }

    /// Closes it and forgets it.
    pub(super) fn close(&mut self, id: u32, cause: ClosingCause) {
        if let Some(connection) = self.connections.get(&id).copied() {
            self.outputs.push_back(Output::Close { id, cause });
            self.forget(id, &connection);
        }
    }

    fn forget(&mut self, id: u32, connection: &Connection) {
        self.connections.remove(&id);
        self.timers.set(Timer::Connection(id), None);
        self.pools[connection.target].gone(id, connection);
    }

    pub(super) fn close_all(&mut self) {
        self.timers.set(Timer::Pool, None);
        self.end_monitoring();
        let all: Vec<u32> = self.connections.keys().copied().collect();
        for id in all {
            self.close(id, ClosingCause::Finished);
        }
    }

    fn next_ask(&mut self, id: u32) -> u64 {
        let Some(connection) = self.connections.get_mut(&id) else { return 0 };
        connection.asks += 1;
        connection.asks - 1
    }

    fn set_state(&mut self, id: u32, state: State) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.state = state;
        }
    }
}
