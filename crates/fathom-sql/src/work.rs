//! Working on a row, as an application would: mostly asleep, but on time, and no longer than the run goes on.

use crate::Stop;
use fathom_os::clock::mono_ns;
use std::time::Duration;

/// A sleeping thread wakes up later than it asked to, by some 0.1 ms (50 µs of it are the kernel's slack, `PR_SET_TIMERSLACK`). What is
/// left of a row's work from here on takes the processor.
const WAKES_LATE_NS: u64 = 300_000;
/// Whoever works on a row looks so often whether the run is to end.
const WORKS_ON: Duration = Duration::from_millis(50);

/// Works on a row until then, or until the run is to end: mostly asleep, but on time.
pub(crate) fn work_until(at_mono_ns: u64, stop: &Stop) {
    while let Some(left) = at_mono_ns.checked_sub(mono_ns()).filter(|left| *left > 0) {
        match left.checked_sub(WAKES_LATE_NS) {
            _ if stop.times() > 0 => return,
            Some(rest) if rest > 0 => std::thread::sleep(Duration::from_nanos(rest).min(WORKS_ON)),
            _ => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sleep of 10 µs takes 100 µs longer, so short work spins.
    #[cfg(target_os = "linux")]
    #[test]
    fn short_work_spins_long_work_sleeps() {
        let sleeps = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
            line.trim().parse::<u64>().unwrap()
        };
        let work = |each: Duration| {
            let before = sleeps();
            for _ in 0..100 {
                let until_ns = mono_ns() + each.as_nanos() as u64;
                work_until(until_ns, &Stop::default());
                assert!(mono_ns() >= until_ns, "it works for all of the time");
            }
            sleeps() - before
        };
        let (short, long) = (work(Duration::from_micros(100)), work(Duration::from_millis(1)));
        // A thread that waits for a processor until its time is over does not sleep.
        assert!(short < 20 && long > 50, "{short} sleeps of 100, and {long}");
        // The end of the run ends the work.
        let stop = Stop::default();
        stop.ask();
        work_until(u64::MAX, &stop);
    }
}
