//! One socket: writing messages into it and reading answers out of it.

use fathom_core::event::TcpInfo;
use fathom_core::probe::{ErrorSource, LinkId, NetError, Probe, Progress, Purpose};
use fathom_core::stream::Counted;
use fathom_os::interfaces;
use fathom_os::socket::{self, IcmpError};
use fathom_os::timestamps::{self, TxKind};
use mio::event::Source;
use mio::net::{TcpStream, UdpSocket};
use rustls::ClientConnection;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A connected socket of either transport.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// How far a link is.
#[derive(Debug)]
pub(super) enum Stage {
    Connecting,
    /// The TLS handshake is under way.
    Securing(Box<ClientConnection>),
    Open,
    /// Closed on this side; what comes is read away.
    Closing,
}

/// By what the driver learns that something came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// The reactor tells.
    Reactor,
    /// It is read all the time, and the reactor does not know of it.
    Reads,
}

/// A socket and what the driver knows of it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    pub(super) socket: Socket,
    pub(super) stage: Stage,
    pub(super) purpose: Purpose,
    pub(super) path: usize,
    pub(super) remote: SocketAddr,
    /// Whether the kernel stamps what goes over it.
    pub(super) stamped: bool,
    /// Whether a read of it can wait for its bytes.
    pub(super) reads_wait: bool,
    pub(super) news: News,
    /// Whether a send has failed and the probe is not told yet: what had come before is read first.
    pub(super) broken: bool,
}

impl Link {
    /// Reads once, with the kernel's stamp where it makes one; `wait`ing for something to come if so told.
    pub(super) fn read(&mut self, buffer: &mut [u8], wait: bool) -> io::Result<(usize, Option<i64>)> {
        match (self.stamped, wait) {
            (true, _) => self.socket.read_stamped(buffer),
            (false, true) => self.socket.read_waiting(buffer).map(|n| (n, None)),
            (false, false) => self.socket.read(buffer).map(|n| (n, None)),
        }
    }

    /// An error of its socket; of a canary also who said so.
    pub(super) fn net_error(&self, error: &io::Error) -> NetError {
        let source =
            if self.purpose == Purpose::Canary { self.socket.said_by(self.remote.ip()) } else { None };
        NetError { source: source.unwrap_or_default(), ..NetError::from(error) }
    }
}

/// All links by their places: those of lanes and canaries in a table, those of samples that are connections as they come.
#[derive(Debug)]
pub(super) struct Links {
    fixed: Vec<Option<Link>>,
    others: BTreeMap<usize, Link>,
}

impl Links {
    pub(super) fn new(fixed: usize) -> Self {
        Self { fixed: (0..fixed).map(|_| None).collect(), others: BTreeMap::new() }
    }

    /// The link that is at a place now.
    pub(super) fn at(&mut self, place: usize) -> Option<&mut Link> {
        match self.fixed.get_mut(place) {
            Some(link) => link.as_mut(),
            None => self.others.get_mut(&place),
        }
    }

    pub(super) fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.at(id.place).filter(|link| link.id == id)
    }

    /// Those of a path that carry samples one after another, and the address here that each came from.
    pub(super) fn of_path(&self, path: usize) -> impl Iterator<Item = (LinkId, IpAddr)> {
        let carries = move |link: &&Link| link.path == path && link.purpose == Purpose::Samples;
        let all = self.fixed.iter().flatten().filter(carries);
        all.filter_map(|link| Some((link.id, link.socket.local_address()?.ip())))
    }

    pub(super) fn put(&mut self, link: Link) {
        match self.fixed.get_mut(link.id.place) {
            Some(slot) => *slot = Some(link),
            None => _ = self.others.insert(link.id.place, link),
        }
    }

    pub(super) fn remove(&mut self, id: LinkId) {
        match self.fixed.get_mut(id.place) {
            Some(slot) => *slot = None,
            None => _ = self.others.remove(&id.place),
        }
    }
}

impl Socket {
    /// As the reactor knows it.
    pub(super) fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(s) => s,
            Self::Udp(s) => s,
        }
    }

    pub(super) fn local(&self) -> String {
        self.local_address().map_or_else(String::new, |local| local.to_string())
    }

    /// Local address and port.
    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(s) => s.local_addr().ok(),
            Self::Udp(s) => s.local_addr().ok(),
        }
    }

    /// Whether the kernel gave it its own target as its source: where the target's port is one of those that this host
    /// gives to its sockets, and nothing listens there. It would answer itself (TCP: a simultaneous open, RFC 9293, 3.5).
    pub(super) fn is_its_own_peer(&self) -> bool {
        let ends = match self {
            Self::Tcp(s) => s.local_addr().and_then(|local| Ok((local, s.peer_addr()?))),
            Self::Udp(s) => s.local_addr().and_then(|local| Ok((local, s.peer_addr()?))),
        };
        ends.is_ok_and(|(local, remote)| local == remote)
    }

    /// Who said what the socket's error tells; `None`: the kernel does not tell. A host that gets no answer from its next
    /// hop's link tells itself so, by an ICMP message of its own: then the routing table and the interface say more.
    fn said_by(&self, remote: IpAddr) -> Option<ErrorSource> {
        let (icmp, local) = match self {
            Self::Tcp(s) => (socket::icmp_error(s)?, s.local_addr()),
            Self::Udp(s) => (socket::icmp_error(s)?, s.local_addr()),
        };
        let local = local.ok()?.ip().to_canonical();
        let IcmpError { forbids, from } = icmp;
        if from != Some(local) || local == remote.to_canonical() {
            return Some(ErrorSource::Icmp { forbids, from });
        }
        let hop = interfaces::next_hop(local, remote)?;
        Some(match hop.gateway {
            _ if hop.carries == Some(false) => ErrorSource::NoCarrier,
            Some(gateway) => ErrorSource::NoNeighbour(Some(gateway)),
            None if hop.through_gateway => ErrorSource::Unspecified,
            None => ErrorSource::NoNeighbour(None),
        })
    }

    pub(super) fn tcp_info(&self) -> Option<TcpInfo> {
        match self {
            Self::Tcp(s) => socket::tcp_info(s),
            Self::Udp(_) => None,
        }
    }

    /// Reads once.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => socket::read_now(s, buffer),
            Self::Udp(s) => s.recv(buffer),
        }
    }

    /// Lets [`Socket::read_waiting`] wait, at most so long; whether it does.
    pub(super) fn let_reads_wait(&self, at_most: Duration) -> bool {
        match self {
            // Where that fails, the reactor does the waiting.
            Self::Tcp(s) => socket::let_reads_wait(s, at_most).unwrap_or(false),
            Self::Udp(_) => false,
        }
    }

    /// As [`Socket::read`], but waits for something to come.
    pub(super) fn read_waiting(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => socket::read_waiting(s, buffer),
            Self::Udp(s) => s.recv(buffer),
        }
    }

    /// Has the kernel stamp what is sent and received from here on. Not acknowledgements: an acknowledgement that comes
    /// ahead of the echo would wake the probe, whose processor is then awake when the echo comes. On an idle machine
    /// that made a round trip once a second 14 µs shorter (`docs/benchmarks.md`).
    pub(super) fn enable_stamps(&self) -> io::Result<()> {
        match self {
            Self::Tcp(s) => timestamps::enable(s, false),
            Self::Udp(s) => timestamps::enable(s, false),
        }
    }

    /// As [`Socket::read`], with the kernel's stamp of what was read.
    pub(super) fn read_stamped(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<i64>)> {
        match self {
            Self::Tcp(s) => timestamps::recv_with_timestamp(s, buffer),
            Self::Udp(s) => timestamps::recv_with_timestamp(s, buffer),
        }
    }

    /// Takes the kernel's stamps of what was sent: the kernel's number and the stamp. A failure to read them only leaves
    /// samples without their split.
    pub(super) fn send_stamps(&self, mut take: impl FnMut(u32, Counted, i64)) {
        let counted = match self {
            Self::Tcp(_) => Counted::Bytes,
            Self::Udp(_) => Counted::Datagrams,
        };
        let transmitted = |kind, id, utc_ns| {
            if kind == TxKind::Software {
                take(id, counted, utc_ns);
            }
        };
        let _ = match self {
            Self::Tcp(s) => timestamps::drain_error_queue(s, transmitted),
            Self::Udp(s) => timestamps::drain_error_queue(s, transmitted),
        };
    }

    /// Writes once.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => socket::write_now(s, bytes),
            Self::Udp(s) => s.send(bytes),
        }
    }

    /// Writes a message of `size` bytes from `offset` on, in pieces of the buffer's size: how far it came, and why not
    /// further where that is an error. The first `made` bytes of the
    /// buffer are already its beginning, so that nothing lies between the send stamp and the write.
    pub(super) fn write_message(
        &mut self,
        probe: &mut Probe,
        id: LinkId,
        piece: fathom_core::probe::Piece,
        buffer: &mut [u8],
    ) -> (Progress, Option<io::Error>) {
        let (mut offset, mut made) = (piece.offset, piece.len);
        while offset < piece.size {
            let len = buffer.len().min(piece.size - offset);
            if made == 0 {
                probe.fill(id, piece.seq, offset, &mut buffer[..len]);
            }
            made = 0;
            match self.write(&buffer[..len]) {
                Ok(n) => offset += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    let progress = if offset == 0 { Progress::Nothing } else { Progress::UpTo(offset) };
                    return (progress, Some(e).filter(|e| e.kind() != io::ErrorKind::WouldBlock));
                }
            }
        }
        (Progress::Whole, None)
    }
}
