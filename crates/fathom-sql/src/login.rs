//! How a server is reached and logged in to, and what is said where that breaks off.

use crate::channel::Channel;
use crate::limit::{Limit, is_ended};
use crate::ssl_mode::SslMode;
use crate::stood::Clock;
use crate::target::Secret;
use crate::violation::{REPORT_IT, is_of_this_side, is_violation, to_do};
use crate::{Error, Server, Stop, tls};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How a server is reached and logged in to.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) server: Server,
    pub(crate) remote: SocketAddr,
    pub(crate) password: Option<Secret>,
    /// The session may not write.
    pub(crate) read_only: bool,
    /// A login, and a question of ours, are to be over within this.
    pub(crate) within: Duration,
    /// What ends both sooner.
    pub(crate) stop: Stop,
    /// What puts both off.
    pub(crate) clock: Clock,
    /// The first request to end the run ends it, and not the second: nothing is lost by it.
    pub(crate) is_impatient: bool,
    /// The server lets this user in no more, on whichever connection of the run.
    pub(crate) barred: Arc<OnceLock<Error>>,
    /// What logins of the run have come to.
    pub(crate) reached: Arc<Reached>,
}

/// What logins of a run have come to, below which no later one goes: whoever puts himself into the path meanwhile could ask for less.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    has_let_in: AtomicBool,
    is_proven: AtomicBool,
    is_encrypted: AtomicBool,
}

impl Reached {
    /// The server let somebody in, and had proved that it knows the password, or did so within TLS.
    pub(crate) fn reach(&self, is_proven: bool, is_encrypted: bool) {
        self.has_let_in.store(true, Ordering::Relaxed);
        self.is_proven.fetch_or(is_proven, Ordering::Relaxed);
        self.is_encrypted.fetch_or(is_encrypted, Ordering::Relaxed);
    }

    /// Whether the server has let somebody in.
    pub(crate) fn has_let_in(&self) -> bool {
        self.has_let_in.load(Ordering::Relaxed)
    }

    /// Whether the server proved in a login that it knows the password.
    pub(crate) fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    /// Whether a login was encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.is_encrypted.load(Ordering::Relaxed)
    }
}

impl Login {
    /// Of what begins now.
    pub(crate) fn limit(&self) -> Limit {
        let limit = Limit::within(self.within, &self.stop, &self.clock);
        if self.is_impatient { limit.impatient() } else { limit }
    }

    /// Whether TLS was only preferred, and is insisted on by now, because an earlier login of the run had it.
    pub(crate) fn is_to_stay_encrypted(&self) -> bool {
        self.server.ssl == SslMode::Prefer && self.reached.is_encrypted()
    }

    /// Logs in, unless a login of the run was refused so that no other is to be tried: each further one may count against the user, whom
    /// servers shut out after some.
    pub(crate) fn unless_barred<T>(&self, log_in: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        if let Some(error) = self.barred.get() {
            return Err(error.clone());
        }
        log_in().inspect_err(|error| {
            if error.is_barred() {
                _ = self.barred.set(error.clone());
            }
        })
    }

    /// Which the first request to end the run ends.
    pub(crate) fn impatient(&self) -> Self {
        Self { is_impatient: true, ..self.clone() }
    }
}

/// Whether it may be of a server that ends, and does not say so.
pub(crate) fn passes(error: &io::Error) -> bool {
    is_closed(error.kind())
}

/// Whether the other end has closed the connection.
pub(crate) fn is_closed(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(kind, UnexpectedEof | ConnectionReset | BrokenPipe)
}

/// What broke off, in a login or an answer to fathom: who ended it, as far as that is known.
pub(crate) fn broke(login: &Login, error: &io::Error) -> Error {
    let address = login.server.address();
    if is_violation(error) {
        let to_do = to_do(login.server.port);
        return Error::run(format!("{address} sent what fathom does not understand: {error}; {to_do}"));
    }
    let line = match error.kind() {
        _ if is_ended(error) => format!("{address} was not waited for any longer: {error}"),
        io::ErrorKind::TimedOut => format!("{address} does not answer: {error}"),
        _ if passes(error) => format!(
            "{address} closed the connection before it had answered ({error}): the server ended, or a proxy, pooler or balancer closed \
             it; see the log of each"
        ),
        kind if is_of_this_side(kind) => format!("fathom cannot go on with {address}: {error}; {REPORT_IT}"),
        _ => format!("{address} broke the connection: {error}"),
    };
    Error::of(passes(error), line)
}

/// Waits for more bytes.
pub(crate) fn more(channel: &mut Channel, limit: &Limit) -> io::Result<()> {
    loop {
        limit.check()?;
        match channel.fill() {
            Ok(filled) if filled.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                channel.wait(Limit::PIECE)?;
            }
            Err(e) => return Err(e),
        }
    }
}

/// EMFILE and ENFILE (asm-generic/errno-base.h): std has no kind of its own for them.
const NO_MORE_FILES: i32 = 24;
const NO_MORE_FILES_AT_ALL: i32 = 23;

/// A connection that was not set up, and what may be in its way.
pub(crate) fn unreachable(login: &Login, error: &io::Error, in_the_way: &str) -> Error {
    let address = login.server.address();
    if is_ended(error) {
        return Error::run(format!("{address} was not waited for any longer: {error}"));
    }
    let to_do = match error.raw_os_error() {
        Some(NO_MORE_FILES | NO_MORE_FILES_AT_ALL) => {
            "this process may open no more files: raise ulimit -n, or ask by fewer --connections".to_owned()
        }
        _ => format!("does the server listen there ({in_the_way})?"),
    };
    let line = format!("cannot connect to {address}: {error}; {to_do}");
    Error::of(error.kind() == io::ErrorKind::ConnectionRefused, line)
}

/// A server that had spoken TLS, and does not by now. Nobody tries again: whoever stands in the path would learn more by each login.
pub(crate) fn no_longer_encrypted(login: &Login) -> Error {
    Error::Barred(format!(
        "{} does not speak TLS any more, by which this run has logged in before. Whoever answers there now may only pretend to be the server, so \
         nothing was asked of it, and nobody in this run logs in again; see what proxy or balancer is on the path, and check who answers by \
         sslmode=verify-full, or go without TLS by sslmode=disable",
        login.server.address()
    ))
}

/// TLS that did not come about.
pub(crate) fn not_secured(login: &Login, error: &io::Error, says: &tls::Says) -> Error {
    if is_ended(error) || error.kind() == io::ErrorKind::TimedOut {
        return broke(login, error);
    }
    tls::refused(&login.server, error, says)
}
