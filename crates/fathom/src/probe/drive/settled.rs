//! Lets go of pages of the program that a slow run does not use, once it has settled: those of the start were let go before the first
//! sample, and connecting, the first rows and the kernel, which maps sixteen for each that is touched, have brought others.

use super::Driver;
use crate::probe::config::Config;
use fathom_core::schedule::Pace;
use fathom_os::clock::mono_ns;

/// So long after the first message a run has done once what it does again and again.
const SETTLED_NS: u64 = 15_000_000_000;
/// Rarely: what is used again is mapped again, and one sample in so many pays for it.
const AGAIN_NS: u64 = 120_000_000_000;
/// Samples a second beyond which nothing is let go: a page that is used so often is no page to let go of.
const SLOW: f64 = 10.0;
/// Nothing is due for so long: what is mapped again at once delays no sample.
const BEFORE_NEXT_NS: u64 = 20_000_000;

/// When pages are let go of.
#[derive(Debug)]
pub(super) struct Settled {
    /// None: never.
    next_ns: Option<u64>,
    again_ns: u64,
    /// An argument so that a test knows when.
    let_go: fn() -> usize,
}

impl Settled {
    /// Of a run that begins now.
    pub(super) fn of(config: &Config, now_ns: u64) -> Self {
        let is_paced = matches!(config.pace, Pace::Every(_)) && !config.spin && config.load.is_none();
        let rate = config.rate_per_connection().map(|rate| rate * config.lanes() as f64);
        let slow = is_paced && rate.is_some_and(|rate| rate <= SLOW);
        let let_go = fathom_os::process::let_go_of_the_program;
        Self { next_ns: slow.then_some(now_ns + SETTLED_NS), again_ns: AGAIN_NS, let_go }
    }

    /// Of a run that lets go of pages whenever it may.
    #[cfg(test)]
    pub(super) fn always(let_go: fn() -> usize) -> Self {
        Self { next_ns: Some(0), again_ns: 1, let_go }
    }

    /// Whether it is time, and nothing is due for a while; it then counts as done.
    fn is_due(&mut self, now_ns: u64, next_wake_ns: Option<u64>) -> bool {
        let due = self.next_ns.is_some_and(|at| now_ns >= at)
            && next_wake_ns.is_none_or(|at| at >= now_ns + BEFORE_NEXT_NS);
        if due {
            self.next_ns = Some(now_ns + self.again_ns);
        }
        due
    }
}

impl Driver<'_> {
    /// Right after an echo `came`: where it is time, no other is out, and nothing is due soon.
    pub(super) fn let_go_of_pages(&mut self, came: bool) {
        let Some(at) = self.settled.next_ns.filter(|_| came) else { return };
        // The time now: a wait lies between the turn's and this.
        let now = mono_ns();
        if now < at {
            return;
        }
        for place in 0..self.probe.lanes() {
            let open = self.links.at(place).map(|link| link.id);
            if open.is_some_and(|id| self.probe.awaits_echo(id)) {
                return;
            }
        }
        if self.settled.is_due(now, self.probe.next_wake()) {
            let bytes = (self.settled.let_go)();
            tracing::debug!(bytes, "pages of the program were let go");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::config::from_line;

    const S: u64 = 1_000_000_000;

    #[test]
    fn slow_run_releases_pages_every_two_minutes() {
        let config = from_line("h --every 1s").expect("it is valid");
        let mut settled = Settled::of(&config, 100 * S);
        let soon = |now| Some(now + BEFORE_NEXT_NS - 1);
        let later = |now| Some(now + BEFORE_NEXT_NS);
        let mut done = Vec::new();
        for now in (100..1_000).map(|second| second * S) {
            assert!(!settled.is_due(now, soon(now)), "a sample is due");
            if settled.is_due(now, later(now)) {
                done.push((now / S) - 100);
            }
        }
        assert_eq!(done, [15, 135, 255, 375, 495, 615, 735, 855]);
    }

    #[test]
    fn busy_and_idle_gap_runs_keep_their_pages() {
        for line in [
            "h --every 10ms",
            "h --every 1s --connections 11",
            "h --ping-pong",
            "h --spin",
            "h --idle-gap 5s",
        ] {
            let config = from_line(line).expect("it is valid");
            assert!(!Settled::of(&config, 0).is_due(1_000_000 * S, None), "{line}");
        }
    }
}
