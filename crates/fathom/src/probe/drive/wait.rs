//! How the probing thread waits for an echo without the reactor, back to back, where the system calls of a round trip are
//! part of what is measured.
//!
//! Through the reactor a round trip takes a wait, a read and a write, and the read begins after the wake-up. With one
//! connection the read itself can wait; with `--spin` it can be tried again and again. Everything else (timers, the
//! end of the run, names, pauses) is looked at every few milliseconds.
//!
//! Such a connection is taken out of the reactor. Of one that is in it, the kernel tells the reactor before the echo can be
//! read, each time.

use super::Driver;
use super::link::{News, Socket, Stage};
use crate::probe::config::{Config, Transport};
use fathom_core::probe::LinkId;
use fathom_core::schedule::Pace;
use std::time::Duration;

/// The longest that anything else waits for a read that waits. It is rare that it does: a path with round trips as
/// long as this has no use for it.
const READ_WAITS: Duration = Duration::from_millis(10);
/// Without the reactor, it is asked so often for what else there is...
const LOOK_EVERY_NS: u64 = 10_000_000;
/// ...and spinning, the timers after so many tries that found nothing, back to back: a reading of the clock costs a
/// quarter of a try.
const TRIES: u32 = 32;
/// Where it is known what that saves, and that nothing is lost by it (epoll(7)).
const LEAVES_REACTOR: bool = cfg!(target_os = "linux");
/// The place of the link of a run that has only one.
const ALONE: usize = 0;

/// How long echoes may be waited for before the reactor is asked for what else there is.
#[derive(Debug, Default)]
pub(super) struct PollBudget {
    last_ns: u64,
}

impl PollBudget {
    fn is_spent(&mut self, now_ns: u64) -> bool {
        let spent = now_ns.saturating_sub(self.last_ns) >= LOOK_EVERY_NS;
        if spent {
            self.last_ns = now_ns;
        }
        spent
    }
}

/// Lets the reads of a fresh connection wait, where the run has only this one and is back to back; whether they do.
pub(super) fn let_reads_wait(config: &Config, socket: &Socket, stamped: bool) -> bool {
    let alone = config.lanes() == 1 && config.pace == Pace::PingPong;
    let plain = config.transport == Transport::Tcp && !stamped && !config.spin;
    alone && plain && socket.let_reads_wait(READ_WAITS)
}

impl Driver<'_> {
    /// Waits for an echo without the reactor, where that is the way; true where nothing else needs to be looked at.
    pub(super) fn waited_for_echo(&mut self, now: u64) -> bool {
        // The cheap question first: the other one looks at every lane.
        if !(self.config.spin || self.reads_wait()) || !self.probe.only_awaits_echoes() {
            return false;
        }
        let waited = if self.config.spin { self.spin() } else { self.wait_in_read(now) };
        waited && !self.poll_budget.is_spent(now)
    }

    fn reads_wait(&mut self) -> bool {
        self.links.at(ALONE).is_some_and(|link| link.reads_wait)
    }

    /// Whether the next echo is waited for in a read: then the reactor is asked for what there is, and not waited for. An echo that
    /// comes through it takes longer, and a timer is set for nothing.
    pub(super) fn reads_wait_for_echo(&mut self) -> bool {
        self.reads_wait() && self.probe.only_awaits_echoes()
    }

    /// Until when the reactor may be waited for at the longest, so that it shows that this thread was kept from running: back to
    /// back nothing else says by when it is to run.
    pub(super) fn looks_by(&self, now: u64) -> Option<u64> {
        (self.config.pace == Pace::PingPong && self.pauses.is_some()).then_some(now + LOOK_EVERY_NS)
    }

    /// Tries every connection that owes an echo.
    fn spin(&mut self) -> bool {
        let tries = if self.config.pace == Pace::PingPong { TRIES } else { 1 };
        for _ in 0..tries {
            let mut came = false;
            for i in 0..self.probe.lanes() {
                let open = self.links.at(i).map(|link| link.id);
                if let Some(id) = open.filter(|id| self.probe.awaits_echo(*id)) {
                    self.leave_reactor(id);
                    came |= self.read_once(id, false).is_some();
                }
            }
            if came {
                break;
            }
        }
        true
    }

    fn wait_in_read(&mut self, now: u64) -> bool {
        let open = self.links.at(ALONE).map(|link| link.id);
        let Some(id) = open.filter(|id| self.probe.awaits_echo(*id)) else { return false };
        self.leave_reactor(id);
        self.rest_until(now + READ_WAITS.as_nanos() as u64);
        self.read_once(id, true).is_some()
    }

    /// Back to back the reactor is not told of a connection that is read all the time.
    fn leave_reactor(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(id) else { return };
        let told = link.news == News::Reactor && matches!(link.stage, Stage::Open);
        if !LEAVES_REACTOR || !told || self.config.pace != Pace::PingPong {
            return;
        }
        if self.reactor.registry().deregister(link.socket.source()).is_ok() {
            link.news = News::Reads;
        }
    }

    /// Tells the reactor again of those from which something else than an echo is wanted. What came meanwhile is news to it.
    pub(super) fn return_to_reactor(&mut self) {
        // The cheap question first: of all others none has left it.
        if self.config.pace != Pace::PingPong || !(self.config.spin || self.reads_wait()) {
            return;
        }
        let only_echoes = self.probe.only_awaits_echoes();
        for place in 0..self.probe.lanes() {
            let Some(link) = self.links.at(place).filter(|link| link.news == News::Reads) else { continue };
            let id = link.id;
            if only_echoes && self.probe.awaits_echo(id) {
                continue;
            }
            match Self::register(&self.reactor, &mut link.socket, id) {
                Ok(()) => link.news = News::Reactor,
                Err(e) => {
                    link.broken = true;
                    self.broken.push_back((id, e));
                }
            }
        }
        self.obey();
    }
}
