//! What this process uses.

/// Resident memory of this process, in bytes. From `/proc/self/statm`; none elsewhere than on Linux.
pub fn resident_bytes() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
        let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(pages * page_bytes() as u64)
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

/// Lets go of the pages of this program's file that are mapped by now: most are of the start (the command line, the files that
/// were read), and the kernel maps sixteen for each that is touched. They stay in its cache, and what is used again is mapped again
/// without a read. To be called when a program has begun, and again where it does little: where nothing waits for it. Gives how many bytes were asked to go;
/// 0 where the system tells nothing of them.
pub fn let_go_of_the_program() -> usize {
    #[cfg(target_os = "linux")]
    {
        let mut forgotten = 0_usize;
        // SAFETY: the callback has the signature that is wanted, and `forgotten` outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(forget_unwritten), (&raw mut forgotten).cast()) };
        forgotten
    }
    #[cfg(not(target_os = "linux"))]
    0
}

/// For one object of this process: the program is the first, and the only one that is dealt with.
#[cfg(target_os = "linux")]
unsafe extern "C" fn forget_unwritten(
    object: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    forgotten: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the loader passes a description that is valid during this call, with as many headers as it says.
    let (object, headers) = unsafe {
        let object = &*object;
        (object, std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()))
    };
    let page = page_bytes();
    let mut bytes = 0;
    // Never one that may be written: what relocation has put there stands in no file.
    for header in headers.iter().filter(|h| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_W == 0) {
        let begins = object.dlpi_addr as usize + header.p_vaddr as usize;
        // Whole pages alone: a border may be shared with a segment that is written.
        let (from, to) = (begins.next_multiple_of(page), (begins + header.p_memsz as usize) / page * page);
        if to <= from {
            continue;
        }
        // SAFETY: a segment of the program that nobody writes, so each page of it is that of the file, now and when it is mapped again.
        let outcome = unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_DONTNEED) };
        if outcome == 0 {
            bytes += to - from;
        }
    }
    // SAFETY: the caller's number, which outlives the iteration.
    unsafe { *forgotten.cast::<usize>() = bytes };
    1
}

#[cfg(target_os = "linux")]
fn page_bytes() -> usize {
    // SAFETY: sysconf has no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
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

    /// What is forgotten is there again when it is used: this test goes on to run.
    #[test]
    fn program_pages_are_released_and_reloaded() {
        let of_the_file = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        // All of the program's text is touched.
        let text = std::fs::read("/proc/self/maps").unwrap();
        let text = String::from_utf8(text).unwrap();
        let program = std::env::current_exe().unwrap();
        for line in text.lines().filter(|l| l.contains(" r-xp ") && l.ends_with(program.to_str().unwrap())) {
            let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let at = |address| usize::from_str_radix(address, 16).unwrap();
            for page in (at(from)..at(to)).step_by(4096) {
                // SAFETY: mapped and readable, as the kernel has just said.
                std::hint::black_box(unsafe { std::ptr::read_volatile(page as *const u8) });
            }
        }
        let before = of_the_file();
        let forgotten = let_go_of_the_program();
        let after = of_the_file();
        assert!(forgotten > 100 << 10, "{forgotten}");
        assert!(after + 100 < before, "{before} kB, then {after}");
    }

    #[test]
    fn cpu_time_is_positive_and_bounded() {
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
