//! What a reflector is told to do.

use crate::address::Protocol;
use crate::allow::Allow;
use crate::stamp::Kind;
use fathom_wire::Secret;
use std::net::SocketAddr;
use std::time::Duration;

/// A validated configuration of a reflector.
#[derive(Debug)]
pub struct Config {
    /// Where to listen, in the user's order, one entry a socket. TCP comes before UDP of the same address.
    pub sockets: Vec<(Protocol, SocketAddr)>,
    /// Whether the user named the addresses; if not, sockets that systemd hands over take their place.
    pub sockets_are_default: bool,
    /// What to do with STAMP packets.
    pub stamp: Kind,
    /// Whom to answer.
    pub allow: Allow,
    /// Only who knows it is answered; none: everybody.
    pub key: Option<Secret>,
    /// None: as many as the open-files limit allows.
    pub max_connections: Option<u32>,
    /// A connection on which nothing moved for so long is closed; none: never.
    pub idle_timeout_ns: Option<u64>,
    /// Whether UDP to ports where an echo server may listen is answered.
    pub udp_any_port: bool,
    /// Datagrams answered a second, all peers together; none: no limit.
    pub udp_max_rate: Option<u32>,
    /// The one CPU to run on.
    pub cpu: Option<usize>,
    /// µs.
    pub cpu_latency_us: Option<u32>,
    /// Whether to ask for work in a busy loop.
    pub spin: bool,
    /// How often the pause clock ticks; none: pauses are not watched.
    pub pause_clock: Option<Duration>,
    /// To run for so long; none: until asked to end.
    pub run_for_ns: Option<u64>,
    /// Whether machines are told too, on standard output.
    pub json: bool,
    /// Metadata service to read, for probes that ask which maintenance is announced to this host.
    pub cloud: fathom_cloud::Settings,
    /// None: throughput tests are not served.
    pub throughput: Option<Throughput>,
    /// None: clients of SQL Server are not served.
    pub tds: Option<Tds>,
}

impl Config {
    /// Whether strangers are answered: it listens on more than this host's own addresses, and nobody said who may come.
    pub fn answers_strangers(&self) -> bool {
        let is_this_host = |(_, address): &(_, SocketAddr)| address.ip().to_canonical().is_loopback();
        self.allow.is_everybody() && !self.sockets.iter().all(is_this_host)
    }
}

/// How throughput tests are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throughput {
    /// 0: any free one.
    pub port: u16,
    /// No test is served that wants longer, in seconds.
    pub longest_s: u32,
}

/// How clients of SQL Server are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tds {
    /// 0: any free one.
    pub port: u16,
    /// Sessions at one time.
    pub sessions: usize,
    /// Whether who wants encryption gets it, with a certificate made at the start.
    pub encrypt: bool,
    /// The kernel's buffer for what is being sent, in bytes; none: the kernel's choice.
    pub send_buffer: Option<usize>,
}
