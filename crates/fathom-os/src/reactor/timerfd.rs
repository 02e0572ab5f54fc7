//! Deadlines by a timerfd among the polled descriptors.

use super::TIMER;
use crate::clock::mono_ns;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;

/// The timer and what it is set to.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: OwnedFd,
    /// The deadline the timer is running towards.
    running_to: Option<u64>,
    rate: Rate,
}

impl Alarm {
    pub(super) fn new(registry: &mio::Registry) -> io::Result<Self> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // mio registers for edges, and each expiry is one, so the timer is never read.
        registry.register(&mut mio::unix::SourceFd(&timer.as_raw_fd()), TIMER, mio::Interest::READABLE)?;
        let (raw, adjusted, _) = read_both();
        Ok(Self { timer, running_to: None, rate: Rate { raw, adjusted, ppb: 0 } })
    }

    /// Sees to it that a poll with the returned timeout ends at the deadline. Costs a system call only when the
    /// deadline is not the one the timer is already running towards.
    pub(super) fn set(&mut self, deadline_mono_ns: Option<u64>) -> io::Result<Option<Duration>> {
        let Some(deadline) = deadline_mono_ns else {
            if self.running_to.take().is_some() {
                self.arm(0)?;
            }
            return Ok(None);
        };
        let now = mono_ns();
        if now >= deadline {
            return Ok(Some(Duration::ZERO));
        }
        if self.running_to != Some(deadline) {
            self.rate.refresh(now);
            self.running_to = None;
            self.arm(self.rate.on_timer(deadline - now).max(1))?;
            self.running_to = Some(deadline);
        }
        Ok(None)
    }

    /// The timer is spent. Should its deadline not be reached yet by the other clock, it is set again.
    pub(super) fn went_off(&mut self) {
        self.running_to = None;
    }

    /// Starts the timer; 0 ns stops it.
    fn arm(&self, after_ns: u64) -> io::Result<()> {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: (after_ns / SECOND_NS) as i64, tv_nsec: (after_ns % SECOND_NS) as _ };
        let spec = Itimerspec { it_interval: never, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec)?;
        Ok(())
    }
}

/// How fast the timer's clock runs by ours.
///
/// Deadlines are on `CLOCK_MONOTONIC_RAW`, which no timer accepts. The timer runs on `CLOCK_MONOTONIC`, which the
/// clock discipline speeds up or slows down, by up to 500 ppm while it corrects: 0.5 ms on a wait of one second,
/// early or, worse, late. So the relative time is converted by the rate seen over the last second or more, and
/// what remains is the change of that rate. A timer that is early all the same is set again by the reactor.
#[derive(Debug)]
struct Rate {
    raw: u64,
    adjusted: u64,
    /// Ns that the timer's clock gains in a second of ours.
    ppb: i64,
}

impl Rate {
    fn refresh(&mut self, now: u64) {
        if now.saturating_sub(self.raw) >= SECOND_NS {
            let (raw, adjusted, width) = read_both();
            // A reading with a preemption inside is left out; the next call tries again.
            if width < 2_000 {
                self.observe(raw, adjusted);
            }
        }
    }

    fn observe(&mut self, raw: u64, adjusted: u64) {
        let ours = raw.saturating_sub(self.raw).max(1);
        let gained = adjusted.wrapping_sub(self.adjusted) as i64 - ours as i64;
        let ppb = i128::from(gained) * i128::from(SECOND_NS) / i128::from(ours);
        // Beyond 1,000 ppm (twice what adjtimex(2) allows) it is not the discipline but a machine that was suspended.
        self.ppb = if ppb.unsigned_abs() <= 1_000_000 { ppb as i64 } else { 0 };
        self.raw = raw;
        self.adjusted = adjusted;
    }

    /// The same span on the timer's clock.
    fn on_timer(&self, span_ns: u64) -> u64 {
        let gain = i128::from(span_ns) * i128::from(self.ppb) / i128::from(SECOND_NS);
        (i128::from(span_ns) + gain).clamp(1, i128::from(i64::MAX)) as u64
    }
}

/// Both clocks at one moment, and the width of that moment, in ns.
fn read_both() -> (u64, u64, u64) {
    let before = mono_ns();
    let adjusted = clock_gettime(ClockId::Monotonic);
    let width = mono_ns() - before;
    (before + width / 2, adjusted.tv_sec as u64 * SECOND_NS + adjusted.tv_nsec as u64, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_follow_the_rate_of_the_timers_clock() {
        let mut rate = Rate { raw: 0, adjusted: 77, ppb: 0 };
        assert_eq!(rate.on_timer(SECOND_NS), SECOND_NS);
        // 400 ppm fast: in 10 s the timer's clock gains 4 ms.
        rate.observe(10 * SECOND_NS, 77 + 10 * SECOND_NS + 4_000_000);
        assert_eq!(rate.on_timer(SECOND_NS), SECOND_NS + 400_000);
        // Then 500 ppm slow.
        rate.observe(12 * SECOND_NS, 77 + 12 * SECOND_NS + 4_000_000 - 1_000_000);
        assert_eq!(rate.on_timer(2 * SECOND_NS), 2 * SECOND_NS - 1_000_000);
    }

    #[test]
    fn a_jump_is_no_rate() {
        let mut rate = Rate { raw: 0, adjusted: 0, ppb: 0 };
        rate.observe(SECOND_NS, 2 * SECOND_NS);
        assert_eq!(rate.on_timer(SECOND_NS), SECOND_NS);
        rate.observe(2 * SECOND_NS, 3 * SECOND_NS + 1_000);
        assert_eq!(rate.on_timer(SECOND_NS), SECOND_NS + 1_000);
    }
}
