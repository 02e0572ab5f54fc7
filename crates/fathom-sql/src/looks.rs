//! What the server's backend does while a query runs, asked on a second connection, which is the same for all sessions of a run.
//! Nobody is asked where no query has run for some milliseconds, and the longer one runs the more rarely.

use crate::protocol::{Protocol, Watch};
use crate::session::Login;
use crate::{Error, Stop};
use fathom_core::query::{ServerState, Since};
use fathom_os::clock::mono_ns;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const MS: u64 = 1_000_000;
/// A query that is over sooner is not looked at.
const FIRST_AFTER_NS: u64 = 3 * MS;
/// From one look to the next: a twentieth of the time that the query has run, within these. One look takes a backend a tenth of a millisecond.
const LEAST_NS: u64 = 10 * MS;
const MOST_NS: u64 = 100 * MS;
/// In the place of when a query began: none will.
const LEAVE: u64 = u64::MAX;
/// Whoever looks sleeps for so long at most.
const SLEEP_NS: u64 = 100 * MS;
/// Who ends the run waits no longer for a look that is under way.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// One look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// When its answer was here, on the monotonic clock.
    pub(crate) at_ns: u64,
    /// When it was asked.
    pub(crate) asked_ns: u64,
    pub(crate) state: ServerState,
    /// Since when it has done so, as far as the server tells.
    pub(crate) since: Option<Since>,
    /// `IO/DataFileRead`: what the backend waited for, where it waited for anything.
    pub(crate) wait: Option<String>,
}

/// The thread that looks.
pub(crate) struct Looks {
    pub(crate) seen: Receiver<Look>,
    /// At which session.
    watch: Arc<Mutex<Arc<Watch>>>,
    running: Arc<AtomicU64>,
    /// Whoever looks has to be woken for a query: none has begun for so long that it sleeps soundly.
    sleeps: Arc<AtomicBool>,
    /// One was asked for then, and has not come; 0: none.
    under_way: Arc<AtomicU64>,
    /// Why nobody looks any more.
    failed: Arc<OnceLock<Error>>,
    thread: JoinHandle<()>,
}

impl Looks {
    /// Looks once on this second connection, and goes on whenever a query runs.
    pub(crate) fn begin(
        mut session: Box<dyn Protocol>,
        watch: Arc<Watch>,
        login: &Login,
        stop: &Stop,
    ) -> Result<Self, Error> {
        look(&mut *session, &watch, &login.impatient())?;
        let (tell, seen) = channel();
        let running = Arc::new(AtomicU64::new(0));
        let sleeps = Arc::<AtomicBool>::default();
        let (under_way, failed) = (Arc::<AtomicU64>::default(), Arc::<OnceLock<Error>>::default());
        let (stop, login, theirs) =
            (stop.clone(), login.clone(), Queries(Arc::clone(&running), Arc::clone(&sleeps)));
        let watch = Arc::new(Mutex::new(watch));
        let at = Arc::clone(&watch);
        let (asked, why) = (Arc::clone(&under_way), Arc::clone(&failed));
        let run = move || {
            if let Err(error) = run_looks(&mut *session, &at, &login, &theirs, &asked, &tell, &stop) {
                _ = why.set(error);
            }
            // A session takes its leave of the server before `end` is told by the end of the channel.
            drop(session);
            drop(tell);
        };
        let thread = std::thread::Builder::new().name("looks".into()).spawn(run);
        let thread = thread.map_err(|e| Error::run(format!("cannot begin a thread: {e}")))?;
        Ok(Self { seen, watch, running, sleeps, under_way, failed, thread })
    }

    /// From now on another session is looked at: a look at the one before is told no more, and may fail. No query runs.
    pub(crate) fn watch(&self, watch: &Arc<Watch>) {
        *lock(&self.watch) = Arc::clone(watch);
    }

    /// A query is about to begin. Where one follows the other nobody is woken: whoever looks then sees by itself, before a look can be
    /// due, that another has begun.
    pub(crate) fn query_begins(&self) {
        self.running.store(mono_ns().max(1), Ordering::SeqCst);
        if self.sleeps.swap(false, Ordering::SeqCst) {
            self.thread.thread().unpark();
        }
    }

    /// It has begun.
    pub(crate) fn query_began(&self, now_ns: u64) {
        self.running.store(now_ns.max(1), Ordering::SeqCst);
    }

    /// Since when one is under way.
    pub(crate) fn under_way(&self) -> Option<u64> {
        Some(self.under_way.load(Ordering::Acquire)).filter(|asked_ns| *asked_ns > 0)
    }

    /// Why nobody looks any more, where that is so.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failed.get().cloned()
    }

    /// It is over.
    pub(crate) fn query_ended(&self) {
        self.running.store(0, Ordering::SeqCst);
    }

    /// Nobody looks any more: waits for the look that is under way, and until the session has taken its leave, but not long.
    pub(crate) fn end(&self) {
        self.running.store(LEAVE, Ordering::SeqCst);
        self.thread.thread().unpark();
        let until_ns = mono_ns() + LEAVE_WITHIN.as_nanos() as u64;
        while let Some(left_ns) = until_ns.checked_sub(mono_ns()) {
            if let Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) =
                self.seen.recv_timeout(Duration::from_nanos(left_ns))
            {
                return;
            }
        }
    }
}

/// Since when a query runs (0: none does), and whether whoever looks is to be woken for one.
struct Queries(Arc<AtomicU64>, Arc<AtomicBool>);

impl Queries {
    fn began_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Sleeps until a query begins, or for so long.
    fn wait(&self) {
        self.1.store(true, Ordering::SeqCst);
        // One that has begun before that wakes nobody.
        if self.began_ns() == 0 {
            std::thread::park_timeout(Duration::from_nanos(SLEEP_NS));
        }
        self.1.store(false, Ordering::SeqCst);
    }
}

fn lock(watch: &Mutex<Arc<Watch>>) -> MutexGuard<'_, Arc<Watch>> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run_looks(
    session: &mut dyn Protocol,
    watch: &Mutex<Arc<Watch>>,
    login: &Login,
    queries: &Queries,
    under_way: &AtomicU64,
    tell: &Sender<Look>,
    stop: &Stop,
) -> Result<(), Error> {
    let (mut next_ns, mut ran_ns) = (0, 0);
    while !stop.is_over() {
        let began_ns = queries.began_ns();
        if began_ns == LEAVE {
            break;
        }
        let now = mono_ns();
        ran_ns = if began_ns > 0 { now } else { ran_ns };
        // Where none runs, of one that begins now.
        let of_ns = if began_ns > 0 { began_ns } else { now };
        let due_ns = next_ns.max(of_ns + FIRST_AFTER_NS);
        if began_ns == 0 && now.saturating_sub(ran_ns) >= 2 * FIRST_AFTER_NS {
            queries.wait();
        } else if now < due_ns {
            std::thread::park_timeout(Duration::from_nanos((due_ns - now).min(SLEEP_NS)));
        } else if began_ns > 0 {
            under_way.store(now, Ordering::Release);
            let at = Arc::clone(&lock(watch));
            let look = look(session, &at, login);
            // Who ended the run did not want to know.
            if look.is_err() && (stop.times() > 1 || stop.is_over()) {
                return Ok(());
            }
            // Until it is told nobody looks at another.
            let current = lock(watch);
            if Arc::ptr_eq(&current, &at) {
                // Where it fails the run goes on without.
                let look = look?;
                next_ns = look.at_ns + (look.at_ns.saturating_sub(began_ns) / 20).clamp(LEAST_NS, MOST_NS);
                if tell.send(look).is_err() {
                    return Ok(());
                }
            }
            drop(current);
            under_way.store(0, Ordering::Release);
        }
    }
    Ok(())
}

fn look(session: &mut dyn Protocol, watch: &Watch, login: &Login) -> Result<Look, Error> {
    let asked_ns = mono_ns();
    let answer = session.ask(&watch.sql, login).map_err(|error| match &watch.grant {
        Some((code, grant)) if error.to_string().ends_with(&format!("({code})")) => {
            Error::run(format!("{error}; {grant}"))
        }
        _ => error,
    })?;
    let at_ns = mono_ns();
    let lasted_ns = session.lasted_ns(&answer);
    let since = lasted_ns.and_then(|lasted_ns| Since::of_look(asked_ns, at_ns, lasted_ns));
    let (state, wait) = (watch.read)(answer)?;
    Ok(Look { at_ns, asked_ns, state, since, wait })
}
