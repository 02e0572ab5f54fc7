//! What happens in a run besides samples: one line each in `events.jsonl`.

mod carried;
mod ceiling;
mod evidence;
mod kind;
mod limits;
mod lost;
mod modes;
mod name;
mod policy;
#[cfg(test)]
mod tests;
mod throughput;

pub use carried::{Carried, CarriedConnection, CarriedOutage, CarriedStall, CarriedStallOver};
pub use ceiling::{Began, CeilingBegan, CeilingStepped, Delays, Judged, RATE_CEILING_MODE, Window};
pub use evidence::{Evidence, TcpInfo};
pub use kind::EventKind;
pub use limits::{
    AGE_LIMIT_MODE, Became, Death, IDLE_LIMIT_MODE, Limit, LimitsBegan, Lived, OneWay, Side, What,
    sought_with,
};
pub use lost::{
    KILLED_WITHOUT_ROOM, LOST_BEHIND, LOST_CRASH, LOST_FILE_LIMIT, LOST_NO_SPACE, LOST_STOPPED,
    LOST_UNREADABLE, note_of_lost_events, tells_killed_without_room, tells_lost_events, why_lost,
};
pub use modes::PROBING_FAILED;
pub use policy::{BreakerChanged, CLIENT_MODE, Circuit, Ended, Interrupted, Outcome, TryFailed, Why};
pub use throughput::{THROUGHPUT_MODE, ThroughputInterval};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One event of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, in UTC by this host's wall clock.
    pub at: Timestamp,
    /// When, by the monotonic clock of the run, in ns.
    pub mono_ns: u64,
    /// The connection it concerns, if it concerns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<u32>,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}
