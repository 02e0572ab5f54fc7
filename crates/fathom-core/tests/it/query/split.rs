//! Whose time a query takes, held against a server, a path and a client that are known: a tandem of three with finite buffers
//! in virtual time, whose truth is what each would save if it took no time at all.

mod cases;
mod cuts;
mod first_waits;
mod laws;
mod pauses;
mod turns;
mod world;

use fathom_core::query::{
    Confidence, PARTIES, Party, Room, Rtt, Served, ServerState, Since, Span, Split, Timeline, Verdict,
};
use laws::{lawful, verdict};
use proptest::prelude::*;
use world::{MS, US, World, worlds};

/// A client that runs late, and knows the end of its longer waits alone, is no surer of anybody than one that knows all of them, by
/// more than what a hundredth of the time and one chunk take: it cannot tell which of two chunks it waited for.
fn no_bound_is_narrower(world: &World) {
    let (known, unknown) = (world.split_by(0), world.split());
    world.check(&known);
    world.check(&unknown);
    let chunk = world.make_ns + world.wire_ns + world.process_ns;
    let grain = world.wall() / 100 + chunk;
    for party in PARTIES {
        let (known, unknown) = (known.part(party), unknown.part(party));
        assert!(
            unknown.low_ns <= known.low_ns + grain && unknown.high_ns + grain >= known.high_ns,
            "{party}: {unknown:?} and {known:?}"
        );
    }
}

/// The laws, in so many cases.
macro_rules! laws {
    ($cases:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: $cases, failure_persistence: None, ..ProptestConfig::default() })]

            #[test]
            fn parts_sum_and_high_confidence_is_right(world in worlds()) {
                let split = world.split();
                world.check(&split);
                if let (Some(party), Confidence::High) = verdict(&split) {
                    let truth = world.truth();
                    let most = PARTIES[(0..3).max_by(|&a, &b| truth[a].total_cmp(&truth[b])).unwrap()];
                    // Where two hide behind each other neither would save much: there is no wrong party.
                    let clear = truth[most as usize] > 0.5 && truth[party as usize] < 0.1;
                    prop_assert!(!clear || party == most, "{party} for {most} {truth:?}: {split:?}");
                }
            }

            /// What each party held up lies within its bounds, in every world: also where two or three are as slow as each other.
            #[test]
            fn the_truth_lies_within_the_bounds(world in worlds(), tie in 0_u8..5) {
                let world = match tie {
                    0 => World { process_ns: world.wire_ns, ..world },
                    1 => World { make_ns: world.wire_ns, ..world },
                    2 => World { make_ns: world.process_ns, ..world },
                    _ => world,
                };
                let split = world.split();
                world.check(&split);
                world.is_within(&split);
            }

            /// The same where this query's round trip is known by those of other moments alone, of which one was no longer and one no shorter.
            #[test]
            fn baseline_round_trips_keep_truth_within_bounds(
                world in worlds(), shorter in 0..50_u64, longer in 0..100_u64,
                others in prop::collection::vec(0..150_u64, 0..15),
            ) {
                let percent = |of: u64| world.rtt_ns * of / 100;
                let others = others.into_iter().map(|of| percent(100 - shorter) + percent(shorter + longer) * of / 150);
                let beside = others.chain([percent(100 - shorter), percent(100 + longer)]).collect();
                let world = World { beside, ..world };
                let split = world.split();
                world.check(&split);
                world.is_within(&split);
            }

            #[test]
            fn unknown_short_waits_never_narrow_bounds(
                world in worlds(), wake_ns in prop_oneof![1..20 * US, 20 * US..400 * US]
            ) {
                no_bound_is_narrower(&World { wake_ns, ..world });
            }

            /// A client that goes on working after everything has come: all of that is the client's, to the nanosecond.
            #[test]
            fn work_at_the_end_is_the_clients(world in worlds(), more in 0..100 * MS) {
                let wall = world.wall();
                let (a, b) = {
                    let line = |end| {
                        let mut line = Timeline::new(0);
                        line.request(0, Rtt::of(&[world.rtt_ns]));
                        line.received(Some((10, wall)), 100);
                        line.end(end, Some(0), &[])
                    };
                    (line(wall), line(wall + more))
                };
                lawful(&b, wall + more, 0);
                for party in [Party::Server, Party::Path] {
                    prop_assert_eq!(a.part(party), b.part(party));
                }
                prop_assert_eq!(b.part(Party::Client).low_ns, a.part(Party::Client).low_ns + more);
            }

            /// A longer round trip never takes from the path, and gives the server nothing.
            #[test]
            fn a_longer_round_trip_is_the_paths(rtt in 0..50 * MS, more in 0..50 * MS, wait in 1..100 * MS, turns in 1_u64..5) {
                let split = |rtt: u64| {
                    let mut line = Timeline::new(0);
                    let mut now = 0;
                    for _ in 0..turns {
                        line.request(now, Rtt::of(&[rtt]));
                        line.received(Some((now, now + wait)), 100);
                        now += wait;
                    }
                    line.end(now, Some(0), &[])
                };
                let (a, b) = (split(rtt), split(rtt + more));
                lawful(&a, wait * turns, 0);
                prop_assert_eq!(a.part(Party::Path).ns, rtt.min(wait) * turns);
                prop_assert!(a.part(Party::Path).ns <= b.part(Party::Path).ns);
                prop_assert!(a.part(Party::Server).ns >= b.part(Party::Server).ns);
            }

            /// Whatever it is told, in whatever order.
            #[test]
            fn no_input_breaks_a_law(
                told in prop::collection::vec((0_u8..12, 0..5 * MS, 0..5 * MS, 0..100_000_u64), 0..200),
                after in 0..1_000 * MS, blocked in 0..20 * MS,
            ) {
                let (mut line, mut now) = (Timeline::new(0), 0);
                for (what, a, b, bytes) in told {
                    match what {
                        0 => line.request(now, None),
                        1 => line.request(now, Rtt::of(&[a.min(b), b, a.max(b)])),
                        2 => { line.received(Some((now.saturating_sub(b / 8), now + a)), bytes); now += a; }
                        3 => line.received(None, bytes),
                        7 => line.arrived_since(now.saturating_sub(a), now.saturating_sub(b), bytes),
                        8 => line.late_within(b),
                        9 => line.stood(now.saturating_sub(a), now + b),
                        10 => line.room_after_pause(now + a, Room { received: bytes, window: b, segment: 1_024 }, (now + b).saturating_sub(a)),
                        11 => line.sending(a, b),
                        5 => { line.unanswered(now, now + a); now += a; }
                        4 => line.look(now.saturating_sub(b), (now + a).saturating_sub(b), [ServerState::Working, ServerState::Sending, ServerState::Done, ServerState::Before, ServerState::Untaken][bytes as usize % 5]),
                        _ => { line.still_waiting(now, now + a); now += a; }
                    }
                    if bytes % 2 == 0 { now += b; line.busy_until(now); }
                }
                let slowest = Span { from_ns: now / 2, to_ns: now / 2 + now % (3 * MS) };
                let mut end = line.clone().end(now, [Some(0), Some(1), None][line.turns() as usize % 3], &[slowest]);
                lawful(&end, end.wall_ns, 0);
                let since = Since { earliest_ns: after.min(now), latest_ns: after.min(now) + blocked % MS };
                let blocked_ns = (blocked % 3 > 0).then_some(blocked);
                let (least_rtt_ns, rtt_ns) = (blocked % (2 * MS), after % (3 * MS));
                end.served(0, &Served { since, least_rtt_ns, rtt_ns, most_rtt_ns: blocked, look_ns: after, blocked_ns });
                lawful(&end, end.wall_ns, 0);
                prop_assert!(end.wall_ns >= now);
            }
        }
    };
}

laws!(200);

mod acceptance {
    use super::*;

    laws!(2_000);
}
