//! What a server has agreed to do, every figure of it within the server's limits.

use crate::codec::{DEFAULT_BLOCK, MAX_BLOCK, MAX_PARALLEL, Parameters, Refusal};
use crate::direction::Direction;

/// What a server allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Seconds of a test, its omitted beginning included.
    pub longest_s: u32,
    /// Streams in all.
    pub streams: u32,
}

/// A test that a client asked for and the server will do.
///
/// There is no other way to one than [`Agreement::new`], which holds every figure against the limits first. Whoever
/// allocates, waits or opens anything because a client asked for it takes the figure from here and not from
/// [`Parameters`], which are a stranger's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreement {
    direction: Direction,
    parallel: u32,
    block: u32,
    bitrate: Option<u64>,
    omit_s: u32,
    time_s: u32,
    longest_s: u32,
    nodelay: bool,
    congestion: Option<String>,
    client_version: Option<String>,
    drains: bool,
}

impl Agreement {
    /// Agrees to what is asked, or says why not: iperf3's number for the client and words for the log.
    pub fn new(asked: Parameters, limits: Limits) -> Result<Self, (Refusal, &'static str)> {
        let ways = if asked.bidirectional { 2 } else { 1 };
        let streams = u64::from(asked.parallel) * ways;
        let seconds = u64::from(asked.time_s) + u64::from(asked.omit_s);
        let reasons = [
            (asked.authenticates, Refusal::NOT_AUTHORIZED, "it names a user, and none is known here"),
            (asked.sctp, Refusal::NO_SCTP, "SCTP is not served"),
            (!asked.tcp, Refusal::NOT_IMPLEMENTED, "only TCP is served"),
            (
                asked.reverse && asked.bidirectional,
                Refusal::BOTH_WAYS_TWICE,
                "both reverse and bidirectional",
            ),
            (
                asked.parallel == 0 || asked.parallel > MAX_PARALLEL || streams > u64::from(limits.streams),
                Refusal::TOO_MANY_STREAMS,
                "too many streams",
            ),
            (asked.block > MAX_BLOCK, Refusal::BLOCK_TOO_LARGE, "too large a block"),
            (
                seconds > u64::from(limits.longest_s),
                Refusal::TOO_LONG,
                "a longer test than --throughput-longest",
            ),
        ];
        if let Some((_, refusal, why)) = reasons.into_iter().find(|(holds, ..)| *holds) {
            return Err((refusal, why));
        }
        let direction = match (asked.reverse, asked.bidirectional) {
            (_, true) => Direction::Bidirectional,
            (true, false) => Direction::Reverse,
            (false, false) => Direction::Forward,
        };
        Ok(Self {
            direction,
            parallel: asked.parallel,
            block: if asked.block == 0 { DEFAULT_BLOCK } else { asked.block },
            bitrate: asked.bitrate,
            omit_s: asked.omit_s,
            time_s: asked.time_s,
            longest_s: limits.longest_s,
            nodelay: asked.nodelay,
            congestion: asked.congestion,
            client_version: asked.client_version,
            drains: asked.drains,
        })
    }

    /// Which way data flows.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Streams each way, 1 to [`MAX_PARALLEL`].
    pub fn parallel(&self) -> u32 {
        self.parallel
    }

    /// For each stream, in the order in which the client makes their connections, whether the server sends on it.
    pub fn server_sends(&self) -> Vec<bool> {
        self.direction.client_sends(self.parallel).into_iter().map(|client| !client).collect()
    }

    /// Bytes of a block, 1 to [`MAX_BLOCK`].
    pub fn block(&self) -> u32 {
        self.block
    }

    /// Bits a second of each stream that the server sends on; none: as fast as it goes.
    pub fn bitrate(&self) -> Option<u64> {
        self.bitrate
    }

    /// Seconds at the beginning that do not count.
    pub fn omit_s(&self) -> u32 {
        self.omit_s
    }

    /// Seconds of the test, what is omitted included; none: the client did not say, and ends it itself.
    pub fn seconds(&self) -> Option<u32> {
        (self.time_s > 0).then(|| self.time_s.saturating_add(self.omit_s))
    }

    /// Seconds that the server allows any test.
    pub fn longest_s(&self) -> u32 {
        self.longest_s
    }

    /// Whether `TCP_NODELAY` is asked for.
    pub fn nodelay(&self) -> bool {
        self.nodelay
    }

    /// The congestion control by name; none: the host's own.
    pub fn congestion(&self) -> Option<&str> {
        self.congestion.as_deref()
    }

    /// The client's version, as it says.
    pub fn client_version(&self) -> Option<&str> {
        self.client_version.as_deref()
    }

    /// Whether the client ends its streams in order (see [`Parameters::drains`]).
    pub fn drains(&self) -> bool {
        self.drains
    }
}
