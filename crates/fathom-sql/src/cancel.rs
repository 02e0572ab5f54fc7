//! Asks the server to end a query, as libpq does: on a connection of its own.

use crate::limit::Limit;
use crate::session::{self, Login};
use bytes::BytesMut;
use postgres_protocol::message::frontend;

/// Asks, on a thread of its own: a server that does not take the connection holds up nobody who reads the answer, or who wants to
/// end without it. Whether the server heeds it shows in the query's own answer.
pub(crate) fn cancel(login: &Login, key: (i32, i32)) {
    let login = login.clone();
    let spawned = std::thread::Builder::new().name("cancel".into()).spawn(move || ask(&login, key));
    if let Err(error) = spawned {
        tracing::debug!(%error, "cancel");
    }
}

fn ask(login: &Login, (process, secret): (i32, i32)) {
    let mut out = BytesMut::new();
    frontend::cancel_request(process, secret, &mut out);
    let limit = login.limit();
    let sent = session::open(login, &limit).and_then(|mut channel| {
        channel.send(&out, &limit).map_err(|e| crate::Error::run(e.to_string()))?;
        // The server closes when it has done it.
        while limit.check().is_ok() && !channel.wait(Limit::PIECE).unwrap_or(true) {}
        Ok(())
    });
    if let Err(error) = sent {
        tracing::debug!(%error, "cancel");
    }
}
