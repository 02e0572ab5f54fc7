//! From addresses to bound sockets, and what to say when one cannot be had.

use crate::address::Protocol;
use crate::config::Config;
use crate::error::Error;
use crate::talk::{Talk, note};
use fathom_os::socket::{Inherited, bind_udp, inherited_listeners, listen_tcp, tell_destinations, tell_hops};
use mio::net::{TcpListener, UdpSocket};
use socket2::SockRef;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Connections that the kernel keeps for us while we are busy.
const BACKLOG: i32 = 4_096;
/// Ports that are tried for TCP and UDP at once. Where half of the system's are taken, all of these are once in 4 thousand
/// million starts.
const PAIRS_TRIED: usize = 32;

/// A socket that takes messages.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) protocol: Protocol,
    /// Where it is bound, the port chosen by the system included.
    pub(crate) address: SocketAddr,
    pub(crate) socket: Socket,
    /// Whether it waits in the server's queue of unfinished turns.
    pub(crate) queued: bool,
}

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl Bound {
    fn new(socket: Socket) -> io::Result<Self> {
        let (protocol, address) = match &socket {
            Socket::Tcp(listener) => {
                // RFC 862: "any data received is sent back", urgent data too. Connections inherit the option.
                SockRef::from(listener).set_out_of_band_inline(true)?;
                (Protocol::Tcp, listener.local_addr()?)
            }
            Socket::Udp(socket) => {
                ignore_multicast(socket);
                // Where the kernel does not tell, a datagram counts as one for this host alone.
                let _ = tell_destinations(socket);
                (Protocol::Udp, socket.local_addr()?)
            }
        };
        Ok(Self { protocol, address, socket, queued: false })
    }

    fn bind(protocol: Protocol, address: SocketAddr) -> io::Result<Self> {
        let bound = Self::new(match protocol {
            Protocol::Tcp => Socket::Tcp(listen_tcp(address, BACKLOG)?),
            Protocol::Udp | Protocol::Stamp => Socket::Udp(bind_udp(address)?),
        })?;
        if let (Protocol::Stamp, Socket::Udp(socket)) = (protocol, &bound.socket) {
            // Where the kernel does not tell, an answer says 0.
            let _ = tell_hops(socket);
        }
        Ok(Self { protocol, ..bound })
    }
}

/// By default Linux hands every datagram of a group that anybody on the host has joined to every socket bound to its
/// port. We join none and want none: one forged datagram to a group must not be answered by every reflector in it.
fn ignore_multicast(socket: &UdpSocket) {
    #[cfg(target_os = "linux")]
    {
        let socket = SockRef::from(socket);
        // One of the two does not apply to a socket of the other family.
        let _ = socket.set_multicast_all_v4(false);
        let _ = socket.set_multicast_all_v6(false);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}

/// Opens every socket of the configuration, or takes those that systemd opened for us.
pub(crate) fn open(config: &Config) -> Result<Vec<Bound>, Error> {
    let mut sockets = if config.sockets_are_default { inherited()? } else { Vec::new() };
    let handed_over = !sockets.is_empty();
    // The latest TCP listener on any port of an address, and which one it is.
    let mut tcp_before: Option<(SocketAddr, usize)> = None;
    for &(protocol, wanted) in &config.sockets {
        // What systemd opened takes the place of the default addresses, not of those that were asked for.
        if handed_over && protocol != Protocol::Stamp {
            continue;
        }
        let failed = |e: io::Error| not_bound(config, protocol, wanted, &e);
        let beside = tcp_before.filter(|(tcp, _)| protocol == Protocol::Udp && *tcp == wanted);
        let paired = match beside {
            Some((_, tcp)) => bind_beside(&mut sockets[tcp], wanted).map_err(failed)?,
            None => None,
        };
        let bound = match paired {
            Some(bound) => bound,
            None => bind(protocol, wanted).map_err(failed)?,
        };
        if protocol == Protocol::Tcp && wanted.port() == 0 {
            tcp_before = Some((wanted, sockets.len()));
        }
        sockets.push(bound);
    }
    Ok(sockets)
}

/// Where any port will do, TCP and UDP of one address get the same one: one number to tell probes. A port that is free for
/// TCP may be somebody's for UDP: then both take another. `None`: no such pair was found.
fn bind_beside(tcp: &mut Bound, wanted: SocketAddr) -> io::Result<Option<Bound>> {
    for _ in 0..PAIRS_TRIED {
        match bind(Protocol::Udp, SocketAddr::new(wanted.ip(), tcp.address.port())) {
            Ok(udp) => return Ok(Some(udp)),
            Err(_) => *tcp = bind(Protocol::Tcp, wanted)?,
        }
    }
    Ok(None)
}

/// Opens one more TCP listener.
fn open_tcp(config: &Config, address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |e: io::Error| not_bound(config, Protocol::Tcp, address, &e);
    let bound = bind(Protocol::Tcp, address).map_err(failed)?;
    match bound.socket {
        Socket::Tcp(listener) => Ok((listener, bound.address)),
        Socket::Udp(_) => Err(failed(io::ErrorKind::Unsupported.into())),
    }
}

/// Listens on this TCP port of every address that the reflector has; on all of this host where none was named.
pub(crate) fn open_tcp_everywhere(
    config: &Config,
    port: u16,
) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), Error> {
    let ips: BTreeSet<IpAddr> = if config.sockets_are_default {
        BTreeSet::from([Ipv6Addr::UNSPECIFIED.into()])
    } else {
        config.sockets.iter().map(|(_, address)| address.ip()).collect()
    };
    let listeners = ips.into_iter().map(|ip| open_tcp(config, SocketAddr::new(ip, port)));
    Ok(listeners.collect::<Result<Vec<_>, _>>()?.into_iter().unzip())
}

fn inherited() -> Result<Vec<Bound>, Error> {
    inherited_listeners()
        .and_then(|sockets| {
            let bound = sockets.into_iter().map(|socket| {
                Bound::new(match socket {
                    Inherited::Tcp(listener) => Socket::Tcp(listener),
                    Inherited::Udp(socket) => Socket::Udp(socket),
                })
            });
            bound.collect()
        })
        .map_err(|e| Error::new(format!("cannot serve the sockets that systemd opened: {e}")))
}

/// Binds; every address of a host without IPv6 is every IPv4 address, and that is said.
fn bind(protocol: Protocol, address: SocketAddr) -> io::Result<Bound> {
    match Bound::bind(protocol, address) {
        Err(e) if address.is_ipv6() && address.ip().is_unspecified() && family_is_missing(&e) => {
            let bound = Bound::bind(protocol, (Ipv4Addr::UNSPECIFIED, address.port()).into())?;
            note(&format!("this host has no IPv6 ({e}); {protocol} listens on IPv4 only"));
            Ok(bound)
        }
        outcome => outcome,
    }
}

/// EAFNOSUPPORT where the kernel was built or booted without IPv6, EADDRNOTAVAIL where it is switched off. The
/// standard library has no kind for the first.
fn family_is_missing(e: &io::Error) -> bool {
    const EAFNOSUPPORT: i32 = if cfg!(target_os = "linux") {
        97
    } else if cfg!(windows) {
        10_047
    } else {
        47
    };
    e.kind() == io::ErrorKind::AddrNotAvailable || e.raw_os_error() == Some(EAFNOSUPPORT)
}

/// The error for a socket that cannot be had. A machine is told where another socket has its port.
fn not_bound(config: &Config, protocol: Protocol, address: SocketAddr, e: &io::Error) -> Error {
    if e.kind() == io::ErrorKind::AddrInUse {
        // Who cannot be told so reads the error all the same.
        let _ = Talk { json: config.json }.address_in_use(protocol, address);
    }
    Error::new(why_not(protocol, address, e))
}

/// One line: what could not be had, why, and how to get it.
fn why_not(protocol: Protocol, address: SocketAddr, e: &io::Error) -> String {
    let port = address.port();
    let remedy = match e.kind() {
        io::ErrorKind::PermissionDenied => {
            let binary =
                std::env::current_exe().map_or_else(|_| "fathom".into(), |path| path.display().to_string());
            format!(
                "a port this low needs a right: give it to the binary (sudo setcap cap_net_bind_service=+ep {binary}), \
                 start it with sudo, lower the limit (sudo sysctl net.ipv4.ip_unprivileged_port_start={port}), or \
                 choose a port above 1023"
            )
        }
        io::ErrorKind::AddrInUse => {
            let (flag, name) = if protocol == Protocol::Tcp { ("-ltnp", "TCP") } else { ("-lunp", "UDP") };
            format!(
                "another socket has this {name} port; see which with `ss {flag} sport = :{port}`, or choose another \
                 port ([::] takes IPv4 too)"
            )
        }
        io::ErrorKind::AddrNotAvailable => "this host has no such address; see `ip address`".into(),
        _ => "choose another address or port with --listen".into(),
    };
    format!("cannot listen on {protocol} {address}: {e}; {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_in_use_error_suggests_ss_command() {
        let bound = bind(Protocol::Tcp, (Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
        assert_ne!(bound.address.port(), 0);
        let taken = bind(Protocol::Tcp, bound.address).expect_err("it is taken");
        let line = why_not(Protocol::Tcp, bound.address, &taken);
        assert!(line.contains(&format!("ss -ltnp sport = :{}", bound.address.port())), "{line}");
        assert!(!line.contains('\n'));
    }

    #[test]
    fn port_taken_for_udp_is_skipped() {
        let wanted = (Ipv4Addr::LOCALHOST, 0).into();
        let mut tcp = bind(Protocol::Tcp, wanted).expect("a free port");
        let first = tcp.address;
        // Where this fails it is taken already.
        let taken = std::net::UdpSocket::bind(first);
        let udp = bind_beside(&mut tcp, wanted).expect("loopback").expect("a pair");
        assert_eq!(udp.address, tcp.address);
        assert_ne!(udp.address, first);
        drop(taken);
    }

    #[test]
    fn an_address_of_another_host_is_named() {
        let elsewhere = "192.0.2.1:7007".parse().expect("an address");
        let error = bind(Protocol::Udp, elsewhere).expect_err("TEST-NET-1 is nobody's");
        assert!(why_not(Protocol::Udp, elsewhere, &error).contains("no such address"));
    }

    #[test]
    fn only_a_missing_family_falls_back_to_ipv4() {
        let missing = io::Error::from_raw_os_error(if cfg!(target_os = "linux") { 97 } else { 47 });
        assert_eq!(family_is_missing(&missing), !cfg!(windows), "{missing}");
        assert!(!family_is_missing(&io::ErrorKind::AddrInUse.into()));
        assert!(!family_is_missing(&io::ErrorKind::PermissionDenied.into()));
    }
}
