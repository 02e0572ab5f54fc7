//! The reflector's clocks: stamps, and the time it could not run.

use fathom_core::clock::{Anchor, ClockMap, Observation};
use fathom_os::clock::{anchor, mono_ns};
use fathom_os::pause::{Covered, DEFAULT_THRESHOLD, PauseClock, Running};
use fathom_wire::{ConnectionView, Introduction, LongPauses, Silence, WAKING_NS};
use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the wall clock is compared with the monotonic one while there are peers.
pub(crate) const OBSERVE_EVERY_NS: u64 = 1_000_000_000;

/// Clocks, read by one thread; another has its own [`Clock::beside`] them.
#[derive(Debug)]
pub(crate) struct Clock {
    map: ClockMap,
    /// A copy of the anchor in force, beside the pause count, since every message reads both.
    anchor: Anchor,
    observed_ns: u64,
    paused: Arc<Paused>,
    watch: Option<Watch>,
    identity: u32,
    began_ns: u64,
    /// How often the wall clock was set.
    epoch: u8,
}

/// What notices pauses.
#[derive(Debug)]
struct Watch {
    running: RefCell<Running>,
    /// Keeps the thread alive; `None`: it is another clock's.
    _clock: Option<PauseClock>,
}

/// Time this process did not run. The pause clock's thread and the serving thread both learn of a pause, in any order;
/// it is counted once.
#[derive(Debug, Default)]
struct Paused {
    total_ns: AtomicU64,
    /// When the latest pause ended; 0: there was none.
    ended_ns: AtomicU64,
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    covered: Covered,
    long: LongPauses,
}

impl Paused {
    fn count(&self, began_ns: u64, ended_ns: u64) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        for (from, to) in counted.covered.add(began_ns, ended_ns, DEFAULT_THRESHOLD.as_nanos() as u64) {
            self.total_ns.fetch_add(to - from, Ordering::Relaxed);
            self.ended_ns.fetch_max(to, Ordering::Relaxed);
            let (from, to) = counted.covered.whole((from, to));
            counted.long.add(from, to);
        }
    }

    /// The long pause to tell of: how many ms ago it ended, and how many it lasted.
    fn long_ms(&self, now_ns: u64, silence: Option<Silence>) -> Option<(u32, u32)> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).long.told(now_ns, silence)
    }
}

/// Whole milliseconds, as answers tell them: the largest number stands for nothing known.
pub(crate) fn ms(ns: u64) -> u32 {
    u32::try_from(ns / 1_000_000).unwrap_or(u32::MAX).min(u32::MAX - 1)
}

impl Clock {
    pub(crate) fn new(identity: u32) -> Self {
        let anchor = anchor();
        Self {
            map: ClockMap::new(anchor),
            anchor,
            observed_ns: anchor.mono_ns,
            paused: Arc::default(),
            watch: None,
            identity,
            began_ns: anchor.mono_ns,
            epoch: 0,
        }
    }

    /// The same clock for another thread: the pauses are counted together.
    pub(crate) fn beside(&self) -> Self {
        Self {
            map: self.map.clone(),
            anchor: self.anchor,
            observed_ns: self.observed_ns,
            paused: Arc::clone(&self.paused),
            watch: self
                .watch
                .as_ref()
                .map(|watch| Watch { running: RefCell::new(watch.running.borrow().beside()), _clock: None }),
            identity: self.identity,
            began_ns: self.began_ns,
            epoch: self.epoch,
        }
    }

    /// From now on notices when this process does not run, by a clock that ticks so often.
    pub(crate) fn watch_pauses(&mut self, period: Duration) -> io::Result<()> {
        let paused = Arc::clone(&self.paused);
        let clock = PauseClock::start(period, DEFAULT_THRESHOLD.max(period), move |pause| {
            paused.count(pause.began_mono_ns, pause.ended_mono_ns);
        })?;
        self.watch = Some(Watch { running: RefCell::new(Running::new(clock.gap())), _clock: Some(clock) });
        Ok(())
    }

    /// What a stamp says of bytes that were read at `received_mono_ns` and are written now. Both times come from
    /// the monotonic clock through one anchor, so their difference is a true interval whatever the wall clock does.
    #[inline]
    pub(crate) fn view(&self, received_mono_ns: u64) -> ConnectionView {
        let now_ns = mono_ns();
        let pause_us = (self.paused_ns(now_ns) / 1_000) as u32;
        let ended_ns = self.paused.ended_ns.load(Ordering::Relaxed);
        ConnectionView {
            received_ns: self.anchor.utc_of(received_mono_ns),
            sent_ns: self.anchor.utc_of(now_ns),
            pause_us,
            identity: self.identity,
            waited: ended_ns > 0 && received_mono_ns < ended_ns + WAKING_NS,
            epoch: self.epoch,
            tells_pauses: self.watch.is_some(),
        }
    }

    /// Who this is, in an answer, and how it stood still in the silence asked about. The caller adds what it knows of the
    /// connection.
    pub(crate) fn introduction(&self, silence: Option<Silence>) -> Introduction {
        let now_ns = mono_ns();
        self.paused_ns(now_ns);
        Introduction {
            age_ns: now_ns.saturating_sub(self.began_ns),
            identity: self.identity,
            pause_ms: self.paused.long_ms(now_ns, silence),
            ..Introduction::default()
        }
    }

    /// UTC of a monotonic stamp, as stamps have it.
    pub(crate) fn utc_of(&self, mono_ns: u64) -> i64 {
        self.anchor.utc_of(mono_ns)
    }

    /// Time this process did not run up to now, in ns: what the pause clock has told, and a pause that has just ended and
    /// that its thread has not come to tell, so that the first echo after a pause speaks of it. 0 without a watch.
    #[inline]
    pub(crate) fn paused_ns(&self, now_ns: u64) -> u64 {
        // Whoever asks runs.
        if let Some(Watch { running, .. }) = &self.watch {
            let mut running = running.borrow_mut();
            running.runs(now_ns).iter().for_each(|&(began, ended)| self.paused.count(began, ended));
        }
        self.paused.total_ns.load(Ordering::Relaxed)
    }

    /// The thread has sent what it had to send, and waits for something, at most until then (`None`: as long as it takes).
    pub(crate) fn rests(&self, now_ns: u64, until_ns: Option<u64>) {
        if let Some(Watch { running, .. }) = &self.watch {
            let mut running = running.borrow_mut();
            running.put_off(now_ns);
            running.rests_until(until_ns.unwrap_or(u64::MAX));
        }
    }

    /// The thread has sent what it had to send, and goes on without waiting.
    pub(crate) fn goes_on(&self, now_ns: u64) {
        if let Some(Watch { running, .. }) = &self.watch {
            running.borrow_mut().put_off(now_ns);
        }
    }

    /// Compares the clocks when it is time; says by how many ns the wall clock was set, if it was.
    pub(crate) fn observe(&mut self, now_ns: u64) -> Option<i64> {
        if now_ns.saturating_sub(self.observed_ns) < OBSERVE_EVERY_NS {
            return None;
        }
        self.observed_ns = now_ns;
        let seen = self.map.observe(anchor());
        self.anchor = self.map.anchor();
        match seen {
            Observation::Stepped(step_ns) => {
                self.epoch = self.epoch.wrapping_add(1) % 4;
                Some(step_ns)
            }
            Observation::Steady | Observation::Anchored => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_pauses_are_counted_once() {
        const MS: u64 = 1_000_000;
        let paused = Paused::default();
        let total_ms = || paused.total_ns.load(Ordering::Relaxed) / MS;
        // The serving thread first, the clock's own a moment later.
        paused.count(1_000 * MS, 3_000 * MS);
        assert_eq!(total_ms(), 2_000);
        paused.count(1_000 * MS, 3_004 * MS);
        assert_eq!(total_ms(), 2_000);
        // The clock's own first.
        paused.count(5_000 * MS, 5_060 * MS);
        paused.count(5_000 * MS, 5_061 * MS);
        assert_eq!(total_ms(), 2_060);
        // A pause right after a pause is another one.
        paused.count(5_000 * MS, 5_160 * MS);
        assert_eq!(total_ms(), 2_160);
        // What lay before one that is counted, and is told after it.
        paused.count(4_500 * MS, 5_160 * MS);
        assert_eq!(total_ms(), 2_660);
        assert_eq!(paused.ended_ns.load(Ordering::Relaxed), 5_160 * MS);
        assert_eq!(paused.long_ms(6_160 * MS, None), Some((1_000, 660)), "in pieces it is one");
    }

    #[test]
    fn stamps_carry_the_count() {
        let clock = Clock::new(7);
        assert_eq!(clock.view(mono_ns()).pause_us, 0);
        clock.paused.count(1_000_000_000, 6_000_000_000);
        assert_eq!(clock.view(mono_ns()).pause_us, 5_000_000);
    }

    #[test]
    fn read_after_pause_is_marked_waited() {
        const MS: u64 = 1_000_000;
        let clock = Clock::new(7);
        assert!(!clock.view(mono_ns()).waited, "there was no pause");
        let now = mono_ns();
        clock.paused.count(now.saturating_sub(3_000 * MS), now.saturating_sub(1_000 * MS));
        assert!(clock.view(now - 995 * MS).waited);
        assert!(!clock.view(now - 850 * MS).waited);
        let (ago, lasted) = clock.introduction(None).pause_ms.expect("a long pause");
        assert_eq!(lasted, 2_000);
        assert!(ago >= 1_000);
        // A short one is no stall of its own, and does not hide the long one.
        clock.paused.count(now - 100 * MS, now);
        assert_eq!(clock.introduction(None).pause_ms.map(|(_, lasted)| lasted), Some(2_000));
    }

    #[test]
    fn a_message_never_leaves_before_it_came() {
        let clock = Clock::new(7);
        for _ in 0..1_000 {
            let view = clock.view(mono_ns());
            assert!(view.sent_ns >= view.received_ns);
        }
    }
}
