//! The life of connections, as the probing thread leads it: opening, stalling, closing, trying again.

use super::args::Timestamps;
use super::config::Transport;
use super::driver::Driver;
use super::lane::{Kind, Link, Open, Opening, Seldom, Silence, cause_of, connect_advice};
use super::link::Socket;
use super::stamp;
use super::testimony::Ground;
use super::wait;
use fathom_core::cause::ClosingCause;
use fathom_core::event::{EventKind, Evidence};
use fathom_core::loss::Losses;
use fathom_core::stall::Watch;
use fathom_core::stream::Stream;
use fathom_core::verdict::Outcome;
use fathom_os::clock::mono_ns;
use fathom_os::socket::{self, TcpOptions};
use fathom_wire::Key;
use mio::event::Source;
use mio::{Interest, Token};
use std::io;
use std::net::SocketAddr;

/// Connections being established at one time: a thousand SYNs at once would overflow the peer's queue and come back
/// as retransmissions in our own figures.
const OPENING_AT_ONCE: usize = 128;
/// An attempt to connect is given up after the timeout, but not before this: two retransmitted SYNs (1 s and 3 s).
const CONNECT_LIMIT_NS: u64 = 5_000_000_000;
/// A name resolved this recently is not asked for again.
const RESOLVED_FOR_NS: u64 = 1_000_000_000;

impl Driver<'_> {
    /// Begins to connect a lane: to an address if one is known, after its name is resolved otherwise.
    pub(super) fn open_lane(&mut self, i: usize, now: u64) {
        if self.stopping {
            self.lanes[i].link = Link::Done;
            return;
        }
        if self.opening >= OPENING_AT_ONCE {
            self.to_open.push_back(i);
            return;
        }
        let p = self.lanes[i].path;
        let path = &mut self.paths[p];
        if path.resolved_ns.is_some_and(|at| now.saturating_sub(at) < RESOLVED_FOR_NS) {
            self.connect(i, now);
            return;
        }
        path.waiting.push_back(i);
        if !path.resolving {
            path.resolving = true;
            self.resolver.ask(p, &self.config.paths[p].target);
        }
    }

    /// A path's name has been resolved, or not.
    pub(super) fn resolved(&mut self, p: usize, answer: Result<Vec<SocketAddr>, String>) {
        let now = mono_ns();
        let path = &mut self.paths[p];
        path.resolving = false;
        let waiting = std::mem::take(&mut path.waiting);
        match answer {
            Ok(addresses) => {
                // The address that served last is kept while the name still has it.
                let last = path.last_used.and_then(|ip| addresses.iter().position(|a| a.ip() == ip));
                if let Some(at) = last {
                    path.next_address = at;
                }
                path.addresses = addresses;
                path.resolved_ns = Some(now);
                for i in waiting {
                    self.open_lane(i, now);
                }
            }
            Err(error) => {
                for i in waiting {
                    self.attempt_failed(i, now, None, None, error.clone());
                }
            }
        }
    }

    fn connect(&mut self, i: usize, now: u64) {
        let p = self.lanes[i].path;
        let path = &mut self.paths[p];
        let remote = path.addresses[path.next_address % path.addresses.len()];
        let target = self.config.paths[p].target.to_string();
        self.lanes[i].attempts += 1;
        let attempt = self.lanes[i].attempts;
        let lane = Some(self.lanes[i].number);
        self.event(
            now,
            Some(p),
            None,
            EventKind::ConnectionOpening { target, remote: remote.to_string(), attempt, lane },
        );
        let (source, dscp) = (self.config.source, self.config.dscp);
        let since_ns = mono_ns();
        match self.config.transport {
            Transport::Udp => match socket::connect_udp(remote, source, dscp) {
                Ok(socket) => self.opened(i, Socket::Udp(socket), since_ns, remote),
                Err(e) => self.connect_failed(i, now, remote, &e),
            },
            Transport::Tcp => {
                let user_timeout_ms =
                    self.config.user_timeout.map(|d| d.as_millis().clamp(1, u128::from(u32::MAX)) as u32);
                let options = TcpOptions { source, dscp, user_timeout_ms, ..TcpOptions::default() };
                let registered = socket::connect_tcp(remote, &options).and_then(|mut socket| {
                    self.register(&mut socket, i)?;
                    Ok(socket)
                });
                match registered {
                    Ok(socket) => {
                        self.opening += 1;
                        self.lanes[i].link = Link::Opening(Opening { socket, remote, since_ns });
                        let limit = self.timeout_ns().max(CONNECT_LIMIT_NS);
                        self.arm(i, Kind::ConnectLimit, since_ns + limit);
                    }
                    Err(e) => self.connect_failed(i, now, remote, &e),
                }
            }
        }
    }

    fn register(&self, socket: &mut impl Source, i: usize) -> io::Result<()> {
        self.reactor.registry().register(socket, Token(i), Interest::READABLE | Interest::WRITABLE)
    }

    /// The socket of an opening lane has something to tell.
    pub(super) fn connect_ready(&mut self, i: usize) {
        let now = mono_ns();
        let Link::Opening(opening) = &self.lanes[i].link else { return };
        let remote = opening.remote;
        match socket::connect_result(&opening.socket) {
            Ok(false) => {}
            Ok(true) => {
                let Link::Opening(opening) = std::mem::replace(&mut self.lanes[i].link, Link::Idle) else {
                    return;
                };
                self.opening -= 1;
                self.opened_at(i, Socket::Tcp(opening.socket), opening.since_ns, now, remote);
                self.open_next(now);
            }
            Err(e) => self.opening_failed(i, now, remote, &e),
        }
    }

    /// Connecting takes too long.
    pub(super) fn connect_limit(&mut self, i: usize, now: u64) {
        if let Link::Opening(opening) = &self.lanes[i].link {
            let remote = opening.remote;
            self.opening_failed(i, now, remote, &io::Error::from(io::ErrorKind::TimedOut));
        }
    }

    fn opening_failed(&mut self, i: usize, now: u64, remote: SocketAddr, error: &io::Error) {
        self.lanes[i].link = Link::Idle;
        self.opening -= 1;
        self.connect_failed(i, now, remote, error);
        self.open_next(now);
    }

    fn open_next(&mut self, now: u64) {
        if let Some(next) = self.to_open.pop_front() {
            self.open_lane(next, now);
        }
    }

    fn opened(&mut self, i: usize, socket: Socket, since_ns: u64, remote: SocketAddr) {
        self.opened_at(i, socket, since_ns, since_ns, remote);
    }

    fn opened_at(&mut self, i: usize, mut socket: Socket, since_ns: u64, now: u64, remote: SocketAddr) {
        if let Socket::Udp(udp) = &mut socket
            && let Err(e) =
                self.reactor.registry().register(udp, Token(i), Interest::READABLE | Interest::WRITABLE)
        {
            return self.connect_failed(i, now, remote, &e);
        }
        let p = self.lanes[i].path;
        let path = &mut self.paths[p];
        let connection = self.member.next_connection(p);
        path.opened += 1;
        let before = path.last_used.replace(remote.ip());
        let key = Key { session: self.session_of(p), connection };
        let stream = Stream::new(key, self.config.size, self.config.timeout.as_nanos() as u64);
        let stream = stamp::of_kind(stream, self.config.stamp);
        let local = socket.addresses().0.map_or_else(String::new, |a| a.to_string());
        let stamped = self.config.stamped() && self.enable_stamps(&socket, now);
        let reads_wait = wait::let_reads_wait(self.config, &socket, stamped);
        let open = Open {
            socket,
            stamped,
            reads_wait,
            stream,
            watch: Watch::default(),
            opened_ns: now,
            sending: None,
            blocked: false,
            remote,
            info: None,
            ask_info_ns: 0,
            silence: Silence::default(),
            losses: Losses::default(),
            losses_told: Seldom::default(),
            usual_delays_ns: None,
        };
        let lane = &mut self.lanes[i];
        lane.link = Link::Open(Box::new(open));
        lane.backoff.succeeded();
        lane.attempts = 0;
        lane.armed[Kind::ConnectLimit as usize] = None;
        let target = self.config.paths[p].target.to_string();
        let connect_ns = (now - since_ns) as i64;
        let remote_text = remote.to_string();
        let lane = Some(self.lanes[i].number);
        self.event(
            now,
            Some(p),
            Some(connection),
            // The recording thread finds out by which interface: asking takes system calls.
            EventKind::ConnectionOpened {
                target,
                local,
                remote: remote_text,
                connect_ns,
                tls_ns: None,
                interface: None,
                lane,
            },
        );
        if let Some(before) = before.filter(|ip| *ip != remote.ip()) {
            let (what, from, to) = ("remote".to_owned(), before.to_string(), remote.ip().to_string());
            self.event(now, Some(p), Some(connection), EventKind::AddressChanged { what, from, to });
        }
        self.begin_sending(i, now);
        self.connected_again(p, now);
    }

    /// Asks the kernel to stamp a connection; where it does not, says so once and goes on, unless stamps are required.
    fn enable_stamps(&mut self, socket: &Socket, now: u64) -> bool {
        let Err(e) = (self.stamp_with)(socket) else { return true };
        if self.config.timestamps == Timestamps::Require {
            self.end.fatal =
                Some(format!("the kernel gives no timestamps ({e}); use --timestamps auto to go on without"));
        } else if !self.stampless_told {
            self.stampless_told = true;
            self.note(now, format!("round trips are not split: the kernel gives no timestamps ({e})"));
        }
        false
    }

    /// A fresh connection joins the schedule; the first ones start it.
    fn begin_sending(&mut self, i: usize, now: u64) {
        if self.origin_ns.is_none() {
            // Lanes open in order, so the last is the first to say no.
            let all_open = self.lanes.iter().rev().all(|lane| matches!(lane.link, Link::Open(_)));
            if all_open || self.grace_over {
                self.start(now);
            }
            return;
        }
        if let Some(gaps) = &mut self.lanes[i].gaps {
            gaps.opened();
        }
        if let Some(skipped) = self.lanes[i].schedule.as_mut().and_then(|s| s.skip_unconnected(now)) {
            self.skipped(i, now, skipped, "unconnected");
        }
        self.pump(i);
    }

    fn connect_failed(&mut self, i: usize, now: u64, remote: SocketAddr, error: &io::Error) {
        let target = self.config.paths[self.lanes[i].path].target.to_string();
        let advice = connect_advice(&target, Some(remote), error);
        self.attempt_failed(i, now, Some(remote), error.raw_os_error(), advice);
    }

    /// An attempt to connect came to nothing: the next address, another attempt later, or the end of the run.
    fn attempt_failed(
        &mut self,
        i: usize,
        now: u64,
        remote: Option<SocketAddr>,
        errno: Option<i32>,
        error: String,
    ) {
        let p = self.lanes[i].path;
        let path = &mut self.paths[p];
        path.next_address += 1;
        let never_opened = path.opened == 0;
        let untried = never_opened && remote.is_some() && {
            path.first_failures += 1;
            path.first_failures < path.addresses.len()
        };
        let give_up = never_opened && !untried && !self.config.keep_trying;
        let retry_in_ns = match (give_up, untried) {
            (true, _) => None,
            (_, true) => Some(0),
            _ => Some(self.lanes[i].backoff.next_wait_ns()),
        };
        let target = self.config.paths[p].target.to_string();
        let remote = remote.map(|r| r.to_string());
        let told = error.clone();
        let lane = Some(self.lanes[i].number);
        self.event(
            now,
            Some(p),
            None,
            EventKind::ConnectionRefused { target, remote, errno, error, retry_in_ns, lane },
        );
        self.lanes[i].link = Link::Idle;
        match retry_in_ns {
            Some(wait) => self.arm(i, Kind::Retry, now + wait),
            None => self.end.fatal = Some(told),
        }
    }

    pub(super) fn closed_by_peer(&mut self, i: usize, now: u64) {
        self.close(i, now, ClosingCause::PeerClosed, None, None);
    }

    pub(super) fn close_by(&mut self, i: usize, now: u64, error: &io::Error) {
        self.close(i, now, cause_of(error), error.raw_os_error(), Some(error.to_string()));
    }

    /// What comes back is not what was sent: this is no echo server, or the stream has lost its step.
    pub(super) fn not_an_echo(&mut self, i: usize, now: u64) {
        let p = self.lanes[i].path;
        let target = &self.config.paths[p].target;
        let said = &self.paths[p].foreign_first;
        let said = if said.is_empty() { String::new() } else { format!(" (it sent \"{said}\")") };
        let error = format!(
            "{target} does not echo what it is sent{said}; is a reflector (`fathom echo`, or an RFC 862 server) on that port?"
        );
        if !self.paths[p].ever_answered && !self.config.keep_trying {
            self.end.fatal = Some(error.clone());
        }
        self.close(i, now, ClosingCause::LocalError, None, Some(error));
    }

    /// A connection is over; every sample still out on it is unanswered.
    pub(super) fn close(
        &mut self,
        i: usize,
        now: u64,
        cause: ClosingCause,
        errno: Option<i32>,
        error: Option<String>,
    ) {
        let remote = self.remote_of(i);
        let silent_ns = self.lanes[i]
            .open()
            .and_then(|open| open.missing())
            .map_or(0, |(_, sent)| now.saturating_sub(sent));
        let facts = self.facts(i, now, Outcome::Closed(cause), silent_ns, None);
        self.stall_ended(i, now, false);
        let p = self.lanes[i].path;
        let (clock, outbox) = (&self.clock, &mut self.outbox);
        let Link::Open(mut open) = std::mem::replace(&mut self.lanes[i].link, Link::Idle) else { return };
        let ground = Ground::of(&open, clock);
        let stream = &mut open.stream;
        let connection = stream.key().connection;
        let evidence = Evidence {
            sent: stream.next_seq(),
            answered: stream.answered(),
            last_answered_seq: stream.last_answered_seq(),
            outstanding: stream.outstanding() as u64,
            silent_ns: stream.last_received_ns().map(|at| now.saturating_sub(at)),
            error,
            tcp: if cause.is_loss() { open.info } else { open.socket.tcp_info() },
        };
        stream.close(clock, |sample| outbox.sample(p as u32, sample));
        let age_ns = now.saturating_sub(open.opened_ns);
        let losses = if self.config.transport == Transport::Udp { open.take_losses(now, true) } else { None };
        drop(open);
        if let Some(losses) = losses {
            self.event(now, Some(p), Some(connection), losses);
        }
        self.event(
            now,
            Some(p),
            Some(connection),
            EventKind::ConnectionClosed { cause, verdict: None, errno, age_ns, evidence },
        );
        if cause.is_loss() {
            self.explain_death(p, connection, facts, ground, remote, now);
        }
        let lane = &mut self.lanes[i];
        lane.armed = Default::default();
        if !cause.is_loss() || self.stopping || lane.is_over() {
            lane.link = Link::Done;
        } else if self.config.reconnect {
            let wait = lane.backoff.next_wait_ns();
            self.arm(i, Kind::Retry, now + wait);
        } else {
            lane.link = Link::Done;
            self.end.lost = true;
        }
    }

    /// Ends a lane in order.
    pub(super) fn finish_lane(&mut self, i: usize, now: u64) {
        match &self.lanes[i].link {
            Link::Open(_) => self.close(i, now, ClosingCause::Finished, None, None),
            Link::Opening(_) => self.opening -= 1,
            Link::Idle | Link::Done => {}
        }
        self.lanes[i].link = Link::Done;
    }
}
