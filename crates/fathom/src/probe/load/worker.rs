//! The thread of a load: sends what is due on its connections and counts what comes back. What the bytes are does not
//! matter: any echo server returns them, and whether one does is the samples' business.

use super::Counters;
use crate::probe::config::LoadPlan;
use fathom_core::load::Pacer;
use fathom_core::probe::{LoadOrder, LoadReport};
use fathom_os::clock::mono_ns;
use fathom_os::reactor::Reactor;
use fathom_os::socket::{self, TcpOptions};
use fathom_wire::pattern;
use mio::net::TcpStream;
use mio::{Interest, Token};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};

/// The most that is read or written at once.
const PIECE: usize = 64 << 10;
/// Reads, or writes without a rate, of one connection before the others get their turn.
const PIECES_A_TURN: usize = 8;
/// Of the bytes sent; any number will do that gives no frame of ours.
const SEED: u64 = 862;

struct Flow {
    socket: TcpStream,
    established: bool,
    readable: bool,
    writable: bool,
    sent: u64,
    echoed: u64,
    /// As `echoed` when the load was last told to run.
    echoed_before: u64,
}

pub(super) struct Worker {
    plan: LoadPlan,
    options: TcpOptions,
    reactor: Reactor,
    orders: Receiver<LoadOrder>,
    counters: Arc<Counters>,
    flows: Vec<Option<Flow>>,
    running: bool,
    /// Without a rate there is none.
    pacer: Option<Pacer>,
    /// What followed the latest order has been told.
    told: bool,
    /// The connection whose turn it is.
    turn: usize,
    payload: Box<[u8]>,
    scratch: Box<[u8]>,
}

impl Worker {
    pub(super) fn new(
        plan: LoadPlan,
        options: TcpOptions,
        reactor: Reactor,
        orders: Receiver<LoadOrder>,
        counters: Arc<Counters>,
    ) -> Self {
        let mut payload = vec![0; PIECE].into_boxed_slice();
        pattern::fill(SEED, 0, &mut payload);
        Self {
            flows: (0..plan.connections).map(|_| None).collect(),
            plan,
            options,
            reactor,
            orders,
            counters,
            running: false,
            pacer: None,
            told: true,
            turn: 0,
            payload,
            scratch: vec![0; PIECE].into_boxed_slice(),
        }
    }

    /// Runs until nobody gives orders any more.
    pub(super) fn run(mut self, tell: impl Fn(LoadReport)) {
        let mut events = mio::Events::with_capacity(256);
        loop {
            loop {
                match self.orders.try_recv() {
                    Ok(order) => self.obey(order).unwrap_or_else(|e| self.lost(&e, &tell)),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            let more = self.serve(&tell);
            if let Some(report) = self.progress() {
                self.told = true;
                tell(report);
            }
            let waits_for_room = !self.flows.iter().flatten().any(|flow| flow.writable);
            let due = self.pacer.as_ref().filter(|_| self.running && !waits_for_room).map(Pacer::next_ns);
            if let Err(e) = self.reactor.wait(&mut events, due, more) {
                return tell(LoadReport::Lost(format!("waiting failed: {e}")));
            }
            for event in &events {
                // (The reactor's own tokens are far beyond the connections'.)
                let Some(Some(flow)) = self.flows.get_mut(event.token().0) else { continue };
                flow.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
                flow.writable |= event.is_writable() || event.is_error();
            }
        }
    }

    fn obey(&mut self, order: LoadOrder) -> io::Result<()> {
        self.told = false;
        match order {
            LoadOrder::Run(remote) => {
                self.running = true;
                self.pacer = self.plan.bits_per_s.map(|bits| Pacer::new(bits, mono_ns()));
                for index in 0..self.flows.len() {
                    self.connect(index, remote)?;
                }
            }
            LoadOrder::Stop => {
                self.running = false;
                for flow in &mut self.flows {
                    flow.take_if(|flow| !flow.established);
                }
            }
            LoadOrder::CutOff => self.close(),
        }
        Ok(())
    }

    /// Makes a connection where there is none.
    fn connect(&mut self, index: usize, remote: SocketAddr) -> io::Result<()> {
        if let Some(flow) = &mut self.flows[index] {
            flow.echoed_before = flow.echoed;
            return Ok(());
        }
        let mut socket = socket::connect_tcp(remote, &self.options)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.reactor.registry().register(&mut socket, Token(index), interest)?;
        let (established, readable, writable) = (false, false, false);
        let (sent, echoed, echoed_before) = (0, 0, 0);
        self.flows[index] =
            Some(Flow { socket, established, readable, writable, sent, echoed, echoed_before });
        Ok(())
    }

    fn close(&mut self) {
        self.running = false;
        self.flows.fill_with(|| None);
    }

    fn lost(&mut self, error: &io::Error, tell: &impl Fn(LoadReport)) {
        self.close();
        self.told = true;
        tell(LoadReport::Lost(error.to_string()));
    }

    /// Reads and writes what there is, up to each connection's share; true where there is more.
    fn serve(&mut self, tell: &impl Fn(LoadReport)) -> bool {
        for index in 0..self.flows.len() {
            let Some(flow) = &mut self.flows[index] else { continue };
            if let Err(e) = flow.read(&mut self.scratch, &self.counters) {
                // One that ends while it rests, as by the reflector's own limit, is made anew when it is needed.
                self.flows[index] = None;
                if self.running {
                    self.lost(&e, tell);
                    return false;
                }
            }
        }
        let wrote = if self.running { self.write() } else { Ok(false) };
        match wrote {
            Ok(more) => more || self.flows.iter().flatten().any(|flow| flow.readable && flow.established),
            Err(e) => {
                self.lost(&e, tell);
                false
            }
        }
    }

    /// Writes what is due; true where more could go at once.
    fn write(&mut self) -> io::Result<bool> {
        let Some(pacer) = &mut self.pacer else {
            for flow in self.flows.iter_mut().flatten() {
                for _ in 0..PIECES_A_TURN {
                    if flow.write(&self.payload, &self.counters)? == 0 {
                        break;
                    }
                }
            }
            return Ok(self.flows.iter().flatten().any(|flow| flow.writable));
        };
        let chunk = pacer.chunk();
        let mut due = pacer.due(mono_ns());
        let mut refused = 0;
        // Chunk by chunk round the connections, past those that take nothing now.
        while due >= chunk && refused < self.flows.len() {
            self.turn = (self.turn + 1) % self.flows.len();
            let piece = &self.payload[..chunk as usize];
            let taken = match &mut self.flows[self.turn] {
                Some(flow) => flow.write(piece, &self.counters)?,
                None => 0,
            };
            refused = if taken == 0 { refused + 1 } else { 0 };
            pacer.sent(taken);
            due -= taken;
        }
        Ok(false)
    }

    /// What has come of the latest order, once it has.
    fn progress(&self) -> Option<LoadReport> {
        if self.told {
            return None;
        }
        let mut flows = self.flows.iter().flatten();
        if self.running {
            let all = self.flows.iter().all(Option::is_some);
            (all && flows.all(|flow| flow.echoed > flow.echoed_before)).then_some(LoadReport::Flows)
        } else {
            flows.all(|flow| flow.echoed == flow.sent).then_some(LoadReport::Drained)
        }
    }
}

impl Flow {
    /// Reads until nothing is left, or its share.
    fn read(&mut self, scratch: &mut [u8], counters: &Counters) -> io::Result<()> {
        if !self.established && (self.writable || self.readable) {
            self.established = socket::connect_result(&self.socket)?;
        }
        for _ in 0..PIECES_A_TURN {
            if !self.readable || !self.established {
                break;
            }
            match self.socket.read(scratch) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the reflector closed it")),
                Ok(n) => {
                    self.echoed += n as u64;
                    counters.echoed.fetch_add(n as u64, Ordering::Relaxed);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if self.echoed > self.sent {
            return Err(io::Error::other("more came back than was sent: that is no echo server"));
        }
        Ok(())
    }

    /// Writes once; how much was taken.
    fn write(&mut self, bytes: &[u8], counters: &Counters) -> io::Result<u64> {
        if !self.writable || !self.established {
            return Ok(0);
        }
        match self.socket.write(bytes) {
            Ok(n) => {
                self.sent += n as u64;
                counters.sent.fetch_add(n as u64, Ordering::Relaxed);
                Ok(n as u64)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.writable = false;
                Ok(0)
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(e) => Err(e),
        }
    }
}
