//! How a lane's connections end, and the lane itself.

use super::{Lane, Link, watch};
use crate::cause::ClosingCause;
use crate::probe::context::Context;
use crate::probe::diagnosis::canary::Death;
use crate::probe::io::{NetError, Output};
use crate::probe::path::Path;
use crate::probe::settings::Transport;
use crate::probe::timers::{Armed, Timer};
use crate::probe::words::cause_of;
use crate::verdict::Outcome;

impl Lane {
    /// What came back is not what was sent.
    pub(super) fn not_an_echo(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        if let Some(connection) = self.connection() {
            connection.not_an_echo = true;
        }
        let error = path.not_an_echo();
        if !path.ever_answered() && !cx.settings.keep_trying {
            path.give_up_because(error.clone(), cx);
        }
        self.close(now, ClosingCause::LocalError, None, Some(error), path, cx);
    }

    pub(in crate::probe) fn closed_by_peer(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        self.close(now, ClosingCause::PeerClosed, None, None, path, cx);
    }

    pub(in crate::probe) fn broken(&mut self, now: u64, error: NetError, path: &mut Path, cx: &mut Context) {
        if matches!(self.link, Link::Opening) {
            return self.connect_failed(now, &error, path, cx);
        }
        if let Some(connection) = self.connection() {
            connection.broke(error.kind);
        }
        self.close(now, cause_of(&error), error.errno, Some(error.text), path, cx);
    }

    /// The connection is over; every sample still out on it is unanswered.
    pub(super) fn close(
        &mut self,
        now: u64,
        cause: ClosingCause,
        errno: Option<i32>,
        error: Option<String>,
        path: &mut Path,
        cx: &mut Context,
    ) {
        let Link::Open(connection) = &mut self.link else { return };
        watch::explain_as_it_stands(connection, now, path, cx);
        let (remote, unanswered) = (connection.remote(), connection.stream.answered() == 0);
        let from_ns = connection.silent_since(cx.settings.transport).map_or(now, |(_, from)| from);
        let facts = connection.facts(now, Outcome::Closed(cause), from_ns, path, cx);
        if cause.is_loss() {
            watch::stall_ended(connection, now, false, path, cx);
        } else {
            watch::goes_on(connection, now, path, cx);
        }
        let Link::Open(connection) = std::mem::replace(&mut self.link, Link::Idle) else { return };
        let (ordinal, view, size) =
            (connection.ordinal(), connection.local_view(), connection.missing_size());
        let doubted = connection.silence.doubted();
        connection.close(now, self.path, cause, errno, error, cx);
        cx.emit(Output::Close { link: self.link() });
        path.disconnected(facts.idle, cause.is_loss());
        self.failed_here = facts.address_gone.then_some(true);
        if matches!(cause, ClosingCause::PeerClosed | ClosingCause::Reset) {
            path.turned_away(cx);
        }
        if unanswered && cause.is_loss() && cx.settings.transport == Transport::Udp {
            path.addresses.never_answered(remote);
        }
        if cause.is_loss() {
            let death = Death { connection: ordinal, facts, view, size, replied: false, doubted };
            path.canaries.explain_death(now, death, remote, cx);
        }
        (self.armed, self.asking) = (Armed::default(), false);
        if !cause.is_loss() || cx.stopping || self.agenda.is_over() || path.is_given_up() {
            self.link = Link::Done;
        } else if cx.settings.reconnect {
            let wait = self.opening.wait_ns();
            self.arm(Timer::Retry, now + wait, cx);
        } else {
            self.link = Link::Done;
            cx.end.lost = true;
        }
    }

    /// Ends the lane in order, once the kernel has been asked about its connection for the last time.
    pub(in crate::probe) fn finish(&mut self, cx: &mut Context) {
        match &mut self.link {
            Link::Open(connection) => {
                if !std::mem::replace(&mut connection.finishing, true) {
                    cx.look(self.link());
                }
            }
            Link::Opening => {
                self.opening.cancel(cx);
                self.link = Link::Done;
            }
            Link::Idle | Link::Done => self.link = Link::Done,
        }
    }

    /// What was due and could not be sent is told as not sent when nothing more is going to be.
    fn give_up_dues(&mut self, now: u64, cx: &mut Context) {
        let (connection, reason) = match &self.link {
            Link::Open(connection) if connection.is_blocked() => (Some(connection.ordinal()), "blocked"),
            Link::Open(connection) => (Some(connection.ordinal()), "late"),
            _ => (None, self.without_connection()),
        };
        cx.skipped(now, self.path, connection, self.agenda.give_up_dues(now), reason);
    }

    /// No more samples: it ends when its echoes have come, or after `linger_ns`.
    pub(in crate::probe) fn stop(&mut self, now: u64, linger_ns: u64, cx: &mut Context) {
        if let Some(connection) = self.connection() {
            connection.withdraw();
        }
        self.give_up_dues(now, cx);
        self.agenda.stop(cx.settings.pace, now);
        match self.connection() {
            Some(connection) if !connection.stream.is_idle() && linger_ns > 0 => {
                // A wait that has begun is not made longer.
                let at = self.armed.at(Timer::Drain).map_or(now + linger_ns, |at| at.min(now + linger_ns));
                self.arm(Timer::Drain, at, cx);
            }
            _ => self.finish(cx),
        }
    }
}
