//! Where packets go on from a node.

use std::collections::HashMap;
use std::net::IpAddr;

/// Routes by node and addresses, and which legs join which nodes.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// (node, source, destination).
    exact: HashMap<(u32, IpAddr, IpAddr), u32>,
    /// (node, destination).
    any: HashMap<(u32, IpAddr), u32>,
    /// (node, neighbour): the first leg of the plan between the two.
    neighbours: HashMap<(u32, u32), u32>,
    /// By node: whether it has a route with a source.
    by_source: Vec<bool>,
}

impl Routes {
    pub(super) fn new(nodes: usize) -> Self {
        Self { by_source: vec![false; nodes], ..Self::default() }
    }

    /// False where the same route was there already by another leg.
    pub(super) fn add(&mut self, node: u32, source: Option<IpAddr>, destination: IpAddr, leg: u32) -> bool {
        let old = if let Some(source) = source {
            self.by_source[node as usize] = true;
            self.exact.insert((node, source, destination), leg)
        } else {
            self.any.insert((node, destination), leg)
        };
        old.is_none_or(|old| old == leg)
    }

    pub(super) fn join(&mut self, a: u32, b: u32, leg: u32) {
        self.neighbours.entry((a, b)).or_insert(leg);
        self.neighbours.entry((b, a)).or_insert(leg);
    }

    /// The leg from a node between two addresses.
    pub(super) fn find(&self, node: u32, source: IpAddr, destination: IpAddr) -> Option<u32> {
        let exact =
            self.by_source[node as usize].then(|| self.exact.get(&(node, source, destination))).flatten();
        exact.or_else(|| self.any.get(&(node, destination))).copied()
    }

    /// The leg from a node straight to another.
    pub(super) fn between(&self, node: u32, neighbour: u32) -> Option<u32> {
        self.neighbours.get(&(node, neighbour)).copied()
    }
}
