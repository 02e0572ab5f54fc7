//! Connections that come in: whom there is room for, and what happens where there is none.

use super::{FIRST_SOCKET, Server, interest};
use crate::connection::Connection;
use crate::listen::Socket;
use crate::talk::note;
use fathom_wire::Standing;
use mio::Token;
use mio::net::TcpStream;
use std::io;
use std::net::SocketAddr;

const ACCEPTS_A_TURN: usize = 256;
/// When the host has no descriptor or memory for another connection, the next is tried after so long.
const ACCEPT_REST_NS: u64 = 200_000_000;
/// ...and that is said again after so long.
const ACCEPT_SAY_AGAIN_NS: u64 = 60_000_000_000;

impl Server {
    /// Takes new connections, up to the listener's share; whether more may be there.
    pub(super) fn accept(&mut self, index: usize, now_ns: u64) -> bool {
        if self.accept_again_ns.is_some() {
            return false;
        }
        for _ in 0..ACCEPTS_A_TURN {
            let Socket::Tcp(listener) = &self.sockets[index].socket else { return false };
            match listener.accept() {
                Ok((stream, peer)) => {
                    // A connection that breaks while it is being set up is no different from one that broke before.
                    if let Err(error) = self.admit(stream, peer, now_ns) {
                        self.tally.connections_failed += 1;
                        tracing::debug!(%peer, %error, "broke while it was set up");
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
                Err(e) if is_about_one_connection(&e) => {}
                Err(e) => {
                    self.rest_from_accepting(&e, now_ns);
                    return false;
                }
            }
        }
        true
    }

    /// No descriptors or no memory: asking again at once would spin. The kernel keeps what comes in its backlog.
    fn rest_from_accepting(&mut self, e: &io::Error, now_ns: u64) {
        self.accept_again_ns = Some(now_ns + ACCEPT_REST_NS);
        if self.accept_trouble_told_ns.is_none_or(|told| now_ns > told + ACCEPT_SAY_AGAIN_NS) {
            self.accept_trouble_told_ns = Some(now_ns);
            note(&format!(
                "cannot take another connection beyond {}: {e}; those that come wait. Raise the open-files limit \
                 (ulimit -n, LimitNOFILE=) or refuse them with --max-connections",
                self.open
            ));
        }
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, now_ns: u64) -> io::Result<()> {
        if !self.allow.permits(peer.ip()) {
            self.tally.refused.not_allowed += 1;
            tracing::debug!(%peer, "refused: no network that --allow names");
            return Ok(());
        }
        if self.open >= self.max_connections && !self.make_room(now_ns) {
            self.tally.refused.too_many += 1;
            tracing::debug!(%peer, open = self.open, "refused: too many connections");
            return Ok(());
        }
        stream.set_nodelay(true)?;
        let slot = self.free.last().map_or(self.slots.len(), |&slot| slot as usize);
        let token = Token(FIRST_SOCKET + self.sockets.len() + slot);
        let mut connection = Connection::new(stream, peer.port(), now_ns).of_those_who_know(self.key.clone());
        self.poll.registry().register(connection.stream(), token, interest())?;
        if slot == self.slots.len() {
            self.slots.push(Some(connection));
        } else {
            self.free.pop();
            self.slots[slot] = Some(connection);
        }
        self.open += 1;
        self.tally.connections += 1;
        tracing::debug!(%peer, slot, open = self.open, "accepted");
        if let Some(idle) = &mut self.idle {
            idle.watch(slot as u32, now_ns);
        }
        let slots = &self.slots;
        self.silent.came(slot as u32, now_ns, self.open as usize, |slot, at| is_silent(slots, slot, at));
        Ok(())
    }

    /// Closes the first connection that never sent anything, if there is one.
    fn make_room(&mut self, now_ns: u64) -> bool {
        let slots = &self.slots;
        let silent = self.silent.makes_room(now_ns, |slot, at| is_silent(slots, slot, at));
        if let Some(slot) = silent {
            self.tally.connections_silent_closed += 1;
            self.close(slot as usize, Standing::ClosedIdle);
        }
        silent.is_some()
    }
}

fn is_silent(slots: &[Option<Connection>], slot: u32, opened_ns: u64) -> bool {
    slots[slot as usize].as_ref().is_some_and(|connection| connection.is_silent_since(opened_ns))
}

/// Errors of accept that concern the one connection. The manual, accept(2): "Linux `accept()` passes already-pending
/// network errors on the new socket as an error code from `accept()`", to be treated "like EAGAIN by retrying".
fn is_about_one_connection(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::TimedOut
    )
}
