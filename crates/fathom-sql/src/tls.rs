//! `sslmode`, as libpq means it (<https://www.postgresql.org/docs/16/libpq-ssl.html>): `prefer` checks no certificate, nor does
//! `require` where no file of roots is there; `verify-ca` checks it, `verify-full` its name too.

use crate::ssl_mode::SslMode;
use crate::target::Roots;
use crate::{Error, Server};
use fathom_tls::Trust;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore};
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

/// How what can be done about TLS is called.
pub(crate) struct Says {
    /// The server's settings of the versions that it speaks.
    settings: &'static str,
    /// What names a file of those who are trusted.
    file: &'static str,
    /// What checks nothing.
    unchecked: &'static str,
}

pub(crate) const POSTGRES: Says = Says {
    settings: "ssl_max_protocol_version and ssl_ciphers",
    file: "sslrootcert=FILE of the URL, or by PGSSLROOTCERT",
    unchecked: "sslmode=prefer checks no certificate",
};
pub(crate) const MYSQL: Says =
    Says { settings: "tls_version", file: "sslrootcert=FILE of the URL", ..POSTGRES };
/// By `prefer` the password may go over the path unencrypted.
pub(crate) const MSSQL: Says = Says {
    settings: "settings of TLS",
    unchecked: "sslmode=require without a file checks no certificate",
    ..MYSQL
};

/// A handshake that failed.
pub(crate) fn refused(server: &Server, error: &io::Error, says: &Says) -> Error {
    failed(server, error.get_ref().and_then(|inner| inner.downcast_ref()), error, says)
}

/// The same by what rustls says of it, where it was that.
pub(crate) fn failed(
    server: &Server,
    known: Option<&rustls::Error>,
    error: &dyn std::fmt::Display,
    says: &Says,
) -> Error {
    use CertificateError as Certificate;
    let Says { settings, file, unchecked } = says;
    let words = error.to_string();
    // The alert of a server, or what rustls says of its hello.
    let is_older = ["ProtocolVersion", "Tls1"].iter().any(|word| words.contains(word));
    let what = match known {
        Some(known) if fathom_tls::is_of_a_stranger(known) => format!(
            "its certificate is signed by nobody who is trusted here (one that was made without an authority is signed by itself); name the PEM \
             file of the authority, or of the server's own certificate, by {file}; {unchecked}"
        ),
        Some(rustls::Error::InvalidCertificate(certificate)) => match certificate {
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
                // The system's roots sign for everybody: with them the name is always checked.
                let unnamed = match server.roots {
                    Some(Roots::System) => "",
                    _ => ", or use sslmode=verify-ca, which checks no name",
                };
                format!(
                    "its certificate is for another name than {}: {words}; name the server as its certificate does{unnamed}",
                    server.host
                )
            }
            Certificate::Expired | Certificate::ExpiredContext { .. } => {
                format!("its certificate's time is over: {words}; have it renewed; {unchecked}")
            }
            Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
                format!(
                    "its certificate's time has not begun: {words}; see the clocks of both hosts; {unchecked}"
                )
            }
            _ => format!("its certificate is not believed: {words}; have it made anew; {unchecked}"),
        },
        _ if is_older => format!("{words}; TLS 1.2 or 1.3 is needed (see {settings})"),
        _ => format!("{words}; see the server's {settings}"),
    };
    Error::run(format!("{}: the TLS handshake failed: {what}", server.address()))
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
