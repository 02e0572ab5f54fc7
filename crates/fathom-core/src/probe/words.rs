//! What errors of the network are called and what to do about them.

use super::io::NetError;
use crate::cause::ClosingCause;
use std::io::ErrorKind;
use std::net::SocketAddr;

/// `EPERM` of Linux, which `ErrorKind` does not tell from `EACCES`.
const EPERM: i32 = 1;

/// The closing cause that an error of a connected socket stands for.
pub fn cause_of(error: &NetError) -> ClosingCause {
    use ErrorKind as E;
    match error.kind {
        // A filter of this host: nothing was sent (EPERM; what the network forbids is EACCES, below).
        E::PermissionDenied if error.errno == Some(EPERM) => ClosingCause::LocalError,
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
pub(crate) fn connect_advice(target: &str, remote: Option<SocketAddr>, error: &NetError) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::io::ErrorSource;

    #[test]
    fn eperm_is_local_eacces_is_unreachable() {
        for (errno, cause) in [(1, ClosingCause::LocalError), (13, ClosingCause::Unreachable)] {
            let (kind, source) = (ErrorKind::PermissionDenied, ErrorSource::Unspecified);
            let error = NetError { kind, errno: Some(errno), text: String::new(), source };
            assert_eq!(cause_of(&error), cause, "errno {errno}");
        }
    }
}
