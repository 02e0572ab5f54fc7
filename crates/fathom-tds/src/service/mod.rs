//! The server on sockets: a thread that takes connections, and one for each session.

mod acceptor;
mod place;
mod session;
mod shared;

pub use acceptor::{Options, Service};

use crate::codec::Refusal;
use crate::machine::waits::Waits;
use crate::machine::{Served, Transfer};
use serde::Serialize;
use std::io;
use std::net::SocketAddr;

/// What was served, since the start. The names are those of `fathom echo --json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Clients that logged in.
    pub sessions: u64,
    /// Connections that ended without a login.
    pub without_login: u64,
    /// Connections beyond the number that is served at one time.
    pub busy: u64,
    /// Connections from outside the networks that are served.
    pub not_allowed: u64,
    /// What all of them were served.
    #[serde(flatten)]
    pub served: Served,
    /// How long sending to them was held up.
    pub waits: Waits,
}

/// Something that an operator may want to know, when it happens.
#[derive(Debug)]
pub enum Notice {
    /// A session is over.
    Ended(Ended),
    /// A client was not understood.
    Refused {
        /// The client.
        peer: SocketAddr,
        /// Why.
        why: Refusal,
    },
    /// A client wanted encryption, and left.
    Encryption {
        /// The client.
        peer: SocketAddr,
    },
    /// A session cannot be served, because of this host.
    CannotBegin(io::Error),
    /// No connection is taken any more.
    Stopped(io::Error),
}

/// A session that is over.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The client.
    pub peer: SocketAddr,
    /// Its program, as it says.
    pub program: String,
    /// The size of packets that it was granted.
    pub packet: u16,
    /// What it was served.
    pub served: Served,
    /// How long sending was held up.
    pub waits: Waits,
    /// What the kernel said at the end.
    pub transfer: Option<Transfer>,
    /// What of it was not understood, where that ended it.
    pub why: Option<Refusal>,
}
