//! Whom the reflector answers.

use ipnet::IpNet;
use std::net::IpAddr;

/// The networks of `--allow`; none means everybody.
#[derive(Debug, Clone, Default)]
pub struct Allow(Vec<IpNet>);

impl Allow {
    /// Answers these networks only; all where there are none.
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Whether no network was named.
    pub(crate) fn is_everybody(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this peer may be answered. On a dual-stack socket an IPv4 peer shows as `::ffff:a.b.c.d`; it is
    /// matched as the IPv4 address that it is.
    pub fn permits(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.0.is_empty() || self.0.iter().any(|network| network.contains(&peer))
    }
}

/// Reads one `--allow`: a network as in `10.0.0.0/8`, or one address.
pub fn network(text: &str) -> Result<IpNet, String> {
    text.parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| "write a network as in 10.0.0.0/8 or fd00::/8, or one address".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_ipv4_addresses_match_ipv4_networks() {
        let nets = ["10.0.0.0/8", "192.0.2.7", "fd00::/8"].map(|t| network(t).expect("a network"));
        let allow = Allow::new(nets.to_vec());
        for (peer, permitted) in [
            ("10.9.8.7", true),
            ("::ffff:10.9.8.7", true),
            ("11.0.0.1", false),
            ("::ffff:11.0.0.1", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("fd12::1", true),
            ("fe80::1", false),
        ] {
            assert_eq!(allow.permits(peer.parse().expect("an address")), permitted, "{peer}");
        }
        assert!(Allow::default().permits("8.8.8.8".parse().expect("an address")));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.0/33", "fd00::/129", "ten", "10.0.0.0/8/8"] {
            assert!(network(text).is_err(), "{text}");
        }
    }
}
