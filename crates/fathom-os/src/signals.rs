//! Signals as the parent process left them, and as the next program finds them.

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

/// Holds Ctrl-C (SIGINT) back from this thread, and from the program that takes its place by `exec`, until that program
/// unblocks the signal: one that comes meanwhile waits there.
#[cfg(unix)]
pub fn hold_interrupts() {
    // SAFETY: every bit pattern of the set is a value of it.
    let mut held: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the calls write `held` and read it, which is valid for both; the previous mask is not asked for.
    unsafe {
        libc::sigemptyset(&raw mut held);
        libc::sigaddset(&raw mut held, libc::SIGINT);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const held, std::ptr::null_mut());
    }
}

/// Has changes of the terminal's size (SIGWINCH) told to nobody again, as when this process was started, whoever has set
/// a handler since. Nothing where there are none.
pub fn stop_telling_resizes() {
    #[cfg(unix)]
    // SAFETY: the default action of the signal is to do nothing; no handler is installed that could be unsound.
    unsafe {
        libc::signal(libc::SIGWINCH, libc::SIG_DFL);
    }
}
