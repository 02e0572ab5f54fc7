//! The recovery monitor: while the breaker is open, the first target is asked whether it is back, on a connection that is made
//! for each check and closed after it. No request is at stake.
//!
//! ```text
//!     the breaker opens --> rests for `every` --> connects and asks --> answered: one more in a row
//!                               ^   ^                   |                 |      | `after` of them: the breaker is half open
//!                               |   +-------------------|-----------------+      v
//!                               +--- none in a row <----+ refused, lost,       ends
//!                                                         or not in time
//! ```

use super::{Client, ClosingCause, Input, Output, Timer};
use crate::policy::breaker::Breaker;
use crate::policy::settings::RecoveryRule;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct Monitor {
    rule: RecoveryRule,
    /// Behind those of the pools.
    place: u32,
    /// Checks that were answered, in a row.
    answered: u32,
    /// The connection of the one that is under way.
    check: Option<u32>,
}

impl Monitor {
    pub(super) fn new(rule: RecoveryRule, place: u32) -> Self {
        Self { rule, place, answered: 0, check: None }
    }

    pub(super) fn is_checking(&self) -> bool {
        self.check.is_some()
    }
}

impl Client {
    /// The breaker has opened.
    pub(super) fn begin_monitoring(&mut self, now: u64) {
        if let Some(monitor) = &mut self.monitor {
            monitor.answered = 0;
            self.timers.set(Timer::Recovery, Some(now.saturating_add(monitor.rule.every_ns)));
        }
    }

    /// The breaker is not open any more, or the client ends.
    pub(super) fn end_monitoring(&mut self) {
        self.timers.set(Timer::Recovery, None);
        self.end_check(ClosingCause::Finished);
    }

    /// Whether that was told of the connection of a check.
    pub(super) fn is_monitors(&self, input: Input) -> bool {
        let id = match input {
            Input::Connected { id } | Input::Lost { id } | Input::Answered { id, .. } => Some(id),
            Input::Wake | Input::Stop | Input::Over => None,
        };
        id.is_some() && self.monitor.is_some_and(|monitor| monitor.check == id)
    }

    /// The time to rest is over, or that of a check.
    pub(super) fn check_is_due(&mut self, now: u64) {
        let Some(monitor) = &mut self.monitor else { return };
        if monitor.check.is_some() {
            self.end_check(ClosingCause::Abandoned);
            return self.check_ended(now, false);
        }
        let (id, place) = (self.next_id, monitor.place);
        self.next_id += 1;
        monitor.check = Some(id);
        self.timers.set(Timer::Recovery, Some(now.saturating_add(monitor.rule.timeout_ns)));
        self.outputs.push_back(Output::Open { id, target: 0, place });
    }

    /// Something was told of the connection of a check.
    pub(super) fn check_heard(&mut self, now: u64, input: Input) {
        match input {
            Input::Connected { id } => self.outputs.push_back(Output::Send { id, ask: 0, request: None }),
            Input::Answered { ask: 0, .. } => {
                self.end_check(ClosingCause::Finished);
                self.check_ended(now, true);
            }
            // Nothing was asked that this answers.
            Input::Answered { .. } => {
                self.end_check(ClosingCause::LocalError);
                self.check_ended(now, false);
            }
            Input::Lost { .. } => {
                if let Some(monitor) = &mut self.monitor {
                    monitor.check = None;
                }
                self.check_ended(now, false);
            }
            Input::Wake | Input::Stop | Input::Over => {}
        }
    }

    fn check_ended(&mut self, now: u64, is_back: bool) {
        let Some(monitor) = &mut self.monitor else { return };
        monitor.answered = if is_back { monitor.answered + 1 } else { 0 };
        if monitor.answered < monitor.rule.after {
            return self.timers.set(Timer::Recovery, Some(now.saturating_add(monitor.rule.every_ns)));
        }
        self.ask_breaker(now, Breaker::recovered);
    }

    fn end_check(&mut self, cause: ClosingCause) {
        if let Some(id) = self.monitor.as_mut().and_then(|monitor| monitor.check.take()) {
            self.outputs.push_back(Output::Close { id, cause });
        }
    }
}
