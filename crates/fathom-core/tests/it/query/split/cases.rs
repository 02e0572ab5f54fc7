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
        // Without looks it is found all the same, but may have been answers that were lost.
        (Party::Server, World { think_ns: 800 * MS, look_every_ns: None, ..plain.clone() }),
    ];
    for (party, world) in cases {
        let (split, truth) = (world.split(), world.truth()[party as usize]);
        world.check(&split);
        let sure = if world.look_every_ns.is_some() { Confidence::High } else { Confidence::Medium };
        assert_eq!(verdict(&split), (Some(party), sure), "{world:?}: {split:?}");
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

/// A query that is over before anybody looked: what its server says afterwards is a bound, and where it counts what it was blocked for, an
/// estimate.
#[test]
fn server_report_afterwards_bounds_short_query() {
    let short = World {
        rtt_ns: 2 * MS,
        make_ns: 10 * US,
        wire_ns: 100 * US,
        process_ns: 10 * US,
        chunks: 60,
        send_buffer: 64,
        window: 64,
        ..World::quiet()
    };
    let unasked = short.split();
    assert!(
        unasked.part(Party::Server).high_ns * 2 > unasked.wall_ns && unasked.why_not().is_some(),
        "{unasked:?}"
    );
    let told = World { asks_after: true, ..short.clone() }.split();
    assert_eq!(told.part(Party::Server).high_ns, short.servers_ns() + told_within(&short));
    assert_eq!(verdict(&told), (Some(Party::Path), Confidence::High), "{told:?}");
    // One that is blocked most of the time, and counts it.
    let blocked = World { send_buffer: 2, asks_after: true, counts_waits: true, ..short.clone() }.split();
    assert!(blocked.part(Party::Server).high_ns * 2 > blocked.wall_ns, "no bound: {blocked:?}");
    assert_eq!(verdict(&blocked), (Some(Party::Path), Confidence::Medium), "{blocked:?}");
    // And one that works all the time.
    let slow = World { make_ns: 200 * US, asks_after: true, counts_waits: true, ..short }.split();
    assert_eq!(verdict(&slow).0, Some(Party::Server), "{slow:?}");
}

/// A path whose round trips vary took long to carry the request: that the server was done late makes it none of its time.
#[test]
fn late_request_is_not_server_time() {
    let rtt = Rtt {
        low_ns: 2 * MS,
        seen_ns: 2 * MS,
        ns: 8 * MS,
        well_ns: 8 * MS,
        high_ns: 20 * MS,
        mean_ns: 8 * MS,
        deviation_ns: 5 * MS,
        of: 16,
    };
    let mut line = Timeline::new(0);
    line.request(0, Some(rtt));
    line.received(Some((0, 16 * MS)), 100);
    let mut split = line.end(16 * MS, Some(0), &[]);
    // The request took 14 ms, the server 1 ms, the answer 1 ms.
    let since = Since { earliest_ns: 15 * MS, latest_ns: 17 * MS };
    let served = Served {
        since,
        least_rtt_ns: 2 * MS,
        rtt_ns: rtt.ns,
        most_rtt_ns: rtt.high_ns,
        look_ns: 2 * MS,
        blocked_ns: Some(0),
    };
    split.served(0, &served);
    lawful(&split, 16 * MS, 0);
    assert_eq!(split.estimates(), None, "{split:?}");
    assert_eq!(verdict(&split).0, None, "{split:?}");
}

/// Where nothing is known of the least round trip, a usual one is the path's all the same: it had none of 45 in 169 queries (a stranger).
#[test]
fn usual_round_trip_belongs_to_the_path() {
    let rtt = Rtt {
        low_ns: 0,
        seen_ns: 2 * MS,
        ns: 8 * MS,
        well_ns: 8 * MS,
        high_ns: 14 * MS,
        mean_ns: 8 * MS,
        deviation_ns: 3 * MS,
        of: 16,
    };
    let mut line = Timeline::new(0);
    line.request(0, Some(rtt));
    line.received(Some((0, 108 * MS)), 100);
    let mut split = line.end(108 * MS, Some(0), &[]);
    // There and back it took 4 ms each, and so did the look.
    let since = Since { earliest_ns: 100 * MS, latest_ns: 108 * MS };
    let served = Served {
        since,
        least_rtt_ns: 0,
        rtt_ns: rtt.ns,
        most_rtt_ns: rtt.high_ns,
        look_ns: 8 * MS,
        blocked_ns: Some(0),
    };
    split.served(0, &served);
    lawful(&split, 108 * MS, 0);
    assert_eq!(split.estimates().map(|of| of[Party::Path as usize]), Some(8 * MS), "{split:?}");
}

/// A path became 25 ms slower, and what was measured beside it knows only later: most of it seemed to be the server's (a stranger).
#[test]
fn slow_observation_never_blames_the_server() {
    for (rtt_ns, are_known) in [(35 * MS, true), (10 * MS, false)] {
        let mut line = Timeline::new(0);
        line.request(0, Rtt::of(&[rtt_ns]));
        line.received(Some((0, 37 * MS)), 100);
        let mut split = line.end(37 * MS, Some(0), &[]);
        // It was done after 19.5 ms.
        let since = Since { earliest_ns: 2 * MS, latest_ns: 37 * MS };
        let served = Served {
            since,
            least_rtt_ns: rtt_ns,
            rtt_ns,
            most_rtt_ns: rtt_ns,
            look_ns: 35 * MS,
            blocked_ns: Some(0),
        };
        split.served(0, &served);
        lawful(&split, 37 * MS, 0);
        assert_eq!(split.estimates().is_some(), are_known, "{split:?}");
        assert_ne!(verdict(&split).0, Some(Party::Server), "{split:?}");
    }
}

/// A path that holds an answer back for a moment holds a look back as well, and both come together: the server had 8.3 to 8.7 ms, where 4.4
/// are true (a stranger).
#[test]
fn delayed_observation_may_mean_delayed_answer() {
    let mut line = Timeline::new(0);
    line.request(0, Rtt::of(&[MS]));
    line.still_waiting(0, 9 * MS);
    // It took 4 ms of 4.5 until it was sent, and was here 4 ms late.
    line.look(3_200 * US, 9 * MS, ServerState::Working);
    line.received(Some((9 * MS, 9 * MS)), 100);
    let split = line.end(9 * MS, Some(0), &[]);
    lawful(&split, 9 * MS, 0);
    let (server, path) = (split.part(Party::Server), split.part(Party::Path));
    assert!(server.low_ns <= 4 * MS && path.high_ns >= 5 * MS, "{split:?}");
}

/// A request that the path held for 3 ms; the server works for 1.5 ms, and a look sees that: "server, high" (a stranger).
#[test]
fn late_request_pickup_prevents_server_certainty() {
    for (is_prompt, party) in [(true, Some((Party::Server, Confidence::High))), (false, None)] {
        let mut line = Timeline::new(0);
        line.request(0, Rtt::of(&[200 * US]));
        line.still_waiting(0, 4 * MS);
        if is_prompt {
            line.look(3_800 * US, 4 * MS, ServerState::Working);
        } else {
            line.look_at_work(3_800 * US, 4 * MS);
        }
        line.received(Some((4 * MS, 4_700 * US)), 100);
        let split = line.end(4_700 * US, Some(0), &[]);
        lawful(&split, 4_700 * US, 0);
        let (most, confidence) = verdict(&split);
        assert_eq!(
            most.filter(|_| confidence == Confidence::High).map(|most| (most, confidence)),
            party,
            "{split:?}"
        );
        if !is_prompt {
            assert!(
                split.part(Party::Server).low_ns <= 1_500 * US
                    && split.part(Party::Path).high_ns >= 3_200 * US,
                "{split:?}"
            );
        }
    }
}

/// By how much the two clocks may run apart while the server is asked.
fn told_within(world: &World) -> u64 {
    let done_ns = world.rtt_ns / 2 + world.servers_ns();
    let asked_ns = world.wall() + US;
    (world.rtt_ns + asked_ns + world.rtt_ns / 2 - done_ns) / 1_000 + 1_000
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
fn tie_is_found_after_late_wait() {
    let times = World { rtt_ns: 100_000, make_ns: 392_423, wire_ns: 155_189, ..World::quiet() };
    no_bound_is_narrower(&World { process_ns: 232_774, wake_ns: 237_244, chunks: 23, ..times });
}

/// A transfer that the path holds up, and nobody looks at the server: bounds, and no estimate.
#[test]
fn unobserved_transfer_has_bounds_alone() {
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
fn finished_server_was_not_waited_for() {
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
fn blocked_server_with_full_window_is_client() {
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
fn long_waiting_data_blames_the_client() {
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
fn unchanged_window_shows_no_room() {
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
