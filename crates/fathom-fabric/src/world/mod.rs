//! The world: hosts, middleboxes and the legs between them, with a queue of what is due.
//!
//! Whoever drives it says what time it is: [`World::packet_in`] when a host sends, [`World::advance`] when something is due.
//! Everything is handled at the time when it *was* due, in order of that time, however late the driver comes: lateness of the
//! driver never adds up along a path.

mod build;
mod end;
mod engine;
mod events;
mod flows;
mod host;
mod middlebox;
mod plan;
mod queue;
mod route;
mod status;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use rand_pcg::Pcg64;

pub use plan::{HostPlan, LegPlan, Plan, PlanError, RoutePlan};
pub use status::{Counters, HostStatus, MiddleboxStatus, PathStatus, Status};

pub use crate::id::{HostId, NodeId, PathId};

use crate::event::Event;
use crate::model::Lane;
use crate::packet::{Flow, Packet};
use crate::stage::Stage;
use crate::truth::{PacketRecord, Truth};
use events::Migration;
use host::Host;
use queue::Queue;

/// Packets that may be in the fabric at once, on their way or held; those beyond it are dropped as
/// [`crate::truth::DropReason::QueueFull`] where they come in.
pub const PACKETS_MAX: usize = 262_144;

/// Their bytes together, at most.
pub const BYTES_MAX: usize = 256 << 20;

/// Flows that middleboxes may claim at once. What is claimed beyond it is not, and counted.
pub const CLAIMS_MAX: usize = 262_144;

/// A packet for a host's device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Whose.
    pub host: HostId,
    /// What.
    pub packet: Packet,
    /// When it was due, ns: the driver's lateness is its own clock minus this.
    pub due_ns: u64,
}

/// What came of a call. The driver empties it and hands it in again.
#[derive(Debug, Default)]
pub struct Output {
    /// In order of time.
    pub deliveries: Vec<Delivery>,
    /// In order of time.
    pub truths: Vec<Truth>,
    /// In order of the time at which the packets ended; only where the plan asks for them.
    pub records: Vec<PacketRecord>,
}

impl Output {
    /// Empties it, and keeps its memory.
    pub fn clear(&mut self) {
        self.deliveries.clear();
        self.truths.clear();
        self.records.clear();
    }
}

/// A node of the world.
#[derive(Debug)]
struct Node {
    name: Arc<str>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Host(Box<Host>),
    Middlebox(Box<Middlebox>),
}

#[derive(Debug)]
struct Middlebox {
    stage: Box<dyn Stage>,
    addresses: Vec<IpAddr>,
    random: Pcg64,
    /// The earliest timer that is in the queue for it.
    timer_ns: Option<u64>,
}

/// Two nodes and what lies between, each way.
#[derive(Debug)]
struct Leg {
    path: PathId,
    a: u32,
    b: u32,
    forward: Lane,
    backward: Lane,
    /// When the last packet that a middlebox forwarded into it entered, each way: transit times that vary do not reorder.
    entered_ns: [u64; 2],
}

/// The fabric itself. See the module.
#[derive(Debug)]
pub struct World {
    now_ns: u64,
    started: bool,
    nodes: Vec<Node>,
    hosts: u32,
    legs: Vec<Leg>,
    paths: Vec<Arc<str>>,
    routes: route::Routes,
    claims: HashMap<Flow, u32>,
    queue: Queue,
    planned: Vec<(u64, Event)>,
    migrations: Vec<Migration>,
    packet_log: bool,
    last_id: u64,
    counters: Counters,
    scratch: engine::Scratch,
}

impl World {
    /// A world at rest. All its randomness comes of the seed and of names.
    pub fn new(plan: Plan, seed: u64) -> Result<Self, PlanError> {
        build::build(plan, seed)
    }

    /// Time begins: the plan's events are due from `now_ns` on, and middleboxes may act. Whatever is called first does it if
    /// the driver has not. A second start does nothing.
    pub fn start(&mut self, now_ns: u64) {
        if self.started {
            return;
        }
        self.started = true;
        self.now_ns = now_ns;
        for index in 0..self.planned.len() {
            let due_ns = now_ns.saturating_add(self.planned[index].0);
            self.queue.push(due_ns, queue::Job::Planned { index: index as u32 });
        }
        for node in self.hosts..self.nodes.len() as u32 {
            if let Kind::Middlebox(middlebox) = &mut self.nodes[node as usize].kind {
                middlebox.stage.start(now_ns);
            }
            self.set_timer(node);
        }
    }

    /// A host sent a packet. Everything due at or before `now_ns` is handled first.
    pub fn packet_in(&mut self, now_ns: u64, host: HostId, bytes: Vec<u8>, out: &mut Output) {
        self.advance(now_ns, out);
        self.take_in(host, bytes, out);
    }

    /// When [`World::advance`] has something to do next, ns; none while nothing is on its way.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.queue.next_due_ns()
    }

    /// Does everything due at or before `now_ns`, each at its own time. A time before the last one counts as the last one.
    pub fn advance(&mut self, now_ns: u64, out: &mut Output) {
        self.start(now_ns);
        while let Some((due_ns, job)) = self.queue.pop_due(now_ns) {
            self.now_ns = self.now_ns.max(due_ns);
            self.run(job, out);
        }
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// Makes something happen now. The error says what is not there or cannot be, and nothing has happened.
    pub fn event(&mut self, now_ns: u64, event: &Event, out: &mut Output) -> Result<(), String> {
        self.advance(now_ns, out);
        self.begin(event, out)
    }

    /// The host of this name.
    pub fn host(&self, name: &str) -> Option<HostId> {
        (0..self.hosts).find(|&i| &*self.nodes[i as usize].name == name).map(HostId)
    }

    /// Every host: its name and addresses.
    pub fn hosts(&self) -> impl Iterator<Item = (HostId, &str, &[IpAddr])> {
        self.nodes.iter().zip(0..).filter_map(|(node, i)| match &node.kind {
            Kind::Host(host) => Some((HostId(i), &*node.name, host.addresses.as_slice())),
            Kind::Middlebox(_) => None,
        })
    }

    /// A node's name, as records and truths call it.
    pub fn node_name(&self, node: NodeId) -> &str {
        self.nodes.get(node.0 as usize).map_or("", |node| &node.name)
    }

    /// A path's label.
    pub fn path_name(&self, path: PathId) -> &str {
        self.paths.get(path.0 as usize).map_or("", |label| label)
    }

    /// The legs in the order of the plan, each with its label and both directions: what the benchmark holds a packet log
    /// against.
    pub fn lanes(&self) -> impl Iterator<Item = (&str, &Lane, &Lane)> {
        self.legs.iter().map(|leg| (&*self.paths[leg.path.0 as usize], &leg.forward, &leg.backward))
    }

    /// What it is doing.
    pub fn status(&self) -> Status {
        status::of(self)
    }
}
