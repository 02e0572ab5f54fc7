//! What a driver does: it does what the probe asks for, in order, and tells what came of it.

use super::faults::no_port;
use super::flow::{BUFFER, Flow, Stage};
use super::{SILENCE_NS, START, World, toy};
use fathom_core::clock::Anchor;
use fathom_core::event::EventKind;
use fathom_core::probe::{Input, LinkId, NetError, Output, Progress, Purpose};
use fathom_wire::HEADER_LEN;
use std::io::ErrorKind;
use std::net::SocketAddr;

/// Bytes that are written at once.
const PEN: usize = 4 << 10;

impl World {
    pub(super) fn tell(&mut self, input: Input<'_>) {
        self.probe.handle(self.now, input);
        self.obey();
    }

    /// Does everything that the probe asks for, and tells what broke in doing it.
    pub(super) fn obey(&mut self) {
        self.do_outputs();
        while let Some((link, error)) = self.broken.pop_front() {
            if self.flows.contains_key(&link) {
                self.probe.handle(self.now, Input::Broken { link, error });
                self.do_outputs();
                assert!(!self.flows.contains_key(&link), "{link:?} broke, and the probe keeps it");
            }
        }
    }

    pub(super) fn do_outputs(&mut self) {
        while let Some(output) = self.probe.poll() {
            let now = self.now;
            if self.traces {
                self.outcome.trace.push(format!("{now} {output:?}"));
            }
            match output {
                Output::Sample { path, sample } => self.outcome.samples.push((path, sample)),
                Output::Event { path, event } => {
                    if let EventKind::ConnectionOpened { .. } = event.kind
                        && let Some(link) = self.connected.pop_front()
                    {
                        let key = (path.unwrap_or(0), event.connection.unwrap_or(0));
                        self.outcome.ordinals.insert(link, key);
                    }
                    self.outcome.samples_before.push(self.outcome.samples.len());
                    self.outcome.events.push((path, *event));
                }
                Output::Anchor { .. } | Output::Load(_) => {}
                Output::ReadClock => {
                    let anchor = Anchor { mono_ns: now, utc_ns: self.wall.utc(now) };
                    self.probe.handle(now, Input::Clock { anchor, error_ns: None });
                }
                Output::Resolve { path } if self.resolving_ns == 0 => {
                    let addresses = self.addresses_now();
                    self.probe.handle(now, Input::Resolved { path, addresses });
                }
                Output::Resolve { path } => {
                    let at = now + self.random.below(self.resolving_ns);
                    self.resolving.push((at, path));
                }
                Output::Connect { link, path, remote, purpose } => self.connect(link, path, remote, purpose),
                Output::Send { link } if self.late_sends => {
                    self.outcome.held_up = true;
                    self.sends.push(link);
                }
                Output::Send { link } => self.send(link),
                Output::Look { link } => {
                    let tells = self.kernel_tells && !self.is_udp();
                    let flow = self.flows.get(&link).filter(|_| tells);
                    let info = flow.map(|flow| flow.view(now, self.rtt_ns));
                    self.probe.handle(now, Input::Kernel { link, info });
                }
                Output::Shutdown { link } => {
                    let ready_ns = now + 2 * self.one_way();
                    let flow = self.flows.get_mut(&link).expect("the probe closes links that it made");
                    flow.stage = Stage::Closing { ready_ns };
                    flow.packets.clear();
                }
                Output::Close { link } => {
                    self.silence_ends(link, None);
                    let flow = self.flows.remove(&link).expect("the probe closes links that it made, once");
                    if flow.purpose == Purpose::Samples {
                        self.outcome.handed_over.insert(link, flow.handed_over);
                    }
                    self.gone.push(link);
                }
            }
        }
    }

    fn connect(&mut self, link: LinkId, path: usize, remote: SocketAddr, purpose: Purpose) {
        let (now, one_way) = (self.now, self.one_way());
        self.probe.handle(now, Input::Connecting { link, since_ns: now });
        if now < self.no_ports_until && !self.is_udp() {
            return self.refuse_to_begin(link, purpose);
        }
        let refused = now < self.refuse_until
            || now < self.listens_ns + START.mono_ns
            || self.dead.contains(&remote)
            || self.bad_paths.contains(&path);
        let at_once = self.refused_first > 0;
        self.refused_first = self.refused_first.saturating_sub(1);
        let refused = refused || at_once;
        let ready_ns = now + if at_once { one_way } else { 2 * one_way };
        if let Some((address, _, moves)) = self.goes_silent.take_if(|(_, at, _)| now >= *at) {
            self.silent.push(address);
            if moves {
                self.addresses = vec![SocketAddr::from(([10, 0, 0, 7], 7007))];
            }
        }
        let ready_ns = if self.silent.contains(&remote) { u64::MAX } else { ready_ns };
        let stage =
            if self.is_udp() { Stage::Open } else { Stage::Connecting { ready_ns, refused, began_ns: now } };
        let before = self.flows.insert(link, Flow::new(stage, purpose, now));
        assert!(before.is_none(), "{link:?} is open already");
        // More than this of one path are not made at one time: others wait.
        self.outcome.held_up |= self.flows.len() >= 1_024;
        if self.is_udp() {
            self.opened(link);
        }
    }

    /// This host has no port for a connection. The probe releases it at once.
    fn refuse_to_begin(&mut self, link: LinkId, purpose: Purpose) {
        self.flows.insert(link, Flow::new(Stage::Open, purpose, self.now));
        self.probe.handle(self.now, Input::ConnectFailed { link, error: no_port() });
    }

    /// Tells that a connection is established. What the probe asks for then is done by whoever called.
    pub(super) fn opened(&mut self, link: LinkId) {
        if self.flows.get(&link).is_some_and(|flow| flow.purpose == Purpose::Samples) {
            self.connected.push_back(link);
        }
        let local = "10.0.0.2:50000".to_owned();
        self.probe.handle(self.now, Input::Connected { link, local, resent: false, kernel: None });
    }

    pub(super) fn send(&mut self, link: LinkId) {
        let now = self.now;
        let mut pen = vec![0; PEN];
        let Some(piece) = self.probe.write(link, &mut pen) else { return };
        self.probe.stamp(link, now, &mut pen[..piece.len]);
        let udp = self.is_udp();
        let flow = self.flows.get_mut(&link).expect("the probe sends on links that it made");
        let fails = std::mem::take(&mut flow.fails);
        let full = if udp { BUFFER } else { BUFFER.saturating_sub(flow.in_buffers) };
        let short = fails || self.random.percent(self.short_writes);
        let room = if short { self.random.below(piece.size as u64) as usize } else { full };
        // A datagram goes as a whole or not at all.
        let room = if udp && short { 0 } else { room.min(full) };
        let mut offset = piece.offset;
        let mut bytes = Vec::new();
        while offset < piece.size && bytes.len() < room {
            let len = pen.len().min(piece.size - offset);
            if offset > piece.offset {
                self.probe.fill(link, piece.seq, offset, &mut pen[..len]);
            }
            let taken = len.min(room - bytes.len());
            bytes.extend_from_slice(&pen[..taken]);
            offset += taken;
        }
        let progress = match offset {
            _ if offset == piece.size => Progress::Whole,
            0 => Progress::Nothing,
            _ => Progress::UpTo(offset),
        };
        let begins = piece.offset == 0 && progress != Progress::Nothing;
        self.handed_over(link, bytes, begins, piece.size);
        if progress != Progress::Whole {
            self.outcome.held_up = true;
            let room_at = now + self.random.between(1, 5_000_000);
            let flow = self.flows.get_mut(&link).expect("as above");
            (flow.blocked, flow.room_at) = (true, short.then_some(room_at));
        }
        if !fails || progress != Progress::Nothing {
            self.probe.handle(now, Input::Sent { link, sent_ns: now, sent_utc_ns: None, progress });
        }
        if fails {
            self.broken.push_back((link, NetError::of_kind(ErrorKind::BrokenPipe)));
        }
    }

    /// The kernel was given bytes of a message of this size, and puts them on their way.
    fn handed_over(&mut self, link: LinkId, bytes: Vec<u8>, begins: bool, size: usize) {
        let (now, udp) = (self.now, self.is_udp());
        let arrives = (now + self.one_way()).max(self.peer_runs_ns);
        let lost = udp && (self.random.percent(self.lost_percent) || self.lose.contains(&self.datagrams));
        let too_large = size > HEADER_LEN && now < self.large_lost_until;
        let lost = lost || too_large || (udp && now < self.silent_until);
        self.datagrams += u64::from(udp);
        let answer = if self.is_toy { toy::ANSWER } else { size };
        let flow = self.flows.get_mut(&link).expect("it was found");
        flow.handed_over += u64::from(begins);
        flow.forgotten |= too_large && !udp;
        if begins && !udp {
            flow.owes(now, answer);
        }
        if bytes.is_empty() {
            return;
        }
        if !udp {
            flow.in_buffers += bytes.len();
            flow.sent_bytes += bytes.len() as u64;
            flow.unacked_since.get_or_insert(now);
        }
        if !flow.forgotten && !lost {
            flow.put(arrives, false, bytes, true);
        }
    }

    /// Something comes of a link, or (`None`) it ends: what it was silent for, with samples out.
    pub(super) fn silence_ends(&mut self, link: LinkId, bytes: Option<usize>) {
        let threshold = self.settings.stall_after_ns.unwrap_or(SILENCE_NS);
        let (now, udp) = (self.now, self.is_udp());
        let Some(flow) = self.flows.get_mut(&link) else { return };
        if flow.purpose == Purpose::Samples && !udp {
            let Some((from, to, is_first)) = flow.comes(now, bytes, threshold) else { return };
            let silences =
                if is_first { &mut self.outcome.silences } else { &mut self.outcome.further_silences };
            silences.push((from, to));
        }
    }
}
