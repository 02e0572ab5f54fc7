//! Waiting for sockets and for a moment, to the nanosecond where the system can.

#[cfg_attr(target_os = "linux", path = "timerfd.rs")]
#[cfg_attr(not(target_os = "linux"), path = "timeout.rs")]
mod alarm;

use alarm::Alarm;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The token of the reactor's own timer; see [`is_own`].
pub const TIMER: mio::Token = mio::Token(usize::MAX - 1);
/// The token of the reactor's own waker; see [`is_own`].
pub const WAKER: mio::Token = mio::Token(usize::MAX - 2);

/// Whether an event is the reactor's own (its timer's or its waker's): pass over these. Sockets must be registered
/// under other tokens than [`TIMER`] and [`WAKER`].
pub fn is_own(token: mio::Token) -> bool {
    token == TIMER || token == WAKER
}

/// Ends a [`Reactor::wait`] from elsewhere. Waking twice before the wait is one wake; waking before the wait begins
/// ends it at once.
#[derive(Debug, Clone)]
pub struct Waker(Arc<mio::Waker>);

impl Waker {
    /// Wakes the reactor. On Linux this is one `write` to an eventfd, which a signal handler may do too.
    pub fn wake(&self) -> io::Result<()> {
        self.0.wake()
    }
}

/// `mio::Poll` with deadlines on the clock of [`crate::clock::mono_ns`].
///
/// The timeout of a poll counts milliseconds on Linux; samples are due to the microsecond. So on Linux a timer stands
/// among the sockets, and elsewhere the poll's own timeout has to do.
#[derive(Debug)]
pub struct Reactor {
    poll: mio::Poll,
    waker: Waker,
    alarm: Alarm,
}

impl Reactor {
    /// Opens the poll, its waker and its timer (three descriptors on Linux).
    pub fn new() -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        let waker = Waker(Arc::new(mio::Waker::new(poll.registry(), WAKER)?));
        let alarm = Alarm::new(poll.registry())?;
        Ok(Self { poll, waker, alarm })
    }

    /// Where sockets are registered.
    pub fn registry(&self) -> &mio::Registry {
        self.poll.registry()
    }

    /// A handle that ends a wait from another thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Blocks until something registered is ready, a [`Waker`] was used, or `deadline_mono_ns` (ns by
    /// [`crate::clock::mono_ns`]; none: no deadline) is reached; never returns before one of the three. `events`
    /// then holds what happened, the reactor's own events ([`is_own`]) among it. A deadline that has passed still
    /// looks once at what is ready. Signals do not end the wait: their handlers use a waker.
    ///
    /// With `spin` it looks once, without blocking, and returns: the caller's loop is the wait.
    pub fn wait(
        &mut self,
        events: &mut mio::Events,
        deadline_mono_ns: Option<u64>,
        spin: bool,
    ) -> io::Result<()> {
        loop {
            let timeout = if spin { Some(Duration::ZERO) } else { self.alarm.set(deadline_mono_ns)? };
            match self.poll.poll(events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted && !spin => continue,
                // A signal is no failure of looking once; `events` is empty then.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
                outcome => outcome?,
            }
            let mut others = false;
            for event in events.iter() {
                if event.token() == TIMER {
                    self.alarm.went_off();
                } else {
                    others = true;
                }
            }
            if spin || others || deadline_mono_ns.is_some_and(|at| crate::clock::mono_ns() >= at) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::mono_ns;
    use mio::{Events, Interest, Token};

    const MS: u64 = 1_000_000;

    fn pair() -> (std::net::UdpSocket, mio::net::UdpSocket) {
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let receiver = mio::net::UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        (sender, receiver)
    }

    #[test]
    fn wait_does_not_end_before_deadline() {
        let mut reactor = Reactor::new().unwrap();
        let mut events = Events::with_capacity(8);
        for after in [0, 1, 1_000, 137_000, 3 * MS, 21 * MS] {
            let deadline = mono_ns() + after;
            reactor.wait(&mut events, Some(deadline), false).unwrap();
            assert!(mono_ns() >= deadline);
            assert!(events.iter().all(|event| is_own(event.token())));
        }
    }

    #[test]
    fn readiness_ends_wait_and_deadline_still_holds() {
        let mut reactor = Reactor::new().unwrap();
        let mut events = Events::with_capacity(8);
        let (sender, mut receiver) = pair();
        reactor.registry().register(&mut receiver, Token(7), Interest::READABLE).unwrap();
        let deadline = mono_ns() + 300 * MS;
        sender.send(b"x").unwrap();
        reactor.wait(&mut events, Some(deadline), false).unwrap();
        assert!(events.iter().any(|event| event.token() == Token(7) && event.is_readable()));
        reactor.wait(&mut events, Some(deadline), false).unwrap();
        assert!(mono_ns() >= deadline);
    }

    #[test]
    fn moved_deadline_is_followed() {
        let mut reactor = Reactor::new().unwrap();
        let mut events = Events::with_capacity(8);
        reactor.waker().wake().unwrap();
        reactor.wait(&mut events, Some(mono_ns() + 3_600_000 * MS), false).unwrap();
        let sooner = mono_ns() + 2 * MS;
        // An hour's alarm is still set: this returns only because it was set again.
        reactor.wait(&mut events, Some(sooner), false).unwrap();
        assert!(mono_ns() >= sooner);
    }

    #[test]
    fn waker_ends_wait_from_another_thread() {
        let mut reactor = Reactor::new().unwrap();
        let waker = reactor.waker();
        let thread = std::thread::spawn(move || waker.wake());
        let mut events = Events::with_capacity(8);
        reactor.wait(&mut events, None, false).unwrap();
        assert!(events.iter().any(|event| event.token() == WAKER));
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn spinning_returns_with_and_without_something_ready() {
        let mut reactor = Reactor::new().unwrap();
        let mut events = Events::with_capacity(8);
        reactor.wait(&mut events, None, true).unwrap();
        assert!(events.is_empty());
        let (sender, mut receiver) = pair();
        reactor.registry().register(&mut receiver, Token(1), Interest::READABLE).unwrap();
        sender.send(b"x").unwrap();
        while events.is_empty() {
            reactor.wait(&mut events, None, true).unwrap();
        }
        assert_eq!(events.iter().next().unwrap().token(), Token(1));
    }

    #[cfg(unix)]
    #[test]
    fn signals_do_not_end_a_wait() {
        use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
        static HANDLED: AtomicU32 = AtomicU32::new(0);
        extern "C" fn count(_: libc::c_int) {
            HANDLED.fetch_add(1, Ordering::Relaxed);
        }
        let handler: extern "C" fn(libc::c_int) = count;
        // SAFETY: the handler only adds to an atomic, and no other test uses SIGUSR2.
        unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
        let done = AtomicBool::new(false);
        // SAFETY: pthread_self has no preconditions.
        let this = unsafe { libc::pthread_self() };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // SAFETY: the thread is alive: it joins this one at the end of the scope.
                    unsafe { libc::pthread_kill(this, libc::SIGUSR2) };
                    std::thread::yield_now();
                }
            });
            let mut reactor = Reactor::new().unwrap();
            let mut events = Events::with_capacity(8);
            while HANDLED.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            let deadline = mono_ns() + 50 * MS;
            let outcome = reactor.wait(&mut events, Some(deadline), false);
            let returned = mono_ns();
            done.store(true, Ordering::Relaxed);
            outcome.unwrap();
            assert!(returned >= deadline);
        });
    }
}
