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

/// Where packets of a connection go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// Whether the interface is up and has a carrier. `None`: not known.
    pub carries: Option<bool>,
    /// Whether they go to a gateway; else the peer itself is on a network of this host.
    pub through_gateway: bool,
    /// The gateway's address, where it is told.
    pub gateway: Option<IpAddr>,
}

/// Where packets between these addresses go first, by the routing table now. Linux; `None`: not known, or no way is.
pub fn next_hop(local: IpAddr, remote: IpAddr) -> Option<NextHop> {
    #[cfg(target_os = "linux")]
    return route::next_hop(local.to_canonical(), remote.to_canonical());
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (local, remote);
        None
    }
}

/// Every IPv4 and IPv6 address of every interface, in the system's order; empty where the system does not tell.
pub fn addresses() -> Vec<InterfaceAddress> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    all.into_iter().map(|own| InterfaceAddress { address: own.ip(), interface: own.name }).collect()
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
