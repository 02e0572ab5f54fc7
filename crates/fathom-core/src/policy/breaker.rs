//! A circuit breaker: after too many failures nothing is tried for a while, and then a few.
//!
//! ```text
//!              enough of the window failed              its time is over, or its target is back
//!     closed ------------------------------> open --------------------------> half open
//!        ^                                    ^                                 |     |
//!        |                                    +--- enough of its trials failed -+     |
//!        +------------------------------------------- too few did --------------------+
//! ```

use super::settings::{BreakerRule, Window};
use crate::event::Circuit;
use std::collections::VecDeque;

/// What a try needs; to be given back with how the try ended, exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    /// In which stay in its state it was given. A try that outlives that says nothing of the next one.
    turn: u64,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Breaker {
    rule: BreakerRule,
    state: Circuit,
    turn: u64,
    /// When it opened last.
    opened_ns: u64,
    /// Tries that ended in this stay: when, and whether they failed.
    ended: VecDeque<(u64, bool)>,
    failed: usize,
    /// Trials that were let through in this stay.
    trials: u32,
}

impl Breaker {
    /// A closed one.
    pub fn new(rule: BreakerRule) -> Self {
        let (state, ended) = (Circuit::Closed, VecDeque::new());
        Self { rule, state, turn: 0, opened_ns: 0, ended, failed: 0, trials: 0 }
    }

    /// What it is now.
    pub fn state(&self) -> Circuit {
        self.state
    }

    /// Whether something may be tried now. It becomes half open with the first that asks after its time.
    pub fn admit(&mut self, now: u64) -> Option<Permit> {
        if self.state == Circuit::Open && now >= self.opened_ns.saturating_add(self.rule.open_ns) {
            self.enter(Circuit::HalfOpen);
        }
        match self.state {
            Circuit::Closed => {}
            Circuit::Open => return None,
            Circuit::HalfOpen if self.trials == self.rule.trials => return None,
            Circuit::HalfOpen => self.trials += 1,
        }
        Some(Permit { turn: self.turn })
    }

    /// What it guards is known to be back: its time is over.
    pub fn recovered(&mut self) {
        if self.state == Circuit::Open {
            self.enter(Circuit::HalfOpen);
        }
    }

    /// How a try ended.
    pub fn ended(&mut self, now: u64, permit: Permit, failed: bool) {
        if permit.turn != self.turn {
            return;
        }
        self.ended.push_back((now, failed));
        self.failed += usize::from(failed);
        match (self.state, self.rule.window) {
            (Circuit::Closed, Window::Count(most)) => self.forget(|n, _| n > most as usize),
            (Circuit::Closed, Window::Ns(ns)) => self.forget(|_, at| at.saturating_add(ns) < now),
            _ => {}
        }
        let ended = self.ended.len();
        let too_many = self.failed > 0 && self.failed as f64 / ended as f64 >= self.rule.failures;
        match self.state {
            Circuit::Closed if ended >= self.rule.least as usize && too_many => self.open(now),
            Circuit::HalfOpen if ended == self.rule.trials as usize => {
                if too_many {
                    self.open(now);
                } else {
                    self.enter(Circuit::Closed);
                }
            }
            _ => {}
        }
    }

    /// Forgets the oldest for as long as that holds of how many there are, and of when the oldest ended.
    fn forget(&mut self, too_old: impl Fn(usize, u64) -> bool) {
        while let Some(&(at, failed)) = self.ended.front()
            && too_old(self.ended.len(), at)
        {
            self.ended.pop_front();
            self.failed -= usize::from(failed);
        }
    }

    fn open(&mut self, now: u64) {
        self.opened_ns = now;
        self.enter(Circuit::Open);
    }

    fn enter(&mut self, state: Circuit) {
        self.state = state;
        self.turn += 1;
        self.trials = 0;
        self.failed = 0;
        self.ended.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULE: BreakerRule =
        BreakerRule { window: Window::Count(4), least: 4, failures: 0.5, open_ns: 100, trials: 2 };

    fn run(breaker: &mut Breaker, now: u64, failed: bool) -> bool {
        let permit = breaker.admit(now);
        let Some(permit) = permit else { return false };
        breaker.ended(now, permit, failed);
        true
    }

    #[test]
    fn it_opens_waits_and_tries() {
        let mut breaker = Breaker::new(RULE);
        for failed in [false, true, false] {
            assert!(run(&mut breaker, 0, failed) && breaker.state() == Circuit::Closed);
        }
        let late = breaker.admit(0).expect("closed");
        assert!(run(&mut breaker, 10, true));
        assert_eq!(breaker.state(), Circuit::Open);
        // What was let through before says nothing any more.
        breaker.ended(20, late, false);
        assert!(!run(&mut breaker, 109, false) && breaker.state() == Circuit::Open);
        let (first, second) = (breaker.admit(110).expect("a trial"), breaker.admit(110).expect("a trial"));
        assert!(breaker.admit(110).is_none() && breaker.state() == Circuit::HalfOpen);
        breaker.ended(111, first, true);
        assert_eq!(breaker.state(), Circuit::HalfOpen);
        breaker.ended(112, second, false);
        assert_eq!(breaker.state(), Circuit::Open, "half of them failed");
        assert!(run(&mut breaker, 212, false) && run(&mut breaker, 212, false));
        assert_eq!(breaker.state(), Circuit::Closed);
        // It begins with an empty window.
        assert!((0..3).all(|_| run(&mut breaker, 213, true)) && breaker.state() == Circuit::Closed);
    }

    #[test]
    fn a_window_of_time_forgets_what_is_older() {
        let mut breaker = Breaker::new(BreakerRule { window: Window::Ns(50), ..RULE });
        for now in [0, 0, 0, 51] {
            assert!(run(&mut breaker, now, true));
        }
        assert_eq!(breaker.state(), Circuit::Closed);
        for now in [52, 53, 101] {
            assert!(run(&mut breaker, now, true));
        }
        assert_eq!(breaker.state(), Circuit::Open);
    }

    /// resilience4j's defaults at one request a second: 99 failures do nothing.
    #[test]
    fn default_breaker_opens_at_hundredth_failure() {
        let mut breaker = Breaker::new(BreakerRule::default());
        assert!((0..99).all(|s| run(&mut breaker, s, true)) && breaker.state() == Circuit::Closed);
        assert!(run(&mut breaker, 99, true) && breaker.state() == Circuit::Open);
    }

    proptest! {
        /// While it is closed it opens exactly when a slow count over everything that ended says so.
        #[test]
        fn it_opens_when_the_window_says_so(
            count in 1..12_u32, by_time: bool, least in 1..8_u32, tenths in 1..=10_u32,
            steps in prop::collection::vec((0..20_u64, any::<bool>()), 1..200)
        ) {
            let window = if by_time { Window::Ns(u64::from(count) * 10) } else { Window::Count(count) };
            let least = if by_time { least } else { least.min(count) };
            let rule = BreakerRule { window, least, failures: f64::from(tenths) / 10.0, open_ns: 1, trials: 1 };
            let mut breaker = Breaker::new(rule);
            let (mut now, mut all) = (0, Vec::new());
            for (after, failed) in steps {
                now += after;
                prop_assert!(run(&mut breaker, now, failed));
                all.push((now, failed));
                let recent: Vec<_> = match window {
                    Window::Count(n) => all.iter().rev().take(n as usize).collect(),
                    Window::Ns(ns) => all.iter().filter(|(at, _)| now - at <= ns).collect(),
                };
                let bad = recent.iter().filter(|(_, failed)| *failed).count() as u32;
                let opens = recent.len() >= least as usize && bad > 0 && bad * 10 >= tenths * recent.len() as u32;
                prop_assert_eq!(breaker.state(), if opens { Circuit::Open } else { Circuit::Closed });
                if opens {
                    return Ok(());
                }
            }
        }
    }
}
