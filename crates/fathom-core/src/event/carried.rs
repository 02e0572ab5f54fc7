//! What a run carries over a seam of `--rotate`: told alike by the recording that ends and the one that follows.

use crate::cause::ClosingCause;
use crate::verdict::{Confidence, Verdict};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Of a run that goes on from one recording to the next: what stands in those before the seam, so that the samples sent
/// are the rows and the told losses of all of them together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Carried {
    /// Samples that have a row or were told as lost.
    pub samples: u64,
    /// Samples that were due and told as not sent.
    pub not_sent: u64,
    /// Of all samples, those that had fallen due on probing threads whose schedule had ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub due: u64,
    /// Of `samples`, those told as lost without a connection.
    #[serde(default)]
    pub lost_of_several: u64,
    /// Connections that stay open over the seam.
    #[serde(default)]
    pub connections: Vec<CarriedConnection>,
    /// Outages that go on over the seam.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<CarriedOutage>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A connection that stays open from one recording to the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedConnection {
    /// Its ordinal, the same in both.
    pub connection: u32,
    /// Its samples that have a row, or were told as lost, before the seam.
    pub samples: u64,
    /// The lane that it serves, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<u32>,
    /// Address and port there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// The stall that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<CarriedStall>,
    /// The latest stall that was over, where that is not all: see there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_over: Option<CarriedStallOver>,
}

/// A stall that goes on over a seam, as its beginning was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedStall {
    /// The oldest sample without its echo.
    pub seq: u64,
    /// Samples without their echo when it began.
    pub outstanding: u64,
    /// Silence that counted as a stall then, in ns.
    pub threshold_ns: u64,
    /// When the silence began, by the monotonic clock of the run, in ns.
    pub since_ns: u64,
}

/// A stall whose end was told before a seam, and of which samples that it held up have no row yet, or others may queue behind those, or
/// that nobody has explained yet. Without it the recording that follows would have long round trips, and no word of where they come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedStallOver {
    /// When the silence began, by the monotonic clock of the run, in ns.
    pub since_ns: u64,
    /// When its echo came.
    pub over_ns: u64,
    /// Samples that were out when it was over, and have no row before the seam.
    pub waiting: u64,
    /// What the evidence said about why; absent: it is explained after the seam.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// How sure that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
}

/// An outage of a lane that goes on over a seam, or may: the connection that would end it has not answered yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedOutage {
    /// The lane.
    pub lane: u32,
    /// When it began, UTC.
    pub began_at: Timestamp,
    /// The same by the monotonic clock of the run, in ns.
    pub began_ns: u64,
    /// The connection that was lost or fell silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<u32>,
    /// What ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ClosingCause>,
    /// True if this host failed, not the target.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub local: bool,
    /// When the attempt under way was begun, by the monotonic clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_ns: Option<u64>,
    /// An attempt was begun after the latest loss.
    pub tried: bool,
    /// The latest moment at which the peer was surely not there, by the monotonic clock.
    pub down_ns: u64,
    /// When the connection that has not answered yet was established.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_ns: Option<u64>,
    /// Which one that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened: Option<u32>,
}
