//! The client's process does not run for a while, or the server's, wherever in a query that is: nobody else has that time.

use super::*;

/// Round trips of a well path may take so much longer.
const SLACK: u64 = 5 * MS;

/// A result that comes at some 240 MB/s over a path of a loopback's round trip: the server is the slowest, by little.
fn streaming() -> World {
    World {
        rtt_ns: 50 * US,
        think_ns: MS,
        make_ns: 34 * US,
        wire_ns: 4 * US,
        process_ns: 20 * US,
        wake_ns: 5 * US,
        chunks: 30_000,
        send_buffer: 300,
        window: 700,
        look_every_ns: Some(10 * MS),
        ..World::quiet()
    }
}

fn share(split: &Split, party: Party) -> (f64, f64) {
    let part = split.part(party);
    (part.low_ns as f64 / split.wall_ns as f64, part.high_ns as f64 / split.wall_ns as f64)
}

/// SIGSTOP for 2 s in the middle of a transfer of 1 s (a stranger): it was the server's, or nobody's.
#[test]
fn client_paused_during_rows_is_dominant() {
    for from in [5 * MS, 300 * MS, 650 * MS, 1_000 * MS] {
        let world = World { pause: Some((from, 2_000 * MS)), ..streaming() };
        let split = world.split();
        world.check(&split);
        assert_eq!(verdict(&split), (Some(Party::Client), Confidence::High), "{from}: {split:?}");
        let cost = world.wall() - World { pause: None, ..world.clone() }.wall();
        let (low, high) = share(&split, Party::Client);
        let most = (cost as f64 + world.held_up()[2].1) / world.wall() as f64;
        assert!(low <= most + 0.03 && high + 0.03 >= most, "{from}: {low} to {high}, and truly {most}");
        // Also where the kernel does not tell what room there was.
        let split = World { is_window_known: false, ..world }.split();
        assert_eq!(verdict(&split).0, Some(Party::Client), "{from}: {split:?}");
    }
}

/// Nothing had come yet: the server worked on all the while, and no faster client would have had its answer earlier.
#[test]
fn client_paused_during_server_work_costs_nothing() {
    let world = World { think_ns: 3_000 * MS, chunks: 1, pause: Some((503 * MS, 2_000 * MS)), ..streaming() };
    let split = world.split();
    world.check(&split);
    assert_eq!(verdict(&split), (Some(Party::Server), Confidence::High), "{split:?}");
}

/// The answer came while it did not run: from then on it is the client's, to the end.
#[test]
fn answer_waiting_here_is_client_time() {
    let world = World { think_ns: 600 * MS, chunks: 1, pause: Some((500 * MS, 2_000 * MS)), ..streaming() };
    let split = world.split();
    world.check(&split);
    let client = split.part(Party::Client);
    assert!(client.low_ns >= 1_890 * MS && client.high_ns <= 1_910 * MS, "{split:?}");
    assert_eq!(verdict(&split), (Some(Party::Client), Confidence::High), "{split:?}");
}

/// A backend that is stopped while it is blocked on sending says so all the while (a stranger: path, sure).
#[test]
fn server_paused_while_sending_is_uncertain() {
    // The path is the slowest, so that the server is blocked nearly always.
    let world =
        World { rtt_ns: MS, make_ns: 10 * US, wire_ns: 2 * MS, chunks: 500, send_buffer: 20, ..streaming() };
    assert_eq!(verdict(&world.split()), (Some(Party::Path), Confidence::High), "it takes the path alone");
    for from in [100 * MS, 300 * MS, world.wall() - 100 * MS] {
        let world = World { servers_pause: Some((from, 3_000 * MS)), ..world.clone() };
        let split = world.split();
        world.check(&split);
        let cost = world.wall() - World { servers_pause: None, ..world.clone() }.wall();
        assert!(cost > 2_900 * MS, "{cost}");
        assert_ne!(verdict(&split), (Some(Party::Path), Confidence::High), "{from}: {split:?}");
        let (_, high) = share(&split, Party::Server);
        assert!(high + 0.03 >= cost as f64 / world.wall() as f64, "{from}: {split:?}");
        assert!(split.why_not().is_some_and(|why| why.contains("stood still")), "{split:?}");
    }
}

/// SIGSTOP for 3 s before it takes the request up, and a query of no work (a stranger): nobody was named, though its kernel had
/// acknowledged the request. The path may have held up the request until that was known, and the answer for as long as its kernel
/// waits before it sends again.
#[test]
fn server_paused_before_request_is_dominant() {
    for rtt_ns in [50 * US, 80 * MS] {
        let world = World { rtt_ns, chunks: 1, servers_pause: Some((0, 3_000 * MS)), ..streaming() };
        let split = world.split();
        world.check(&split);
        assert_eq!(verdict(&split), (Some(Party::Server), Confidence::High), "{rtt_ns}: {split:?}");
        let path = split.part(Party::Path);
        assert!(path.ns <= rtt_ns + MS && path.high_ns <= 265 * MS + 5 * rtt_ns, "{rtt_ns}: {split:?}");
        // Where nobody tells what was acknowledged, or since when it has said what it says: it may have answered, and the path lost that.
        for world in [
            World { tells_acknowledged: false, ..world.clone() },
            World { says_since: false, ..world.clone() },
        ] {
            let split = world.split();
            world.check(&split);
            assert_ne!(verdict(&split).1, Confidence::High, "{split:?}");
            assert!(split.part(Party::Server).high_ns >= 2_900 * MS, "{split:?}");
            assert!(split.part(Party::Path).high_ns >= 2_800 * MS, "{split:?}");
        }
    }
}

/// The laws, in so many cases.
macro_rules! laws {
    ($cases:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: $cases, failure_persistence: None, ..ProptestConfig::default() })]

            /// Wherever the pause is, what each party held up lies within its bounds.
            #[test]
            fn any_client_pause_keeps_truth_within_bounds(
                world in worlds(), at in 0.0_f64..1.1, ns in prop_oneof![20 * MS..200 * MS, 200 * MS..5_000 * MS]
            ) {
                let from = (world.wall() as f64 * at) as u64;
                let world = World { pause: Some((from, ns)), ..world };
                let split = world.split();
                world.check(&split);
                let grain = world.wall() as f64 / 30.0 + world.wire_ns as f64;
                // The same with the pause and without it: what is waited for when it begins is held up by both.
                let without = World { pause: None, ..world.clone() }.held_up();
                let [server, path, _] = world.held_up();
                for (party, of, without) in [(Party::Server, server, without[0]), (Party::Path, path, without[1])] {
                    let part = split.part(party);
                    let least = of.0.min(of.1).min(without.0).min(without.1);
                    let most = of.0.max(of.1).max(without.0).max(without.1);
                    prop_assert!(
                        part.low_ns as f64 <= most + grain && part.high_ns as f64 >= least - grain,
                        "{party} {:.1} to {:.1} ms: {:?}", least / 1e6, most / 1e6, split
                    );
                }
                // And by what it would have saved not to stand still at all.
                let cost = world.wall().saturating_sub(World { pause: None, ..world.clone() }.wall());
                for party in [Party::Server, Party::Path] {
                    let low_ns = split.part(party).low_ns as f64;
                    prop_assert!(low_ns <= (world.wall() - cost) as f64 + grain, "{party}: {:.1} ms are the pause's: {split:?}", cost as f64 / 1e6);
                }
                prop_assert!(split.part(Party::Client).high_ns as f64 + grain >= cost as f64, "{cost}: {split:?}");
            }

            /// Whatever it does when it is stopped, and wherever in a query that is: what that cost may be the server's, and is surely nobody
            /// else's.
            #[test]
            fn stopped_server_time_is_only_the_servers(
                world in worlds(), at in 0.0_f64..1.0, ns in 500 * MS..5_000 * MS
            ) {
                let world = World { lost_requests: 0, lost_chunk: None, look_every_ns: Some(world.look_every_ns.unwrap_or(3 * MS)), ..world };
                let from = (world.wall() as f64 * at) as u64;
                let stopped = World { servers_pause: Some((from, ns)), ..world.clone() };
                let split = stopped.split();
                stopped.check(&split);
                let cost = stopped.wall().saturating_sub(world.wall());
                let grain = stopped.wall() / 30 + world.wire_ns + 2 * world.rtt_ns + SLACK;
                for party in [Party::Path, Party::Client] {
                    let low_ns = split.part(party).low_ns;
                    prop_assert!(low_ns <= stopped.wall() - cost + grain, "{party}, of {} ms {} are the pause's: {split:?}", stopped.wall() / MS, cost / MS);
                }
                prop_assert!(split.part(Party::Server).high_ns + grain >= cost, "{cost}: {split:?}");
            }
        }
    };
}

laws!(150);

mod acceptance {
    use super::*;

    laws!(2_000);
}
