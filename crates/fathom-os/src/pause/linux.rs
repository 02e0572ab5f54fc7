//! Sleeping and the kernel's accounts of a thread, on Linux.

use crate::clock::mono_ns;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

const SECOND_NS: u64 = 1_000_000_000;
/// A tick that is no later than this has not waited for a processor to speak of.
const PUNCTUAL_NS: u64 = 250_000;

/// Wakes the clock's thread. Other threads may set it again while that sleeps, which wakes nobody.
#[derive(Debug)]
pub(super) struct Alarm(OwnedFd);

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?))
    }

    /// Goes off at a time of [`mono_ns`], which no timer takes: the same span on `CLOCK_MONOTONIC`, as an absolute time,
    /// so that a preemption between here and the kernel does not lengthen it. Their rates differ too little to matter here.
    pub(super) fn set(&self, at_mono_ns: u64) {
        // In this order: a pause between the two shortens the span.
        let now = clock_gettime(ClockId::Monotonic);
        let remaining = at_mono_ns.saturating_sub(mono_ns());
        let at = now.tv_sec as u64 * SECOND_NS + now.tv_nsec as u64 + remaining;
        let at = Timespec { tv_sec: (at / SECOND_NS) as i64, tv_nsec: (at % SECOND_NS) as _ };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: at };
        // It fails on wrong arguments alone; were it to, the thread sleeps to the time that was set before.
        let _ = timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &once);
    }

    /// Sleeps until then, or what it is set to meanwhile.
    pub(super) fn sleep_until(&self, at_mono_ns: u64) {
        self.set(at_mono_ns);
        // A signal's handler ran here: sleep on.
        while rustix::io::read(&self.0, &mut [0; 8]) == Err(rustix::io::Errno::INTR) {}
    }
}

/// What the kernel has counted for this thread and this machine. The files stay open: reading one anew at offset 0
/// makes it up anew.
pub(super) struct Accounts {
    counts: Counts,
    stat: Option<File>,
    /// Ns for each step of `/proc/stat`.
    step_ns: u64,
    run_queue_ns: Option<u64>,
    steal_ns: Option<u64>,
    steal_read_at: Option<u64>,
}

impl Accounts {
    /// Must be opened by the thread it is to count: `thread-self` is resolved here.
    pub(super) fn open() -> Self {
        // SAFETY: sysconf has no preconditions.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        Self {
            counts: Counts::open(),
            stat: File::open("/proc/stat").ok(),
            step_ns: SECOND_NS / u64::try_from(per_second).unwrap_or(100).max(1),
            run_queue_ns: None,
            steal_ns: None,
            steal_read_at: None,
        }
    }

    /// Takes the state from which [`Self::since_refresh`] counts, once in a while. A tick that was late without being
    /// a pause may have waited for a processor, and that must not be laid on the next pause.
    pub(super) fn refresh(&mut self, now: u64, late_ns: u64) {
        if late_ns > PUNCTUAL_NS || self.due_at(now) {
            self.run_queue_ns = self.waited_ns();
        }
        if self.due_at(now) {
            self.steal_ns = self.read_steal_ns();
            self.steal_read_at = Some(now);
        }
    }

    fn due_at(&self, now: u64) -> bool {
        self.steal_read_at.is_none_or(|at| now.saturating_sub(at) >= super::ACCOUNTS_WINDOW_NS)
    }

    /// Ns waited in the run queue, and ns stolen, since the last refresh, which this is one of too.
    pub(super) fn since_refresh(&mut self, now: u64) -> (Option<u64>, Option<u64>) {
        let since = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        let (run_queue_ns, steal_ns) = (self.waited_ns(), self.read_steal_ns());
        self.steal_read_at = Some(now);
        let before = (
            std::mem::replace(&mut self.run_queue_ns, run_queue_ns),
            std::mem::replace(&mut self.steal_ns, steal_ns),
        );
        (since(run_queue_ns, before.0), since(steal_ns, before.1))
    }

    fn waited_ns(&self) -> Option<u64> {
        self.counts.read().map(|counted| counted.waited_ns)
    }

    fn read_steal_ns(&self) -> Option<u64> {
        Some(steal_steps(head(self.stat.as_ref()?, &mut [0; 512])?)? * self.step_ns)
    }
}

/// What the kernel has counted for the thread that opened it.
#[derive(Debug)]
pub(super) struct Counts(Option<File>);

#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    /// On a processor, in ns; right to a tick of the scheduler.
    pub(super) ran_ns: u64,
    /// Able to run, and waiting for a processor, in ns.
    pub(super) waited_ns: u64,
}

impl Counts {
    pub(super) fn open() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    pub(super) fn read(&self) -> Option<Counted> {
        counted(head(self.0.as_ref()?, &mut [0; 128])?)
    }
}

fn head<'a>(file: &File, buffer: &'a mut [u8]) -> Option<&'a str> {
    let length = file.read_at(buffer, 0).ok()?;
    std::str::from_utf8(&buffer[..length]).ok()
}

/// "Time spent on the cpu, time spent waiting on a runqueue, # of timeslices", the first two in ns
/// (<https://www.kernel.org/doc/html/latest/scheduler/sched-stats.html>).
fn counted(schedstat: &str) -> Option<Counted> {
    let mut numbers = schedstat.split_ascii_whitespace();
    let mut next = || numbers.next()?.parse().ok();
    Some(Counted { ran_ns: next()?, waited_ns: next()? })
}

/// The eighth number of the first line, `cpu`, is the stolen time of all processors (`proc_stat(5)`).
fn steal_steps(stat: &str) -> Option<u64> {
    stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace().nth(7)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_numbers_are_taken() {
        let of = |schedstat| counted(schedstat).map(|counted| (counted.ran_ns, counted.waited_ns));
        assert_eq!(of("1234 56789 3\n"), Some((1_234, 56_789)));
        assert_eq!(of(""), None);
        let stat = "cpu  30927 0 7062 287879 858 0 74 47 5 6\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(steal_steps(stat), Some(47));
        // Before Linux 2.6.11 there was no such column.
        assert_eq!(steal_steps("cpu  1 2 3 4 5 6 7\n"), None);
    }

    #[test]
    fn run_queue_wait_never_decreases() {
        let queue = crate::pause::RunQueue::of_this_thread();
        // A thread that has just begun has not been counted yet.
        let until = mono_ns() + 10 * SECOND_NS;
        let first = loop {
            if let Some(first) = queue.waited_ns() {
                break first;
            }
            assert!(mono_ns() < until, "Linux counts it");
            std::thread::yield_now();
        };
        std::thread::yield_now();
        assert!(queue.waited_ns() >= Some(first));
    }

    #[test]
    fn sleep_ends_at_its_time_and_not_before() {
        let alarm = Alarm::new().unwrap();
        let at = mono_ns() + 3_000_000;
        alarm.sleep_until(at);
        // The two clocks may differ by 1,000 ppm over the sleep.
        assert!(mono_ns() + 3_000 >= at);
        alarm.sleep_until(0);
    }

    #[test]
    fn the_latest_setting_counts() {
        let alarm = Alarm::new().unwrap();
        let at = mono_ns() + 4_000_000;
        alarm.set(at - 3_000_000);
        alarm.sleep_until(at);
        assert!(mono_ns() + 4_000 >= at);
        alarm.set(at + 3_600 * SECOND_NS);
        alarm.sleep_until(at);
    }
}
