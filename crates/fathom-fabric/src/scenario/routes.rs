//! Legs and routes of the paths.
//!
//! A path from a to b by way of m1, m2 is the legs a-m1, m1-m2, m2-b. On its way a packet may bear the address of a
//! middlebox instead of one end's: as its destination before a balancer or endpoint has translated it, as its source
//! after a NAT has. So at each node the sources that can have come that far, and the destinations that still lie ahead,
//! each make a route; and the same backwards, so that answers take the path that questions took.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use super::{Path, Scenario};
use crate::model::PathModel;
use crate::stage::StageConfig;
use crate::world::{LegPlan, RoutePlan};

/// A path's number in the scenario, and what is wrong with it.
type Mistake = (usize, String);

pub(super) fn check(scenario: &Scenario) -> Result<(), Mistake> {
    lay(scenario).map(|_| ())
}

/// The legs and routes of a scenario.
pub(super) fn lay(scenario: &Scenario) -> Result<(Vec<LegPlan>, Vec<RoutePlan>), Mistake> {
    let mut legs = Vec::new();
    let mut table = Routes { paths: &scenario.paths, taken: HashMap::new(), laid: Vec::new() };
    for number in 0..scenario.paths.len() {
        table.path(scenario, number, &mut legs)?;
    }
    Ok((legs, table.laid))
}

struct Routes<'a> {
    paths: &'a [Path],
    /// By whom a route was laid: the path's number.
    taken: HashMap<(String, Option<IpAddr>, IpAddr), usize>,
    laid: Vec<RoutePlan>,
}

impl Routes<'_> {
    fn path(&mut self, scenario: &Scenario, number: usize, legs: &mut Vec<LegPlan>) -> Result<(), Mistake> {
        let path = &self.paths[number];
        let nodes: Vec<&String> =
            std::iter::once(&path.from).chain(&path.via).chain(std::iter::once(&path.to)).collect();
        let last = nodes.len() - 1;
        let is_host = |name: &str| scenario.host(name).is_some();
        let (from_host, to_host) = (is_host(&path.from), is_host(&path.to));
        if path.to_addresses.is_empty() {
            let message = format!(
                "path \"{}\" leads to \"{}\", which has no address to send to; write a path from host to host with via = [\"{}\"]",
                path.label, path.to, path.to
            );
            return Err((number, message));
        }
        for i in 0..last {
            let translated = |range: std::ops::Range<usize>, translates: fn(&StageConfig) -> bool| {
                let boxes = nodes[range]
                    .iter()
                    .filter_map(|name| scenario.middleboxes.iter().find(|m| m.name == **name));
                boxes.filter(|m| translates(&m.config)).flat_map(|m| m.addresses.clone()).collect::<Vec<_>>()
            };
            // Sources that may have come this far, destinations that may lie ahead.
            let sources: BTreeSet<IpAddr> = path
                .from_addresses
                .iter()
                .copied()
                .chain(translated(1..(i + 1).min(last), |c| matches!(c, StageConfig::Nat(_))))
                .collect();
            let ahead: BTreeSet<IpAddr> = path
                .to_addresses
                .iter()
                .copied()
                .chain(translated((i + 1).min(last)..last, |c| {
                    matches!(c, StageConfig::LoadBalancer(_) | StageConfig::PrivateEndpoint(_))
                }))
                .collect();
            let leg = legs.len();
            let (forward, backward) = if i == 0 {
                (path.forward.clone(), path.backward.clone())
            } else {
                (PathModel::default(), PathModel::default())
            };
            let (a, b) = (nodes[i].clone(), nodes[i + 1].clone());
            legs.push(LegPlan { a: a.clone(), b: b.clone(), path: path.label.clone(), forward, backward });
            let alike = |x: &IpAddr, y: &IpAddr| x.is_ipv4() == y.is_ipv4();
            for source in &sources {
                for destination in ahead.iter().filter(|d| alike(source, d)) {
                    self.exact(number, &a, *source, *destination, leg)?;
                    self.exact(number, &b, *destination, *source, leg)?;
                }
            }
            // Middleboxes send in their own name too (an ICMP error, a health probe), and are sent to; a path that ends at
            // one carries whatever comes by there.
            let own = |range: std::ops::Range<usize>| {
                nodes[range]
                    .iter()
                    .filter(|n| !is_host(n))
                    .flat_map(|n| scenario.node_addresses(n))
                    .copied()
                    .collect::<Vec<_>>()
            };
            let (to_end, from_end) = (path.to_addresses.iter().copied(), path.from_addresses.iter().copied());
            let strict = !(from_host && to_host);
            for destination in
                own(i + 1..last + 1).into_iter().chain(to_end.filter(|_| !is_host(&a) || strict))
            {
                self.any(number, &a, destination, leg, strict)?;
            }
            for destination in own(0..i + 1).into_iter().chain(from_end.filter(|_| !is_host(&b) || strict)) {
                self.any(number, &b, destination, leg, strict)?;
            }
        }
        Ok(())
    }

    fn exact(
        &mut self,
        path: usize,
        node: &str,
        source: IpAddr,
        destination: IpAddr,
        leg: usize,
    ) -> Result<(), Mistake> {
        let key = (node.to_owned(), Some(source), destination);
        if let Some(other) = self.taken.get(&key).copied() {
            if other == path {
                return Ok(());
            }
            let (this, other) = (&self.paths[path].label, &self.paths[other].label);
            let message = format!(
                "paths \"{other}\" and \"{this}\" both carry {source} to {destination}; give a host another address and name it in `from` or `to`, or join a balancer to its backends by paths of their own"
            );
            return Err((path, message));
        }
        self.taken.insert(key, path);
        self.laid.push(RoutePlan { node: node.to_owned(), source: Some(source), destination, leg });
        Ok(())
    }

    /// For packets of any source: the first path that leads there.
    fn any(
        &mut self,
        path: usize,
        node: &str,
        destination: IpAddr,
        leg: usize,
        strict: bool,
    ) -> Result<(), Mistake> {
        let key = (node.to_owned(), None, destination);
        if let Some(other) = self.taken.get(&key).copied() {
            let (this, that) = (&self.paths[path], &self.paths[other]);
            if strict && other != path && (&this.from, &this.to) == (&that.from, &that.to) {
                let message = format!(
                    "paths \"{}\" and \"{}\" both lead from \"{}\" to \"{}\" ({destination}); keep one, or give \"{}\" another address",
                    that.label, this.label, this.from, this.to, this.to
                );
                return Err((path, message));
            }
            return Ok(());
        }
        self.taken.insert(key, path);
        self.laid.push(RoutePlan { node: node.to_owned(), source: None, destination, leg });
        Ok(())
    }
}
