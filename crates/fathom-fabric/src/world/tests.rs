//! The engine in virtual time, on small topologies whose every delay is known.

mod events;
mod laws;
mod middleboxes;
mod throughput;

use std::net::SocketAddr;

use super::*;
use crate::model::PathModel;
use crate::packet::Flags;
use crate::truth::{DropReason, What};

pub(super) const MS: u64 = 1_000_000;

pub(super) fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], 1_000 + u16::from(host)))
}

pub(super) fn host(name: &str, last: u8) -> HostPlan {
    HostPlan { name: name.to_owned(), addresses: vec![address(last).ip()] }
}

pub(super) fn leg(a: &str, b: &str, path: &str, model: &PathModel) -> LegPlan {
    LegPlan { a: a.into(), b: b.into(), path: path.into(), forward: model.clone(), backward: model.clone() }
}

pub(super) fn route(node: &str, last: u8, leg: usize) -> RoutePlan {
    RoutePlan { node: node.to_owned(), source: None, destination: address(last).ip(), leg }
}

/// Two hosts, a (1) and b (2), and a path between them.
pub(super) fn pair(model: &PathModel) -> Plan {
    Plan {
        hosts: vec![host("a", 1), host("b", 2)],
        legs: vec![leg("a", "b", "ab", model)],
        routes: vec![route("a", 2, 0), route("b", 1, 0)],
        packet_log: true,
        ..Plan::default()
    }
}

pub(super) const A: HostId = HostId(0);
pub(super) const B: HostId = HostId(1);

pub(super) fn udp(from: u8, to: u8, length: usize) -> Vec<u8> {
    Packet::udp(address(from), address(to), &vec![0; length]).unwrap().into_bytes()
}

pub(super) fn tcp(from: u8, to: u8, flags: Flags) -> Vec<u8> {
    Packet::tcp(address(from), address(to), 100, 200, flags, &[]).unwrap().into_bytes()
}

/// Lets everything happen, one due time after the other.
pub(super) fn settle(world: &mut World, out: &mut Output) {
    while let Some(due_ns) = world.next_due_ns() {
        world.advance(due_ns, out);
    }
}

pub(super) fn dropped(out: &Output) -> Vec<(u64, &str, DropReason)> {
    let of = |truth: &'_ Truth| match truth.what {
        What::PacketDropped { reason, .. } => Some((truth.at_ns, reason)),
        _ => None,
    };
    out.truths.iter().filter_map(|t| of(t).map(|(at, reason)| (at, t.place.as_str(), reason))).collect()
}

#[test]
fn a_packet_takes_its_delay_each_way() {
    let mut plan = pair(&PathModel::constant(3 * MS));
    plan.legs[0].backward.delay_ns = 5 * MS;
    let mut world = World::new(plan, 1).unwrap();
    let mut out = Output::default();
    world.start(1_000);
    world.packet_in(1_000, A, udp(1, 2, 10), &mut out);
    assert_eq!(world.next_due_ns(), Some(1_000 + 3 * MS));
    world.advance(999 + 3 * MS, &mut out);
    assert!(out.deliveries.is_empty(), "not before its time");
    // A late driver: the packet was due when it was due.
    world.advance(900 * MS, &mut out);
    assert_eq!((out.deliveries[0].host, out.deliveries[0].due_ns), (B, 1_000 + 3 * MS));
    world.packet_in(900 * MS, B, udp(2, 1, 10), &mut out);
    settle(&mut world, &mut out);
    assert_eq!((out.deliveries[1].host, out.deliveries[1].due_ns), (A, 905 * MS));
    let record = &out.records[1];
    assert_eq!(
        (record.in_ns, record.due_ns, record.from, record.to),
        (900 * MS, 905 * MS, B.into(), Some(A))
    );
    assert_eq!((world.path_name(record.paths[0]), record.size, record.paths.len()), ("ab", 38, 1));
    assert_eq!((world.node_name(record.from), world.host("b")), ("b", Some(B)));
    assert!(out.truths.is_empty());
}

#[test]
fn what_cannot_go_on_is_dropped_and_said() {
    let mut world = World::new(pair(&PathModel::constant(MS)), 1).unwrap();
    let mut out = Output::default();
    world.packet_in(5, A, udp(1, 9, 10), &mut out);
    world.packet_in(6, A, vec![1, 2, 3], &mut out);
    assert_eq!(dropped(&out), [(5, "a", DropReason::NoRoute), (6, "a", DropReason::Malformed)]);
    assert_eq!(world.status().counters.dropped, 2);
}

#[test]
fn plans_that_make_no_world_are_refused() {
    type Spoil = fn(&mut Plan);
    let spoils: [(Spoil, &str); 8] = [
        (|p| p.hosts[1].name = "a".into(), "two nodes are named a"),
        (|p| p.hosts[1].addresses = vec![address(1).ip()], "both have the address 10.0.0.1"),
        (|p| p.legs[0].b = "c".into(), "no node named c"),
        (|p| p.legs[0].b = "a".into(), "ends where it begins"),
        (|p| p.legs[0].forward.duplicate = 2.0, "forward: duplicate is 2"),
        (|p| p.routes[0].leg = 7, "no leg 7"),
        (|p| p.routes[0].node = "z".into(), "no such node"),
        (
            |p| p.events.push((MS, Event::HostPause { host: "z".into(), duration_ns: 1 })),
            "event at 0.001 s: there is no host named z",
        ),
    ];
    for (spoil, words) in spoils {
        let mut plan = pair(&PathModel::constant(1));
        spoil(&mut plan);
        let error = World::new(plan, 1).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let mut plan = pair(&PathModel::constant(1));
    plan.legs.push(leg("a", "b", "other", &PathModel::constant(2)));
    plan.routes.push(route("a", 2, 1));
    assert!(World::new(plan, 1).unwrap_err().to_string().contains("another route already"));
}

#[test]
fn a_route_with_a_source_goes_first() {
    let mut plan = pair(&PathModel::constant(MS));
    plan.hosts[0].addresses.push(address(7).ip());
    plan.legs.push(leg("a", "b", "slow", &PathModel::constant(9 * MS)));
    plan.routes.push(RoutePlan { source: Some(address(7).ip()), ..route("a", 2, 1) });
    let mut world = World::new(plan, 1).unwrap();
    let mut out = Output::default();
    world.packet_in(0, A, udp(7, 2, 1), &mut out);
    world.packet_in(0, A, udp(1, 2, 1), &mut out);
    settle(&mut world, &mut out);
    assert_eq!(out.deliveries.iter().map(|d| d.due_ns).collect::<Vec<_>>(), [MS, 9 * MS]);
    assert_eq!(world.path_name(out.records[1].paths[0]), "slow");
}

#[test]
fn oversized_packets_fragment_or_notify_sender() {
    let model = PathModel { mtu: Some(600), ..PathModel::constant(MS) };
    let mut world = World::new(pair(&model), 1).unwrap();
    let mut out = Output::default();
    // With "don't fragment", as our packets are made.
    world.packet_in(0, A, udp(1, 2, 800), &mut out);
    assert_eq!(dropped(&out), [(0, "ab", DropReason::TooBig)]);
    assert_eq!((out.deliveries[0].host, out.deliveries[0].due_ns), (A, 0));
    let told = &out.deliveries[0].packet;
    assert_eq!(told.icmp_type(), Some((3, 4)));
    assert_eq!(told.bytes()[26..28], 600_u16.to_be_bytes());
    assert_eq!(told.quoted_flow().unwrap().destination, address(2));
    // Without: flags and header checksum changed by hand. The flag is worth 0x4000 in the sum.
    let mut bytes = udp(1, 2, 800);
    bytes[6] = 0;
    let sum = u32::from(u16::from_be_bytes([bytes[10], bytes[11]])) + 0x4000;
    bytes[10..12].copy_from_slice(&((sum & 0xffff) as u16 + (sum >> 16) as u16).to_be_bytes());
    out.clear();
    world.packet_in(0, A, bytes, &mut out);
    settle(&mut world, &mut out);
    let lengths: Vec<_> = out.deliveries.iter().map(|d| d.packet.len()).collect();
    assert_eq!(lengths, [20 + 576, 20 + 808 - 576]);
    let counters = world.status().counters;
    assert_eq!((counters.packets_in, counters.made, counters.delivered, counters.dropped), (2, 2, 3, 1));
}

/// As many packets as it holds, and one more.
fn full(packet_log: bool) -> (World, Output) {
    let mut world = World::new(Plan { packet_log, ..pair(&PathModel::constant(MS)) }, 1).unwrap();
    let (mut out, packet) = (Output::default(), udp(1, 2, 0));
    for _ in 0..PACKETS_MAX {
        world.packet_in(0, A, packet.clone(), &mut out);
    }
    assert!(out.truths.is_empty());
    world.packet_in(0, A, packet, &mut out);
    assert_eq!(dropped(&out), [(0, "a", DropReason::QueueFull)]);
    assert_eq!(world.status().in_fabric, PACKETS_MAX);
    (world, out)
}

#[test]
fn memory_is_bounded() {
    full(false);
}

mod acceptance {
    use super::*;

    #[test]
    fn full_world_delivers_what_it_holds() {
        let (mut world, mut out) = full(true);
        settle(&mut world, &mut out);
        assert_eq!((out.deliveries.len(), world.status().in_fabric), (PACKETS_MAX, 0));
    }
}
