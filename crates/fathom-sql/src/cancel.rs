//! Asks the server to end a query on a connection of its own, as the clients of `PostgreSQL` and `MySQL` do.

use crate::error::{Error, Unasked};
use crate::limit::Limit;
use crate::login::Login;
use crate::session;
use bytes::BytesMut;
use postgres_protocol::message::frontend;
use std::sync::Arc;

pub(crate) fn cancel(login: &Login, key: (i32, i32)) -> Unasked {
    on_a_thread(login, move |login| ask(login, key))
}

/// Asks, on a thread of its own: a server that does not take the connection holds up nobody who reads the answer, or who wants to
/// end without it. Whether the server heeds it shows in the query's own answer.
pub(crate) fn on_a_thread(
    login: &Login,
    ask: impl FnOnce(&Login) -> Result<(), Error> + Send + 'static,
) -> Unasked {
    let (login, unasked) = (login.clone(), Unasked::default());
    let tell = Arc::clone(&unasked);
    let ask = move || {
        if let Err(error) = ask(&login) {
            tracing::debug!(%error, "cancel");
            _ = tell.set(error);
        }
    };
    let spawned = std::thread::Builder::new().name("cancel".into()).spawn(ask);
    if let Err(error) = spawned {
        _ = unasked.set(Error::run(format!("cannot begin a thread: {error}")));
    }
    unasked
}

fn ask(login: &Login, (process, secret): (i32, i32)) -> Result<(), Error> {
    let mut out = BytesMut::new();
    frontend::cancel_request(process, secret, &mut out);
    let limit = login.limit();
    let mut channel = session::open(login, &limit)?;
    channel.send(&out, &limit).map_err(|e| Error::run(e.to_string()))?;
    // The server closes when it has done it.
    while limit.check().is_ok() && !channel.wait(Limit::PIECE).unwrap_or(true) {}
    Ok(())
}
