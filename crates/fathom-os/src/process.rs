//! What this process uses.

/// Resident memory of this process, in bytes. From `/proc/self/statm`; none elsewhere than on Linux.
pub fn resident_bytes() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
        let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
        // SAFETY: sysconf has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Some(pages * u64::try_from(page).ok()?)
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// Processor time this process has used, user and system, all threads, in ns. None elsewhere than on Unix.
pub fn cpu_time_ns() -> Option<u64> {
    #[cfg(unix)]
    {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Some(used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64)
    }
    #[cfg(not(unix))]
    None
}

/// Processor time this process has used in its own code and in the kernel for it, in ns, all threads. None elsewhere
/// than on Unix.
pub fn cpu_times_ns() -> Option<(u64, u64)> {
    #[cfg(unix)]
    {
        // SAFETY: every bit pattern of the structure is a value of it.
        let mut used: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `used` is valid for writes during the call.
        if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut used) } != 0 {
            return None;
        }
        let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
        Some((ns(used.ru_utime), ns(used.ru_stime)))
    }
    #[cfg(not(unix))]
    None
}

/// Kills the group of processes that this one leads (SIGKILL). One that is gone is no error; nothing elsewhere than on Unix.
pub fn kill_group(leader: u32) {
    #[cfg(unix)]
    if let Some(pid) =
        i32::try_from(leader).ok().filter(|&pid| pid > 1).and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = leader;
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_touched_becomes_resident() {
        const SIZE: usize = 64 << 20;
        let before = resident_bytes().unwrap();
        let mut held = vec![0_u8; SIZE];
        for page in held.chunks_mut(4096) {
            page[0] = 1;
        }
        let after = resident_bytes().unwrap();
        assert!(std::hint::black_box(&held).contains(&1));
        // Other tests of this process may free memory meanwhile, but not half of this.
        assert!(after >= before + SIZE as u64 / 2, "{before} then {after}");
    }

    #[test]
    fn work_takes_processor_time_and_not_more_than_all_processors_give() {
        let (cpu, wall) = (cpu_time_ns().unwrap(), crate::clock::mono_ns());
        while crate::clock::mono_ns() - wall < 20_000_000 {}
        let used = cpu_time_ns().unwrap() - cpu;
        assert!(used > 0);
        let cores = std::thread::available_parallelism().unwrap().get() as u64;
        let (user, system) = cpu_times_ns().unwrap();
        // The kernel's accounts of the two are apart by a tick at most.
        assert!(user + system + 10_000_000 >= used, "{user} + {system} against {used}");
        assert!(used <= 2 * cores * (crate::clock::mono_ns() - wall), "{used} ns");
    }
}
