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

/// How far the wall clock may be from UTC, in ns, by the service that disciplines it: the kernel's maximum error
/// (adjtimex(2), `maxerror`), which grows between two corrections. `None`: it is not disciplined, or the system does
/// not tell (any but Linux).
#[cfg(target_os = "linux")]
pub fn wall_clock_error_ns() -> Option<u64> {
    // SAFETY: an all-zero `timex` is a valid value, and with `modes` 0 the kernel only fills it.
    let (state, timex) = unsafe {
        let mut timex: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&raw mut timex), timex)
    };
    let disciplined = state >= 0 && state != libc::TIME_ERROR && timex.status & libc::STA_UNSYNC == 0;
    disciplined.then(|| u64::try_from(timex.maxerror).unwrap_or(u64::MAX).saturating_mul(1_000))
}

/// As on Linux; no other system is asked.
#[cfg(not(target_os = "linux"))]
pub fn wall_clock_error_ns() -> Option<u64> {
    None
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
