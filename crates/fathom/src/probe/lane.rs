//! One lane: a schedule and, one after another, the connections that carry it.

use super::config::Config;
use super::link::Socket;
use super::opinion::Opinions;
use fathom_core::backoff::Backoff;
use fathom_core::cause::ClosingCause;
use fathom_core::event::{EventKind, TcpInfo};
use fathom_core::gaps::GapPlan;
use fathom_core::histogram::Histogram;
use fathom_core::interleave::Interleave;
use fathom_core::loss::Losses;
use fathom_core::schedule::Schedule;
use fathom_core::stall::Watch;
use fathom_core::stream::Stream;
use fathom_core::verdict::Heard;
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// What a lane has at the moment.
pub(super) enum Link {
    /// Nothing: waiting for an address, for its turn or for its next attempt.
    Idle,
    /// A TCP connection that is being established.
    Opening(Opening),
    /// A connection.
    Open(Box<Open>),
    /// Nothing more to do.
    Done,
}

pub(super) struct Opening {
    pub(super) socket: TcpStream,
    pub(super) remote: SocketAddr,
    pub(super) since_ns: u64,
}

pub(super) struct Open {
    pub(super) socket: Socket,
    /// Where it leads, kept because a socket that failed does not tell any more.
    pub(super) remote: SocketAddr,
    pub(super) stream: Stream,
    pub(super) watch: Watch,
    pub(super) opened_ns: u64,
    /// A message the kernel has only the beginning of: its number and how far.
    pub(super) sending: Option<(u64, usize)>,
    /// The kernel takes no more until the socket is writable again.
    pub(super) blocked: bool,
    /// The kernel's view when it was last asked: after an error it is too late to ask.
    pub(super) info: Option<TcpInfo>,
    /// When to ask again.
    pub(super) ask_info_ns: u64,
    /// Whether the kernel stamps what goes over this connection.
    pub(super) stamped: bool,
    /// Whether a read of it can wait for its bytes.
    pub(super) reads_wait: bool,
    /// What was seen since the last echo.
    pub(super) silence: Silence,
    /// UDP: what is known of losses and has not been told.
    pub(super) losses: Losses,
    pub(super) losses_told: Seldom,
    /// Differences of the two clocks on the latest sample outside a stall: there, and back.
    pub(super) usual_delays_ns: Option<(i64, i64)>,
}

/// What was seen of a silence that may go on.
#[derive(Default)]
pub(super) struct Silence {
    /// The kernel's latest view during the stall.
    pub(super) info: Option<TcpInfo>,
    /// The most retransmission timeouts in a row that it told of.
    pub(super) timeouts: u8,
    /// How long the reflector says that it did not run, in ns.
    pub(super) remote_pause_ns: u64,
    /// What the reflector said of this connection, and when that came.
    pub(super) heard: Option<(Heard, u64)>,
    /// Whether it has been asked.
    pub(super) asked: bool,
}

impl Open {
    /// UDP: what is to be told of losses now.
    pub(super) fn take_losses(&mut self, now: u64, last_chance: bool) -> Option<EventKind> {
        self.losses.add(self.stream.take_losses());
        let tells = !self.losses.is_empty() && self.losses_told.is_time(now, last_chance);
        tells.then(|| EventKind::LossAttributed { losses: std::mem::take(&mut self.losses) })
    }

    /// The sample that is missed: the oldest without its echo, number and send stamp.
    pub(super) fn missing(&self) -> Option<(u64, u64)> {
        match self.socket {
            Socket::Tcp(_) => self.stream.oldest(),
            Socket::Udp(_) => self.stream.oldest_of_silence(),
        }
    }
}

/// Timers of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A sample is due.
    Due,
    /// Look whether the connection stalls.
    Watch,
    /// Try to connect again.
    Retry,
    /// Connecting has taken too long.
    ConnectLimit,
    /// The wait for the last echoes is over.
    Drain,
    /// Once a second, for the whole run.
    Tick,
    /// Stop waiting for the slowest lane and start the schedule.
    Start,
    /// The run's time is up.
    End,
    /// A path's fresh connection has taken too long.
    Opinion,
    /// A phase of the load is over.
    Load,
}

const LANE_KINDS: usize = 5;

pub(super) struct Lane {
    pub(super) path: usize,
    /// Its number in the recording of its path.
    pub(super) number: u32,
    pub(super) link: Link,
    pub(super) schedule: Option<Schedule>,
    /// The sizes of a sweep in their order.
    pub(super) sizes: Interleave,
    /// When it is silent for how long, where it is to be.
    pub(super) gaps: Option<GapPlan>,
    pub(super) backoff: Backoff,
    /// Attempts to connect since the last success.
    pub(super) attempts: u32,
    pub(super) warm_up_left: u64,
    /// When each timer of this lane fires; an entry of the queue that disagrees is stale.
    pub(super) armed: [Option<u64>; LANE_KINDS],
}

impl Lane {
    /// The `i`-th lane of the run; each path has every so many-th.
    pub(super) fn new(i: usize, seed: u64, config: &Config) -> Self {
        let gaps_ns = &config.idle_gaps_ns;
        Self {
            path: i % config.paths.len(),
            number: (i / config.paths.len()) as u32,
            link: Link::Idle,
            schedule: None,
            sizes: Interleave::new(&config.sizes, seed),
            gaps: (!gaps_ns.is_empty()).then(|| GapPlan::new(gaps_ns, seed)),
            backoff: Backoff::new(seed),
            attempts: 0,
            warm_up_left: config.warm_up,
            armed: [None; LANE_KINDS],
        }
    }

    pub(super) fn open(&mut self) -> Option<&mut Open> {
        match &mut self.link {
            Link::Open(open) => Some(open),
            _ => None,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.link, Link::Done)
    }

    /// Whether the schedule has begun and has nothing more to send.
    pub(super) fn is_over(&self) -> bool {
        self.schedule.as_ref().is_some_and(Schedule::is_over)
    }
}

/// What the lanes of one path share.
pub(super) struct PathState {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) next_address: usize,
    pub(super) resolved_ns: Option<u64>,
    pub(super) resolving: bool,
    /// Lanes that wait for the addresses.
    pub(super) waiting: VecDeque<usize>,
    pub(super) last_used: Option<IpAddr>,
    /// Connections that this thread has had.
    pub(super) opened: u32,
    pub(super) ever_answered: bool,
    /// Addresses that failed before the first success.
    pub(super) first_failures: usize,
    pub(super) rtt: Histogram,
    pub(super) p99_ns: Option<u64>,
    pub(super) corrupted: Tally,
    pub(super) foreign: Tally,
    pub(super) duplicated: Tally,
    /// STAMP: the error of differences of the two clocks that was told last, ns.
    pub(super) clock_error_ns: Option<u64>,
    pub(super) opinions: Opinions,
    /// The beginning of the first foreign bytes since the last event about them.
    pub(super) foreign_first: String,
}

impl PathState {
    pub(super) fn new() -> Self {
        Self {
            addresses: Vec::new(),
            next_address: 0,
            resolved_ns: None,
            resolving: false,
            waiting: VecDeque::new(),
            last_used: None,
            opened: 0,
            ever_answered: false,
            first_failures: 0,
            rtt: Histogram::default(),
            p99_ns: None,
            corrupted: Tally::default(),
            foreign: Tally::default(),
            duplicated: Tally::default(),
            clock_error_ns: None,
            opinions: Opinions::default(),
            foreign_first: String::new(),
        }
    }
}

/// Counts an anomaly between the events that report it, so that a peer that corrupts everything fills no disk:
/// the first is reported at once, later ones together, at most one event a minute.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) count: u64,
    pub(super) connection: u32,
    pub(super) seq: u64,
    seldom: Seldom,
}

/// When to tell again: at once the first time, then at growing gaps up to a minute.
#[derive(Debug, Default)]
pub(super) struct Seldom {
    quiet_until_ns: u64,
    gap_ns: u64,
}

impl Seldom {
    /// Whether it is time; if so, the next gap begins.
    pub(super) fn is_time(&mut self, now_ns: u64, last_chance: bool) -> bool {
        if now_ns < self.quiet_until_ns && !last_chance {
            return false;
        }
        self.gap_ns = (self.gap_ns * 2).clamp(1_000_000_000, 60_000_000_000);
        self.quiet_until_ns = now_ns + self.gap_ns;
        true
    }
}

impl Tally {
    pub(super) fn add(&mut self, connection: u32, seq: u64, count: u64) {
        if self.count == 0 {
            (self.connection, self.seq) = (connection, seq);
        }
        self.count += count;
    }

    /// The count to report now, if there is one and it is time.
    pub(super) fn take(&mut self, now_ns: u64, last_chance: bool) -> Option<u64> {
        let tells = self.count > 0 && self.seldom.is_time(now_ns, last_chance);
        tells.then(|| std::mem::take(&mut self.count))
    }
}

/// The closing cause that an error of a connected socket stands for.
pub(super) fn cause_of(error: &io::Error) -> ClosingCause {
    use io::ErrorKind as E;
    match error.kind() {
        // A RST after a FIN is reported as EPIPE, any other as ECONNRESET (Linux tcp_reset()).
        E::ConnectionReset | E::ConnectionAborted | E::BrokenPipe => ClosingCause::Reset,
        E::TimedOut => ClosingCause::TimedOut,
        // A connected datagram socket reports an ICMP port unreachable as ECONNREFUSED.
        // ICMPv6 "administratively prohibited" arrives as EACCES (RFC 4443, section 3.1; Linux icmpv6_err_convert()).
        E::ConnectionRefused | E::HostUnreachable | E::NetworkUnreachable | E::PermissionDenied => {
            ClosingCause::Unreachable
        }
        _ => ClosingCause::LocalError,
    }
}

/// Why connecting failed, and what to do about it.
pub(super) fn connect_advice(target: &str, remote: Option<SocketAddr>, error: &io::Error) -> String {
    use io::ErrorKind as E;
    let at = remote.map_or_else(String::new, |r| {
        if r.to_string() == target { String::new() } else { format!(" ({r})") }
    });
    match error.kind() {
        E::ConnectionRefused => format!(
            "{target}{at} refused the connection: nothing listens there; start `fathom echo` on it, or name the port as HOST:PORT"
        ),
        E::TimedOut => format!(
            "{target}{at} does not answer: no SYN-ACK came; check the address, routes, and firewalls or security groups in between"
        ),
        E::HostUnreachable | E::NetworkUnreachable => {
            format!(
                "{target}{at} cannot be reached ({error}); check the address, the routes and, for IPv6, that both ends have it"
            )
        }
        E::AddrNotAvailable => {
            format!(
                "cannot connect to {target}{at} ({error}): no such source address here, or no free source port"
            )
        }
        E::PermissionDenied => {
            format!("this host does not allow connecting to {target}{at} ({error}); check its firewall")
        }
        E::ConnectionReset => format!(
            "{target}{at} reset the connection while it was being made; is something between refusing it?"
        ),
        _ => format!("cannot connect to {target}{at}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anomalies_are_told_at_once_and_then_seldom() {
        const S: u64 = 1_000_000_000;
        let mut tally = Tally::default();
        let mut told = Vec::new();
        for second in 1..=600 {
            tally.add(3, second, 1);
            told.extend(tally.take(second * S, false));
        }
        assert_eq!(told[0], 1);
        assert!(told.len() < 20, "{} events in ten minutes", told.len());
        told.extend(tally.take(600 * S, true));
        assert_eq!(told.iter().sum::<u64>(), 600, "and every one is counted");
    }
}
