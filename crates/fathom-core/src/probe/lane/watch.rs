//! The watch over a connection that is silent: when a silence becomes a stall, when to doubt it, when to let go of it.

use super::{Lane, Link};
use crate::cause::ClosingCause;
use crate::event::{EventKind, TcpInfo};
use crate::probe::connection::Connection;
use crate::probe::context::Context;
use crate::probe::diagnosis::canary::{Doubted, explained};
use crate::probe::diagnosis::ways::between;
use crate::probe::path::Path;
use crate::probe::policy::give_up;
use crate::probe::policy::reconnect::READ_WITHIN_NS;
use crate::probe::timers::Timer;
use crate::stall::Change;
use crate::verdict::{Fresh, Outcome};

/// While a connection stalls, the kernel's view of it is taken this often: after an error it reads zero.
const STALL_LOOK_NS: u64 = 250_000_000;
/// A silence is doubted after this long: a lost segment alone is repaired sooner.
const DOUBT_AFTER_NS: u64 = 1_000_000_000;

/// What follows from a look at a silence.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing is missing.
    Nothing,
    /// Ask the kernel, and judge again by what it says.
    AskKernel,
    /// Look again at this time.
    LookAt(u64),
    /// The connection is to be abandoned: why.
    Abandon(String),
}

impl Lane {
    /// A silence that was looked at is over. The next look was meant for it, and may come too late for the one that begins
    /// now.
    pub(super) fn watch_anew(&mut self, now: u64, path: &Path, cx: &mut Context) {
        let Link::Open(connection) = &self.link else { return };
        let at = now + connection.asks_after_ns(path.stall_threshold_ns(cx));
        if connection.missing(cx.settings.transport).is_some() {
            self.arm(Timer::Watch, at, cx);
        } else {
            self.armed.disarm(Timer::Watch);
        }
    }

    /// The threshold may have fallen since the next look was set.
    pub(super) fn watch_sooner(&mut self, now: u64, path: &Path, cx: &mut Context) {
        let (Link::Open(connection), Some(armed)) = (&self.link, self.armed.at(Timer::Watch)) else { return };
        if connection.silence.stall().is_some() {
            return;
        }
        if let Some((_, from_ns)) = connection.silent_since(cx.settings.transport) {
            let at = from_ns + connection.asks_after_ns(path.stall_threshold_ns(cx));
            if at < armed {
                self.arm(Timer::Watch, at.max(now), cx);
            }
        }
    }

    /// A stall that is over has waited long enough for a later echo.
    pub(super) fn explain(&mut self, now: u64, path: &Path, cx: &mut Context) {
        if let Some(connection) = self.connection() {
            explain_as_it_stands(connection, now, path, cx);
        }
    }

    /// Looks whether the connection is silent for too long.
    pub(super) fn watch(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        self.look_at_silence(now, false, path, cx);
    }

    /// The kernel was asked about the connection.
    pub(in super::super) fn kernel(
        &mut self,
        now: u64,
        info: Option<TcpInfo>,
        path: &mut Path,
        cx: &mut Context,
    ) {
        self.asking = false;
        let Some(connection) = self.connection() else { return };
        connection.saw_in_silence(now, info);
        if connection.finishing {
            self.close(now, ClosingCause::Finished, None, None, path, cx);
        } else {
            self.look_at_silence(now, true, path, cx);
        }
    }

    fn look_at_silence(&mut self, now: u64, asked: bool, path: &mut Path, cx: &mut Context) {
        let Link::Open(connection) = &mut self.link else { return };
        match look(connection, now, asked, path, cx) {
            Next::Nothing => {}
            Next::AskKernel => {
                self.asking = true;
                cx.look(self.link());
            }
            Next::LookAt(at) => self.arm(Timer::Watch, at, cx),
            Next::Abandon(why) => {
                self.close(now, ClosingCause::Abandoned, None, Some(why), path, cx);
            }
        }
    }
}

/// Whether the connection is silent for too long. Beyond the threshold the kernel is asked first; `asked`: it was.
pub(super) fn look(
    connection: &mut Connection,
    now: u64,
    asked: bool,
    path: &mut Path,
    cx: &mut Context,
) -> Next {
    let transport = cx.settings.transport;
    let threshold_ns = path.stall_threshold_ns(cx);
    let Some((_, sent_ns)) = connection.missing(transport) else { return Next::Nothing };
    let missing = connection.silent_since(transport);
    let Some((_, from_ns)) = missing else { return Next::Nothing };
    let asks_at = from_ns + connection.asks_after_ns(threshold_ns);
    if !asked && now >= asks_at {
        return Next::AskKernel;
    }
    // Read first what arrived while this host did not run.
    let read_by = cx.pauses.latest().map_or(0, |(_, ended_ns)| ended_ns + READ_WITHIN_NS);
    let give_up_at = give_up::at_ns(cx.settings.give_up_ns, sent_ns).map(|at| at.max(read_by));
    if give_up_at.is_some_and(|at| now >= at) {
        return Next::Abandon(give_up::words(now.saturating_sub(sent_ns)));
    }
    let echoed = path.canaries.since(from_ns).0 == Fresh::Echoed;
    connection.silence.others_pass(echoed, connection.transmissions(transport));
    let retransmits = connection.retransmits();
    let change = connection.silence.look(now, threshold_ns, missing, retransmits);
    let ordinal = connection.ordinal();
    let next = match change {
        Change::LookAt(at) if asks_at > now => at.min(asks_at),
        Change::LookAt(at) => at,
        _ => now + STALL_LOOK_NS,
    };
    if let Change::Began(stall) = change {
        explain_as_it_stands(connection, now, path, cx);
        let outstanding = connection.stream.outstanding() as u64;
        let kind = EventKind::StallBegan { seq: stall.seq, outstanding, threshold_ns };
        cx.event(now, Some(path.index()), Some(ordinal), kind);
    }
    if now.saturating_sub(from_ns) >= threshold_ns.max(DOUBT_AFTER_NS) {
        let view = connection.local_view();
        let first = connection.silence.doubts(Doubted { since_ns: from_ns, view });
        let (remote, size) = (connection.remote(), connection.missing_size());
        path.canaries.doubt(now, ordinal, from_ns, first, (remote, size), cx);
    }
    Next::LookAt(give_up_at.map_or(next, |at| next.min(at)))
}

/// An echo came: the stall, if there was one, is over and explained. True: the silence had been looked at.
pub(super) fn silence_over(connection: &mut Connection, now: u64, path: &mut Path, cx: &mut Context) -> bool {
    let looked = connection.silence.was_looked_at();
    later_echo(connection, now, path, cx);
    if let Some(stall) = connection.silence.stall() {
        let facts = connection.facts(now, Outcome::Recovered, stall.sent_mono_ns, path, cx);
        stall_ended(connection, now, true, path, cx);
        if now.saturating_sub(stall.sent_mono_ns) >= DOUBT_AFTER_NS && path.served_by.is_some() {
            path.canaries.ask_for_notices(now, (stall.sent_mono_ns, now), connection.remote(), cx);
        }
        match path.read {
            Some((first, _)) if facts.awaits_a_later_echo() => {
                connection.unexplained = Some(Box::new((facts, first)));
            }
            _ => explained(now, path.index(), connection.ordinal(), "stall", &facts, cx),
        }
    }
    connection.silence.over();
    connection.read_is_over(path);
    looked
}

/// An echo came after the one that ended a stall: where it tells of the time that one was late by, the stall is explained.
fn later_echo(connection: &mut Connection, now: u64, path: &Path, cx: &mut Context) {
    let Some(unexplained) = &mut connection.unexplained else { return };
    let Some((_, last)) = path.read else { return };
    let (facts, first) = unexplained.as_mut();
    let told = between(first, &last);
    if told.is_none_or(|(paused_ns, apart_ns)| facts.later_echo(paused_ns, apart_ns)) {
        explain_as_it_stands(connection, now, path, cx);
    }
}

/// No later echo will tell more of a stall that is over.
pub(super) fn explain_as_it_stands(connection: &mut Connection, now: u64, path: &Path, cx: &mut Context) {
    if let Some(unexplained) = connection.unexplained.take() {
        explained(now, path.index(), connection.ordinal(), "stall", &unexplained.0, cx);
    }
}

/// The run ends while a stall goes on: it is explained as far as it goes, and has no end.
pub(super) fn goes_on(connection: &mut Connection, now: u64, path: &mut Path, cx: &mut Context) {
    if let Some(stall) = connection.silence.stall_ended() {
        let facts = connection.facts(now, Outcome::GoesOn, stall.sent_mono_ns, path, cx);
        explained(now, path.index(), connection.ordinal(), "stall", &facts, cx);
    }
}

/// Tells the end of the stall that goes on, if one does.
pub(super) fn stall_ended(
    connection: &mut Connection,
    now: u64,
    recovered: bool,
    path: &mut Path,
    cx: &mut Context,
) {
    let Some(stall) = connection.silence.stall_ended() else { return };
    let retransmits = connection.retransmits_since(stall.retransmits_before);
    let duration_ns = now.saturating_sub(stall.sent_mono_ns);
    let samples = connection.stream.next_seq() - stall.seq;
    path.usual.stall_ended(stall.sent_mono_ns, now);
    let kind = EventKind::StallEnded { duration_ns, samples, recovered, retransmits };
    cx.event(now, Some(path.index()), Some(connection.ordinal()), kind);
}
