//! Help from the machine, on systems for which none is written yet: every request is refused by name.

use super::refused;
use std::io;

fn unsupported<T>(operation: &str) -> io::Result<T> {
    let remedy = "only Linux is supported for this: leave the option out";
    Err(refused(operation, io::ErrorKind::Unsupported, remedy))
}

/// On Linux a hold on the idle states of the machine; here it cannot be had.
#[derive(Debug)]
pub enum CpuLatencyHold {}

impl CpuLatencyHold {
    /// What is held, in words.
    pub fn description(&self) -> String {
        match *self {}
    }
}

/// Not known on this system.
pub fn address_space_left() -> Option<u64> {
    None
}

/// Refused on this system.
pub fn pin_to_cpu(cpu: usize) -> io::Result<String> {
    unsupported(&format!("run on CPU {cpu}"))
}

/// No thread is kept on one processor here.
pub fn unpinned<T>(start: impl FnOnce() -> T) -> T {
    start()
}

/// Refused on this system.
pub fn hold_cpu_latency(us: u32) -> io::Result<CpuLatencyHold> {
    unsupported(&format!("limit the wake-up of idle processors to {us} µs"))
}

/// Refused on this system.
pub fn realtime_priority(level: u8) -> io::Result<String> {
    unsupported(&format!("run with real-time priority {level}"))
}

/// Refused on this system.
pub fn short_slices() -> io::Result<String> {
    unsupported("run in short slices")
}

/// Refused on this system.
pub fn lock_memory() -> io::Result<String> {
    unsupported("lock this process's memory")
}

/// Refused on this system.
pub fn background_priority() -> io::Result<String> {
    unsupported("lower the priority of this thread")
}

/// Refused on this system.
pub fn idle_priority() -> io::Result<String> {
    unsupported("lower the priority of this thread")
}

/// Refused on this system.
pub fn precise_timers() -> io::Result<String> {
    unsupported("set the timer slack of this thread")
}

/// Unlimited as far as this system tells.
pub fn raise_open_files() -> (u64, u64) {
    (u64::MAX, u64::MAX)
}
