//! What a driver and the search say to each other.

use crate::event::{EventKind, Limit};
use crate::probe::NetError;

/// What the world did.
#[derive(Debug)]
pub enum Input<'a> {
    /// Nothing: the time has come that `next_wake` said.
    Wake,
    /// A connection is established.
    Connected {
        /// Which.
        id: u32,
    },
    /// A connection could not be made, or broke.
    Broken {
        /// Which.
        id: u32,
        /// How.
        error: NetError,
    },
    /// The other end closed it in order (a FIN came).
    Closed {
        /// Which.
        id: u32,
    },
    /// Bytes came.
    Received {
        /// On which.
        id: u32,
        /// What.
        bytes: &'a [u8],
    },
    /// The answer to [`Output::Look`]; `None`: the system does not tell.
    Kernel {
        /// Of which.
        id: u32,
        /// What the kernel says.
        view: Option<KernelView>,
    },
    /// The user wants it to end: with what is known so far.
    Stop,
}

/// What the kernel says of a connection that is about to be asked, or that has not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelView {
    /// For how long nothing has come from the other end, in ns: an echo that was sent again
    /// ended the idleness that this side knows of.
    pub quiet_ns: u64,
    /// After how long it will send a request again that is not acknowledged, in ns.
    pub rto_ns: u64,
    /// All that was sent on it has been acknowledged.
    pub acknowledged: bool,
}

/// What the driver is to do, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Begin a connection to the target; it is called this from now on.
    Open {
        /// Its number, which no other connection has.
        id: u32,
    },
    /// Tell the kernel's view of it, at once.
    Look {
        /// Of which.
        id: u32,
    },
    /// Send these bytes.
    Send {
        /// On which.
        id: u32,
        /// What: a frame's header, which fits any send buffer that is empty.
        bytes: Vec<u8>,
    },
    /// Close it. Nothing is to be told of it any more.
    Close {
        /// Which.
        id: u32,
    },
    /// Record this, where a recording is made.
    Event {
        /// The connection that it is about, if it is about one.
        connection: Option<u32>,
        /// What happened.
        kind: EventKind,
    },
}

/// How far a search is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Which limit is searched for.
    pub limit: Limit,
    /// The target echoes: connections under test are being opened.
    pub begun: bool,
    /// Connections that are open.
    pub open: usize,
    /// Connections that were asked, or died before.
    pub judged: u64,
    /// The longest idleness that connections survived, or the age that they became, in ns; 0: none was asked yet.
    pub survived_ns: u64,
    /// The shortest of which they died, in ns. `None`: none did so far.
    pub died_ns: Option<u64>,
    /// How much longer it takes at the most, in ns, wherever the limit is: as long as nothing but that ends connections, and what
    /// is sent arrives.
    pub left_ns: u64,
}
