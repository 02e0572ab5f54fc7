//! Requests to end, and hang-ups, as signals bring them.

use crate::exit::Failure;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A signal this soon after the first repeats it. `timeout` signals the process and then its group, and a terminal and
/// a service manager may both pass one on. A person who means "at once" sees first that the run goes on.
const ONE_REQUEST: Duration = Duration::from_millis(500);

/// Reopens files at a hang-up.
static REOPEN: Mutex<Vec<Box<dyn Fn() + Send>>> = Mutex::new(Vec::new());
/// Set if a hang-up ended this run.
static HUNG_UP: AtomicBool = AtomicBool::new(false);

/// Calls `asked`, on a thread of its own, each time this process is asked to end: by Ctrl-C (SIGINT), SIGTERM, or a
/// hang-up (SIGHUP) of the terminal that it runs on. Signals that come within half a second of the first are one request.
/// Any other hang-up reopens files, after a rotation of logs. One that was ignored when the process started, as under
/// `nohup`, stays ignored.
pub(crate) fn on_request_to_end(mut asked: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    let (began, mut requests) = (Instant::now(), Requests::default());
    let on_signal = move || {
        if requests.is_another(began.elapsed()) {
            asked();
        }
    };
    watch(on_signal).map_err(|e| Failure::run(format!("cannot watch for SIGTERM and Ctrl-C: {e}")))
}

/// Tells requests to end from signals that repeat the first.
#[derive(Debug, Default)]
struct Requests {
    first: Option<Duration>,
}

impl Requests {
    /// True if a signal at this time is a new request.
    fn is_another(&mut self, now: Duration) -> bool {
        let first = *self.first.get_or_insert(now);
        now == first || now.saturating_sub(first) >= ONE_REQUEST
    }
}

/// Calls `reopen` at each hang-up that does not end the run.
pub(crate) fn on_hangup(reopen: impl Fn() + Send + 'static) {
    REOPEN.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(reopen));
}

/// True if this run ended because its terminal hung up.
pub(crate) fn hung_up() -> bool {
    HUNG_UP.load(Ordering::SeqCst)
}

#[cfg(unix)]
fn watch(mut asked: impl FnMut() + Send + 'static) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let hangup = (!fathom_os::signals::hangup_is_ignored()).then_some(SIGHUP);
    let watched = [SIGINT, SIGTERM].into_iter().chain(hangup);
    let mut signals = signal_hook::iterator::Signals::new(watched)?;
    let had_terminal = has_terminal();
    let told = move |signal| {
        if signal != SIGHUP {
            asked();
        } else if had_terminal && !has_terminal() {
            HUNG_UP.store(true, Ordering::SeqCst);
            asked();
        } else {
            REOPEN.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|reopen| reopen());
        }
    };
    let thread = std::thread::Builder::new().name("signals".into());
    thread.spawn(move || signals.forever().for_each(told)).map(drop)
}

/// True if this process has a controlling terminal. When SIGHUP comes because a terminal hung up, it has lost it already.
#[cfg(unix)]
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

/// From here on a file that reaches the limit of its size (`ulimit -f`) makes its write fail, as a full disk does, and does not
/// end the process. A handler does that, and not ignoring the signal: programs that are started then find it as it was.
pub(crate) fn outlive_the_limit_of_files() {
    #[cfg(unix)]
    // Where it cannot be set, the limit kills, as it does by default.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
}

/// Only a flag can be set safely from a handler here, and nothing else wakes a thread for it.
#[cfg(not(unix))]
fn watch(mut asked: impl FnMut() + Send + 'static) -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use std::sync::Arc;
    let came = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&came))?;
    }
    let thread = std::thread::Builder::new().name("signals".into());
    let look = move || loop {
        if came.swap(false, Ordering::Relaxed) {
            asked();
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    thread.spawn(look).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_within_half_a_second_are_one() {
        let mut requests = Requests::default();
        let at_ms = [7_000, 7_001, 7_250, 7_499, 7_500, 7_501];
        let asked = at_ms.map(|ms| requests.is_another(Duration::from_millis(ms)));
        assert_eq!(asked, [true, false, false, false, true, true]);
    }
}
