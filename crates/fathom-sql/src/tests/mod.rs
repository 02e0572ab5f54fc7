//! Against a server of which a test says every byte, on real sockets: what a server that is well never does.

mod channel;
mod query;
mod scram;
mod session;
mod tds;
mod tls;

use crate::login::Login;
use crate::stood::Clock;
use crate::{Config, Source, Stop, Target};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

/// Does what must come to an end, and fails where it does not.
fn in_time<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(what()));
    told.recv_timeout(Duration::from_secs(10)).expect("it ends")
}

/// A query that is asked once.
pub(crate) fn config_of(target: Target) -> Config {
    Config {
        target,
        source: Source::Text { sql: "SELECT 1".to_owned(), is_shown: true },
        think: Duration::ZERO,
        count: Some(1),
        lasts: None,
        timeout: None,
        connect_timeout: Duration::from_secs(5),
        connections: 1,
        every: None,
        fetch_size: None,
        simple: false,
        packet_size: None,
        sweep: vec![],
        reflector: None,
        recording: None,
        tell: |_| {},
        quiet: true,
    }
}

/// A server that does this with its port, and how it is reached.
pub(crate) fn serve<T: Send + 'static>(
    parameters: &str,
    server: impl FnOnce(TcpListener) -> T + Send + 'static,
) -> (Login, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = listener.local_addr().unwrap();
    let url = format!("postgres://me@localhost:{}/d{parameters}", remote.port());
    let login = Login {
        server: Target::parse(&url, |_| None).unwrap().server().clone(),
        remote,
        password: None,
        read_only: false,
        within: Duration::from_secs(5),
        stop: Stop::default(),
        clock: Clock::default(),
        is_impatient: false,
        barred: Arc::default(),
        reached: Arc::default(),
    };
    (login, std::thread::spawn(move || server(listener)))
}

/// A message: its tag, and its body after the length.
fn message(stream: &mut impl Read) -> (u8, Vec<u8>) {
    let mut tag = [0];
    stream.read_exact(&mut tag).unwrap();
    (tag[0], body(stream))
}

fn body(stream: &mut impl Read) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut body).unwrap();
    body
}

/// A connection without TLS, logged in: `AuthenticationOk`, `BackendKeyData`, `ReadyForQuery`.
fn logged_in(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    body(&mut stream);
    stream.write_all(b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I").unwrap();
    stream
}

/// RFC 7468.
fn pem(der: &[u8]) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in der.chunks(3) {
        let bits = (0..3).fold(0, |bits, i| bits << 8 | usize::from(*three.get(i).unwrap_or(&0)));
        for i in 0..4 {
            let digit = char::from(digits[bits >> (18 - 6 * i) & 63]);
            text.push(if i > three.len() { '=' } else { digit });
        }
    }
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// A certificate for this name in PEM, and the configuration of the server that has it.
fn identity(name: &str) -> (String, Arc<ServerConfig>) {
    certified(name, false, rustls::ALL_VERSIONS)
}

/// The same, which may sign others, of a server that speaks these versions.
fn certified(
    name: &str,
    may_sign: bool,
    versions: &[&'static SupportedProtocolVersion],
) -> (String, Arc<ServerConfig>) {
    let mut parameters = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
    if may_sign {
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    }
    signed(&parameters, versions)
}

fn signed(
    parameters: &rcgen::CertificateParams,
    versions: &[&'static SupportedProtocolVersion],
) -> (String, Arc<ServerConfig>) {
    let pair = rcgen::KeyPair::generate().unwrap();
    let made = parameters.clone().self_signed(&pair).unwrap();
    let key = PrivateKeyDer::Pkcs8(pair.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.der().clone()], key)
        .unwrap();
    (pem(made.der()), Arc::new(config))
}

/// Takes a connection and its TLS, as `PostgreSQL` does; `None`: the client does not want it so.
fn secured(listener: &TcpListener, config: Arc<ServerConfig>) -> Option<(TcpStream, ServerConnection)> {
    let (mut stream, _) = listener.accept().unwrap();
    body(&mut stream);
    stream.write_all(b"S").unwrap();
    let mut tls = ServerConnection::new(config).unwrap();
    while tls.is_handshaking() {
        tls.complete_io(&mut stream).ok()?;
    }
    while tls.wants_write() {
        tls.write_tls(&mut stream).ok()?;
    }
    Some((stream, tls))
}
