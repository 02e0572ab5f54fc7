//! What is written of a packet that ended.

use fathom_fabric::id::{NodeId, PathId};
use fathom_fabric::truth::PacketRecord;
use fathom_fabric::world::World;

/// A packet that ended, and when its host was given it; none where it ended otherwise.
#[derive(Debug, Clone)]
pub(super) struct StampedRecord {
    pub(super) record: PacketRecord,
    pub(super) out_ns: Option<u64>,
}

/// The names that records stand for by number.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) nodes: Vec<String>,
    pub(super) paths: Vec<String>,
}

impl Names {
    pub(super) fn of(world: &World) -> Self {
        Self { nodes: all(|i| world.node_name(NodeId(i))), paths: all(|i| world.path_name(PathId(i))) }
    }
}

/// Names by number, until one is empty: there are no more.
fn all<'a>(name: impl Fn(u32) -> &'a str) -> Vec<String> {
    (0..u32::MAX).map(|i| name(i).to_owned()).take_while(|name| !name.is_empty()).collect()
}
