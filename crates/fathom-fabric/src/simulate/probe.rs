//! The driver of `fathom_core::probe` on a host's TCP in virtual time: it connects, writes, reads and tells. What is to
//! be done, and when, the probe says; nothing here decides it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fathom_core::clock::Anchor;
use fathom_core::event::{Event, TcpInfo};
use fathom_core::probe::{Input, LinkId, NetError, Output, Probe as Machine, Progress, Settings, Worker};
use fathom_core::sample::Sample;
use fathom_core::schedule::Pace;

use super::host::Host;
use super::link::{Gone, Link};
use crate::scenario::ProbeSpec;

/// The largest message of a scenario, and room for a header beside it.
const LARGEST: usize = 2_048;

/// What comes of a probe.
#[derive(Debug)]
pub(super) enum Made {
    Sample(Sample),
    Event(Box<Event>),
}

/// The moments at which a host did not run, oldest first: from, to (none while it goes on).
pub(super) type Pauses = [(u64, Option<u64>)];

/// A connection of the probe's.
#[derive(Debug)]
struct Open {
    link: Link,
    /// A message found no room.
    blocked: Option<usize>,
    /// Retransmissions when something last came.
    retransmits_before: u32,
}

/// A probe of the simulation.
#[derive(Debug)]
pub(super) struct Probe {
    /// Which host it runs at, by index.
    pub(super) at: usize,
    /// The addresses that the target's name leads to.
    addresses: Vec<SocketAddr>,
    machine: Machine,
    begin_ns: u64,
    user_timeout_ns: u64,
    size: usize,
    started: bool,
    links: BTreeMap<LinkId, Open>,
    /// Pauses of this host that the probe has been told of.
    pauses_told: usize,
}

impl Probe {
    pub(super) fn new(spec: &ProbeSpec, at: usize, target: SocketAddr, seed: u64, clock: Anchor) -> Self {
        let port = target.port();
        let named = spec.addresses.iter().map(|&ip| SocketAddr::new(ip, port));
        let addresses = if spec.addresses.is_empty() { vec![target] } else { named.collect() };
        let settings = Settings {
            session: seed as u32,
            pace: Pace::Every(spec.every_ns),
            size: spec.size,
            timeout_ns: spec.timeout_ns,
            reconnect: spec.reconnect,
            keep_trying: true,
            ..Settings::new(vec![target.to_string()])
        };
        Self {
            at,
            addresses,
            machine: Machine::new(settings, Worker::alone(1), clock),
            begin_ns: spec.begin_ns,
            user_timeout_ns: spec.user_timeout_ns,
            size: spec.size as usize,
            started: false,
            links: BTreeMap::new(),
            pauses_told: 0,
        }
    }

    /// When something is to be done without a packet, ns.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        if !self.started {
            return Some(self.begin_ns);
        }
        let links = self.links.values().filter_map(|open| open.link.gives_up_ns());
        links.chain(self.machine.next_wake()).min()
    }

    /// Does what is due, and tells what the host's TCP made possible. `pauses` are this host's.
    pub(super) fn run(&mut self, now: u64, host: &mut Host, pauses: &Pauses, take: &mut impl FnMut(Made)) {
        if now < self.begin_ns {
            return;
        }
        if !std::mem::replace(&mut self.started, true) {
            self.machine.start(now);
            self.obey(now, host, take);
        }
        while let Some(&(began_ns, Some(ended_ns))) = pauses.get(self.pauses_told) {
            self.pauses_told += 1;
            self.tell(now, host, Input::Paused { began_ns, ended_ns, reason: None }, take);
        }
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        for link in links {
            self.look(link, now, host, take);
        }
        while self.machine.next_wake().is_some_and(|at| at <= now) {
            self.tell(now, host, Input::Wake, take);
        }
    }

    /// The simulation is over.
    pub(super) fn finish(&mut self, now: u64, host: &mut Host, take: &mut impl FnMut(Made)) {
        if self.started {
            // The second time at once.
            self.tell(now, host, Input::Stop, take);
            self.tell(now, host, Input::Stop, take);
        }
    }

    fn tell(&mut self, now: u64, host: &mut Host, input: Input<'_>, take: &mut impl FnMut(Made)) {
        self.machine.handle(now, input);
        self.obey(now, host, take);
    }

    /// Looks what became of a link.
    fn look(&mut self, id: LinkId, now: u64, host: &mut Host, take: &mut impl FnMut(Made)) {
        let Some(Open { link, .. }) = self.links.get_mut(&id) else { return };
        let failed = |(kind, errno)| NetError { errno: Some(errno), ..NetError::of_kind(kind) };
        if !link.established {
            match link.connecting(now, host) {
                None => {}
                Some(Ok(())) => {
                    let local = SocketAddr::new(host.address, link.port).to_string();
                    let resent = host.observed(link.port).retransmits > 0;
                    self.tell(now, host, Input::Connected { link: id, local, resent, kernel: None }, take);
                }
                Some(Err(error)) => {
                    let error = failed(error);
                    self.tell(now, host, Input::ConnectFailed { link: id, error }, take);
                }
            }
            return;
        }
        let bytes = link.receive(now, host);
        if !bytes.is_empty() {
            self.tell(now, host, Input::Arriving { link: id, bytes: bytes.len() }, take);
            let wants = self.machine.wants_kernel_view(id, now);
            let kernel = if wants { self.view(id, host) } else { None };
            if let Some(open) = self.links.get_mut(&id) {
                open.retransmits_before = host.observed(open.link.port).retransmits;
            }
            self.tell(now, host, Input::Received { link: id, bytes: &bytes, stamps: None, kernel }, take);
        }
        let Some(Open { link, blocked, .. }) = self.links.get_mut(&id) else { return };
        match link.gone(now, host) {
            None => {
                if blocked.take_if(|size| host.has_room(link.handle, *size)).is_some() {
                    self.tell(now, host, Input::Writable { link: id }, take);
                }
            }
            Some(Gone::Error(kind, errno)) => {
                let error = failed((kind, errno));
                self.tell(now, host, Input::Broken { link: id, error }, take);
            }
            Some(Gone::Closed) => self.tell(now, host, Input::Closed { link: id }, take),
        }
    }

    /// What a kernel would tell of a connection. Its smoothed round trip is not known here, which 0 says.
    fn view(&self, id: LinkId, host: &Host) -> Option<TcpInfo> {
        let Open { link, retransmits_before, .. } = self.links.get(&id)?;
        let total_retrans = host.observed(link.port).retransmits;
        let waiting = host.unacknowledged(link.handle);
        // Each retransmission here is a timeout: nothing comes back that could ask for one earlier.
        let in_a_row = total_retrans.saturating_sub(*retransmits_before);
        Some(TcpInfo {
            total_retrans,
            retransmits: in_a_row.min(u32::from(u8::MAX)) as u8,
            unacked: waiting.div_ceil(self.size.max(1)) as u32,
            // As Linux counts them, the SYN is one.
            bytes_acked: (link.sent_bytes - waiting.min(link.sent_bytes)) as u64 + 1,
            ..TcpInfo::default()
        })
    }

    /// Does everything that the probe asks for.
    fn obey(&mut self, now: u64, host: &mut Host, take: &mut impl FnMut(Made)) {
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Sample { sample, .. } => take(Made::Sample(sample)),
                Output::Event { event, .. } => take(Made::Event(event)),
                Output::Resolve { path } => {
                    let addresses = Ok(self.addresses.clone());
                    self.machine.handle(now, Input::Resolved { path, addresses });
                }
                Output::Connect { link, remote, .. } => {
                    let opened = Link::connect(now, host, remote, self.user_timeout_ns);
                    self.links.insert(link, Open { link: opened, blocked: None, retransmits_before: 0 });
                    self.machine.handle(now, Input::Connecting { link, since_ns: now });
                }
                Output::Send { link } => self.send(link, now, host),
                Output::Look { link } => {
                    let info = self.view(link, host);
                    self.machine.handle(now, Input::Kernel { link, info });
                }
                Output::Close { link } => self.forget(link, host),
                // Both clocks are one here: nothing sets the wall clock.
                Output::ReadClock | Output::Anchor { .. } | Output::Load(_) | Output::Shutdown { .. } => {}
            }
        }
    }

    fn send(&mut self, id: LinkId, now: u64, host: &mut Host) {
        let Some(Open { link, blocked, .. }) = self.links.get_mut(&id) else { return };
        let mut buffer = [0; LARGEST];
        let Some(piece) = self.machine.write(id, &mut buffer) else { return };
        let progress = if link.send(now, host, &buffer[..piece.len]) {
            Progress::Whole
        } else {
            *blocked = Some(piece.len);
            Progress::Nothing
        };
        self.machine.handle(now, Input::Sent { link: id, sent_ns: now, sent_utc_ns: None, progress });
    }

    fn forget(&mut self, link: LinkId, host: &mut Host) {
        if let Some(Open { link, .. }) = self.links.remove(&link) {
            host.forget(link.handle, link.port);
        }
    }
}
