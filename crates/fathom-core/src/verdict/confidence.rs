//! How sure a verdict is. The probe writes it down, by its table; of recordings whose events do not say it yet the story
//! takes what their facts allow.

use super::{Fresh, Verdict};
use crate::cause::ClosingCause;
use crate::peer_report::{PeerReport, Standing};
use serde::{Deserialize, Serialize};

/// How sure a verdict may be, or the fact that a line of a story states where it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Why is not known.
    None,
    /// It fits, and other causes fit as well.
    Low,
    /// It is the plain reading, and the recording does not exclude another.
    Medium,
    /// It was observed, or the evidence leaves no other reading.
    High,
}

impl Confidence {
    /// The name used in recordings.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// What a verdict of an older recording rests on.
#[derive(Debug, Clone, Copy)]
pub struct Grounds<'a> {
    /// What a fresh connection met.
    pub fresh: Fresh,
    /// The peer report on the connection.
    pub report: Option<&'a PeerReport>,
    /// Whether it is known which way was lost.
    pub direction: bool,
    /// What ended the connection; `None`: it did not end.
    pub cause: Option<ClosingCause>,
    /// Whether this host's own pause clock saw that it did not run.
    pub local_pause: bool,
    /// Whether the reflector's did.
    pub remote_pause: bool,
}

impl Grounds<'_> {
    /// How sure `verdict` is on these grounds.
    pub fn confidence(&self, verdict: Verdict) -> Confidence {
        let standing = self.report.map(|report| report.standing);
        match (verdict, self.fresh) {
            (Verdict::Unknown | Verdict::Delayed, _) => Confidence::None,
            (Verdict::IdleExpired, _) if standing == Some(Standing::ClosedIdle) => Confidence::High,
            (Verdict::LocalPaused, _) if self.local_pause => Confidence::High,
            (Verdict::PeerPaused, _) if self.remote_pause => Confidence::High,
            (Verdict::Local, _) | (Verdict::PathDown, Fresh::NoRoute) => Confidence::High,
            (Verdict::PathDown, _) if self.direction => Confidence::High,
            (Verdict::LocalPaused | Verdict::PeerPaused | Verdict::IdleExpired, _)
            | (Verdict::PathDown, Fresh::NoAnswer) => Confidence::Medium,
            // Who sent a RST is not seen, and it may have been the peer's own wish, unless the reflector says that it was not.
            (Verdict::FlowForgotten, _)
                if self.cause != Some(ClosingCause::Reset)
                    || self.report.is_some_and(PeerReport::is_not_its_doing) =>
            {
                Confidence::Medium
            }
            (Verdict::FlowForgotten | Verdict::PeerDown | Verdict::PathDown, _) => Confidence::Low,
        }
    }
}
