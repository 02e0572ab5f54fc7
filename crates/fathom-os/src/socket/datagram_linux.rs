//! Datagrams with where they were sent to (`IP_PKTINFO`, `IPV6_RECVPKTINFO`).

use super::Datagram;
use super::options::set_int;
use crate::timestamps::receive_named;
use socket2::SockAddr;
use std::io;
use std::net::Ipv6Addr;
use std::os::fd::AsFd;

/// Has the kernel tell where datagrams were sent to. A socket of IPv6 takes IPv4 too, and is asked for both.
pub fn tell_destinations(socket: &mio::net::UdpSocket) -> io::Result<()> {
    tell(socket, libc::IP_PKTINFO, libc::IPV6_RECVPKTINFO)
}

/// Has the kernel tell the TTL or hop limit of datagrams as they come.
pub fn tell_hops(socket: &mio::net::UdpSocket) -> io::Result<()> {
    tell(socket, libc::IP_RECVTTL, libc::IPV6_RECVHOPLIMIT)
}

fn tell(socket: &mio::net::UdpSocket, v4: libc::c_int, v6: libc::c_int) -> io::Result<()> {
    let v4 = set_int(socket.as_fd(), libc::SOL_IP, v4, 1);
    if socket.local_addr()?.is_ipv4() {
        return v4;
    }
    set_int(socket.as_fd(), libc::SOL_IPV6, v6, 1).and(v4)
}

/// Receives without blocking.
pub fn recv_datagram(socket: &mio::net::UdpSocket, buffer: &mut [u8]) -> io::Result<Datagram> {
    let (mut to_many, mut ttl) = (None, None);
    let note = |level, kind, data: &[u8]| match (level, kind) {
        (libc::SOL_IP, libc::IP_PKTINFO) => to_many = to_many_v4(data).or(to_many),
        (libc::SOL_IPV6, libc::IPV6_PKTINFO) => to_many = to_many.or_else(|| to_many_v6(data)),
        (libc::SOL_IP, libc::IP_TTL) | (libc::SOL_IPV6, libc::IPV6_HOPLIMIT) => ttl = hops(data).or(ttl),
        _ => {}
    };
    // SAFETY: `try_init` gives room for an address and its length; the kernel fills both.
    let (length, peer) = unsafe {
        SockAddr::try_init(|storage, length| {
            receive_named(
                socket.as_fd(),
                buffer,
                libc::MSG_DONTWAIT,
                Some((storage.cast(), &mut *length)),
                note,
            )
        })
    }?;
    let peer = peer.as_socket().ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "a datagram came from an address that is not IP")
    })?;
    Ok(Datagram { length, peer, to_many, ttl })
}

/// `struct in_pktinfo`: interface, "the local address of the packet", "the destination address in the packet header"
/// (ip(7)). They are the same where the packet was for this host alone: for a broadcast or a group the first is the
/// address that an answer would come from.
fn to_many_v4(data: &[u8]) -> Option<bool> {
    let local = data.get(std::mem::offset_of!(libc::in_pktinfo, ipi_spec_dst)..)?.get(..4)?;
    let header = data.get(std::mem::offset_of!(libc::in_pktinfo, ipi_addr)..)?.get(..4)?;
    Some(local != header)
}

/// An `int` from 0 to 255.
fn hops(data: &[u8]) -> Option<u8> {
    u8::try_from(i32::from_ne_bytes(data.get(..4)?.try_into().ok()?)).ok()
}

/// `struct in6_pktinfo`: destination, interface. IPv6 has groups and no broadcast.
fn to_many_v6(data: &[u8]) -> Option<bool> {
    let octets: [u8; 16] = data.get(..16)?.try_into().ok()?;
    Some(Ipv6Addr::from(octets).to_canonical().is_multicast())
}
