//! What a middlebox is to the fabric: it takes a packet and a time, and says what becomes of it.

use std::fmt::Debug;
use std::net::IpAddr;

use rand_pcg::Pcg64;

use crate::event::StageEvent;
use crate::packet::{Flow, Packet};
use crate::truth::{DropReason, Truth};

/// What a middlebox decided about a packet.
#[derive(Debug)]
pub enum Fate {
    /// Goes on from this node, by its (perhaps rewritten) addresses, after so long.
    Forward {
        /// The packet, as it leaves.
        packet: Packet,
        /// Transit time of the middlebox, ns.
        transit_ns: u64,
    },
    /// Ends here. The world writes the truth of it.
    Drop {
        /// The packet, as it came.
        packet: Packet,
        /// Why.
        reason: DropReason,
    },
    /// Was meant for the middlebox itself, which took it (the answer to a health probe, say).
    Taken,
}

/// What a middlebox may do besides deciding about the packet in hand. Collected by the world, carried out after the call.
#[derive(Debug)]
pub struct Context<'a> {
    /// This node's own stream of random numbers: seeded by the scenario's seed and the node's name.
    pub random: &'a mut Pcg64,
    /// Packets that this node sends of its own (a RST, a health probe), each after so many ns. Forwarded by their addresses.
    pub send: &'a mut Vec<(u64, Packet)>,
    /// Flows that must come back through this node although their destination would lead elsewhere (a balancer's
    /// backends answer the client's address). The flow is as the far host will send it.
    pub claim: &'a mut Vec<Flow>,
    /// Claims given up.
    pub release: &'a mut Vec<Flow>,
    /// What happened, for the ground-truth log.
    pub truth: &'a mut Vec<Truth>,
}

/// A middlebox. Called in order of time.
pub trait Stage: Debug + Send {
    /// The addresses for which packets are routed to this node (virtual address, NAT address, endpoint); none for a firewall.
    fn addresses(&self) -> Vec<IpAddr>;

    /// A packet arrived at `now_ns`.
    fn packet(&mut self, now_ns: u64, packet: Packet, context: &mut Context<'_>) -> Fate;

    /// When [`Stage::advance`] wants to be called, if it does.
    fn next_due_ns(&self) -> Option<u64>;

    /// Timers: health probes, expired flows.
    fn advance(&mut self, now_ns: u64, context: &mut Context<'_>);

    /// An event of the scenario that concerns this middlebox. The error says why it cannot.
    fn event(&mut self, now_ns: u64, event: &StageEvent, context: &mut Context<'_>) -> Result<(), String>;
}
