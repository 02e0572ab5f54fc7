//! Where a server is: the address of its name.

use crate::limit::{Limit, is_ended};
use crate::{Error, Server};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::RecvTimeoutError;

/// The first address of the server: several behind a name would be several paths.
pub(crate) fn lookup(server: &Server, limit: &Limit) -> Result<SocketAddr, Error> {
    let unknown = |why: String| {
        Error::run(format!("cannot find the host {}: {why}; see that the name is right", server.host))
    };
    // On a thread of its own: the system's resolver cannot be told to end, and may wait for its servers for half a minute.
    let (tell, told) = std::sync::mpsc::channel();
    let (host, port) = (server.host.clone(), server.port);
    let ask = move || tell.send((host.as_str(), port).to_socket_addrs().map(|mut found| found.next()));
    let spawned = std::thread::Builder::new().name("lookup".into()).spawn(ask);
    spawned.map_err(|e| Error::run(format!("cannot begin a thread: {e}")))?;
    let found = loop {
        match told.recv_timeout(Limit::PIECE) {
            Ok(found) => break found,
            Err(RecvTimeoutError::Disconnected) => return Err(unknown("the resolver failed".to_owned())),
            Err(RecvTimeoutError::Timeout) => limit.check_for("answer").map_err(|e| {
                if is_ended(&e) {
                    return Error::run(format!(
                        "the address of {} was not waited for any longer: {e}",
                        server.host
                    ));
                }
                unknown(e.to_string())
            })?,
        }
    };
    found.map_err(|e| unknown(e.to_string()))?.ok_or_else(|| unknown("it has no address".to_owned()))
}
