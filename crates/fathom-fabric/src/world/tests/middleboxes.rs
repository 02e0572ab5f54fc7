//! What the world does for a middlebox: order, hops, claims, timers, its own packets, its events.

use std::collections::VecDeque;

use super::*;
use crate::event::StageEvent;
use crate::stage::{Context, Fate, StageStatus};

/// Does what its script says, packet by packet, and forwards at once when it has run out.
#[derive(Debug, Default)]
pub(super) struct Script {
    transits_ns: VecDeque<u64>,
    /// Packets to its own address go on to here, and the answer is claimed and given its address again.
    backend: Option<SocketAddr>,
    claimed: Vec<Flow>,
}

const VIRTUAL: u8 = 100;

impl Stage for Script {
    fn addresses(&self) -> Vec<IpAddr> {
        self.backend.iter().map(|_| address(VIRTUAL).ip()).collect()
    }
    fn packet(&mut self, _: u64, mut packet: Packet, context: &mut Context<'_>) -> Fate {
        if let Some(backend) = self.backend {
            if packet.flow().destination == address(VIRTUAL) {
                packet.set_destination(backend).unwrap();
                self.claimed.push(packet.flow().reversed());
                context.claim.push(packet.flow().reversed());
            } else if packet.flow().source == backend {
                packet.set_source(address(VIRTUAL)).unwrap();
            }
        }
        Fate::Forward { packet, transit_ns: self.transits_ns.pop_front().unwrap_or(0) }
    }
    fn next_due_ns(&self) -> Option<u64> {
        None
    }
    fn advance(&mut self, _: u64, _: &mut Context<'_>) {}
    fn event(&mut self, _: u64, event: &StageEvent, context: &mut Context<'_>) -> Result<(), String> {
        if *event != StageEvent::FlushFlows {
            return Err("only flush-flows".to_owned());
        }
        context.release.append(&mut self.claimed);
        Ok(())
    }
    fn status(&self) -> StageStatus {
        StageStatus::default()
    }
}

fn through(script: Script) -> Plan {
    let one = PathModel::constant(MS);
    Plan {
        hosts: vec![host("a", 1), host("b", 2)],
        stages: vec![("box".to_owned(), Box::new(script))],
        legs: vec![
            leg("a", "box", "left", &one),
            leg("box", "b", "right", &one),
            leg("a", "b", "direct", &one),
        ],
        routes: vec![
            route("a", 2, 0),
            route("a", VIRTUAL, 0),
            route("box", 2, 1),
            route("box", 1, 0),
            // Back past the middlebox, unless it claims the flow.
            route("b", 1, 2),
        ],
        packet_log: true,
        ..Plan::default()
    }
}

#[test]
fn transit_times_that_vary_do_not_reorder() {
    let script = Script { transits_ns: [500_000, 0, 100].into(), ..Script::default() };
    let mut world = World::new(through(script), 1).unwrap();
    let mut out = Output::default();
    for at_ns in [0, 1, 600_000] {
        world.packet_in(at_ns, A, udp(1, 2, 1), &mut out);
    }
    settle(&mut world, &mut out);
    let due: Vec<_> = out.deliveries.iter().map(|d| (d.packet.id, d.due_ns)).collect();
    assert_eq!(due, [(1, 2_500_000), (2, 2_500_000), (3, 2_600_100)]);
    let paths: Vec<_> = out.records[0].paths.iter().map(|&path| world.path_name(path)).collect();
    assert_eq!(paths, ["left", "right"]);
}

#[test]
fn a_middlebox_is_a_hop() {
    let mut world = World::new(through(Script::default()), 1).unwrap();
    let mut out = Output::default();
    world.packet_in(0, A, udp(1, 2, 1), &mut out);
    settle(&mut world, &mut out);
    assert_eq!(out.deliveries[0].packet.hop_limit(), 63);
    // With one hop left: header bytes by hand, 63 hops less in the high byte of a word of the sum.
    let mut bytes = udp(1, 2, 1);
    bytes[8] = 1;
    let sum = u32::from(u16::from_be_bytes([bytes[10], bytes[11]])) + (63 << 8);
    bytes[10..12].copy_from_slice(&((sum & 0xffff) as u16 + (sum >> 16) as u16).to_be_bytes());
    out.clear();
    world.packet_in(10 * MS, A, bytes, &mut out);
    settle(&mut world, &mut out);
    assert_eq!(dropped(&out), [(11 * MS, "box", DropReason::HopLimit)]);
    let told = &out.deliveries[0];
    assert_eq!((told.host, told.due_ns, told.packet.icmp_type()), (A, 12 * MS, Some((11, 0))));
    assert_eq!(told.packet.quoted_flow().unwrap().destination, address(2));
}

#[test]
fn a_claimed_flow_comes_back_through_the_middlebox() {
    let script = Script { backend: Some(address(2)), ..Script::default() };
    let mut world = World::new(through(script), 1).unwrap();
    let mut out = Output::default();
    let request = |world: &mut World, out: &mut Output, at_ns| {
        world.packet_in(at_ns, A, udp(1, VIRTUAL, 1), out);
        world.advance(at_ns + 2 * MS, out);
        world.packet_in(at_ns + 2 * MS, B, udp(2, 1, 1), out);
        settle(world, out);
    };
    request(&mut world, &mut out, 0);
    assert_eq!(out.deliveries[0].packet.flow().destination, address(2));
    let answer = &out.deliveries[1];
    assert_eq!((answer.packet.flow().source, answer.due_ns), (address(VIRTUAL), 4 * MS));
    assert_eq!(world.status().claims, 1);
    // Given up: the answer takes the direct way, with the backend's own address.
    let flush = Event::Stage { node: "box".into(), event: StageEvent::FlushFlows };
    world.event(10 * MS, &flush, &mut out).unwrap();
    assert_eq!(world.status().claims, 0);
    out.clear();
    world.packet_in(20 * MS, B, udp(2, 1, 1), &mut out);
    settle(&mut world, &mut out);
    assert_eq!((out.deliveries[0].packet.flow().source, out.deliveries[0].due_ns), (address(2), 21 * MS));
}

#[test]
fn stage_events_are_said_and_refusals_too() {
    let mut plan = through(Script::default());
    let limit = Event::Stage { node: "box".into(), event: StageEvent::IdleLimit { idle_ns: 1 } };
    let flush = Event::Stage { node: "box".into(), event: StageEvent::FlushFlows };
    plan.events = vec![(MS, flush), (2 * MS, limit.clone())];
    let mut world = World::new(plan, 1).unwrap();
    let mut out = Output::default();
    world.start(0);
    settle(&mut world, &mut out);
    assert!(matches!(&out.truths[0].what, What::EventBegan { event, .. } if event == "flush-flows"));
    let What::EventRefused { event, reason } = &out.truths[1].what else { panic!("{:?}", out.truths) };
    assert_eq!(
        (out.truths[1].at_ns, event.as_str(), reason.as_str()),
        (2 * MS, "idle-limit", "only flush-flows")
    );
    assert_eq!(world.event(3 * MS, &limit, &mut out), Err("only flush-flows".to_owned()));
}
