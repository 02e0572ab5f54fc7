//! Asks the server to end a query, as libpq does: on a connection of its own.

use crate::session::{self, Login};
use bytes::BytesMut;
use postgres_protocol::message::frontend;

/// Asks; whether the server heeds it shows in the query's own answer.
pub(crate) fn cancel(login: &Login, (process, secret): (i32, i32)) {
    let mut out = BytesMut::new();
    frontend::cancel_request(process, secret, &mut out);
    let sent = session::open(login).and_then(|mut channel| {
        channel.send(&out).map_err(|e| crate::Error::run(e.to_string()))?;
        // The server closes when it has done it.
        _ = channel.wait(std::time::Duration::from_secs(2));
        Ok(())
    });
    if let Err(error) = sent {
        tracing::debug!(%error, "cancel");
    }
}
