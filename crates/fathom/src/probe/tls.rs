//! `--tls`: whom to trust in a TLS 1.3 handshake, and what one that fails says.

use crate::exit::Failure;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig, ClientConnection, Error, RootCertStore};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of TLS.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct TlsArgs {
    /// With --connect: a TLS 1.3 handshake on each connection too; both are timed. Nothing is sent but the handshake and its end
    // `requires` alone lets it pass beside what excludes --connect.
    #[arg(long, requires = "connect", conflicts_with_all = ["udp", "stamp"], help_heading = "TLS")]
    tls: bool,
    /// Trust the certificates in this PEM file, and no others [default: those this host trusts]
    #[arg(long, value_name = "FILE", requires = "tls", help_heading = "TLS")]
    tls_ca: Option<PathBuf>,
    /// Measure whoever answers: the certificate is not checked
    #[arg(long, requires = "tls", conflicts_with_all = ["tls_ca"], help_heading = "TLS")]
    tls_insecure: bool,
    /// The name to ask for and to find in the certificate [default: the target's host]
    #[arg(long, value_name = "NAME", requires = "tls", help_heading = "TLS")]
    tls_name: Option<String>,
}

/// How handshakes are made.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    name: Option<String>,
    trust: String,
}

impl Tls {
    /// From the arguments; `None`: no TLS.
    pub(super) fn new(args: &TlsArgs) -> Result<Option<Self>, Failure> {
        if !args.tls {
            return Ok(None);
        }
        if let Some(name) = &args.tls_name
            && ServerName::try_from(name.as_str()).is_err()
        {
            return Err(Failure::usage(format!("--tls-name {name}: that is no host name and no address")));
        }
        let (roots, trust) = if args.tls_insecure {
            (None, "anybody".to_owned())
        } else {
            let (roots, trust) = roots(args)?;
            (Some(roots), trust)
        };
        let mut config = fathom_tls::client(roots).map_err(Failure::run)?;
        // Each sample is a whole handshake, as a client that comes for the first time makes it.
        config.resumption = Resumption::disabled();
        Ok(Some(Self { config: Arc::new(config), name: args.tls_name.clone(), trust }))
    }

    /// A handshake with this host.
    pub(super) fn begin(&self, host: &str) -> Result<ClientConnection, Trouble> {
        let name = self.name.as_deref().unwrap_or(host);
        // Without the interface of a link-local address.
        let name = name.split('%').next().unwrap_or(name).to_owned();
        let name = ServerName::try_from(name).map_err(|_| Trouble::Name)?;
        ClientConnection::new(Arc::clone(&self.config), name).map_err(Trouble::Tls)
    }

    /// For the recording.
    pub(super) fn description(&self) -> Value {
        json!({ "version": "1.3", "trust": self.trust, "name": self.name })
    }
}

/// The certificates to trust, and where they are from.
fn roots(args: &TlsArgs) -> Result<(RootCertStore, String), Failure> {
    let Some(file) = &args.tls_ca else {
        let roots = fathom_tls::system_roots().ok_or_else(|| {
            Failure::run(
                "--tls: this host has no trusted certificates (Debian: the package ca-certificates); name a file with --tls-ca, or measure without checking by --tls-insecure",
            )
        })?;
        return Ok((roots, "system".to_owned()));
    };
    let shown = file.display();
    let roots = fathom_tls::roots_of(file)
        .map_err(|e| Failure::usage(format!("--tls-ca {shown}: {e}; give a PEM file of certificates")))?;
    Ok((roots, shown.to_string()))
}

/// Why a handshake did not come to its end.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The target's host can be no name in a certificate.
    Name,
    /// What the other end sent, or what its certificate says.
    Tls(Error),
    /// The connection ended in the middle.
    Closed,
    /// The connection broke in the middle.
    Broken(std::io::Error),
}

impl Trouble {
    /// One line: what happened, and what to do about it.
    pub(super) fn advice(&self, target: &str) -> String {
        use CertificateError as C;
        match self {
            Self::Name => format!("{target} has no name to find in a certificate; give one with --tls-name"),
            Self::Closed => format!(
                "{target} closed the connection during the TLS handshake; does it speak TLS 1.3 on that port, and does it know the name asked for (--tls-name)?"
            ),
            Self::Broken(e) => format!("{target} broke the connection during the TLS handshake ({e})"),
            Self::Tls(Error::InvalidCertificate(C::UnknownIssuer)) => format!(
                "{target} has a certificate of an issuer that is not trusted; name the issuer's with --tls-ca FILE, or measure without checking by --tls-insecure"
            ),
            Self::Tls(Error::InvalidCertificate(
                e @ (C::NotValidForName | C::NotValidForNameContext { .. }),
            )) => {
                format!("{target} has a certificate for another name ({e}); give its name with --tls-name")
            }
            Self::Tls(Error::InvalidCertificate(e)) => format!(
                "{target} has a certificate that cannot be trusted ({e}); measure without checking by --tls-insecure"
            ),
            Self::Tls(Error::InvalidMessage(_) | Error::InappropriateMessage { .. }) => {
                format!("{target} does not speak TLS on that port; leave --tls out, or name another port")
            }
            Self::Tls(
                e @ (Error::AlertReceived(AlertDescription::ProtocolVersion) | Error::PeerIncompatible(_)),
            ) => {
                format!("{target} does not speak TLS 1.3 ({e}); leave --tls out to time the connection alone")
            }
            Self::Tls(e) => format!("{target}: the TLS handshake failed: {e}"),
        }
    }
}
