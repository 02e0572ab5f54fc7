//! How the probing thread waits for an echo without the reactor, back to back, where the system calls of a round trip are
//! part of what is measured.
//!
//! Through the reactor a round trip takes a wait, a read and a write, and the read begins after the wake-up. With one
//! connection the read itself can wait; with `--spin` it can be tried again and again. Everything else (timers, the
//! end of the run, names, pauses) is looked at every few milliseconds.

use super::config::{Config, Transport};
use super::driver::Driver;
use super::lane::{Lane, Link};
use super::link::Socket;
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

/// When the reactor was asked last.
#[derive(Debug, Default)]
pub(super) struct Looks {
    last_ns: u64,
}

impl Looks {
    fn due(&mut self, now_ns: u64) -> bool {
        let due = now_ns.saturating_sub(self.last_ns) >= LOOK_EVERY_NS;
        if due {
            self.last_ns = now_ns;
        }
        due
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
        if self.origin_ns.is_none() || !self.has_nothing_but_echoes_to_come() {
            return false;
        }
        let waited = if self.config.spin { self.spin() } else { self.wait_in_read() };
        waited && !self.looks.due(now)
    }

    /// Whether connections are only read from: none is being made, asked about, or waits for room to write.
    fn has_nothing_but_echoes_to_come(&self) -> bool {
        let at_rest = |lane: &Lane| match &lane.link {
            Link::Open(open) => !open.blocked,
            Link::Opening(_) => false,
            Link::Idle | Link::Done => true,
        };
        !self.awaits_opinions() && self.lanes.iter().all(at_rest)
    }

    /// Tries every connection that owes an echo.
    fn spin(&mut self) -> bool {
        let tries = if self.config.pace == Pace::PingPong { TRIES } else { 1 };
        for _ in 0..tries {
            let mut came = false;
            for i in 0..self.lanes.len() {
                if self.lanes[i].open().is_some_and(|open| !open.stream.is_idle()) {
                    came |= self.read_once(i, false).is_some();
                }
            }
            if came {
                break;
            }
        }
        true
    }

    /// Sends the next sample before the echo that lets it go is looked at: what is done with an echo (it is compared,
    /// counted and handed on) then falls into the time of the next round trip, and not between two of them. Only where the
    /// `n` bytes read at `now` end the one echo that is owed. If they are not what was sent, one sample more is under way.
    pub(super) fn send_ahead(&mut self, i: usize, now: u64, n: usize) {
        let plain = self.config.pace == Pace::PingPong
            && self.config.transport == Transport::Tcp
            && self.config.sizes.is_empty()
            && !self.stopping;
        let lane = &mut self.lanes[i];
        let plain = plain && lane.gaps.is_none();
        let ends = lane
            .open()
            .is_some_and(|open| !open.stamped && open.watch.current().is_none() && open.stream.owes_just(n));
        if !plain || !ends {
            return;
        }
        if let Some(schedule) = &mut lane.schedule {
            schedule.resolved(now);
        }
        // What cannot be written now cannot be written after the echo has been taken either, and is told then.
        let _ = self.send_due(i);
    }

    fn wait_in_read(&mut self) -> bool {
        self.lanes.len() == 1 && may_wait(&mut self.lanes[0]) && self.read_once(0, true).is_some()
    }
}

/// Whether an echo is all that a lane waits for. During a stall others are asked about it: that is the reactor's.
fn may_wait(lane: &mut Lane) -> bool {
    lane.open()
        .is_some_and(|open| open.reads_wait && !open.stream.is_idle() && open.watch.current().is_none())
}
