//! The connections of a test.

use super::error::Error;
use super::options::{Target, TestOptions};
use crate::codec::Cookie;
use fathom_os::clock::mono_ns;
use fathom_os::socket::connect_tcp_blocking;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};

/// The first of the target's addresses that can be connected to, and the connection.
pub(super) fn control(target: &Target, options: &TestOptions) -> Result<(TcpStream, SocketAddr), Error> {
    let mut last = None;
    for address in &target.addresses {
        match connect_tcp_blocking(*address, &options.tcp, options.timeout) {
            Ok(socket) => return Ok((socket, *address)),
            Err(e) => last = Some(e),
        }
    }
    let why = last.map_or_else(String::new, |e| format!(": {e}"));
    Err(Error::Connect { target: target.name.clone(), port: target.port, why })
}

/// One stream's connection, introduced by the cookie; and how long it took to make, in ns.
pub(super) fn stream(
    options: &TestOptions,
    remote: SocketAddr,
    cookie: &Cookie,
) -> io::Result<(TcpStream, u64)> {
    let began_ns = mono_ns();
    let mut socket = connect_tcp_blocking(remote, &options.tcp, options.timeout)?;
    let took_ns = mono_ns() - began_ns;
    socket.write_all(cookie.bytes())?;
    Ok((socket, took_ns))
}

/// A cookie that no other test has.
pub(super) fn cookie() -> Result<Cookie, Error> {
    let random = || getrandom::u64().map_err(|e| Error::Begin(e.into()));
    Ok(Cookie::new([random()?, random()?, random()?, random()?]))
}
