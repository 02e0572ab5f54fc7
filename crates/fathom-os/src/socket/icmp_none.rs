//! What an ICMP message said: this system does not tell.

use socket2::Socket;
use std::io;
use std::net::SocketAddr;

#[expect(clippy::unnecessary_wraps, reason = "the interface of the systems that can fail")]
pub(super) fn keep(_socket: &Socket, _remote: SocketAddr) -> io::Result<()> {
    Ok(())
}

/// Whether an ICMP message has said that a filter forbids the way: not known here.
pub fn forbidden_by_icmp(_stream: &mio::net::TcpStream) -> bool {
    false
}
