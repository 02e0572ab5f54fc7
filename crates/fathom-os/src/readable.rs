//! Waiting for bytes of a socket, again and again and each time not for long.
//!
//! A poll with a timeout sets a timer of the kernel's and takes it away again, which in a guest is two exits to the hypervisor. Whoever
//! waits a hundred times until the same moment sets one timer for all of them.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

#[cfg(target_os = "linux")]
use rustix::fd::OwnedFd;
#[cfg(target_os = "linux")]
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// Waits for sockets to be readable.
#[derive(Debug, Default)]
pub struct Waiter {
    /// `None`: not made yet, or the system has none.
    #[cfg(target_os = "linux")]
    timer: Option<OwnedFd>,
    /// It goes off then, by [`crate::clock::mono_ns`].
    #[cfg(target_os = "linux")]
    goes_off_ns: u64,
}

impl Waiter {
    /// Waits until there is something to read, at most so long from `now_ns` on (by [`crate::clock::mono_ns`]): whether there is. It may
    /// end sooner without, as it does for a signal.
    pub fn wait(&mut self, socket: &impl AsFd, now_ns: u64, at_most: Duration) -> io::Result<bool> {
        let polled = self.poll(socket, now_ns, at_most);
        match polled {
            Ok(ready) => Ok(ready),
            Err(Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    #[cfg(target_os = "linux")]
    fn poll(&mut self, socket: &impl AsFd, now_ns: u64, at_most: Duration) -> Result<bool, Errno> {
        let until_ns = now_ns.saturating_add(u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX));
        if self.timer.is_none() {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            // Without one it waits by the poll's timeout.
            self.timer = timerfd_create(TimerfdClockId::Monotonic, flags).ok();
        }
        let Some(timer) = self.timer.as_ref().filter(|_| !at_most.is_zero()) else {
            return by_timeout(socket, at_most);
        };
        if self.goes_off_ns <= now_ns || self.goes_off_ns > until_ns {
            let (it_interval, it_value) = (timespec(Duration::ZERO), timespec(at_most));
            // What it has counted is gone with it.
            timerfd_settime(timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value })?;
            self.goes_off_ns = until_ns;
        }
        let mut both = [PollFd::new(socket, PollFlags::IN), PollFd::new(timer, PollFlags::IN)];
        poll(&mut both, None)?;
        if !both[1].revents().is_empty() {
            self.goes_off_ns = 0;
        }
        Ok(!both[0].revents().is_empty())
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "it has a timer elsewhere")]
    fn poll(&mut self, socket: &impl AsFd, _: u64, at_most: Duration) -> Result<bool, Errno> {
        by_timeout(socket, at_most)
    }
}

fn by_timeout(socket: &impl AsFd, at_most: Duration) -> Result<bool, Errno> {
    poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timespec(at_most))).map(|ready| ready > 0)
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::mono_ns;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    const MS: Duration = Duration::from_millis(1);

    /// Waits until it is readable, or that time is over.
    fn waits(waiter: &mut Waiter, socket: &UnixStream, at_most: Duration) -> (bool, Duration) {
        let began_ns = mono_ns();
        loop {
            let now_ns = mono_ns();
            let waited = Duration::from_nanos(now_ns - began_ns);
            if waited >= at_most {
                return (false, waited);
            }
            if waiter.wait(socket, now_ns, at_most - waited).unwrap() {
                return (true, waited);
            }
        }
    }

    /// Whatever was waited for before: each wait ends with bytes, or after its time and not before.
    #[test]
    fn each_wait_has_its_own_end() {
        let (mut there, mut here) = UnixStream::pair().unwrap();
        let mut waiter = Waiter::default();
        let mut byte = [0];
        for at_most in [20, 1, 5, 60, 2, 2, 0].map(|ms| ms * MS) {
            let (ready, waited) = waits(&mut waiter, &here, at_most);
            assert!(!ready && waited >= at_most, "{at_most:?}: {waited:?}");
            there.write_all(b"x").unwrap();
            // A timer that was set for sooner, and has gone off meanwhile, takes nothing from it.
            assert!(waits(&mut waiter, &here, 10_000 * MS).0);
            here.read_exact(&mut byte).unwrap();
        }
        drop(there);
        assert!(waits(&mut waiter, &here, 10_000 * MS).0, "its end is something to read");
    }
}
