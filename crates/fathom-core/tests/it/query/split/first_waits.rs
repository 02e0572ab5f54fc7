//! The wait for the first bytes of an answer: a request on its way, a server that has it or has not, an answer that may be lost.

use super::*;

/// `MariaDB` says "Writing to net" of each write. One that got no processor there was surely the path, with 13 to 62 ms on loopback (a
/// stranger).
#[test]
fn silent_sending_server_may_be_paused() {
    let mut line = Timeline::new(0);
    line.request(0, Rtt::of(&[MS / 10]));
    line.still_waiting(0, 5 * MS);
    line.look(4 * MS, 5 * MS, ServerState::Sending);
    line.received(Some((5 * MS, 40 * MS)), 100);
    let split = line.end(40 * MS, Some(0), &[]);
    lawful(&split, 40 * MS, 0);
    assert!(split.part(Party::Path).low_ns <= MS, "{split:?}");
    assert!(split.part(Party::Server).high_ns >= 39 * MS, "{split:?}");
}

/// 2 MB of SQL over 20 Mbit/s: "server, high" where nobody looked (a stranger).
#[test]
fn large_request_sending_time_is_the_paths() {
    let split = |sending_ns, most_ns| {
        let mut line = Timeline::new(0);
        line.request(0, Rtt::of(&[4 * MS]));
        line.received(Some((0, 850 * MS)), 100);
        line.sending(sending_ns, most_ns);
        line.end(850 * MS, Some(0), &[])
    };
    assert_eq!(verdict(&split(0, 0)), (Some(Party::Server), Confidence::Medium));
    let large = split(810 * MS, 810 * MS);
    lawful(&large, 850 * MS, 0);
    assert!(
        large.part(Party::Path).ns >= 800 * MS && large.part(Party::Path).high_ns >= 810 * MS,
        "{large:?}"
    );
    assert_ne!(verdict(&large), (Some(Party::Server), Confidence::High));
    assert!(
        !matches!(verdict(&large).1, Confidence::High),
        "the server may have been slow to read it: {large:?}"
    );
    // A kernel that waits for its process before it acknowledges the last of it.
    let mut line = Timeline::new(0);
    line.request(0, Rtt::of(&[4 * MS]));
    line.still_waiting(0, 60 * MS);
    line.look(59 * MS, 60 * MS, ServerState::Working);
    line.received(Some((0, 850 * MS)), 100);
    line.sending(10 * MS, 50 * MS);
    let quick = line.end(850 * MS, Some(0), &[]);
    lawful(&quick, 850 * MS, 0);
    let path = quick.part(Party::Path);
    // A round trip, that, and a lost answer, which comes after 200 ms and two round trips.
    assert_eq!((path.ns, path.high_ns), (10 * MS, (4 + 50 + 208) * MS), "{quick:?}");
}

/// A backend that gets no processor takes a request up late, and looks meanwhile say that it is idle (`benches/attribution.py`: the path
/// was given 15 to 20 ms of 2, half of the time until a server that starved did). One that says so at the end has answered.
#[test]
fn late_request_pickup_is_not_the_path() {
    let split = |until_ms, slowest: &[Span]| {
        let mut line = Timeline::new(0);
        line.request(0, Rtt::of(&[MS]));
        for at in (5..200).step_by(5) {
            line.still_waiting(0, at * MS);
            let state = if at < until_ms { ServerState::Before } else { ServerState::Working };
            line.look(at * MS - MS, at * MS, state);
        }
        line.received(Some((0, 200 * MS)), 100);
        line.end(200 * MS, Some(0), slowest)
    };
    let late = split(40, &[]);
    lawful(&late, 200 * MS, 0);
    assert_eq!(late.part(Party::Path).ns, MS, "{late:?}");
    assert!(late.part(Party::Path).high_ns >= 40 * MS, "the request may have been on its way: {late:?}");
    // That its kernel has it says no more of the time before; the last look was 5 ms before the answer.
    let mut line = Timeline::new(0);
    line.request(0, Rtt::of(&[MS]));
    for at in (5..200).step_by(5) {
        line.still_waiting(0, at * MS);
        let state = match at {
            ..40 => ServerState::Before,
            40..60 => ServerState::Untaken,
            _ => ServerState::Working,
        };
        line.look(at * MS - MS, at * MS, state);
    }
    line.received(Some((0, 200 * MS)), 100);
    let there = line.end(200 * MS, Some(0), &[]);
    lawful(&there, 200 * MS, 0);
    assert_eq!((there.part(Party::Path).ns, there.part(Party::Server).low_ns), (MS, 155 * MS), "{there:?}");
    // It never was seen to: nobody knows what its answer waited for.
    assert!(split(200, &[]).part(Party::Path).ns > 90 * MS);
    // A round trip beside was held up as long.
    let held_up = split(40, &[Span { from_ns: 0, to_ns: 40 * MS }]);
    assert!(held_up.part(Party::Path).ns > 18 * MS, "{held_up:?}");
    let mut line = Timeline::new(0);
    line.request(0, Rtt::of(&[MS]));
    for (at, state) in [(5, ServerState::Working), (10, ServerState::Before), (100, ServerState::Working)] {
        line.still_waiting(0, at * MS);
        line.look(at * MS - MS, at * MS, state);
    }
    line.received(Some((0, 101 * MS)), 100);
    assert!(line.end(101 * MS, Some(0), &[]).part(Party::Path).ns > 40 * MS);
}

/// A look whose answer set out before the request was there says nothing of the query.
#[test]
fn observation_before_request_arrives_is_ignored() {
    let mut line = Timeline::new(0);
    line.look(0, 0, ServerState::Done);
    line.request(0, Rtt::of(&[50 * MS]));
    for (at, counted) in [(10 * MS, 0), (49 * MS, 0), (60 * MS, 1)] {
        line.still_waiting(0, at);
        line.look(at, at, ServerState::Working);
        assert_eq!(line.looks(), counted);
    }
}

/// A backend that stands still says what it did before the request: that is no sign that it had sent everything.
#[test]
fn backend_without_the_request_proves_nothing() {
    let split = |state| {
        let mut line = Timeline::new(0);
        line.request(0, Rtt::of(&[MS]));
        for at in (10..600).step_by(10) {
            line.still_waiting(0, at * MS);
            line.look(at * MS - MS, at * MS, state);
        }
        line.received(Some((0, 600 * MS)), 100);
        line.end(600 * MS, Some(0), &[])
    };
    assert_eq!(verdict(&split(ServerState::Before)), (None, Confidence::None));
    assert!(split(ServerState::Before).part(Party::Server).high_ns >= 599 * MS);
    assert_eq!(verdict(&split(ServerState::Done)), (Some(Party::Path), Confidence::High));
}

/// A firewall that holds each SYN up by 3 ms both ways; the server takes 5 ms, and the path 1.5 ms.
#[test]
fn slow_setups_are_not_round_trips() {
    let setups = Rtt::of(&[74 * MS / 10, 75 * MS / 10, 8 * MS]).expect("some");
    for own_ns in [15 * MS / 10, 65 * MS / 10] {
        let mut line = Timeline::new(0);
        line.request(0, Some(setups.beside_own(own_ns)));
        line.received(Some((0, 65 * MS / 10)), 100);
        let split = line.end(65 * MS / 10, Some(0), &[]);
        let (server, path) = (split.part(Party::Server), split.part(Party::Path));
        assert!(server.low_ns <= 5 * MS && 5 * MS <= server.high_ns, "{own_ns}: {split:?}");
        assert!(path.low_ns <= 15 * MS / 10 && 15 * MS / 10 <= path.high_ns || own_ns > 2 * MS, "{split:?}");
        assert_ne!(verdict(&split), (Some(Party::Path), Confidence::High), "{own_ns}: {split:?}");
    }
    // What is no longer than the connection's own is left as it is.
    assert_eq!(setups.beside_own(74 * MS / 10), setups);
}

/// A server whose kernel sends again after 300 ms, as Windows does: a lost answer takes longer there.
#[test]
fn lost_answer_bound_uses_kernel_timer() {
    let low_ns = |again_ns: Option<u64>| {
        let mut line = Timeline::new(0);
        if let Some(ns) = again_ns {
            line.sends_again_after(ns);
        }
        line.request(0, Rtt::of(&[MS]));
        line.still_waiting(0, 3 * MS);
        line.look(2 * MS, 3 * MS, ServerState::Working);
        line.received(Some((0, 303 * MS)), 100);
        line.end(303 * MS, Some(0), &[]).part(Party::Server).low_ns
    };
    // It was seen at work in 2 ms of it; that it is sent again takes two round trips more.
    assert_eq!([low_ns(None), low_ns(Some(300 * MS))], [100 * MS, 2 * MS]);
}

/// A path that went dark for a quarter of an hour, in the first wait of a query and in a later one.
#[test]
fn unanswered_wait_is_server_or_path() {
    for first_bytes in [false, true] {
        for looks in [None, Some(ServerState::Working), Some(ServerState::Before), Some(ServerState::Untaken)]
        {
            let mut line = Timeline::new(0);
            line.request(0, Rtt::of(&[MS]));
            if first_bytes {
                line.received(Some((0, MS)), 100);
            }
            let since = if first_bytes { MS } else { 0 };
            if let Some(state) = looks {
                line.still_waiting(since, 2 * MS);
                line.look(2 * MS, 2 * MS, state);
            }
            line.unanswered(since, 900_000 * MS);
            let split = line.end(900_000 * MS, Some(0), &[]);
            lawful(&split, 900_000 * MS, 0);
            assert_eq!(split.part(Party::Client).high_ns, 0, "{split:?}");
            for party in [Party::Server, Party::Path] {
                let part = split.part(party);
                assert!(part.low_ns <= 2 * MS && part.high_ns >= 899_000 * MS, "{party}: {split:?}");
            }
        }
    }
}

/// What stands beside a query is what its split was made with.
#[test]
fn used_round_trip_is_reported() {
    let mut line = Timeline::new(0);
    assert_eq!(line.rtt_ns(), None);
    line.request(0, None);
    assert_eq!(line.rtt_ns(), None);
    for rtt in [MS, 3 * MS] {
        line.request(0, Rtt::of(&[rtt]));
    }
    assert_eq!(line.rtt_ns(), Some(2 * MS));
}

/// The path lets nothing through for two seconds: the look under way meanwhile comes late, or not before the answer.
#[test]
fn outage_between_observations_is_not_the_server() {
    for late_look in [true, false] {
        let mut line = Timeline::new(0);
        line.request(0, Rtt::of(&[MS]));
        for at in [10 * MS, 20 * MS, 30 * MS] {
            line.still_waiting(0, at);
            line.look(at - MS, at, ServerState::Working);
        }
        if late_look {
            line.still_waiting(0, 2_020 * MS);
            // It was true when it was asked for.
            line.look(40 * MS, 2_020 * MS, ServerState::Working);
        }
        line.received(Some((0, 2_030 * MS)), 100);
        if !late_look {
            line.unlooked(40 * MS, 2_030 * MS);
        }
        let split = line.end(2_030 * MS, Some(0), &[]);
        lawful(&split, 2_030 * MS, 0);
        assert!(split.part(Party::Path).high_ns >= 1_990 * MS, "{split:?}");
        assert!(split.part(Party::Server).low_ns <= 40 * MS, "{split:?}");
        assert!(split.part(Party::Server).high_ns >= 2_000 * MS, "{split:?}");
    }
}

/// A busy host answers one look of many 20 ms late, and nothing else says that the path was ill: its bounds are open, and the
/// estimate is the server's, which was seen at work before and after.
#[test]
fn a_late_look_alone_makes_no_path() {
    let split = |retransmits| {
        let mut line = Timeline::new(0);
        line.request(0, Rtt::of(&[MS]));
        for look in 1..=20 {
            let at = look * 10 * MS + if look == 10 { 9 * MS } else { 0 };
            line.still_waiting(0, at);
            line.look(look * 10 * MS - MS, at, ServerState::Working);
        }
        line.received(Some((0, 201 * MS)), 100);
        line.end(201 * MS, Some(retransmits), &[])
    };
    let well = split(0);
    lawful(&well, 201 * MS, 0);
    assert_eq!(well.estimates(), Some([200 * MS, MS, 0]), "{well:?}");
    assert!(well.part(Party::Path).high_ns > 19 * MS, "{well:?}");
    // Nor is it one with a packet that was sent again: the server had the request before, and worked on afterwards. What is open is what
    // lies before the first look and after the last, 9 ms and 1.
    assert_eq!(split(1).part(Party::Path).ns, MS + 5 * MS);
    assert!(split(1).part(Party::Path).high_ns > 19 * MS);
}

/// A busy host answers the first and the last look late, and one round trip beside took 12 ms: that the path may have held up, or not, in
/// the estimate, which gave it half of all that lies between late looks (`benches/attribution.py`: 18 to 25 ms of 600 to 2,000, of a path
/// of 2), and then all of that round trip.
#[test]
fn slow_round_trip_adds_only_its_length() {
    let split = |retransmits, slowest: &[Span]| {
        let mut line = Timeline::new(0);
        line.request(0, Rtt::of(&[MS]));
        for look in 1..=20 {
            let at = look * 10 * MS + if look % 19 == 1 { 9 * MS } else { 0 };
            line.still_waiting(0, at);
            line.look(look * 10 * MS - MS, at, ServerState::Working);
        }
        line.received(Some((0, 210 * MS)), 100);
        line.end(210 * MS, retransmits, slowest)
    };
    let took_12 = |from_ns| [Span { from_ns, to_ns: from_ns + 12 * MS }];
    let (well, slow) = (split(Some(0), &[]), split(Some(0), &took_12(0)));
    lawful(&slow, 210 * MS, 0);
    assert_eq!(slow.part(Party::Path).ns, MS + 6 * MS, "{slow:?}");
    assert_eq!(
        split(Some(0), &took_12(195 * MS)).part(Party::Path).ns,
        MS + 4 * MS,
        "4 of it while the server was seen"
    );
    // While the server was seen to work on the request nothing of the query was on the way.
    let between = split(Some(0), &took_12(100 * MS));
    assert_eq!(between.part(Party::Path).ns, MS, "{between:?}");
    for party in PARTIES {
        let [well, slow, between] = [&well, &slow, &between].map(|split| split.part(party));
        assert!(slow.low_ns <= well.low_ns && slow.high_ns >= well.high_ns, "{party}: {slow:?} {well:?}");
        assert_eq!(
            (slow.low_ns, slow.high_ns),
            (between.low_ns, between.high_ns),
            "no bound is tighter for it"
        );
    }
    // Of what was sent again nobody knows how long it took.
    for retransmits in [None, Some(1)] {
        assert!(split(retransmits, &took_12(0)).part(Party::Path).ns > 9 * MS);
    }
}

/// The server is not observed: the answer may have been lost ("server, high" of answers that the path dropped for 1.2 s), and what
/// is known of the path decides.
#[test]
fn unobserved_wait_depends_on_signs_of_the_path() {
    let split = |wait_ns, retransmits, slowest_ns| {
        let mut line = Timeline::new(0);
        line.request(0, Rtt::of(&[MS]));
        line.received(Some((0, wait_ns)), 100);
        line.end(wait_ns, retransmits, &[Span { from_ns: 0, to_ns: slowest_ns }])
    };
    let server = (Some(Party::Server), Confidence::Medium);
    let none = (None, Confidence::None);
    for (what, wait_ms, retransmits, slowest_ms, expected) in [
        ("nothing was sent again", 81, Some(0), 0, server),
        ("the request was lost", 81, Some(1), 0, none),
        ("retransmissions are unknown", 81, None, 0, none),
        ("an answer may be lost for long", 1_791, Some(0), 0, server),
        ("other round trips were well", 2_000, Some(0), 2, server),
        ("another round trip was held up", 2_000, Some(0), 1_000, none),
    ] {
        let split = split(wait_ms * MS, retransmits, slowest_ms * MS);
        lawful(&split, wait_ms * MS, 0);
        assert_eq!(verdict(&split), expected, "{what}: {split:?}");
    }
    assert_eq!(split(81 * MS, Some(0), 0).part(Party::Server).low_ns, 0);
    assert!(split(1_791 * MS, Some(0), 0).part(Party::Path).high_ns >= 1_730 * MS);
    let held_up = split(2_000 * MS, Some(0), 1_000 * MS);
    assert!(held_up.why_not().is_some_and(|why| why.contains("the path held up")), "{held_up:?}");
}
