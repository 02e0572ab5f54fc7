//! Help from the machine: what a probe may ask for to be on time. Each call says in words what was granted, for the
//! recording, or names what was refused and how to get it.
//!
//! All of it is for the calling thread, except `lock_memory` and `raise_open_files` (the process) and
//! `hold_cpu_latency` (the whole machine while held).

#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "elsewhere.rs")]
mod system;

pub use system::{
    CpuLatencyHold, address_space_left, background_priority, hold_cpu_latency, idle_priority, lock_memory,
    pin_to_cpu, precise_timers, raise_open_files, realtime_priority, short_slices, unpinned,
};

/// The error of an operation, in one line with its remedy, of the same kind as its cause.
fn refused(operation: &str, cause: impl Into<std::io::Error>, remedy: &str) -> std::io::Error {
    let cause = cause.into();
    std::io::Error::new(cause.kind(), format!("cannot {operation}: {cause}; {remedy}"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn address_space_left_reflects_limit() {
        let soft = rustix::process::getrlimit(rustix::process::Resource::As).current;
        let left = address_space_left();
        assert_eq!(left.is_some(), soft.is_some());
        assert!(left.zip(soft).is_none_or(|(left, soft)| left < soft), "{left:?} of {soft:?}");
    }

    /// Runs in a thread of its own, whose settings end with it.
    fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(work).join().unwrap())
    }

    fn allowed() -> rustix::thread::CpuSet {
        rustix::thread::sched_getaffinity(None).unwrap()
    }

    /// A value of this thread's `/proc/thread-self/stat`, numbered as in `proc_pid_stat(5)`.
    fn stat(field: usize) -> i64 {
        let line = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let after_name = &line[line.rfind(')').unwrap() + 2..];
        after_name.split(' ').nth(field - 3).unwrap().parse().unwrap()
    }

    #[test]
    fn a_pinned_thread_stays_where_it_was_put() {
        let last = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|&cpu| allowed().is_set(cpu)).unwrap();
        let (granted, set) = apart(|| (pin_to_cpu(last).unwrap(), allowed()));
        assert!(granted.contains(&last.to_string()));
        assert_eq!((set.count(), set.is_set(last)), (1, true));
        assert_ne!(allowed().count(), 0);
    }

    #[test]
    fn pinned_thread_starts_unpinned_thread() {
        let last = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|&cpu| allowed().is_set(cpu)).unwrap();
        let everywhere = allowed();
        let (inherits, free, after) = apart(|| {
            pin_to_cpu(last).unwrap();
            // Asked for twice, it is no less free before.
            pin_to_cpu(last).unwrap();
            (apart(allowed), unpinned(|| apart(allowed)), allowed())
        });
        assert_eq!((inherits.count(), after.count(), after.is_set(last)), (1, 1, true));
        assert_eq!(free, everywhere);
    }

    #[test]
    fn missing_cpu_is_refused_by_number() {
        for cpu in [rustix::thread::CpuSet::MAX_CPU - 1, usize::MAX] {
            let error = apart(|| pin_to_cpu(cpu).unwrap_err());
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            assert!(error.to_string().contains(&format!("CPU {cpu}")), "{error}");
        }
    }

    #[test]
    fn only_the_idle_thread_goes_after_all_others() {
        let before = stat(41);
        let policy = apart(|| {
            idle_priority().unwrap();
            stat(41)
        });
        assert_eq!((policy, stat(41)), (i64::from(libc::SCHED_IDLE), before));
    }

    #[test]
    fn only_the_background_thread_becomes_nicer() {
        let before = stat(19);
        let (nice, policy) = apart(|| {
            background_priority().unwrap();
            (stat(19), stat(41))
        });
        assert_eq!(nice, (before + 10).min(19));
        assert_eq!(policy, i64::from(libc::SCHED_BATCH));
        assert_eq!((stat(19), stat(41)), (before, i64::from(libc::SCHED_OTHER)));
    }

    /// The slice in ns that the kernel tells of this thread; 0: it knows none.
    fn slice() -> u64 {
        let mut attr = [0_u8; 48];
        // SAFETY: the buffer is valid for writes of the size that is given; 0 is the calling thread.
        let outcome = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, attr.as_mut_ptr(), attr.len(), 0) };
        assert_eq!(outcome, 0);
        u64::from_ne_bytes(attr[24..32].try_into().unwrap())
    }

    #[test]
    fn short_slices_affect_only_calling_thread() {
        let before = (stat(19), stat(41), slice());
        let (answer, nice, policy, slice_then) = apart(|| {
            rustix::process::setpriority_process(None, 3).unwrap();
            (short_slices(), stat(19), stat(41), slice())
        });
        assert_eq!((nice, policy), (3, i64::from(libc::SCHED_OTHER)));
        match answer {
            Ok(granted) => assert!(slice_then == 100_000 && granted.contains("100 µs"), "{granted}"),
            Err(error) => assert!(error.to_string().contains("Linux 6.12"), "{error}"),
        }
        assert_eq!((stat(19), stat(41), slice()), before);
    }

    #[test]
    fn chosen_scheduling_policy_is_kept() {
        let (answer, policy) = apart(|| {
            background_priority().unwrap();
            (short_slices(), stat(41))
        });
        assert_eq!(policy, i64::from(libc::SCHED_BATCH));
        assert!(answer.unwrap_err().to_string().contains("another scheduling policy"));
    }

    #[test]
    fn timers_of_this_thread_become_precise() {
        let slack = apart(|| {
            precise_timers().unwrap();
            rustix::thread::current_timer_slack().unwrap()
        });
        assert_eq!(slack, 1);
        assert_ne!(rustix::thread::current_timer_slack().unwrap(), 1);
    }

    #[test]
    fn realtime_is_granted_or_refused_with_remedy() {
        assert_eq!(apart(|| realtime_priority(0).unwrap_err()).kind(), ErrorKind::InvalidInput);
        assert_eq!(apart(|| realtime_priority(100).unwrap_err()).kind(), ErrorKind::InvalidInput);
        match apart(|| realtime_priority(1).map(|granted| (granted, stat(40), stat(41)))) {
            Ok((granted, priority, policy)) => {
                assert!(granted.contains("SCHED_FIFO"), "{granted}");
                assert_eq!((priority, policy), (1, i64::from(libc::SCHED_FIFO)));
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
                assert!(error.to_string().contains("CAP_SYS_NICE"), "{error}");
            }
        }
    }

    #[test]
    fn latency_hold_is_open_only_while_held() {
        let held = || {
            std::fs::read_dir("/proc/self/fd")
                .unwrap()
                .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
                .filter(|path| path.ends_with("cpu_dma_latency"))
                .count()
        };
        match hold_cpu_latency(0) {
            Ok(hold) => {
                assert_eq!(held(), 1);
                assert!(hold.description().contains("0 µs"), "{}", hold.description());
                drop(hold);
                assert_eq!(held(), 0);
            }
            Err(error) => assert!(error.to_string().contains("/dev/cpu_dma_latency"), "{error}"),
        }
        assert_eq!(hold_cpu_latency(u32::MAX).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn open_file_limit_is_raised_to_hard_limit() {
        let (soft, hard) = raise_open_files();
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is valid for writes.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
        assert_eq!((soft, hard), (limit.rlim_cur, limit.rlim_max));
        assert_eq!(soft, hard);
    }
}
