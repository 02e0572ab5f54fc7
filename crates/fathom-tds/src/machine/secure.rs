//! Encryption within a session: TLS over bytes, without a socket.

use crate::codec::Refusal;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::version::TLS12;
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// A certificate and a key made on the spot, for this run alone, as SQL Server makes one where it is given none: clients reach it
/// with `TrustServerCertificate`.
pub fn identity() -> io::Result<Arc<ServerConfig>> {
    let made = rcgen::generate_simple_self_signed(["fathom-echo".to_owned()]).map_err(io::Error::other)?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    // Within TDS 7 it is TLS 1.2, as with SQL Server: of 1.3 the client's last record comes in a packet from some libraries and as
    // it is from others (go-mssqldb, mssql-jdbc), and TDS does not say which.
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS12])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .map_err(io::Error::other)?;
    Ok(Arc::new(config))
}

/// The server's end.
#[derive(Debug)]
pub(super) struct Secure {
    connection: ServerConnection,
    /// The client said that nothing more comes.
    ended: bool,
}

impl Secure {
    /// Before the handshake.
    pub(super) fn new(identity: Arc<ServerConfig>) -> Result<Self, Refusal> {
        let connection = ServerConnection::new(identity).map_err(refusal)?;
        Ok(Self { connection, ended: false })
    }

    /// Whether both ends have their keys.
    pub(super) fn is_established(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// Whether the client has said that nothing more comes (`close_notify`).
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Takes records that came; what they hold. What follows the client's end is left: `rustls` takes none of it, so a loop that
    /// waits until all is taken never ends.
    pub(super) fn open(&mut self, mut records: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut plain = Vec::new();
        while !self.ended && !records.is_empty() {
            self.connection.read_tls(&mut records).map_err(refusal)?;
            self.ended = self.connection.process_new_packets().map_err(refusal)?.peer_has_closed();
            match self.connection.reader().read_to_end(&mut plain) {
                Err(e) if e.kind() != io::ErrorKind::WouldBlock => return Err(refusal(e)),
                // All that came is read; or the client said that nothing more comes, and closes the connection.
                _ => {}
            }
        }
        Ok(plain)
    }

    /// Appends the records of a packet.
    pub(super) fn seal(&mut self, packet: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        self.connection.writer().write_all(packet).map_err(refusal)?;
        self.sealed(out);
        Ok(())
    }

    /// Appends the records that wait to be sent.
    pub(super) fn sealed(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            // A vector takes everything.
            let _ = self.connection.write_tls(out);
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands where an error is handed over")]
fn refusal(e: impl ToString) -> Refusal {
    Refusal::Tls(e.to_string())
}
