//! What errors of the network are called and what to do about them.

use super::io::NetError;
use crate::cause::ClosingCause;
use std::io::ErrorKind;
use std::net::SocketAddr;

/// The closing cause that an error of a connected socket stands for.
pub(super) fn cause_of(kind: ErrorKind) -> ClosingCause {
    use ErrorKind as E;
    match kind {
        // A RST after a FIN is reported as EPIPE, any other as ECONNRESET (Linux tcp_reset()).
        E::ConnectionReset | E::BrokenPipe => ClosingCause::Reset,
        E::TimedOut => ClosingCause::TimedOut,
        // A connected datagram socket reports an ICMP port unreachable as ECONNREFUSED.
        // ICMPv6 "administratively prohibited" arrives as EACCES (RFC 4443, section 3.1; Linux icmpv6_err_convert()).
        E::ConnectionRefused | E::HostUnreachable | E::NetworkUnreachable | E::PermissionDenied => {
            ClosingCause::Unreachable
        }
        // ECONNABORTED too: this host's own kernel destroyed the socket (`ss -K`, tcp_abort()); nothing came from the network.
        _ => ClosingCause::LocalError,
    }
}

/// Why connecting failed, and what to do about it.
pub(super) fn connect_advice(target: &str, remote: Option<SocketAddr>, error: &NetError) -> String {
    use ErrorKind as E;
    let text = &error.text;
    let at = remote.map_or_else(String::new, |r| {
        if r.to_string() == target { String::new() } else { format!(" ({r})") }
    });
    match error.kind {
        E::ConnectionRefused => format!(
            "{target}{at} refused the connection: nothing listens there; start `fathom echo` on it, or name the port as HOST:PORT"
        ),
        E::TimedOut => format!(
            "{target}{at} does not answer: no SYN-ACK came; check the address, routes, and firewalls or security groups in between"
        ),
        E::HostUnreachable | E::NetworkUnreachable => {
            format!(
                "{target}{at} cannot be reached ({text}); check the address, the routes and, for IPv6, that both ends have it"
            )
        }
        E::AddrNotAvailable => {
            format!(
                "cannot connect to {target}{at} ({text}): no such source address here, or no free source port"
            )
        }
        E::PermissionDenied => {
            format!("this host does not allow connecting to {target}{at} ({text}); check its firewall")
        }
        E::ConnectionReset => format!(
            "{target}{at} reset the connection while it was being made; is something between refusing it?"
        ),
        _ => format!("cannot connect to {target}{at}: {text}"),
    }
}
