//! Whom each `sslmode` believes.

use super::{certified, identity, secured, serve, signed};
use crate::limit::Limit;
use crate::tls::begin;
use rustls::ServerConfig;
use rustls::version::{TLS12, TLS13};
use std::path::Path;
use std::sync::Arc;

/// Whether a server with a certificate for this name, by itself, is believed by a client that has this file of roots and home.
fn handshake(parameters: &str, name: &str, trusted: Option<&Path>, home: &Path) -> Result<(), String> {
    handshake_with(identity(name), parameters, trusted, home)
}

fn handshake_with(
    (pem, config): (String, Arc<ServerConfig>),
    parameters: &str,
    trusted: Option<&Path>,
    home: &Path,
) -> Result<(), String> {
    std::fs::write(home.join("its.pem"), pem).unwrap();
    let (login, server) = serve(parameters, move |listener| secured(&listener, config).is_some());
    // As `open`, with another home.
    let stop = login.stop.clone();
    let limit = Limit::within(login.within, &stop, &login.clock);
    let mut channel = crate::channel::Channel::connect(login.remote, &login.limit()).unwrap();
    channel.send(&[0, 0, 0, 8, 4, 210, 22, 47], &limit).unwrap();
    while channel.inbox.is_empty() {
        channel.wait(Limit::PIECE).unwrap();
        _ = channel.fill();
    }
    assert_eq!(channel.inbox.rest(), b"S");
    channel.inbox.clear();
    if let Some(trusted) = trusted {
        let dir = home.join(".postgresql");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::copy(trusted, dir.join("root.crt")).unwrap();
    }
    let begun = begin(&login.server, Some(home.to_owned())).map_err(|error| error.to_string());
    let secured = begun.and_then(|tls| channel.secure(tls, &limit).map_err(|e| e.to_string()));
    drop(channel);
    assert_eq!(server.join().unwrap(), secured.is_ok(), "{secured:?}");
    secured
}

/// Of a home whose file of roots is the server's own certificate, or a stranger's.
fn believed(parameters: &str, name: &str, own: Option<bool>) -> Result<(), String> {
    let home = tempfile::tempdir().unwrap();
    let other = home.path().join("other.pem");
    std::fs::write(&other, identity(name).0).unwrap();
    let file = own.map(|is_its| if is_its { home.path().join("its.pem") } else { other.clone() });
    let parameters = parameters
        .replace("ITS", home.path().join("its.pem").to_str().unwrap())
        .replace("OTHER", other.to_str().unwrap());
    handshake(&parameters, name, file.as_deref(), home.path())
}

#[test]
fn require_with_roots_acts_as_verify_ca() {
    // Nothing to check by.
    believed("?sslmode=require", "localhost", None).unwrap();
    for mode in ["require", "verify-ca"] {
        let named = |file: &str| format!("?sslmode={mode}&sslrootcert={file}");
        believed(&named("ITS"), "localhost", None).unwrap();
        // Whatever name it is for.
        believed(&named("ITS"), "another.example", None).unwrap();
        believed(&named("OTHER"), "localhost", None).expect_err("a stranger's");
        believed(&named("/nonexistent"), "localhost", None).expect_err("no file");
        let found = format!("?sslmode={mode}");
        believed(&found, "another.example", Some(true)).unwrap();
        believed(&found, "localhost", Some(false)).expect_err("a stranger's");
        // What is named comes before what is found.
        believed(&named("ITS"), "localhost", Some(false)).unwrap();
    }
}

#[test]
fn verify_full_checks_the_name_too() {
    let named = "?sslmode=verify-full&sslrootcert=ITS";
    believed(named, "localhost", None).unwrap();
    believed(named, "another.example", None).expect_err("another name");
    believed("?sslmode=verify-full", "localhost", Some(true)).unwrap();
}

/// What `openssl req -x509` makes may sign others. Its owner is believed by who trusts it, as by libpq: for its own name, and by
/// nobody who trusts another of that name.
#[test]
fn a_certificate_that_is_trusted_itself_is_believed() {
    for versions in [&[&TLS13][..], &[&TLS12]] {
        let believed = |mode: &str, name: &str, file: &str| {
            let home = tempfile::tempdir().unwrap();
            let other = home.path().join("other.pem");
            std::fs::write(&other, certified(name, true, versions).0).unwrap();
            let file = if file == "ITS" { home.path().join("its.pem") } else { other };
            let parameters = format!("?sslmode={mode}&sslrootcert={}", file.display());
            handshake_with(certified(name, true, versions), &parameters, None, home.path())
        };
        for mode in ["require", "verify-ca", "verify-full"] {
            believed(mode, "localhost", "ITS").unwrap();
            believed(mode, "localhost", "OTHER").expect_err("a stranger's");
        }
        believed("verify-ca", "another.example", "ITS").unwrap();
        let error = believed("verify-full", "another.example", "ITS").expect_err("another name");
        assert!(error.contains("NotValidForName") || error.contains("not valid for name"), "{error}");
    }
}

/// It is over, whoever trusts it.
#[test]
fn expired_certificate_is_refused() {
    let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let home = tempfile::tempdir().unwrap();
    let named = format!("?sslmode=verify-ca&sslrootcert={}", home.path().join("its.pem").display());
    let error = handshake_with(signed(&parameters, &[&TLS13]), &named, None, home.path());
    assert!(error.expect_err("it is over").contains("xpired"));
}

/// Nobody of this host's authorities has signed it, and the file in the home is not asked.
#[test]
fn system_is_this_hosts_trust_alone() {
    believed("?sslrootcert=system", "localhost", Some(true)).expect_err("a file of the user's");
}
