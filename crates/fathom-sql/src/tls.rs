//! `sslmode`, as libpq means it (<https://www.postgresql.org/docs/16/libpq-ssl.html>): `prefer` checks no certificate, nor does
//! `require` where no file of roots is there; `verify-ca` checks it, `verify-full` its name too.

use crate::ssl_mode::SslMode;
use crate::target::Roots;
use crate::{Error, Server};
use fathom_tls::Trust;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The client's side of a handshake with this server.
pub(crate) fn begin(server: &Server, home: Option<PathBuf>) -> Result<ClientConnection, Error> {
    connection(server, fathom_tls::client_of_any_age(trust(server, home)?))
}

/// The same for SQL Server, which knows nothing of libpq's files.
pub(crate) fn begin_within_tds(server: &Server) -> Result<ClientConnection, Error> {
    connection(server, fathom_tls::client_within_tds(trust(server, None)?))
}

fn trust(server: &Server, home: Option<PathBuf>) -> Result<Trust, Error> {
    let own = home.map(|home| home.join(".postgresql/root.crt")).filter(|file| file.is_file());
    Ok(match (server.ssl, &server.roots, own) {
        (SslMode::VerifyFull, roots, own) => Trust::Full(trusted(roots.as_ref(), own)?),
        (SslMode::VerifyCa, roots, own) => Trust::AnyName(trusted(roots.as_ref(), own)?),
        // "If a root CA file exists, the behavior of sslmode=require will be the same as that of verify-ca."
        (SslMode::Require, Some(roots), own) => Trust::AnyName(trusted(Some(roots), own)?),
        (SslMode::Require, None, Some(own)) => Trust::AnyName(of_file(&own)?),
        (SslMode::Require, None, None) | (SslMode::Prefer | SslMode::Disable, ..) => Trust::Anybody,
    })
}

/// A handshake that failed; the server's `settings` say which versions it speaks.
pub(crate) fn refused(server: &Server, error: &io::Error, settings: &str) -> Error {
    // The alert of a server, or what rustls says of its hello.
    let is_older = ["ProtocolVersion", "Tls1"].iter().any(|word| error.to_string().contains(word));
    let to_do = if is_older {
        format!("TLS 1.2 or 1.3 is needed (see {settings})")
    } else {
        "sslrootcert=FILE names whom to trust, and sslmode=prefer checks no certificate".to_owned()
    };
    Error::run(format!("{}: the TLS handshake failed: {error}; {to_do}", server.address()))
}

/// Whether it is checked that whoever answers is this server.
pub(crate) fn is_checked(server: &Server) -> bool {
    matches!(server.ssl, SslMode::VerifyFull)
}

fn connection(server: &Server, config: Result<ClientConfig, String>) -> Result<ClientConnection, Error> {
    let config = config.map_err(Error::run)?;
    let name = ServerName::try_from(server.host.clone()).map_err(|_| {
        Error::Usage(format!(
            "{} is no name that a certificate can have; name the server by its address",
            server.host
        ))
    })?;
    ClientConnection::new(Arc::new(config), name).map_err(|e| Error::run(format!("cannot begin TLS: {e}")))
}

/// As libpq: those that were named, else `~/.postgresql/root.crt`; where there is none, those that this host trusts.
fn trusted(named: Option<&Roots>, own: Option<PathBuf>) -> Result<RootCertStore, Error> {
    match (named, own) {
        (Some(Roots::File(file)), _) => of_file(file),
        (None, Some(own)) => of_file(&own),
        (Some(Roots::System), _) | (None, None) => fathom_tls::system_roots()
            .ok_or_else(|| Error::run("this host trusts no certificates; name a file with sslrootcert=FILE")),
    }
}

fn of_file(file: &Path) -> Result<RootCertStore, Error> {
    fathom_tls::roots_of(file).map_err(|e| {
        Error::Usage(format!("sslrootcert {}: {e}; give a PEM file of certificates", file.display()))
    })
}
