//! What a world is made of.

use std::net::IpAddr;

use crate::event::Event;
use crate::model::PathModel;
use crate::stage::Stage;

/// Everything that makes a world. Nodes are named; hosts and middleboxes share the names.
#[derive(Debug, Default)]
pub struct Plan {
    /// Those that send and receive.
    pub hosts: Vec<HostPlan>,
    /// Middleboxes by name.
    pub stages: Vec<(String, Box<dyn Stage>)>,
    /// What lies between two nodes.
    pub legs: Vec<LegPlan>,
    /// Where packets go.
    pub routes: Vec<RoutePlan>,
    /// What happens, and when: ns after the start of the world.
    pub events: Vec<(u64, Event)>,
    /// Whether every packet is recorded.
    pub packet_log: bool,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPlan {
    /// Its name.
    pub name: String,
    /// Packets to these are its own. No two nodes share one.
    pub addresses: Vec<IpAddr>,
}

/// A leg between two nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct LegPlan {
    /// A node's name.
    pub a: String,
    /// Another's.
    pub b: String,
    /// The label of the path to which it belongs. Events name it. A path of several legs bears its label on each; what a
    /// path change adds is then added on the first of them.
    pub path: String,
    /// From `a` to `b`: the direction from the path's `from` to its `to`.
    pub forward: PathModel,
    /// From `b` to `a`.
    pub backward: PathModel,
}

/// At `node`, packets to `destination` (from `source`, or from anybody) go by the leg of this number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutePlan {
    /// The node that forwards.
    pub node: String,
    /// Packets from here only; absent is from anybody. A route with a source goes before one without.
    pub source: Option<IpAddr>,
    /// Packets to here.
    pub destination: IpAddr,
    /// Index into the plan's legs, one end of which is the node.
    pub leg: usize,
}

/// A plan of which no world can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub(super) String);
