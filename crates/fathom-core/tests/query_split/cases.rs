//! Cases of one query each, by hand: what must be found, and what must be left open.

use super::*;

/// The plain cases, one party at a time: the estimate is within a tenth of what that party would save.
#[test]
fn each_party_is_found() {
    let plain = World {
        rtt_ns: 200 * US,
        make_ns: 5 * US,
        wire_ns: 7 * US,
        process_ns: 4 * US,
        chunks: 400,
        send_buffer: 16,
        look_every_ns: Some(10 * MS),
        ..World::quiet()
    };
    let cases = [
        (Party::Server, World { think_ns: 80 * MS, ..plain.clone() }),
        (Party::Server, World { make_ns: MS, ..plain.clone() }),
        (Party::Path, World { wire_ns: MS, ..plain.clone() }),
        (Party::Path, World { rtt_ns: 20 * MS, ..plain.clone() }),
        (Party::Client, World { process_ns: MS, ..plain.clone() }),
        // Without looks what needs none is found all the same.
        (Party::Server, World { think_ns: 800 * MS, look_every_ns: None, ..plain.clone() }),
    ];
    for (party, world) in cases {
        let (split, truth) = (world.split(), world.truth()[party as usize]);
        world.check(&split);
        assert_eq!(verdict(&split), (Some(party), Confidence::High), "{world:?}: {split:?}");
        let share = split.part(party).ns as f64 / split.wall_ns as f64;
        assert!(
            (share - truth).abs() <= 0.1,
            "{party}: {share:.2} and truly {truth:.2}: {world:?} {split:?}"
        );
        // What is acknowledged late shows less, and nothing else.
        let late = World { ack_every_ns: 40 * MS, ..world }.split();
        lawful(&late, split.wall_ns, 0);
        assert_eq!(verdict(&late).0, Some(party), "{late:?}");
    }
}

/// Found among 500,000 worlds: bounds were too wide where more was known. What was hidden while there was no room was doubted twice, a
/// tie's hidden time was the client's twice, a bound contradicted the two others, and lateness made waits longer of which a share
/// is taken.
#[test]
fn nothing_is_doubted_twice() {
    // Round trip; before the first chunk; a chunk at the server, on the wire, in the client; how late that wakes; how many; window; looks.
    for (rtt_ns, think_ns, make_ns, wire_ns, process_ns, wake_ns, chunks, window, look_every_ns) in [
        (49_395_022, 10_739_774, 1_241_191, 688_608, 0, 86_077, 88, 40, Some(2_000_000)),
        (46_782_851, 9_328_020, 935_608, 272_800, 0, 102_300, 80, 12, Some(5_203_789)),
        (86_211_745, 10_430_525, 422_116, 336_800, 0, 160_381, 157, 39, Some(6_659_800)),
        (51_027_286, 0, 0, 897_776, 801_600, 213_728, 63, 8, None),
        (16_350, 1_276_297, 1_644_550, 229_111, 1_183_916, 114_555, 227, 8, Some(15_411_033)),
    ] {
        let times = World { rtt_ns, think_ns, make_ns, wire_ns, process_ns, wake_ns, ..World::quiet() };
        no_bound_is_narrower(&World { chunks, window, look_every_ns, ..times });
    }
}

/// Found among 40,000 worlds: one who knows when the first bytes of short waits came sees that this side was as slow as the server; one
/// who does not took what it was late by for waiting, and so the next wait, whose beginning and end it knows, for no tie.
#[test]
fn a_tie_is_found_where_the_wait_before_was_late() {
    let times = World { rtt_ns: 100_000, make_ns: 392_423, wire_ns: 155_189, ..World::quiet() };
    no_bound_is_narrower(&World { process_ns: 232_774, wake_ns: 237_244, chunks: 23, ..times });
}

/// A transfer that the path holds up, and nobody looks at the server: bounds, and no estimate.
#[test]
fn what_nobody_looked_at_has_bounds_alone() {
    let mut line = Timeline::new(0);
    line.request(0, Rtt::of(&[MS]));
    line.received(Some((0, MS)), 10_000);
    line.received(Some((MS, 20 * MS)), 10_000);
    let split = line.end(20 * MS, Some(0), &[]);
    assert!(split.estimates().is_none() && split.why_not().is_some_and(|why| why.contains("server")));
    assert_eq!((split.part(Party::Path).low_ns, split.part(Party::Path).high_ns), (MS, 20 * MS));
    assert_eq!((split.part(Party::Server).low_ns, split.part(Party::Server).high_ns), (0, 19 * MS));
    assert_eq!(verdict(&split), (None, Confidence::None));
}

/// The server says that it was done while the first byte was waited for: the answer (or the request) was lost on its way.
#[test]
fn a_server_that_was_done_is_not_what_was_waited_for() {
    let mut line = Timeline::new(0);
    line.request(0, Rtt::of(&[MS]));
    for at in [10 * MS, 20 * MS, 190 * MS] {
        line.still_waiting(0, at);
        line.look(at, at, ServerState::Done);
    }
    line.received(Some((190 * MS, 201 * MS)), 100);
    let split = line.end(201 * MS, Some(0), &[]);
    assert_eq!(verdict(&split), (Some(Party::Path), Confidence::High), "{split:?}");
    assert!(split.part(Party::Server).ns <= 10 * MS);
}

/// A turn in which this side has read so many bytes, works for 80 ms and then waits for 20: the server is always blocked.
/// Where there is room, further bytes come meanwhile.
fn pauses_and_waits(bytes: u64, looks: u64, window: Option<u64>) -> Split {
    let mut line = Timeline::new(0);
    line.request(0, Rtt::of(&[0]));
    line.received(Some((0, 0)), bytes);
    for look in 0..looks {
        let now = look * 80 * MS / looks;
        line.busy_until(now);
        line.look(now, now, ServerState::Sending);
        // What it says before is of the time of the read.
        for (end, now) in [(0, now), (1, (look + 1) * 80 * MS / looks)] {
            if let Some(window) = window {
                let more = (look + end).min(window) * 1_460.min(window);
                line.room(now, Room { received: bytes + more, window: window - more, segment: 1_460 });
            }
        }
    }
    line.received(Some((80 * MS, 100 * MS)), 100);
    line.end(100 * MS, Some(0), &[])
}

/// It is this side's work that blocks the server, if there is no room for more; else a narrow path does.
#[test]
fn a_server_that_is_blocked_while_the_client_works_is_blocked_by_it() {
    let split = pauses_and_waits(100_000, 20, Some(0));
    assert_eq!((split.part(Party::Client).ns, split.part(Party::Path).ns), (80 * MS, 20 * MS), "{split:?}");
    assert_eq!(verdict(&split), (Some(Party::Client), Confidence::High));
    for (bytes, window) in [(100_000, Some(50_000)), (1_000, Some(50_000)), (1_000, None)] {
        let split = pauses_and_waits(bytes, 20, window);
        assert_eq!((split.part(Party::Client).ns, split.part(Party::Path).ns), (0, 100 * MS), "{split:?}");
    }
    // Nobody knows whether there was: it is not for want of looks, as was said.
    let split = pauses_and_waits(100_000, 20, None);
    assert!(split.estimates().is_none() && verdict(&split) == (None, Confidence::None), "{split:?}");
    assert!(split.why_not().is_some_and(|why| why.contains("while the client worked")), "{split:?}");
}

/// A client that works for 19 ms on each 64 KiB that it reads, which came so long before; `late`: of the read of this number all came
/// just before. The server had sent everything from the first.
fn reads_what_is_there(lead_ns: u64, late: Option<u64>) -> Split {
    let (mut line, mut now) = (Timeline::new(0), 2 * MS);
    line.request(0, Rtt::of(&[2 * MS]));
    line.received(Some((0, now)), 65_536);
    for read in 1..=16 {
        now += 19 * MS;
        line.busy_until(now);
        let lead_ns = if late == Some(read) { 0 } else { lead_ns.min(now - 2 * MS) };
        line.received(None, 65_536);
        line.arrived(None, now - lead_ns, 65_536);
    }
    line.busy_until(now + 19 * MS);
    line.end(now + 19 * MS, Some(0), &[])
}

/// 54 rows of 20,000 bytes over a path of 2 ms (`benches/attribution.py`): what it comes to read has been there for long, so that one who
/// worked a twentieth faster would not have waited for it either. That was open between client and path.
#[test]
fn a_client_that_finds_what_came_long_ago_is_who_held_it_up() {
    let split = reads_what_is_there(40 * MS, None);
    lawful(&split, 325 * MS, 0);
    assert_eq!(split.estimates(), Some([0, 2 * MS, 323 * MS]), "{split:?}");
    assert_eq!(verdict(&split), (Some(Party::Client), Confidence::High));
    // What comes when it is read may have been waited for by a client that is a little faster.
    let split = reads_what_is_there(0, None);
    lawful(&split, 325 * MS, 0);
    assert_eq!(
        (split.part(Party::Client).low_ns, verdict(&split).1),
        (19 * MS, Confidence::None),
        "{split:?}"
    );
    // Once in the middle: until then it is open, and afterwards the client's.
    let split = reads_what_is_there(40 * MS, Some(6));
    lawful(&split, 325 * MS, 0);
    assert_eq!(split.part(Party::Client).low_ns, (16 - 6 + 1) * 19 * MS, "{split:?}");
    // Two milliseconds are a twentieth of no more than forty.
    let split = reads_what_is_there(2 * MS, None);
    lawful(&split, 325 * MS, 0);
    assert_eq!(split.part(Party::Client).low_ns, (19 + 40) * MS, "{split:?}");
}

/// The kernel's window counts from its last acknowledgement: what came since seems to leave room, and leaves none.
#[test]
fn a_window_that_says_nothing_new_shows_no_room() {
    let split = |window| {
        let mut line = Timeline::new(0);
        line.request(0, Rtt::of(&[0]));
        line.received(Some((0, 0)), 100_000);
        for look in 0..=20 {
            let now = look * 4 * MS;
            line.busy_until(now);
            line.look(now, now, ServerState::Sending);
            line.room(now, Room { received: 100_000 + look.min(5) * 9_000, window, segment: 1_460 });
        }
        line.received(Some((80 * MS, 100 * MS)), 100);
        line.end(100 * MS, Some(0), &[])
    };
    let split = split(45_000);
    lawful(&split, 100 * MS, 0);
    let (client, path) = (split.part(Party::Client), split.part(Party::Path));
    assert!(client.high_ns >= 80 * MS && path.low_ns <= 20 * MS, "{split:?}");
}

/// 64 KiB that were there came over nobody knows how long: a path that is as slow as the server stays within the bounds.
#[test]
fn bytes_that_were_there_are_no_rate() {
    let mut line = Timeline::new(0);
    line.request(0, Rtt::of(&[MS]));
    line.received(Some((0, MS)), 100);
    for read in 0..100 {
        let (since, now) = ((1 + 5 * read) * MS, (6 + 5 * read) * MS);
        line.still_waiting(since, now);
        line.look(now, now, ServerState::Working);
        line.received(Some((since, now)), 65_536);
        line.arrived(None, now, 65_536);
    }
    let split = line.end(501 * MS, Some(0), &[]);
    lawful(&split, 501 * MS, 0);
    assert!(split.part(Party::Path).high_ns > 450 * MS, "{split:?}");
}

/// A server that is blocked, seen by two looks: that may have been chance.
#[test]
fn few_looks_make_nothing_sure() {
    assert_eq!(verdict(&pauses_and_waits(100_000, 2, Some(0))), (Some(Party::Client), Confidence::Medium));
    assert_eq!(verdict(&pauses_and_waits(100_000, 20, Some(0))), (Some(Party::Client), Confidence::High));
}

/// 2 MB of SQL over 20 Mbit/s: "server, high" where nobody looked (a stranger).
#[test]
fn what_a_large_request_takes_to_be_sent_is_most_likely_the_paths() {
    let split = |sending_ns| {
        let mut line = Timeline::new(0);
        line.request(0, Rtt::of(&[4 * MS]));
        line.received(Some((0, 850 * MS)), 100);
        line.sending(sending_ns);
        line.end(850 * MS, Some(0), &[])
    };
    assert_eq!(verdict(&split(0)), (Some(Party::Server), Confidence::High));
    let large = split(810 * MS);
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
}

/// A backend that gets no processor takes a request up late, and looks meanwhile say that it is idle (`benches/attribution.py`: the path
/// was given 15 to 20 ms of 2, half of the time until a server that starved did). One that says so at the end has answered.
#[test]
fn a_server_that_took_the_request_up_late_is_no_path() {
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
fn a_look_before_the_request_is_there_does_not_count() {
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
fn a_backend_that_has_not_seen_the_request_tells_nothing() {
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
fn set_ups_that_take_longer_than_requests_are_no_round_trip() {
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

/// 80 ms beyond the round trip, which nobody looked into: most likely the server's, but a lost answer takes as long.
#[test]
fn a_lost_packet_would_look_like_a_server_that_nobody_looked_at() {
    let split = |retransmits| {
        let mut line = Timeline::new(0);
        line.request(0, Rtt::of(&[MS]));
        line.received(Some((0, 81 * MS)), 100);
        line.end(81 * MS, retransmits, &[])
    };
    assert_eq!(verdict(&split(Some(0))), (Some(Party::Server), Confidence::Medium));
    assert_eq!(split(Some(0)).part(Party::Server).low_ns, 0);
    // The request was lost, or nobody knows.
    for retransmits in [Some(1), None] {
        assert_eq!(verdict(&split(retransmits)), (None, Confidence::None));
    }
}

/// A server whose kernel sends again after 300 ms, as Windows does: a lost answer takes longer there.
#[test]
fn a_lost_answer_takes_as_long_as_its_kernel_waits() {
    let low_ns = |again_ns: Option<u64>| {
        let mut line = Timeline::new(0);
        if let Some(ns) = again_ns {
            line.sends_again_after(ns);
        }
        line.request(0, Rtt::of(&[MS]));
        line.received(Some((0, 303 * MS)), 100);
        line.end(303 * MS, Some(0), &[]).part(Party::Server).low_ns
    };
    assert_eq!([low_ns(None), low_ns(Some(300 * MS))], [100 * MS, 0]);
}

/// A path that went dark for a quarter of an hour, in the first wait of a query and in a later one.
#[test]
fn a_wait_that_nothing_ended_is_open_between_server_and_path() {
    for first_bytes in [false, true] {
        for looks in [None, Some(ServerState::Working)] {
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
fn the_round_trip_that_was_reckoned_with_is_told() {
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
fn an_outage_between_two_looks_is_not_the_servers() {
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
fn a_slow_round_trip_held_up_no_more_than_it_took() {
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

/// The same, and nobody looks: what was measured beside shows that the path was not well.
#[test]
fn where_round_trips_beside_were_slow_no_first_wait_is_surely_the_servers() {
    let split = |slowest| {
        let mut line = Timeline::new(0);
        line.request(0, Rtt::of(&[MS]));
        line.received(Some((0, 2_000 * MS)), 100);
        line.end(2_000 * MS, Some(0), &[Span { from_ns: 0, to_ns: slowest }])
    };
    assert_eq!(verdict(&split(2 * MS)), (Some(Party::Server), Confidence::High));
    assert_eq!(verdict(&split(1_000 * MS)), (None, Confidence::None));
    assert!(split(1_000 * MS).why_not().is_some_and(|why| why.contains("the path held up")));
}
