//! Several connections that ask side by side: their logins, and what the run makes of one that is lost.

use crate::lock::lock;
use crate::login::Login;
use crate::protocol::{Protocol, Watch};
use crate::{Config, Error};
use fathom_core::query::MOST_CONNECTIONS;
use fathom_core::text::count;
use fathom_os::clock::mono_ns;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;
use std::time::Duration;

/// So many log in at the same time.
const AT_ONCE: u64 = 8;

/// From one try to replace a lost session to the next, at first; then twice as long, up to this.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
const AGAIN_AT_MOST: Duration = Duration::from_secs(1);

/// When a lost session is tried to be replaced: again and again, until it has been tried for so long.
pub(crate) struct Retries {
    until_ns: u64,
    wait: Duration,
}

impl Retries {
    /// The session is lost now.
    pub(crate) fn begin(within: Duration) -> Self {
        Self { until_ns: mono_ns().saturating_add(within.as_nanos() as u64), wait: AGAIN_AFTER }
    }

    /// When to try again, where another try may come to more; `None`: not any more.
    pub(crate) fn next(&mut self, may_pass: bool) -> Option<u64> {
        let now = mono_ns();
        let next_ns = now + self.wait.as_nanos() as u64;
        self.wait = (self.wait * 2).min(AGAIN_AT_MOST);
        // The last try is at the end of the time.
        (may_pass && now < self.until_ns).then(|| next_ns.min(self.until_ns))
    }
}

/// Logs in for queries of this configuration.
pub(crate) type Begin = fn(&Login, &Config) -> Result<Box<dyn Protocol>, Error>;

/// Why a configuration cannot be asked over so many connections.
pub(crate) fn unfit(config: &Config) -> Option<String> {
    if !(1..=MOST_CONNECTIONS).contains(&config.connections) {
        return Some(format!("--connections: write a number from 1 to {MOST_CONNECTIONS}"));
    }
    (config.connections > 1 && !config.sweep.is_empty()).then(|| {
        "--connections with several --fetch-size or --packet-size: while one connection asks with one of them the others ask with \
         another, and what is held against each other is the mixture; ask with one of them a run"
            .to_owned()
    })
}

/// Logs in for each connection but the first, which is open: what is wrong with all of them is told once, and asked of the server
/// once.
pub(crate) fn open(
    login: &Login,
    config: &Config,
    first: Vec<Box<dyn Protocol>>,
    begin: Begin,
) -> Result<Vec<Box<dyn Protocol>>, Error> {
    let (open, failed) = (Mutex::new(first), Mutex::new(None));
    let (left, is_over) = (AtomicU64::new(config.connections - 1), AtomicBool::new(false));
    let next = || {
        let one_less = |left: u64| left.checked_sub(1);
        !is_over.load(Ordering::Relaxed)
            && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    };
    let log_in = || {
        while next() {
            match begin(login, config) {
                Ok(session) => lock(&open).push(session),
                Err(error) => {
                    is_over.store(true, Ordering::Relaxed);
                    lock(&failed).get_or_insert(error);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let all = (0..AT_ONCE.min(config.connections - 1)).map(|_| spawn(scope, "login".to_owned(), log_in));
        let spawned = all.collect::<Result<Vec<_>, _>>();
        if spawned.is_err() {
            is_over.store(true, Ordering::Relaxed);
        }
        spawned.map(drop)
    })?;
    let open = open.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => Ok(open),
        Some(error) if login.stop.times() > 0 => Err(error),
        Some(error) => Err(Error::run(format!(
            "{} of {} could be opened: {error} (or ask over fewer)",
            open.len(),
            count(config.connections, "connection")
        ))),
    }
}

/// How each of these is seen by another session. Each is asked for that, several at the same time.
pub(crate) fn watches(sessions: &mut [Box<dyn Protocol>], login: &Login) -> Result<Vec<Arc<Watch>>, Error> {
    let some = sessions.len().div_ceil(AT_ONCE as usize).max(1);
    let ask = |some: &mut [Box<dyn Protocol>]| {
        some.iter_mut().map(|session| session.watch(login).map(Arc::new)).collect::<Result<Vec<_>, _>>()
    };
    std::thread::scope(|scope| {
        let asked = sessions.chunks_mut(some).map(|some| spawn(scope, "watch".to_owned(), move || ask(some)));
        let asked = asked.collect::<Result<Vec<_>, _>>()?;
        let failed = || Error::run("a thread that asks for a session's number failed");
        let each = asked.into_iter().map(|thread| thread.join().map_err(|_| failed())?);
        Ok(each.collect::<Result<Vec<_>, _>>()?.concat())
    })
}

/// Begins a thread of this scope.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: String,
    run: impl FnOnce() -> T + Send + 'scope,
) -> Result<std::thread::ScopedJoinHandle<'scope, T>, Error> {
    let spawned = std::thread::Builder::new().name(name).spawn_scoped(scope, run);
    spawned.map_err(|e| Error::run(format!("cannot begin a thread: {e}")))
}
