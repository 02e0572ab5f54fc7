//! The two clocks of a run.

use fathom_core::clock::Anchor;

/// The clock of every interval: `CLOCK_MONOTONIC_RAW` on Linux (never stepped, never slewed), elsewhere the
/// standard library's monotonic clock. Nanoseconds; the origin is arbitrary and constant for this process.
#[cfg(target_os = "linux")]
pub fn mono_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicRaw);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// As on Linux, by the standard library's monotonic clock, from the first call on.
#[cfg(not(target_os = "linux"))]
pub fn mono_ns() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// The wall clock: nanoseconds since the Unix epoch. It can step; no interval may be taken from it.
pub fn utc_ns() -> i64 {
    match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i64,
        Err(before) => -(before.duration().as_nanos() as i64),
    }
}

/// Reads both clocks as one: the tightest of three brackets, the wall clock taken to belong to the middle of its
/// bracket, so the error is at most half the shortest bracket (tens of ns unless this thread is preempted thrice).
pub fn anchor() -> Anchor {
    let reading = || {
        let before = mono_ns();
        let utc_ns = utc_ns();
        let width = mono_ns() - before;
        (width, Anchor { mono_ns: before + width / 2, utc_ns })
    };
    let first = reading();
    let shorter = |a: (u64, Anchor), b: (u64, Anchor)| if b.0 < a.0 { b } else { a };
    shorter(shorter(first, reading()), reading()).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_run_forward_together() {
        let a = anchor();
        let b = anchor();
        assert!(b.mono_ns > a.mono_ns);
        assert!(b.utc_ns >= a.utc_ns);
    }
}
