//! What the world is doing, for `fathom fabric status`.

use serde::Serialize;

use super::{Kind, World};
use crate::stage::StageStatus;

/// What passed, since the start. Packets in + made = delivered + dropped + taken + in the fabric, at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counters {
    /// Hosts sent these.
    pub packets_in: u64,
    /// Middleboxes made these (probes, RSTs, ICMP errors), and legs (copies, fragments after the first).
    pub made: u64,
    /// Hosts got these.
    pub delivered: u64,
    /// Ended on the way; the ground truth says why.
    pub dropped: u64,
    /// Middleboxes took these for themselves.
    pub taken: u64,
    /// Flows that a middlebox wanted to claim beyond [`super::CLAIMS_MAX`].
    pub claims_refused: u64,
}

/// What the world is doing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// The time of which it speaks, ns of the driver's monotonic clock.
    pub now_ns: u64,
    /// Packets in the fabric: on their way and held.
    pub in_fabric: usize,
    /// Of these, held for hosts that stand still.
    pub held: usize,
    /// Flows that middleboxes claim.
    pub claims: usize,
    /// What passed.
    pub counters: Counters,
    /// In the order of the plan.
    pub hosts: Vec<HostStatus>,
    /// In the order in which the plan first names them.
    pub paths: Vec<PathStatus>,
    /// In the order of the plan.
    pub middleboxes: Vec<MiddleboxStatus>,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostStatus {
    /// Its name.
    pub name: String,
    /// Whether it stands still.
    pub frozen: bool,
    /// Packets held for it.
    pub held: usize,
    /// Added to its packets each way by a brownout, ns.
    pub brownout_ns: u64,
    /// Redirects that serve its old flows now.
    pub redirects: usize,
    /// Flows seen of it.
    pub flows: usize,
}

/// A path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathStatus {
    /// Its label.
    pub label: String,
    /// Whether nothing crosses from its `from` to its `to`.
    pub cut_forward: bool,
    /// The other way.
    pub cut_backward: bool,
    /// Added one way by events, ns.
    pub added_ns: i64,
}

/// A middlebox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MiddleboxStatus {
    /// Its name.
    pub name: String,
    /// What it holds.
    #[serde(flatten)]
    pub stage: StageStatus,
}

pub(super) fn of(world: &World) -> Status {
    let mut hosts = Vec::new();
    let mut middleboxes = Vec::new();
    for node in &world.nodes {
        let name = node.name.to_string();
        match &node.kind {
            Kind::Host(host) => hosts.push(HostStatus {
                name,
                frozen: host.frozen > 0,
                held: host.held.len(),
                brownout_ns: host.brownout_ns,
                redirects: host.redirects.iter().filter(|redirect| !redirect.expired).count(),
                flows: host.flows.len(),
            }),
            Kind::Middlebox(middlebox) => {
                middleboxes.push(MiddleboxStatus { name, stage: middlebox.stage.status() });
            }
        }
    }
    let mut paths: Vec<_> = world
        .paths
        .iter()
        .map(|label| PathStatus {
            label: label.to_string(),
            cut_forward: false,
            cut_backward: false,
            added_ns: 0,
        })
        .collect();
    for leg in &world.legs {
        let path = &mut paths[leg.path.0 as usize];
        path.cut_forward |= leg.forward.cuts > 0;
        path.cut_backward |= leg.backward.cuts > 0;
        path.added_ns += leg.forward.added_ns;
    }
    Status {
        now_ns: world.now_ns,
        in_fabric: world.queue.packets(),
        held: hosts.iter().map(|host| host.held).sum(),
        claims: world.claims.len(),
        counters: world.counters,
        hosts,
        paths,
        middleboxes,
    }
}
