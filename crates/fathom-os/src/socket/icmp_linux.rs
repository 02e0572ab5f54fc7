//! What an ICMP message said, and who sent it, from the socket's error queue: the error number alone mixes a host that is
//! gone with a filter that forbids it (both `EHOSTUNREACH`), and a refusal by the host with one by something before it.

use super::IcmpError;
use super::options::set_int;
use crate::timestamps::receive;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

/// Has the kernel keep ICMP errors in the socket's error queue (`IP_RECVERR`). They then end the connection at once,
/// established or not, so this is for connections that only ask whether one can be made.
pub(super) fn keep(socket: &impl AsFd, remote: SocketAddr) -> io::Result<()> {
    let (level, name) = if remote.is_ipv4() {
        (libc::SOL_IP, libc::IP_RECVERR)
    } else {
        (libc::SOL_IPV6, libc::IPV6_RECVERR)
    };
    set_int(socket.as_fd(), level, name, 1)
}

/// What the latest ICMP error that waits in the error queue says; takes all that wait. `None`: none waits, and so too where
/// nothing was kept.
pub fn icmp_error(socket: &impl AsFd) -> Option<IcmpError> {
    let mut latest = None;
    loop {
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        let taken = receive(socket.as_fd(), &mut [], flags, |level, kind, data| {
            if matches!(
                (level, kind),
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
            ) {
                latest = read(data).or(latest);
            }
        });
        if taken.is_err() {
            return latest;
        }
    }
}

/// A `struct sock_extended_err` and the address behind it. `None`: it is no ICMP error.
fn read(data: &[u8]) -> Option<IcmpError> {
    let byte = |at: usize| data.get(at).copied();
    let kind = byte(std::mem::offset_of!(libc::sock_extended_err, ee_type))?;
    let code = byte(std::mem::offset_of!(libc::sock_extended_err, ee_code))?;
    // Destination unreachable with "communication administratively prohibited": RFC 1812, section 5.2.7.1, and RFC 4443,
    // section 3.1.
    let forbids = match (byte(std::mem::offset_of!(libc::sock_extended_err, ee_origin))?, kind) {
        (libc::SO_EE_ORIGIN_ICMP, 3) => matches!(code, 9 | 10 | 13),
        (libc::SO_EE_ORIGIN_ICMP6, 1) => matches!(code, 1 | 5 | 6),
        (libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6, _) => false,
        _ => return None,
    };
    Some(IcmpError { forbids, from: data.get(size_of::<libc::sock_extended_err>()..).and_then(address) })
}

/// The address in a `struct sockaddr_in` or `sockaddr_in6`. Who sent the message may be left out (family 0).
fn address(name: &[u8]) -> Option<IpAddr> {
    let family = u16::from_ne_bytes(*name.first_chunk()?);
    let octets = |at: usize| name.get(at..);
    match i32::from(family) {
        libc::AF_INET => {
            let at = std::mem::offset_of!(libc::sockaddr_in, sin_addr);
            Some(IpAddr::from(*octets(at)?.first_chunk::<4>()?))
        }
        libc::AF_INET6 => {
            let at = std::mem::offset_of!(libc::sockaddr_in6, sin6_addr);
            Some(IpAddr::from(*octets(at)?.first_chunk::<16>()?).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// errno (4 bytes), origin, type, code, padding, info, data.
    fn error(origin: u8, kind: u8, code: u8) -> Vec<u8> {
        vec![113, 0, 0, 0, origin, kind, code, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    }

    #[test]
    fn only_a_prohibition_forbids() {
        let forbids = |origin, kind, code| read(&error(origin, kind, code)).map(|error| error.forbids);
        assert_eq!([9, 10, 13].map(|code| forbids(2, 3, code)), [Some(true); 3]);
        assert_eq!([0, 1, 3].map(|code| forbids(2, 3, code)), [Some(false); 3]);
        assert_eq!((forbids(3, 1, 1), forbids(3, 1, 3)), (Some(true), Some(false)));
        // Made by this host itself (`SO_EE_ORIGIN_LOCAL`), and cut short.
        assert_eq!((forbids(1, 3, 13), read(&[113, 0])), (None, None));
    }

    #[test]
    fn error_names_its_sender() {
        let from = |name: &[u8]| {
            let whole = [&error(2, 3, 1)[..], name].concat();
            // However short: what is missing is not made up.
            (0..whole.len()).for_each(|length| _ = read(&whole[..length]));
            read(&whole).expect("an ICMP error").from.map(|from| from.to_string())
        };
        // Family (in the byte order of this machine), port, address.
        let v4 = [&2_u16.to_ne_bytes()[..], &[0, 0, 10, 78, 1, 254], &[0; 8]].concat();
        assert_eq!(from(&v4).as_deref(), Some("10.78.1.254"));
        let mut v6 = [&10_u16.to_ne_bytes()[..], &[0; 26]].concat();
        (v6[8], v6[9], v6[23]) = (0xfd, 0x78, 0xfe);
        assert_eq!(from(&v6).as_deref(), Some("fd78::fe"));
        assert_eq!(from(&[0; 16]), None, "left out");
    }
}
