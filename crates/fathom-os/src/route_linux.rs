//! Which interface and which next hop the kernel would send by, asked of its routing table (rtnetlink(7)). A question sends
//! nothing, and waits for no lock of the network's configuration (Linux 4.14).

use super::NextHop;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

// Numbers of linux/rtnetlink.h.
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const NLM_F_REQUEST: u16 = 1;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
/// A gateway of the other family.
const RTA_VIA: u16 = 18;
/// `struct nlmsghdr` and `struct rtmsg`; attributes follow both.
const HEADER: usize = 16;
const ROUTE: usize = 12;

/// Name of the interface by which a packet from `local` to `remote` leaves; `None` where the kernel knows no way, or
/// does not tell.
pub(super) fn interface_towards(local: IpAddr, remote: IpAddr) -> Option<String> {
    name_of(route(local, remote)?.interface?)
}

/// The next hop of such a packet; `None` as above.
pub(super) fn next_hop(local: IpAddr, remote: IpAddr) -> Option<NextHop> {
    let route = route(local, remote)?;
    let name = name_of(route.interface?)?;
    Some(NextHop { carries: carries(&name), gateway: route.gateway, through_gateway: route.through_gateway })
}

fn route(local: IpAddr, remote: IpAddr) -> Option<Route> {
    let mut socket =
        Socket::new(Domain::from(libc::AF_NETLINK), Type::DGRAM, Some(Protocol::from(libc::NETLINK_ROUTE)))
            .ok()?;
    // The kernel answers while it is asked; an answer that never came would hold its caller up.
    socket.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    socket.write_all(&question(local, remote)).ok()?;
    let mut answer = [0; 1_024];
    let length = socket.read(&mut answer).ok()?;
    read(answer.get(..length)?)
}

/// Whether an interface is up and has a carrier (`IFF_UP`, `IFF_RUNNING`, netdevice(7)).
fn carries(name: &str) -> Option<bool> {
    let any = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).ok()?;
    // SAFETY: all zeros are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays the end of the name.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the request lives across the call, which writes the flags into it.
    let outcome = unsafe { libc::ioctl(any.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request) };
    if outcome != 0 {
        return None;
    }
    // SAFETY: the call was a success, so the flags are what the union holds.
    let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
    let both = libc::IFF_UP | libc::IFF_RUNNING;
    Some(flags & both == both)
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

/// What an answer says of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Route {
    /// Index of the interface.
    interface: Option<u32>,
    gateway: Option<IpAddr>,
    /// The next hop is a gateway, whether or not its address is told.
    through_gateway: bool,
}

/// Reads the answer; `None` where it is an error.
fn read(answer: &[u8]) -> Option<Route> {
    let short = |bytes: &[u8], at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    if short(answer, 4)? != RTM_NEWROUTE {
        return None;
    }
    let mut route = Route::default();
    let mut rest = answer.get(HEADER + ROUTE..)?;
    while let (Some(length), Some(kind)) = (short(rest, 0), short(rest, 2)) {
        let value = rest.get(4..usize::from(length).max(4))?;
        match kind {
            RTA_OIF => route.interface = Some(u32::from_ne_bytes(value.try_into().ok()?)),
            RTA_GATEWAY => (route.gateway, route.through_gateway) = (address(value), true),
            RTA_VIA => (route.gateway, route.through_gateway) = (address(value.get(2..)?), true),
            _ => {}
        }
        // Attributes begin at multiples of four; one that says it is shorter than its header would never end.
        let next = usize::from(length).max(4).next_multiple_of(4);
        rest = rest.get(next..).unwrap_or(&[]);
    }
    Some(route)
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => Some(IpAddr::from(*octets.first_chunk::<4>()?)),
        16 => Some(IpAddr::from(*octets.first_chunk::<16>()?)),
        _ => None,
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
        let interface = |answer: &[u8]| read(answer).and_then(|route| route.interface);
        let mut answer = question("127.0.0.1".parse().unwrap(), "127.0.0.1".parse().unwrap());
        assert_eq!(interface(&answer), None, "a question is no answer");
        answer[4..6].copy_from_slice(&RTM_NEWROUTE.to_ne_bytes());
        assert_eq!(interface(&answer), None, "no interface in it");
        answer
            .extend(8_u16.to_ne_bytes().into_iter().chain(RTA_OIF.to_ne_bytes()).chain(7_u32.to_ne_bytes()));
        assert_eq!(interface(&answer), Some(7));
        assert!(!read(&answer).unwrap().through_gateway);
        for length in 0..answer.len() {
            assert_eq!(interface(&answer[..length]), None);
        }
        assert_eq!(interface(&[0; 64]), None);
        // Two gateways are no answer that a kernel gives; the last one counts.
        for (kind, value, told) in [
            (RTA_GATEWAY, &[10, 78, 1, 254][..], Some("10.78.1.254")),
            (RTA_VIA, &[2, 0, 10, 78, 1, 7], Some("10.78.1.7")),
            (RTA_GATEWAY, &[1, 2, 3], None),
        ] {
            let length = (4 + value.len() as u16).to_ne_bytes();
            answer.extend(length.into_iter().chain(kind.to_ne_bytes()).chain(value.iter().copied()));
            answer.resize(answer.len().next_multiple_of(4), 0);
            let route = read(&answer).expect("an answer");
            assert_eq!(
                (route.gateway.map(|gateway| gateway.to_string()).as_deref(), route.through_gateway),
                (told, true)
            );
            for length in 0..answer.len() {
                read(&answer[..length]);
            }
        }
    }

    #[test]
    fn loopback_is_up_and_has_no_gateway() {
        let loopback: IpAddr = "127.0.0.1".parse().unwrap();
        let hop = next_hop(loopback, loopback).expect("a way");
        assert_eq!((hop.carries, hop.through_gateway, hop.gateway), (Some(true), false, None));
        assert_eq!(carries("no-such-name"), None);
    }
}
