//! The decision table: from what was seen of a stall or a death to what the evidence says about why.
//!
//! Pure, and deliberately short: a rule fires on facts that stand in the recording, in the order below, and when none
//! does the verdict is `unknown`. `docs/faults.md` shows what each fault looks like on the wire.
//!
//! | # | facts | verdict |
//! |---|---|---|
//! | 1 | this host did not run for half of the silence or more, and not less than the reflector | `local_paused` |
//! | 2 | the reflector said that it did not run for half of the silence or more | `peer_paused` |
//! | 3 | everything was sent and acknowledged without a timeout, so the peer's kernel has all of it, and still no echo came | `peer_paused`; if the reflector says that its echoes are not acknowledged, `path_down` |
//! | 4 | the reflector says that it closed the connection because nothing had moved on it | `idle_expired` |
//! | 5 | the reflector that answers now began after the connection did, and a fresh one was not told that there is no way | `peer_down` |
//! | 6 | a fresh connection was refused, or the network said that no such host is there | `peer_down` |
//! | 7 | a fresh connection got no answer, or one that was tried during the silence got none for a second or more, or the network said that there is no way, or that it is forbidden | `path_down` |
//! | 8 | a fresh connection was echoed, and this one was idle for longer than it had ever survived | `idle_expired` |
//! | 9 | a fresh connection was echoed, and this one is lost without an orderly end, or the reflector says that the end was not its doing | `flow_forgotten` |
//! | 10 | the echo came after all, and the kernel had to send again, or the peer report tells the direction | `path_down` |
//! | 11 | anything else | `unknown` |
//!
//! The direction is that of the peer report or of the stamps of the first late echo; where both tell and differ,
//! there is none.

mod confidence;
mod way;

pub use confidence::{Confidence, Grounds};
pub use way::Reported;

use crate::cause::ClosingCause;
use crate::peer_report::Standing;
use crate::stall;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What the evidence says about why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Fresh connections work and this one is lost: something between forgot the flow.
    FlowForgotten,
    /// As `flow_forgotten`, after a silence longer than any the connection had survived: an idle limit.
    IdleExpired,
    /// Nothing gets through to the peer, or back, for anybody.
    PathDown,
    /// The peer's service or its host is gone.
    PeerDown,
    /// The peer, or its host, did not run.
    PeerPaused,
    /// This host did not run.
    LocalPaused,
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
            Self::Unknown => "unknown",
        }
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
    /// It was established and its sample came back.
    Echoed,
    /// It was established, and its sample did not come back in time.
    Connected,
    /// It was refused: the host is there and nothing listens.
    Refused,
    /// No answer to its SYN.
    NoAnswer,
    /// The network said that no such host is there (ICMP host unreachable, or no answer to ARP).
    NoHost,
    /// There is no way there: a router said so (ICMP network unreachable), or this host's own routing table has none.
    NoRoute,
    /// A filter said that it does not let it through (ICMP administratively prohibited).
    Forbidden,
    /// It failed in some other way.
    Failed,
}

/// What ended the silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The echo came after all.
    Recovered,
    /// The connection ended.
    Closed(ClosingCause),
}

/// Everything the table looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// How it ended.
    pub outcome: Outcome,
    /// The silence: from the missing echo's sending to the end, in ns.
    pub silent_ns: u64,
    /// How long this host did not run in that time, in ns.
    pub local_pause_ns: u64,
    /// How long the reflector says that it did not run in that time, in ns; `None`: it does not say.
    pub remote_pause_ns: Option<u64>,
    /// Segments not acknowledged when last asked during the silence, those that could not be sent included; `None`:
    /// never asked, or not TCP.
    pub unacked: Option<u32>,
    /// The most retransmission timeouts in a row that the kernel told of during the silence. A peer's kernel that gets
    /// everything acknowledges it before the first (Linux delays acknowledgements by 200 ms at most, `TCP_DELACK_MAX`,
    /// and retransmits after 200 ms and a round trip at the earliest).
    pub timeouts: u8,
    /// Segments sent again during the silence.
    pub retransmits: Option<u32>,
    /// The quiet before the first sample that was lost: since anything had passed either way, in ns.
    pub idle_ns: u64,
    /// The longest such quiet that this connection had survived before, in ns.
    pub idle_survived_ns: u64,
    /// What a fresh connection met.
    pub fresh: Fresh,
    /// Whether a fresh connection tried during the silence had no answer either, for a second or more.
    pub others_lost: bool,
    /// Stamps of the first late echo: how much later than usual the request reached the reflector, and how much
    /// later than usual its echo came back, in ns.
    pub delays_ns: Option<(i64, i64)>,
    /// What the reflector said of the connection.
    pub reported: Option<Reported>,
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
}

/// An idle limit is not suspected below this: no device in the documentation of the clouds forgets a flow sooner than
/// in minutes, and a firewall under test may be set to seconds.
const IDLE_FLOOR_NS: u64 = 1_000_000_000;

/// Applies the table.
pub fn explain(facts: &Facts) -> Explanation {
    let mut because = Vec::new();
    let verdict = decide(facts, &mut because);
    let direction = way::direction(facts, verdict, &mut because);
    let confidence = Some(Grounds::of(facts, direction.is_some()).confidence(verdict));
    Explanation { verdict, direction, because, confidence }
}

fn decide(facts: &Facts, because: &mut Vec<String>) -> Verdict {
    let silent = seconds(facts.silent_ns);
    // Where both stood still, the one that stood longer held the echo up.
    let local_ns =
        Some(facts.local_pause_ns).filter(|&local| Some(local) >= facts.remote_pause_ns && local > 0);
    // A pause explains a silence; an end that came at once had none.
    let was_silent = facts.outcome == Outcome::Recovered || facts.silent_ns >= stall::FLOOR_NS;
    let local_ns = local_ns.filter(|_| was_silent);
    if local_ns.is_some_and(|local| local * 2 >= facts.silent_ns) {
        because.push(format!(
            "this host did not run for {} of the {silent} of silence",
            seconds(facts.local_pause_ns)
        ));
        return Verdict::LocalPaused;
    }
    if let Some(pause) = facts.remote_pause_ns.filter(|p| p * 2 >= facts.silent_ns && *p > 0 && was_silent) {
        because.push(format!(
            "the reflector reports that it did not run for {} of the {silent} of silence",
            seconds(pause)
        ));
        return Verdict::PeerPaused;
    }
    let lost = match facts.outcome {
        Outcome::Closed(cause) => cause.is_loss(),
        Outcome::Recovered => false,
    };
    if facts.unacked == Some(0)
        && facts.timeouts == 0
        && !matches!(facts.outcome, Outcome::Closed(ClosingCause::PeerClosed | ClosingCause::Reset))
    {
        return all_acknowledged(facts, because);
    }
    if lost && let Some(verdict) = by_peer_report(facts, because) {
        return verdict;
    }
    if let Some(verdict) = by_fresh_connection(facts, lost, because) {
        return verdict;
    }
    match (facts.outcome, facts.retransmits) {
        (Outcome::Recovered, Some(n @ 1..)) => {
            because.push(format!(
                "the kernel sent {n} segments again before the echo came, so packets were lost on the way, or held"
            ));
            Verdict::PathDown
        }
        (Outcome::Recovered, _) if facts.reported.is_some_and(|reported| reported.direction().is_some()) => {
            because.push("the reflector ran and answered others meanwhile".into());
            Verdict::PathDown
        }
        (Outcome::Closed(ClosingCause::TimedOut), _) => {
            because.push(format!("the kernel gave up retransmitting after {silent}, and whether others got through is not known"));
            Verdict::Unknown
        }
        _ => {
            because.push("nothing seen tells this from other causes".into());
            Verdict::Unknown
        }
    }
}

/// The peer's kernel has every byte that was sent.
fn all_acknowledged(facts: &Facts, because: &mut Vec<String>) -> Verdict {
    let echoed = facts.reported.filter(|reported| reported.direction() == Some(Direction::Return));
    because.push(match echoed.map(|reported| reported.report.unacked) {
        None => "the peer's kernel had acknowledged every byte, so the path carried them, and the reflector did not answer".into(),
        Some(Some(1..)) => {
            because.push("acknowledgements came from the peer's kernel and echoes did not: what is as large as an echo is lost".into());
            return Verdict::PathDown;
        }
        Some(_) => "the reflector answered, and nothing tells where its echoes are".into(),
    });
    if echoed.is_some() { Verdict::Unknown } else { Verdict::PeerPaused }
}

/// What the reflector says of the connection's end.
fn by_peer_report(facts: &Facts, because: &mut Vec<String>) -> Option<Verdict> {
    let reported = facts.reported?;
    if reported.report.standing == Standing::ClosedIdle {
        because.push(
            "the reflector says that it closed the connection, because nothing had moved on it for its idle timeout".into(),
        );
        return Some(Verdict::IdleExpired);
    }
    if reported.report.standing == Standing::NotKnown {
        if reported.is_of_a_younger_reflector() && !matches!(facts.fresh, Fresh::NoRoute | Fresh::Forbidden) {
            because.push(
                "the reflector that answers now began after this connection did: the one that served it is gone".into(),
            );
            return Some(Verdict::PeerDown);
        }
        because.push(
            "the reflector that answers now does not know this connection: it is another one, or has forgotten it".into(),
        );
    }
    None
}

fn by_fresh_connection(facts: &Facts, lost: bool, because: &mut Vec<String>) -> Option<Verdict> {
    let (verdict, fact) = match facts.fresh {
        Fresh::Refused => {
            (Verdict::PeerDown, "a fresh connection was refused: the host is there and nothing listens")
        }
        Fresh::NoHost => (
            Verdict::PeerDown,
            "a fresh connection met \"no route to host\": nobody answers for that address",
        ),
        Fresh::NoAnswer => (Verdict::PathDown, "a fresh connection got no answer either"),
        Fresh::NoRoute => (
            Verdict::PathDown,
            "a fresh connection met \"network unreachable\": a router, or this host, knows no way there",
        ),
        Fresh::Forbidden => (
            Verdict::PathDown,
            "a fresh connection met \"administratively prohibited\": a filter on the way does not let it through",
        ),
        Fresh::Echoed if lost && facts.others_lost => (
            Verdict::PathDown,
            "a fresh connection went without an answer too during the silence, and works now: the path came back too late for this one",
        ),
        Fresh::Echoed if lost => return Some(lost_alone(facts, because)),
        Fresh::Connected if lost => {
            because
                .push("a fresh connection was established, and its sample did not come back either".into());
            return Some(Verdict::Unknown);
        }
        Fresh::Failed if lost => (Verdict::Unknown, "a fresh connection was broken off too"),
        _ => return None,
    };
    because.push(fact.to_owned());
    Some(verdict)
}

/// This connection is lost while a fresh one works.
fn lost_alone(facts: &Facts, because: &mut Vec<String>) -> Verdict {
    let idle = facts.idle_ns > IDLE_FLOOR_NS && facts.idle_ns > facts.idle_survived_ns.saturating_mul(2);
    let broken = matches!(facts.outcome, Outcome::Closed(ClosingCause::PeerClosed | ClosingCause::Reset));
    let not_its_doing = broken && facts.reported.is_some_and(|reported| reported.report.is_not_its_doing());
    if facts.outcome == Outcome::Closed(ClosingCause::PeerClosed) && !idle && !not_its_doing {
        because.push(
            "the peer closed this connection in order and serves a fresh one; why it did is not known".into(),
        );
        return Verdict::Unknown;
    }
    because.push("a fresh connection to the same target was answered, so peer and path work".into());
    if idle {
        because.push(format!(
            "before the first lost sample nothing had passed for {}, longer than any quiet this connection survived ({})",
            seconds(facts.idle_ns),
            seconds(facts.idle_survived_ns)
        ));
        return Verdict::IdleExpired;
    }
    because.push(if not_its_doing {
        "the reflector says that it did not end this connection: something on the way did".into()
    } else {
        "this connection alone got nothing through: something on the way no longer knows the flow".to_owned()
    });
    Verdict::FlowForgotten
}

fn samples(n: u64) -> String {
    if n == 1 { "1 sample sent since".to_owned() } else { format!("{n} samples sent since") }
}

fn seconds(ns: u64) -> String {
    match ns {
        0..1_000_000_000 => format!("{:.0} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests;
