//! Help from the machine, on Linux.

use super::refused;
use rustix::io::Errno;
use rustix::mm::MlockAllFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroU64;

const LATENCY_FILE: &str = "/dev/cpu_dma_latency";

thread_local! {
    /// Where this thread might run before it was kept on one processor.
    static UNPINNED: Cell<Option<CpuSet>> = const { Cell::new(None) };
}

/// Keeps the calling thread on one processor, numbered from 0 as in `/proc/cpuinfo`. A thread that it starts is there too, unless
/// it is started [`unpinned`].
pub fn pin_to_cpu(cpu: usize) -> io::Result<String> {
    let pin = || {
        let before = sched_getaffinity(None)?;
        let mut one = CpuSet::new();
        if cpu >= CpuSet::MAX_CPU {
            return Err(Errno::INVAL);
        }
        one.set(cpu);
        sched_setaffinity(None, &one)?;
        UNPINNED.set(UNPINNED.get().or(Some(before)));
        Ok(())
    };
    pin().map_err(|cause| {
        let may = sched_getaffinity(None).map_or_else(
            |_| "unknown".to_owned(),
            |set| ranges((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu))),
        );
        let remedy = format!("choose among the CPUs this process may use ({may}), or widen its cpuset");
        refused(&format!("run on CPU {cpu}"), cause, &remedy)
    })?;
    Ok(format!("runs on CPU {cpu} only"))
}

/// Has `start` start threads that may run where the calling thread might before it was kept on one processor; it is kept there again
/// when this returns.
pub fn unpinned<T>(start: impl FnOnce() -> T) -> T {
    let Some(before) = UNPINNED.get() else { return start() };
    let pinned = sched_getaffinity(None);
    // A cpuset that was narrowed since refuses it: then they are where this thread is.
    let _ = sched_setaffinity(None, &before);
    let started = start();
    if let Ok(pinned) = pinned {
        let _ = sched_setaffinity(None, &pinned);
    }
    started
}

/// How much more address space this process may have, in bytes; `None`: it is not limited, or nobody tells.
pub fn address_space_left() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let kib: u64 = size.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(limit.saturating_sub(kib << 10))
}

/// Numbers in ascending order as `0-3,8`.
fn ranges(numbers: impl Iterator<Item = usize>) -> String {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => spans.push((number, number)),
        }
    }
    let text = |(a, b): &(usize, usize)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    spans.iter().map(text).collect::<Vec<_>>().join(",")
}

/// While this lives, no processor of the machine enters an idle state that takes longer to leave than was asked.
#[derive(Debug)]
pub struct CpuLatencyHold {
    _open: File,
    us: u32,
}

impl CpuLatencyHold {
    /// What is held, in words.
    pub fn description(&self) -> String {
        format!("idle states of all CPUs limited to {} µs of wake-up ({LATENCY_FILE} held open)", self.us)
    }
}

/// Limits the wake-up latency of idle processors to `us` µs, machine-wide, until the hold is dropped (or the process
/// ends, however it ends). Costs power; the largest gain there is without spinning.
pub fn hold_cpu_latency(us: u32) -> io::Result<CpuLatencyHold> {
    let hold = || {
        // The kernel's interface is a signed 32-bit number, and less than nothing means "whatever".
        let value = i32::try_from(us).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut file = File::options().write(true).open(LATENCY_FILE)?;
        file.write_all(&value.to_ne_bytes())?;
        Ok(CpuLatencyHold { _open: file, us })
    };
    hold().map_err(|cause: io::Error| {
        let remedy = match cause.kind() {
            io::ErrorKind::PermissionDenied => "run as root, or give this user write access to that file",
            io::ErrorKind::InvalidInput => "give at most 2147483647 µs",
            _ => "this kernel or container has no such file: leave the option out, or pass the device in",
        };
        refused(&format!("hold {LATENCY_FILE} at {us} µs"), cause, remedy)
    })
}

/// Runs the calling thread before all ordinary ones (`SCHED_FIFO`; `level` 1 to 99, higher goes first). Never with a
/// thread that spins: the kernel then takes the processor away for tens of ms at a time.
pub fn realtime_priority(level: u8) -> io::Result<String> {
    set_scheduler(libc::SCHED_FIFO, level.into()).map_err(|cause| {
        let remedy = if cause.kind() == io::ErrorKind::PermissionDenied {
            "run as root, grant CAP_SYS_NICE, or raise RLIMIT_RTPRIO (in a container also give it a real-time budget)"
        } else {
            "give a level from 1 to 99"
        };
        refused(&format!("run with SCHED_FIFO priority {level}"), cause, remedy)
    })?;
    Ok(format!("runs with SCHED_FIFO priority {level}"))
}

/// Sets the policy of the calling thread. By the system call itself: musl's wrapper refuses always, because the call
/// concerns a thread where POSIX wants a process.
fn set_scheduler(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    // SAFETY: the kernel's `struct sched_param` is one int, which lives across the call; 0 is the calling thread.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Keeps all memory of this process in place, now and in future (`mlockall`), so that no page fault waits for a disk.
pub fn lock_memory() -> io::Result<String> {
    rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(|cause| {
        let remedy = "run as root, grant CAP_IPC_LOCK, or raise RLIMIT_MEMLOCK (ulimit -l)";
        refused("lock this process's memory", cause, remedy)
    })?;
    Ok("all memory locked in place".to_owned())
}

/// Makes the calling thread, and on Linux only it, yield to the others: nice +10 and `SCHED_BATCH`.
pub fn background_priority() -> io::Result<String> {
    let lower = || -> io::Result<()> {
        // On Linux the "process" of setpriority(2) is a thread, and none means the calling one.
        let nice = rustix::process::getpriority_process(None)?;
        rustix::process::setpriority_process(None, (nice + 10).min(19))?;
        set_scheduler(libc::SCHED_BATCH, 0)
    };
    lower().map_err(|cause| {
        refused(
            "lower the priority of this thread",
            cause,
            "allow setpriority and sched_setscheduler (seccomp)",
        )
    })?;
    Ok("yields to other threads (nice +10, SCHED_BATCH)".to_owned())
}

/// Makes the calling thread take only time that no other wants (`SCHED_IDLE`): whoever wakes goes before it at once. Without a right to
/// it, it never comes forward again.
pub fn idle_priority() -> io::Result<String> {
    set_scheduler(libc::SCHED_IDLE, 0).map_err(|cause| {
        refused("run only when nobody else does", cause, "allow sched_setscheduler (seccomp)")
    })?;
    Ok("runs when no other thread wants to (SCHED_IDLE)".to_owned())
}

/// The shortest slice that the kernel grants (`__setparam_fair`, kernel/sched/syscalls.c).
const SLICE_NS: u64 = 100_000;

/// Asks for the shortest slices of processor time for the calling thread. Its share stays the same; but when it wakes, it
/// goes before threads with longer slices, which else finish theirs (some 3 ms) first. Needs no right; Linux 6.12 and
/// later (Documentation/scheduler/sched-eevdf.rst, `sched_setattr(2)`).
pub fn short_slices() -> io::Result<String> {
    let asked = || -> io::Result<()> {
        let mut attr = SchedAttr::of_this_thread()?;
        if attr.policy != libc::SCHED_OTHER as u32 {
            return Err(io::Error::other("whoever started it chose another scheduling policy"));
        }
        attr.runtime = SLICE_NS;
        // SAFETY: `attr` tells its size and lives across the call; 0 is the calling thread.
        if unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // A kernel that knows no slices takes the request, and changes nothing.
        let granted = SchedAttr::of_this_thread()?.runtime == SLICE_NS;
        if granted { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
    };
    asked().map_err(|cause| {
        refused("run in short slices", cause, "Linux 6.12 and later can, unless a seccomp filter forbids it")
    })?;
    Ok(format!("goes first when it wakes (slices of {} µs)", SLICE_NS / 1_000))
}

/// The first version of the kernel's `struct sched_attr` (`sched_setattr(2)`).
#[derive(Debug, Default)]
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// Of an ordinary thread its slice, in ns.
    runtime: u64,
    deadline: u64,
    period: u64,
}

impl SchedAttr {
    fn of_this_thread() -> io::Result<Self> {
        let mut attr = Self::default();
        let size = size_of::<Self>();
        // SAFETY: `attr` is valid for writes of its size, and any bits are a value of it; 0 is the calling thread.
        let outcome = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
        if outcome == 0 { Ok(attr) } else { Err(io::Error::last_os_error()) }
    }
}

/// Has the kernel end the sleeps and poll timeouts of the calling thread on time instead of up to 50 µs later
/// (`PR_SET_TIMERSLACK`). Timers of the reactor are exact without it.
pub fn precise_timers() -> io::Result<String> {
    set_current_timer_slack(NonZeroU64::new(1)).map_err(|cause| {
        refused("set the timer slack of this thread", cause, "allow prctl (a seccomp filter forbids it)")
    })?;
    Ok("timer slack 1 ns".to_owned())
}

/// Raises the soft limit of open files to the hard one. Gives both as they then stand (`u64::MAX`: unlimited); where
/// raising is forbidden the soft one is as before.
pub fn raise_open_files() -> (u64, u64) {
    let before = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    let now = getrlimit(Resource::Nofile);
    (now.current.unwrap_or(u64::MAX), now.maximum.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    #[test]
    fn processors_are_listed_as_ranges() {
        assert_eq!(super::ranges([0, 1, 2, 5, 7, 8].into_iter()), "0-2,5,7-8");
        assert_eq!(super::ranges(std::iter::empty()), "");
    }
}
