//! The addresses of this host, and the interfaces that packets leave by.

#[cfg(target_os = "linux")]
#[path = "route_linux.rs"]
mod route;

use std::net::{IpAddr, SocketAddr};

/// One address of one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Name of the interface, as `eth0`.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
}

/// Whether traffic to this address stays on this host: a loopback address, or an address of one of its interfaces.
/// Where the interfaces cannot be read, only loopback counts.
pub fn is_loopback_or_own(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || addresses().iter().any(|own| own.address == address)
}

/// Name of the interface by which a connection between these addresses leaves this host: by the routing table where the
/// system tells (Linux), else the interface that bears the local address. `None` where neither is known.
pub fn towards(local: SocketAddr, remote: SocketAddr) -> Option<String> {
    let (from, to) = (local.ip().to_canonical(), remote.ip().to_canonical());
    let bearer = || addresses().into_iter().find(|own| own.address == from).map(|own| own.interface);
    #[cfg(target_os = "linux")]
    {
        let scope = if let SocketAddr::V6(v6) = local { v6.scope_id() } else { 0 };
        // A link-local address says itself which link.
        let by_scope = if scope == 0 { None } else { route::name_of(scope) };
        by_scope.or_else(|| route::interface_towards(from, to)).or_else(bearer)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = to;
        bearer()
    }
}

/// Every IPv4 and IPv6 address of every interface, in the system's order; empty where the system does not tell.
#[cfg(unix)]
pub fn addresses() -> Vec<InterfaceAddress> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the pointer is valid for the call, which stores the head of a list there.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: every node of the list is valid until freeifaddrs below, and nobody writes to it.
        let node = unsafe { &*next };
        next = node.ifa_next;
        // SAFETY: the address of a node is null or points to a socket address of the length its family has.
        if let Some(address) = unsafe { ip_of(node.ifa_addr) } {
            // SAFETY: the name of a node is a string ended by a zero byte.
            let name = unsafe { std::ffi::CStr::from_ptr(node.ifa_name) };
            found.push(InterfaceAddress { interface: name.to_string_lossy().into_owned(), address });
        }
    }
    // SAFETY: `first` came from getifaddrs and no reference into the list is left.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// The address in a socket address, where it is an Internet one.
///
/// # Safety
/// `address` is null or points to a socket address that is as long as its family says.
#[cfg(unix)]
unsafe fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: not null, and any socket address begins with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: of this family, so of this type; read without regard to alignment.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::from(u32::from_be(v4.sin_addr.s_addr).to_be_bytes()))
        }
        libc::AF_INET6 => {
            // SAFETY: of this family, so of this type; read without regard to alignment.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::from(v6.sin6_addr.s6_addr))
        }
        _ => None,
    }
}

/// As on Unix; not read on this system, so empty.
#[cfg(not(unix))]
pub fn addresses() -> Vec<InterfaceAddress> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_on_this_host_is_known() {
        for own in ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"] {
            assert!(is_loopback_or_own(own.parse().unwrap()), "{own}");
        }
        // Documentation prefixes (RFC 5737, RFC 3849), which no interface of a test machine bears with these host parts.
        for foreign in ["203.0.113.254", "2001:db8:ffff::fe"] {
            assert!(!is_loopback_or_own(foreign.parse().unwrap()), "{foreign}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn every_listed_address_can_be_bound() {
        let all = addresses();
        assert!(all.iter().any(|own| own.address.is_loopback()));
        for own in all {
            assert!(is_loopback_or_own(own.address));
            // Link-local addresses need a scope, and fresh IPv6 ones may still be tentative.
            if own.address.is_ipv4() {
                std::net::UdpSocket::bind((own.address, 0)).unwrap();
            }
        }
    }
}
