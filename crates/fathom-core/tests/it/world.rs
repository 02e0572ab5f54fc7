//! A network, a kernel and a reflector in virtual time, made of queues: what a driver of `fathom_core::probe` has on the
//! other side. It knows when it was silent, so that what the probe told can be held against what was done.
//!
//! `driver` does what the probe asks for, `network` delivers, `faults` is what is done to both, `flow` one connection, and
//! `outcome` what came of it, with the laws that every run keeps; those of delays are in `delays`.

mod delays;
mod driver;
mod faults;
mod flow;
mod network;
mod outcome;
pub(crate) mod toy;
mod wall;

pub(crate) use crate::chance::Random;
pub(crate) use faults::Fault;
pub(crate) use outcome::Outcome;

use fathom_core::clock::Anchor;
use fathom_core::probe::{Input, LinkId, NetError, Probe, Settings, Transport, Worker, protocol};
use fathom_wire::Answer;
use flow::Flow;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use wall::Wall;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000 * MS;
/// Where the probe finds the threshold itself, silences from here on are the truth to hold it against.
pub(crate) const SILENCE_NS: u64 = 100 * MS;
/// When the worlds begin, by the monotonic clock and by the wall clock.
pub(crate) const START: Anchor = Anchor { mono_ns: 7 * S, utc_ns: 1_800_000_000_000_000_000 };

/// A world with one probe in it.
pub(crate) struct World {
    now: u64,
    pub(crate) probe: Probe,
    settings: Settings,
    flows: BTreeMap<LinkId, Flow>,
    pub(crate) rtt_ns: u64,
    /// How long a message keeps the way busy, each way: what gathered in a silence comes through one after another.
    pub(crate) serial_ns: u64,
    jitter_ns: u64,
    random: Random,
    faults: VecDeque<(u64, Fault)>,
    silent_until: u64,
    large_lost_until: u64,
    refuse_until: u64,
    paused_until: u64,
    /// When the reflector runs again, and for how long it has not run; it tells where `peer_tells`.
    peer_runs_ns: u64,
    peer_paused_us: u32,
    pub(crate) peer_tells: bool,
    name_gone_until: u64,
    /// How often names have led elsewhere.
    moves: u8,
    tls_bad_until: u64,
    no_ports_until: u64,
    pub(crate) user_timeout_ns: u64,
    /// Of a hundred datagrams, how many are lost.
    pub(crate) lost_percent: u64,
    /// Of a hundred answers in datagrams, how many come twice.
    pub(crate) doubled_percent: u64,
    /// Datagrams that are lost on the way there, by their number on all connections.
    pub(crate) lose: Vec<u64>,
    datagrams: u64,
    /// So many of the first attempts to connect are refused, sooner than others are established.
    pub(crate) refused_first: u32,
    /// Addresses that refuse.
    pub(crate) dead: Vec<SocketAddr>,
    /// An address that stops answering at this time, and whether the name then resolves to another one.
    pub(crate) goes_silent: Option<(SocketAddr, u64, bool)>,
    /// Addresses that do not answer.
    pub(crate) silent: Vec<SocketAddr>,
    pub(crate) addresses: Vec<SocketAddr>,
    /// How long a name takes to resolve, at the most.
    pub(crate) resolving_ns: u64,
    resolving: Vec<(u64, usize)>,
    /// When the reflector begins to listen.
    pub(crate) listens_ns: u64,
    wall: Wall,
    /// Whether the peer is a server of the toy protocol, and no reflector.
    pub(crate) is_toy: bool,
    /// Of a hundred writes, how many find too little room.
    pub(crate) short_writes: u64,
    /// Whether the driver sends what it is asked for only after the next thing has happened.
    pub(crate) late_sends: bool,
    sends: Vec<LinkId>,
    /// Of a hundred answers, how many come in two parts.
    pub(crate) split_reads: u64,
    /// Whether the kernel tells what it knows of connections.
    pub(crate) kernel_tells: bool,
    /// What the reflector says of connections when it is asked.
    known: BTreeMap<(u32, u32), Answer>,
    /// Connections that broke while they were written to, until the probe is told.
    broken: VecDeque<(LinkId, NetError)>,
    /// Connections that are gone.
    gone: Vec<LinkId>,
    /// Whether the probe is told things of those all the time; its own chance, so that nothing else changes.
    pub(crate) haunted: Option<Random>,
    /// Whether every output is kept.
    pub(crate) traces: bool,
    pub(crate) outcome: Outcome,
    /// When the run is over for certain, after its start.
    pub(crate) must_end_ns: u64,
    /// When the user wants the run to end, each time.
    pub(crate) stops: VecDeque<u64>,
    /// Paths whose targets refuse.
    pub(crate) bad_paths: Vec<usize>,
    /// Links that the probe was told to be connected, until it says so.
    connected: VecDeque<LinkId>,
}

impl World {
    pub(crate) fn new(settings: Settings, seed: u64) -> Self {
        Self::speaking(settings, seed, None)
    }

    /// The same, where connections speak the toy protocol.
    pub(crate) fn speaking(settings: Settings, seed: u64, speak: Option<protocol::Make>) -> Self {
        let worker = Worker::alone(settings.targets.len());
        Self {
            now: START.mono_ns,
            probe: Probe::speaking(settings.clone(), worker, START, speak),
            settings,
            flows: BTreeMap::new(),
            rtt_ns: MS,
            serial_ns: 0,
            jitter_ns: 100_000,
            random: Random(seed),
            faults: VecDeque::new(),
            silent_until: 0,
            large_lost_until: 0,
            refuse_until: 0,
            paused_until: 0,
            peer_runs_ns: 0,
            peer_paused_us: 0,
            peer_tells: false,
            name_gone_until: 0,
            moves: 0,
            tls_bad_until: 0,
            no_ports_until: 0,
            user_timeout_ns: 30 * S,
            lost_percent: 0,
            doubled_percent: 0,
            lose: Vec::new(),
            datagrams: 0,
            refused_first: 0,
            dead: Vec::new(),
            goes_silent: None,
            silent: Vec::new(),
            addresses: vec![SocketAddr::from(([10, 0, 0, 1], 7007))],
            resolving_ns: 0,
            resolving: Vec::new(),
            listens_ns: 0,
            wall: Wall::default(),
            is_toy: speak.is_some(),
            short_writes: 0,
            late_sends: false,
            sends: Vec::new(),
            split_reads: 0,
            kernel_tells: false,
            known: BTreeMap::new(),
            broken: VecDeque::new(),
            gone: Vec::new(),
            haunted: None,
            traces: false,
            outcome: Outcome::default(),
            must_end_ns: 1_000_000 * S,
            stops: VecDeque::new(),
            bad_paths: Vec::new(),
            connected: VecDeque::new(),
        }
    }

    /// With these faults, at times after the start, in order.
    pub(crate) fn with(mut self, faults: impl IntoIterator<Item = (u64, Fault)>) -> Self {
        self.faults = faults.into_iter().map(|(at, fault)| (START.mono_ns + at, fault)).collect();
        self
    }

    /// Runs to the end, or for a bounded number of steps; what came of it.
    pub(crate) fn run(mut self) -> Outcome {
        self.outcome.peer_tells = self.peer_tells;
        self.probe.start(self.now);
        self.obey();
        while self.now < START.mono_ns + self.must_end_ns {
            if self.probe.is_over() {
                let left: Vec<&LinkId> = self.flows.keys().collect();
                assert!(left.is_empty(), "the run is over, and connections are left: {left:?}");
                self.outcome.ended_ns = self.now;
                self.outcome.end = self.probe.end().clone();
                return self.outcome;
            }
            let sends = std::mem::take(&mut self.sends);
            self.step();
            for link in sends {
                self.send(link);
            }
            self.obey();
            self.haunt();
        }
        panic!("the run does not end: now {} ns, wakes {:?}", self.now, self.probe.next_wake());
    }

    fn step(&mut self) {
        let wake = self.probe.next_wake().expect("a run that is not over has a next wake-up");
        // While the host is paused nothing of it runs.
        let wake = wake.max(self.paused_until);
        let packet = self.next_packet().map(|at| at.max(self.paused_until));
        let name = self.resolving.iter().map(|(at, _)| (*at).max(self.paused_until)).min();
        let fault = self.faults.front().map(|(at, _)| *at);
        let stop = self.stops.front().map(|at| START.mono_ns + at);
        let next = [Some(wake), packet, name, fault, stop].into_iter().flatten().min().expect("a wake-up");
        self.now = self.now.max(next);
        let is_due = |at: Option<u64>| at.is_some_and(|at| at <= self.now);
        if is_due(fault) {
            let (_, fault) = self.faults.pop_front().expect("there is one");
            self.apply(fault);
        } else if is_due(stop) {
            self.stops.pop_front();
            self.tell(Input::Stop);
        } else if is_due(name) {
            self.resolved();
        } else if is_due(packet) {
            self.deliver();
        } else {
            self.wake();
        }
    }

    /// The probe wakes until it wants to wake later: it may take several turns for what is due at one time, and no more
    /// of them than there is to do.
    fn wake(&mut self) {
        for _ in 0..10_000 {
            self.outcome.wakes += 1;
            self.tell(Input::Wake);
            if self.probe.next_wake().is_none_or(|at| at > self.now) {
                return;
            }
        }
        panic!("wake-ups in the past without end at {}", self.now);
    }

    fn resolved(&mut self) {
        let at = self.resolving.iter().position(|(at, _)| *at <= self.now).expect("one is due");
        let (_, path) = self.resolving.remove(at);
        let addresses = self.addresses_now();
        self.tell(Input::Resolved { path, addresses });
    }

    fn addresses_now(&self) -> Result<Vec<SocketAddr>, String> {
        let gone = self.now < self.name_gone_until;
        if gone { Err("host does not resolve: no such name".to_owned()) } else { Ok(self.addresses.clone()) }
    }

    /// Tells things of connections that are gone.
    fn haunt(&mut self) {
        let Some(random) = &mut self.haunted else { return };
        if self.gone.is_empty() || !random.percent(30) {
            return;
        }
        let link = random.one_of(&self.gone);
        let error = || NetError::of_kind(std::io::ErrorKind::ConnectionReset);
        let progress = fathom_core::probe::Progress::Whole;
        let (sent_ns, sent_utc_ns) = (self.now, None);
        let input = match random.below(9) {
            0 => Input::Received { link, bytes: &[7; 64], stamps: None, kernel: None },
            1 => Input::Arriving { link, bytes: 64 },
            2 => Input::Closed { link },
            3 => Input::Broken { link, error: error() },
            4 => Input::ConnectFailed { link, error: error() },
            5 => Input::Connected { link, local: "10.0.0.2:9".to_owned(), resent: true, kernel: None },
            6 => Input::Sent { link, sent_ns, sent_utc_ns, progress },
            7 => Input::Kernel { link, info: None },
            _ => Input::Writable { link },
        };
        self.tell(input);
    }

    fn is_udp(&self) -> bool {
        self.settings.transport == Transport::Udp
    }

    fn one_way(&mut self) -> u64 {
        self.rtt_ns / 2 + self.random.below(self.jitter_ns)
    }
}
