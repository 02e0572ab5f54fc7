//! `sslmode`, as libpq means it (<https://www.postgresql.org/docs/15/libpq-ssl.html>): `prefer` and `require` check no
//! certificate, `verify-full` checks it and its name. TLS 1.3.

use crate::ssl_mode::SslMode;
use crate::{Error, Server};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The client's side of a handshake with this server.
pub(crate) fn begin(server: &Server, home: Option<PathBuf>) -> Result<ClientConnection, Error> {
    let roots = (server.ssl == SslMode::VerifyFull)
        .then(|| roots(server.root_certificates.as_deref(), home))
        .transpose()?;
    let config = fathom_tls::client(roots).map_err(Error::run)?;
    let name = ServerName::try_from(server.host.clone()).map_err(|_| {
        Error::Usage(format!("{} is no name that a certificate can have; use sslmode=require", server.host))
    })?;
    ClientConnection::new(Arc::new(config), name).map_err(|e| Error::run(format!("cannot begin TLS: {e}")))
}

/// As libpq: the file that was named, else `~/.postgresql/root.crt`; where there is none, those that this host trusts.
fn roots(named: Option<&Path>, home: Option<PathBuf>) -> Result<RootCertStore, Error> {
    let own = home.map(|home| home.join(".postgresql/root.crt")).filter(|file| file.is_file());
    let Some(file) = named.filter(|file| *file != Path::new("system")).map(Path::to_owned).or(own) else {
        return fathom_tls::system_roots().ok_or_else(|| {
            Error::run(
                "sslmode=verify-full: this host trusts no certificates; name a file with sslrootcert=FILE",
            )
        });
    };
    fathom_tls::roots_of(&file).map_err(|e| {
        Error::Usage(format!("sslrootcert {}: {e}; give a PEM file of certificates", file.display()))
    })
}
