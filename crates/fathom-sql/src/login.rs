//! How a server is reached and logged in to, and what is said where that breaks off.

use crate::limit::{Limit, is_ended};
use crate::stood::Clock;
use crate::target::Secret;
use crate::{Error, Server, Stop};
use std::io;
use std::net::SocketAddr;
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
}

impl Login {
    /// Of what begins now.
    pub(crate) fn limit(&self) -> Limit {
        let limit = Limit::within(self.within, &self.stop, &self.clock);
        if self.is_impatient { limit.impatient() } else { limit }
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
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}

pub(crate) fn broke(login: &Login, error: &io::Error) -> Error {
    let what = match error.kind() {
        _ if is_ended(error) => "was not waited for any longer",
        io::ErrorKind::TimedOut => "does not answer",
        _ => "broke the connection",
    };
    Error::of(passes(error), format!("{} {what}: {error}", login.server.address()))
}
