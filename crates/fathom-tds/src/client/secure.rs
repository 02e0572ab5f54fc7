//! Encryption of a session: TLS over bytes, without a socket.

use super::Trouble;
use rustls::ClientConnection;
use std::io::{self, Read, Write};

/// The client's end.
#[derive(Debug)]
pub(super) struct Secure {
    connection: Box<ClientConnection>,
    /// The server said that nothing more comes.
    has_ended: bool,
}

impl Secure {
    /// Before the handshake.
    pub(super) fn new(mut connection: ClientConnection) -> Self {
        // What is written is sent at once: rustls' own limit is for who waits for a socket.
        connection.set_buffer_limit(None);
        Self { connection: Box::new(connection), has_ended: false }
    }

    /// Whether both ends have their keys.
    pub(super) fn is_established(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// Whether the server has said that nothing more comes (`close_notify`).
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Takes records that came; what they hold.
    pub(super) fn open(&mut self, mut records: &[u8]) -> Result<Vec<u8>, Trouble> {
        let mut plain = Vec::new();
        while !self.has_ended && !records.is_empty() {
            self.connection.read_tls(&mut records).map_err(trouble)?;
            let state = self.connection.process_new_packets().map_err(Trouble::Handshake)?;
            self.has_ended = state.peer_has_closed();
            let before = plain.len();
            plain.resize(before + state.plaintext_bytes_to_read(), 0);
            match self.connection.reader().read_exact(&mut plain[before..]) {
                Err(e) if e.kind() != io::ErrorKind::WouldBlock => return Err(trouble(e)),
                _ => {}
            }
        }
        Ok(plain)
    }

    /// The records of a packet.
    pub(super) fn seal(&mut self, packet: &[u8], out: &mut Vec<u8>) -> Result<(), Trouble> {
        self.connection.writer().write_all(packet).map_err(trouble)?;
        self.sealed(out);
        Ok(())
    }

    /// Appends the records that wait to be sent.
    pub(super) fn sealed(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            // A vector takes everything.
            _ = self.connection.write_tls(out);
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands where an error is handed over")]
fn trouble(e: impl ToString) -> Trouble {
    Trouble::Tls(e.to_string())
}
