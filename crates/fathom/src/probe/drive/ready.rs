//! Sockets that have something to tell: established, readable, writable, closed.

use super::link::{Socket, Stage};
use super::{Driver, secure};
use crate::probe::config::Transport;
use crate::probe::tls::Trouble;
use fathom_core::probe::{ErrorSource, Input, LinkId, NetError};
use fathom_os::clock::{mono_ns, utc_ns};
use fathom_os::socket;
use std::io;

/// Reads in one turn of a peer that talks on after this end has closed its side: it is cut off with the time for closing.
const READS_A_TURN: usize = 16;

impl Driver<'_> {
    /// A socket has something to tell. `closed`: the peer's end is known to have come too.
    pub(super) fn ready(&mut self, id: LinkId, readable: bool, writable: bool, closed: bool) {
        let Some(link) = self.links.get_mut(id) else { return };
        match (&link.stage, &link.socket) {
            (Stage::Connecting, Socket::Tcp(tcp)) => {
                let now = mono_ns();
                match socket::connect_result(tcp) {
                    Ok(false) => {}
                    Ok(true) => {
                        self.connected(id, now);
                        self.obey();
                        // One edge for both: what came with it would wait for the next.
                        let open =
                            self.links.get_mut(id).is_some_and(|link| matches!(link.stage, Stage::Open));
                        if readable && open {
                            self.read(id, closed);
                        }
                    }
                    Err(e) => {
                        let error = link.net_error(&e);
                        self.tell(now, Input::ConnectFailed { link: id, error });
                    }
                }
            }
            (Stage::Connecting, Socket::Udp(_)) => {}
            (Stage::Securing(_), _) => self.secure(id),
            (Stage::Closing, _) => {
                self.read_away(id);
                self.obey();
            }
            (Stage::Open, _) => {
                if readable {
                    self.read(id, closed);
                }
                if writable {
                    self.tell(mono_ns(), Input::Writable { link: id });
                }
            }
        }
    }

    /// Reads what has come.
    fn read(&mut self, id: LinkId, closed: bool) {
        while let Some(n) = self.read_once(id, false) {
            // Edge-triggered: less than asked for means that nothing is left, and what comes later, an end
            // of the stream included, is a new edge (epoll(7)); an end that came before is not.
            if n < self.scratch.len() && self.config.transport == Transport::Tcp && !closed {
                return;
            }
        }
    }

    /// Reads once, `wait`ing for something to come if so told; how many bytes came, or `None`: nothing is left, or the
    /// connection is over.
    pub(super) fn read_once(&mut self, id: LinkId, wait: bool) -> Option<usize> {
        loop {
            // The clock is read where something came, and not after each of a spinning probe's tries.
            let link = self.links.get_mut(id)?;
            match link.read(&mut self.scratch, wait) {
                Ok((0, _)) if self.config.transport == Transport::Tcp => {
                    self.tell_from_network(mono_ns(), Input::Closed { link: id });
                }
                Ok((n, arrived_utc_ns)) => {
                    self.take(id, n, arrived_utc_ns);
                    return Some(n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {
                    if !wait {
                        continue;
                    }
                }
                Err(e) => {
                    let error = link.net_error(&e);
                    self.tell_address_gone(mono_ns(), id);
                    self.tell_from_network(mono_ns(), Input::Broken { link: id, error });
                }
            }
            return None;
        }
    }

    /// Reads what came before a send failed: the peer answered it, and it lies in the kernel until it is read or the socket is
    /// closed. That the connection is over is told by whoever called.
    pub(super) fn read_rest(&mut self, id: LinkId) {
        while let Some(link) = self.links.get_mut(id).filter(|link| matches!(link.stage, Stage::Open)) {
            match link.read(&mut self.scratch, false) {
                Ok((0, _)) if self.config.transport == Transport::Tcp => return,
                Ok((n, arrived_utc_ns)) => self.take(id, n, arrived_utc_ns),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Hands on the `n` bytes just read into the scratch buffer. Kernel stamps are read between two echoes, so with them
    /// nothing is sent ahead.
    fn take(&mut self, id: LinkId, n: usize, arrived_utc_ns: Option<i64>) {
        let now = mono_ns();
        // The wall clock is read only here, beside the kernel's stamps, which are its readings.
        let stamps = arrived_utc_ns.map(|arrived| (arrived, utc_ns()));
        if self.links.get_mut(id).is_some_and(|link| !link.stamped) {
            // Should it not be taken, that is told after what has been read.
            self.probe.handle(now, Input::Arriving { link: id, bytes: n });
            self.do_outputs();
        } else if self.probe.wants_send_stamp(id) {
            self.take_send_stamps(id);
        }
        let kernel = if self.probe.wants_kernel_view(id, now) {
            self.links.get_mut(id).and_then(|link| link.socket.tcp_info())
        } else {
            None
        };
        self.tell_pauses(now);
        self.probe.handle(now, Input::Received { link: id, bytes: &self.scratch[..n], stamps, kernel });
        self.obey();
    }

    /// Reads away what a peer still says until it closes its side too. What the probe then asks for is done by whoever
    /// called.
    pub(super) fn read_away(&mut self, id: LinkId) {
        let mut buffer = [0; 4_096];
        for _ in 0..READS_A_TURN {
            let Some(link) = self.links.get_mut(id) else { return };
            match link.socket.read(&mut buffer) {
                Ok(0) => return self.probe.handle(mono_ns(), Input::Closed { link: id }),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    let error = NetError::from(&e);
                    return self.probe.handle(mono_ns(), Input::Broken { link: id, error });
                }
            }
        }
    }

    /// Begins the TLS handshake of a connection that is established.
    pub(super) fn begin_to_secure(&mut self, id: LinkId, now: u64) {
        let (Some(tls), Some(link)) = (&self.config.tls, self.links.get_mut(id)) else { return };
        match tls.begin(&self.config.paths[link.path].target.host) {
            Ok(connection) => {
                link.stage = Stage::Securing(Box::new(connection));
                self.go_on_securing(id);
            }
            Err(trouble) => self.not_secured(id, now, &trouble),
        }
    }

    fn secure(&mut self, id: LinkId) {
        self.go_on_securing(id);
        self.obey();
    }

    fn go_on_securing(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(id) else { return };
        let (Stage::Securing(connection), Socket::Tcp(tcp)) = (&mut link.stage, &mut link.socket) else {
            return;
        };
        match secure::handshake(connection, tcp) {
            Ok(false) => {}
            Ok(true) => {
                link.stage = Stage::Open;
                self.probe.handle(mono_ns(), Input::Secured { link: id });
            }
            Err(trouble) => self.not_secured(id, mono_ns(), &trouble),
        }
    }

    fn not_secured(&mut self, id: LinkId, now: u64, trouble: &Trouble) {
        let Some(link) = self.links.get_mut(id) else { return };
        let text = trouble.advice(&self.config.paths[link.path].target.to_string());
        let (errno, kind) = match trouble {
            Trouble::Broken(e) => (e.raw_os_error(), e.kind()),
            _ => (None, io::ErrorKind::Other),
        };
        let error = NetError { kind, errno, text, source: ErrorSource::Tls };
        self.probe.handle(now, Input::ConnectFailed { link: id, error });
    }
}
