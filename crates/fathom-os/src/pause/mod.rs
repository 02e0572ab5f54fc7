//! The pause clock: notices when this process did not run for a while, and tells why as far as the kernel does.
//!
//! Without it, a probe that was stopped blames the network for what its own host did.
//!
//! A thread that sleeps for a period and looks how late it woke is such a clock, but each of its wake-ups disturbs the
//! process that it watches. So the threads that do the work say when they ran ([`Gap::ran`]): that puts the next tick
//! off, and a process that is busy all the time is woken for it once a second.

#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "elsewhere.rs")]
mod system;

use crate::clock::mono_ns;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the pause clock ticks unless told otherwise. A pause begins somewhere between two ticks, so a length is
/// wrong by up to half of this and what the tick before was late by: within 10 ms even where that is 4 ms.
pub const DEFAULT_PERIOD: Duration = Duration::from_millis(12);
/// How late a tick is a pause unless told otherwise.
pub const DEFAULT_THRESHOLD: Duration = Duration::from_millis(20);

/// Ticks are put off no further: the kernel's accounts must not be older at the next pause.
const PUT_OFF_NS: u64 = ACCOUNTS_WINDOW_NS;

/// A time in which this process did not run although it was meant to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// When it stopped running, ns by [`crate::clock::mono_ns`]: it ran at the last tick, or when a thread of it last
    /// said so, and did not at the next, so this is the middle between the two, right to half a period.
    pub began_mono_ns: u64,
    /// When the tick came, ns by the same clock.
    pub ended_mono_ns: u64,
    /// How long the thread was able to run and had to wait for a processor, in ns (`/proc/thread-self/schedstat`), in
    /// this time and in punctual ticks (within 0.25 ms) of up to [`ACCOUNTS_WINDOW_NS`] before it. None where the system does not tell.
    pub run_queue_ns: Option<u64>,
    /// Time the hypervisor gave to others while this machine wanted to run, in ns, summed over all processors, counted
    /// in steps of a clock tick (10 ms as a rule) from at most [`ACCOUNTS_WINDOW_NS`] before the pause to its end
    /// (`/proc/stat`). None where the system does not tell; 0 too where the hypervisor does not.
    pub steal_ns: Option<u64>,
}

/// The kernel's accounts are read this often only, because making them up costs more than a tick does. In ns.
pub const ACCOUNTS_WINDOW_NS: u64 = 1_000_000_000;

/// Why a process did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseCause {
    /// The hypervisor ran others in place of this machine.
    Steal,
    /// This host ran other threads in place of this one.
    HostScheduling,
    /// The process was able to run at no time: stopped by a signal or a debugger, frozen by its control group, or the
    /// whole machine was frozen or suspended. From inside these look the same.
    Stopped,
    /// The system does not tell enough.
    Unknown,
}

impl Pause {
    /// How long, in ns.
    pub fn duration_ns(&self) -> u64 {
        self.ended_mono_ns.saturating_sub(self.began_mono_ns)
    }

    /// Why; see [`classify`].
    pub fn cause(&self) -> PauseCause {
        classify(self.duration_ns(), self.run_queue_ns, self.steal_ns)
    }
}

/// Tells why a process did not run, by what accounts for at least half of the time. First match wins:
///
/// 1. Stolen time does: `Steal`. It comes first because a thread whose processor is stolen also waits in the run queue.
/// 2. Waiting for a processor does: `HostScheduling`.
/// 3. Neither does, and waiting is known: `Stopped`. (Unknown steal does not hinder: were a thread able to run while
///    its processor was stolen, it would have waited in the run queue.)
/// 4. Else `Unknown`.
pub fn classify(duration_ns: u64, run_queue_ns: Option<u64>, steal_ns: Option<u64>) -> PauseCause {
    let explains = |part: u64| part >= duration_ns.div_ceil(2);
    match (run_queue_ns, steal_ns) {
        (_, Some(steal)) if explains(steal) => PauseCause::Steal,
        (Some(waited), _) if explains(waited) => PauseCause::HostScheduling,
        (Some(_), _) => PauseCause::Stopped,
        (None, _) => PauseCause::Unknown,
    }
}

/// A thread that ticks and notes which ticks came late. Dropping it ends the thread.
#[derive(Debug)]
pub struct PauseClock {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    gap: Gap,
}

/// Tells of a pause that the clock's own thread has not come to tell yet: after a pause all threads of a process wake
/// in any order.
///
/// And takes the word of other threads that this process runs.
#[derive(Debug, Clone)]
pub struct Gap(Arc<Dues>);

/// What the ticking thread shares with those that do the work.
#[derive(Debug)]
struct Dues {
    /// When the next tick is due, in ns. It never goes back.
    due: AtomicU64,
    /// No further than this it is put off.
    no_later: AtomicU64,
    alarm: system::Alarm,
    period_ns: u64,
    threshold_ns: u64,
}

impl Gap {
    /// The pause that ends now, where the clock's tick is late by more than its threshold: from, to.
    pub fn now(&self, now_mono_ns: u64) -> Option<(u64, u64)> {
        // Acquire: whoever sees a tick due sees what was told of the one before.
        let due = self.0.due.load(Ordering::Acquire);
        (now_mono_ns.saturating_sub(due) > self.0.threshold_ns)
            .then(|| (due.saturating_sub(self.0.period_ns / 2), now_mono_ns))
    }

    /// The calling thread runs at `now_mono_ns`, which it has just read: the next tick is due a period from then. Ask
    /// [`Gap::now`] before. A pause that has just ended stays the clock's to tell: it puts nothing off.
    ///
    /// A pause between the reading and this call is lost neither: the tick is then due in the past.
    pub fn ran(&self, now_mono_ns: u64) {
        let dues = &*self.0;
        let due = dues.due.load(Ordering::Relaxed);
        let next = now_mono_ns.saturating_add(dues.period_ns);
        // Putting it off costs a system call, so not before half of the period has gone.
        let early = next < due.saturating_add(dues.period_ns / 2);
        let late = now_mono_ns.saturating_sub(due) > dues.threshold_ns;
        if early || late || next > dues.no_later.load(Ordering::Relaxed) {
            return;
        }
        if dues.due.fetch_max(next, Ordering::AcqRel) < next {
            dues.alarm.set(next);
        }
    }
}

impl PauseClock {
    /// Starts ticking every `period`. A tick that comes more than `threshold` late is a pause, and `on_pause` is told,
    /// on the ticking thread, after the pause. When this returns, the clock is ticking. What `on_pause` itself takes is no pause.
    pub fn start(
        period: Duration,
        threshold: Duration,
        on_pause: impl FnMut(Pause) + Send + 'static,
    ) -> io::Result<Self> {
        if period.is_zero() {
            let message = "cannot tick every 0 s: give the pause clock a longer period";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let dues = Arc::new(Dues {
            due: AtomicU64::new(0),
            no_later: AtomicU64::new(0),
            alarm: system::Alarm::new()?,
            period_ns: period.as_nanos() as u64,
            threshold_ns: threshold.as_nanos() as u64,
        });
        let gap = Gap(Arc::clone(&dues));
        let (ticking, begun) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("pause-clock".to_owned()).stack_size(128 << 10).spawn(
            move || {
                let mut accounts = system::Accounts::open();
                accounts.refresh(mono_ns(), 0);
                dues.ticked(mono_ns());
                let _ = ticking.send(());
                tick(&stopped, accounts, &dues, on_pause);
                // A clock that is gone is not late.
                dues.due.store(u64::MAX, Ordering::Relaxed);
            },
        )?;
        // A pause right after the return must not fall into the time before the first tick was due.
        let _ = begun.recv();
        Ok(Self { stop, thread: Some(thread), gap })
    }

    /// What tells of a pause before this clock's own thread does.
    pub fn gap(&self) -> Gap {
        self.gap.clone()
    }
}

impl Drop for PauseClock {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.gap.0.alarm.set(0);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Dues {
    /// The clock's thread ran: the next tick is due a period from then.
    fn ticked(&self, at_mono_ns: u64) {
        self.no_later.store(at_mono_ns + self.period_ns + PUT_OFF_NS, Ordering::Relaxed);
        self.due.fetch_max(at_mono_ns + self.period_ns, Ordering::AcqRel);
    }
}

fn tick(stop: &AtomicBool, mut accounts: system::Accounts, dues: &Dues, mut on_pause: impl FnMut(Pause)) {
    // Whether the accounts were read on the far side of a pause.
    let mut read_late = false;
    while !stop.load(Ordering::Relaxed) {
        let slept_for = dues.due.load(Ordering::Relaxed);
        dues.alarm.sleep_until(slept_for);
        let now = mono_ns();
        let due = dues.due.load(Ordering::Relaxed);
        if due > now {
            // Put off while this thread woke; what it waited for a processor is not to be laid on the next pause.
            accounts.refresh(now, now.saturating_sub(slept_for));
            continue;
        }
        let mut ticked = now;
        if now - due > dues.threshold_ns {
            let (run_queue_ns, steal_ns) = if read_late { (None, None) } else { accounts.since_refresh() };
            on_pause(Pause {
                began_mono_ns: due.saturating_sub(dues.period_ns / 2),
                ended_mono_ns: now,
                run_queue_ns,
                steal_ns,
            });
            ticked = mono_ns();
        }
        // From this tick, not from `due`: ticks that were missed are not made up for. And not from a later reading: a pause
        // between the two would make no tick late, and be lost.
        dues.ticked(ticked);
        accounts.refresh(now, now - due);
        read_late = mono_ns().saturating_sub(ticked) > dues.threshold_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_accounts_for_half_the_time_is_the_cause() {
        let cases = [
            (100, Some(0), Some(0), PauseCause::Stopped),
            (100, Some(49), Some(49), PauseCause::Stopped),
            (100, Some(50), Some(0), PauseCause::HostScheduling),
            (100, Some(100), Some(50), PauseCause::Steal),
            (100, Some(100), None, PauseCause::HostScheduling),
            (100, Some(3), None, PauseCause::Stopped),
            (100, None, Some(90), PauseCause::Steal),
            (100, None, Some(10), PauseCause::Unknown),
            (100, None, None, PauseCause::Unknown),
        ];
        for (duration, run_queue, steal, cause) in cases {
            assert_eq!(classify(duration, run_queue, steal), cause, "{run_queue:?} {steal:?}");
        }
    }

    #[test]
    fn a_period_of_nothing_is_refused() {
        let error = PauseClock::start(Duration::ZERO, DEFAULT_THRESHOLD, |_| {}).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn nothing_is_told_after_the_clock_is_dropped() {
        let told = Arc::new(AtomicBool::new(false));
        let teller = Arc::clone(&told);
        // A threshold of nothing makes every tick a pause.
        let clock = PauseClock::start(Duration::from_micros(100), Duration::ZERO, move |pause| {
            assert!(pause.ended_mono_ns > pause.began_mono_ns);
            teller.store(true, Ordering::Relaxed);
        })
        .unwrap();
        while !told.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        drop(clock);
        told.store(false, Ordering::Relaxed);
        // The callback, and with it its handle, is gone with the thread.
        assert_eq!(Arc::strong_count(&told), 1);
    }
}
