//! What the driver tells of one connection or of one path, brought to whom it concerns.

use super::{Next, Role, Roles};
use crate::event::TcpInfo;
use crate::probe::context::Context;
use crate::probe::diagnosis::canary::Reply;
use crate::probe::io::{Input, LinkId, NetError};
use std::collections::BTreeMap;
use std::net::SocketAddr;

impl Roles {
    /// Takes an input that concerns one connection or one path.
    pub(in crate::probe::run) fn handle(&mut self, now: u64, input: Input<'_>, cx: &mut Context) -> Next {
        match input {
            Input::Arriving { link, bytes } => {
                if let Some(lane) = self.lane(link) {
                    lane.arriving(now, bytes, cx);
                }
            }
            Input::Received { link, bytes, stamps, kernel } => {
                self.received(now, link, bytes, stamps, kernel, cx);
            }
            Input::Sent { link, sent_ns, sent_utc_ns, progress } => match self.role(link) {
                Role::Lane(i) => {
                    let lane = &mut self.lanes[i];
                    lane.sent(sent_ns, sent_utc_ns, progress, &self.paths[lane.path()], cx);
                }
                Role::Canary(p) => self.paths[p].canaries.sent(now, progress, cx),
                Role::Dial(_) | Role::Gone => {}
            },
            Input::Transmitted { link, id, counted, utc_ns } => {
                if let Some(connection) = self.connection(link) {
                    connection.stream.transmitted(id, counted, utc_ns);
                }
            }
            Input::Writable { link } => match self.role(link) {
                Role::Lane(i) => self.lanes[i].writable(now, cx),
                Role::Canary(p) => self.paths[p].canaries.writable(now, cx),
                Role::Dial(_) | Role::Gone => {}
            },
            Input::AddressGone { link } => {
                if let Some(connection) = self.connection(link) {
                    connection.silence.address_gone();
                }
            }
            Input::Kernel { link, info } => {
                if let Role::Lane(i) = self.role(link) {
                    let lane = &mut self.lanes[i];
                    lane.kernel(now, info, &mut self.paths[lane.path()], cx);
                }
            }
            connecting => return self.connecting(now, connecting, cx),
        }
        Next::Nothing
    }

    /// What the driver tells of connections that are being made or have ended.
    fn connecting(&mut self, now: u64, input: Input<'_>, cx: &mut Context) -> Next {
        match input {
            Input::Resolved { path: p, addresses } => return self.resolved(now, p, addresses, cx),
            Input::Connecting { link, since_ns } => match self.role(link) {
                Role::Lane(i) => self.lanes[i].connecting(since_ns, cx),
                Role::Canary(_) | Role::Gone => {}
                Role::Dial(p) => self.dialers[p].connecting(link, since_ns, cx),
            },
            Input::Connected { link, local, resent, kernel } => match self.role(link) {
                Role::Lane(i) => {
                    let p = self.lanes[i].path();
                    self.lanes[i].connected(now, local, kernel, &mut self.paths[p], cx);
                    return Next::Begin(p);
                }
                Role::Canary(p) => {
                    let open = self.paths[p].open_remote();
                    self.paths[p].canaries.connected(now, resent, open, cx);
                }
                Role::Dial(p) => {
                    self.dialers[p].connected(now, link, local, kernel, &mut self.paths[p], cx);
                }
                Role::Gone => {}
            },
            Input::Secured { link } => {
                if let Role::Dial(p) = self.role(link) {
                    self.dialers[p].done(now, link, &mut self.paths[p], cx);
                }
            }
            Input::ConnectFailed { link, error } => match self.role(link) {
                Role::Lane(i) => {
                    let lane = &mut self.lanes[i];
                    lane.connect_failed(now, &error, &mut self.paths[lane.path()], cx);
                }
                Role::Canary(p) => {
                    let open = self.paths[p].open_remote();
                    self.paths[p].canaries.failed(now, &error, open, cx);
                }
                Role::Dial(p) => {
                    self.dialers[p].failed(now, link, &error, &mut self.paths[p], cx);
                }
                Role::Gone => {}
            },
            Input::Closed { link } => self.ended(now, link, None, cx),
            Input::Broken { link, error } => self.ended(now, link, Some(error), cx),
            _ => {}
        }
        Next::Nothing
    }

    /// The peer closed its side, or (`error`) the connection broke.
    fn ended(&mut self, now: u64, link: LinkId, error: Option<NetError>, cx: &mut Context) {
        match self.role(link) {
            Role::Lane(i) => {
                let lane = &mut self.lanes[i];
                let path = &mut self.paths[lane.path()];
                match error {
                    None => lane.closed_by_peer(now, path, cx),
                    Some(error) => lane.broken(now, error, path, cx),
                }
            }
            Role::Canary(p) => {
                let open = self.paths[p].open_remote();
                self.paths[p].canaries.closed(now, error.as_ref(), open, cx);
            }
            Role::Dial(p) => {
                self.dialers[p].closed(now, link, error.as_ref(), &mut self.paths[p], cx);
            }
            Role::Gone => {}
        }
    }

    fn resolved(
        &mut self,
        now: u64,
        p: usize,
        addresses: Result<Vec<SocketAddr>, String>,
        cx: &mut Context,
    ) -> Next {
        let (waiting, error) = self.paths[p].resolved(now, addresses);
        if let Some(dialer) = self.dialers.get_mut(p) {
            let Some(error) = error else { return Next::Dial(p) };
            dialer.not_resolved(now, error, &mut self.paths[p], cx);
            return Next::Nothing;
        }
        for i in waiting {
            match &error {
                None => self.open_lane(i, now, cx),
                Some(error) => {
                    self.lanes[i].not_resolved(now, error.clone(), &mut self.paths[p], cx);
                }
            }
        }
        Next::Nothing
    }

    fn received(
        &mut self,
        now: u64,
        link: LinkId,
        bytes: &[u8],
        stamps: Option<(i64, i64)>,
        kernel: Option<TcpInfo>,
        cx: &mut Context,
    ) {
        match self.role(link) {
            Role::Lane(i) => {
                let lane = &mut self.lanes[i];
                lane.received(now, bytes, stamps, kernel, &mut self.paths[lane.path()], cx);
            }
            Role::Canary(p) => {
                let open = self.paths[p].open_remote();
                let replies = self.paths[p].canaries.received(now, bytes, open, cx);
                self.peer_reported(now, p, replies);
            }
            Role::Dial(_) | Role::Gone => {}
        }
    }

    /// Brings what the reflector of a path said to the connections that are open.
    fn peer_reported(&mut self, now: u64, p: usize, replies: Vec<Reply>) {
        let answered = |(asked, report): Reply| Some((asked.connection, (asked, report?)));
        let mut reports: BTreeMap<u32, _> = replies.into_iter().filter_map(answered).collect();
        let mut of_path = self.lanes.iter_mut().filter(|lane| lane.path() == p);
        while !reports.is_empty()
            && let Some(lane) = of_path.next()
        {
            let Some(connection) = lane.connection() else { continue };
            if let Some((asked, report)) = reports.remove(&connection.ordinal()) {
                connection.silence.peer_reported(now, asked, report);
            }
        }
    }
}
