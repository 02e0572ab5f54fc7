//! Why a connection ended.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;

/// What ended a connection, as this end saw it happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosingCause {
    /// We closed it: the run was over.
    Finished,
    /// We closed it by a refresh policy.
    Refreshed,
    /// The peer sent a FIN.
    PeerClosed,
    /// The peer, or something between, sent a RST.
    Reset,
    /// The kernel gave up retransmitting.
    TimedOut,
    /// An ICMP message said that the peer cannot be reached.
    Unreachable,
    /// We gave up, by the stated policy (`--give-up`).
    Abandoned,
    /// An error of this host, or a peer that does not echo.
    LocalError,
}

impl ClosingCause {
    /// The name used in recordings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Refreshed => "refreshed",
            Self::PeerClosed => "peer_closed",
            Self::Reset => "reset",
            Self::TimedOut => "timed_out",
            Self::Unreachable => "unreachable",
            Self::Abandoned => "abandoned",
            Self::LocalError => "local_error",
        }
    }

    /// True if this host's kernel ended the connection. An end because the peer does not echo has no error number.
    pub fn is_of_this_host(self, errno: Option<i32>) -> bool {
        self == Self::LocalError && errno.is_some()
    }

    /// Whether the end was not of our choosing.
    pub fn is_loss(self) -> bool {
        !matches!(self, Self::Finished | Self::Refreshed)
    }
}

/// `ENFILE` and `EMFILE` (asm-generic/errno-base.h): no descriptor is left. `ErrorKind` has no name for them.
const NO_DESCRIPTOR: [i32; 2] = [23, 24];

/// True if this host caused a connect error, judged by its number: no source port or address, no descriptor, no memory,
/// or the interface is down. Nothing was sent then.
pub fn is_local(errno: i32) -> bool {
    use io::ErrorKind as E;
    let kind = io::Error::from_raw_os_error(errno).kind();
    matches!(kind, E::AddrNotAvailable | E::AddrInUse | E::OutOfMemory | E::NetworkDown)
        || NO_DESCRIPTOR.contains(&errno)
}

impl fmt::Display for ClosingCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
