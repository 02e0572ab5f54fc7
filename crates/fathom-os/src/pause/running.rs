//! A thread that says when it runs and when it rests, and so learns when it was kept from running.
//!
//! A clock's thread is light: a busy host runs it at once, while a thread beside it that works all the time waits for its
//! turn. So that it does is not to be seen from another thread.

use super::{Gap, Shared, system};

/// One thread's word on itself. To be made, and asked, by the thread that it is of.
#[derive(Debug)]
pub struct Running {
    gap: Gap,
    /// From when on this thread is to run.
    wanted_ns: u64,
    /// How many pauses it knows of.
    known: u64,
    /// Those that it learned of last.
    learned: Vec<(u64, u64)>,
    /// What the kernel has counted for it: opened by itself when it first has time.
    counts: Option<system::Counts>,
    /// What that was, and when.
    base: Option<(u64, system::Counted)>,
}

impl Running {
    /// A thread that has not run yet.
    pub fn new(gap: Gap) -> Self {
        let known = gap.0.dues.count();
        Self { gap, wanted_ns: u64::MAX, known, learned: Vec::new(), counts: None, base: None }
    }

    /// For another thread.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self::new(self.gap.clone())
    }

    /// This thread runs at `now_mono_ns`, which it has just read: the pauses that it learns of now (from, to), as they were noticed.
    /// Nothing of the process ran in one, or a thread did not although it was to ([`Running::rests_until`]). After a pause threads
    /// wake in any order, and each learns of it here, once. The clock tells it too, and why.
    #[inline]
    pub fn runs(&mut self, now_mono_ns: u64) -> &[(u64, u64)] {
        let wanted_ns = std::mem::replace(&mut self.wanted_ns, now_mono_ns);
        let dues = &self.gap.0.dues;
        let all_late = dues.ran(now_mono_ns);
        let is_late = now_mono_ns.saturating_sub(wanted_ns) > dues.threshold_ns();
        if !all_late && !is_late && dues.count() == self.known {
            return &[];
        }
        self.came_late(is_late.then_some(wanted_ns), now_mono_ns)
    }

    #[cold]
    fn came_late(&mut self, wanted_ns: Option<u64>, now: u64) -> &[(u64, u64)] {
        // Also where nothing of the process ran: this thread may have been kept from running for longer.
        if let Some(wanted_ns) = wanted_ns {
            self.of_this_thread(wanted_ns, now);
        }
        let Shared { dues, alarm, .. } = &*self.gap.0;
        if dues.is_untold() {
            alarm.set(now);
        }
        (self.learned, self.known) = dues.since(self.known);
        &self.learned
    }

    fn of_this_thread(&mut self, wanted_ns: u64, now: u64) {
        if let Some(counted) = self.counts.as_ref().and_then(system::Counts::read) {
            self.missed(wanted_ns, now, counted);
        }
    }

    fn missed(&mut self, wanted_ns: u64, now: u64, counted: system::Counted) {
        let Some((_, before)) = self.base else { return };
        self.count_from(now, counted);
        let worked_ns = counted.ran_ns.saturating_sub(before.ran_ns);
        let began = wanted_ns.saturating_add(worked_ns);
        if now.saturating_sub(began) > self.gap.0.dues.threshold_ns() {
            let waited_ns = counted.waited_ns.saturating_sub(before.waited_ns);
            self.gap.0.dues.thread_missed(began, now, waited_ns);
        }
    }

    /// This thread waits for something, at most until then (`u64::MAX`: as long as it takes).
    #[inline]
    pub fn rests_until(&mut self, at_mono_ns: u64) {
        self.wanted_ns = at_mono_ns;
    }

    /// Puts the clock's next tick off, and takes note of the kernel's counts, where it is time: two system calls, for a moment in
    /// which nothing waits for this thread. To be called before [`Running::rests_until`]: what this thread was kept from since it last
    /// said that it runs, in a send it may be, is noted here, and learned of by [`Running::runs`].
    #[inline]
    pub fn put_off(&mut self, now_mono_ns: u64) {
        if now_mono_ns.saturating_sub(self.wanted_ns) > self.gap.0.dues.threshold_ns() {
            let wanted_ns = std::mem::replace(&mut self.wanted_ns, now_mono_ns);
            self.of_this_thread(wanted_ns, now_mono_ns);
        }
        if let Some(at) = self.gap.0.dues.put_off() {
            self.gap.0.alarm.set(at);
        }
        if self.base.is_none_or(|(at, _)| now_mono_ns.saturating_sub(at) >= super::COUNTED_EVERY_NS) {
            let counts = self.counts.get_or_insert_with(system::Counts::open);
            match counts.read() {
                Some(counted) => self.count_from(now_mono_ns, counted),
                None => self.base = None,
            }
        }
    }

    /// Takes these counts, read just now, as those from which what it waits next is counted; unless it waited since it last said that it
    /// runs. That may be of a pause that nobody has told yet, and of one in which a thread did not wait it is said that it was stopped.
    fn count_from(&mut self, now_mono_ns: u64, counted: system::Counted) {
        let Shared { dues, clock, .. } = &*self.gap.0;
        // Of the shortest pause this is a quarter.
        let little_ns = dues.threshold_ns() / 4;
        let waited_ns = self.base.map_or(0, |(_, before)| counted.waited_ns.saturating_sub(before.waited_ns));
        if waited_ns <= little_ns || clock().saturating_sub(self.wanted_ns) <= little_ns {
            self.base = Some((now_mono_ns, counted));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pause::dues::{Dues, Span, Whose};
    use std::cell::Cell;
    use std::sync::Arc;

    const MS: u64 = 1_000_000;
    const NONE: [(u64, u64); 0] = [];

    fn gap() -> Gap {
        let dues = Dues::new(12 * MS, 20 * MS);
        dues.ticked(1_000 * MS, 1_000 * MS);
        Gap(Arc::new(Shared { dues, alarm: system::Alarm::new().expect("a timer"), clock: || CLOCK.get() }))
    }

    thread_local! {
        static CLOCK: Cell<u64> = const { Cell::new(1_000 * MS) };
    }

    /// A probe is kept from running mostly as it sends: its peer wakes on its processor, and runs. It had said before that it runs, and
    /// then took its counts anew: what it had waited was forgotten, and 214 of 219 such pauses were told as a stop (`--spin --every 20ms`
    /// beside three busy loops on its processor).
    #[test]
    #[cfg(target_os = "linux")]
    fn unreported_thread_wait_is_kept_until_reported() {
        let mut worker = Running::new(gap());
        // Of it the kernel has counted so much by then.
        let counts = |worker: &mut Running, at_ms: u64, waited_ms: u64| {
            CLOCK.set(at_ms * MS);
            worker.count_from(at_ms * MS, system::Counted { ran_ns: 0, waited_ns: waited_ms * MS });
            worker.base.map(|(at, _)| at / MS)
        };
        let told = |worker: &mut Running, now_ms: u64, waited_ms: u64| {
            let wanted_ns = std::mem::replace(&mut worker.wanted_ns, now_ms * MS);
            CLOCK.set(now_ms * MS);
            let counted = system::Counted { ran_ns: 0, waited_ns: waited_ms * MS };
            worker.missed(wanted_ns, now_ms * MS, counted);
            let spans = worker.gap.0.dues.take();
            spans.iter().map(|span| (span.duration_ns() / MS, span.of)).collect::<Vec<_>>()
        };
        let of = |waited_ms: u64| Whose::Thread(waited_ms * MS);
        worker.wanted_ns = 1_000 * MS;
        assert_eq!(counts(&mut worker, 1_001, 100), Some(1_001));
        assert_eq!(counts(&mut worker, 1_004, 103), Some(1_004), "a little, and just now");
        // It waits between its word and this, and is told of it only then.
        assert_eq!(counts(&mut worker, 1_050, 149), Some(1_004));
        assert_eq!(told(&mut worker, 1_051, 149), [(51, of(46))]);
        // What came next it waited for too, and what it was told is not told again.
        assert_eq!(told(&mut worker, 1_151, 159), [(100, of(10))]);
        // It was stopped: there is nothing to be forgotten.
        assert_eq!(counts(&mut worker, 1_651, 160), Some(1_651));
        assert_eq!(told(&mut worker, 1_652, 160), [(501, of(0))]);
        // A thread that rests waits for nothing.
        worker.rests_until(u64::MAX);
        assert_eq!(counts(&mut worker, 2_000, 400), Some(2_000));
    }

    /// A thread that reads back to back is kept from running while it sends, and waits for the echo afterwards: what it waited for was
    /// forgotten, and the echo was the path's (a stranger: `path_down`, sure, on loopback).
    #[test]
    #[cfg(target_os = "linux")]
    fn next_read_learns_of_pause_before_rest() {
        let gap = gap();
        let (mut clock, mut worker) = (Running::new(gap.clone()), Running::new(gap));
        worker.runs(1_001 * MS);
        worker.put_off(1_001 * MS);
        for at in (1_012..=1_450).step_by(12) {
            assert_eq!(*clock.runs(at * MS), NONE);
            clock.rests_until(u64::MAX);
        }
        worker.put_off(1_450 * MS);
        worker.rests_until(1_460 * MS);
        let learned = worker.runs(1_451 * MS).to_vec();
        assert_eq!(learned.len(), 1, "{learned:?}");
        assert!(learned[0].0 < 1_100 * MS && learned[0].1 == 1_450 * MS, "{learned:?}");
        worker.put_off(1_451 * MS);
        assert_eq!(*worker.runs(1_452 * MS), NONE);
        assert_eq!(clock.gap.0.dues.take().len(), 1);
    }

    /// After a pause the clock's thread may run first, and a thread that reads an echo next: the echo waited for that pause.
    #[test]
    fn every_thread_learns_of_pause_once() {
        let gap = gap();
        let (mut clock, mut busy, mut resting) =
            (Running::new(gap.clone()), Running::new(gap.clone()), Running::new(gap));
        for thread in [&mut clock, &mut busy, &mut resting] {
            assert_eq!(*thread.runs(1_001 * MS), NONE);
        }
        busy.rests_until(1_002 * MS);
        resting.rests_until(u64::MAX);
        let pause = clock.runs(1_500 * MS).to_vec();
        assert_eq!((pause.len(), pause[0].1), (1, 1_500 * MS));
        assert_eq!((busy.runs(1_501 * MS), resting.runs(1_502 * MS)), (&pause[..], &pause[..]));
        for thread in [&mut clock, &mut busy, &mut resting] {
            assert_eq!(*thread.runs(1_503 * MS), NONE);
        }
        assert_eq!(*clock.beside().runs(1_504 * MS), NONE, "that was before it began");
        assert_eq!(clock.gap.0.dues.take().len(), 1);
    }

    /// A thread is kept from running, and for a part of that time the clock's own too. Whoever comes back first, all of it is told.
    #[test]
    #[cfg(target_os = "linux")]
    fn wake_order_does_not_shorten_reported_pause() {
        for clock_first in [true, false] {
            let gap = gap();
            let (mut clock, mut worker) = (Running::new(gap.clone()), Running::new(gap));
            worker.runs(1_001 * MS);
            // By the kernel's count it has not run since.
            worker.put_off(1_001 * MS);
            for at in (1_012..=2_000).step_by(12) {
                assert_eq!(*clock.runs(at * MS), NONE);
                clock.rests_until(u64::MAX);
            }
            let mut learned = Vec::new();
            if clock_first {
                clock.runs(3_000 * MS);
            }
            learned.extend_from_slice(worker.runs(3_001 * MS));
            let ms = |ns: u64| ns / MS;
            let missed: u64 = learned.iter().map(|(from, to)| ms(*to) - ms(*from)).sum();
            assert!((1_970..=2_000).contains(&missed), "{clock_first}: {learned:?}");
            let told: u64 = worker.gap.0.dues.take().iter().map(Span::duration_ns).sum();
            assert!(ms(told).abs_diff(missed) <= 2, "{clock_first}: {told} {learned:?}");
        }
    }
}
