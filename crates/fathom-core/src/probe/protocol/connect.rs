//! The request is a connection: each sample is one, made when it is due and closed in order, with a TLS handshake or
//! without. It is open loop like the others: a SYN that is lost holds up none of the next.
//!
//! [`Dialer`] is one path's. Each of its links has a place of its own, from the probe's first free one on.

use crate::cause::ClosingCause;
use crate::event::{EventKind, Evidence, TcpInfo};
use crate::probe::context::Context;
use crate::probe::io::{ErrorSource, LinkId, NetError, Output, Purpose};
use crate::probe::path::Path;
use crate::probe::settings::Request;
use crate::probe::timers::Timer;
use crate::probe::usual::Waited;
use crate::probe::words::connect_advice;
use crate::sample::{Flags, Sample};
use crate::schedule::Schedule;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;

/// Connections of a path being made or closed at one time; those that fall due meanwhile wait, and are given up like
/// samples that found a full send buffer.
const AT_ONCE: usize = 1_024;
/// How long the peer may take to close its side of a connection that was closed here.
const CLOSING_NS: u64 = 1_000_000_000;
/// A name that did not resolve is asked for again after this.
const RESOLVE_AGAIN_NS: u64 = 1_000_000_000;

/// One connection.
#[derive(Debug)]
struct Dial {
    connection: u32,
    remote: SocketAddr,
    due_ns: u64,
    sent_ns: u64,
    flags: Flags,
    local: String,
    /// When it was established.
    established_ns: Option<u64>,
    /// When it was all that it is made for, and is being closed.
    done_ns: Option<u64>,
    info: Option<TcpInfo>,
}

/// See the module.
#[derive(Debug)]
pub(in crate::probe) struct Dialer {
    path: usize,
    /// Its links are those with this remainder among the probe's dialers.
    stride: usize,
    base: usize,
    next: usize,
    dials: BTreeMap<LinkId, Dial>,
    schedule: Option<Schedule>,
    warm_up_left: u64,
    drain_ns: Option<u64>,
    over: bool,
}

impl Dialer {
    pub(in crate::probe) fn new(path: usize, base: usize, cx: &Context) -> Self {
        Self {
            path,
            stride: cx.settings.targets.len(),
            base,
            next: 0,
            dials: BTreeMap::new(),
            schedule: None,
            warm_up_left: cx.settings.warm_up,
            drain_ns: None,
            over: false,
        }
    }

    /// The path whose dialer has this link.
    pub(in crate::probe) fn path_of(link: LinkId, base: usize, paths: usize) -> usize {
        (link.place - base) % paths
    }

    pub(in crate::probe) fn is_done(&self) -> bool {
        self.over && self.dials.is_empty()
    }

    /// Samples that have fallen due so far.
    pub(in crate::probe) fn due(&self) -> u64 {
        self.schedule.as_ref().map_or(0, Schedule::due)
    }

    /// Whether a connection that was begun before this moment is not made yet.
    pub(in crate::probe) fn owes_since(&self, sent_before: u64) -> bool {
        self.dials.values().any(|dial| dial.done_ns.is_none() && dial.sent_ns < sent_before)
    }

    pub(in crate::probe) fn has_begun(&self) -> bool {
        self.schedule.is_some()
    }

    /// The target cannot be reached, or its time is up before anything was begun.
    pub(in crate::probe) fn abandon(&mut self) {
        self.over = true;
    }

    /// The target's name did not resolve.
    pub(in crate::probe) fn not_resolved(
        &mut self,
        now: u64,
        error: String,
        path: &mut Path,
        cx: &mut Context,
    ) {
        let retry_in_ns = (self.has_begun() || cx.settings.keep_trying).then_some(RESOLVE_AGAIN_NS);
        if retry_in_ns.is_none() {
            path.give_up_because(error.clone(), cx);
            self.over = true;
        }
        self.refused(now, None, None, error, retry_in_ns, path, cx);
    }

    pub(in crate::probe) fn begin(
        &mut self,
        schedule: Schedule,
        now: u64,
        path: &mut Path,
        cx: &mut Context,
    ) {
        self.schedule = Some(schedule);
        self.dial_due(now, path, cx);
    }

    /// Makes the connections that are due.
    pub(in crate::probe) fn dial_due(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        if self.drain_ns.is_some() || self.over {
            return;
        }
        let Some(remote) = path.addresses.current() else { return };
        loop {
            let Some(schedule) = &mut self.schedule else { return };
            let room = self.dials.len() < AT_ONCE;
            let reason = if room { "late" } else { "blocked" };
            if cx.skipped(now, self.path, None, schedule.skip_overdue(now), reason) {
                continue;
            }
            if !room {
                // The end of another makes room.
                return;
            }
            let Some(due_ns) = schedule.take(now) else { break };
            self.dial(due_ns, now, remote, cx);
        }
        match self.schedule.as_ref().and_then(Schedule::next_due_ns) {
            Some(due) => cx.timers.set(due, Timer::Due, self.path),
            None => self.drain(now, cx.settings.timeout_ns, cx),
        }
    }

    fn dial(&mut self, due_ns: u64, now: u64, remote: SocketAddr, cx: &mut Context) {
        let link = LinkId::none_yet(self.base + self.path + self.stride * self.next);
        self.next += 1;
        let connection = cx.worker.next_connection(self.path);
        let flags = if self.warm_up_left > 0 { Flags::WARM_UP } else { Flags::default() };
        self.warm_up_left = self.warm_up_left.saturating_sub(1);
        let dial = Dial {
            connection,
            remote,
            due_ns,
            sent_ns: now,
            flags,
            local: String::new(),
            established_ns: None,
            done_ns: None,
            info: None,
        };
        self.dials.insert(link, dial);
        let tls = cx.settings.request == Request::Connect { tls: true };
        let (path, purpose) = (self.path, Purpose::Sample { tls });
        cx.emit(Output::Connect { link, path, remote, purpose });
    }

    /// The driver has begun to connect.
    pub(in crate::probe) fn connecting(&mut self, link: LinkId, since_ns: u64, cx: &mut Context) {
        let Some(dial) = self.dials.get_mut(&link) else { return };
        dial.sent_ns = since_ns;
        // Without such a policy, as long as the kernel tries.
        if let Some(limit) = cx.settings.give_up_ns {
            cx.timers.set(since_ns.saturating_add(limit), Timer::DialLimit, link.place);
        }
    }

    /// The connection is established.
    pub(in crate::probe) fn connected(
        &mut self,
        now: u64,
        link: LinkId,
        local: String,
        kernel: Option<TcpInfo>,
        path: &mut Path,
        cx: &mut Context,
    ) {
        let Some(dial) = self.dials.get_mut(&link) else { return };
        (dial.local, dial.established_ns, dial.info) = (local, Some(now), kernel);
        path.addresses.worked(dial.remote);
        if cx.settings.request == (Request::Connect { tls: false }) {
            self.done(now, link, path, cx);
        }
    }

    /// The connection is all that it is made for: the sample is from before the first packet to this moment.
    pub(in crate::probe) fn done(&mut self, now: u64, link: LinkId, path: &mut Path, cx: &mut Context) {
        let Some(dial) = self.dials.get_mut(&link) else { return };
        let Some(established_ns) = dial.established_ns else { return };
        dial.done_ns = Some(now);
        let rtt_ns = now.saturating_sub(dial.sent_ns);
        let mut flags = dial.flags;
        if rtt_ns > cx.settings.timeout_ns {
            flags |= Flags::ANSWERED_LATE;
        }
        if cx.pauses.latest().is_some_and(|(from, to)| from < now && to > dial.due_ns) {
            flags |= Flags::OVERLAPS_LOCAL_PAUSE;
        }
        let tls = cx.settings.request == Request::Connect { tls: true };
        let kind = EventKind::ConnectionOpened {
            target: path.target().to_owned(),
            local: dial.local.clone(),
            remote: dial.remote.to_string(),
            connect_ns: established_ns.saturating_sub(dial.sent_ns) as i64,
            tls_ns: tls.then(|| (now - established_ns) as i64),
            interface: None,
            lane: None,
        };
        cx.event(now, Some(self.path), Some(dial.connection), kind);
        let sample = Sample {
            rtt_ns: Some(rtt_ns as i64),
            srtt_us: dial.info.map(|info| info.srtt_us),
            retransmits: dial.info.map(|info| info.total_retrans.min(u32::from(u16::MAX)) as u16),
            ..dial.row(flags, cx)
        };
        path.resolved_sample(now, &sample, Some(Waited::for_itself(rtt_ns)), false);
        cx.sample(self.path, sample);
        // Our FIN. The peer's is waited for: a socket that is closed with bytes unread (a greeting) would send a RST.
        cx.emit(Output::Shutdown { link });
        cx.timers.set(now + CLOSING_NS, Timer::DialClosing, link.place);
    }

    /// The connection could not be established or secured: a sample without its time, an event that says why, and the
    /// next address's turn.
    pub(in crate::probe) fn failed(
        &mut self,
        now: u64,
        link: LinkId,
        error: &NetError,
        path: &mut Path,
        cx: &mut Context,
    ) {
        if self.dials.get(&link).is_some_and(|dial| dial.done_ns.is_some()) {
            return self.closed(now, link, Some(error), path, cx);
        }
        let Some(dial) = self.dials.remove(&link) else { return };
        cx.emit(Output::Close { link });
        let advice = match error.source {
            ErrorSource::Tls => error.text.clone(),
            // What is timed here is whatever server is meant to listen there.
            _ if error.kind == ErrorKind::ConnectionRefused => {
                format!(
                    "{} refused the connection: nothing listens there, or something rejects it",
                    path.target()
                )
            }
            _ => connect_advice(path.target(), Some(dial.remote), error),
        };
        cx.sample(self.path, dial.row(dial.flags | Flags::UNANSWERED, cx));
        cx.end.refused = Some(advice.clone());
        path.addresses.failed(dial.remote);
        let next_due = self.schedule.as_ref().and_then(Schedule::next_due_ns);
        let next_ns = next_due.filter(|_| self.drain_ns.is_none()).map(|due| due.saturating_sub(now));
        self.refused(now, Some(dial.remote), error.errno, advice, next_ns, path, cx);
        if next_ns.is_some() {
            path.refresh_addresses(now, cx);
        }
        self.one_ended(now, path, cx);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one event")]
    fn refused(
        &self,
        now: u64,
        remote: Option<SocketAddr>,
        errno: Option<i32>,
        error: String,
        retry_in_ns: Option<u64>,
        path: &mut Path,
        cx: &mut Context,
    ) {
        path.refused();
        let (target, remote) = (path.target().to_owned(), remote.map(|remote| remote.to_string()));
        let kind = EventKind::ConnectionRefused { target, remote, errno, error, retry_in_ns, lane: None };
        cx.event(now, Some(self.path), None, kind);
    }

    /// The peer closed its side, or broke the connection off.
    pub(in crate::probe) fn closed(
        &mut self,
        now: u64,
        link: LinkId,
        error: Option<&NetError>,
        path: &mut Path,
        cx: &mut Context,
    ) {
        if self.dials.get(&link).is_some_and(|dial| dial.done_ns.is_none()) {
            let broken = NetError::of_kind(ErrorKind::ConnectionReset);
            return self.failed(now, link, error.unwrap_or(&broken), path, cx);
        }
        let Some(dial) = self.dials.remove(&link) else { return };
        cx.emit(Output::Close { link });
        let age_ns = now.saturating_sub(dial.done_ns.unwrap_or(now));
        let (error, tcp) = (error.map(|e| e.text.clone()), dial.info);
        let (sent, answered, last_answered_seq) = (1, 1, Some(0));
        let evidence = Evidence {
            sent,
            answered,
            last_answered_seq,
            error,
            tcp: tcp.map(Box::new),
            ..Evidence::default()
        };
        // It had been measured and closed here: however the peer takes that, it is no loss.
        let cause = ClosingCause::Finished;
        let kind = EventKind::ConnectionClosed { cause, verdict: None, errno: None, age_ns, evidence };
        cx.event(now, Some(self.path), Some(dial.connection), kind);
        self.one_ended(now, path, cx);
    }

    fn one_ended(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        if self.dials.is_empty() && self.drain_ns.is_some() {
            self.over = true;
        } else if self.dials.len() + 1 == AT_ONCE {
            self.dial_due(now, path, cx);
        }
    }

    /// A connection has taken too long to be made. One that was made in time has another limit.
    pub(in crate::probe) fn late(&mut self, now: u64, link: LinkId, path: &mut Path, cx: &mut Context) {
        match self.dials.get(&link).map(|dial| (dial.done_ns, dial.established_ns)) {
            Some((None, Some(_))) => {
                let text = format!(
                    "{} was connected and did not finish the TLS handshake; does it speak TLS on that port?",
                    path.target()
                );
                let kind = ErrorKind::TimedOut;
                let error = NetError { kind, errno: None, text, source: ErrorSource::Tls };
                self.failed(now, link, &error, path, cx);
            }
            Some((None, None)) => {
                self.failed(now, link, &NetError::of_kind(ErrorKind::TimedOut), path, cx);
            }
            Some((Some(_), _)) | None => {}
        }
    }

    /// The peer has not closed its side of one that was closed here.
    pub(in crate::probe) fn closing_late(
        &mut self,
        now: u64,
        link: LinkId,
        path: &mut Path,
        cx: &mut Context,
    ) {
        if self.dials.get(&link).is_some_and(|dial| dial.done_ns.is_some()) {
            self.closed(now, link, None, path, cx);
        }
    }

    /// Once a second: dues that have waited for room for too long.
    pub(in crate::probe) fn tick(&mut self, now: u64, cx: &mut Context) {
        if self.drain_ns.is_none() && self.dials.len() >= AT_ONCE {
            let overdue = self.schedule.as_mut().and_then(|schedule| schedule.skip_overdue(now));
            cx.skipped(now, self.path, None, overdue, "blocked");
        }
    }

    /// No more are made, and what fell due before is told as not made; what is being made is given up then.
    pub(in crate::probe) fn drain(&mut self, now: u64, linger_ns: u64, cx: &mut Context) {
        let given_up = self.schedule.as_mut().and_then(|schedule| schedule.skip_unconnected(now));
        let reason = if self.dials.len() < AT_ONCE { "late" } else { "blocked" };
        cx.skipped(now, self.path, None, given_up, reason);
        let at_ns = now.saturating_add(linger_ns);
        self.drain_ns = Some(self.drain_ns.map_or(at_ns, |before| before.min(at_ns)));
        if self.dials.is_empty() {
            self.over = true;
        } else {
            cx.timers.set(at_ns, Timer::DialDrain, self.path);
        }
    }

    /// The wait for the last ones is over.
    pub(in crate::probe) fn drained(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        if self.drain_ns.is_none_or(|at| now < at) {
            return;
        }
        for link in self.links() {
            if !self.let_go(now, link, cx) {
                self.late(now, link, path, cx);
            }
        }
        self.over = true;
    }

    /// The run ends before an attempt has taken as long as the timeout: it did not fail.
    fn let_go(&mut self, now: u64, link: LinkId, cx: &mut Context) -> bool {
        let timeout_ns = cx.settings.timeout_ns;
        let in_flight = |dial: &Dial| dial.done_ns.is_none() && now.saturating_sub(dial.sent_ns) < timeout_ns;
        if !self.dials.get(&link).is_some_and(in_flight) {
            return false;
        }
        let dial = self.dials.remove(&link);
        cx.emit(Output::Close { link });
        let kind = EventKind::SamplesInFlight { samples: 1 };
        cx.event(now, Some(self.path), dial.map(|dial| dial.connection), kind);
        true
    }

    /// Nothing is waited for, not even that the peers close what was measured.
    pub(in crate::probe) fn end(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        self.drained(now, path, cx);
        for link in self.links() {
            self.closing_late(now, link, path, cx);
        }
    }

    fn links(&self) -> Vec<LinkId> {
        self.dials.keys().copied().collect()
    }
}

impl Dial {
    fn row(&self, flags: Flags, cx: &Context) -> Sample {
        Sample {
            connection: self.connection,
            sent_ns: cx.clock.utc_of(self.sent_ns),
            lateness_ns: self.sent_ns.wrapping_sub(self.due_ns) as i64,
            flags,
            ..Sample::default()
        }
    }
}
