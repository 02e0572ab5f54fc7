//! A look at a session whose query is over: since when the server has been done with it, and how long its client's side held it up. It is in
//! no query's time, and tells of a query that was too short to be looked at often.

use super::credit::Credit;
use super::{Look, Looks, Shared};
use crate::lock::lock;
use crate::login::Login;
use crate::protocol::{Protocol, Watch};
use crate::{Error, Stop, looks};
use fathom_core::query::Counted;
use fathom_os::clock::mono_ns;
use std::collections::VecDeque;
use std::mem::replace;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a wait lasts before somebody looks whether the run is to end.
const PATIENCE: Duration = Duration::from_millis(20);

/// What is asked for.
#[derive(Debug)]
pub(super) struct Afters {
    asked: Mutex<VecDeque<(usize, Sender<After>)>>,
    /// None is made before that, and what may be made sooner.
    credit: Mutex<(u64, Credit)>,
    /// One was not answered in time, and whoever looks is not back: nobody waits for another.
    is_late: AtomicBool,
    /// The server tells since when it has been at rest, as far as that was seen.
    tells_since: AtomicBool,
    /// It counts nothing, or does not show it.
    counts_nothing: AtomicBool,
}

/// What it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct After {
    pub(crate) look: Look,
    /// What the server has counted for the session so far, where it counts.
    pub(crate) counted: Option<Counted>,
}

impl Afters {
    pub(super) fn new(connections: usize, tells_since: bool) -> Self {
        let now = mono_ns();
        let credit = Mutex::new((now, Credit::new(connections, now)));
        Self {
            asked: Mutex::default(),
            credit,
            is_late: AtomicBool::new(false),
            tells_since: AtomicBool::new(tells_since),
            counts_nothing: AtomicBool::new(false),
        }
    }

    /// Whoever looks is back, and takes the next that is asked for.
    pub(super) fn next(&self) -> Option<(usize, Sender<After>)> {
        self.is_late.store(false, Ordering::Relaxed);
        lock(&self.asked).pop_front()
    }

    /// Nobody waits for it any more.
    fn forget(&self, at: usize) {
        self.is_late.store(true, Ordering::Relaxed);
        lock(&self.asked).retain(|(of, _)| *of != at);
    }

    /// What a look tells of all: whether the server says since when it has been at rest.
    pub(super) fn learn(&self, look: &Look) {
        if look.is_rest && look.since.is_some() {
            self.tells_since.store(true, Ordering::Relaxed);
        }
    }

    fn may_be(&self, now: u64) -> bool {
        let (free_ns, credit) = &mut *lock(&self.credit);
        let is_of_use = self.tells_since.load(Ordering::Relaxed) && !self.is_late.load(Ordering::Relaxed);
        let may_be = is_of_use && *free_ns <= now;
        if may_be {
            *free_ns = credit.take(now);
        }
        may_be
    }
}

impl Looks {
    /// Looks at the session, whose query is over, and waits for that until then at the most; `None`: nobody looks, or not in time, or the user
    /// wants the run to end.
    pub(crate) fn after(&self, until_ns: u64, stop: &Stop) -> Option<After> {
        let (afters, now) = (&self.shared.afters, mono_ns());
        if self.failure().is_some() || !afters.may_be(now) {
            return None;
        }
        let (tells, seen) = channel();
        lock(&afters.asked).push_back((self.at, tells));
        self.shared.wake();
        loop {
            let left = Duration::from_nanos(until_ns.saturating_sub(mono_ns()));
            match seen.recv_timeout(left.min(PATIENCE)) {
                Ok(after) => return Some(after),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if stop.times() == 0 && mono_ns() < until_ns => {}
                Err(RecvTimeoutError::Timeout) => {
                    afters.forget(self.at);
                    return None;
                }
            }
        }
    }
}

impl Shared {
    /// Makes one. The error is of the session that looks; what one says of itself, looks while it runs tell.
    pub(super) fn look_after(
        &self,
        session: &mut dyn Protocol,
        at: usize,
        tells: &Sender<After>,
        login: &Login,
    ) -> Result<(), Error> {
        let watch = lock(&self.places[at].watch).clone();
        let look = match looks::look(session, &watch, true, login)? {
            Ok(look) => look,
            Err(error) => {
                // Of a session that has another in its place by now it says nothing.
                let current = lock(&self.places[at].watch);
                if Arc::ptr_eq(&current, &watch) {
                    *lock(&self.places[at].failed) = Some(error);
                }
                return Ok(());
            }
        };
        self.afters.learn(&look);
        let counted = self.counted(session, &watch, login)?;
        // Whoever asked may have waited long enough.
        _ = tells.send(After { look, counted });
        Ok(())
    }

    fn counted(
        &self,
        session: &mut dyn Protocol,
        watch: &Watch,
        login: &Login,
    ) -> Result<Option<Counted>, Error> {
        let counts_nothing = &self.afters.counts_nothing;
        let Some(waits) = watch.waits.as_ref().filter(|_| !counts_nothing.load(Ordering::Relaxed)) else {
            return Ok(None);
        };
        let counted = match session.ask(&waits.sql, login) {
            Ok(answer) => (waits.read)(answer).ok().flatten(),
            // An older server has no such view.
            Err(_) if session.is_ready() => None,
            Err(error) => return Err(error),
        };
        counts_nothing.store(counted.is_none(), Ordering::Relaxed);
        Ok(counted)
    }
}

/// What a server counted before a query, of the session that is asked.
#[derive(Default)]
pub(crate) struct Before {
    /// `None`: that is not known.
    ns: Option<u64>,
    of: Option<Arc<Watch>>,
}

impl Before {
    /// A query begins on the session that is seen so: of a new one nothing was counted.
    pub(crate) fn begin(&mut self, watch: &Arc<Watch>) {
        if !self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, watch)) {
            *self = Self { ns: Some(0), of: Some(Arc::clone(watch)) };
        }
    }

    /// For how long the server was blocked on sending in the query, as it counts; `None`: nobody knows.
    pub(crate) fn blocked_ns(&mut self, counted: Option<&Counted>) -> Option<u64> {
        let after_ns = counted.map(|counted| counted.ns);
        let before_ns = replace(&mut self.ns, after_ns);
        after_ns.zip(before_ns).map(|(after, before)| after.saturating_sub(before))
    }
}
