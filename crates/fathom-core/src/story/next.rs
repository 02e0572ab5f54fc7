//! Where to look next: what this end cannot see and somebody else can.

use crate::verdict::{Direction, Explanation, Verdict};

/// Where packets were dropped or held up.
pub(super) fn dropped(direction: Option<Direction>) -> &'static str {
    match direction {
        Some(Direction::Forward) => {
            "what drops or holds packets on the way from here to the reflector at that time"
        }
        Some(Direction::Return) => {
            "what drops or holds packets on the way from the reflector to here at that time"
        }
        None => "what drops or holds packets between here and the reflector at that time, on both ways",
    }
}

/// For an incident that was explained so. `destroyed_here`: this host's kernel destroyed the socket.
pub(super) fn look(explanation: &Explanation, destroyed_here: bool) -> Option<String> {
    let what = match explanation.verdict {
        Verdict::PathDown | Verdict::Delayed => dropped(explanation.direction),
        Verdict::FlowForgotten => {
            "what keeps state of flows on the way (firewall, NAT, balancer): was it reloaded, replaced or full at that time?"
        }
        Verdict::IdleExpired => {
            "the idle limits of firewalls, NATs and balancers on the way, and of the service: samples or keep-alives must be closer"
        }
        Verdict::PeerDown => "the log of the reflector's service, and of its host, at that time",
        Verdict::PeerPaused => {
            "what stopped the reflector or its host at that time: a stopped process, stolen time, its control group's limits"
        }
        Verdict::LocalPaused => {
            "what stopped this process or host at that time: a stopped process, stolen time, its control group's limits"
        }
        Verdict::Local => {
            "this host's addresses, routes and interfaces at that time (`ip monitor`, its network manager's log)"
        }
        Verdict::Unknown if destroyed_here => {
            "who ends sockets on this host: `ss -K`, an agent of its firewall or its network policy, its kernel's log"
        }
        Verdict::Unknown => return apart(&explanation.could_be),
    };
    Some(format!("to look at next: {what}"))
}

/// What would tell these apart.
fn apart(could_be: &[Verdict]) -> Option<String> {
    let has = |verdict| could_be.contains(&verdict);
    let what = if has(Verdict::PeerPaused) && has(Verdict::PathDown) {
        "whether the reflector ran at that time (`fathom echo` tells its own pauses), and the counters of drops on the way"
    } else if has(Verdict::FlowForgotten) && has(Verdict::PathDown) {
        "whether other connections on this path were silent at that time: if not, it was this flow alone"
    } else if has(Verdict::PeerDown) {
        "the log of the reflector's service: if it ran all the time, it was something on the way"
    } else {
        return None;
    };
    Some(format!("to tell them apart: {what}"))
}
