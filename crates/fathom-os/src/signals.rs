//! Signals as the parent process left them.

/// Whether hang-ups (SIGHUP) were ignored when this process was started, as `nohup` arranges; false where there are
/// none. To be asked before a handler is set.
pub fn hangup_is_ignored() -> bool {
    #[cfg(unix)]
    {
        // SAFETY: every bit pattern of the structure is a value of it.
        let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: without a new action the call only writes `now`, which is valid for writes.
        let asked = unsafe { libc::sigaction(libc::SIGHUP, std::ptr::null(), &raw mut now) };
        asked == 0 && now.sa_sigaction == libc::SIG_IGN
    }
    #[cfg(not(unix))]
    false
}
