//! Non-blocking sockets, ready for a [`crate::reactor::Reactor`].
//!
//! Errors are the system's own, with their number, because recordings keep it; whoever shows one names the address.

#[cfg_attr(all(target_os = "linux", target_pointer_width = "64"), path = "datagram_linux.rs")]
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64")), path = "datagram_none.rs")]
mod datagram;
#[cfg_attr(all(target_os = "linux", target_pointer_width = "64"), path = "icmp_linux.rs")]
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64")), path = "icmp_none.rs")]
mod icmp;
mod inherited;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[path = "options_linux.rs"]
mod options;
#[cfg_attr(target_os = "linux", path = "tcp_info_linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "tcp_info_none.rs")]
mod tcp_info;
#[cfg_attr(target_os = "linux", path = "waiting_linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "waiting_none.rs")]
mod waiting;

pub use datagram::{recv_datagram, tell_destinations, tell_hops};
pub use icmp::icmp_error;
pub use inherited::{Inherited, inherited_listeners};
pub use tcp_info::{receive_room, segments_sent, tcp_info, transfer_times};
pub use waiting::{let_reads_wait, read_now, read_waiting, write_now};

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A datagram that [`recv_datagram`] took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// Bytes taken into the buffer.
    pub length: usize,
    /// Who sent it.
    pub peer: SocketAddr,
    /// Whether it was sent to an address that stands for many hosts: a broadcast address, a subnet's included, or a
    /// group. 64-bit Linux, after [`tell_destinations`]; `None`: not known.
    pub to_many: Option<bool>,
    /// Its TTL or hop limit when it came. 64-bit Linux, after [`tell_hops`]; `None`: not known.
    pub ttl: Option<u8>,
}

/// Of the time in which a connection had something to send, what held it up; in µs, since it was made (`tcpi_busy_time`,
/// `tcpi_rwnd_limited` and `tcpi_sndbuf_limited` of `struct tcp_info`, linux/tcp.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferTimes {
    /// There was something to send, or it was not acknowledged.
    pub busy_us: u64,
    /// Of that, the peer's window was the limit: it does not read as fast as it is sent to.
    pub rwnd_limited_us: u64,
    /// Of that, this side's buffer was.
    pub sndbuf_limited_us: u64,
}

/// What this end of a connection can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveRoom {
    /// Bytes that came over the connection's life.
    pub bytes_received: u64,
    /// Room for so many more, as was last announced to the peer.
    pub window_bytes: u32,
    /// What its largest segments hold.
    pub segment_bytes: u32,
}

/// Segments with data that a connection sent since it was made (`tcpi_data_segs_out` and `tcpi_total_retrans` of `struct tcp_info`,
/// linux/tcp.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segments {
    /// All, those that were sent again too. `None`: the kernel does not count them (before Linux 4.6).
    pub sent: Option<u32>,
    /// Those that were sent again.
    pub again: u32,
}

/// What an ICMP error said of a connection or a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError {
    /// A filter forbids the way ("communication administratively prohibited").
    pub forbids: bool,
    /// Who sent the message. `None`: the system does not tell.
    pub from: Option<IpAddr>,
}

/// How a probe's TCP connection is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpOptions {
    /// Send at once instead of gathering small writes (`TCP_NODELAY`).
    pub nodelay: bool,
    /// Address here; none: the system chooses by route.
    pub source: Option<IpAddr>,
    /// Differentiated services code point, 0 to 63 (RFC 2474); none: the system's default.
    pub dscp: Option<u8>,
    /// How long data may stay unacknowledged before the kernel gives up (`TCP_USER_TIMEOUT`, RFC 5482), in ms; none:
    /// the system's default. Linux.
    pub user_timeout_ms: Option<u32>,
    /// While the connection is idle, the kernel sends an empty segment this often (`SO_KEEPALIVE`, `TCP_KEEPIDLE`,
    /// `TCP_KEEPINTVL`), in whole seconds; none: it sends none.
    pub keepalive: Option<Duration>,
    /// Keep what ICMP messages say for [`icmp_error`]; they then end the connection at once, established or not.
    pub keep_icmp: bool,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            nodelay: true,
            source: None,
            dscp: None,
            user_timeout_ms: None,
            keepalive: None,
            keep_icmp: false,
        }
    }
}

/// True if this host has an address, tested by binding a socket to it. If that cannot be tested, the host is assumed to
/// have it.
pub fn has_address(address: IpAddr) -> bool {
    let bound = std::net::UdpSocket::bind(SocketAddr::new(address, 0));
    bound.map_or_else(|error| error.kind() != io::ErrorKind::AddrNotAvailable, |_| true)
}

/// Begins a TCP connection. Register the stream for writability, then ask [`connect_result`].
pub fn connect_tcp(remote: SocketAddr, options: &TcpOptions) -> io::Result<mio::net::TcpStream> {
    let socket = tcp_client(remote, options)?;
    match socket.connect(&remote.into()) {
        Err(error) if !in_progress(&error) => return Err(error),
        _ => {}
    }
    Ok(mio::net::TcpStream::from_std(socket.into()))
}

/// A TCP connection for a thread of its own: waits until it is established, at most so long, and blocks afterwards.
pub fn connect_tcp_blocking(
    remote: SocketAddr,
    options: &TcpOptions,
    within: Duration,
) -> io::Result<std::net::TcpStream> {
    let socket = tcp_client(remote, options)?;
    socket.connect_timeout(&remote.into(), within)?;
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

fn tcp_client(remote: SocketAddr, options: &TcpOptions) -> io::Result<Socket> {
    let socket = client(remote, Type::STREAM, Protocol::TCP, options.source, options.dscp)?;
    socket.set_tcp_nodelay(options.nodelay)?;
    if let Some(ms) = options.user_timeout_ms {
        set_user_timeout(&socket, ms)?;
    }
    if let Some(every) = options.keepalive {
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(every).with_interval(every))?;
    }
    if options.keep_icmp {
        icmp::keep(&socket, remote)?;
    }
    Ok(socket)
}

/// How a connection begun by [`connect_tcp`] stands: `true` established, `false` still in progress, else why it
/// failed, with the system's number. A failure is told once; the kernel forgets it with the telling.
pub fn connect_result(stream: &mio::net::TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

/// A UDP socket that sends to and receives from `remote` only.
pub fn connect_udp(
    remote: SocketAddr,
    source: Option<IpAddr>,
    dscp: Option<u8>,
) -> io::Result<mio::net::UdpSocket> {
    connect_udp_with(remote, source, dscp, false)
}

/// As [`connect_udp`]; `keep_icmp` as in [`TcpOptions`]: every ICMP error is then an error of the socket.
pub fn connect_udp_with(
    remote: SocketAddr,
    source: Option<IpAddr>,
    dscp: Option<u8>,
    keep_icmp: bool,
) -> io::Result<mio::net::UdpSocket> {
    let socket = client(remote, Type::DGRAM, Protocol::UDP, source, dscp)?;
    if keep_icmp {
        icmp::keep(&socket, remote)?;
    }
    socket.connect(&remote.into())?;
    Ok(mio::net::UdpSocket::from_std(socket.into()))
}

/// A listening TCP socket. `[::]` takes IPv4 too, whatever the system's default. The address can be taken again
/// right after another listener left it (`SO_REUSEADDR`), except on Windows, where that option means theft.
pub fn listen_tcp(addr: SocketAddr, backlog: i32) -> io::Result<mio::net::TcpListener> {
    let socket = server(addr, Type::STREAM, Protocol::TCP)?;
    if cfg!(unix) {
        socket.set_reuse_address(true)?;
    }
    socket.bind(&addr.into())?;
    socket.listen(backlog)?;
    Ok(mio::net::TcpListener::from_std(socket.into()))
}

/// A bound UDP socket. `[::]` takes IPv4 too. The address is never shared: for datagrams, `SO_REUSEADDR` would let
/// a second reflector take the traffic of the first without a word.
pub fn bind_udp(addr: SocketAddr) -> io::Result<mio::net::UdpSocket> {
    let socket = server(addr, Type::DGRAM, Protocol::UDP)?;
    socket.bind(&addr.into())?;
    Ok(mio::net::UdpSocket::from_std(socket.into()))
}

fn server(addr: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if let SocketAddr::V6(v6) = addr {
        socket.set_only_v6(!v6.ip().is_unspecified())?;
    }
    Ok(socket)
}

fn client(
    remote: SocketAddr,
    kind: Type,
    protocol: Protocol,
    source: Option<IpAddr>,
    dscp: Option<u8>,
) -> io::Result<Socket> {
    if let Some(source) = source
        && source.is_ipv4() != remote.is_ipv4()
    {
        let families = format!("the source address {source} and the remote address {remote}");
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{families} are not of one family: give a source of the other family, or -4 or -6"),
        ));
    }
    let socket = Socket::new(Domain::for_address(remote), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if let Some(dscp) = dscp {
        set_dscp(&socket, remote, dscp)?;
    }
    if let Some(source) = source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    Ok(socket)
}

fn set_dscp(socket: &Socket, remote: SocketAddr, dscp: u8) -> io::Result<()> {
    if dscp > 63 {
        let message = format!("cannot mark packets with DSCP {dscp}: give a code point from 0 to 63");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    // The code point is the upper six bits of the octet; the lower two are ECN (RFC 3168).
    let octet = u32::from(dscp) << 2;
    if remote.is_ipv4() {
        return socket.set_tos_v4(octet);
    }
    #[cfg(unix)]
    return socket.set_tclass_v6(octet);
    #[cfg(not(unix))]
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "cannot mark IPv6 packets with a DSCP on this system: leave --dscp out, or probe over IPv4",
    ))
}

#[cfg(target_os = "linux")]
fn set_user_timeout(socket: &Socket, ms: u32) -> io::Result<()> {
    socket.set_tcp_user_timeout(Some(Duration::from_millis(ms.into())))
}

#[cfg(not(target_os = "linux"))]
fn set_user_timeout(_socket: &Socket, _ms: u32) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "cannot set TCP_USER_TIMEOUT: only Linux has it; leave it out",
    ))
}

#[cfg(unix)]
fn in_progress(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINPROGRESS)
}

#[cfg(not(unix))]
fn in_progress(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
