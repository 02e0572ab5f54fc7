//! What can be made to happen in the fabric, at a time stated in the scenario or when somebody asks.
//!
//! The words are those of a scenario's `[[event]]` and of `fathom fabric event`.

use serde::{Deserialize, Serialize};

/// An event of the scenario. Nodes and paths are named as in the scenario; durations are ns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Event {
    /// A host moves to other hardware, as clouds do it: a brownout while memory is copied, a freeze, then a redirect
    /// that serves the old flows until it expires.
    LiveMigration {
        /// The host that moves.
        host: String,
        /// How long before the freeze the copying begins, and what it adds to every packet of the host.
        brownout_ns: u64,
        /// Added one way during the brownout, ns.
        brownout_added_ns: u64,
        /// How long the host stands still. Its packets are held, not lost.
        freeze_ns: u64,
        /// How long after the freeze flows that are older than it go by way of the old place.
        redirect_ns: u64,
        /// Added one way to redirected packets, ns.
        redirect_added_ns: u64,
        /// What becomes of the redirected flows when the redirect expires.
        then: RedirectEnd,
    },
    /// A host does not run: its packets are held, and delivered when it does.
    HostPause {
        /// The host.
        host: String,
        /// For how long, ns.
        duration_ns: u64,
    },
    /// The delay of a path changes for good (or for a while) by this much one way; negative is shorter.
    PathChange {
        /// The path's label.
        path: String,
        /// Added one way, ns.
        added_ns: i64,
        /// For how long; absent is for good.
        duration_ns: Option<u64>,
    },
    /// Nothing crosses.
    LinkCut {
        /// The path's label.
        path: String,
        /// Which way.
        direction: Direction,
        /// For how long; absent is for good.
        duration_ns: Option<u64>,
    },
    /// Something that a middlebox does.
    Stage {
        /// The middlebox.
        node: String,
        /// What.
        #[serde(flatten)]
        event: StageEvent,
    },
}

/// Which way of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the path's `from` to its `to`.
    Forward,
    /// Back.
    Backward,
    /// Both.
    Both,
}

/// What happens to flows when the redirect of a migration ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RedirectEnd {
    /// They go the direct way like new ones.
    Direct,
    /// Their packets are lost without a word.
    Silent,
    /// They are answered with RST.
    Reset,
}

/// An event inside a middlebox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum StageEvent {
    /// Every flow is forgotten.
    FlushFlows,
    /// The idle limit becomes this, ns, for flows old and new.
    IdleLimit {
        /// ns without a packet after which a flow is forgotten.
        #[serde(alias = "idle", deserialize_with = "fathom_core::units::serde_ns::deserialize")]
        idle_ns: u64,
    },
    /// One of a firewall's (or balancer's) instances goes away with the flows it held.
    ScaleIn {
        /// How many instances stay.
        instances: u32,
    },
    /// A load balancer stops sending new flows to a backend, and forgets the old ones or not.
    Failover {
        /// The backend's host.
        from: String,
        /// Whether its flows are forgotten (their packets then meet the balancer's policy) or go on to the dead backend.
        forget: bool,
    },
    /// The undoing of a failover: the backend gets new flows again, as far as it is healthy.
    Restore {
        /// The backend's host.
        host: String,
    },
    /// A gateway of two changes over to its standby.
    Switchover {
        /// How long nothing passes meanwhile, ns.
        #[serde(rename = "outage", alias = "outage_ns", with = "fathom_core::units::serde_ns")]
        outage_ns: u64,
        /// Whether the standby knows nothing of the flows. Without effect where the gateway remembers none.
        forget: bool,
    },
}
