//! What the server itself counts of the time that it could not send: read before and after the queries of a session, on a session of
//! its own, so that nothing of it is in a query's time. It is read alone: nobody's counts are ever set back.

use crate::connections::Begin;
use crate::lock::lock;
use crate::login::Login;
use crate::protocol::{Protocol, Shown, Waits, Watch};
use crate::{Config, Error};
use fathom_core::query::Counted;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Nothing but a figure is lost by an answer that does not come.
const WITHIN: Duration = Duration::from_secs(3);

/// Reads counts of sessions.
pub(crate) struct Counts {
    session: Box<dyn Protocol>,
    login: Login,
    config: Config,
    begin: Begin,
    is_last_try: bool,
}

impl Counts {
    /// On a session of its own.
    pub(crate) fn begin(login: &Login, config: &Config, begin: Begin) -> Result<Self, Error> {
        let login = Login { within: WITHIN, ..login.clone() };
        let session = begin(&login.impatient(), config)?;
        Ok(Self { session, login, config: config.clone(), begin, is_last_try: false })
    }

    fn read(&mut self, waits: &Waits) -> Result<Shown, Error> {
        (waits.read)(self.session.ask(&waits.sql, &self.login)?)
    }

    /// The same after a while, in which the session stood idle, and somebody may have ended it: then on a new one, where the run goes
    /// on or has ended in order. A server that does not answer is not asked twice.
    fn read_later(&mut self, waits: &Waits) -> Result<Shown, Error> {
        self.read(waits).or_else(|error| {
            if self.is_last_try || self.login.stop.times() > 0 {
                return Err(error);
            }
            self.session = (self.begin)(&self.login, &self.config).map_err(|_| error)?;
            self.read(waits)
        })
    }
}

/// The reader of a run, shared by its connections. Once it has failed nothing more is read: what one connection lacks, all lack
/// together.
#[derive(Default)]
pub(crate) struct Counting {
    /// `None`: the server counts nothing, or nobody can read it any more.
    counts: Mutex<Option<Counts>>,
    /// Why not, where that is still to be said.
    uncounted: Mutex<Option<Error>>,
}

impl Counting {
    /// From now on what the server counts is read, where servers of its kind count anything.
    pub(crate) fn begin(watch: Option<&Arc<Watch>>, login: &Login, config: &Config, begin: Begin) -> Self {
        let counting = Self::default();
        if watch.is_some_and(|watch| watch.waits.is_some()) {
            match Counts::begin(login, config, begin) {
                Ok(counts) => *lock(&counting.counts) = Some(counts),
                Err(error) => *lock(&counting.uncounted) = Some(error),
            }
        }
        counting
    }

    /// Reads; where that fails nothing more is.
    pub(crate) fn tally(&self, read: impl FnOnce(&mut Counts) -> Result<(), Error>) {
        let mut counts = lock(&self.counts);
        if let Some(reader) = counts.as_mut()
            && let Err(error) = read(reader)
        {
            *counts = None;
            *lock(&self.uncounted) = Some(error);
        }
    }

    /// The server was not waited for: nor is what it counts.
    pub(crate) fn give_up(&self) {
        if lock(&self.counts).take().is_some() {
            *lock(&self.uncounted) = Some(Error::run("the server had not answered"));
        }
    }

    /// The run has ended early.
    pub(crate) fn last_try(&self) {
        if let Some(counts) = lock(&self.counts).as_mut() {
            counts.is_last_try = true;
        }
    }

    /// Whether everything could be read so far.
    pub(crate) fn is_whole(&self) -> bool {
        lock(&self.counts).is_some()
    }

    /// Why what the server counts is not known, told once.
    pub(crate) fn uncounted(&self) -> Option<Error> {
        lock(&self.uncounted).take()
    }
}

/// What was counted of the sessions of a setting, one after the other.
#[derive(Default)]
pub(crate) struct Tally {
    /// The session that is asked now, and what had been counted of it when its queries began.
    now: Option<(Arc<Watch>, Counted)>,
    /// Of those before, but for those that were lost.
    past: Option<Counted>,
    lost_sessions: u64,
}

impl Tally {
    /// Queries of this session begin.
    pub(crate) fn begin(&mut self, counts: &mut Counts, watch: &Arc<Watch>) -> Result<(), Error> {
        let Some(waits) = &watch.waits else { return Ok(()) };
        let before = counts.read_later(waits)?.ok_or_else(|| Error::run(waits.unseen))?;
        self.now = Some((Arc::clone(watch), before));
        Ok(())
    }

    /// They are over, and the session is still there.
    pub(crate) fn end(&mut self, counts: &mut Counts) -> Result<(), Error> {
        let Some((watch, before)) = self.now.take() else { return Ok(()) };
        let Some(waits) = &watch.waits else { return Ok(()) };
        let after =
            counts.read_later(waits)?.ok_or_else(|| Error::run("it went with the session, which is over"))?;
        let since = after.since(&before).ok_or_else(|| Error::run("it was set back meanwhile"))?;
        self.past = Some(self.past.as_ref().map_or_else(|| since.clone(), |past| past.and(&since)));
        Ok(())
    }

    /// The session is lost, and what was counted of it has gone with it. It is not asked for: the server may have given its number to
    /// another.
    pub(crate) fn lost(&mut self) {
        self.lost_sessions += u64::from(self.now.take().is_some());
    }

    /// In all; `None`: there is none whose count was read. And how many are lost.
    pub(crate) fn sum(&self) -> (Option<Counted>, u64) {
        (self.past.clone(), self.lost_sessions)
    }
}
