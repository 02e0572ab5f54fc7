//! Systems whose sockets are not asked where a datagram was sent to.

use super::Datagram;
use std::io;

/// Nothing to ask for here.
pub fn tell_destinations(_socket: &mio::net::UdpSocket) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system is not asked where datagrams were sent to"))
}

/// Nothing to ask for here.
pub fn tell_hops(socket: &mio::net::UdpSocket) -> io::Result<()> {
    tell_destinations(socket)
}

/// Receives without blocking.
pub fn recv_datagram(socket: &mio::net::UdpSocket, buffer: &mut [u8]) -> io::Result<Datagram> {
    let (length, peer) = socket.recv_from(buffer)?;
    Ok(Datagram { length, peer, to_many: None, ttl: None })
}
