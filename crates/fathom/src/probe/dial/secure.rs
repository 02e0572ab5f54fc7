//! The TLS handshake of a connection that was established.

use super::Dialer;
use crate::probe::tls::Trouble;
use fathom_os::clock::mono_ns;
use mio::net::TcpStream;
use rustls::ClientConnection;
use std::io;

/// How far a handshake is.
enum Step {
    Waiting,
    Finished,
}

impl Dialer<'_> {
    pub(super) fn begin_to_secure(&mut self, token: usize, now: u64) {
        let Some((tls, dialed)) = self.config.tls.as_ref().zip(self.dialed.get_mut(&token)) else { return };
        match tls.begin(&self.config.paths[dialed.way].target) {
            Ok(connection) => {
                dialed.securing = Some((now, Box::new(connection)));
                self.secure(token);
            }
            Err(trouble) => self.not_secured(token, &trouble),
        }
    }

    /// Goes on with the handshake as far as the socket lets it. The sample ends when this end's Finished is on its way.
    pub(super) fn secure(&mut self, token: usize) {
        let Some(dialed) = self.dialed.get_mut(&token) else { return };
        let Some((established_ns, connection)) = &mut dialed.securing else { return };
        let established_ns = *established_ns;
        match handshake(connection, &mut dialed.socket) {
            Ok(Step::Waiting) => {}
            Ok(Step::Finished) => {
                let now = mono_ns();
                connection.send_close_notify();
                // Should it not fit into an empty send buffer, the FIN that follows says as much.
                let _ = write(connection, &mut dialed.socket);
                dialed.securing = None;
                self.done(token, now, Some(established_ns));
            }
            Err(trouble) => {
                // The alert that says why, where there is one.
                let _ = write(connection, &mut dialed.socket);
                self.not_secured(token, &trouble);
            }
        }
    }

    pub(super) fn not_secured(&mut self, token: usize, trouble: &Trouble) {
        let Some((dialed, row)) = self.take_failed(token) else { return };
        let advice = trouble.advice(&self.config.paths[dialed.way].target.to_string());
        let errno = if let Trouble::Broken(e) = trouble { e.raw_os_error() } else { None };
        self.failed_because(dialed.way, row, dialed.remote, errno, advice);
    }
}

fn handshake(connection: &mut ClientConnection, socket: &mut TcpStream) -> Result<Step, Trouble> {
    loop {
        write(connection, socket).map_err(Trouble::Broken)?;
        if !connection.is_handshaking() && !connection.wants_write() {
            return Ok(Step::Finished);
        }
        match connection.read_tls(socket) {
            Ok(0) => return Err(Trouble::Closed),
            Ok(_) => _ = connection.process_new_packets().map_err(Trouble::Tls)?,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Step::Waiting),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Trouble::Broken(e)),
        }
    }
}

/// Writes what there is to write, as far as the socket takes it.
fn write(connection: &mut ClientConnection, socket: &mut TcpStream) -> io::Result<()> {
    while connection.wants_write() {
        match connection.write_tls(socket) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
