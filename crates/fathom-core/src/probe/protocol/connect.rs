//! The request is a connection: each sample is one, made when it is due and closed in order, with a TLS handshake or
//! without. It is open loop like the others: a SYN that is lost holds up none of the next.
//!
//! Each path has one [`Dialer`]. Its links take places from the probe's first free one on. Its parts: `trial` finds an
//! address that answers before the schedule begins, `hanging` watches connections that get no answer, `unmade` counts
//! connections that this host could not begin, and `ending` ends connections.

mod ending;
mod hanging;
mod trial;
mod unmade;

use crate::cause::ClosingCause;
use crate::event::{EventKind, Evidence, TcpInfo};
use crate::probe::context::Context;
use crate::probe::io::{ErrorSource, LinkId, NetError, Output, Purpose};
use crate::probe::path::Path;
use crate::probe::policy::reconnect::limit_ns;
use crate::probe::settings::Request;
use crate::probe::timers::Timer;
use crate::probe::usual::Waited;
use crate::probe::words::connect_advice;
use crate::sample::{Flags, Sample};
use crate::schedule::Schedule;
use hanging::Hanging;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use trial::Trial;
use unmade::Unmade;

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
    /// True if the attempt is no sample: it tries an address.
    is_trial: bool,
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
    trial: Trial,
    hanging: Hanging,
    unmade: Unmade,
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
            trial: Trial::default(),
            hanging: Hanging::default(),
            unmade: Unmade::default(),
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
        let owed = |dial: &Dial| !dial.is_trial && dial.done_ns.is_none() && dial.sent_ns < sent_before;
        self.dials.values().any(owed)
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
        self.refused(now, None, (None, error, false), retry_in_ns, path, cx);
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
            self.look_by(now.saturating_add(path.stall_threshold_ns(cx)), cx);
        }
        match self.schedule.as_ref().and_then(Schedule::next_due_ns) {
            Some(due) => cx.timers.set(due, Timer::Due, self.path),
            None => self.drain(now, cx.settings.timeout_ns, cx),
        }
    }

    fn dial(&mut self, due_ns: u64, now: u64, remote: SocketAddr, cx: &mut Context) {
        let connection = cx.worker.next_connection(self.path);
        let flags = if self.warm_up_left > 0 { Flags::WARM_UP } else { Flags::default() };
        self.warm_up_left = self.warm_up_left.saturating_sub(1);
        let dial = Dial { connection, due_ns, flags, ..Dial::to(remote, now) };
        let tls = cx.settings.request == Request::Connect { tls: true };
        self.connect(dial, tls, cx);
    }

    fn connect(&mut self, dial: Dial, tls: bool, cx: &mut Context) {
        let link = LinkId::none_yet(self.base + self.path + self.stride * self.next);
        self.next += 1;
        let (path, remote, purpose) = (self.path, dial.remote, Purpose::Sample { tls });
        self.dials.insert(link, dial);
        cx.emit(Output::Connect { link, path, remote, purpose });
    }

    /// The driver has begun to connect.
    pub(in crate::probe) fn connecting(&mut self, link: LinkId, since_ns: u64, cx: &mut Context) {
        let Some(dial) = self.dials.get_mut(&link) else { return };
        dial.sent_ns = since_ns;
        // Without such a policy, a sample lasts as long as the kernel tries.
        let trial_ns = dial.is_trial.then(|| limit_ns(cx.settings.timeout_ns));
        if let Some(limit) = cx.settings.give_up_ns.or(trial_ns) {
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
        if dial.is_trial {
            self.trial_answered(now, link, cx);
        } else if cx.settings.request == (Request::Connect { tls: false }) {
            self.done(now, link, path, cx);
        }
    }

    /// The connection is all that it is made for: the sample is from before the first packet to this moment.
    pub(in crate::probe) fn done(&mut self, now: u64, link: LinkId, path: &mut Path, cx: &mut Context) {
        let Some(dial) = self.dials.get_mut(&link) else { return };
        let Some(established_ns) = dial.established_ns else { return };
        dial.done_ns = Some(now);
        self.hanging.answered(now);
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
        Self::shut_down(now, link, cx);
    }

    /// Our FIN goes first. Wait for the peer's, because closing a socket with unread bytes (a greeting) would send a
    /// RST.
    fn shut_down(now: u64, link: LinkId, cx: &mut Context) {
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
        let local = error.is_local();
        let advice = match error.source {
            ErrorSource::Tls => error.text.clone(),
            // What is timed here is whatever server is meant to listen there.
            _ if error.kind == ErrorKind::ConnectionRefused && !local => {
                format!(
                    "{} refused the connection: nothing listens there, or something rejects it",
                    path.target()
                )
            }
            _ => connect_advice(path.target(), Some(dial.remote), error),
        };
        let told = (error.errno, advice.clone(), local);
        if dial.is_trial {
            return self.trial_failed(now, &dial, told, path, cx);
        }
        if local {
            // Nothing was sent: this is no sample, and says nothing about the address.
            self.unmade.add(dial.due_ns);
            cx.end.local = Some(advice);
        } else {
            cx.sample(self.path, dial.row(dial.flags | Flags::UNANSWERED, cx));
            cx.end.refused = Some(advice);
            if self.hanging.is_news(dial.sent_ns) {
                path.addresses.failed(dial.remote);
            }
        }
        let next_due = self.schedule.as_ref().and_then(Schedule::next_due_ns);
        let next_ns = next_due.filter(|_| self.drain_ns.is_none()).map(|due| due.saturating_sub(now));
        self.refused(now, Some(&dial), told, next_ns, path, cx);
        if next_ns.is_some() && !local {
            path.refresh_addresses(now, cx);
        }
        self.one_ended(now, path, cx);
    }

    /// Records a failed attempt: its number, its error, and whether this host failed.
    fn refused(
        &self,
        now: u64,
        dial: Option<&Dial>,
        (errno, error, local): (Option<i32>, String, bool),
        retry_in_ns: Option<u64>,
        path: &mut Path,
        cx: &mut Context,
    ) {
        path.refused(now, local, cx);
        let (target, remote) = (path.target().to_owned(), dial.map(|dial| dial.remote.to_string()));
        let waited_ns = dial.filter(|dial| !dial.is_trial).map(|dial| now.saturating_sub(dial.sent_ns));
        let kind = EventKind::ConnectionRefused {
            target,
            remote,
            errno,
            error,
            retry_in_ns,
            waited_ns,
            local,
            lane: None,
        };
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
        if dial.is_trial {
            return self.one_ended(now, path, cx);
        }
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
}

impl Dial {
    /// One to this address that begins now, without a number.
    fn to(remote: SocketAddr, now: u64) -> Self {
        Self {
            connection: 0,
            remote,
            due_ns: now,
            sent_ns: now,
            flags: Flags::default(),
            local: String::new(),
            established_ns: None,
            done_ns: None,
            info: None,
            is_trial: false,
        }
    }

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
