//! How a lane gets its connections: attempts, their events, and what follows from one that came to nothing.

use crate::event::{EventKind, TcpInfo};
use crate::probe::connection::Connection;
use crate::probe::context::Context;
use crate::probe::io::{LinkId, NetError, Output, Purpose};
use crate::probe::path::Path;
use crate::probe::policy::reconnect::Attempts;
use crate::probe::settings::Transport;
use crate::probe::words::connect_advice;
use fathom_wire::Key;
use std::net::SocketAddr;

/// What follows from an attempt that came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Another after this time.
    RetryIn(u64),
    /// None: the path is given up.
    GiveUp,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Opening {
    /// The link of the latest attempt.
    link: LinkId,
    path: usize,
    /// The lane's number in the recording of its path.
    number: u32,
    attempts: Attempts,
    /// The attempt under way: to where, and since when.
    attempt: Option<(SocketAddr, u64)>,
}

impl Opening {
    pub(super) fn new(link: LinkId, path: usize, number: u32, attempts: Attempts) -> Self {
        Self { link, path, number, attempts, attempt: None }
    }

    /// The link of the latest attempt, and of the connection that came of it.
    pub(super) fn link(&self) -> LinkId {
        self.link
    }

    /// Begins to connect to the path's current address; whether there is one.
    pub(super) fn begin(&mut self, now: u64, path: &mut Path, cx: &mut Context) -> bool {
        let Some(remote) = path.addresses.current() else { return false };
        let (attempt, lane) = (self.attempts.begin(), Some(self.number));
        let (target, text) = (path.target().to_owned(), remote.to_string());
        let kind = EventKind::ConnectionOpening { target, remote: text, attempt, lane };
        cx.event(now, Some(self.path), None, kind);
        self.attempt = Some((remote, now));
        path.attempt_began();
        cx.openings.began();
        self.link = self.link.next();
        let (link, path, purpose) = (self.link, self.path, Purpose::Samples);
        cx.emit(Output::Connect { link, path, remote, purpose });
        true
    }

    /// The driver has begun to connect; whether there is an attempt that it can be.
    pub(super) fn began(&mut self, began_ns: u64) -> bool {
        if let Some((_, since_ns)) = &mut self.attempt {
            *since_ns = began_ns;
        }
        self.attempt.is_some()
    }

    /// The attempt is not wanted any more: nothing more is to come of its path.
    pub(super) fn cancel(&mut self, cx: &mut Context) {
        if self.attempt.take().is_some() {
            cx.openings.ended();
            cx.emit(Output::Close { link: self.link });
        }
    }

    /// The attempt came to nothing.
    pub(super) fn failed(
        &mut self,
        now: u64,
        error: &NetError,
        path: &mut Path,
        cx: &mut Context,
    ) -> Option<Next> {
        let (remote, _) = self.attempt?;
        path.attempt_ended();
        self.cancel(cx);
        let (advice, local) = (connect_advice(path.target(), Some(remote), error), error.is_local());
        if local {
            cx.end.local = Some(advice.clone());
        }
        let untried = path.addresses.failed(remote);
        Some(self.refused(now, Some(remote), (error.errno, advice, local), untried, path, cx))
    }

    /// The name did not resolve.
    pub(super) fn not_resolved(
        &mut self,
        now: u64,
        error: String,
        path: &mut Path,
        cx: &mut Context,
    ) -> Next {
        self.refused(now, None, (None, error, false), false, path, cx)
    }

    /// The next address at once, another attempt later, or the end of the path.
    fn refused(
        &mut self,
        now: u64,
        remote: Option<SocketAddr>,
        (errno, error, local): (Option<i32>, String, bool),
        untried: bool,
        path: &mut Path,
        cx: &mut Context,
    ) -> Next {
        path.refused(now, local, cx);
        let next = if untried {
            Next::RetryIn(0)
        } else if !path.may_be_reached() && !cx.settings.keep_trying {
            Next::GiveUp
        } else {
            Next::RetryIn(self.attempts.wait_ns())
        };
        let retry_in_ns = if let Next::RetryIn(wait) = next { Some(wait) } else { None };
        let (target, remote, lane) =
            (path.target().to_owned(), remote.map(|r| r.to_string()), Some(self.number));
        let kind = EventKind::ConnectionRefused {
            target,
            remote,
            errno,
            error: error.clone(),
            retry_in_ns,
            waited_ns: None,
            local,
            lane,
        };
        cx.event(now, Some(self.path), None, kind);
        if next == Next::GiveUp {
            path.give_up_because(error, cx);
        }
        next
    }

    /// The attempt led to a connection.
    pub(super) fn succeeded(
        &mut self,
        now: u64,
        local: String,
        kernel: Option<TcpInfo>,
        path: &mut Path,
        cx: &mut Context,
    ) -> Option<Connection> {
        let (remote, since_ns) = self.attempt.take()?;
        path.attempt_ended();
        cx.openings.ended();
        let ordinal = cx.worker.next_connection(self.path);
        let key = Key { session: cx.settings.session_of(self.path), connection: ordinal };
        let mut connection = Connection::new(key, remote, now, cx);
        connection.saw(kernel);
        connection.opened_from(&local);
        path.waited(now, cx);
        let before = path.connected(remote);
        let connect_ns = if cx.settings.transport == Transport::Udp { 0 } else { now - since_ns };
        let kind = EventKind::ConnectionOpened {
            target: path.target().to_owned(),
            local,
            remote: remote.to_string(),
            connect_ns: connect_ns as i64,
            tls_ns: None,
            // The recording thread finds out by which interface: asking takes system calls.
            interface: None,
            lane: Some(self.number),
        };
        cx.event(now, Some(self.path), Some(ordinal), kind);
        if let Some(before) = before {
            let (what, from, to) = ("remote".to_owned(), before.ip().to_string(), remote.ip().to_string());
            cx.event(now, Some(self.path), Some(ordinal), EventKind::AddressChanged { what, from, to });
        }
        Some(connection)
    }

    /// An echo came. A connection alone is no success: where each is lost before anything is answered (a datagram socket is
    /// connected whatever is there, a proxy accepts for a dead server), the waits between them grow.
    pub(super) fn answered(&mut self) {
        self.attempts.succeeded();
    }

    /// How long to wait before another attempt, after a connection was lost.
    pub(super) fn wait_ns(&mut self) -> u64 {
        self.attempts.wait_ns()
    }
}
