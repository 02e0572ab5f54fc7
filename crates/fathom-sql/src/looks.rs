//! What the server's backends do while queries run, asked on a second connection, which is the same for all sessions of a run.
//! Nobody is asked before a query has run for some milliseconds, and the longer one runs the more rarely: whoever looks sleeps, and is
//! told of those alone that have run for so long ([`Looks::runs`]), because to be woken takes the processor from whoever asks.

pub(crate) mod after;
mod credit;
#[cfg(test)]
mod tests;

use crate::connections::Retries;
use crate::lock::lock;
use crate::login::Login;
use crate::protocol::{Protocol, Watch};
use crate::{Error, Stop};
use after::Afters;
use credit::Credit;
use fathom_core::query::{ServerState, Since};
use fathom_os::clock::mono_ns;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;
use std::time::Duration;

const MS: u64 = 1_000_000;
/// A query that is over sooner is not looked at.
const FIRST_AFTER_NS: u64 = 3 * MS;
/// From one look to the next: a twentieth of the time that the query has run, within these, as long as there is [`Credit`].
const LEAST_NS: u64 = 10 * MS;
const MOST_NS: u64 = 100 * MS;
/// Looks of all connections together are so far apart at the least.
const APART_NS: u64 = MS;
/// Whoever looks has to be woken for a query: none has begun for long.
const SOUNDLY: u64 = u64::MAX;
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
    /// That is when its last request was over.
    pub(crate) is_rest: bool,
    /// `IO/DataFileRead`: what the backend waited for, where it waited for anything.
    pub(crate) wait: Option<String>,
}

/// The thread that looks, for all connections of the run: on one session, so that a server of few connections has as many for the
/// queries.
pub(crate) struct Looker {
    shared: Arc<Shared>,
    /// It is at its end when the thread is.
    gone: Receiver<()>,
}

/// What it sees of one connection.
pub(crate) struct Looks {
    seen: Mutex<Receiver<Look>>,
    shared: Arc<Shared>,
    /// Its place in that.
    at: usize,
}

struct Shared {
    places: Vec<Place>,
    /// When the thread wakes by itself: `SOUNDLY` where nothing runs, 0 where it does not sleep.
    wakes_ns: AtomicU64,
    /// It looks at nothing before that.
    free_ns: AtomicU64,
    /// It is to end.
    leaves: AtomicBool,
    /// Why nobody looks at anything any more.
    failed: OnceLock<Error>,
    thread: OnceLock<Thread>,
    /// How often the session that looks was lost, and another took its place.
    reopened: AtomicU64,
    afters: Afters,
}

/// Begins a session that looks.
type Open = Box<dyn Fn() -> Result<Box<dyn Protocol>, Error> + Send>;

/// A connection that is looked at.
struct Place {
    /// By its session.
    watch: Mutex<Arc<Watch>>,
    /// Since when a query runs that has run for so long that it is looked at; 0: none does.
    running: AtomicU64,
    /// It is not looked at before that.
    next_ns: AtomicU64,
    /// A look was asked for then, and has not come; 0: none.
    under_way: AtomicU64,
    /// Looks were told that nobody has asked for.
    has_told: AtomicBool,
    /// The server has listed its session. To be changed with the lock on `watch`.
    is_listed: AtomicBool,
    /// Why its session is not seen any more.
    failed: Mutex<Option<Error>>,
    /// A look of the query that runs, or ran last, saw its session work or send. To be changed with the lock on `watch`.
    has_worked: AtomicBool,
}

impl Looker {
    /// Looks once on this second connection, and goes on whenever a query runs; `watches`: how it sees each connection.
    pub(crate) fn begin(
        open: Open,
        watches: Vec<Arc<Watch>>,
        login: &Login,
        stop: &Stop,
    ) -> Result<(Self, Vec<Looks>), Error> {
        let mut session = open()?;
        let first = watches.first().map(|watch| look(&mut *session, watch, false, &login.impatient()));
        let tells_since = match first {
            Some(look) => look??.since.is_some(),
            None => false,
        };
        let place = |watch| Place {
            watch: Mutex::new(watch),
            running: AtomicU64::new(0),
            next_ns: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
            has_told: AtomicBool::new(false),
            is_listed: AtomicBool::new(false),
            failed: Mutex::default(),
            has_worked: AtomicBool::new(false),
        };
        let afters = Afters::new(watches.len(), tells_since);
        let shared = Arc::new(Shared {
            afters,
            places: watches.into_iter().map(place).collect(),
            wakes_ns: AtomicU64::new(0),
            free_ns: AtomicU64::new(0),
            leaves: AtomicBool::new(false),
            failed: OnceLock::new(),
            thread: OnceLock::new(),
            reopened: AtomicU64::new(0),
        });
        if let Some(first) = shared.places.first() {
            first.is_listed.store(true, Ordering::SeqCst);
        }
        let (tells, seen): (Vec<_>, Vec<_>) = shared.places.iter().map(|_| channel()).unzip();
        let (ends, gone) = channel::<()>();
        let (stop, login, theirs) = (stop.clone(), login.clone(), Arc::clone(&shared));
        let run = move || {
            if let Err(error) = theirs.run(&mut session, &open, &login, &tells, &stop) {
                _ = theirs.failed.set(error);
            }
            // A session takes its leave of the server before `end` is told.
            drop(session);
            drop(ends);
        };
        let thread = std::thread::Builder::new().name("looks".into()).spawn(run);
        let thread = thread.map_err(|e| Error::run(format!("cannot begin a thread: {e}")))?;
        _ = shared.thread.set(thread.thread().clone());
        let each = seen.into_iter().enumerate();
        let each = each
            .map(|(at, seen)| Looks { seen: Mutex::new(seen), shared: Arc::clone(&shared), at })
            .collect();
        Ok((Self { shared, gone }, each))
    }

    /// How often it was lost, and went on with another session.
    pub(crate) fn reopened(&self) -> u64 {
        self.shared.reopened.load(Ordering::Relaxed)
    }

    /// Nobody looks any more: waits for the look that is under way, and until the session has taken its leave, but not long.
    pub(crate) fn end(&self) {
        self.shared.leaves.store(true, Ordering::SeqCst);
        self.shared.wake();
        _ = self.gone.recv_timeout(LEAVE_WITHIN);
    }
}

impl Looks {
    fn place(&self) -> &Place {
        &self.shared.places[self.at]
    }

    /// The looks that came since somebody last asked.
    pub(crate) fn seen(&self) -> Vec<Look> {
        let has_told = &self.place().has_told;
        if !has_told.load(Ordering::Acquire) {
            return Vec::new();
        }
        // Before they are taken: of one that is told meanwhile it is set again.
        has_told.store(false, Ordering::SeqCst);
        lock(&self.seen).try_iter().collect()
    }

    /// From now on this session is looked at: a look at another one before is told no more, and may fail. No query runs, and one begins.
    pub(crate) fn watch(&self, watch: &Arc<Watch>) {
        let mut at = lock(&self.place().watch);
        self.place().has_worked.store(false, Ordering::SeqCst);
        if !Arc::ptr_eq(&at, watch) {
            *at = Arc::clone(watch);
            self.place().is_listed.store(false, Ordering::SeqCst);
            *lock(&self.place().failed) = None;
        }
    }

    /// For how long the query that began then need not be told of.
    pub(crate) fn untold(&self, began_ns: u64, now_ns: u64) -> Duration {
        if self.place().running.load(Ordering::Relaxed) > 0 {
            return Duration::MAX;
        }
        Duration::from_nanos((began_ns + FIRST_AFTER_NS).saturating_sub(now_ns))
    }

    /// A query that began then still runs, and its thread does: once it has taken so long, whoever looks is told.
    #[inline]
    pub(crate) fn runs(&self, began_ns: u64, now_ns: u64) {
        if self.untold(began_ns, now_ns).is_zero() {
            self.is_long(began_ns);
        }
    }

    #[cold]
    fn is_long(&self, began_ns: u64) {
        let place = self.place();
        place.running.store(began_ns.max(1), Ordering::SeqCst);
        let due_ns = place.next_ns.load(Ordering::SeqCst).max(began_ns + FIRST_AFTER_NS);
        if due_ns.max(self.shared.free_ns.load(Ordering::SeqCst))
            < self.shared.wakes_ns.load(Ordering::SeqCst)
        {
            self.shared.wake();
        }
    }

    /// Since when one is under way.
    pub(crate) fn under_way(&self) -> Option<u64> {
        Some(self.place().under_way.load(Ordering::Acquire)).filter(|asked_ns| *asked_ns > 0)
    }

    /// Since when a look at whichever connection is under way, one that was given up too.
    pub(crate) fn unanswered_since(&self) -> Option<u64> {
        let each = self.shared.places.iter().map(|place| place.under_way.load(Ordering::Acquire));
        each.filter(|asked_ns| *asked_ns > 0).min()
    }

    /// Why nobody looks at this connection any more, where that is so.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.shared.failed.get().cloned().or_else(|| lock(&self.place().failed).clone())
    }

    /// That the session of the query that was asked last is gone from the server: only where a look of that query saw it at work before. Behind
    /// a pooler it may be another that served, and its end says nothing of this one.
    pub(crate) fn gone(&self) -> Option<String> {
        match self.failure() {
            Some(Error::Gone(line)) if self.place().has_worked.load(Ordering::SeqCst) => Some(line),
            _ => None,
        }
    }

    /// It is over.
    pub(crate) fn query_ended(&self) {
        self.place().running.store(0, Ordering::SeqCst);
    }
}

impl Place {
    /// A look for the query that began then saw this. One that is over by now is another's.
    fn worked(&self, state: ServerState, began_ns: u64) {
        let works = matches!(state, ServerState::Working | ServerState::Sending);
        if works && self.running.load(Ordering::SeqCst) == began_ns {
            self.has_worked.store(true, Ordering::SeqCst);
        }
    }

    /// When it is to be looked at; `None`: nobody can see it.
    fn due_ns(&self, of_ns: u64) -> Option<u64> {
        let is_seen = lock(&self.failed).is_none();
        is_seen.then(|| self.next_ns.load(Ordering::SeqCst).max(of_ns + FIRST_AFTER_NS))
    }
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
struct Next {
    /// The place that is to be looked at, and the query that runs there since when.
    look: Option<(usize, u64)>,
    /// Until then there is nothing to do.
    wake_ns: u64,
}

impl Shared {
    fn wake(&self) {
        self.wakes_ns.store(0, Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Whoever waits longest is looked at; `ran_ns`: when a query was last seen to run, of each.
    fn next(&self, now: u64, free_ns: u64, ran_ns: &mut [u64]) -> Next {
        let (mut look, mut wake_ns): (Option<(u64, usize, u64)>, _) = (None, SOUNDLY);
        for (at, (place, ran_ns)) in self.places.iter().zip(ran_ns).enumerate() {
            let began_ns = place.running.load(Ordering::SeqCst);
            if began_ns > 0 {
                *ran_ns = now;
            } else if now.saturating_sub(*ran_ns) >= 2 * FIRST_AFTER_NS {
                continue;
            }
            // Where none runs, of one that begins now.
            let of_ns = if began_ns > 0 { began_ns } else { now };
            let Some(due_ns) = place.due_ns(of_ns) else { continue };
            wake_ns = wake_ns.min(due_ns.max(free_ns));
            if began_ns > 0 && due_ns <= now && look.is_none_or(|(earliest_ns, ..)| due_ns < earliest_ns) {
                look = Some((due_ns, at, began_ns));
            }
        }
        Next { look: look.filter(|_| free_ns <= now).map(|(_, at, began_ns)| (at, began_ns)), wake_ns }
    }

    /// Another session, tried for as long as those that ask try for theirs; `None`: nobody wants one any more.
    fn reopen(&self, open: &Open, login: &Login, stop: &Stop) -> Result<Option<Box<dyn Protocol>>, Error> {
        let mut retries = Retries::begin(login.within);
        loop {
            if stop.times() > 0 || stop.is_over() || self.leaves.load(Ordering::SeqCst) {
                return Ok(None);
            }
            let error = match open() {
                Ok(session) => return Ok(Some(session)),
                Err(error) => error,
            };
            let Some(next_ns) = retries.next(error.passes()) else { return Err(error) };
            while mono_ns() < next_ns && !self.leaves.load(Ordering::SeqCst) && !stop.is_over() {
                std::thread::park_timeout(Duration::from_nanos(SLEEP_NS));
            }
        }
    }

    /// Another session in the place of the one that looks, which is lost, as those that ask may be; `false`: nobody wants one any more.
    fn again(
        &self,
        session: &mut Box<dyn Protocol>,
        open: &Open,
        login: &Login,
        stop: &Stop,
    ) -> Result<bool, Error> {
        let Some(another) = self.reopen(open, login, stop)? else { return Ok(false) };
        *session = another;
        self.reopened.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    fn run(
        &self,
        session: &mut Box<dyn Protocol>,
        open: &Open,
        login: &Login,
        tells: &[Sender<Look>],
        stop: &Stop,
    ) -> Result<(), Error> {
        let (mut free_ns, mut ran_ns) = (0, vec![0; self.places.len()]);
        let mut credit = Credit::new(self.places.len(), mono_ns());
        while !stop.is_over() && !self.leaves.load(Ordering::SeqCst) {
            if let Some((at, after)) = self.afters.next() {
                match self.look_after(&mut **session, at, &after, login) {
                    Ok(()) => {}
                    // Who ended the run did not want to know.
                    Err(_) if stop.times() > 1 || stop.is_over() => return Ok(()),
                    Err(error) if error.passes() => {
                        if !self.again(session, open, login, stop)? {
                            return Ok(());
                        }
                    }
                    Err(error) => return Err(error),
                }
                continue;
            }
            let now = mono_ns();
            let next = self.next(now, free_ns, &mut ran_ns);
            let Some((at, began_ns)) = next.look else {
                self.wakes_ns.store(next.wake_ns, Ordering::SeqCst);
                // One that has begun before that wakes nobody.
                if self.next(now, free_ns, &mut ran_ns) == next && !self.leaves.load(Ordering::SeqCst) {
                    let sleeps_ns = next.wake_ns.saturating_sub(now).min(SLEEP_NS);
                    std::thread::park_timeout(Duration::from_nanos(sleeps_ns));
                }
                self.wakes_ns.store(0, Ordering::SeqCst);
                continue;
            };
            let place = &self.places[at];
            place.under_way.store(now, Ordering::Release);
            let (watch, is_listed) = {
                let watch = lock(&place.watch);
                (Arc::clone(&watch), place.is_listed.load(Ordering::SeqCst))
            };
            let looked = look(&mut **session, &watch, is_listed, login);
            // Who ended the run did not want to know.
            if !matches!(looked, Ok(Ok(_))) && (stop.times() > 1 || stop.is_over()) {
                return Ok(());
            }
            if let Err(error) = &looked
                && error.passes()
            {
                place.under_way.store(0, Ordering::Release);
                if !self.again(session, open, login, stop)? {
                    return Ok(());
                }
                continue;
            }
            // Until it is told nobody looks at another.
            let current = lock(&place.watch);
            // What the other session says is of all; what it says of this one is not.
            match looked? {
                _ if !Arc::ptr_eq(&current, &watch) => {}
                // Where it fails the run goes on without.
                Err(error) => *lock(&place.failed) = Some(error),
                Ok(look) => {
                    let ran_ns = look.at_ns.saturating_sub(began_ns);
                    let next_ns = look.at_ns + (ran_ns / 20).clamp(LEAST_NS, MOST_NS);
                    place.next_ns.store(next_ns, Ordering::SeqCst);
                    place.is_listed.store(true, Ordering::SeqCst);
                    place.worked(look.state, began_ns);
                    self.afters.learn(&look);
                    // Nobody may be there to hear it any more.
                    _ = tells[at].send(look);
                    place.has_told.store(true, Ordering::SeqCst);
                }
            }
            drop(current);
            place.under_way.store(0, Ordering::Release);
            let now = mono_ns();
            free_ns = credit.take(now).max(now + APART_NS);
            self.free_ns.store(free_ns, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// The error outside is of the session that looks, the other one of what it says of the one that is looked at. `is_listed`: the server has
/// listed that one before.
fn look(
    session: &mut dyn Protocol,
    watch: &Watch,
    is_listed: bool,
    login: &Login,
) -> Result<Result<Look, Error>, Error> {
    let asked_ns = mono_ns();
    let answer = session.look(watch, login).map_err(|error| match &watch.grant {
        Some((code, grant)) if error.is_refusal(code) => Error::run(format!("{error}; {grant}")),
        _ => error,
    })?;
    let at_ns = mono_ns();
    if answer.is_empty() {
        let error =
            if is_listed { Error::Gone(watch.gone.clone()) } else { Error::run(watch.unlisted.clone()) };
        return Ok(Err(error));
    }
    let lasted = session.lasted(&answer);
    let is_rest = lasted.is_some_and(|lasted| lasted.is_rest);
    let since = lasted
        .and_then(|lasted| Some(Since::of_look(asked_ns, at_ns, lasted.ns)?.within(lasted.within_ns, at_ns)));
    Ok((watch.read)(answer).map(|(state, wait)| Look { at_ns, asked_ns, state, since, is_rest, wait }))
}
