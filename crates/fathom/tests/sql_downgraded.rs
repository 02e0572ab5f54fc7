//! `fathom sql`, a real `PostgreSQL`, and somebody who puts himself between the two once a run has logged in: he asks for less than the
//! server did.
#![cfg(target_os = "linux")]

mod support;

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use support::FATHOM;
use support::postgres::{self, Postgres};

fn pass(mut from: TcpStream, mut to: TcpStream) {
    _ = std::io::copy(&mut from, &mut to);
    for end in [from, to] {
        _ = end.shutdown(Shutdown::Both);
    }
}

/// The first login goes to the server. Of each other one the password is asked for, and what is said to that is told.
fn asks_for_the_password(
    mut client: TcpStream,
    server: &str,
    is_first: bool,
    said: &Sender<Vec<u8>>,
    startup: &[u8],
) {
    if is_first {
        let mut there = TcpStream::connect(server).unwrap();
        there.write_all(startup).unwrap();
        let (to_client, to_server) = (client.try_clone().unwrap(), there.try_clone().unwrap());
        std::thread::spawn(move || pass(client, to_server));
        pass(there, to_client);
        return;
    }
    // AuthenticationCleartextPassword.
    client.write_all(b"R\0\0\0\x08\0\0\0\x03").unwrap();
    let mut bytes = vec![0; 1_024];
    let n = client.read(&mut bytes).unwrap_or(0);
    bytes.truncate(n);
    _ = said.send(bytes);
}

/// Who begins a session; `None`: he only sets a connection up.
fn startup(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    client.read_exact(&mut length).ok()?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    client.read_exact(&mut body).ok()?;
    Some([&length[..], &body].concat())
}

/// His address, and what was said to him.
fn between(server: String) -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (tell, said) = channel();
    std::thread::spawn(move || {
        let mut is_first = true;
        for client in listener.incoming() {
            let mut client = client.unwrap();
            // One after the other: whose login is the first is known.
            let Some(startup) = startup(&mut client) else { continue };
            let (is_this, server, tell) = (std::mem::take(&mut is_first), server.clone(), tell.clone());
            std::thread::spawn(move || asks_for_the_password(client, &server, is_this, &tell, &startup));
        }
    });
    (address, said)
}

/// The password was sent in the clear, and again at each reconnection (a stranger).
#[test]
fn a_password_goes_to_nobody_who_asks_for_less_than_the_server_did() {
    let Some(server) = Postgres::start() else { return };
    let (address, said) = between(server.address.clone());
    let url = format!("postgres://owner@{address}/postgres?sslmode=disable");
    let ask = ["--query", "SELECT 1", "--count", "3", "--json"];
    let out = postgres::sql(Command::new(FATHOM), &url, &ask).output().unwrap();
    let outcome: Value = support::database::result(&out);
    let notes = outcome["notes"].to_string();
    assert!(
        notes.contains("asks for the password of owner in the clear, though in this run it has proved"),
        "{notes}"
    );
    assert_eq!(outcome["queries"], 3, "{outcome:#}");
    // The session that looks, and nobody after it.
    assert_eq!(said.recv_timeout(support::PATIENCE).unwrap(), b"", "{notes}");
    assert_eq!(said.try_iter().count(), 0, "{notes}");

    // Nor is it told where several are to ask.
    let (address, said) = between(server.address.clone());
    let url = format!("postgres://owner@{address}/postgres?sslmode=disable");
    let out = postgres::sql(Command::new(FATHOM), &url, &[&ask[..], &["--connections", "4"]].concat())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!((out.status.code(), told.lines().count()), (Some(1), 1), "{told}");
    assert!(told.contains("in the clear, though in this run it has proved"), "{told}");
    assert_eq!(said.recv_timeout(support::PATIENCE).unwrap(), b"", "{told}");
    assert!(said.try_iter().all(|bytes| bytes.is_empty()), "{told}");
}
