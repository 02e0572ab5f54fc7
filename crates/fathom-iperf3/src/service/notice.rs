//! What the service tells its operator.

use crate::direction::Direction;
use std::io;
use std::net::SocketAddr;

/// Something that an operator may want to know, when it happens.
#[derive(Debug)]
pub enum Notice {
    /// A test began.
    Began {
        /// The client.
        peer: SocketAddr,
        /// Its version, as it says.
        version: Option<String>,
        /// Which end sends.
        direction: Direction,
        /// Streams each way.
        parallel: u32,
        /// How long it is to be; none: until the client says so.
        seconds: Option<u32>,
    },
    /// A test ended.
    Ended {
        /// The client.
        peer: SocketAddr,
        /// Bytes sent to it.
        sent: u64,
        /// Bytes received from it.
        received: u64,
        /// Why it ended before its time; none: it did not.
        early: Option<String>,
    },
    /// A test asked for what is not served.
    Refused {
        /// The client.
        peer: SocketAddr,
        /// What that is.
        why: &'static str,
    },
    /// A test cannot be run, because of this host.
    CannotBegin(io::Error),
    /// No test is served any more.
    Stopped(io::Error),
}
