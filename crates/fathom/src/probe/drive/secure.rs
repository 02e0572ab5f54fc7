//! The TLS handshake of a connection that was established.

use crate::probe::tls::Trouble;
use mio::net::TcpStream;
use rustls::ClientConnection;
use std::io;

/// Goes on with the handshake as far as the socket lets it; whether it is over. It is when this end's Finished is on
/// its way.
pub(super) fn handshake(connection: &mut ClientConnection, socket: &mut TcpStream) -> Result<bool, Trouble> {
    let step = step(connection, socket);
    match &step {
        Ok(true) => connection.send_close_notify(),
        Ok(false) => return step,
        Err(_) => {}
    }
    // The end, or the alert that says why there is none. Should it not fit into an empty send buffer, the FIN that
    // follows says as much.
    let _ = write(connection, socket);
    step
}

fn step(connection: &mut ClientConnection, socket: &mut TcpStream) -> Result<bool, Trouble> {
    loop {
        write(connection, socket).map_err(Trouble::Broken)?;
        if !connection.is_handshaking() && !connection.wants_write() {
            return Ok(true);
        }
        match connection.read_tls(socket) {
            Ok(0) => return Err(Trouble::Closed),
            Ok(_) => _ = connection.process_new_packets().map_err(Trouble::Tls)?,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
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
