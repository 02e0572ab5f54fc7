//! What a run is to do, as far as its behaviour goes. Times are ns.

use crate::loss::Reflector;
use crate::schedule::Pace;
use fathom_wire::Secret;

/// Attempts to connect a second, unless the settings say otherwise: a small server accepts as many beside its work.
pub const CONNECT_RATE: u32 = 500;

/// Which transport carries the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A byte stream that keeps order.
    Tcp,
    /// Datagrams, any of which may be lost, doubled or overtaken.
    Udp,
}

/// What a sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// A message that comes back as it was sent (RFC 862), but for the reflector's stamps.
    Echo,
    /// A STAMP test packet (RFC 8762), to such a reflector.
    Stamp(Reflector),
    /// A connection of its own, with a TLS handshake or without.
    Connect {
        /// Whether a handshake follows.
        tls: bool,
    },
}

/// A background load by turns (see [`crate::load`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadSettings {
    /// How long an idle or a loaded phase lasts.
    pub phase_ns: u64,
    /// Bits a second to ask for, each way; `None`: as many as its connections take.
    pub bits_per_s: Option<u64>,
    /// Connections that carry it.
    pub connections: u32,
}

/// A validated run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Tells this run's messages from any other's.
    pub session: u32,
    /// Each path's target as the user named it.
    pub targets: Vec<String>,
    /// Connections to each target.
    pub connections: u32,
    /// What carries the samples.
    pub transport: Transport,
    /// What a sample is.
    pub request: Request,
    /// How samples follow each other.
    pub pace: Pace,
    /// Payload bytes of a sample; of a sweep, the smallest.
    pub size: u32,
    /// The sizes of a sweep, ascending; empty: it is none.
    pub sizes: Vec<u32>,
    /// The silences between samples, ascending; empty: there are none.
    pub idle_gaps_ns: Vec<u64>,
    /// Samples on each connection; `None`: no limit.
    pub count: Option<u64>,
    /// How long samples are sent, from a path's first connection on; `None`: until [`super::Input::Stop`].
    pub duration_ns: Option<u64>,
    /// Samples on each connection that are flagged as warm-up.
    pub warm_up: u64,
    /// An echo later than this is late; nothing else happens then.
    pub timeout_ns: u64,
    /// A connection whose oldest sample has waited this long is abandoned; `None`: never.
    pub give_up_ns: Option<u64>,
    /// A silence that counts as a stall; `None`: by the path's usual round trips.
    pub stall_after_ns: Option<u64>,
    /// Whether a connection that was lost is followed by another.
    pub reconnect: bool,
    /// The longest wait before an attempt to connect again.
    pub reconnect_at_most_ns: u64,
    /// Attempts of all connections to connect, a second; `None`: there is no ceiling. Samples that are connections, canary
    /// connections and datagrams, which cost nobody a handshake, do not count.
    pub connect_rate: Option<u32>,
    /// Whether a target that was never reached is tried for as long as the run lasts.
    pub keep_trying: bool,
    /// What the reflector wants to see that this probe knows; `None`: it answers everybody.
    pub secret: Option<Secret>,
    /// Whether this host's own pauses are told ([`super::Input::Paused`]).
    pub watches_pauses: bool,
    /// The load beside the samples.
    pub load: Option<LoadSettings>,
}

impl Settings {
    /// The articles' experiment: 64 bytes a second on one connection to each target, until told to stop.
    pub fn new(targets: Vec<String>) -> Self {
        Self {
            session: 0,
            targets,
            connections: 1,
            transport: Transport::Tcp,
            request: Request::Echo,
            pace: Pace::Every(1_000_000_000),
            size: 64,
            sizes: Vec::new(),
            idle_gaps_ns: Vec::new(),
            count: None,
            duration_ns: None,
            warm_up: 0,
            timeout_ns: 5_000_000_000,
            give_up_ns: None,
            stall_after_ns: None,
            reconnect: true,
            reconnect_at_most_ns: super::policy::reconnect::AT_MOST_NS,
            connect_rate: Some(CONNECT_RATE),
            keep_trying: false,
            secret: None,
            watches_pauses: true,
            load: None,
        }
    }

    /// The ceiling on attempts to connect a second, where there is one.
    pub(super) fn connect_ceiling(&self) -> Option<u32> {
        self.connect_rate.filter(|_| self.transport == Transport::Tcp)
    }

    /// Lanes in all.
    pub(super) fn lanes(&self) -> usize {
        self.targets.len() * self.connections as usize
    }

    /// The number by which a path's connections are known: their ordinals begin anew in each recording.
    pub(super) fn session_of(&self, path: usize) -> u32 {
        self.session.wrapping_add(path as u32)
    }
}
