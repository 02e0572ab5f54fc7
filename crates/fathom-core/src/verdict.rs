//! From what was seen of a stall or a death to what the evidence says about why.
//!
//! [`Facts`] is what was seen, each with its source and within its bound: a fact of another time than the silence or the
//! end that is to be explained is none. `table` is the decision, as data: the facts that a row requires and those that
//! forbid it, the verdict, how sure it is, and what else it could be. The first row that fits is taken; the sentences are
//! those of its facts. `docs/verdicts.md` is made from the table, `docs/faults.md` shows what each fault looks like.

mod confidence;
mod facts;
mod says;
mod server;
mod table;
mod way;

pub use confidence::{Confidence, Grounds};
pub use facts::{Acknowledged, Datagrams, Facts, Idle, Late, Outcome, RemotePause, Room};
pub(crate) use facts::{Told, is_a_part, paused_after};
pub use server::Reported;
pub use table::markdown;
pub(crate) use way::is_most;

use crate::text::count;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// What the evidence says about why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// This flow alone is lost: something between no longer lets it through.
    FlowForgotten,
    /// As `flow_forgotten`, after a quiet longer than any that the path had survived: an idle limit.
    IdleExpired,
    /// Packets between this host and the reflector were lost or held up.
    PathDown,
    /// The peer's service or its host is gone.
    PeerDown,
    /// The peer, or its host, did not run.
    PeerPaused,
    /// This host did not run.
    LocalPaused,
    /// This host could not send: it had no address or no route of its own.
    Local,
    /// Echoes came, and took far longer than usual: a queue, or a slower path.
    Delayed,
    /// The evidence does not say.
    Unknown,
}

impl Verdict {
    /// The name used in recordings.
    pub fn name(self) -> &'static str {
        match self {
            Self::FlowForgotten => "flow_forgotten",
            Self::IdleExpired => "idle_expired",
            Self::PathDown => "path_down",
            Self::PeerDown => "peer_down",
            Self::PeerPaused => "peer_paused",
            Self::LocalPaused => "local_paused",
            Self::Local => "local",
            Self::Delayed => "delayed",
            Self::Unknown => "unknown",
        }
    }

    /// True if the cause is in this host, so that it does not lower the target's availability.
    pub fn is_local(self) -> bool {
        matches!(self, Self::Local | Self::LocalPaused)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Which way was lost, where the reflector's stamps or its peer report tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the probe to the reflector.
    Forward,
    /// From the reflector to the probe.
    Return,
}

/// What a fresh connection to the same target met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fresh {
    /// It has not been tried, or has not come to an end.
    #[default]
    NotTried,
    /// It was established and its samples came back.
    Echoed,
    /// It was established and a small sample came back; one of the size of those that are missing did not.
    SmallOnly,
    /// It was established, and its sample did not come back in time.
    Connected,
    /// It was established, and nothing was asked on it: the protocol cannot ask a fresh connection, or the kernel did not
    /// take the request.
    OnlyConnected,
    /// It was refused, by the host or by something before it.
    Refused,
    /// No answer to its SYN.
    NoAnswer,
    /// The network, or this host, said that no such host is there (ICMP host unreachable, or no answer to ARP).
    NoHost,
    /// There is no way there: a router said so (ICMP network unreachable), or this host's own routing table has none.
    NoRoute,
    /// A filter, here or on the way, does not let it through (ICMP administratively prohibited, or a rule of this host).
    Forbidden,
    /// It failed in some other way.
    Failed,
}

/// Who said what a fresh connection met, or what this host knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SaidBy {
    /// It is not known: a RST says it without a name, as whatever is on the way can.
    #[default]
    NotKnown,
    /// This host itself, before anything was sent.
    ThisHost,
    /// An ICMP message from the target's address.
    Target,
    /// An ICMP message from another address: something before the target.
    Between(IpAddr),
    /// This host: the gateway through which the target is reached did not answer for its hardware address.
    NoGateway(IpAddr),
    /// The same of the target, which is on a network of this host.
    NoNeighbour,
    /// This host: the interface by which it leaves is down or has no carrier.
    NoCarrier,
}

/// A verdict and the facts that led to it, each a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// What the evidence says.
    pub verdict: Verdict,
    /// Which way was lost, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// The facts, most telling first.
    pub because: Vec<String>,
    /// How sure the verdict is; `None`: written by a version that did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// What it may be as well, where the evidence does not tell these apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub could_be: Vec<Verdict>,
}

/// Applies the table. Where the reply of the reflector was held up, to each time at which it may have been given: what is said then
/// holds for all of them.
pub fn explain(facts: &Facts) -> Explanation {
    let said = facts.reported.into_iter().flat_map(Reported::answers);
    let each = said.map(|said| explain_at_once(&Facts { reported: Some(said), ..*facts }));
    let mut all = each.reduce(Explanation::or).unwrap_or_else(|| explain_at_once(facts));
    if !all.could_be.is_empty() {
        all.because.push(format!("{}: the evidence does not tell these apart", alternatives(&all.could_be)));
    } else if all.because.is_empty() {
        all.because.push("nothing seen tells this from other causes".to_owned());
    }
    all
}

/// The same of a reply that was not held up, without the sentence on what is not told apart.
fn explain_at_once(facts: &Facts) -> Explanation {
    let row = table::row_of(facts);
    let mut because: Vec<String> = row.needs.iter().filter_map(|fact| fact.sentence(facts)).collect();
    let beside = row.adds.iter().filter(|fact| !row.needs.contains(fact) && fact.holds(facts));
    because.extend(beside.filter_map(|fact| fact.sentence(facts)));
    let direction = way::direction(facts, row.verdict, &mut because);
    let (verdict, could_be) = (row.verdict, row.could_be.to_vec());
    Explanation { verdict, direction, because, confidence: Some(row.confidence), could_be }
}

impl Explanation {
    /// What holds if one of both does.
    fn or(self, other: Self) -> Self {
        if (self.verdict, self.direction, &self.could_be) == (other.verdict, other.direction, &other.could_be)
        {
            return if other.confidence < self.confidence { other } else { self };
        }
        let mut because = self.because.clone();
        because.retain(|sentence| other.because.contains(sentence) || *sentence == HELD_UP);
        if !because.iter().any(|sentence| *sentence == HELD_UP) {
            because.push(HELD_UP.to_owned());
        }
        if self.verdict == other.verdict && self.verdict != Verdict::Unknown {
            let direction = self.direction.filter(|way| other.direction == Some(*way));
            let confidence = self.confidence.min(other.confidence);
            return Self { direction, because, confidence, ..self };
        }
        let mut could_be = Vec::new();
        // One that names nothing leaves everything open.
        if let (Some(one), Some(two)) = (self.candidates(), other.candidates()) {
            for verdict in one.iter().chain(two) {
                if !could_be.contains(verdict) {
                    could_be.push(*verdict);
                }
            }
        }
        let (verdict, confidence) = (Verdict::Unknown, Some(Confidence::None));
        Self { verdict, direction: None, because, confidence, could_be }
    }

    /// What it may be; `None`: anything.
    fn candidates(&self) -> Option<&[Verdict]> {
        match self.verdict {
            Verdict::Unknown => Some(&self.could_be[..]).filter(|named| !named.is_empty()),
            _ => Some(std::slice::from_ref(&self.verdict)),
        }
    }
}

/// Why what the reflector said tells less than it could.
const HELD_UP: &str =
    "the reflector's answer was held up on its way, and what it shows depends on when it was given";

/// `path_down or peer_paused`.
fn alternatives(verdicts: &[Verdict]) -> String {
    let names: Vec<&str> = verdicts.iter().map(|verdict| verdict.name()).collect();
    names.join(" or ")
}

fn samples(n: u64) -> String {
    format!("{} sent since", count(n, "sample"))
}

fn seconds(ns: u64) -> String {
    match ns {
        0..1_000_000_000 => format!("{:.0} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests;
