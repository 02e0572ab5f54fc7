//! What a driver tells the probe, and what the probe asks of it.

use crate::cause::is_local;
use crate::clock::Anchor;
use crate::event::{Event, TcpInfo};
use crate::sample::Sample;
use crate::stream::Counted;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// A connection, as the probe named it in [`Output::Connect`]. No name is used twice: what is still told of a connection
/// that is gone is never taken for its successor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId {
    /// Where it belongs. At one time no two connections have the same. Lanes come first, then one place for each path's
    /// canary connection ([`super::Probe::places`]), then one for each sample that is a connection.
    pub place: usize,
    /// Which one of those that followed each other at this place.
    pub turn: u32,
}

impl LinkId {
    /// Before the first connection of a place.
    pub(super) fn none_yet(place: usize) -> Self {
        Self { place, turn: 0 }
    }

    /// The next connection of its place.
    pub(super) fn next(self) -> Self {
        Self { turn: self.turn.wrapping_add(1), ..self }
    }
}

/// An error of the network or of this host's sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetError {
    /// What kind of error.
    pub kind: io::ErrorKind,
    /// The system's number for it, where there is one.
    pub errno: Option<i32>,
    /// The system's words for it.
    pub text: String,
    /// Who said that connecting is impossible, where more is known than the kind tells.
    pub source: ErrorSource,
}

/// Where an error of connecting came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ErrorSource {
    /// The kind of the error is all that is known.
    #[default]
    Unspecified,
    /// This host, before anything was sent: its routing table, its addresses, its ports.
    ThisHost,
    /// An ICMP message.
    Icmp {
        /// It said that a filter forbids it (administratively prohibited).
        forbids: bool,
        /// Who sent it, where that is known.
        from: Option<IpAddr>,
    },
    /// This host: its question for the hardware address of the next hop was not answered. The gateway; `None`: the next hop
    /// is the target itself.
    NoNeighbour(Option<IpAddr>),
    /// This host: the interface by which it leaves is down or has no carrier.
    NoCarrier,
    /// The handshake of TLS: `text` is a whole sentence for the user.
    Tls,
}

impl NetError {
    /// True if this host failed before it sent anything. Such a failure says nothing about the target or the path.
    pub fn is_local(&self) -> bool {
        use io::ErrorKind as E;
        let answered = matches!(self.kind, E::ConnectionRefused | E::ConnectionReset | E::TimedOut);
        self.source == ErrorSource::ThisHost && !answered || self.errno.is_some_and(is_local)
    }

    /// An error of which only the kind is known.
    pub fn of_kind(kind: io::ErrorKind) -> Self {
        Self { kind, errno: None, text: kind.to_string(), source: ErrorSource::Unspecified }
    }
}

impl From<&io::Error> for NetError {
    fn from(error: &io::Error) -> Self {
        let (kind, errno, text) = (error.kind(), error.raw_os_error(), error.to_string());
        Self { kind, errno, text, source: ErrorSource::Unspecified }
    }
}

/// How far the kernel took a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// To its end.
    Whole,
    /// Up to this offset; the connection takes no more until it is writable.
    UpTo(usize),
    /// Not at all; as above.
    Nothing,
}

/// What the background load did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadReport {
    /// Echoes have come on every connection since it was told to run.
    Flows,
    /// Every echo has come since it was told to stop.
    Drained,
    /// A connection could not be made or broke while it ran; it has closed them all.
    Lost(String),
}

/// What the background load is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadOrder {
    /// Send, on connections to this address.
    Run(SocketAddr),
    /// Send no more, and wait for the echoes.
    Stop,
    /// Close every connection, whatever is still on its way.
    CutOff,
}

/// Something that happened in the world.
#[derive(Debug)]
pub enum Input<'a> {
    /// The time that [`super::Probe::next_wake`] named has come (earlier does no harm).
    Wake,
    /// Both clocks were read, as [`Output::ReadClock`] asked. `error_ns`: how far the wall clock may be from UTC;
    /// `None`: nobody knows.
    Clock {
        /// The reading.
        anchor: Anchor,
        /// Bound of the wall clock's error.
        error_ns: Option<u64>,
    },
    /// A target's name was resolved, or why not.
    Resolved {
        /// Which path's.
        path: usize,
        /// Its addresses, in the resolver's order; not empty.
        addresses: Result<Vec<SocketAddr>, String>,
    },
    /// A connection was begun, just after `since_ns`.
    Connecting {
        /// Which.
        link: LinkId,
        /// Just before the first packet.
        since_ns: u64,
    },
    /// A connection is established. `resent`: its SYN had to be sent again.
    Connected {
        /// Which.
        link: LinkId,
        /// Address and port here, for the recording.
        local: String,
        /// Whether the SYN had to be sent again.
        resent: bool,
        /// The kernel's view, where it tells.
        kernel: Option<TcpInfo>,
    },
    /// The TLS handshake of a connection is over.
    Secured {
        /// Which.
        link: LinkId,
    },
    /// A connection could not be established or secured.
    ConnectFailed {
        /// Which.
        link: LinkId,
        /// Why.
        error: NetError,
    },
    /// So many bytes were read from a connection, and follow with [`Input::Received`]. Lets the next sample of a
    /// ping-pong go out before the echo is looked at.
    Arriving {
        /// From which.
        link: LinkId,
        /// How many.
        bytes: usize,
    },
    /// Bytes (UDP: one datagram) were read from a connection.
    Received {
        /// From which.
        link: LinkId,
        /// The bytes.
        bytes: &'a [u8],
        /// Wall clock when they came to the driver by the kernel's stamp, and just after the read.
        stamps: Option<(i64, i64)>,
        /// The kernel's view, where [`super::Probe::wants_kernel_view`] asked for it.
        kernel: Option<TcpInfo>,
    },
    /// What [`Output::Send`] asked for was done.
    Sent {
        /// On which connection.
        link: LinkId,
        /// Just before the first byte was handed over.
        sent_ns: u64,
        /// The wall clock then, where the kernel stamps.
        sent_utc_ns: Option<i64>,
        /// How far it went.
        progress: Progress,
    },
    /// The kernel stamped what it sent: see [`crate::stream::Stream::transmitted`].
    Transmitted {
        /// On which connection.
        link: LinkId,
        /// The kernel's number for it.
        id: u32,
        /// What it numbers.
        counted: Counted,
        /// The stamp.
        utc_ns: i64,
    },
    /// A connection takes data again.
    Writable {
        /// Which.
        link: LinkId,
    },
    /// What the kernel knows of a connection, as [`Output::Look`] asked; `None`: it does not tell.
    Kernel {
        /// Which.
        link: LinkId,
        /// Its view.
        info: Option<TcpInfo>,
    },
    /// The peer closed its side in order.
    Closed {
        /// Of which connection.
        link: LinkId,
    },
    /// A connection failed.
    Broken {
        /// Which.
        link: LinkId,
        /// How.
        error: NetError,
    },
    /// This host no longer has the connection's source address, so it can send nothing on it.
    AddressGone {
        /// The connection.
        link: LinkId,
    },
    /// This host did not run for a while, and the pause clock has told so.
    Paused {
        /// From.
        began_ns: u64,
        /// To.
        ended_ns: u64,
        /// What the host's accounts say about it.
        reason: Option<String>,
    },
    /// This host did not run until just now, and the pause clock has not told so yet; it will.
    Pausing {
        /// From.
        began_ns: u64,
        /// To.
        ended_ns: u64,
    },
    /// What the load did.
    Load(LoadReport),
    /// How many payload bytes the load has sent and had echoed so far: told before each [`Input::Wake`] while there is one.
    LoadBytes {
        /// Sent over all its connections.
        sent: u64,
        /// Come back.
        echoed: u64,
    },
    /// A line for the recording, of the whole run.
    Note(String),
    /// The run cannot go on: why.
    Fatal(String),
    /// The user wants the run to end; the second time, at once.
    Stop,
}

impl Input<'_> {
    /// Logs what the world did; of bytes how many.
    #[cold]
    pub(super) fn log(&self, now: u64) {
        match self {
            Self::Received { link, bytes, stamps, kernel } => {
                tracing::trace!(now, ?link, bytes = bytes.len(), ?stamps, ?kernel, "received");
            }
            other => tracing::trace!(now, "{other:?}"),
        }
    }
}

/// Something the driver is to do, or to pass on.
#[derive(Debug)]
pub enum Output {
    /// Resolve a path's target: [`Input::Resolved`].
    Resolve {
        /// Which path.
        path: usize,
    },
    /// Make a connection: [`Input::Connecting`], then [`Input::Connected`] or [`Input::ConnectFailed`].
    Connect {
        /// By which number.
        link: LinkId,
        /// Of which path.
        path: usize,
        /// To where.
        remote: SocketAddr,
        /// What for.
        purpose: Purpose,
    },
    /// Send what [`super::Probe::write`] gives: [`Input::Sent`].
    Send {
        /// On which connection.
        link: LinkId,
    },
    /// Ask the kernel about a connection: [`Input::Kernel`].
    Look {
        /// Which.
        link: LinkId,
    },
    /// Close this side of a connection in order, and read away what comes until the peer closes its own.
    Shutdown {
        /// Which.
        link: LinkId,
    },
    /// Let go of a connection. Nothing more will be asked of it.
    Close {
        /// Which.
        link: LinkId,
    },
    /// Read both clocks: [`Input::Clock`].
    ReadClock,
    /// Pass on to the load.
    Load(LoadOrder),
    /// A sample is resolved.
    Sample {
        /// Of which path.
        path: usize,
        /// The row.
        sample: Sample,
    },
    /// Something happened.
    Event {
        /// On which path; `None`: to the whole run.
        path: Option<usize>,
        /// What.
        event: Box<Event>,
    },
    /// The clocks were read and the mapping to UTC is new; `stepped`: because the wall clock was set.
    Anchor {
        /// The reading.
        anchor: Anchor,
        /// Whether the wall clock was set.
        stepped: bool,
    },
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It carries samples.
    Samples,
    /// It is a canary connection beside a silent one.
    Canary,
    /// It is a sample itself; with a TLS handshake or without.
    Sample {
        /// Whether a handshake follows.
        tls: bool,
    },
}

/// A part of a message to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The message's number on its connection, for [`super::Probe::fill`].
    pub seq: u64,
    /// Where in the message the piece begins.
    pub offset: usize,
    /// Bytes of the piece.
    pub len: usize,
    /// Bytes of the whole message.
    pub size: usize,
}
