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
        let Shared { dues, alarm } = &*self.gap.0;
        if dues.is_untold() {
            alarm.set(now);
        }
        (self.learned, self.known) = dues.since(self.known);
        &self.learned
    }

    fn of_this_thread(&self, wanted_ns: u64, now: u64) {
        let Some((_, before)) = self.base else { return };
        let Some(counted) = self.counts.as_ref().and_then(system::Counts::read) else { return };
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
    /// which nothing waits for this thread.
    #[inline]
    pub fn put_off(&mut self, now_mono_ns: u64) {
        if let Some(at) = self.gap.0.dues.put_off() {
            self.gap.0.alarm.set(at);
        }
        if self.base.is_none_or(|(at, _)| now_mono_ns.saturating_sub(at) >= super::COUNTED_EVERY_NS) {
            let counts = self.counts.get_or_insert_with(system::Counts::open);
            self.base = counts.read().map(|counted| (now_mono_ns, counted));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pause::dues::{Dues, Span};
    use std::sync::Arc;

    const MS: u64 = 1_000_000;
    const NONE: [(u64, u64); 0] = [];

    fn gap() -> Gap {
        let dues = Dues::new(12 * MS, 20 * MS);
        dues.ticked(1_000 * MS, 1_000 * MS);
        Gap(Arc::new(Shared { dues, alarm: system::Alarm::new().expect("a timer") }))
    }

    /// After a pause the clock's thread may run first, and a thread that reads an echo next: the echo waited for that pause.
    #[test]
    fn every_thread_learns_of_a_pause_once_whoever_noticed_it() {
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
    fn all_that_a_thread_missed_is_told_whoever_wakes_first() {
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
