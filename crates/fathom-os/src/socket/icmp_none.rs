//! What an ICMP message said: this system does not tell.

use super::IcmpError;
use std::io;
use std::net::SocketAddr;

#[expect(clippy::unnecessary_wraps, reason = "the interface of the systems that can fail")]
pub(super) fn keep<S>(_socket: &S, _remote: SocketAddr) -> io::Result<()> {
    Ok(())
}

/// What the latest ICMP error says: not known here.
pub fn icmp_error<S>(_socket: &S) -> Option<IcmpError> {
    None
}
