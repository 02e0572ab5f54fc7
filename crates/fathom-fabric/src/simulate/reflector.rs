//! A host's reflector: sends back what comes on every port, stamps frames of ours and answers questions about
//! connections, as `fathom echo` does.

use std::collections::HashMap;

use fathom_core::clock::Anchor;
use fathom_wire::{
    About, Answer, ConnectionView, Introduction, Key, LongPauses, Question, Reply, Stamper, Standing,
    WAKING_NS,
};
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, State};

/// A connection that is served.
#[derive(Debug)]
struct Served {
    handle: SocketHandle,
    stamper: Stamper,
    /// When bytes were last read, by the simulation's clock.
    received_mono_ns: u64,
    received_ns: i64,
    /// The peer's port.
    port: Option<u16>,
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

/// What is said of a connection that ended.
#[derive(Debug, Clone, Copy)]
struct Ended {
    last: Answer,
    received_mono_ns: u64,
    port: Option<u16>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Reflector {
    clock: Anchor,
    /// Whether there is a process that listens.
    runs: bool,
    /// When the process began, by the simulation's clock.
    began_ns: u64,
    place: u32,
    process: u32,
    identity: u32,
    /// How long its host did not run since then.
    paused_ns: u64,
    /// When it last ran again, and for how long it had not.
    latest_pause: Option<(u64, u64)>,
    long_pauses: LongPauses,
    /// Sockets that listen, and connections.
    served: Vec<Served>,
    ended: HashMap<Key, Ended>,
}

impl Reflector {
    pub(super) fn new(clock: Anchor, place: u32, process: u32) -> Self {
        Self {
            clock,
            runs: true,
            began_ns: 0,
            place,
            process,
            identity: fathom_wire::identity_of(place, process),
            paused_ns: 0,
            latest_pause: None,
            long_pauses: LongPauses::default(),
            served: Vec::new(),
            ended: HashMap::new(),
        }
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
        (self.runs, self.paused_ns, self.latest_pause, self.began_ns) = (true, 0, None, now_ns);
        self.long_pauses = LongPauses::default();
        // The next process at the same place.
        self.process = self.process.wrapping_add(1);
        self.identity = fathom_wire::identity_of(self.place, self.process);
    }

    pub(super) fn paused(&mut self, now_ns: u64, duration_ns: u64) {
        self.paused_ns += duration_ns;
        self.latest_pause = Some((now_ns, duration_ns));
        self.long_pauses.add(now_ns.saturating_sub(duration_ns), now_ns);
    }

    /// How many sockets wait for connections to this port. Each takes one.
    pub(super) fn listening(&self, port: u16, sockets: &SocketSet<'static>) -> usize {
        let waits = |served: &&Served| {
            let socket = sockets.get::<Socket<'_>>(served.handle);
            socket.state() == State::Listen && socket.listen_endpoint().port == port
        };
        self.served.iter().filter(waits).count()
    }

    pub(super) fn serve(&mut self, handle: SocketHandle) {
        self.served.push(Served {
            handle,
            stamper: Stamper::default(),
            received_mono_ns: 0,
            received_ns: 0,
            port: None,
            closed_by_probe: false,
            orphaned: false,
        });
    }

    /// Sends back what came. Whether there was anything.
    pub(super) fn reflect(&mut self, now_ns: u64, sockets: &mut SocketSet<'static>) -> bool {
        let mut busy = false;
        let utc_ns = self.clock.utc_of(now_ns);
        let pause_us = (self.paused_ns / 1_000) as u32;
        let waited = self.latest_pause.is_some_and(|(ended, _)| now_ns < ended + WAKING_NS);
        let (received_ns, sent_ns, identity) = (utc_ns, utc_ns, self.identity);
        let (epoch, tells_pauses) = (0, true);
        let view = ConnectionView { received_ns, sent_ns, pause_us, identity, waited, epoch, tells_pauses };
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
                self.served[at].port =
                    socket.remote_endpoint().map(|peer| peer.port).or(self.served[at].port);
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
                stamper
                    .pass_answering(view, &mut bytes, |question| self.reply(at, question, now_ns, sockets));
                let served = &mut self.served[at];
                (served.stamper, served.received_ns, served.received_mono_ns) = (stamper, utc_ns, now_ns);
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
                        let Served { received_mono_ns, port, .. } = *served;
                        ended.insert(key, Ended { last: served.answer(standing, 0), received_mono_ns, port });
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
    fn reply(
        &self,
        asker: usize,
        question: &Question,
        now_ns: u64,
        sockets: &SocketSet<'static>,
    ) -> Option<Reply> {
        let key = Key { session: question.session, connection: question.connection };
        let open = self.served.iter().position(|served| !served.orphaned && served.key() == Some(key));
        let ended = self.ended.get(&key);
        if question.about == About::Notices {
            return Some(Reply::Notice(None));
        }
        if question.about == About::Reflector {
            let known = open.map(|at| (self.served[at].received_mono_ns, self.served[at].port));
            let known = known.or_else(|| ended.map(|ended| (ended.received_mono_ns, ended.port)));
            let ago_ms = |at: u64| (now_ns.saturating_sub(at) / 1_000_000) as u32;
            return Some(Reply::Reflector(Introduction {
                age_ns: now_ns - self.began_ns,
                identity: self.identity,
                received_ago_ms: known.map(|(received, _)| ago_ms(received)),
                pause_ms: self.long_pauses.told(now_ns, question.silence()),
                port: known.and_then(|(_, port)| port),
                ..Introduction::default()
            }));
        }
        if let Some(at) = open {
            let waiting = sockets.get::<Socket<'_>>(self.served[at].handle).send_queue() > 0;
            let seen = || Reply::Connection(self.served[at].answer(Standing::Open, u16::from(waiting)));
            return (at != asker).then(seen);
        }
        let unknown = Answer { received_ns: self.clock.utc_of(self.began_ns), ..Answer::default() };
        Some(Reply::Connection(ended.map_or(unknown, |ended| ended.last)))
    }
}
