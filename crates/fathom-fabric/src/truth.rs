//! What the fabric did: the ground truth that measurements and findings are scored against.

use serde::Serialize;

use crate::id::{HostId, NodeId, PathId};
use crate::packet::Flow;

/// Why a packet ended in the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// The leg's loss model.
    Loss,
    /// The leg's queue was full.
    QueueFull,
    /// Larger than the leg's MTU, with "don't fragment".
    TooBig,
    /// The leg is cut.
    Cut,
    /// No route from here to its destination.
    NoRoute,
    /// Its hop count ran out.
    HopLimit,
    /// A middlebox knew no flow for it.
    UnknownFlow,
    /// A middlebox's rules or state forbid it.
    Refused,
    /// A balancer had no healthy backend.
    NoBackend,
    /// A NAT had no free port.
    NoPort,
    /// A middlebox remembers as many flows as it can.
    FlowTableFull,
    /// A middlebox was changing over to its standby.
    Outage,
    /// The redirect after a migration had expired.
    RedirectExpired,
    /// Not an IP packet that the fabric can read.
    Malformed,
}

/// One line of `truth.jsonl`, but for the times, which the driver writes in both clocks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Truth {
    /// When it happened, ns of the driver's monotonic clock. The driver writes it as `mono_ns` and, mapped, as `at`.
    #[serde(skip)]
    pub at_ns: u64,
    /// Where: the node or the path's label.
    pub place: String,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

impl Truth {
    /// Whether from here on the host at `place` stands still (true) or runs again (false), as far as this event goes:
    /// another may hold it still. None: it is about something else.
    pub fn stands_still(&self) -> Option<bool> {
        let (begins, event) = match &self.what {
            What::EventBegan { event, .. } => (true, event),
            What::EventEnded { event } => (false, event),
            _ => return None,
        };
        matches!(event.as_str(), "host-pause" | "live-migration freeze").then_some(begins)
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind")]
pub enum What {
    /// A packet ended here.
    #[serde(rename = "packet.dropped")]
    PacketDropped {
        /// Its number in the fabric.
        packet: u64,
        /// Its flow, where it could be read.
        flow: Option<Flow>,
        /// Why.
        reason: DropReason,
    },
    /// A middlebox began to hold state for a flow.
    #[serde(rename = "flow.opened")]
    FlowOpened {
        /// As the client sends it.
        flow: Flow,
        /// The backend or the translated source, if any.
        to: Option<String>,
    },
    /// A middlebox forgot a flow.
    #[serde(rename = "flow.forgotten")]
    FlowForgotten {
        /// As the client sends it.
        flow: Flow,
        /// "idle", "flushed", "scale-in", "failover", "closed".
        why: &'static str,
        /// How long nothing had passed, ns.
        idle_ns: u64,
    },
    /// A middlebox (or the end of a redirect) sent a RST.
    #[serde(rename = "reset.sent")]
    ResetSent {
        /// The flow that it ends, as the receiver of the RST sends it.
        flow: Flow,
    },
    /// A balancer's view of a backend changed.
    #[serde(rename = "backend.changed")]
    BackendChanged {
        /// The backend.
        backend: String,
        /// Whether it gets new flows now.
        healthy: bool,
    },
    /// An event (or a phase of it) began.
    #[serde(rename = "event.began")]
    EventBegan {
        /// The event's kind and phase: "live-migration brownout", "link-cut".
        event: String,
        /// Its parameters, as asked for.
        parameters: serde_json::Value,
    },
    /// An event of the plan could not be: a middlebox refused it.
    #[serde(rename = "event.refused")]
    EventRefused {
        /// As in `event.began`.
        event: String,
        /// Why.
        reason: String,
    },
    /// An event (or a phase of it) ended.
    #[serde(rename = "event.ended")]
    EventEnded {
        /// As in `event.began`.
        event: String,
    },
}

/// Where a packet came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A host sent it.
    Host,
    /// A node made it: a health probe, a RST, an ICMP error.
    Made,
    /// A leg duplicated it.
    Copy,
    /// A leg cut a packet up, and this is not its first piece.
    Fragment,
}

/// How a packet ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PacketFate {
    /// A host got it.
    Delivered,
    /// It was dropped.
    Dropped(DropReason),
    /// A middlebox for which it was meant took it.
    Taken,
}

/// What became of one packet: a row of `truth-packets.parquet`. Written when the packet ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PacketRecord {
    /// Its number in the fabric.
    pub id: u64,
    /// When it came in or was made, ns of the driver's monotonic clock.
    pub in_ns: u64,
    /// When it was due at a host, or ended; same clock. What the driver adds to it is the driver's lateness.
    pub due_ns: u64,
    /// The host that sent it, or the node that made it.
    pub from: NodeId,
    /// The host that got it; absent of packets that ended before.
    pub to: Option<HostId>,
    /// Its flow as it came in; a middlebox may have rewritten it since.
    pub flow: Flow,
    /// Its length as it ended, bytes, the IP header included.
    pub size: u32,
    /// The labels of the legs that it entered, in order, without repetition.
    pub paths: Vec<PathId>,
    /// Where it came from.
    pub origin: Origin,
    /// How it ended.
    pub fate: PacketFate,
}
