//! From a plan to a world, or the reason why there is none.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::engine::Scratch;
use super::host::Host;
use super::queue::Queue;
use super::route::Routes;
use super::{Counters, Kind, Leg, LegPlan, Middlebox, Node, PathId, Plan, PlanError, World};
use crate::model::{Delay, Lane, PathModel, stream};

pub(super) fn build(plan: Plan, seed: u64) -> Result<World, PlanError> {
    let hosts = plan.hosts.len() as u32;
    let nodes = nodes(&plan.hosts, plan.stages, seed)?;
    let index: HashMap<Arc<str>, u32> =
        nodes.iter().zip(0..).map(|(node, i)| (node.name.clone(), i)).collect();
    let (legs, paths) = legs(&plan.legs, &index, seed)?;
    let mut routes = Routes::new(nodes.len());
    for (leg, i) in legs.iter().zip(0..) {
        routes.join(leg.a, leg.b, i);
    }
    for route in &plan.routes {
        let (name, destination) = (&route.node, route.destination);
        let wrong = |why: String| PlanError(format!("route at {name} to {destination}: {why}"));
        let node = *index.get(name.as_str()).ok_or_else(|| wrong("there is no such node".to_owned()))?;
        let leg = legs.get(route.leg).ok_or_else(|| wrong(format!("there is no leg {}", route.leg)))?;
        if leg.a != node && leg.b != node {
            return Err(wrong(format!("leg {} does not end at {name}", route.leg)));
        }
        if !routes.add(node, route.source, destination, route.leg as u32) {
            let from = route.source.map_or_else(String::new, |source| format!(" from {source}"));
            return Err(wrong(format!(
                "packets{from} have another route already; two paths join the same two ends"
            )));
        }
    }
    let world = World {
        now_ns: 0,
        started: false,
        nodes,
        hosts,
        legs,
        paths,
        routes,
        claims: HashMap::new(),
        queue: Queue::default(),
        planned: plan.events,
        migrations: Vec::new(),
        packet_log: plan.packet_log,
        last_id: 0,
        counters: Counters::default(),
        scratch: Scratch::default(),
    };
    for (at_ns, event) in &world.planned {
        let seconds = *at_ns as f64 / 1e9;
        world.check(event).map_err(|reason| PlanError(format!("event at {seconds} s: {reason}")))?;
    }
    Ok(world)
}

fn nodes(
    hosts: &[super::HostPlan],
    stages: Vec<(String, Box<dyn crate::stage::Stage>)>,
    seed: u64,
) -> Result<Vec<Node>, PlanError> {
    let mut names = HashSet::new();
    let mut owners: HashMap<IpAddr, String> = HashMap::new();
    let mut enter = |name: &str, addresses: &[IpAddr]| {
        if !names.insert(name.to_owned()) {
            return Err(PlanError(format!("two nodes are named {name}; rename one")));
        }
        for &address in addresses {
            if let Some(owner) = owners.insert(address, name.to_owned()) {
                return Err(PlanError(format!(
                    "{owner} and {name} both have the address {address}; change one"
                )));
            }
        }
        Ok(())
    };
    let mut nodes = Vec::with_capacity(hosts.len() + stages.len());
    for host in hosts {
        enter(&host.name, &host.addresses)?;
        let state = Host::new(host.addresses.clone());
        nodes.push(Node { name: host.name.as_str().into(), kind: Kind::Host(Box::new(state)) });
    }
    for (name, stage) in stages {
        let addresses = stage.addresses();
        enter(&name, &addresses)?;
        let random = stream(seed, &format!("middlebox {name}"));
        let middlebox = Middlebox { stage, addresses, random, timer_ns: None };
        nodes.push(Node { name: name.into(), kind: Kind::Middlebox(Box::new(middlebox)) });
    }
    Ok(nodes)
}

fn legs(
    plans: &[LegPlan],
    index: &HashMap<Arc<str>, u32>,
    seed: u64,
) -> Result<(Vec<Leg>, Vec<Arc<str>>), PlanError> {
    let mut paths: Vec<Arc<str>> = Vec::new();
    let mut by_label: HashMap<&str, u32> = HashMap::new();
    // Legs of the same path between the same two nodes are told apart by their number among themselves.
    let mut same: HashMap<(&str, &str, &str), u32> = HashMap::new();
    // Many legs share a model, and a table of quantiles takes a millisecond to make.
    let mut delays: HashMap<String, Delay> = HashMap::new();
    let mut legs = Vec::with_capacity(plans.len());
    for plan in plans {
        let LegPlan { a, b, path, .. } = plan;
        let wrong = |why: String| PlanError(format!("leg of path {path} from {a} to {b}: {why}"));
        let find = |name: &str| {
            index.get(name).copied().ok_or_else(|| wrong(format!("there is no node named {name}")))
        };
        let (from, to) = (find(a)?, find(b)?);
        if from == to {
            return Err(wrong("it ends where it begins".to_owned()));
        }
        let count = same.entry((path, a, b)).or_default();
        *count += 1;
        let name = format!("leg {path} {a} {b} {count}");
        let mut lane = |model: &PathModel, way: &str| {
            let key = serde_json::to_string(model).unwrap_or_default();
            let delay = if let Some(delay) = delays.get(&key) {
                delay.clone()
            } else {
                let delay = model.delay().map_err(|why| wrong(format!("{way}: {why}")))?;
                delays.insert(key, delay.clone());
                delay
            };
            Ok(Lane::with_delay(model.clone(), delay, seed, &format!("{name} {way}")))
        };
        let forward = lane(&plan.forward, "forward")?;
        let backward = lane(&plan.backward, "backward")?;
        let path = *by_label.entry(path).or_insert_with(|| {
            paths.push(path.as_str().into());
            paths.len() as u32 - 1
        });
        legs.push(Leg { path: PathId(path), a: from, b: to, forward, backward, entered_ns: [0; 2] });
    }
    Ok((legs, paths))
}
