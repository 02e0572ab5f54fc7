//! A path that drops everything for a while, one way or both, and round trips beside the query that say so.

use super::world::Cut;
use super::*;

/// The path is cut at any time: at the start, in the middle, as the last thing of the query; and again while an echo of the time before
/// is still remembered.
fn cut_worlds() -> impl Strategy<Value = World> {
    let directions = prop_oneof![Just((true, false)), Just((false, true)), Just((true, true))];
    let cut = (0_u32..=110, prop_oneof![3 => Just(1_500 * MS), 1 => 50 * MS..3_000 * MS], directions);
    let slow = prop_oneof![2 => Just(0), 1 => 200 * MS..3_000 * MS];
    (worlds(), cut, slow).prop_map(|(world, (percent, ns, (forward, backward)), slow_echo_ns)| {
        let world = World { lost_requests: 0, lost_chunk: None, rtt_ns: world.rtt_ns.min(30 * MS), ..world };
        let from_ns = world.wall() * u64::from(percent) / 110;
        World { cut: Some(Cut { from_ns, ns, forward, backward }), slow_echo_ns, ..world }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the query is, the server is never sure of more than it did, and named for no time that echoes were denied.
    #[test]
    fn a_cut_path_is_never_surely_the_server(world in cut_worlds()) {
        let split = world.split();
        world.check(&split);
        let grain = world.wall() / 30 + world.wire_ns;
        let server = split.part(Party::Server);
        prop_assert!(server.low_ns <= world.servers_ns() + grain, "{} ms: {split:?}", world.servers_ns() / MS);
        let path_ns = world.wall() - World { cut: None, ..world.clone() }.wall();
        let path = split.part(Party::Path);
        prop_assert!(path.high_ns + grain >= path_ns, "{} ms: {split:?}", path_ns / MS);
    }
}
