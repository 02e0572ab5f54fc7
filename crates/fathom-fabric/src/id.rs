//! Numbers that stand for hosts, nodes and paths, in the world and in the ground truth alike.

use serde::Serialize;

/// A host of the world, in the order of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct HostId(pub u32);

/// A node: hosts first, then middleboxes, in the order of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct NodeId(pub u32);

/// A path's label, in the order in which the plan's legs first name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct PathId(pub u32);

impl From<HostId> for NodeId {
    fn from(host: HostId) -> Self {
        Self(host.0)
    }
}
