//! Which interface the kernel would send by, asked of its routing table (rtnetlink(7)). A question sends nothing.

use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::IpAddr;
use std::time::Duration;

// Numbers of linux/rtnetlink.h.
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const NLM_F_REQUEST: u16 = 1;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
/// `struct nlmsghdr` and `struct rtmsg`; attributes follow both.
const HEADER: usize = 16;
const ROUTE: usize = 12;

/// Name of the interface by which a packet from `local` to `remote` leaves; `None` where the kernel knows no way, or
/// does not tell.
pub(super) fn interface_towards(local: IpAddr, remote: IpAddr) -> Option<String> {
    let mut socket =
        Socket::new(Domain::from(libc::AF_NETLINK), Type::DGRAM, Some(Protocol::from(libc::NETLINK_ROUTE)))
            .ok()?;
    // The kernel answers while it is asked; an answer that never came would hold its caller up.
    socket.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    socket.write_all(&question(local, remote)).ok()?;
    let mut answer = [0; 1_024];
    let length = socket.read(&mut answer).ok()?;
    name_of(index_in(answer.get(..length)?)?)
}

/// Name of the interface with this index, as addresses with a scope have it.
pub(super) fn name_of(index: u32) -> Option<String> {
    let any = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).ok()?;
    rustix::net::netdevice::index_to_name(&any, index).ok()
}

/// A request for the one route from an address to another, in the byte order of this machine, as netlink wants it.
fn question(local: IpAddr, remote: IpAddr) -> Vec<u8> {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let (source, destination) = (octets(local), octets(remote));
    let family = if remote.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    let mut message = vec![0; HEADER];
    // Family, bits of the destination and of the source that count; the rest says nothing.
    message.extend([family, 8 * destination.len() as u8, 8 * source.len() as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for (kind, value) in [(RTA_DST, destination), (RTA_SRC, source)] {
        // Addresses are multiples of four bytes long: no padding.
        message.extend((4 + value.len() as u16).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(value);
    }
    let length = (message.len() as u32).to_ne_bytes();
    message[..4].copy_from_slice(&length);
    message[4..6].copy_from_slice(&RTM_GETROUTE.to_ne_bytes());
    message[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    message
}

/// The index of the interface in the answer; `None` where it is an error.
fn index_in(answer: &[u8]) -> Option<u32> {
    let short = |bytes: &[u8], at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    if short(answer, 4)? != RTM_NEWROUTE {
        return None;
    }
    let mut rest = answer.get(HEADER + ROUTE..)?;
    loop {
        let (length, kind) = (usize::from(short(rest, 0)?), short(rest, 2)?);
        if kind == RTA_OIF {
            return Some(u32::from_ne_bytes(rest.get(4..8)?.try_into().ok()?));
        }
        // Attributes begin at multiples of four; one that says it is shorter than its header would never end.
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_to_this_host_goes_by_loopback() {
        for loopback in ["127.0.0.1", "::1"] {
            let address: IpAddr = loopback.parse().unwrap();
            if std::net::UdpSocket::bind((address, 0)).is_ok() {
                assert_eq!(interface_towards(address, address).as_deref(), Some("lo"), "{loopback}");
            }
        }
        // An address of this host's other interfaces: its packets to itself stay on loopback all the same.
        for own in crate::interfaces::addresses().iter().filter(|own| own.address.is_ipv4()) {
            assert_eq!(interface_towards(own.address, own.address).as_deref(), Some("lo"), "{own:?}");
        }
    }

    #[test]
    fn an_answer_of_any_bytes_is_survived() {
        let mut answer = question("127.0.0.1".parse().unwrap(), "127.0.0.1".parse().unwrap());
        assert_eq!(index_in(&answer), None, "a question is no answer");
        answer[4..6].copy_from_slice(&RTM_NEWROUTE.to_ne_bytes());
        assert_eq!(index_in(&answer), None, "no interface in it");
        answer
            .extend(8_u16.to_ne_bytes().into_iter().chain(RTA_OIF.to_ne_bytes()).chain(7_u32.to_ne_bytes()));
        assert_eq!(index_in(&answer), Some(7));
        for length in 0..answer.len() {
            assert_eq!(index_in(&answer[..length]), None);
        }
        assert_eq!(index_in(&[0; 64]), None);
    }
}
