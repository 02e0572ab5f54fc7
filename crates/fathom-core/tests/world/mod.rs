//! A network, a kernel and a reflector in virtual time, made of queues: what a driver of `fathom_core::probe` has on the
//! other side. It knows when it was silent, so that what the probe told can be held against what was done.

#![allow(dead_code, reason = "each test uses a part of it")]

use fathom_core::clock::Anchor;
use fathom_core::event::{Event, EventKind};
use fathom_core::probe::{
    Input, LinkId, NetError, Output, Probe, Progress, Purpose, Settings, Transport, Worker, protocol,
};
use fathom_core::sample::Sample;
use fathom_wire::{ConnectionView, Stamper};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::net::SocketAddr;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000 * MS;
/// When the worlds begin, by the monotonic clock and by the wall clock.
pub(crate) const START: Anchor = Anchor { mono_ns: 7 * S, utc_ns: 1_800_000_000_000_000_000 };
/// Bytes that a connection's buffers take while nothing gets through.
const BUFFER: usize = 64 << 10;

/// A seeded sequence of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        fathom_wire::pattern::mix(self.0)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }
}

/// Makes the answer to a request.
pub(crate) type Answer = fn(&[u8]) -> Vec<u8>;

/// What is done to the world, at a time after its start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    /// Nothing gets through for so long, and everything then: TCP sends again what was lost.
    Silence(u64),
    /// The connections that are open get nothing through any more; new ones work.
    ForgetFlows,
    /// Every open connection is reset.
    Reset,
    /// Every open connection is closed by the peer.
    Fin,
    /// New connections are refused for so long, and open ones reset.
    PeerDown(u64),
    /// Round trips take so many times as long from here on.
    Slower(u64),
    /// The wall clock is set by so many ns.
    Step(i64),
    /// The wall clock runs faster by so many ppm for so long.
    Slew(i64, u64),
    /// The probe's host does not run for so long.
    LocalPause(u64),
}

#[derive(Debug)]
struct Flow {
    stage: Stage,
    purpose: Purpose,
    stamper: Stamper,
    /// On the way there and back: when they arrive.
    packets: VecDeque<(u64, bool, Vec<u8>)>,
    in_buffers: usize,
    blocked: bool,
    forgotten: bool,
    /// When the way is free for the next message.
    free_ns: u64,
    /// Since when data waits for the peer's acknowledgement.
    unacked_since: Option<u64>,
    /// For the truth: what is out, and when something last came.
    sent: VecDeque<u64>,
    last_received: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Connecting { ready_ns: u64, refused: bool },
    Open,
}

/// What a run came to.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) samples: Vec<(usize, Sample)>,
    pub(crate) events: Vec<(Option<usize>, Event)>,
    /// Truth: connection-carrying links' silences, from and to, on which link.
    pub(crate) silences: Vec<(usize, u64, u64)>,
    pub(crate) ended_ns: u64,
    pub(crate) end: fathom_core::probe::RunEnd,
    pub(crate) wakes: u64,
}

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
    refuse_until: u64,
    paused_until: u64,
    pub(crate) user_timeout_ns: u64,
    /// Of a hundred datagrams, how many are lost.
    pub(crate) lost_percent: u64,
    /// Datagrams that are lost on the way there, by their number on all connections.
    pub(crate) lose: Vec<u64>,
    datagrams: u64,
    /// So many of the first attempts to connect are refused, sooner than others are established.
    pub(crate) refused_first: u32,
    /// Addresses that nobody answers at.
    pub(crate) dead: Vec<SocketAddr>,
    pub(crate) addresses: Vec<SocketAddr>,
    /// When the reflector begins to listen.
    pub(crate) listens_ns: u64,
    wall: Wall,
    /// How answers are made where the protocol is not an echo.
    pub(crate) answer: Option<Answer>,
    pub(crate) outcome: Outcome,
    pub(crate) stop_at: Option<u64>,
    /// Paths whose targets refuse.
    pub(crate) bad_paths: Vec<usize>,
}

/// The wall clock.
#[derive(Debug, Clone, Copy)]
struct Wall {
    offset_ns: i64,
    slew_ppm: i64,
    slew_from: u64,
    slew_until: u64,
}

impl Wall {
    fn utc(&self, now: u64) -> i64 {
        let slewed = now.min(self.slew_until).saturating_sub(self.slew_from) as i64;
        START.utc_of(now) + self.offset_ns + slewed / 1_000 * self.slew_ppm / 1_000
    }

    fn settle(&mut self, now: u64) {
        self.offset_ns = self.utc(now) - START.utc_of(now);
        (self.slew_ppm, self.slew_from, self.slew_until) = (0, now, now);
    }
}

impl World {
    pub(crate) fn new(settings: Settings, seed: u64) -> Self {
        Self::speaking(settings, seed, None)
    }

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
            refuse_until: 0,
            paused_until: 0,
            user_timeout_ns: 30 * S,
            lost_percent: 0,
            lose: Vec::new(),
            datagrams: 0,
            refused_first: 0,
            dead: Vec::new(),
            addresses: vec![SocketAddr::from(([10, 0, 0, 1], 7007))],
            listens_ns: 0,
            wall: Wall { offset_ns: 0, slew_ppm: 0, slew_from: 0, slew_until: 0 },
            answer: None,
            outcome: Outcome::default(),
            stop_at: None,
            bad_paths: Vec::new(),
        }
    }

    /// With these faults, at times after the start, in order.
    pub(crate) fn with(mut self, faults: impl IntoIterator<Item = (u64, Fault)>) -> Self {
        self.faults = faults.into_iter().map(|(at, fault)| (START.mono_ns + at, fault)).collect();
        self
    }

    /// Runs to the end, or for a bounded number of steps; what came of it.
    pub(crate) fn run(mut self) -> Outcome {
        self.probe.start(self.now);
        self.obey();
        for _ in 0..4_000_000 {
            if self.probe.is_over() {
                self.outcome.ended_ns = self.now;
                self.outcome.end = self.probe.end().clone();
                return self.outcome;
            }
            self.step();
        }
        panic!("the run does not end: now {} ns, wakes {:?}", self.now, self.probe.next_wake());
    }

    fn step(&mut self) {
        let wake = self.probe.next_wake().expect("a run that is not over has a next wake-up");
        // While the host is paused nothing of it runs.
        let wake = wake.max(self.paused_until);
        let packet = self.next_packet().map(|at| at.max(self.paused_until));
        let fault = self.faults.front().map(|(at, _)| *at);
        let stop = self.stop_at.map(|at| START.mono_ns + at);
        let next = [Some(wake), packet, fault, stop].into_iter().flatten().min().expect("a wake-up");
        self.now = self.now.max(next);
        let now = self.now;
        if fault.is_some_and(|at| at <= now) {
            let (_, fault) = self.faults.pop_front().expect("there is one");
            return self.apply(fault);
        }
        if stop.is_some_and(|at| at <= now) {
            self.stop_at = None;
            return self.tell(Input::Stop);
        }
        if packet.is_some_and(|at| at <= now) {
            return self.deliver();
        }
        self.outcome.wakes += 1;
        self.tell(Input::Wake);
        let mut bound = 0;
        while self.probe.next_wake().is_some_and(|at| at <= now) {
            self.tell(Input::Wake);
            bound += 1;
            assert!(bound < 10_000, "wake-ups in the past without end at {now}");
        }
    }

    fn next_packet(&self) -> Option<u64> {
        self.flows.values().filter_map(|flow| self.next_of(flow)).min()
    }

    /// When a flow has something for somebody.
    fn next_of(&self, flow: &Flow) -> Option<u64> {
        let gives_up = flow.unacked_since.map(|since| since + self.user_timeout_ns);
        let event = match flow.stage {
            Stage::Connecting { ready_ns, .. } => Some(ready_ns.max(self.silent_until)),
            Stage::Open if flow.forgotten => None,
            Stage::Open => {
                let packet =
                    flow.packets.front().map(|(at, ..)| (*at).max(self.silent_until).max(flow.free_ns));
                let room = flow.blocked.then(|| self.silent_until.max(self.now));
                [packet, room].into_iter().flatten().min()
            }
        };
        [gives_up, event].into_iter().flatten().min()
    }

    fn apply(&mut self, fault: Fault) {
        let now = self.now;
        match fault {
            Fault::Silence(duration) => self.silent_until = self.silent_until.max(now + duration),
            Fault::ForgetFlows => {
                for flow in self.flows.values_mut().filter(|flow| flow.stage == Stage::Open) {
                    flow.forgotten = true;
                    flow.packets.clear();
                }
            }
            Fault::Reset => self
                .end_all(|link| Input::Broken { link, error: NetError::of_kind(ErrorKind::ConnectionReset) }),
            Fault::Fin => self.end_all(|link| Input::Closed { link }),
            Fault::PeerDown(duration) => {
                self.refuse_until = now + duration;
                self.end_all(|link| Input::Broken {
                    link,
                    error: NetError::of_kind(ErrorKind::ConnectionReset),
                });
            }
            Fault::Slower(times) => self.rtt_ns *= times,
            Fault::Step(ns) => {
                self.wall.settle(now);
                self.wall.offset_ns += ns;
            }
            Fault::Slew(ppm, duration) => {
                self.wall.settle(now);
                (self.wall.slew_ppm, self.wall.slew_until) = (ppm, now + duration);
            }
            Fault::LocalPause(duration) => {
                self.now = now + duration;
                self.paused_until = self.now;
                self.tell(Input::Paused { began_ns: now, ended_ns: self.now, reason: None });
            }
        }
    }

    fn end_all(&mut self, input: impl Fn(LinkId) -> Input<'static>) {
        let open =
            |(id, flow): (&LinkId, &Flow)| (flow.stage == Stage::Open && !flow.forgotten).then_some(*id);
        let links: Vec<LinkId> = self.flows.iter().filter_map(open).collect();
        for link in links {
            self.tell(input(link));
        }
    }

    fn deliver(&mut self) {
        let now = self.now;
        let due = |flow: &Flow| self.next_of(flow).is_some_and(|at| at <= now);
        let Some((&link, _)) = self.flows.iter().find(|(_, flow)| due(flow)) else { return };
        let (silent, timeout) = (self.silent_until, self.user_timeout_ns);
        let flow = self.flows.get_mut(&link).expect("it was found");
        if flow.unacked_since.is_some_and(|since| now >= since + timeout) {
            return self.tell(Input::Broken { link, error: NetError::of_kind(ErrorKind::TimedOut) });
        }
        match flow.stage {
            Stage::Connecting { refused: true, .. } => {
                let error = NetError::of_kind(ErrorKind::ConnectionRefused);
                self.tell(Input::ConnectFailed { link, error });
            }
            Stage::Connecting { .. } => {
                flow.stage = Stage::Open;
                flow.unacked_since = None;
                flow.last_received = now;
                let local = "10.0.0.2:50000".to_owned();
                self.tell(Input::Connected { link, local, resent: false, kernel: None });
            }
            Stage::Open => {
                if now >= silent && flow.blocked {
                    (flow.blocked, flow.in_buffers) = (false, 0);
                    return self.tell(Input::Writable { link });
                }
                let Some((_, back, bytes)) = flow.packets.pop_front() else { return };
                flow.free_ns = now + self.serial_ns;
                if back {
                    self.received(link, &bytes);
                } else {
                    self.reflect(link, bytes);
                }
            }
        }
    }

    /// A message reaches the reflector, which answers.
    fn reflect(&mut self, link: LinkId, mut bytes: Vec<u8>) {
        let now = self.now;
        let back = now + self.one_way();
        let (udp, lost_percent) = (self.settings.transport == Transport::Udp, self.lost_percent);
        let lost = udp && self.random.below(100) < lost_percent;
        let utc_ns = self.wall.utc(now);
        let flow = self.flows.get_mut(&link).expect("it was found");
        flow.unacked_since = None;
        flow.in_buffers = flow.in_buffers.saturating_sub(bytes.len());
        let view = ConnectionView { received_ns: utc_ns, sent_ns: utc_ns, ..ConnectionView::default() };
        match self.answer {
            Some(answer) if flow.purpose == Purpose::Samples => bytes = answer(&bytes),
            _ if udp => Stamper::default().pass(view, &mut bytes),
            _ => flow.stamper.pass(view, &mut bytes),
        }
        if !lost {
            // In order.
            let last =
                flow.packets.iter().filter(|packet| packet.1).map(|packet| packet.0).max().unwrap_or(0);
            let at = back.max(last);
            let place = flow.packets.iter().position(|packet| packet.0 > at).unwrap_or(flow.packets.len());
            flow.packets.insert(place, (at, true, bytes));
        }
    }

    fn received(&mut self, link: LinkId, bytes: &[u8]) {
        self.silence_ends(link);
        let flow = self.flows.get_mut(&link).expect("it was found");
        flow.last_received = self.now;
        flow.sent.pop_front();
        self.tell(Input::Arriving { link, bytes: bytes.len() });
        self.tell(Input::Received { link, bytes, stamps: None, kernel: None });
    }

    /// Something comes of a link, or it ends: what it was silent for, with samples out.
    fn silence_ends(&mut self, link: LinkId) {
        let Some(flow) = self.flows.get(&link).filter(|flow| flow.purpose == Purpose::Samples) else {
            return;
        };
        if let Some(&oldest) = flow.sent.front() {
            let from = oldest.max(flow.last_received);
            self.outcome.silences.push((link.0, from, self.now));
        }
    }

    fn one_way(&mut self) -> u64 {
        self.rtt_ns / 2 + self.random.below(self.jitter_ns)
    }

    fn tell(&mut self, input: Input<'_>) {
        self.probe.handle(self.now, input);
        self.obey();
    }

    fn obey(&mut self) {
        while let Some(output) = self.probe.poll() {
            let now = self.now;
            match output {
                Output::Sample { path, sample } => self.outcome.samples.push((path, sample)),
                Output::Event { path, event } => self.outcome.events.push((path, *event)),
                Output::Anchor { .. } | Output::Load(_) => {}
                Output::ReadClock => {
                    let anchor = Anchor { mono_ns: now, utc_ns: self.wall.utc(now) };
                    self.probe.handle(now, Input::Clock { anchor, error_ns: None });
                }
                Output::Resolve { path } => {
                    let addresses = Ok(self.addresses.clone());
                    self.probe.handle(now, Input::Resolved { path, addresses });
                }
                Output::Connect { link, path, remote, purpose } => self.connect(link, path, remote, purpose),
                Output::Send { link } => self.send(link),
                Output::Look { link } => self.probe.handle(now, Input::Kernel { link, info: None }),
                Output::Shutdown { link } => self.probe.handle(now, Input::Closed { link }),
                Output::Close { link } => {
                    self.silence_ends(link);
                    self.flows.remove(&link);
                }
            }
        }
    }

    fn connect(&mut self, link: LinkId, path: usize, remote: SocketAddr, purpose: Purpose) {
        let (now, one_way) = (self.now, self.one_way());
        self.probe.handle(now, Input::Connecting { link, since_ns: now });
        let udp = self.settings.transport == Transport::Udp;
        let refused = now < self.refuse_until
            || now < self.listens_ns + START.mono_ns
            || self.dead.contains(&remote)
            || self.bad_paths.contains(&path);
        let at_once = self.refused_first > 0;
        self.refused_first = self.refused_first.saturating_sub(1);
        let refused = refused || at_once;
        let ready_ns = now + if at_once { one_way } else { 2 * one_way };
        let flow = Flow {
            stage: if udp { Stage::Open } else { Stage::Connecting { ready_ns, refused } },
            purpose,
            stamper: Stamper::default(),
            packets: VecDeque::new(),
            in_buffers: 0,
            blocked: false,
            forgotten: false,
            free_ns: 0,
            unacked_since: None,
            sent: VecDeque::new(),
            last_received: now,
        };
        self.flows.insert(link, flow);
        if udp {
            let local = "10.0.0.2:50000".to_owned();
            self.probe.handle(now, Input::Connected { link, local, resent: false, kernel: None });
        }
    }

    fn send(&mut self, link: LinkId) {
        let now = self.now;
        let mut buffer = vec![0; BUFFER];
        let Some(piece) = self.probe.write(link, &mut buffer) else { return };
        self.probe.stamp(link, now, &mut buffer[..piece.len]);
        let udp = self.settings.transport == Transport::Udp;
        let (arrives, lost) = (now + self.one_way(), udp && self.random.below(100) < self.lost_percent);
        let lost = lost || (udp && self.lose.contains(&self.datagrams));
        self.datagrams += u64::from(udp);
        let flow = self.flows.get_mut(&link).expect("the probe sends on links that it made");
        let fits = piece.len == piece.size && flow.in_buffers + piece.len <= BUFFER;
        let progress = if fits || udp {
            let held = udp && now < self.silent_until;
            if !(flow.forgotten || lost || held) {
                let last = flow.packets.iter().filter(|packet| !packet.1).map(|packet| packet.0).max();
                let at = arrives.max(last.unwrap_or(0));
                let place =
                    flow.packets.iter().position(|packet| packet.0 > at).unwrap_or(flow.packets.len());
                flow.packets.insert(place, (at, false, buffer[..piece.len].to_vec()));
            }
            if !udp {
                flow.in_buffers += piece.len;
                flow.unacked_since.get_or_insert(now);
                flow.sent.push_back(now);
            }
            Progress::Whole
        } else {
            flow.blocked = true;
            Progress::Nothing
        };
        self.probe.handle(now, Input::Sent { link, sent_ns: now, sent_utc_ns: None, progress });
    }
}

impl Outcome {
    /// Events of a kind, with when and on which connection.
    pub(crate) fn of<T>(&self, pick: impl Fn(&EventKind) -> Option<T>) -> Vec<(u64, Option<u32>, T)> {
        let event = |(_, e): &(Option<usize>, Event)| Some((e.mono_ns, e.connection, pick(&e.kind)?));
        self.events.iter().filter_map(event).collect()
    }

    pub(crate) fn stalls(&self) -> usize {
        self.of(|kind| matches!(kind, EventKind::StallBegan { .. }).then_some(())).len()
    }

    pub(crate) fn skipped(&self) -> u64 {
        let skipped = |kind: &EventKind| match kind {
            EventKind::ScheduleOverrun { skipped, .. } => Some(*skipped),
            _ => None,
        };
        self.of(skipped).iter().map(|(.., n)| n).sum()
    }

    /// The laws that hold of every run: each sample has one row, each connection as many as it says that it sent, each
    /// stall one end and one explanation, nothing overlaps.
    pub(crate) fn check_laws(&self) {
        let mut rows: BTreeMap<(usize, u32), Vec<&Sample>> = BTreeMap::new();
        for (path, sample) in &self.samples {
            rows.entry((*path, sample.connection)).or_default().push(sample);
        }
        for ((path, connection), samples) in &rows {
            let mut seqs: Vec<u64> = samples.iter().map(|s| s.seq).collect();
            seqs.sort_unstable();
            let all = seqs.iter().enumerate().all(|(i, seq)| *seq == i as u64);
            assert!(all, "path {path} connection {connection}: each sample once: {seqs:?}");
        }
        let mut opened = BTreeMap::new();
        let mut stalled: BTreeMap<(usize, u32), u64> = BTreeMap::new();
        let mut unexplained: BTreeMap<(usize, u32), u64> = BTreeMap::new();
        let mut explained_open = BTreeSet::new();
        let mut before = 0;
        for (path, event) in &self.events {
            let key = (path.unwrap_or(0), event.connection.unwrap_or(0));
            if !matches!(event.kind, EventKind::Pause { .. }) {
                assert!(event.mono_ns >= before, "events go backwards: {event:?} after {before}");
                before = event.mono_ns;
            }
            match &event.kind {
                EventKind::ConnectionOpened { .. } => {
                    assert!(opened.insert(key, event.mono_ns).is_none(), "opened twice: {event:?}");
                }
                EventKind::ConnectionClosed { evidence, cause, .. } => {
                    assert!(opened.remove(&key).is_some(), "closed, not open: {event:?}");
                    let of = rows.get(&key).map_or(&[][..], Vec::as_slice);
                    assert_eq!(evidence.sent, of.len() as u64, "sent = rows: {event:?}");
                    let answered = of.iter().filter(|s| s.rtt_ns.is_some()).count() as u64;
                    assert_eq!(evidence.answered, answered, "answered: {event:?}");
                    // What goes on when the run ends has no end, and is explained before.
                    let goes_on = stalled.remove(&key).is_some();
                    assert!(!goes_on || !cause.is_loss(), "lost in a stall that has no end: {event:?}");
                    assert_eq!(goes_on, explained_open.remove(&key), "what goes on is explained: {event:?}");
                    if cause.is_loss() {
                        *unexplained.entry(key).or_default() += 1;
                    }
                }
                EventKind::StallBegan { .. } => {
                    assert!(opened.contains_key(&key), "a stall of no connection: {event:?}");
                    assert!(stalled.insert(key, event.mono_ns).is_none(), "a stall in a stall: {event:?}");
                }
                EventKind::StallEnded { recovered, duration_ns, .. } => {
                    assert!(stalled.remove(&key).is_some(), "the end of no stall: {event:?}");
                    assert!(*duration_ns > 0);
                    if *recovered {
                        *unexplained.entry(key).or_default() += 1;
                    }
                }
                EventKind::ConnectionExplained { about, .. }
                    if about == "stall" && stalled.contains_key(&key) =>
                {
                    assert!(explained_open.insert(key), "explained twice: {event:?}");
                }
                EventKind::ConnectionExplained { .. } => {
                    let left = unexplained.get_mut(&key).filter(|left| **left > 0);
                    *left.unwrap_or_else(|| panic!("an explanation of nothing: {event:?}")) -= 1;
                }
                _ => {}
            }
        }
        assert!(opened.is_empty(), "left open: {opened:?}");
        assert!(unexplained.values().all(|left| *left == 0), "not explained: {unexplained:?}");
    }
}
