//! A network in virtual time for the search for limits: a middlebox that forgets idle flows, loss that TCP repairs, outages,
//! reflectors that begin anew, and a host that pauses. It knows nothing of the search but its protocol.

mod traffic;

pub(crate) use crate::chance::Random;
use fathom_core::event::Event as Told;
use fathom_core::limits::{
    Ages, Input, KernelView, Limit, Limits, Outcome, Output, Recorded, Search, Settings,
};
use fathom_core::probe::NetError;
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::io::ErrorKind;
pub(crate) use traffic::Counts;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000 * MS;
const START: u64 = 1_000 * S;

/// What the middlebox does at its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Silent,
    ResetAtExpiry,
    FinAtExpiry,
    ResetOnPacket,
    /// It lets all pass; the peer's kernel acknowledges, and its application does not answer any more.
    NotAnswered,
}

/// What happens besides. Times are from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No packet arrives, from and to.
    Outage(u64, u64),
    /// The reflector ends, and another begins after so long.
    Restart(u64, u64),
    /// The middlebox forgets all flows without a word.
    Flush(u64),
    /// It forgets those on which nothing passed for so long, at this moment.
    FlushIdle(u64, u64),
    /// The searching host does not run, from and to.
    Pause(u64, u64),
}

/// So many flows of a hundred have a limit of their own, anywhere between these; the others have none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    pub(crate) percent: u64,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) limit_ns: Option<u64>,
    pub(crate) kind: Kind,
    /// The middlebox looks only that often which flows are idle for longer, so that they die up to so much later.
    pub(crate) sweeps_every_ns: Option<u64>,
    /// Whose packets keep a flow from being idle.
    pub(crate) counts: Counts,
    /// The other end is a plain echo server, or a reflector that sends no segments.
    pub(crate) plain: bool,
    pub(crate) mute: bool,
    /// The middlebox forgets flows of this age, busy or not.
    pub(crate) age_ns: Option<u64>,
    /// It forgets flows by chance, at a constant hazard: they live for so long on the average.
    pub(crate) mean_life_ns: Option<u64>,
    /// Some flows have an idle limit, or an age limit, of their own instead.
    pub(crate) own_limits: Option<Own>,
    pub(crate) own_ages: Option<Own>,
    /// It has room for so many: each new flow puts the oldest out.
    pub(crate) places: Option<usize>,
    pub(crate) rtt_ns: u64,
    /// Packets lost in ten thousand.
    pub(crate) loss: u64,
    pub(crate) faults: Vec<Fault>,
    pub(crate) stop_ns: Option<u64>,
    /// The kernel tells when something came last.
    pub(crate) kernel: bool,
}

/// What a run did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) outputs: Vec<(u64, Output)>,
    pub(crate) most_open: usize,
    /// Now and then: when it was, and how much longer it was to take at the most.
    pub(crate) left: Vec<(u64, u64)>,
    /// How long it took.
    pub(crate) took_ns: u64,
    /// What a recording would hold.
    pub(crate) told: Vec<Told>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Connected,
    Refused,
    Reset,
    Fin,
    Bytes(Vec<u8>),
    /// The reflector is to send a segment, if nothing was asked since this request.
    Segment(u32),
    /// The middlebox looks whether something moved since then.
    Expiry(u64),
    /// The middlebox forgets it.
    Doom,
}

#[derive(Debug, Clone, Copy)]
struct Flow {
    /// When a packet last passed the middlebox.
    passed_ns: u64,
    /// When a segment last came to this host.
    came_ns: u64,
    began_ns: u64,
    /// After how long without a packet the middlebox forgets it.
    limit_ns: Option<u64>,
    /// When the middlebox forgets it, whatever moves on it.
    doomed_ns: Option<u64>,
    gone: bool,
    /// When the acknowledgement of its latest request came, which may be to come.
    acked_ns: Option<u64>,
    /// Requests so far.
    asked: u32,
}

struct Net<'a> {
    world: &'a World,
    random: Random,
    flows: BTreeMap<u32, Flow>,
    events: BinaryHeap<Reverse<(u64, u64, u32, Event)>>,
    order: u64,
}

impl Net<'_> {
    fn at(&mut self, at_ns: u64, id: u32, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at_ns, self.order, id, event)));
    }

    fn is_lost(&mut self, at_ns: u64) -> bool {
        let out = |fault: &Fault| matches!(*fault, Fault::Outage(from, to) if (START + from..START + to).contains(&at_ns));
        self.random.below(10_000) < self.world.loss || self.world.faults.iter().any(out)
    }

    fn is_down(&self, at_ns: u64) -> bool {
        let down = |fault: &Fault| matches!(*fault, Fault::Restart(at, lasts) if (START + at..START + at + lasts).contains(&at_ns));
        self.world.faults.iter().any(down)
    }

    /// Whether something between these moments ended all that was open.
    fn was(&self, from_ns: u64, to_ns: u64, which: impl Fn(&Fault) -> Option<u64>) -> bool {
        let mut at = self.world.faults.iter().filter_map(which);
        at.any(|at| from_ns < START + at && START + at <= to_ns)
    }

    fn is_expired(&self, flow: Flow, at_ns: u64) -> bool {
        let flushed =
            self.was(flow.passed_ns, at_ns, |f| if let Fault::Flush(at) = f { Some(*at) } else { None });
        let flushed_idle = self.world.faults.iter().any(|fault| {
            let Fault::FlushIdle(at, idle) = *fault else { return false };
            flow.passed_ns + idle < START + at && START + at <= at_ns
        });
        flow.gone
            || flushed_idle
            || flow.doomed_ns.is_some_and(|at| at_ns >= at)
            || flushed
            || flow.limit_ns.is_some_and(|limit| at_ns > self.expires_ns(flow.passed_ns, limit))
    }

    /// Expiry of a flow whose last packet passed at this time.
    fn expires_ns(&self, passed_ns: u64, limit_ns: u64) -> u64 {
        let limit_over_ns = passed_ns + limit_ns;
        let Some(every_ns) = self.world.sweeps_every_ns else { return limit_over_ns };
        let phase_ns = Random(self.world.seed ^ 0x5EEB).below(every_ns);
        (limit_over_ns - phase_ns).next_multiple_of(every_ns) + phase_ns
    }

    fn connect(&mut self, now: u64, id: u32) {
        for wait_s in [0, 1, 3, 7, 15] {
            let sent = now + wait_s * S;
            let came = sent + self.world.rtt_ns;
            if self.is_lost(sent) || self.is_lost(came) {
                continue;
            }
            if self.is_down(sent + self.world.rtt_ns / 2) {
                return self.at(came, id, Event::Refused);
            }
            let doomed_ns = self.doomed_ns(sent);
            let limit_ns = self.own(self.world.own_limits, self.world.limit_ns);
            let (passed_ns, began_ns) = (came, sent);
            let flow = Flow {
                passed_ns,
                came_ns: came,
                began_ns,
                limit_ns,
                doomed_ns,
                gone: false,
                acked_ns: None,
                asked: 0,
            };
            if let Some(at) = doomed_ns {
                self.at(at, id, Event::Doom);
            }
            self.make_room(sent);
            self.flows.insert(id, flow);
            return self.at(came, id, Event::Connected);
        }
    }

    /// When a flow that begins now is forgotten because of its age, or by chance.
    fn doomed_ns(&mut self, sent: u64) -> Option<u64> {
        let age =
            self.own(self.world.own_ages, self.world.age_ns).map(|age| sent + self.world.rtt_ns / 4 + age);
        let chance = self.world.mean_life_ns.map(|mean| {
            let share = (self.random.below(1_000_000_000) + 1) as f64 / 1e9;
            sent + (-share.ln() * mean as f64) as u64
        });
        age.into_iter().chain(chance).min()
    }

    /// Its own limit, or that of all.
    fn own(&mut self, own: Option<Own>, all: Option<u64>) -> Option<u64> {
        let Some(own) = own else { return all };
        self.random.percent(own.percent).then(|| self.random.between(own.from_ns, own.to_ns)).or(all)
    }

    /// Puts the oldest flow out where the table is full.
    fn make_room(&mut self, now: u64) {
        let Some(places) = self.world.places else { return };
        let is_live = |flow: &Flow| !flow.gone && flow.doomed_ns.is_none_or(|at| at > now);
        let live: Vec<u32> = self.flows.iter().filter(|(_, flow)| is_live(flow)).map(|(id, _)| *id).collect();
        if live.len() >= places
            && let Some(flow) = self.flows.get_mut(&live[0])
        {
            flow.doomed_ns = Some(now);
            self.at(now, live[0], Event::Doom);
        }
    }

    /// A request with all that TCP does about it, as far as it is known beforehand.
    fn send(&mut self, now: u64, id: u32, bytes: Vec<u8>) {
        let (quarter, rto) = (self.world.rtt_ns / 4, self.rto());
        let Some(&(mut flow)) = self.flows.get(&id) else { return };
        flow.asked += 1;
        flow.acked_ns = None;
        for attempt in 0..12_u32 {
            let sent = now + rto * ((1 << attempt) - 1);
            let at_box = sent + quarter;
            if self.is_lost(sent) {
                continue;
            }
            if self.is_expired(flow, at_box) && self.world.kind == Kind::NotAnswered {
                if self.is_lost(at_box) {
                    continue;
                }
                flow.acked_ns = Some(sent + 4 * quarter);
                self.flows.insert(id, flow);
                return;
            }
            if self.is_expired(flow, at_box) {
                flow.gone = true;
                self.flows.insert(id, flow);
                if self.world.kind == Kind::ResetOnPacket && !self.is_lost(at_box) {
                    return self.at(at_box + quarter, id, Event::Reset);
                }
                continue;
            }
            flow.passed_ns = self.world.counts.here(flow.passed_ns, at_box);
            let at_peer = sent + 2 * quarter;
            let restarted = |f: &Fault| if let Fault::Restart(at, _) = f { Some(*at) } else { None };
            if self.was(flow.began_ns, at_peer, restarted) {
                return self.at(at_peer + 2 * quarter, id, Event::Reset);
            }
            // The echo, and its acknowledgement: what is lost of either makes the peer send it again.
            let mut delivered = None;
            for again in 0..12_u32 {
                let echoed = at_peer + rto * ((1 << again) - 1);
                if self.world.kind != Kind::NotAnswered && self.is_expired(flow, echoed + quarter) {
                    break;
                }
                if self.is_lost(echoed) {
                    continue;
                }
                let came = echoed + 2 * quarter;
                flow.passed_ns = self.world.counts.there(flow.passed_ns, echoed + quarter);
                flow.came_ns = came;
                delivered.get_or_insert(came);
                flow.acked_ns.get_or_insert(came);
                if !self.is_lost(came) {
                    flow.gone = self.is_expired(flow, came + quarter);
                    flow.passed_ns = self.world.counts.ack(flow.passed_ns, came + quarter);
                    break;
                }
            }
            self.flows.insert(id, flow);
            if let Some(came) = delivered {
                self.at(came, id, Event::Bytes(bytes));
                if let Some(limit) = flow.limit_ns {
                    let at_ns = self.expires_ns(flow.passed_ns, limit);
                    self.at(at_ns, id, Event::Expiry(flow.passed_ns));
                }
            }
            return;
        }
        self.flows.insert(id, flow);
    }

    fn rto(&self) -> u64 {
        200 * MS + self.world.rtt_ns
    }

    /// What an event is to this host.
    fn happen(&mut self, now: u64, id: u32, event: Event) -> Option<Event> {
        if let Event::Segment(asked) = event {
            self.segment(now, id, asked);
            return None;
        }
        let quarter = self.world.rtt_ns / 4;
        let due = |flow: &Flow| match event {
            Event::Expiry(passed_ns) => Some(flow.passed_ns == passed_ns),
            Event::Doom => Some(true),
            _ => None,
        };
        let Some(flow) = self.flows.get_mut(&id) else { return Some(event) };
        match due(flow) {
            None => return Some(event),
            Some(is_due) if !is_due || flow.gone => return None,
            Some(_) => {}
        }
        flow.gone = true;
        let told = match self.world.kind {
            Kind::ResetAtExpiry => Event::Reset,
            Kind::FinAtExpiry => Event::Fin,
            Kind::Silent | Kind::ResetOnPacket | Kind::NotAnswered => return None,
        };
        if !self.is_lost(now) {
            self.at(now + quarter, id, told);
        }
        None
    }
}

/// Runs a search for the idle limit in a world to its end.
pub(crate) fn run(world: &World, settings: Settings) -> Ran {
    drive(world, &mut Limits::new(settings))
}

/// Runs a search for the age limit.
pub(crate) fn run_ages(world: &World, settings: Settings) -> Ran {
    drive(world, &mut Ages::new(settings))
}

/// Runs a search that goes on where the one ended that told this.
pub(crate) fn go_on(world: &World, settings: Settings, told: &[Told]) -> Ran {
    let mut earlier = Recorded::default();
    for event in told {
        earlier.event(event);
    }
    match earlier.limit() {
        Limit::Idle => drive(world, &mut Limits::resumed(settings, &earlier)),
        Limit::Age => drive(world, &mut Ages::resumed(settings, &earlier)),
    }
}

fn drive(world: &World, search: &mut dyn Search) -> Ran {
    let mut net = Net {
        world,
        random: Random(world.seed),
        flows: BTreeMap::new(),
        events: BinaryHeap::new(),
        order: 0,
    };
    let (mut now, mut outputs, mut most_open, mut told) = (START, Vec::new(), 0, Vec::new());
    let mut open: BTreeSet<u32> = BTreeSet::new();
    let mut left = Vec::new();
    let mut restarts: Vec<u64> = world
        .faults
        .iter()
        .filter_map(|f| if let Fault::Restart(at, _) = f { Some(START + at) } else { None })
        .collect();
    restarts.sort_unstable();
    let mut stop = world.stop_ns.map(|at| START + at);
    search.start(now);
    for turn in 0.. {
        assert!(turn < 3_000_000, "it goes on for ever at {} s: {:?}", (now - START) / S, search.progress());
        while let Some(output) = search.poll() {
            match &output {
                Output::Open { id } => {
                    assert!(open.insert(*id), "{id} was opened twice");
                    net.connect(now, *id);
                }
                Output::Look { id } => {
                    let quiet_ns = now.saturating_sub(net.flows[id].came_ns);
                    let acknowledged = net.flows[id].acked_ns.is_some_and(|at| at <= now);
                    let view = KernelView { quiet_ns, rto_ns: net.rto(), acknowledged };
                    search.handle(now, Input::Kernel { id: *id, view: world.kernel.then_some(view) });
                }
                Output::Send { id, bytes } => net.sent(now, *id, bytes.clone()),
                Output::Close { id } => assert!(open.remove(id), "{id} is closed and not open"),
                Output::Event { connection, kind } => told.push(Told {
                    at: Timestamp::from_nanosecond(i128::from(now)).expect("a time"),
                    mono_ns: now,
                    connection: *connection,
                    kind: kind.clone(),
                }),
            }
            most_open = most_open.max(open.len());
            outputs.push((now - START, output));
        }
        if search.is_over() {
            break;
        }
        let progress = search.progress();
        if progress.begun && (left.len() < 8 || turn % 64 == 0) {
            left.push((now - START, progress.left_ns));
        }
        let wake = search.next_wake().expect("it waits for something");
        let event_at = net.events.peek().map(|Reverse((at, ..))| *at);
        let next =
            [Some(wake.max(now)), event_at, restarts.first().copied(), stop].into_iter().flatten().min();
        now = next.expect("one is").max(now);
        for fault in &world.faults {
            if let Fault::Pause(from, to) = *fault
                && (START + from..START + to).contains(&now)
            {
                now = START + to;
            }
        }
        if stop.is_some_and(|at| at <= now) {
            stop = None;
            search.handle(now, Input::Stop);
        } else if restarts.first().is_some_and(|at| *at <= now) {
            let at = restarts.remove(0);
            let flows: Vec<(u32, Flow)> = net.flows.iter().map(|(id, flow)| (*id, *flow)).collect();
            for (id, flow) in flows {
                if flow.began_ns < at && !net.is_expired(flow, at) && !net.is_lost(at) {
                    let told_ns = at + net.world.rtt_ns / 2 + net.random.below(5 * MS);
                    net.at(told_ns, id, Event::Fin);
                }
            }
        } else if event_at.is_some_and(|at| at <= now) {
            let Some(Reverse((_, _, id, event))) = net.events.pop() else { continue };
            let Some(event) = net.happen(now, id, event) else { continue };
            if !open.contains(&id) {
                continue;
            }
            match event {
                Event::Connected => search.handle(now, Input::Connected { id }),
                Event::Refused => {
                    search.handle(
                        now,
                        Input::Broken { id, error: NetError::of_kind(ErrorKind::ConnectionRefused) },
                    );
                }
                Event::Reset => {
                    search.handle(
                        now,
                        Input::Broken { id, error: NetError::of_kind(ErrorKind::ConnectionReset) },
                    );
                }
                Event::Fin => search.handle(now, Input::Closed { id }),
                Event::Bytes(bytes) => search.handle(now, Input::Received { id, bytes: &bytes }),
                Event::Expiry(_) | Event::Doom | Event::Segment(_) => {}
            }
        } else {
            search.handle(now, Input::Wake);
        }
    }
    assert!(open.is_empty(), "it is over and {open:?} are open");
    Ran { outcome: search.outcome(), outputs, most_open, left, took_ns: now - START, told }
}
