//! The service on real sockets: what an operator is told, and clients beyond the sessions.

use crate::client::{BATCH, LOGIN, PRELOGIN, message, tokens};
use fathom_tds::codec::Refusal;
use fathom_tds::service::{Notice, Options, Service};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tds_protocol::login7::Login7;
use tds_protocol::prelogin::{EncryptionLevel, PreLogin};
use tds_protocol::sql_batch::SqlBatch;
use tds_protocol::token::Token;

/// A service for so many sessions, where it listens, and what it says.
fn start(sessions: usize) -> (Service, std::net::SocketAddr, Receiver<String>) {
    let listener = mio::net::TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = channel();
    let options = Options {
        sessions,
        idle_timeout_ns: None,
        send_buffer: None,
        identity: None,
        permits: Box::new(|_| true),
        notify: Arc::new(move |notice| {
            let line = match notice {
                Notice::Ended(ended) => {
                    format!("ended {} {} {:?}", ended.served.queries, ended.served.rows, ended.why)
                }
                Notice::Refused { why, .. } => format!("refused {why:?}"),
                other => format!("{other:?}"),
            };
            _ = tell.send(line);
        }),
    };
    (Service::start(vec![listener], options).unwrap(), address, told)
}

/// The body of a reply to this.
fn ask(stream: &mut TcpStream, kind: u8, body: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(&message(kind, body))?;
    let mut reply = vec![];
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head)?;
        let mut packet = vec![0; usize::from(u16::from_be_bytes([head[2], head[3]])) - 8];
        stream.read_exact(&mut packet)?;
        reply.extend(packet);
        if head[1] & 1 == 1 {
            return Ok(reply);
        }
    }
}

fn log_in(address: std::net::SocketAddr) -> io::Result<(TcpStream, Vec<Token>)> {
    let mut stream = TcpStream::connect(address)?;
    ask(&mut stream, PRELOGIN, &PreLogin::new().with_encryption(EncryptionLevel::NotSupported).encode())?;
    let said = ask(&mut stream, LOGIN, &Login7::new().with_sql_auth("sa", "hush").encode())?;
    Ok((stream, tokens(said)))
}

fn next(told: &Receiver<String>) -> String {
    told.recv_timeout(Duration::from_secs(10)).expect("somebody is told")
}

#[test]
fn failed_session_reports_its_counts() {
    let (service, address, told) = start(4);
    let (mut stream, _) = log_in(address).unwrap();
    ask(&mut stream, BATCH, &SqlBatch::new("SELECT * FROM fathom_rows(70, 9)").encode()).unwrap();
    stream.write_all(&[0xff; 8]).unwrap();
    assert_eq!(next(&told), format!("ended 1 70 {:?}", Some(Refusal::Kind(0xff))));
    let counts = service.stop();
    assert_eq!((counts.sessions, counts.served.rows), (1, 70));
}

#[test]
fn session_beyond_limit_is_refused_and_counted() {
    let (service, address, told) = start(1);
    let (first, said) = log_in(address).unwrap();
    assert!(said.iter().any(|token| matches!(token, Token::LoginAck(_))), "{said:?}");
    let (mut beyond, said) = log_in(address).unwrap();
    assert!(said.iter().any(|token| matches!(token, Token::Error(e) if e.number == 17_809)), "{said:?}");
    assert_eq!(beyond.read(&mut [0]).unwrap(), 0, "it is closed");
    assert_eq!(next(&told), "refused Full");
    drop(first);
    assert_eq!(next(&told), "ended 0 0 None");
    // A thread that is told of may not have ended yet. Where many who were refused have not either, a connection is closed at once.
    let is_in = |token: &Token| matches!(token, Token::LoginAck(_));
    let (mut tries, began) = (0, Instant::now());
    while !log_in(address).is_ok_and(|(_, said)| said.iter().any(is_in)) {
        tries += 1;
        assert!(began.elapsed() < Duration::from_secs(10), "there is no room again");
    }
    let counts = service.stop();
    assert_eq!((counts.sessions, counts.busy, counts.without_login), (2, 1 + tries, 0));
}

/// 64 connections that said nothing locked all clients out for ten seconds.
#[test]
fn silent_connections_give_way_to_clients() {
    let (service, address, _) = start(2);
    let (mut first, _) = log_in(address).unwrap();
    let silent: Vec<TcpStream> = (0..9).map(|_| TcpStream::connect(address).unwrap()).collect();
    let is_in = |token: &Token| matches!(token, Token::LoginAck(_));
    let began = Instant::now();
    // Until the silent one has been so for long enough, there is no room.
    while !log_in(address).is_ok_and(|(_, said)| said.iter().any(is_in)) {
        assert!(began.elapsed() < Duration::from_secs(5), "silent connections lock clients out");
    }
    // A client that has logged in keeps its place.
    let said = ask(&mut first, BATCH, &SqlBatch::new("SELECT 1").encode()).unwrap();
    assert!(!said.is_empty());
    drop(silent);
    let counts = service.stop();
    assert!(counts.sessions >= 2 && counts.without_login >= 1, "{counts:?}");
}
