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

/// Nobody waits longer for one, beyond round trips: a server that is so busy is left alone.
const WITHIN_NS: u64 = 100_000_000;
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
    /// The server tells since when it has done what it does.
    tells_since: bool,
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
        Self { asked: Mutex::default(), credit, is_late: AtomicBool::new(false), tells_since }
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

    fn may_be(&self, now: u64) -> bool {
        let (free_ns, credit) = &mut *lock(&self.credit);
        let may_be = self.tells_since && *free_ns <= now && !self.is_late.load(Ordering::Relaxed);
        if may_be {
            *free_ns = credit.take(now);
        }
        may_be
    }
}

impl Looks {
    /// Looks at the session, whose query is over, over a path with such a round trip; `None`: nobody does, or not in time, or the user wants
    /// the run to end.
    pub(crate) fn after(&self, rtt_ns: u64, stop: &Stop) -> Option<After> {
        let (afters, now) = (&self.shared.afters, mono_ns());
        if self.failure().is_some() || !afters.may_be(now) {
            return None;
        }
        let (tells, seen) = channel();
        lock(&afters.asked).push_back((self.at, tells));
        self.shared.wake();
        let until_ns = now.saturating_add(WITHIN_NS).saturating_add(rtt_ns.saturating_mul(4));
        loop {
            match seen.recv_timeout(PATIENCE) {
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
        let Ok(look) = looks::look(session, &watch, true, login)? else { return Ok(()) };
        let counted = counted(session, &watch, login)?;
        // Whoever asked may have waited long enough.
        _ = tells.send(After { look, counted });
        Ok(())
    }
}

fn counted(session: &mut dyn Protocol, watch: &Watch, login: &Login) -> Result<Option<Counted>, Error> {
    let Some(waits) = &watch.waits else { return Ok(None) };
    match session.ask(&waits.sql, login) {
        Ok(answer) => Ok((waits.read)(answer).ok().flatten()),
        Err(error) if error.passes() => Err(error),
        // An older server has no such view.
        Err(_) => Ok(None),
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
