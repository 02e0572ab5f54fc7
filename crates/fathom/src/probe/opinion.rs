//! The second opinion: when a connection stalls or dies, a fresh connection to the same target tells whether the peer
//! and the path still work for others; and over it the reflector is asked what it last received on the connection.

use super::config::Transport;
use super::driver::{Driver, SECOND_NS};
use super::lane::Kind;
use super::link::{Socket, Written, prepare};
use super::stamp;
use super::testimony::{Ground, Waiting};
use fathom_core::clock::ClockMap;
use fathom_core::sample::Flags;
use fathom_core::stream::{Arrival, Receipt, Stream};
use fathom_core::verdict::{Facts, Fresh};
use fathom_core::word::{Asking, Word};
use fathom_os::clock::mono_ns;
use fathom_os::socket::{self, TcpOptions};
use fathom_wire::{HEADER_LEN, Key};
use mio::{Interest, Token};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

/// How long a fresh connection may take, its echo included: two retransmitted SYNs (1 s and 3 s). Every answer of the
/// reflector gives it as long again.
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
/// Stalled connections that the reflector is asked about at one time; with more the first tell enough.
const WANTED: usize = 256;
/// The connection number of fresh connections: no recording has as many.
const CONNECTION: u32 = u32::MAX;

/// A fresh connection that is being tried.
pub(super) struct Opinion {
    socket: Socket,
    stream: Stream,
    asking: Asking,
    established: bool,
    echoed: bool,
    asked_ns: u64,
    until_ns: u64,
    remote: SocketAddr,
}

/// What a path knows of fresh connections.
#[derive(Default)]
pub(super) struct Opinions {
    current: Option<Opinion>,
    /// What the last one met, and when.
    last: Option<(Fresh, u64)>,
    asked_ns: Option<u64>,
    /// When the last one was asked for whose first SYN was not answered.
    lost_ns: Option<u64>,
    /// Stalled connections that the reflector is to be asked about.
    wanted: Vec<u32>,
    /// Deaths that wait for the answer.
    pub(super) waiting: Vec<Waiting>,
    /// Deaths that are explained, and that the reflector could not be asked about yet.
    pub(super) unheard: VecDeque<Waiting>,
    /// How often to try to ask about those while connections are open.
    pub(super) late_left: u32,
    /// Where and when to ask again.
    again: Option<(SocketAddr, u64)>,
    again_left: u32,
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

    /// Whether the question about this stalled connection has not been sent.
    pub(super) fn wants(&self, connection: u32) -> bool {
        self.wanted.contains(&connection)
    }

    /// Asks about this stalled connection when there is somebody to ask.
    pub(super) fn want(&mut self, connection: u32) {
        if self.wanted.len() < WANTED {
            self.wanted.push(connection);
        }
    }
}

impl Opinion {
    /// Takes what one read gave; the questions that came back go to `heard`. False: what came is no echo.
    fn take(
        &mut self,
        now: u64,
        clock: &ClockMap,
        bytes: &[u8],
        heard: &mut Vec<(u32, Option<Word>)>,
    ) -> bool {
        let receipt = Receipt { mono_ns: now, clock, kernel: None, local_pause: None, stamps: None };
        let (mut echoed, mut rest) = (false, None);
        let sink = |arrival: Arrival<'_>| match arrival {
            Arrival::Resolved(sample) => echoed |= sample.rtt_ns.is_some(),
            // Behind the sample's echo come those of the questions.
            Arrival::Foreign(bytes) => rest = Some(bytes.to_vec()),
            Arrival::Duplicate(_) => {}
        };
        let sane = match self.socket {
            Socket::Tcp(_) => {
                self.stream.receive(&receipt, bytes, sink);
                let rest = rest.unwrap_or_default();
                self.asking.receive(&rest, |connection, word| heard.push((connection, word))).is_ok()
            }
            Socket::Udp(_) => {
                match self.asking.receive_datagram(bytes) {
                    Some(one) => heard.push(one),
                    None => self.stream.receive_datagram(&receipt, bytes, sink),
                }
                true
            }
        };
        self.echoed |= echoed;
        sane
    }

    /// What is to be said if nothing more comes.
    fn so_far(&self) -> Fresh {
        match self.socket {
            _ if self.echoed => Fresh::Echoed,
            Socket::Tcp(_) if self.established => Fresh::Connected,
            _ => Fresh::NoAnswer,
        }
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

    /// Whether the reflector can know this run's connections: shorter messages name none.
    pub(super) fn can_be_asked_about(&self) -> bool {
        self.config.size as usize >= HEADER_LEN && self.config.stamp.is_none()
    }

    /// Tries a fresh connection to an address of the path, unless one was tried a moment ago; one that is being tried
    /// carries what else there is to ask.
    pub(super) fn ask_opinion(&mut self, p: usize, remote: SocketAddr, now: u64) {
        let opinions = &mut self.paths[p].opinions;
        if opinions.current.is_some() {
            return self.send_questions(p);
        }
        let lately = opinions.asked_ns.is_some_and(|at| now.saturating_sub(at) < GAP_NS);
        if lately && opinions.waiting.is_empty() && opinions.unheard.is_empty() {
            return;
        }
        opinions.asked_ns = Some(now);
        let (source, dscp) = (self.config.source, self.config.dscp);
        let token = self.opinion_token(p);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registry = self.reactor.registry();
        let registered = match self.config.transport {
            Transport::Tcp => {
                let options = TcpOptions { source, dscp, keep_icmp: true, ..TcpOptions::default() };
                socket::connect_tcp(remote, &options).and_then(|mut socket| {
                    registry.register(&mut socket, token, interest)?;
                    Ok(Socket::Tcp(socket))
                })
            }
            Transport::Udp => socket::connect_udp(remote, source, dscp).and_then(|mut socket| {
                registry.register(&mut socket, token, interest)?;
                Ok(Socket::Udp(socket))
            }),
        };
        match registered {
            Ok(socket) => {
                let key = Key { session: self.session_of(p), connection: CONNECTION };
                let size = self.config.size.min(HEADER_LEN as u32);
                let until_ns = now + PATIENCE_NS;
                let stream = Stream::new(key, size, self.timeout_ns());
                let opinion = Opinion {
                    socket,
                    stream: stamp::of_kind(stream, self.config.stamp),
                    asking: Asking::new(key.session),
                    established: false,
                    echoed: false,
                    asked_ns: now,
                    until_ns,
                    remote,
                };
                self.paths[p].opinions.current = Some(opinion);
                self.arm_run(Kind::Opinion, p, until_ns);
                if self.config.transport == Transport::Udp {
                    self.arm_run(Kind::Opinion, p, now + SECOND_NS);
                    self.opinion_established(p, now);
                }
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
        if let Socket::Tcp(tcp) = &opinion.socket
            && !opinion.established
        {
            match socket::connect_result(tcp) {
                Ok(false) => return,
                Ok(true) => {}
                Err(_) if socket::forbidden_by_icmp(tcp) => {
                    return self.opinion_given(p, Fresh::Forbidden, now);
                }
                Err(e) => return self.opinion_given(p, met(&e), now),
            }
            // Sent again after a second (RFC 6298, section 2.1).
            if socket::tcp_info(tcp).is_some_and(|info| info.total_retrans > 0) {
                opinions.lost_ns = Some(opinion.asked_ns);
            }
            self.opinion_established(p, now);
        }
        self.opinion_read(p, now);
    }

    /// Sends the fresh connection's one sample, and the questions.
    fn opinion_established(&mut self, p: usize, now: u64) {
        let can_be_asked_about = self.can_be_asked_about();
        let opinions = &mut self.paths[p].opinions;
        let Some(opinion) = &mut opinions.current else { return };
        opinion.established = true;
        let mut scratch = [0; HEADER_LEN];
        let prepared = prepare(&opinion.stream, 0, &mut scratch);
        opinion.stream.stamp_at(self.clock.utc_of(now), self.clock_error_ns, &mut scratch);
        match opinion.socket.write_message(&opinion.stream, 0, 0, &mut scratch, prepared) {
            Ok(Written::Whole) => opinion.stream.sent(now, now, Flags::default()),
            // 64 bytes that do not fit into an empty send buffer: nothing to conclude.
            Ok(_) => return self.opinion_given(p, Fresh::Connected, now),
            Err(e) => return self.opinion_given(p, met(&e), now),
        }
        if can_be_asked_about {
            let dead = opinions.waiting.iter().chain(&opinions.unheard);
            dead.for_each(|death| opinion.asking.about(death.connection));
            self.send_questions(p);
        }
    }

    /// Sends the questions there are over the fresh connection, as far as it is one.
    fn send_questions(&mut self, p: usize) {
        let opinions = &mut self.paths[p].opinions;
        let Some(opinion) = opinions.current.as_mut().filter(|opinion| opinion.established) else { return };
        opinions.wanted.drain(..).for_each(|connection| opinion.asking.about(connection));
        while let Some(question) = opinion.asking.next_question() {
            // Few enough are on the way to fit; where the connection broke, reading tells so.
            let _ = opinion.socket.write(&question);
        }
    }

    fn opinion_read(&mut self, p: usize, now: u64) {
        let mut heard = Vec::new();
        let mut ended = None;
        let mut buffer = [0; 4096];
        while ended.is_none() {
            let Some(opinion) = &mut self.paths[p].opinions.current else { return };
            match opinion.socket.read(&mut buffer) {
                Ok(0) if matches!(opinion.socket, Socket::Tcp(_)) => ended = Some(Fresh::Failed),
                Ok(n) => {
                    opinion.until_ns = now + PATIENCE_NS;
                    if !opinion.take(now, &self.clock, &buffer[..n], &mut heard) {
                        ended = Some(Fresh::Connected);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => ended = Some(met(&e)),
            }
        }
        let news = !heard.is_empty();
        for (connection, word) in heard {
            self.heard(p, connection, word, now);
        }
        self.send_questions(p);
        let Some(opinion) = &self.paths[p].opinions.current else { return };
        if opinion.echoed && (ended.is_some() || opinion.asking.is_done()) {
            self.opinion_given(p, Fresh::Echoed, now);
        } else if let Some(fresh) = ended {
            self.opinion_given(p, fresh, now);
        } else if news || opinion.echoed {
            let until_ns = opinion.until_ns;
            self.arm_run(Kind::Opinion, p, until_ns);
        }
    }

    /// The fresh connection's time is up, or it is time to try another.
    pub(super) fn opinion_late(&mut self, p: usize, now: u64) {
        if let Some((remote, _)) = self.paths[p].opinions.again.take_if(|(_, at)| now >= *at) {
            return self.ask_opinion(p, remote, now);
        }
        let opinions = &mut self.paths[p].opinions;
        let Some(opinion) = &mut opinions.current else { return };
        // A timer of an earlier one may still be armed.
        if now >= opinion.until_ns {
            let fresh = opinion.so_far();
            if fresh == Fresh::NoAnswer {
                opinions.lost_ns = Some(opinion.asked_ns);
            }
            return self.opinion_given(p, fresh, now);
        }
        if matches!(opinion.socket, Socket::Udp(_)) {
            // A datagram is lost now and then; that three are says something.
            let mut scratch = [0; HEADER_LEN];
            let prepared = prepare(&opinion.stream, 0, &mut scratch);
            let _ = opinion.socket.write_message(&opinion.stream, 0, 0, &mut scratch, prepared);
            let questions: Vec<_> = opinion.asking.again().collect();
            for question in questions {
                let _ = opinion.socket.write(&question);
            }
            self.arm_run(Kind::Opinion, p, now + SECOND_NS);
        }
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
        opinions.wanted.clear();
        for mut death in std::mem::take(&mut opinions.waiting) {
            let facts = &mut death.facts;
            facts.fresh = fresh;
            let from_ns = death.died_ns.saturating_sub(facts.silent_ns);
            facts.others_lost |= self.paths[p].opinions.lost_between(from_ns, death.died_ns);
            self.explained(now, p, death.connection, "closing", facts);
            // A reflector that echoes and does not answer has nothing to say.
            if !death.replied && fresh != Fresh::Echoed && self.can_be_asked_about() {
                self.paths[p].opinions.hear_later(death);
            }
        }
        if fresh == Fresh::Echoed {
            self.paths[p].opinions.unheard.clear();
        }
        self.ask_later(p, now);
    }

    /// A connection died: its explanation follows when a fresh connection has been tried.
    pub(super) fn explain_death(
        &mut self,
        p: usize,
        connection: u32,
        facts: Facts,
        ground: Ground,
        remote: Option<SocketAddr>,
        now: u64,
    ) {
        let can_be_asked_about = self.can_be_asked_about();
        match remote {
            Some(remote) if !self.stopping => {
                let opinions = &mut self.paths[p].opinions;
                opinions.waiting.push(Waiting { connection, facts, ground, died_ns: now, replied: false });
                opinions.again_left = AGAIN_TIMES;
                if let Some(opinion) = opinions.current.as_mut().filter(|opinion| opinion.established)
                    && can_be_asked_about
                {
                    opinion.asking.about(connection);
                }
                self.ask_opinion(p, remote, now);
            }
            _ => self.explained(now, p, connection, "closing", &facts),
        }
    }

    /// Explanations that still wait when the run ends are given without the second opinion.
    pub(super) fn explain_the_rest(&mut self, now: u64) {
        for p in 0..self.paths.len() {
            for Waiting { connection, facts, .. } in std::mem::take(&mut self.paths[p].opinions.waiting) {
                self.explained(now, p, connection, "closing", &facts);
            }
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
