//! A thread that says when it runs and when it rests, and so learns when it was kept from running.
//!
//! A clock's thread is light: a busy host runs it at once, while a thread beside it that works all the time waits for its
//! turn. So that it does is not to be seen from another thread.

use super::{Gap, system};

/// One thread's word on itself. To be made, and asked, by the thread that it is of.
#[derive(Debug)]
pub struct Running {
    gap: Gap,
    /// From when on this thread is to run.
    wanted_ns: u64,
    /// How many pauses it knows of, and the last that it learned of.
    known: u64,
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

    /// This thread runs at `now_mono_ns`, which it has just read: the pause that has ended since it last said so, if one has: from,
    /// to. Nothing of the process ran in it, or a thread did not although it was to ([`Running::rests_until`]). After a pause threads
    /// wake in any order, and each is told of it here, once; where it is in pieces, of the last, and [`Running::learned`] has them all.
    /// The clock tells it too, and why.
    #[inline]
    pub fn runs(&mut self, now_mono_ns: u64) -> Option<(u64, u64)> {
        let wanted_ns = std::mem::replace(&mut self.wanted_ns, now_mono_ns);
        let of_all = self.gap.0.dues.ran(now_mono_ns);
        let is_late = now_mono_ns.saturating_sub(wanted_ns) > self.gap.0.dues.threshold_ns();
        if of_all.is_none() && !is_late && self.gap.0.dues.count() == self.known {
            return None;
        }
        self.came_late(of_all, wanted_ns, now_mono_ns)
    }

    #[cold]
    fn came_late(&mut self, of_all: Option<(u64, u64)>, wanted_ns: u64, now: u64) -> Option<(u64, u64)> {
        let noticed = of_all.or_else(|| self.of_this_thread(wanted_ns, now));
        if noticed.is_some() {
            // It is told at once.
            self.gap.0.alarm.set(now);
        }
        // Another thread may have noticed it before.
        (self.learned, self.known) = self.gap.0.dues.since(self.known);
        noticed.or_else(|| self.learned.last().copied())
    }

    /// All of what the latest [`Running::runs`] that told something was the first to tell this thread of.
    pub fn learned(&self) -> &[(u64, u64)] {
        &self.learned
    }

    fn of_this_thread(&self, wanted_ns: u64, now: u64) -> Option<(u64, u64)> {
        let (_, before) = self.base?;
        let counted = self.counts.as_ref()?.read()?;
        let worked_ns = counted.ran_ns.saturating_sub(before.ran_ns);
        let began = wanted_ns.saturating_add(worked_ns);
        if now.saturating_sub(began) <= self.gap.0.dues.threshold_ns() {
            return None;
        }
        let waited_ns = counted.waited_ns.saturating_sub(before.waited_ns);
        self.gap.0.dues.thread_missed(began, now, waited_ns)
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
    use crate::pause::{Shared, dues::Dues};
    use std::sync::Arc;

    const MS: u64 = 1_000_000;

    /// After a pause the clock's thread may run first, and a thread that reads an echo next: the echo waited for that pause.
    #[test]
    fn every_thread_learns_of_a_pause_once_whoever_noticed_it() {
        let dues = Dues::new(12 * MS, 20 * MS);
        dues.ticked(1_000 * MS, 1_000 * MS);
        let gap = Gap(Arc::new(Shared { dues, alarm: system::Alarm::new().expect("a timer") }));
        let (mut clock, mut busy, mut resting) =
            (Running::new(gap.clone()), Running::new(gap.clone()), Running::new(gap));
        for thread in [&mut clock, &mut busy, &mut resting] {
            assert_eq!(thread.runs(1_001 * MS), None);
        }
        busy.rests_until(1_002 * MS);
        resting.rests_until(u64::MAX);
        let pause = clock.runs(1_500 * MS).expect("a pause");
        assert_eq!(pause.1, 1_500 * MS);
        assert_eq!((busy.runs(1_501 * MS), resting.runs(1_502 * MS)), (Some(pause), Some(pause)));
        for thread in [&mut clock, &mut busy, &mut resting] {
            assert_eq!(thread.runs(1_503 * MS), None);
        }
        assert_eq!(clock.beside().runs(1_504 * MS), None, "that was before it began");
        assert_eq!(clock.gap.0.dues.take().len(), 1);
    }
}
