//! A host's reflector: sends back what comes on every port, stamps frames of ours and answers questions about
//! connections, as `fathom echo` does.

use std::collections::HashMap;

use fathom_core::clock::Anchor;
use fathom_wire::{Answer, ConnectionView, Key, Question, Stamper, Standing};
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, State};

/// A connection that is served.
#[derive(Debug)]
struct Served {
    handle: SocketHandle,
    stamper: Stamper,
    received_ns: i64,
    /// The probe's end closed it in order.
    closed_by_probe: bool,
    /// The process that served it is gone: its kernel closes it.
    orphaned: bool,
}

impl Served {
    fn key(&self) -> Option<Key> {
        self.stamper.latest().map(|frame| Key { session: frame.session, connection: frame.connection })
    }

    fn answer(&self, standing: Standing, unacked: u16) -> Answer {
        Answer {
            standing,
            last_seq: self.stamper.latest().map_or(0, |frame| frame.sequence),
            received_ns: self.received_ns,
            frames: self.stamper.frames(),
            unsent: 0,
            unacked: Some(unacked),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Reflector {
    clock: Anchor,
    /// Whether there is a process that listens.
    runs: bool,
    /// When the process began, UTC.
    began_ns: i64,
    /// How long its host did not run since then.
    paused_ns: u64,
    /// Sockets that listen, and connections.
    served: Vec<Served>,
    ended: HashMap<Key, Answer>,
}

impl Reflector {
    pub(super) fn new(clock: Anchor) -> Self {
        let began_ns = clock.utc_ns;
        Self { clock, runs: true, began_ns, paused_ns: 0, served: Vec::new(), ended: HashMap::new() }
    }

    /// Whether there is a process that listens.
    pub(super) fn runs(&self) -> bool {
        self.runs
    }

    /// The process ends: nothing listens any more, and its kernel closes its connections in order.
    pub(super) fn stop(&mut self, sockets: &mut SocketSet<'static>) {
        self.runs = false;
        self.ended.clear();
        self.served.retain_mut(|served| {
            let socket = sockets.get_mut::<Socket<'_>>(served.handle);
            if socket.state() == State::Listen {
                sockets.remove(served.handle);
                return false;
            }
            socket.close();
            served.orphaned = true;
            true
        });
    }

    /// Another process begins.
    pub(super) fn start(&mut self, now_ns: u64) {
        (self.runs, self.paused_ns, self.began_ns) = (true, 0, self.clock.utc_of(now_ns));
    }

    pub(super) fn paused(&mut self, duration_ns: u64) {
        self.paused_ns += duration_ns;
    }

    /// Whether a socket waits for connections to this port.
    pub(super) fn listens(&self, port: u16, sockets: &SocketSet<'static>) -> bool {
        self.served.iter().any(|served| {
            let socket = sockets.get::<Socket<'_>>(served.handle);
            socket.state() == State::Listen && socket.listen_endpoint().port == port
        })
    }

    pub(super) fn serve(&mut self, handle: SocketHandle) {
        self.served.push(Served {
            handle,
            stamper: Stamper::default(),
            received_ns: 0,
            closed_by_probe: false,
            orphaned: false,
        });
    }

    /// Sends back what came. Whether there was anything.
    pub(super) fn reflect(&mut self, now_ns: u64, sockets: &mut SocketSet<'static>) -> bool {
        let mut busy = false;
        let utc_ns = self.clock.utc_of(now_ns);
        let pause_us = (self.paused_ns / 1_000) as u32;
        let view = ConnectionView { received_ns: utc_ns, sent_ns: utc_ns, pause_us };
        for at in 0..self.served.len() {
            let handle = self.served[at].handle;
            if self.served[at].orphaned {
                // Nobody is left to read what comes: a kernel answers it with a RST (RFC 2525, section 2.17).
                let socket = sockets.get_mut::<Socket<'_>>(handle);
                if socket.can_recv() {
                    socket.abort();
                    busy = true;
                }
                continue;
            }
            loop {
                let socket = sockets.get_mut::<Socket<'_>>(handle);
                if !socket.can_recv() || !socket.can_send() {
                    break;
                }
                let room = socket.send_capacity() - socket.send_queue();
                let mut bytes = Vec::new();
                let taken = socket.recv(|came| {
                    bytes.extend_from_slice(&came[..came.len().min(room)]);
                    (bytes.len(), bytes.len())
                });
                if !matches!(taken, Ok(1..)) {
                    break;
                }
                let mut stamper = std::mem::take(&mut self.served[at].stamper);
                stamper.pass_answering(view, &mut bytes, |question| self.answer(at, question, sockets));
                self.served[at].stamper = stamper;
                self.served[at].received_ns = utc_ns;
                // There was room for all of it.
                let _ = sockets.get_mut::<Socket<'_>>(handle).send_slice(&bytes);
                busy = true;
            }
        }
        let ended = &mut self.ended;
        self.served.retain_mut(|served| {
            let socket = sockets.get_mut::<Socket<'_>>(served.handle);
            match socket.state() {
                State::Closed | State::TimeWait if served.orphaned => {
                    sockets.remove(served.handle);
                    false
                }
                State::CloseWait if !served.orphaned => {
                    socket.close();
                    served.closed_by_probe = true;
                    busy = true;
                    true
                }
                State::Closed | State::TimeWait => {
                    let standing =
                        if served.closed_by_probe { Standing::ClosedByProbe } else { Standing::Failed };
                    if let Some(key) = served.key() {
                        ended.insert(key, served.answer(standing, 0));
                    }
                    sockets.remove(served.handle);
                    false
                }
                _ => true,
            }
        });
        busy
    }

    /// What is known of the connection that is asked about; `None`: it is the one that asks, or it is not known and
    /// nothing is to be said of it.
    fn answer(&self, asker: usize, question: &Question, sockets: &SocketSet<'static>) -> Option<Answer> {
        let key = Key { session: question.session, connection: question.connection };
        let open = self.served.iter().position(|served| !served.orphaned && served.key() == Some(key));
        if let Some(at) = open {
            let waiting = sockets.get::<Socket<'_>>(self.served[at].handle).send_queue() > 0;
            return (at != asker).then(|| self.served[at].answer(Standing::Open, u16::from(waiting)));
        }
        let unknown = Answer { received_ns: self.began_ns, ..Answer::default() };
        Some(self.ended.get(&key).copied().unwrap_or(unknown))
    }
}
