//! A host in virtual time: the TCP of smoltcp at one address, and a reflector that answers on every port.
//!
//! smoltcp is no kernel: its retransmission timer is at least a second, as RFC 6298 has it, where Linux waits 200 ms.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use fathom_core::clock::Anchor;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr};

use super::reflector::Reflector;
use crate::packet::{Flags, Packet, Segment};
use crate::world::HostId;

/// Bytes that a connection holds each way: more than any probe has outstanding before its user timeout.
const BUFFER: usize = 64 << 10;
/// A connection that was closed, and whose peer does not answer, is forgotten after so long: about what Linux gives an
/// orphan (`tcp_orphan_retries`, eight by default; Documentation/networking/ip-sysctl.rst).
const ORPHAN: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(100);
/// The first port that connections are made from: IANA's dynamic ports (RFC 6335).
const FIRST_PORT: u16 = 49_152;

/// smoltcp counts µs; a moment is rounded down, and a timer's moment is exact.
fn instant(ns: u64) -> Instant {
    Instant::from_micros((ns / 1_000) as i64)
}

fn micros(ns: u64) -> smoltcp::time::Duration {
    smoltcp::time::Duration::from_micros(ns / 1_000)
}

/// A number for the place at an address.
fn place(address: IpAddr) -> u32 {
    let bits = match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    (bits ^ bits >> 13 ^ bits >> 26) as u32
}

#[derive(Debug, Default)]
struct Device {
    received: VecDeque<Vec<u8>>,
    sent: VecDeque<Vec<u8>>,
    mtu: usize,
}

struct Received(Vec<u8>);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

struct Sending<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut bytes = vec![0; len];
        let result = f(&mut bytes);
        self.0.push_back(bytes);
        result
    }
}

impl phy::Device for Device {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sending<'_>)> {
        let bytes = self.received.pop_front()?;
        Some((Received(bytes), Sending(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        Some(Sending(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

/// What is known of a connection besides its socket.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Observed {
    /// A RST came for it.
    pub(super) reset: bool,
    /// Segments with data that were sent again.
    pub(super) retransmits: u32,
    /// The sequence number after the last byte that was sent.
    sent_to: Option<u32>,
}

/// TCP at one address of a host.
pub(super) struct Host {
    pub(super) id: HostId,
    pub(super) address: IpAddr,
    interface: Interface,
    sockets: SocketSet<'static>,
    device: Device,
    /// Answers on every port.
    reflector: Reflector,
    /// SYNs that came since it last ran, by the port that they ask for.
    syns: HashMap<u16, usize>,
    /// Connections of probes, by their port here.
    observed: HashMap<u16, Observed>,
    next_port: u16,
    /// Connections that were closed here and are not over, with their ports.
    closing: BTreeMap<u16, SocketHandle>,
    /// When [`Host::poll`] must be called, ns; something happened if it lies in the past.
    pub(super) due_ns: Option<u64>,
    /// The host does not run.
    pub(super) frozen: bool,
    /// Something may have changed for those that run here...
    pub(super) touched: bool,
    /// ...for whoever has one of these ports...
    ports_touched: Vec<u16>,
    /// ...or for everybody.
    all_touched: bool,
    /// When a timer of its TCP goes next, ns.
    timer_ns: Option<u64>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("address", &self.address)
            .field("due_ns", &self.due_ns)
            .finish_non_exhaustive()
    }
}

impl Host {
    pub(super) fn new(id: HostId, address: IpAddr, mtu: u16, seed: u64, clock: Anchor) -> Self {
        let mut device = Device { mtu: usize::from(mtu), ..Device::default() };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut device, instant(0));
        // Everybody is a neighbour: the world does the routing. An interface without addresses has room for one.
        interface.update_ip_addrs(|addresses| addresses.extend([IpCidr::new(address.into(), 0)]));
        Self {
            id,
            address,
            interface,
            sockets: SocketSet::new(Vec::new()),
            device,
            reflector: Reflector::new(clock, place(address), seed as u32),
            syns: HashMap::new(),
            observed: HashMap::new(),
            next_port: FIRST_PORT,
            closing: BTreeMap::new(),
            due_ns: None,
            frozen: false,
            touched: false,
            ports_touched: Vec::new(),
            all_touched: false,
            timer_ns: None,
        }
    }

    fn socket(&mut self) -> SocketHandle {
        let mut socket = Socket::new(SocketBuffer::new(vec![0; BUFFER]), SocketBuffer::new(vec![0; BUFFER]));
        // TCP_NODELAY, as everywhere.
        socket.set_nagle_enabled(false);
        self.sockets.add(socket)
    }

    /// Begins a connection; gives its socket and its port here. Port 0: all are taken, and the socket is closed.
    pub(super) fn connect(&mut self, now_ns: u64, remote: SocketAddr) -> (SocketHandle, u16) {
        let handle = self.socket();
        let Some(port) = self.free_port() else { return (handle, 0) };
        let socket = self.sockets.get_mut::<Socket<'_>>(handle);
        // The port is never 0 and both addresses are of one version, so there is nothing to refuse; were it refused,
        // the socket would be closed, which is a failed attempt to whoever looks.
        let _ = socket.connect(self.interface.context(), (remote.ip(), remote.port()), port);
        self.observed.insert(port, Observed::default());
        self.due_ns = Some(now_ns);
        (handle, port)
    }

    /// In a month of virtual time the ports come round, and some are still in use.
    fn free_port(&mut self) -> Option<u16> {
        for _ in FIRST_PORT..=u16::MAX {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
            if !self.observed.contains_key(&port) && !self.closing.contains_key(&port) {
                return Some(port);
            }
        }
        None
    }

    #[cfg(test)]
    pub(super) fn take_all_ports(&mut self) {
        self.observed.extend((FIRST_PORT..=u16::MAX).map(|port| (port, Observed::default())));
    }

    /// Lets a connection go. Nothing more is sent on it.
    pub(super) fn forget(&mut self, handle: SocketHandle, port: u16) {
        self.sockets.remove(handle);
        self.observed.remove(&port);
    }

    /// Closes a connection in order, as a program does that has no more use for it.
    pub(super) fn close(&mut self, now_ns: u64, handle: SocketHandle, port: u16) {
        let socket = self.sockets.get_mut::<Socket<'_>>(handle);
        if matches!(socket.state(), State::Established | State::CloseWait) {
            socket.close();
            socket.set_timeout(Some(ORPHAN));
            self.closing.insert(port, handle);
            self.observed.remove(&port);
            self.due_ns = Some(now_ns);
        } else {
            self.forget(handle, port);
        }
    }

    pub(super) fn state(&self, handle: SocketHandle) -> State {
        self.sockets.get::<Socket<'_>>(handle).state()
    }

    pub(super) fn observed(&self, port: u16) -> Observed {
        self.observed.get(&port).copied().unwrap_or_default()
    }

    /// Bytes that the peer has not acknowledged.
    pub(super) fn unacknowledged(&self, handle: SocketHandle) -> usize {
        self.sockets.get::<Socket<'_>>(handle).send_queue()
    }

    /// How many bytes can be sent.
    pub(super) fn room(&self, handle: SocketHandle) -> usize {
        let socket = self.sockets.get::<Socket<'_>>(handle);
        if socket.can_send() { socket.send_capacity() - socket.send_queue() } else { 0 }
    }

    /// Whether so many bytes can be sent.
    pub(super) fn has_room(&self, handle: SocketHandle, size: usize) -> bool {
        self.room(handle) >= size
    }

    /// Asks the peer for a sign of life that often while the connection is idle.
    pub(super) fn keep_alive(&mut self, handle: SocketHandle, every_ns: u64) {
        self.sockets.get_mut::<Socket<'_>>(handle).set_keep_alive(Some(micros(every_ns)));
    }

    /// Ends the connection when nothing came from the peer for so long; `None`: never.
    pub(super) fn end_after(&mut self, handle: SocketHandle, silent_ns: Option<u64>) {
        self.sockets.get_mut::<Socket<'_>>(handle).set_timeout(silent_ns.map(micros));
    }

    /// Sends bytes, all or none.
    pub(super) fn send(&mut self, now_ns: u64, handle: SocketHandle, bytes: &[u8]) -> bool {
        if !self.has_room(handle, bytes.len()) {
            return false;
        }
        self.due_ns = Some(now_ns);
        self.sockets.get_mut::<Socket<'_>>(handle).send_slice(bytes) == Ok(bytes.len())
    }

    /// Takes what came.
    pub(super) fn receive(&mut self, now_ns: u64, handle: SocketHandle) -> Vec<u8> {
        let socket = self.sockets.get_mut::<Socket<'_>>(handle);
        let mut all = Vec::new();
        while socket.can_recv() {
            match socket.recv(|bytes| (bytes.len(), all.extend_from_slice(bytes))) {
                Ok(()) => {}
                Err(_) => break,
            }
        }
        if !all.is_empty() {
            // The window has grown.
            self.due_ns = Some(now_ns);
        }
        all
    }

    /// Whether something may have changed for the connection from this port.
    pub(super) fn has_touched(&self, port: u16) -> bool {
        self.all_touched || self.ports_touched.contains(&port)
    }

    /// Everybody has looked.
    pub(super) fn settle(&mut self) {
        self.touched = false;
        self.all_touched = false;
        self.ports_touched.clear();
    }

    /// It runs again: what came meanwhile has not been looked at.
    pub(super) fn thaw(&mut self, now_ns: u64) {
        self.all_touched = true;
        self.due_ns = Some(now_ns);
    }

    /// It did not run for so long.
    pub(super) fn paused(&mut self, now_ns: u64, duration_ns: u64) {
        self.reflector.paused(now_ns, duration_ns);
    }

    /// The process of its reflector ends.
    pub(super) fn stop_reflector(&mut self, now_ns: u64) {
        self.reflector.stop(&mut self.sockets);
        self.due_ns = Some(now_ns);
    }

    /// Another one begins.
    pub(super) fn start_reflector(&mut self, now_ns: u64) {
        self.reflector.start(now_ns);
    }

    /// A packet arrived.
    pub(super) fn deliver(&mut self, now_ns: u64, packet: Packet) {
        if let Some(segment) = packet.segment() {
            let port = packet.flow().destination.port();
            self.ports_touched.push(port);
            if segment.flags.has(Flags::RST)
                && let Some(observed) = self.observed.get_mut(&port)
            {
                observed.reset = true;
            }
            if segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK) {
                self.listen(port);
            }
        }
        self.device.received.push_back(packet.into_bytes());
        self.due_ns = Some(now_ns);
    }

    /// Somebody wants to connect to this port: there is a reflector on it, while one runs.
    fn listen(&mut self, port: u16) {
        if !self.reflector.runs() || self.observed.contains_key(&port) {
            return;
        }
        // Several may come at one time.
        let syns = self.syns.entry(port).or_default();
        *syns += 1;
        if self.reflector.listening(port, &self.sockets) >= *syns {
            return;
        }
        let handle = self.socket();
        // Port 0 cannot be listened on; a SYN to it is answered with RST then.
        let _ = self.sockets.get_mut::<Socket<'_>>(handle).listen(port);
        self.reflector.serve(handle);
    }

    /// Does what is due, and gives every packet that leaves.
    pub(super) fn poll(&mut self, now_ns: u64, mut out: impl FnMut(Vec<u8>)) {
        self.syns.clear();
        // A timer may end any of the connections.
        self.all_touched |= self.timer_ns.is_some_and(|at| at <= now_ns);
        loop {
            self.interface.poll(instant(now_ns), &mut self.device, &mut self.sockets);
            if !self.reflector.reflect(now_ns, &mut self.sockets) {
                break;
            }
        }
        let sockets = &mut self.sockets;
        self.closing.retain(|_, &mut handle| {
            let open = sockets.get::<Socket<'_>>(handle).state() != State::Closed;
            if !open {
                sockets.remove(handle);
            }
            open
        });
        while let Some(bytes) = self.device.sent.pop_front() {
            self.watch(&bytes);
            out(bytes);
        }
        let wants = self.interface.poll_at(instant(now_ns), &self.sockets);
        // What it wants at once has just been done; a µs on, time has passed for it too.
        self.timer_ns = wants.map(|at| (at.total_micros().max(0) as u64 * 1_000).max(now_ns + 1_000));
        self.due_ns = self.timer_ns;
    }

    /// Counts what a probe's connection sends again.
    fn watch(&mut self, bytes: &[u8]) {
        if self.observed.is_empty() {
            return;
        }
        let Ok(packet) = Packet::parse(0, 0, bytes.to_vec()) else { return };
        let Some(observed) = self.observed.get_mut(&packet.flow().source.port()) else { return };
        let Some(Segment { seq, payload_len, flags, .. }) = packet.segment() else { return };
        let length = payload_len + u32::from(flags.has(Flags::SYN)) + u32::from(flags.has(Flags::FIN));
        if length == 0 {
            return;
        }
        // Sequence numbers wrap (RFC 9293, section 3.4).
        match observed.sent_to {
            Some(sent_to) if (seq.wrapping_sub(sent_to) as i32) < 0 => observed.retransmits += 1,
            _ => observed.sent_to = Some(seq.wrapping_add(length)),
        }
    }
}

#[cfg(test)]
impl Host {
    /// Sockets that it holds, whatever their state.
    pub(super) fn sockets(&self) -> usize {
        self.sockets.iter().count()
    }
}
