//! Who said what a fresh connection met: only what comes from another address than the target's names a place on the way.

use super::*;
use std::net::Ipv4Addr;

const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 78, 1, 254));

fn met(fresh: Fresh, fresh_said_by: SaidBy, facts: &Facts) -> Facts {
    Facts { fresh, fresh_said_by, meanwhile: Fresh::NotTried, sent_since: false, ..*facts }
}

fn says(facts: &Facts, words: &str) {
    let because = explain(facts).because;
    assert!(because.iter().any(|sentence| sentence.contains(words)), "{words:?}: {because:?}");
}

const GOES_ON: Facts = Facts { outcome: Outcome::GoesOn, ..DEAD };
/// Nothing but the quiet is known of it.
const QUIET: Facts = Facts { timeouts: 0, retransmits: None, tells_pauses: false, ..STALLED };

#[test]
fn missing_gateway_or_carrier_is_the_path() {
    let cases = [
        (SaidBy::NoGateway(ROUTER), "gateway 10.78.1.254 did not answer"),
        (SaidBy::NoCarrier, "has no carrier"),
    ];
    for (said_by, words) in cases {
        for facts in [DEAD, GOES_ON, QUIET] {
            let facts = met(Fresh::NoHost, said_by, &facts);
            assert_eq!(told(&facts), (Verdict::PathDown, None, Some(Confidence::High)), "{facts:?}");
            says(&facts, words);
            let because = explain(&facts).because;
            assert!(!because.iter().any(|sentence| sentence.contains("not known")), "{because:?}");
        }
        // A pause that covers the silence is what it was, whatever befell the path in it.
        let paused = with(same(Standing::Open, 60), |who| {
            (who.paused_ago_ns, who.paused_ns) = (Some(S / 2), Some(6 * S));
        });
        let facts = met(Fresh::NoHost, said_by, &Facts { reported: paused, ..DEAD });
        assert_eq!(verdict(&facts), Verdict::PeerPaused);
        // A restart meanwhile is a second fault, and nobody saw which came first.
        let restarted = Some(reported(Standing::NotKnown, 0, SUCCESSOR, 3));
        let facts = met(Fresh::NoHost, said_by, &Facts { reported: restarted, ..DEAD });
        assert_eq!(explain(&facts).could_be, [Verdict::PeerDown, Verdict::PathDown]);
    }
}

#[test]
fn unreachable_host_is_down_or_cut_off() {
    let cases = [
        (SaidBy::Between(ROUTER), "10.78.1.254 says that it does not reach"),
        (SaidBy::NoNeighbour, "on this host's own network, and nobody there answers"),
        (SaidBy::NotKnown, "the network, or this host, found nobody"),
    ];
    for (said_by, words) in cases {
        let facts = met(Fresh::NoHost, said_by, &DEAD);
        assert_eq!(explain(&facts).could_be, [Verdict::PeerDown, Verdict::PathDown], "{said_by:?}");
        says(&facts, words);
    }
}

#[test]
fn third_party_refusal_is_not_the_host() {
    let between = SaidBy::Between(ROUTER);
    let dead = met(Fresh::Refused, between, &DEAD);
    assert_eq!(told(&dead), (Verdict::PathDown, None, Some(Confidence::Medium)));
    says(&dead, "refused by 10.78.1.254 (ICMP), which is not the target");
    // What broke it may be the same filter, or the host, which nobody asked.
    let broken = met(Fresh::Refused, between, &BROKEN);
    assert_eq!(explain(&broken).could_be, [Verdict::FlowForgotten, Verdict::PeerDown]);
    // A RST has no sender of its own.
    let anonymous = met(Fresh::Refused, SaidBy::NotKnown, &BROKEN);
    assert_eq!(told(&anonymous), (Verdict::PeerDown, None, Some(Confidence::Low)));
}

#[test]
fn port_unreachable_verdict_depends_on_sender() {
    let ended = Facts {
        outcome: Outcome::Closed(C::Unreachable),
        port_unreachable: true,
        timeouts: 0,
        retransmits: None,
        ..DEAD
    };
    let by = |said_by| told(&met(Fresh::Refused, said_by, &ended));
    assert_eq!(by(SaidBy::Target), (Verdict::PeerDown, None, Some(Confidence::Medium)));
    assert_eq!(by(SaidBy::Between(ROUTER)), (Verdict::PathDown, None, Some(Confidence::Medium)));
    assert_eq!(by(SaidBy::NotKnown), (Verdict::PeerDown, None, Some(Confidence::Low)));
    // Who served it runs, by its own word: whoever said so, it was not gone.
    let runs = Facts { reported: same(Standing::Open, 59), ..ended };
    assert_eq!(verdict(&met(Fresh::Refused, SaidBy::Target, &runs)), Verdict::PathDown);
}

#[test]
fn no_route_or_filter_names_the_sender() {
    for (fresh, said_by, words) in [
        (Fresh::NoRoute, SaidBy::ThisHost, "this host knows no way there"),
        (Fresh::NoRoute, SaidBy::Between(ROUTER), "the router 10.78.1.254 knows no way there"),
        (Fresh::NoRoute, SaidBy::NotKnown, "a router, or this host, knows no way there"),
        (Fresh::Forbidden, SaidBy::ThisHost, "forbidden by a filter of this host"),
        (Fresh::Forbidden, SaidBy::Between(ROUTER), "forbidden by a filter: 10.78.1.254 says so"),
        (Fresh::Refused, SaidBy::Target, "by an ICMP message of the target's own address"),
    ] {
        says(&met(fresh, said_by, &DEAD), words);
    }
}

/// No local port is free, say: that is nothing about the way, nor did anybody end what was never begun.
#[test]
fn local_connect_failure_is_not_the_path() {
    let dead = met(Fresh::Failed, SaidBy::ThisHost, &DEAD);
    assert_eq!(verdict(&dead), Verdict::Unknown);
    says(&dead, "this host itself could not begin a fresh connection");
    assert!(!explain(&dead).because.iter().any(|sentence| sentence.contains("was ended")));
    // Who served it runs: the flow alone may be lost, or the way of all.
    let runs = Facts { reported: same(Standing::Failed, 59), ..dead };
    assert_eq!(explain(&runs).could_be, [Verdict::FlowForgotten, Verdict::PathDown]);
    says(&runs, "the reflector that served it runs");
    // One that was begun and ended is another thing.
    let ended = met(Fresh::Failed, SaidBy::NotKnown, &runs);
    assert_eq!(told(&ended), (Verdict::PathDown, Some(Direction::Forward), Some(Confidence::Medium)));
}
