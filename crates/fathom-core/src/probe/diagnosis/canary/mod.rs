//! The canary connection of a path: when a connection stalls or dies, a fresh one to the same address tells whether the
//! peer and the path still work for others. What it asks is what the protocol of the silent one can ask on a fresh
//! connection ([`crate::probe::protocol::Protocol::canary_may_ask`]); where that is nothing, it only connects, and no more
//! is claimed. A reflector is asked, besides, what it last received on the silent connection, and who it is, with a small
//! sample first and one of the missing sample's size last, because what is large may be lost alone.
//!
//! [`Canaries`] is one path's. `ask` begins one; the driver's inputs about its link go to `connected`, `failed`, `sent`,
//! `writable`, `received` and `closed`, and its timer to `timer`: one, armed for what comes first. `attempt` is the
//! connection itself; in `deaths` those wait that are to be explained.

mod attempt;
mod deaths;

use super::notices::Notices;
use crate::event::EventKind;
use crate::peer_report::Span;
use crate::probe::context::Context;
use crate::probe::io::{ErrorSource, LinkId, NetError, Output, Piece, Progress, Purpose};
use crate::probe::timers::Timer;
use crate::verdict::{Facts, Fresh, SaidBy, explain};
use attempt::Canary;
use deaths::{Unreported, Waiting};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

pub(in crate::probe) use attempt::Reply;
pub(in crate::probe) use deaths::{Death, Doubted, LocalView};

/// Paths are not asked about more often than this.
const GAP_NS: u64 = 2_000_000_000;
/// A service that ends closes its connections a moment before its door, so a fresh connection may still be let in, only
/// to be broken off. After a death such a one is tried again, so much later...
const AGAIN_NS: u64 = 200_000_000;
/// ...and so many times.
const AGAIN_TIMES: u32 = 3;
/// Stalled connections that the reflector is asked about at one time; with more the first tell enough.
const WANTED: usize = 256;
/// Canaries tried to ask about deaths that are explained, each time that a connection opens.
const LATE_TIMES: u32 = 3;

/// What a path knows of canary connections.
#[derive(Debug)]
pub(in crate::probe) struct Canaries {
    path: usize,
    /// The link of the current canary, or of the last one.
    link: LinkId,
    current: Option<Canary>,
    /// What the last one met, who said so, and when.
    last: Option<((Fresh, SaidBy), u64)>,
    asked_ns: Option<u64>,
    /// When the last one was begun whose first SYN was not answered.
    lost_ns: Option<u64>,
    /// Stalled connections that the reflector is to be asked about, and since when each is silent.
    wanted: Vec<(u32, u64)>,
    /// Deaths that wait for the answer.
    deaths: Waiting,
    unreported: Unreported,
    /// How often to try to ask about those while connections are open.
    late_left: u32,
    /// Where and when to try again.
    again: Option<(SocketAddr, u64)>,
    again_left: u32,
    /// When the timer fires.
    armed_ns: Option<u64>,
    notices: Notices,
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
            deaths: Waiting::default(),
            unreported: Unreported::default(),
            late_left: 0,
            again: None,
            again_left: 0,
            armed_ns: None,
            notices: Notices::default(),
        }
    }

    /// The link of the current canary, or of the last one.
    pub(in crate::probe) fn link(&self) -> LinkId {
        self.link
    }

    /// What a canary met since a moment, and who said so.
    pub(in crate::probe) fn since(&self, from_ns: u64) -> (Fresh, SaidBy) {
        self.last.filter(|(_, at)| *at >= from_ns).map_or_else(Default::default, |(met, _)| met)
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
        if first && cx.asks_reflectors() && self.wanted.len() < WANTED {
            self.wanted.push((connection, since_ns));
        }
        if self.since(since_ns).0 == Fresh::NotTried
            || self.wanted.iter().any(|(wanted, _)| *wanted == connection)
        {
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
        let (silence, size) = (death.silence(), death.size);
        self.again_left = AGAIN_TIMES;
        if let Some(canary) = self.current.as_mut().filter(|canary| canary.is_established())
            && cx.asks_reflectors()
        {
            canary.ask_about(silence);
        }
        self.deaths.add(death);
        self.ask(now, remote, size, cx);
    }

    /// Explanations that still wait when the run ends are given without the canary.
    pub(in crate::probe) fn explain_the_rest(&mut self, now: u64, cx: &mut Context) {
        for Death { connection, facts, .. } in self.deaths.take() {
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

    /// Asks for notices after a stall in which no canary was echoed. The reflector's host may have stood still, and the
    /// reflector was not asked during the stall.
    pub(in crate::probe) fn ask_for_notices(
        &mut self,
        now: u64,
        silence: Span,
        remote: SocketAddr,
        cx: &mut Context,
    ) {
        let known = self.since(silence.0).0 == Fresh::Echoed || self.notices.answered_since(silence.0);
        if known || !cx.asks_reflectors() || cx.stopping || self.current.is_some() {
            return;
        }
        self.ask(now, remote, 0, cx);
        if let Some(canary) = &mut self.current {
            canary.for_notices = true;
            canary.ask_for_notices(silence);
        }
    }

    /// Tries a canary to an address of the path, unless one was tried a moment ago; one that is being tried carries what
    /// else there is to ask.
    fn ask(&mut self, now: u64, remote: SocketAddr, size: u32, cx: &mut Context) {
        if let Some(canary) = &mut self.current {
            canary.for_notices = false;
            return self.send(now, cx);
        }
        let lately = self.asked_ns.is_some_and(|at| now.saturating_sub(at) < GAP_NS);
        if lately && self.deaths.is_empty() && self.unreported.is_empty() {
            return;
        }
        self.asked_ns = Some(now);
        self.current = Canary::new(now, self.path, remote, size, cx);
        if self.current.is_none() {
            return self.conclude(now, Fresh::NotTried, None, cx);
        }
        self.link = self.link.next();
        self.arm(cx);
        let (link, path, purpose) = (self.link, self.path, Purpose::Canary);
        cx.emit(Output::Connect { link, path, remote, purpose });
    }

    /// The canary is established: it sends its one sample, and the questions.
    pub(in crate::probe) fn connected(
        &mut self,
        now: u64,
        resent: bool,
        open: Option<SocketAddr>,
        cx: &mut Context,
    ) {
        let Some(canary) = &mut self.current else { return };
        // Sent again after a second (RFC 6298, section 2.1).
        if resent && !canary.for_notices {
            self.lost_ns = Some(canary.asked_ns);
        }
        if !canary.connected() {
            return self.conclude(now, Fresh::OnlyConnected, open, cx);
        }
        if cx.asks_reflectors() {
            let dead = self.deaths.silences().chain(self.unreported.silences());
            dead.for_each(|silence| canary.ask_about(silence));
        }
        self.send(now, cx);
    }

    pub(in crate::probe) fn failed(
        &mut self,
        now: u64,
        error: &NetError,
        open: Option<SocketAddr>,
        cx: &mut Context,
    ) {
        if let Some(canary) = &self.current {
            let met = met(error, canary.remote.ip());
            self.conclude_with(now, met, open, cx);
        }
    }

    /// The bytes to be sent now.
    pub(in crate::probe) fn write(&self, out: &mut [u8]) -> Option<Piece> {
        self.current.as_ref()?.write(out)
    }

    /// A later part of a sample.
    pub(in crate::probe) fn fill(&self, seq: u64, offset: usize, out: &mut [u8]) {
        if let Some(canary) = &self.current {
            canary.fill(seq, offset, out);
        }
    }

    /// STAMP: writes the clock into the sample, just before it is sent.
    pub(in crate::probe) fn stamp(&mut self, utc_ns: i64, error_ns: Option<u64>, packet: &mut [u8]) {
        if let Some(canary) = &mut self.current {
            canary.stamp(utc_ns, error_ns, packet);
        }
    }

    /// The driver has sent, as far as the kernel took it.
    pub(in crate::probe) fn sent(&mut self, now: u64, progress: Progress, cx: &mut Context) {
        if let Some(canary) = &mut self.current {
            canary.sent(now, progress);
            self.send(now, cx);
        }
    }

    /// The canary takes data again.
    pub(in crate::probe) fn writable(&mut self, now: u64, cx: &mut Context) {
        if let Some(canary) = &mut self.current {
            canary.writable();
            self.send(now, cx);
        }
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
        let mut replies = Vec::new();
        let sane = canary.take(now, &cx.clock, cx.settings.transport, bytes, &mut replies);
        if let Some(announced) = canary.take_notice() {
            self.notices.take(now, self.path, announced, cx);
        }
        replies.retain(|reply| !self.take_reply(now, *reply, cx));
        let Some(canary) = &mut self.current else { return replies };
        if canary.was_late() {
            self.lost_ns = Some(canary.asked_ns);
        }
        if !sane {
            let fresh = if canary.has_echoed() { Fresh::Echoed } else { Fresh::Connected };
            self.conclude(now, fresh, open, cx);
            return replies;
        }
        // What is still to be asked goes first.
        self.send(now, cx);
        let Some(canary) = &mut self.current else { return replies };
        if canary.begins_large(now) {
            self.send(now, cx);
        } else if canary.is_done() {
            self.conclude(now, Fresh::Echoed, open, cx);
        }
        self.arm(cx);
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
        let remote = canary.remote.ip();
        let met = match error {
            _ if canary.has_echoed() => (Fresh::Echoed, SaidBy::NotKnown),
            Some(error) => met(error, remote),
            None => (Fresh::Failed, SaidBy::NotKnown),
        };
        self.conclude_with(now, met, open, cx);
    }

    /// The timer fires: the canary's time is up, or datagrams are to be sent again, or it is time to try another.
    pub(in crate::probe) fn timer(
        &mut self,
        at_ns: u64,
        now: u64,
        open: Option<SocketAddr>,
        cx: &mut Context,
    ) {
        if self.armed_ns != Some(at_ns) {
            // One that was armed for something later is stale.
            return;
        }
        self.armed_ns = None;
        if let Some((remote, _)) = self.again.take_if(|(_, at)| now >= *at) {
            self.ask(now, remote, 0, cx);
        }
        if let Some(canary) = &mut self.current {
            if canary.is_late(now) {
                let fresh = canary.so_far(cx.settings.transport);
                if fresh == Fresh::NoAnswer && !canary.for_notices {
                    self.lost_ns = Some(canary.asked_ns);
                }
                self.conclude(now, fresh, open, cx);
            } else {
                canary.resend(now);
                self.send(now, cx);
            }
        }
        self.arm(cx);
    }

    /// Arms the timer for what comes first. One that is armed for something earlier is armed again when it fires.
    fn arm(&mut self, cx: &mut Context) {
        let again = self.again.map(|(_, at)| at);
        let next = again.into_iter().chain(self.current.as_ref().map(Canary::next_ns)).min();
        if let Some(at) = next.filter(|at| self.armed_ns.is_none_or(|armed| *at < armed)) {
            self.armed_ns = Some(at);
            cx.timers.set(at, Timer::Canary, self.path);
        }
    }

    /// Has the driver send what there is to send, as far as the canary is established and takes it.
    fn send(&mut self, now: u64, cx: &mut Context) {
        let Some(canary) = self.current.as_mut().filter(|canary| canary.is_established()) else { return };
        let wanted = self.wanted.drain(..);
        wanted.for_each(|(connection, since_ns)| canary.ask_about((connection, since_ns, now)));
        if canary.begins_to_send(now) {
            cx.emit(Output::Send { link: self.link });
        }
    }

    /// Brings a reply to the death it is about; false: it is about none.
    fn take_reply(&mut self, now: u64, (asked, report): Reply, cx: &mut Context) -> bool {
        if self.deaths.take_reply(now, asked, report) {
            return true;
        }
        let Some(mut death) = self.unreported.take(asked) else { return false };
        if let Some(report) = report {
            death.facts.reported = Some(death.view.beside(report, (asked.at_ns, now), true));
            self.explained(now, asked.connection, &death.facts, cx);
        }
        true
    }

    fn conclude(&mut self, now: u64, fresh: Fresh, open: Option<SocketAddr>, cx: &mut Context) {
        self.conclude_with(now, (fresh, SaidBy::NotKnown), open, cx);
    }

    /// The canary has met something: deaths that waited for it are explained.
    fn conclude_with(
        &mut self,
        now: u64,
        (fresh, said_by): (Fresh, SaidBy),
        open: Option<SocketAddr>,
        cx: &mut Context,
    ) {
        let canary = self.current.take();
        if canary.is_some() {
            cx.emit(Output::Close { link: self.link });
        }
        if canary.as_ref().is_some_and(|canary| canary.for_notices) {
            return;
        }
        let tried_too_soon = fresh == Fresh::Failed && !self.deaths.is_empty() && self.again_left > 0;
        if let Some(Canary { remote, .. }) = canary.filter(|_| tried_too_soon) {
            self.again_left -= 1;
            self.again = Some((remote, now + AGAIN_NS));
            return self.arm(cx);
        }
        self.last = Some(((fresh, said_by), now));
        self.wanted.clear();
        let answered = matches!(fresh, Fresh::Echoed | Fresh::SmallOnly);
        for mut death in self.deaths.take() {
            (death.facts.fresh, death.facts.fresh_said_by) = (fresh, said_by);
            let (from_ns, ended_ns) = (death.facts.from_ns(), death.facts.ended_ns);
            death.facts.others_lost |= self.lost_between(from_ns, ended_ns);
            self.explained(now, death.connection, &death.facts, cx);
            // A reflector that echoes and does not answer reports nothing.
            if !death.replied && !answered && cx.asks_reflectors() {
                self.unreported.add(death);
            }
        }
        if answered {
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

/// What a failed attempt to connect to `remote` says, and who says so.
fn met(error: &NetError, remote: IpAddr) -> (Fresh, SaidBy) {
    let fresh = match (error.source, error.kind) {
        // This host's own rules, where nothing was sent.
        (ErrorSource::Icmp { forbids: true, .. }, _)
        | (ErrorSource::ThisHost, ErrorKind::PermissionDenied) => Fresh::Forbidden,
        // Nothing was sent: it is this host's own routing table that knows no way.
        // Linux says EINVAL of a route that discards (`ip route add blackhole`).
        (ErrorSource::ThisHost, ErrorKind::HostUnreachable | ErrorKind::InvalidInput)
        | (_, ErrorKind::NetworkUnreachable) => Fresh::NoRoute,
        (_, ErrorKind::ConnectionRefused) => Fresh::Refused,
        (_, ErrorKind::TimedOut) => Fresh::NoAnswer,
        (_, ErrorKind::HostUnreachable) => Fresh::NoHost,
        _ => Fresh::Failed,
    };
    let said_by = match error.source {
        ErrorSource::ThisHost => SaidBy::ThisHost,
        ErrorSource::Icmp { from: Some(from), .. } if from == remote.to_canonical() => SaidBy::Target,
        ErrorSource::Icmp { from: Some(from), .. } => SaidBy::Between(from),
        ErrorSource::NoNeighbour(Some(gateway)) => SaidBy::NoGateway(gateway),
        ErrorSource::NoNeighbour(None) => SaidBy::NoNeighbour,
        ErrorSource::NoCarrier => SaidBy::NoCarrier,
        ErrorSource::Icmp { from: None, .. } | ErrorSource::Unspecified | ErrorSource::Tls => {
            SaidBy::NotKnown
        }
    };
    (fresh, said_by)
}
