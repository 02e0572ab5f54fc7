//! What errors of the network are called and what to do about them.

use super::io::NetError;
use crate::cause::ClosingCause;
use std::io::ErrorKind;
use std::net::SocketAddr;

/// `EPERM` of Linux, which `ErrorKind` does not tell from `EACCES`.
const EPERM: i32 = 1;
/// No descriptor is left in this process (asm-generic/errno-base.h). `ErrorKind` has no name for it.
const EMFILE: i32 = 24;

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
    if error.is_local() {
        return local_advice(&format!("{target}{at}"), error);
    }
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
        E::PermissionDenied => forbidden(&format!("{target}{at}"), text),
        E::ConnectionReset => format!(
            "{target}{at} reset the connection while it was being made; is something between refusing it?"
        ),
        _ => format!("cannot connect to {target}{at}: {text}"),
    }
}

/// The reason why this host could not begin to connect, and what to do.
fn local_advice(target: &str, error: &NetError) -> String {
    use ErrorKind as E;
    let text = &error.text;
    match error.kind {
        E::AddrNotAvailable | E::AddrInUse => format!(
            "this host has no free source port for {target}, or no such source address ({text}); connect less often, or widen net.ipv4.ip_local_port_range, or check `ip address`"
        ),
        E::HostUnreachable | E::NetworkUnreachable | E::NetworkDown | E::InvalidInput => format!(
            "{target} cannot be reached: this host has no way there ({text}); check that its interface is up and has its address (`ip address`), and its routes (`ip route`)"
        ),
        E::PermissionDenied => forbidden(target, text),
        _ if error.errno == Some(EMFILE) => format!(
            "this process has no descriptor left for {target} ({text}); raise its limit (`ulimit -n`), or make fewer connections"
        ),
        _ => format!("this host cannot begin to connect to {target}: {text}"),
    }
}

fn forbidden(target: &str, text: &str) -> String {
    format!("this host does not allow connecting to {target} ({text}); check its firewall")
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

    /// A failure of this host is named as such, and raises no question about the server.
    #[test]
    fn local_failures_name_this_host() {
        let error = |kind, errno, source| NetError { kind, errno, text: "why".to_owned(), source };
        let here = ErrorSource::ThisHost;
        for (kind, errno, word) in [
            (ErrorKind::AddrNotAvailable, Some(99), "no free source port"),
            (ErrorKind::AddrInUse, Some(98), "no free source port"),
            (ErrorKind::NetworkUnreachable, Some(101), "no way"),
            (ErrorKind::Other, Some(24), "no descriptor"),
            (ErrorKind::PermissionDenied, Some(1), "does not allow"),
            (ErrorKind::Other, None, "cannot begin"),
        ] {
            let error = error(kind, errno, here);
            let advice = connect_advice("db:7", None, &error);
            assert!(error.is_local() && advice.contains("this ") && advice.contains(word), "{advice}");
        }
        // A kernel may have the answer before its call returns.
        for kind in [ErrorKind::ConnectionRefused, ErrorKind::ConnectionReset, ErrorKind::TimedOut] {
            assert!(!error(kind, None, here).is_local(), "{kind}");
        }
        for kind in [ErrorKind::NetworkUnreachable, ErrorKind::HostUnreachable, ErrorKind::PermissionDenied] {
            assert!(!error(kind, None, ErrorSource::Unspecified).is_local(), "a router may have said {kind}");
        }
    }
}
