//! Ctrl-C and time-outs of `fathom sql` while the server says nothing.

use crate::support::{FATHOM, PATIENCE, ended, signal};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};

/// Logs its client in and answers no further question. Sends when something was asked.
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

fn begun(arguments: &[&str]) -> Child {
    let mut command = Command::new(FATHOM);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

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
    let child = begun(&["sql", &url, "--query", "select 1"]);
    was_asked.recv_timeout(PATIENCE).expect("the session is asked something");
    signal(&child, "INT");
    let output = ended(child);
    let out = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(out.contains("the server's states are not known: "), "{out}");
    assert!(!out.contains("no whole answer within"), "it waited to the end: {out}");
    assert_eq!(output.status.code(), Some(0), "{out}");
}

/// A login that the user ends, or that takes too long, is not a broken connection.
#[test]
fn aborted_login_does_not_blame_server() {
    for scheme in ["postgres", "mysql", "mssql"] {
        for limit in [None, Some("300ms")] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = listener.local_addr().expect("bound").port();
            let url = format!("{scheme}://me@127.0.0.1:{port}/d?sslmode=prefer");
            let limits: Vec<_> = limit.into_iter().flat_map(|limit| ["--connect-timeout", limit]).collect();
            let child = begun(&[&["sql", url.as_str()][..], &limits].concat());
            // It waits for an answer that does not come.
            let accepted = listener.accept().expect("it connects");
            if limit.is_none() {
                signal(&child, "INT");
            }
            let output = ended(child);
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!((output.status.code(), told.lines().count()), (Some(1), 1), "{scheme}: {told}");
            let says = limit.map_or("was not waited for any longer: you ended the run", |_| "within 300ms");
            let is_so = told.contains(says) || (limit.is_some() && told.contains("says nothing"));
            assert!(is_so && !told.contains("broke the connection"), "{scheme}: {told}");
            drop(accepted);
        }
    }
}
