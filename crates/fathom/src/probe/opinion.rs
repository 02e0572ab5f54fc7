//! The second opinion: when a connection stalls or dies, a fresh connection to the same target tells whether the peer
//! and the path still work for others; and the verdicts that follow from it.

use super::config::Transport;
use super::driver::Driver;
use super::lane::{Kind, Link};
use super::link::{Socket, Written, prepare};
use fathom_core::event::EventKind;
use fathom_core::sample::Flags;
use fathom_core::stream::{Arrival, Receipt, Stream};
use fathom_core::verdict::{Explanation, Facts, Fresh, explain};
use fathom_os::clock::mono_ns;
use fathom_os::socket::{self, TcpOptions};
use fathom_wire::Key;
use mio::{Interest, Token};
use std::io;
use std::net::SocketAddr;

/// How long a fresh connection may take, its echo included: two retransmitted SYNs (1 s and 3 s).
const PATIENCE_NS: u64 = 4_000_000_000;
/// A stall is asked about after this long: a lost segment alone is repaired sooner.
pub(super) const ASK_AFTER_NS: u64 = 1_000_000_000;
/// Paths are not asked about more often than this.
const GAP_NS: u64 = 2_000_000_000;
/// A service that ends closes its connections a moment before its door, so a fresh connection may still be let in, only
/// to be broken off. After a death such a one is asked again, so much later...
const AGAIN_NS: u64 = 200_000_000;
/// ...and so many times.
const AGAIN_TIMES: u32 = 3;
/// The connection number of fresh connections: no recording has as many.
const CONNECTION: u32 = u32::MAX;

/// A fresh connection that is being tried.
pub(super) struct Opinion {
    socket: Socket,
    stream: Stream,
    established: bool,
    asked_ns: u64,
    until_ns: u64,
    remote: SocketAddr,
}

/// What a path knows of fresh connections.
#[derive(Default)]
pub(super) struct Opinions {
    pub(super) current: Option<Opinion>,
    /// What the last one met, and when.
    last: Option<(Fresh, u64)>,
    asked_ns: Option<u64>,
    /// When the last one was asked for whose first SYN was not answered.
    lost_ns: Option<u64>,
    /// Deaths that wait for the answer.
    pub(super) waiting: Vec<Waiting>,
    /// Where and when to ask again.
    again: Option<(SocketAddr, u64)>,
    again_left: u32,
}

/// A death whose explanation waits for the second opinion.
pub(super) struct Waiting {
    connection: u32,
    facts: Facts,
    died_ns: u64,
}

impl Opinions {
    /// What a fresh connection met since a moment.
    pub(super) fn since(&self, from_ns: u64) -> Fresh {
        self.last.filter(|(_, at)| *at >= from_ns).map_or(Fresh::NotTried, |(fresh, _)| fresh)
    }

    /// Whether one that was asked for between two moments had no answer to its first SYN.
    pub(super) fn lost_between(&self, from_ns: u64, to_ns: u64) -> bool {
        self.lost_ns.is_some_and(|at| (from_ns..to_ns).contains(&at))
    }
}

impl Driver<'_> {
    /// The token of a path's fresh connection; lanes come first.
    fn opinion_token(&self, p: usize) -> Token {
        Token(self.lanes.len() + p)
    }

    /// The path whose fresh connection has this token, if it is one.
    pub(super) fn opinion_of(&self, token: Token) -> Option<usize> {
        token.0.checked_sub(self.lanes.len()).filter(|&p| p < self.paths.len())
    }

    /// Whether explanations are still to come.
    pub(super) fn awaits_opinions(&self) -> bool {
        self.paths.iter().any(|path| !path.opinions.waiting.is_empty())
    }

    /// Tries a fresh connection to an address of the path, unless one is being tried or was a moment ago.
    pub(super) fn ask_opinion(&mut self, p: usize, remote: SocketAddr, now: u64) {
        let opinions = &mut self.paths[p].opinions;
        let lately = opinions.asked_ns.is_some_and(|at| now.saturating_sub(at) < GAP_NS)
            && opinions.waiting.is_empty();
        if opinions.current.is_some() || lately || self.config.transport == Transport::Udp {
            return;
        }
        opinions.asked_ns = Some(now);
        let (source, dscp) = (self.config.source, self.config.dscp);
        let options = TcpOptions { source, dscp, keep_icmp: true, ..TcpOptions::default() };
        let key = Key { session: self.session, connection: CONNECTION };
        let token = self.opinion_token(p);
        let registered = socket::connect_tcp(remote, &options).and_then(|mut socket| {
            self.reactor.registry().register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
            Ok(socket)
        });
        match registered {
            Ok(socket) => {
                let stream = Stream::new(key, self.config.size.min(64), self.timeout_ns());
                let until_ns = now + PATIENCE_NS;
                let opinion = Opinion {
                    socket: Socket::Tcp(socket),
                    stream,
                    established: false,
                    asked_ns: now,
                    until_ns,
                    remote,
                };
                self.paths[p].opinions.current = Some(opinion);
                self.arm_run(Kind::Opinion, p, until_ns);
            }
            // Nothing has been sent yet: it is this host's own routing table that knows no way.
            Err(e) if e.kind() == io::ErrorKind::HostUnreachable => {
                self.opinion_given(p, Fresh::NoRoute, now);
            }
            Err(e) => self.opinion_given(p, met(&e), now),
        }
    }

    /// The fresh connection's socket has something to tell.
    pub(super) fn opinion_ready(&mut self, p: usize) {
        let opinions = &mut self.paths[p].opinions;
        let Some(opinion) = &mut opinions.current else { return };
        let now = mono_ns();
        let Socket::Tcp(tcp) = &opinion.socket else { return };
        if !opinion.established {
            match socket::connect_result(tcp) {
                Ok(false) => return,
                Ok(true) => {}
                Err(_) if socket::forbidden_by_icmp(tcp) => {
                    return self.opinion_given(p, Fresh::Forbidden, now);
                }
                Err(e) => return self.opinion_given(p, met(&e), now),
            }
            opinion.established = true;
            // Sent again after a second (RFC 6298, section 2.1).
            if socket::tcp_info(tcp).is_some_and(|info| info.total_retrans > 0) {
                opinions.lost_ns = Some(opinion.asked_ns);
            }
            let mut scratch = [0; 64];
            let prepared = prepare(&opinion.stream, 0, &mut scratch);
            match opinion.socket.write_message(&opinion.stream, 0, 0, &mut scratch, prepared) {
                Ok(Written::Whole) => opinion.stream.sent(now, now, Flags::default()),
                // 64 bytes that do not fit into an empty send buffer: nothing to conclude.
                Ok(_) => return self.opinion_given(p, Fresh::Connected, now),
                Err(e) => return self.opinion_given(p, met(&e), now),
            }
        }
        let mut buffer = [0; 64];
        let mut echoed = false;
        match opinion.socket.read(&mut buffer) {
            Ok(0) => return self.opinion_given(p, Fresh::Failed, now),
            Ok(n) => {
                let receipt = Receipt {
                    mono_ns: now,
                    clock: &self.clock,
                    kernel: None,
                    local_pause: None,
                    stamps: None,
                };
                opinion.stream.receive(&receipt, &buffer[..n], |arrival| {
                    echoed |= matches!(arrival, Arrival::Resolved(sample) if sample.rtt_ns.is_some());
                });
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(e) => return self.opinion_given(p, met(&e), now),
        }
        if echoed {
            self.opinion_given(p, Fresh::Echoed, now);
        }
    }

    /// The fresh connection's time is up, or it is time to try another.
    pub(super) fn opinion_late(&mut self, p: usize, now: u64) {
        if let Some((remote, _)) = self.paths[p].opinions.again.take_if(|(_, at)| now >= *at) {
            return self.ask_opinion(p, remote, now);
        }
        let opinions = &mut self.paths[p].opinions;
        // A timer of an earlier one may still be armed.
        let Some(opinion) = opinions.current.as_ref().filter(|opinion| now >= opinion.until_ns) else {
            return;
        };
        if opinion.established {
            return self.opinion_given(p, Fresh::Connected, now);
        }
        opinions.lost_ns = Some(opinion.asked_ns);
        self.opinion_given(p, Fresh::NoAnswer, now);
    }

    fn opinion_given(&mut self, p: usize, fresh: Fresh, now: u64) {
        let opinions = &mut self.paths[p].opinions;
        let asked = opinions.current.take();
        if let Some(Opinion { remote, .. }) = asked
            .filter(|_| fresh == Fresh::Failed && !opinions.waiting.is_empty() && opinions.again_left > 0)
        {
            opinions.again_left -= 1;
            opinions.again = Some((remote, now + AGAIN_NS));
            return self.arm_run(Kind::Opinion, p, now + AGAIN_NS);
        }
        opinions.last = Some((fresh, now));
        for Waiting { connection, mut facts, died_ns } in std::mem::take(&mut opinions.waiting) {
            facts.fresh = fresh;
            facts.others_lost |=
                self.paths[p].opinions.lost_between(died_ns.saturating_sub(facts.silent_ns), died_ns);
            self.explained(now, p, connection, "closing", explain(&facts), fresh);
        }
    }

    /// A connection died: its explanation follows when a fresh connection has been tried.
    pub(super) fn explain_death(
        &mut self,
        p: usize,
        connection: u32,
        facts: Facts,
        remote: Option<SocketAddr>,
        now: u64,
    ) {
        match remote {
            Some(remote) if self.config.transport == Transport::Tcp && !self.stopping => {
                let opinions = &mut self.paths[p].opinions;
                opinions.waiting.push(Waiting { connection, facts, died_ns: now });
                opinions.again_left = AGAIN_TIMES;
                self.ask_opinion(p, remote, now);
            }
            _ => self.explained(now, p, connection, "closing", explain(&facts), Fresh::NotTried),
        }
    }

    /// Explanations that still wait when the run ends are given without the second opinion.
    pub(super) fn explain_the_rest(&mut self, now: u64) {
        for p in 0..self.paths.len() {
            for Waiting { connection, facts, .. } in std::mem::take(&mut self.paths[p].opinions.waiting) {
                self.explained(now, p, connection, "closing", explain(&facts), Fresh::NotTried);
            }
        }
    }

    pub(super) fn explained(
        &mut self,
        now: u64,
        p: usize,
        connection: u32,
        about: &str,
        explanation: Explanation,
        fresh: Fresh,
    ) {
        let about = about.to_owned();
        self.event(
            now,
            Some(p),
            Some(connection),
            EventKind::ConnectionExplained { about, explanation, fresh },
        );
    }

    /// The address a lane's connection leads to.
    pub(super) fn remote_of(&self, i: usize) -> Option<SocketAddr> {
        match &self.lanes[i].link {
            Link::Open(open) => open.socket.addresses().1.or(Some(open.remote)),
            _ => None,
        }
    }
}

/// What a failed attempt to connect says.
fn met(error: &io::Error) -> Fresh {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Fresh::Refused,
        io::ErrorKind::TimedOut => Fresh::NoAnswer,
        io::ErrorKind::HostUnreachable => Fresh::NoHost,
        io::ErrorKind::NetworkUnreachable => Fresh::NoRoute,
        _ => Fresh::Failed,
    }
}
