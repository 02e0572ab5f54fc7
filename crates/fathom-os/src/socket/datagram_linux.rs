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
    let v4 = set_int(socket.as_fd(), libc::SOL_IP, libc::IP_PKTINFO, 1);
    if socket.local_addr()?.is_ipv4() {
        return v4;
    }
    set_int(socket.as_fd(), libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, 1).and(v4)
}

/// Receives without blocking.
pub fn recv_datagram(socket: &mio::net::UdpSocket, buffer: &mut [u8]) -> io::Result<Datagram> {
    let mut to_many = None;
    let note = |level, kind, data: &[u8]| match (level, kind) {
        (libc::SOL_IP, libc::IP_PKTINFO) => to_many = to_many_v4(data).or(to_many),
        (libc::SOL_IPV6, libc::IPV6_PKTINFO) => to_many = to_many.or_else(|| to_many_v6(data)),
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
    Ok(Datagram { length, peer, to_many })
}

/// `struct in_pktinfo`: interface, "the local address of the packet", "the destination address in the packet header"
/// (ip(7)). They are the same where the packet was for this host alone: for a broadcast or a group the first is the
/// address that an answer would come from.
fn to_many_v4(data: &[u8]) -> Option<bool> {
    let local = data.get(std::mem::offset_of!(libc::in_pktinfo, ipi_spec_dst)..)?.get(..4)?;
    let header = data.get(std::mem::offset_of!(libc::in_pktinfo, ipi_addr)..)?.get(..4)?;
    Some(local != header)
}

/// `struct in6_pktinfo`: destination, interface. IPv6 has groups and no broadcast.
fn to_many_v6(data: &[u8]) -> Option<bool> {
    let octets: [u8; 16] = data.get(..16)?.try_into().ok()?;
    Some(Ipv6Addr::from(octets).to_canonical().is_multicast())
}
