//! The canary connection of a path: when a connection stalls or dies, a fresh one to the same address tells whether the
//! peer and the path still work for others; and over it the reflector is asked what it last received on the silent one,
//! and who it is. It carries a small sample first, and one of the missing sample's size last, because what is large may
//! be lost alone.
//!
//! [`Canaries`] is one path's. `ask` begins one; the driver's inputs about its link go to `connected`, `failed`, `sent`,
//! `received` and `closed`, and its timer to `timer`. Deaths wait in it for their explanation.

use crate::clock::ClockMap;
use crate::event::EventKind;
use crate::peer_report::{Inquiry, PeerReport};
use crate::probe::context::Context;
use crate::probe::io::{ErrorSource, LinkId, NetError, Output, Piece, Progress, Purpose};
use crate::probe::protocol::stamp;
use crate::probe::settings::Transport;
use crate::probe::timers::Timer;
use crate::sample::Flags;
use crate::stream::{Arrival, Receipt, Stream};
use crate::verdict::{Facts, Fresh, Reported, explain};
use fathom_wire::{HEADER_LEN, Key};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;

/// How long a canary may take, its echo included: two retransmitted SYNs (1 s and 3 s). Every answer of the reflector
/// gives it as long again.
const PATIENCE_NS: u64 = 4_000_000_000;
/// Paths are not asked about more often than this.
const GAP_NS: u64 = 2_000_000_000;
/// A service that ends closes its connections a moment before its door, so a fresh connection may still be let in, only
/// to be broken off. After a death such a one is tried again, so much later...
const AGAIN_NS: u64 = 200_000_000;
/// ...and so many times.
const AGAIN_TIMES: u32 = 3;
/// Datagrams get lost: the canary's are sent again every so often.
const RESEND_NS: u64 = 1_000_000_000;
/// Stalled connections that the reflector is asked about at one time; with more the first tell enough.
const WANTED: usize = 256;
/// Deaths remembered until the reflector can be asked about them.
const REMEMBERED: usize = 256;
/// Canaries tried to ask about those, each time that a connection opens.
const LATE_TIMES: u32 = 3;
/// The sample of the missing one's size is waited for so long: a loss is repaired twice by then...
const LARGE_PATIENCE_NS: u64 = 2_000_000_000;
/// ...what takes longer than this was lost at first...
const LARGE_LATE_NS: u64 = 1_000_000_000;
/// ...and is of so many bytes at the most: more than any network's packet.
const LARGE_MOST: u32 = 16 << 10;
/// The connection number of canaries: no recording has as many.
const CONNECTION: u32 = u32::MAX;

/// What this end knows of a connection when the reflector is asked about it.
#[derive(Debug, Clone, Copy)]
pub(in crate::probe) struct LocalView {
    pub(in crate::probe) first_missing: u64,
    pub(in crate::probe) sent: u64,
}

impl LocalView {
    /// With what the reflector said, which came at `at_ns`.
    pub(in crate::probe) fn beside(self, report: PeerReport, at_ns: u64) -> Reported {
        let Self { first_missing, sent } = self;
        Reported { report, at_ns, first_missing, sent }
    }
}

/// A death whose explanation waits for the canary, or for the peer report.
#[derive(Debug)]
pub(in crate::probe) struct Death {
    pub(in crate::probe) connection: u32,
    pub(in crate::probe) facts: Facts,
    pub(in crate::probe) view: LocalView,
    /// Of the sample that was missed.
    pub(in crate::probe) size: u32,
    /// Whether the question about it came back, answered or not.
    pub(in crate::probe) replied: bool,
}

/// What a canary is about to send.
#[derive(Debug)]
enum Message {
    Sample,
    Large,
    Question([u8; HEADER_LEN]),
}

#[derive(Debug)]
struct Canary {
    stream: Stream,
    inquiry: Inquiry,
    to_send: VecDeque<Message>,
    /// The driver was asked to send the first of those.
    sending: bool,
    established: bool,
    echoed: bool,
    /// How far the sample of the missing one's size is.
    large: Large,
    large_until_ns: u64,
    asked_ns: u64,
    until_ns: u64,
    remote: SocketAddr,
}

/// The sample of the missing one's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Large {
    /// The small one is as large.
    NotNeeded,
    /// It is sent when all else has come back.
    Wanted(u32),
    Sent,
    Echoed,
}

/// A peer report, and the connection it is about; `None`: it was echoed, not answered.
pub(in crate::probe) type Reply = (u32, Option<PeerReport>);

/// What a path knows of canary connections.
#[derive(Debug)]
pub(in crate::probe) struct Canaries {
    path: usize,
    link: LinkId,
    current: Option<Canary>,
    /// What the last one met, and when.
    last: Option<(Fresh, u64)>,
    asked_ns: Option<u64>,
    /// When the last one was begun whose first SYN was not answered.
    lost_ns: Option<u64>,
    /// Stalled connections that the reflector is to be asked about.
    wanted: Vec<u32>,
    /// Deaths that wait for the answer.
    deaths: Vec<Death>,
    /// Deaths that are explained, and that the reflector could not be asked about yet.
    unreported: VecDeque<Death>,
    /// How often to try to ask about those while connections are open.
    late_left: u32,
    /// Where and when to try again.
    again: Option<(SocketAddr, u64)>,
    again_left: u32,
}

impl Canaries {
    pub(in crate::probe) fn new(path: usize, link: LinkId) -> Self {
        Self {
            path,
            link,
            current: None,
            last: None,
            asked_ns: None,
            lost_ns: None,
            wanted: Vec::new(),
            deaths: Vec::new(),
            unreported: VecDeque::new(),
            late_left: 0,
            again: None,
            again_left: 0,
        }
    }

    /// What a canary met since a moment.
    pub(in crate::probe) fn since(&self, from_ns: u64) -> Fresh {
        self.last.filter(|(_, at)| *at >= from_ns).map_or(Fresh::NotTried, |(fresh, _)| fresh)
    }

    /// Whether one that was begun between two moments had no answer to its first SYN.
    pub(in crate::probe) fn lost_between(&self, from_ns: u64, to_ns: u64) -> bool {
        self.lost_ns.is_some_and(|at| (from_ns..to_ns).contains(&at))
    }

    /// Whether explanations are still to come.
    pub(in crate::probe) fn has_deaths(&self) -> bool {
        !self.deaths.is_empty()
    }

    /// A connection has been silent for long: `first`: this is the first time that it is said. It leads to `remote`, and the
    /// missing sample is of `size` bytes.
    pub(in crate::probe) fn doubt(
        &mut self,
        now: u64,
        connection: u32,
        since_ns: u64,
        first: bool,
        (remote, size): (SocketAddr, u32),
        cx: &mut Context,
    ) {
        if first && cx.settings.asks_reflectors() && self.wanted.len() < WANTED {
            self.wanted.push(connection);
        }
        if self.since(since_ns) == Fresh::NotTried || self.wanted.contains(&connection) {
            self.ask(now, remote, size, cx);
        }
    }

    /// A connection died: its explanation follows when a canary has been tried.
    pub(in crate::probe) fn explain_death(
        &mut self,
        now: u64,
        death: Death,
        remote: SocketAddr,
        cx: &mut Context,
    ) {
        if cx.stopping {
            return self.explained(now, death.connection, &death.facts, cx);
        }
        let (connection, size) = (death.connection, death.size);
        self.deaths.push(death);
        self.again_left = AGAIN_TIMES;
        if let Some(canary) = self.current.as_mut().filter(|canary| canary.established)
            && cx.settings.asks_reflectors()
        {
            canary.inquiry.about(connection);
        }
        self.ask(now, remote, size, cx);
    }

    /// Explanations that still wait when the run ends are given without the canary.
    pub(in crate::probe) fn explain_the_rest(&mut self, now: u64, cx: &mut Context) {
        for Death { connection, facts, .. } in std::mem::take(&mut self.deaths) {
            self.explained(now, connection, &facts, cx);
        }
        if self.current.take().is_some() {
            cx.emit(Output::Close { link: self.link });
        }
    }

    /// A connection opened: the reflector can be asked about those that ended while it could not be reached.
    pub(in crate::probe) fn connected_again(&mut self, now: u64, remote: SocketAddr, cx: &mut Context) {
        if !self.unreported.is_empty() {
            self.late_left = LATE_TIMES;
            self.ask_late(now, Some(remote), cx);
        }
    }

    /// Tries a canary to an address of the path, unless one was tried a moment ago; one that is being tried carries what
    /// else there is to ask.
    fn ask(&mut self, now: u64, remote: SocketAddr, size: u32, cx: &mut Context) {
        if self.current.is_some() {
            return self.send_questions(cx);
        }
        let lately = self.asked_ns.is_some_and(|at| now.saturating_sub(at) < GAP_NS);
        if lately && self.deaths.is_empty() && self.unreported.is_empty() {
            return;
        }
        self.asked_ns = Some(now);
        let settings = &cx.settings;
        let key = Key { session: settings.session_of(self.path), connection: CONNECTION };
        let small =
            if settings.asks_reflectors() { HEADER_LEN as u32 } else { settings.size.min(HEADER_LEN as u32) };
        let large = match size.min(LARGE_MOST) {
            size if size > small && settings.asks_reflectors() => Large::Wanted(size),
            _ => Large::NotNeeded,
        };
        let until_ns = now + PATIENCE_NS;
        self.current = Some(Canary {
            stream: stamp::of_kind(Stream::new(key, small, settings.timeout_ns), settings.request),
            inquiry: Inquiry::new(key.session),
            to_send: VecDeque::new(),
            sending: false,
            established: false,
            echoed: false,
            large,
            large_until_ns: 0,
            asked_ns: now,
            until_ns,
            remote,
        });
        cx.timers.set(until_ns, Timer::Canary, self.path);
        if cx.settings.transport == Transport::Udp {
            cx.timers.set(now + RESEND_NS, Timer::Canary, self.path);
        }
        let (link, path, purpose) = (self.link, self.path, Purpose::Canary);
        cx.emit(Output::Connect { link, path, remote, purpose });
    }

    /// The canary is established: it sends its one sample, and the questions.
    pub(in crate::probe) fn connected(&mut self, resent: bool, cx: &mut Context) {
        let Some(canary) = &mut self.current else { return };
        // Sent again after a second (RFC 6298, section 2.1).
        if resent {
            self.lost_ns = Some(canary.asked_ns);
        }
        canary.established = true;
        canary.to_send.push_back(Message::Sample);
        if cx.settings.asks_reflectors() {
            let dead = self.deaths.iter().chain(&self.unreported);
            dead.for_each(|death| canary.inquiry.about(death.connection));
        }
        self.send_questions(cx);
    }

    pub(in crate::probe) fn failed(
        &mut self,
        now: u64,
        error: &NetError,
        open: Option<SocketAddr>,
        cx: &mut Context,
    ) {
        if self.current.is_some() {
            self.conclude(now, met(error), open, cx);
        }
    }

    /// The bytes to be sent now.
    pub(in crate::probe) fn write(&mut self, out: &mut [u8]) -> Option<Piece> {
        let canary = self.current.as_mut()?;
        let len = match canary.to_send.front()? {
            Message::Sample => {
                let len = canary.stream.size() as usize;
                canary.stream.fill(0, 0, &mut out[..len]);
                len
            }
            Message::Large => {
                let (seq, size) = (canary.stream.next_seq(), canary.stream.size() as usize);
                let len = size.min(out.len());
                canary.stream.fill(seq, 0, &mut out[..len]);
                return Some(Piece { seq, offset: 0, len, size });
            }
            Message::Question(question) => {
                out[..HEADER_LEN].copy_from_slice(question);
                HEADER_LEN
            }
        };
        Some(Piece { seq: 0, offset: 0, len, size: len })
    }

    /// A later part of the sample of the missing one's size.
    pub(in crate::probe) fn fill(&self, seq: u64, offset: usize, out: &mut [u8]) {
        if let Some(canary) = &self.current {
            canary.stream.fill(seq, offset, out);
        }
    }

    /// STAMP: writes the clock into the sample, just before it is sent.
    pub(in crate::probe) fn stamp(&mut self, utc_ns: i64, error_ns: Option<u64>, packet: &mut [u8]) {
        if let Some(canary) = &mut self.current
            && matches!(canary.to_send.front(), Some(Message::Sample))
        {
            canary.stream.stamp_at(utc_ns, error_ns, packet);
        }
    }

    /// The driver has sent, or could not.
    pub(in crate::probe) fn sent(
        &mut self,
        now: u64,
        progress: Progress,
        open: Option<SocketAddr>,
        cx: &mut Context,
    ) {
        let Some(canary) = &mut self.current else { return };
        canary.sending = false;
        let message = canary.to_send.pop_front();
        if matches!(message, Some(Message::Sample)) {
            if progress != Progress::Whole {
                // 64 bytes that do not fit into an empty send buffer: nothing to conclude.
                return self.conclude(now, Fresh::Connected, open, cx);
            }
            if canary.stream.next_seq() == 0 {
                canary.stream.sent(now, now, Flags::default());
            }
        }
        if matches!(message, Some(Message::Large)) {
            // Where the kernel has no room for all of it, nothing is to be learned from it.
            canary.large = if progress == Progress::Whole { Large::Sent } else { Large::NotNeeded };
            canary.stream.sent(now, now, Flags::default());
            if progress != Progress::Whole {
                return self.conclude(now, Fresh::Echoed, open, cx);
            }
        }
        self.send_questions(cx);
    }

    /// Bytes came: gives the replies about connections that are open.
    pub(in crate::probe) fn received(
        &mut self,
        now: u64,
        bytes: &[u8],
        open: Option<SocketAddr>,
        cx: &mut Context,
    ) -> Vec<Reply> {
        let Some(canary) = &mut self.current else { return Vec::new() };
        canary.until_ns = now + PATIENCE_NS;
        let mut replies = Vec::new();
        let sane = canary.take(now, &cx.clock, cx.settings.transport, bytes, &mut replies);
        let news = !replies.is_empty();
        replies.retain(|&(connection, report)| !self.take_reply(now, connection, report, cx));
        self.send_questions(cx);
        let Some(canary) = &mut self.current else { return replies };
        if canary.echoed && sane && canary.inquiry.is_done() && canary.large != Large::Echoed {
            match canary.large {
                Large::Wanted(size) => {
                    canary.stream.set_size(size);
                    canary.large = Large::Sent;
                    canary.to_send.push_back(Message::Large);
                    canary.until_ns = now + LARGE_PATIENCE_NS;
                    canary.large_until_ns = canary.until_ns;
                    cx.timers.set(canary.until_ns, Timer::Canary, self.path);
                    canary.send_next(self.link, cx);
                    return replies;
                }
                // A part of it has come.
                Large::Sent => return replies,
                Large::NotNeeded | Large::Echoed => {}
            }
        }
        let late = now + LARGE_PATIENCE_NS > canary.large_until_ns + LARGE_LATE_NS;
        if canary.large == Large::Echoed && late {
            self.lost_ns = Some(canary.asked_ns);
        }
        if canary.echoed && (!sane || canary.inquiry.is_done()) {
            self.conclude(now, Fresh::Echoed, open, cx);
        } else if !sane {
            self.conclude(now, Fresh::Connected, open, cx);
        } else if news || canary.echoed {
            cx.timers.set(canary.until_ns, Timer::Canary, self.path);
        }
        replies
    }

    /// The peer closed its side, or the canary broke.
    pub(in crate::probe) fn closed(
        &mut self,
        now: u64,
        error: Option<&NetError>,
        open: Option<SocketAddr>,
        cx: &mut Context,
    ) {
        let Some(canary) = &self.current else { return };
        let fresh = if canary.echoed { Fresh::Echoed } else { error.map_or(Fresh::Failed, met) };
        self.conclude(now, fresh, open, cx);
    }

    /// The canary's time is up, or it is time to try another.
    pub(in crate::probe) fn timer(&mut self, now: u64, open: Option<SocketAddr>, cx: &mut Context) {
        if let Some((remote, _)) = self.again.take_if(|(_, at)| now >= *at) {
            return self.ask(now, remote, 0, cx);
        }
        let Some(canary) = &mut self.current else { return };
        // A timer of an earlier one may still be armed.
        if now >= canary.until_ns {
            let fresh = canary.so_far(cx.settings.transport);
            if fresh == Fresh::NoAnswer {
                self.lost_ns = Some(canary.asked_ns);
            }
            return self.conclude(now, fresh, open, cx);
        }
        if cx.settings.transport == Transport::Udp && canary.established {
            // A datagram is lost now and then; that three are says something.
            if !canary.echoed {
                canary.to_send.push_back(Message::Sample);
            } else if canary.large == Large::Sent {
                canary.to_send.push_back(Message::Large);
            }
            let again: Vec<_> = canary.inquiry.again().map(Message::Question).collect();
            canary.to_send.extend(again);
            canary.send_next(self.link, cx);
            cx.timers.set(now + RESEND_NS, Timer::Canary, self.path);
        }
    }

    /// Sends the questions there are, as far as the canary is established.
    fn send_questions(&mut self, cx: &mut Context) {
        let Some(canary) = self.current.as_mut().filter(|canary| canary.established) else { return };
        self.wanted.drain(..).for_each(|connection| canary.inquiry.about(connection));
        while let Some(question) = canary.inquiry.next_question() {
            canary.to_send.push_back(Message::Question(question));
        }
        canary.send_next(self.link, cx);
    }

    /// Brings a reply to the death it is about; false: it is about none.
    fn take_reply(
        &mut self,
        now: u64,
        connection: u32,
        report: Option<PeerReport>,
        cx: &mut Context,
    ) -> bool {
        if let Some(death) = self.deaths.iter_mut().find(|death| death.connection == connection) {
            death.replied = true;
            let reported = report.map(|report| death.view.beside(report, now));
            death.facts.reported = reported.or(death.facts.reported);
            return true;
        }
        let Some(at) = self.unreported.iter().position(|death| death.connection == connection) else {
            return false;
        };
        if let (Some(mut death), Some(report)) = (self.unreported.remove(at), report) {
            death.facts.reported = Some(death.view.beside(report, now));
            self.explained(now, connection, &death.facts, cx);
        }
        true
    }

    /// The canary has met something: deaths that waited for it are explained.
    fn conclude(&mut self, now: u64, fresh: Fresh, open: Option<SocketAddr>, cx: &mut Context) {
        let canary = self.current.take();
        if canary.is_some() {
            cx.emit(Output::Close { link: self.link });
        }
        let tried_too_soon = fresh == Fresh::Failed && !self.deaths.is_empty() && self.again_left > 0;
        if let Some(Canary { remote, .. }) = canary.filter(|_| tried_too_soon) {
            self.again_left -= 1;
            self.again = Some((remote, now + AGAIN_NS));
            return cx.timers.set(now + AGAIN_NS, Timer::Canary, self.path);
        }
        self.last = Some((fresh, now));
        self.wanted.clear();
        for mut death in std::mem::take(&mut self.deaths) {
            death.facts.fresh = fresh;
            let (from_ns, ended_ns) = (death.facts.from_ns(), death.facts.ended_ns);
            death.facts.others_lost |= self.lost_between(from_ns, ended_ns);
            self.explained(now, death.connection, &death.facts, cx);
            // A reflector that echoes and does not answer reports nothing.
            let answered = matches!(fresh, Fresh::Echoed | Fresh::SmallOnly);
            if !death.replied && !answered && cx.settings.asks_reflectors() {
                if self.unreported.len() == REMEMBERED {
                    self.unreported.pop_front();
                }
                self.unreported.push_back(death);
            }
        }
        if matches!(fresh, Fresh::Echoed | Fresh::SmallOnly) {
            self.unreported.clear();
        }
        self.ask_late(now, open, cx);
    }

    /// Tries another canary for the sake of deaths that the reflector could not be asked about; `open`: where a
    /// connection of the path leads that is open.
    fn ask_late(&mut self, now: u64, open: Option<SocketAddr>, cx: &mut Context) {
        if self.late_left == 0 || self.unreported.is_empty() {
            self.late_left = 0;
        } else if let Some(remote) = open {
            self.late_left -= 1;
            self.ask(now, remote, 0, cx);
        }
    }

    fn explained(&self, now: u64, connection: u32, facts: &Facts, cx: &mut Context) {
        explained(now, self.path, connection, "closing", facts, cx);
    }
}

impl Canary {
    /// Takes what one read gave. False: what came is no echo.
    fn take(
        &mut self,
        now: u64,
        clock: &ClockMap,
        transport: Transport,
        bytes: &[u8],
        replies: &mut Vec<Reply>,
    ) -> bool {
        let receipt = Receipt { mono_ns: now, clock, kernel: None, local_pause: None, stamps: None };
        let (mut echoed, mut rest) = (false, None);
        let large = &mut self.large;
        let sink = |arrival: Arrival<'_>| match arrival {
            Arrival::Resolved(sample) if sample.seq > 0 => {
                if sample.rtt_ns.is_some() {
                    *large = Large::Echoed;
                }
            }
            Arrival::Resolved(sample) => echoed |= sample.rtt_ns.is_some(),
            // Behind the sample's echo come those of the questions.
            Arrival::Foreign(bytes) => rest = Some(bytes.to_vec()),
            Arrival::Duplicate(_) => {}
        };
        let sane = match transport {
            Transport::Tcp => {
                self.stream.receive(&receipt, bytes, sink);
                let rest = rest.unwrap_or_default();
                self.inquiry.receive(&rest, |connection, report| replies.push((connection, report))).is_ok()
            }
            Transport::Udp => {
                match self.inquiry.receive_datagram(bytes) {
                    Some(reply) => replies.extend(reply),
                    None => self.stream.receive_datagram(&receipt, bytes, sink),
                }
                true
            }
        };
        self.echoed |= echoed;
        sane
    }

    fn send_next(&mut self, link: LinkId, cx: &mut Context) {
        if !self.sending && !self.to_send.is_empty() {
            self.sending = true;
            cx.emit(Output::Send { link });
        }
    }

    /// What is to be concluded if nothing more comes.
    fn so_far(&self, transport: Transport) -> Fresh {
        match transport {
            _ if self.echoed && self.large == Large::Sent => Fresh::SmallOnly,
            _ if self.echoed => Fresh::Echoed,
            Transport::Tcp if self.established => Fresh::Connected,
            _ => Fresh::NoAnswer,
        }
    }
}

/// Tells what the evidence says about a stall or an end.
pub(in crate::probe) fn explained(
    now: u64,
    path: usize,
    connection: u32,
    about: &str,
    facts: &Facts,
    cx: &mut Context,
) {
    let kind = EventKind::ConnectionExplained {
        about: about.to_owned(),
        explanation: explain(facts),
        fresh: facts.fresh,
        reflector: facts.reported.map(|reported| Box::new(reported.report)),
    };
    cx.event(now, Some(path), Some(connection), kind);
}

/// What a failed attempt to connect says.
fn met(error: &NetError) -> Fresh {
    match (error.source, error.kind) {
        // This host's own rules, where nothing was sent.
        (ErrorSource::Filter, _) | (ErrorSource::ThisHost, ErrorKind::PermissionDenied) => Fresh::Forbidden,
        // Nothing was sent: it is this host's own routing table that knows no way.
        (ErrorSource::ThisHost, ErrorKind::HostUnreachable) | (_, ErrorKind::NetworkUnreachable) => {
            Fresh::NoRoute
        }
        (_, ErrorKind::ConnectionRefused) => Fresh::Refused,
        (_, ErrorKind::TimedOut) => Fresh::NoAnswer,
        (_, ErrorKind::HostUnreachable) => Fresh::NoHost,
        _ => Fresh::Failed,
    }
}
