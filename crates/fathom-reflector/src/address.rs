//! Where to listen, as people write it: `7007`, `:7007`, `0.0.0.0:7`, `[::1]:7007`, `tcp://…`, `udp://…`.

use fathom_wire::rfc8762::PORT;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The port where a probe looks for a reflector of ours.
pub const DEFAULT_PORT: u16 = 7007;

/// How messages travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Echo over TCP (RFC 862).
    Tcp,
    /// Echo over UDP (RFC 862).
    Udp,
    /// STAMP over UDP (RFC 8762).
    Stamp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Stamp => "stamp",
        })
    }
}

/// One `--listen`: an address, and the protocol where the user named one (none: both).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// The one that the user named.
    pub protocol: Option<Protocol>,
    /// The address, with its port.
    pub address: SocketAddr,
}

/// Reads one `--listen`.
pub fn listen(text: &str) -> Result<Listen, String> {
    let (protocol, rest) = match text.split_once("://") {
        Some(("tcp", rest)) => (Some(Protocol::Tcp), rest),
        Some(("udp", rest)) => (Some(Protocol::Udp), rest),
        Some((other, _)) => return Err(format!("{other}:// is not served; write tcp:// or udp://")),
        None => (None, text),
    };
    socket_address(rest, DEFAULT_PORT).map(|address| Listen { protocol, address }).ok_or_else(|| {
        "write an address of this host, as in 7007, :7007, 0.0.0.0:7, [::1]:7007, tcp://10.0.0.4:7007".into()
    })
}

/// Reads one `--stamp`.
pub fn stamp(text: &str) -> Result<SocketAddr, String> {
    socket_address(text, PORT)
        .ok_or_else(|| "write a port or an address of this host, as in 862, 10.0.0.4, [::1]:8620".into())
}

fn socket_address(text: &str, default_port: u16) -> Option<SocketAddr> {
    let port_only = text.strip_prefix(':').or_else(|| text.strip_prefix("*:")).unwrap_or(text);
    if let Ok(port) = port_only.parse::<u16>() {
        return Some((Ipv6Addr::UNSPECIFIED, port).into());
    }
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let host = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    host.parse::<IpAddr>().ok().map(|ip| (ip, default_port).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_people_write_them() {
        for (text, protocol, address) in [
            ("7007", None, "[::]:7007"),
            (":7", None, "[::]:7"),
            ("*:0", None, "[::]:0"),
            ("0.0.0.0:7", None, "0.0.0.0:7"),
            ("10.1.2.3", None, "10.1.2.3:7007"),
            ("[::1]:7007", None, "[::1]:7007"),
            ("[::1]", None, "[::1]:7007"),
            ("::1", None, "[::1]:7007"),
            ("tcp://7", Some(Protocol::Tcp), "[::]:7"),
            ("udp://[::1]:9", Some(Protocol::Udp), "[::1]:9"),
        ] {
            let expected = Listen { protocol, address: address.parse().expect("a test address") };
            assert_eq!(listen(text), Ok(expected), "{text}");
        }
        for text in ["", "70000", "-1", "host", "host:7", "sctp://7", "1.2.3:7", "[::1]:x"] {
            assert!(listen(text).is_err(), "{text}");
        }
    }
}
