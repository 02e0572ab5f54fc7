//! Ctrl-C of `fathom sql` while the server says nothing any more.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use crate::support::{FATHOM, PATIENCE, ended, signal};

/// A server that logs its client in, and answers nothing that it asks then; tells when something was asked.
fn mute(mut stream: TcpStream, asked: &Sender<()>) {
    let mut length = [0; 4];
    if stream.read_exact(&mut length).is_err() {
        return;
    }
    let mut startup = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut startup).expect("a startup message");
    let authenticated = [b'R', 0, 0, 0, 8, 0, 0, 0, 0];
    let key = [b'K', 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 2];
    let ready = [b'Z', 0, 0, 0, 5, b'I'];
    stream.write_all(&[&authenticated[..], &key, &ready].concat()).expect("it listens");
    let mut bytes = [0; 4_096];
    while stream.read(&mut bytes).is_ok_and(|n| n > 0) {
        _ = asked.send(());
    }
}

/// It was heard after 18 s: "no whole answer within 20s".
#[test]
fn interrupt_works_while_server_state_is_queried() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let (asked, was_asked) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let asked = asked.clone();
            std::thread::spawn(move || mute(stream, &asked));
        }
    });
    let url = format!("postgres://me@127.0.0.1:{port}/d?sslmode=disable");
    let child = Command::new(FATHOM)
        .args(["sql", &url, "--query", "select 1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    was_asked.recv_timeout(PATIENCE).expect("the session is asked something");
    signal(&child, "INT");
    let output = ended(child);
    let out = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(out.contains("the server's states are not known: "), "{out}");
    assert!(!out.contains("no whole answer within"), "it waited to the end: {out}");
    assert_eq!(output.status.code(), Some(0), "{out}");
}
