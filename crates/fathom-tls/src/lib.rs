//! The client's end of TLS: whom to trust, or anybody. What a failure means to a user, its caller knows.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};
use std::path::Path;
use std::sync::Arc;

/// A configuration of TLS 1.3 that trusts these; `None`: whoever answers, and no certificate is checked. The error says what
/// cannot be done.
pub fn client(roots: Option<RootCertStore>) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match roots {
        Some(roots) => by_roots(roots, &provider)?,
        None => Arc::new(Anybody(Arc::clone(&provider))),
    };
    by(verifier, provider, &[&TLS13])
}

/// Whose certificate a [`client_of_any_age`] takes.
#[derive(Debug)]
pub enum Trust {
    /// Anybody's: no certificate is checked.
    Anybody,
    /// Of these, and its name is the host's.
    Full(RootCertStore),
    /// Of these, whatever name they gave it for.
    AnyName(RootCertStore),
}

/// The same with TLS 1.2 for servers that know no other, and as OpenSSL has it: a certificate that is trusted itself is taken from
/// its owner too, though it may sign others (as what `openssl req -x509` makes may).
pub fn client_of_any_age(trust: Trust) -> Result<ClientConfig, String> {
    by_trust(trust, &[&TLS13, &TLS12])
}

/// The same with TLS 1.2 alone, as SQL Server speaks it within TDS 7: of 1.3 TDS does not say how the client's last record is sent.
pub fn client_within_tds(trust: Trust) -> Result<ClientConfig, String> {
    by_trust(trust, &[&TLS12])
}

fn by_trust(trust: Trust, versions: &[&'static SupportedProtocolVersion]) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let of = |roots: RootCertStore, any_name: bool| {
        let trusted = roots.clone();
        let whole = by_roots(roots, &provider)?;
        Ok::<_, String>(Arc::new(Trusting { whole, roots: trusted, any_name }))
    };
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Anybody => Arc::new(Anybody(Arc::clone(&provider))),
        Trust::Full(roots) => of(roots, false)?,
        Trust::AnyName(roots) => of(roots, true)?,
    };
    by(verifier, provider, versions)
}

fn by_roots(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|e| format!("cannot check certificates: {e}"))
}

fn by(
    verifier: Arc<dyn ServerCertVerifier>,
    provider: Arc<CryptoProvider>,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
    let builder = builder.map_err(|e| format!("cannot speak TLS: {e}"))?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Those that this host trusts; `None`: there are none.
pub fn system_roots() -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Some(roots).filter(|roots| !roots.is_empty())
}

/// Those in a PEM file. The error says what is wrong with it.
pub fn roots_of(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|e| e.to_string())? {
        roots.add(certificate.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
    }
    if roots.is_empty() { Err("there is no certificate in it".to_owned()) } else { Ok(roots) }
}

/// Whether nobody who is trusted has signed the certificate, which may be one that its owner signed.
pub fn is_of_a_stranger(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        Error::InvalidCertificate(CertificateError::Other(other)) => is_one_that_signs(other),
        _ => false,
    }
}

/// Takes a certificate of those that are trusted, and of its owner one that is trusted itself.
#[derive(Debug)]
struct Trusting {
    whole: Arc<WebPkiServerVerifier>,
    roots: RootCertStore,
    /// Whatever name it was given for.
    any_name: bool,
}

impl Trusting {
    /// Whether its subject and key are those of one that is trusted: with that key its owner could sign whatever else is taken.
    fn is_trusted(&self, certificate: &CertificateDer<'_>) -> bool {
        let mut alone = RootCertStore::empty();
        alone.add(certificate.clone().into_owned()).is_ok()
            && self.roots.roots.iter().any(|root| alone.roots.contains(root))
    }
}

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.whole.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let verified = match verified {
            // That it may sign others is found after its time was checked, and before its name is (webpki, `verify_cert.rs`).
            Err(Error::InvalidCertificate(CertificateError::Other(other)))
                if is_one_that_signs(&other) && self.is_trusted(end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)
                    .map(|()| ServerCertVerified::assertion())
            }
            other => other,
        };
        match verified {
            // The name is what is looked at last (rustls' `WebPkiServerVerifier`): everything else was right.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.any_name => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.whole.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.whole.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.whole.supported_verify_schemes()
    }
}

fn is_one_that_signs(error: &OtherError) -> bool {
    error.0.downcast_ref::<webpki::Error>() == Some(&webpki::Error::CaUsedAsEndEntity)
}

/// Takes any certificate; that its owner made the handshake is still verified.
#[derive(Debug)]
pub struct Anybody(pub Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
