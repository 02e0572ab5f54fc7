//! A connection of whoever runs at a host in virtual time: its socket, and when its kernel gives it up.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;

use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::State;

use super::host::Host;

/// `ECONNREFUSED`, `ECONNRESET` and `ETIMEDOUT` of Linux, for the recording.
const REFUSED: i32 = 111;
const RESET: i32 = 104;
const TIMED_OUT: i32 = 110;
/// `EADDRNOTAVAIL`.
const NO_PORT: i32 = 99;

/// When Linux sends a SYN again (RFC 6298, section 2).
const FIRST_WAIT_NS: u64 = 1_000_000_000;
/// At the least it waits for so long beyond the round trip (`TCP_RTO_MIN`).
const LEAST_WAIT_NS: u64 = 200_000_000;

/// What has become of a connection that nothing more can come on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gone {
    /// An error, of this kind and number.
    Error(ErrorKind, i32),
    /// The peer closed it in order.
    Closed,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) handle: SocketHandle,
    /// 0: all ports were taken, and it will never be.
    pub(super) port: u16,
    since_ns: u64,
    pub(super) established: bool,
    /// What was sent and is not acknowledged: up to which byte of the connection, and when.
    unacknowledged: VecDeque<(usize, u64)>,
    pub(super) sent_bytes: usize,
    user_timeout_ns: u64,
    /// After how long the kernel looks for the first time whether something is acknowledged: when it would send it again.
    looks_after_ns: u64,
    /// TCP keepalive: after how long a silence it ends the connection.
    silent_ns: Option<u64>,
}

impl Link {
    /// One that is begun now.
    pub(super) fn connect(now: u64, host: &mut Host, remote: SocketAddr, user_timeout_ns: u64) -> Self {
        let (handle, port) = host.connect(now, remote);
        Self {
            handle,
            port,
            since_ns: now,
            established: false,
            unacknowledged: VecDeque::new(),
            sent_bytes: 0,
            user_timeout_ns,
            looks_after_ns: FIRST_WAIT_NS,
            silent_ns: None,
        }
    }

    /// Has it asked that often whether the peer is alive, and ended after such a silence.
    pub(super) fn keep_alive(&mut self, host: &mut Host, every_ns: u64, silent_ns: u64) {
        self.silent_ns = Some(silent_ns);
        host.keep_alive(self.handle, every_ns);
    }

    /// Whether it is established now, or could not be; `None`: neither yet.
    pub(super) fn connecting(&mut self, now: u64, host: &mut Host) -> Option<Result<(), (ErrorKind, i32)>> {
        match host.state(self.handle) {
            State::SynSent | State::SynReceived if !self.is_given_up(now) => None,
            State::Established => {
                self.established = true;
                host.end_after(self.handle, self.silent_ns);
                if host.observed(self.port).retransmits == 0 {
                    // RFC 6298, section 2.2, of one round trip.
                    let round_trip_ns = now.saturating_sub(self.since_ns);
                    self.looks_after_ns =
                        round_trip_ns.saturating_add(LEAST_WAIT_NS.max(round_trip_ns.saturating_mul(2)));
                }
                Some(Ok(()))
            }
            _ if self.port == 0 => Some(Err((ErrorKind::AddrNotAvailable, NO_PORT))),
            State::Closed if host.observed(self.port).reset => {
                Some(Err((ErrorKind::ConnectionRefused, REFUSED)))
            }
            _ => Some(Err((ErrorKind::TimedOut, TIMED_OUT))),
        }
    }

    /// What came on one that is established.
    pub(super) fn receive(&mut self, now: u64, host: &mut Host) -> Vec<u8> {
        let acknowledged = self.sent_bytes - host.unacknowledged(self.handle).min(self.sent_bytes);
        let waited = !self.unacknowledged.is_empty();
        while self.unacknowledged.pop_front_if(|(end, _)| *end <= acknowledged).is_some() {}
        if waited && self.unacknowledged.is_empty() {
            host.end_after(self.handle, self.silent_ns);
        }
        host.receive(now, self.handle)
    }

    /// How one that was established ended; `None`: it has not.
    pub(super) fn gone(&self, now: u64, host: &Host) -> Option<Gone> {
        match host.state(self.handle) {
            State::Established if !self.is_given_up(now) => None,
            State::Closed if host.observed(self.port).reset => {
                Some(Gone::Error(ErrorKind::ConnectionReset, RESET))
            }
            // Without a word from the peer: nothing was acknowledged, or keepalive went unanswered.
            State::Established | State::Closed => Some(Gone::Error(ErrorKind::TimedOut, TIMED_OUT)),
            _ => Some(Gone::Closed),
        }
    }

    /// Sends bytes, all or none.
    pub(super) fn send(&mut self, now: u64, host: &mut Host, bytes: &[u8]) -> bool {
        let sent = host.send(now, self.handle, bytes);
        if sent {
            self.sent_bytes += bytes.len();
            self.unacknowledged.push_back((self.sent_bytes, now));
            // While something is out Linux's keepalive timer leaves the connection to retransmission.
            host.end_after(self.handle, None);
        }
        sent
    }

    /// When the kernel gives it up, if nothing is acknowledged until then.
    ///
    /// `TCP_USER_TIMEOUT`, RFC 5482: "the maximum amount of time in milliseconds that transmitted data may remain
    /// unacknowledged" (tcp(7)), which Linux looks at when it sends again and not before. smoltcp's own counts from the peer's
    /// last segment, an idle time included.
    pub(super) fn gives_up_ns(&self) -> Option<u64> {
        if self.port == 0 {
            return Some(self.since_ns);
        }
        let since = if self.established { self.unacknowledged.front()?.1 } else { self.since_ns };
        Some(since.saturating_add(self.user_timeout_ns.max(self.looks_after_ns)))
    }

    fn is_given_up(&self, now: u64) -> bool {
        self.gives_up_ns().is_some_and(|at| now >= at)
    }
}
