//! What an ICMP message said, from the socket's error queue: the error number alone mixes a host that is gone with a
//! filter that forbids it (both `EHOSTUNREACH`).

use super::options::set_int;
use crate::timestamps::receive;
use socket2::Socket;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// Has the kernel keep ICMP errors in the socket's error queue (`IP_RECVERR`). They then end the connection at once,
/// established or not, so this is for connections that only ask whether one can be made.
pub(super) fn keep(socket: &Socket, remote: SocketAddr) -> io::Result<()> {
    let (level, name) = if remote.is_ipv4() {
        (libc::SOL_IP, libc::IP_RECVERR)
    } else {
        (libc::SOL_IPV6, libc::IPV6_RECVERR)
    };
    set_int(socket.as_fd(), level, name, 1)
}

/// Whether an ICMP message has said that a filter forbids the way: destination unreachable with "communication
/// administratively prohibited" (RFC 1812, section 5.2.7.1: codes 9, 10 and 13; RFC 4443, section 3.1: codes 1, 5 and
/// 6). Takes what waits in the error queue. `false` too where nothing was kept.
pub fn forbidden_by_icmp(stream: &mio::net::TcpStream) -> bool {
    let mut forbidden = false;
    loop {
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        let taken = receive(stream.as_fd(), &mut [], flags, |level, kind, data| {
            if matches!(
                (level, kind),
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
            ) {
                forbidden |= says_forbidden(data);
            }
        });
        if taken.is_err() {
            return forbidden;
        }
    }
}

/// What a `struct sock_extended_err` says.
fn says_forbidden(data: &[u8]) -> bool {
    let byte = |at: usize| data.get(at).copied();
    let origin = byte(std::mem::offset_of!(libc::sock_extended_err, ee_origin));
    let kind = byte(std::mem::offset_of!(libc::sock_extended_err, ee_type));
    let code = byte(std::mem::offset_of!(libc::sock_extended_err, ee_code));
    match (origin, kind, code) {
        (Some(libc::SO_EE_ORIGIN_ICMP), Some(3), Some(code)) => matches!(code, 9 | 10 | 13),
        (Some(libc::SO_EE_ORIGIN_ICMP6), Some(1), Some(code)) => matches!(code, 1 | 5 | 6),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_prohibition_forbids() {
        // errno (4 bytes), origin, type, code, padding, info, data.
        let error = |origin, kind, code| [113, 0, 0, 0, origin, kind, code, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let icmp = [9, 10, 13].map(|code| says_forbidden(&error(2, 3, code)));
        assert_eq!(icmp, [true; 3]);
        assert_eq!([0, 1, 3].map(|code| says_forbidden(&error(2, 3, code))), [false; 3]);
        assert!(says_forbidden(&error(3, 1, 1)) && !says_forbidden(&error(3, 1, 3)));
        // Made by this host itself (`SO_EE_ORIGIN_LOCAL`), and cut short.
        assert!(!says_forbidden(&error(1, 3, 13)) && !says_forbidden(&[113, 0]));
    }
}
