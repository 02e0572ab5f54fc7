//! The pause clock: notices when this process did not run for a while, and tells why as far as the kernel does.
//!
//! Without it, a probe that was stopped blames the network for what its own host did.
//!
//! A thread that sleeps for a period and looks how late it woke is such a clock, but each of its wake-ups disturbs the
//! process that it watches. So the threads that do the work say when they run ([`Running`]): that puts the next tick
//! off, and a process that is busy all the time is woken for it once a second (on Linux; elsewhere at each period).
//!
//! Two things are held: no pause has a turn of such a thread in it, and where such a thread was kept from running for longer
//! than the threshold, there is a pause, whether the clock's own thread ran or not.

mod covered;
mod dues;
mod running;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "elsewhere.rs")]
mod system;

use crate::clock::mono_ns;
pub use covered::Covered;
use dues::{Dues, Span, Whose};
pub use running::Running;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the pause clock ticks unless told otherwise. A pause begins somewhere between two ticks, so a length is
/// wrong by up to half of this and what the tick before was late by: within 10 ms even where that is 4 ms.
pub const DEFAULT_PERIOD: Duration = Duration::from_millis(12);
/// How late a tick is a pause unless told otherwise.
pub const DEFAULT_THRESHOLD: Duration = Duration::from_millis(20);

/// Ticks are put off no further: the kernel's accounts are a second old at most when a pause begins, and a period.
const PUT_OFF_NS: u64 = ACCOUNTS_WINDOW_NS;
/// A working thread reads the kernel's counts of itself no more often. It takes 1 to 2 µs.
const COUNTED_EVERY_NS: u64 = 6_000_000;

/// A time in which this process did not run although it was meant to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// When it stopped running, ns by [`crate::clock::mono_ns`]. A thread that does not rest ran until it last said so, and this
    /// is right to 0.5 ms. Else it ran at the last tick and did not at the next, and this is the middle between the two, right to
    /// half a period.
    pub began_mono_ns: u64,
    /// When it ran again, ns by the same clock.
    pub ended_mono_ns: u64,
    /// How long the thread was able to run and had to wait for a processor, in ns (`/proc/thread-self/schedstat`), in
    /// this time and before it: of the clock's thread in punctual ticks (within 0.25 ms) of up to [`ACCOUNTS_WINDOW_NS`], of a thread
    /// that was kept from running by itself in up to 6 ms of work. None where the system does not tell.
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

/// How long the thread that makes it was able to run and had to wait for a processor.
#[derive(Debug)]
pub struct RunQueue(system::Counts);

impl RunQueue {
    /// Of this thread.
    pub fn of_this_thread() -> Self {
        Self(system::Counts::open())
    }

    /// Since the thread began, in ns: from when it could run to when it did. It takes 1 to 2 µs. `None`: the system does not tell, or not yet.
    pub fn waited_ns(&self) -> Option<u64> {
        // A kernel that does not count says 0 of both, as every kernel does of a thread that has just begun.
        self.0.read().filter(|counted| counted.ran_ns > 0).map(|counted| counted.waited_ns)
    }
}

/// A thread that ticks and notes which ticks came late. Dropping it ends the thread.
#[derive(Debug)]
pub struct PauseClock {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    gap: Gap,
}

/// What a thread needs to have its word taken into account: see [`Running`].
#[derive(Debug, Clone)]
pub struct Gap(Arc<Shared>);

/// What the ticking thread shares with those that do the work.
#[derive(Debug)]
struct Shared {
    dues: Dues,
    alarm: system::Alarm,
    /// [`mono_ns`].
    clock: fn() -> u64,
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
        let dues = Dues::new(period.as_nanos() as u64, threshold.as_nanos() as u64);
        let shared = Arc::new(Shared { dues, alarm: system::Alarm::new()?, clock: mono_ns });
        let gap = Gap(Arc::clone(&shared));
        let (ticking, begun) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("pause-clock".to_owned()).stack_size(128 << 10).spawn(
            move || {
                let mut accounts = system::Accounts::open();
                accounts.refresh(mono_ns(), 0);
                shared.dues.ticked(mono_ns(), PUT_OFF_NS);
                let _ = ticking.send(());
                tick(&stopped, accounts, &shared, on_pause);
                shared.dues.gone();
            },
        )?;
        // A pause right after the return must not fall into the time before the first tick was due.
        let _ = begun.recv();
        Ok(Self { stop, thread: Some(thread), gap })
    }

    /// For the threads that do the work: a pause is told to them before this clock's own thread tells it.
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

fn tick(stop: &AtomicBool, mut accounts: system::Accounts, shared: &Shared, mut on_pause: impl FnMut(Pause)) {
    let dues = &shared.dues;
    // Whether the accounts were read on the far side of a pause.
    let mut read_late = false;
    let mut stopped = false;
    while !stopped {
        shared.alarm.sleep_until(dues.sleeps());
        // Asked before: what was missed up to then is told.
        stopped = stop.load(Ordering::Relaxed);
        let now = mono_ns();
        // What this thread waited for a processor is not to be laid on the next pause.
        let late_ns = now.saturating_sub(dues.armed());
        dues.ran(now);
        let spans = dues.take();
        let mut ticked = now;
        if !spans.is_empty() {
            let since = accounts.since_refresh(now);
            let (run_queue_ns, steal_ns) = if read_late { (None, None) } else { since };
            pauses_of(&spans, run_queue_ns, steal_ns).for_each(&mut on_pause);
            ticked = mono_ns();
        }
        // From this tick, not from what was due: ticks that were missed are not made up for. And not from a later reading: a pause
        // between the two would make no tick late, and be lost.
        dues.ticked(ticked, PUT_OFF_NS);
        // After pauses that was done as they were told: what this thread waited since may be of one that begins now.
        accounts.refresh(now, if spans.is_empty() { late_ns } else { 0 });
        read_late = mono_ns().saturating_sub(ticked) > dues.threshold_ns();
    }
}

/// What the accounts say of times that were noticed together: what the clock's thread waited is of those in which it did not run,
/// what was stolen of all of them.
fn pauses_of(
    spans: &VecDeque<Span>,
    run_queue_ns: Option<u64>,
    steal_ns: Option<u64>,
) -> impl Iterator<Item = Pause> {
    let sum = |wanted: fn(&Whose) -> bool| -> u64 {
        spans.iter().filter(|span| wanted(&span.of)).map(Span::duration_ns).sum()
    };
    let (process_ns, all_ns) = (sum(|of| *of == Whose::Process), sum(|_| true));
    spans.iter().map(move |span| {
        let share = |ns: u64, of_ns: u64| dues::share(ns, span.duration_ns(), of_ns);
        let run_queue_ns = match span.of {
            Whose::Process => run_queue_ns.map(|ns| share(ns, process_ns)),
            Whose::Thread(waited_ns) => Some(waited_ns),
        };
        Pause {
            began_mono_ns: span.began_ns,
            ended_mono_ns: span.ended_ns,
            run_queue_ns,
            steal_ns: steal_ns.map(|ns| share(ns, all_ns)),
        }
    })
}

impl Span {
    fn duration_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.began_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_needs_half_of_the_pause() {
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

    /// The clock's thread was kept from running too, for the later part of the time.
    #[test]
    fn thread_pause_uses_its_own_wait() {
        let span = |began_ns, ended_ns, of| Span { began_ns, ended_ns, of };
        let spans = VecDeque::from([span(606, 1_000, Whose::Process), span(0, 606, Whose::Thread(600))]);
        let waited = |run_queue| {
            pauses_of(&spans, run_queue, None).map(|p| (p.run_queue_ns, p.cause())).collect::<Vec<_>>()
        };
        let scheduling = PauseCause::HostScheduling;
        assert_eq!(waited(Some(394)), [(Some(394), scheduling), (Some(600), scheduling)]);
        assert_eq!(waited(None), [(None, PauseCause::Unknown), (Some(600), scheduling)]);
    }

    #[test]
    fn a_period_of_nothing_is_refused() {
        let error = PauseClock::start(Duration::ZERO, DEFAULT_THRESHOLD, |_| {}).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn dropped_clock_reports_nothing() {
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
