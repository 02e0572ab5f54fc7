//! What lies between a socket and messages.

use super::{identity, in_time, secured, serve};
use crate::limit::Limit;
use crate::session::open;
use rustls::StreamOwned;
use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc::channel;

#[test]
fn bytes_after_tls_close_are_ignored() {
    let (_, config) = identity("localhost");
    let (read, until_read) = channel::<()>();
    let (login, server) = serve("?sslmode=require", move |listener| {
        let (mut stream, mut tls) = secured(&listener, config).unwrap();
        tls.writer().write_all(b"all of it").unwrap();
        tls.send_close_notify();
        let mut out = vec![];
        while tls.wants_write() {
            tls.write_tls(&mut out).unwrap();
        }
        out.extend([0x17; 100]);
        stream.write_all(&out).unwrap();
        // The connection itself stays open.
        _ = until_read.recv();
    });
    let inbox = in_time(move || {
        let mut channel = open(&login, &login.limit()).unwrap();
        loop {
            match channel.fill() {
                Ok(filled) if filled.bytes == 0 => return channel.inbox,
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    channel.wait(Limit::PIECE).unwrap();
                }
                Err(e) => panic!("{e}"),
            }
        }
    });
    assert_eq!(inbox.rest(), b"all of it");
    read.send(()).unwrap();
    server.join().unwrap();
}

#[test]
fn a_long_query_is_sent_whole_under_tls() {
    let (_, config) = identity("localhost");
    let query: Vec<u8> = (0..1_000_000_u32).map(|i| i as u8).collect();
    let expected = query.clone();
    let (login, server) = serve("?sslmode=require", move |listener| {
        let (stream, tls) = secured(&listener, config).unwrap();
        let mut came = vec![0; expected.len()];
        StreamOwned::new(tls, stream).read_exact(&mut came).unwrap();
        assert!(came == expected, "it is another");
    });
    let mut channel = open(&login, &login.limit()).unwrap();
    channel.send(&query, &login.limit()).unwrap();
    server.join().unwrap();
}

/// A server that takes no bytes is not waited for by somebody who has asked twice to end.
#[test]
fn stop_ends_send_to_unreading_server() {
    let (done, until_done) = channel::<()>();
    let (login, server) = serve("?sslmode=disable", move |listener| {
        let accepted = listener.accept().unwrap();
        _ = until_done.recv();
        drop(accepted);
    });
    let stop = login.stop.clone();
    let asked = std::thread::spawn(move || {
        stop.ask();
        stop.ask();
    });
    let error = in_time(move || {
        let mut channel = open(&login, &login.limit()).unwrap();
        // More than two kernels hold.
        channel
            .send(&vec![0; 64 << 20], &Limit::until(None, &login.stop, &login.clock))
            .expect_err("nobody reads it")
    });
    assert_eq!(error.kind(), ErrorKind::Other, "{error}");
    asked.join().unwrap();
    done.send(()).unwrap();
    server.join().unwrap();
}
