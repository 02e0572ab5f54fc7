//! What looks say of a server is held against one that is known, in virtual time: one that does not run says what it did last, its
//! clock is another one, and a look is taken up at nobody knows which moment between its question and its answer.

use fathom_core::query::{Confidence, Party, Rtt, Served, ServerState, Since, Split, Timeline, Verdict};
use proptest::prelude::*;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// When the request is sent, on this end's clock.
const REQUEST: u64 = 100_000 * MS;

/// A query of one small answer, back to back with the one before.
#[derive(Debug, Clone)]
struct World {
    there_ns: u64,
    back_ns: u64,
    /// From the answer before to this request.
    turnaround_ns: u64,
    /// The server does not run for so long once the request is there, and then works.
    stall_ns: u64,
    work_ns: u64,
    /// The answer is lost, and comes again after so long.
    again_ns: u64,
    /// The server's clock is ahead, and runs faster by so many parts of a million.
    ahead_ns: i64,
    ppm: i64,
    /// This end's kernel tells what was acknowledged, and the server since when it has done what it says.
    is_told: bool,
    says_since: bool,
    /// It is asked once more when the answer is there, and counts that nothing held it up.
    asks_after: bool,
    counts_waits: bool,
    /// For each look: it comes later than the path takes, is taken up, waits to be read, and its answer comes late.
    looks: Vec<[u64; 4]>,
}

impl World {
    fn clock(&self, at: u64) -> i64 {
        let run = i128::from(at) * i128::from(1_000_000 + self.ppm) / 1_000_000;
        // It tells microseconds.
        i64::try_from((run + i128::from(self.ahead_ns)).div_euclid(1_000) * 1_000).unwrap()
    }

    /// What it says at that moment, and since when: as `PostgreSQL`'s `state_change`.
    fn says(&self, at: u64) -> (ServerState, u64) {
        let idle_before = REQUEST - self.turnaround_ns - self.back_ns;
        let runs = REQUEST + self.there_ns + self.stall_ns;
        match at {
            _ if at >= runs + self.work_ns => (ServerState::Done, runs + self.work_ns),
            _ if at >= runs => (ServerState::Working, runs),
            _ => (ServerState::Done, idle_before),
        }
    }

    fn server_ns(&self) -> u64 {
        self.stall_ns + self.work_ns
    }

    fn path_ns(&self) -> u64 {
        self.there_ns + self.back_ns + self.again_ns
    }

    fn split(&self) -> Split {
        let rtt = self.there_ns + self.back_ns;
        let end = REQUEST + self.server_ns() + self.path_ns();
        let mut line = Timeline::new(REQUEST);
        line.request(REQUEST, Rtt::of(&[rtt]));
        let mut asked = REQUEST + 3 * MS;
        for [later, taken, read, late] in self.looks.iter().cycle().take(2_000) {
            let taken_up = asked + self.there_ns + later + taken;
            let (state, since) = self.says(taken_up + read);
            let at = taken_up + read + self.back_ns + late;
            if at >= end {
                break;
            }
            let lasted = self.clock(taken_up) - self.clock(since);
            line.still_waiting(REQUEST, at);
            // Of one that is answered sooner it comes with the answer.
            let since = Since::of_look(asked, at, lasted).filter(|_| self.says_since);
            let is_there = self.is_told && asked >= REQUEST + rtt + 40 * MS;
            line.look(asked, at, state.believed(since, REQUEST, is_there));
            asked = at + 10 * MS;
        }
        line.received(Some((REQUEST, end)), 100);
        let mut split = line.end(end, Some(0), &[]);
        if self.asks_after {
            self.ask_after(&mut split, end);
        }
        split
    }

    /// A look that is asked for once the answer is there.
    fn ask_after(&self, split: &mut Split, end: u64) {
        let [later, taken, read, late] = self.looks[0];
        let asked = end + self.turnaround_ns;
        let taken_up = asked + self.there_ns + later + taken;
        let (state, since) = self.says(taken_up + read);
        let lasted = self.clock(taken_up) - self.clock(since);
        let since = Since::of_look(asked, taken_up + read + self.back_ns + late, lasted);
        // There was an answer: it came to be done after the request.
        if let (ServerState::Done, Some(since)) = (state, since) {
            let rtt_ns = self.there_ns + self.back_ns;
            let blocked_ns = self.counts_waits.then_some(0);
            let served = Served {
                since,
                least_rtt_ns: rtt_ns,
                rtt_ns,
                most_rtt_ns: rtt_ns,
                look_ns: since.latest_ns - since.earliest_ns,
                blocked_ns,
            };
            split.served(REQUEST, &served);
        }
    }
}

fn worlds() -> impl Strategy<Value = World> {
    let leg = || prop_oneof![5 * US..100 * US, 100 * US..20 * MS];
    let stall = prop_oneof![Just(0), 1..3_000 * MS];
    let look = (0..400 * US, 0..50 * US, 0..300 * US, prop_oneof![4 => 0..50 * US, 1 => 0..4 * MS]);
    let look = look.prop_map(|(later, taken, read, late)| [later, taken, read, late]);
    (
        (leg(), leg(), 5 * US..500 * US),
        (
            stall.clone(),
            prop_oneof![0..MS, 0..500 * MS],
            prop_oneof![2 => Just(0), 1 => 200 * MS..1_000 * MS, 1 => 1_000 * MS..60_000 * MS],
        ),
        (-1_000_000_000_i64..1_000_000_000, -500_i64..500, any::<bool>(), any::<bool>()),
        (any::<bool>(), any::<bool>()),
        prop::collection::vec(look, 1..20),
    )
        .prop_map(
            |(
                (there_ns, back_ns, turnaround_ns),
                (stall_ns, work_ns, again_ns),
                (ahead_ns, ppm, is_told, says_since),
                (asks_after, counts_waits),
                looks,
            )| {
                World {
                    there_ns,
                    back_ns,
                    turnaround_ns,
                    stall_ns,
                    work_ns,
                    again_ns,
                    ahead_ns,
                    ppm,
                    is_told,
                    says_since,
                    asks_after,
                    counts_waits,
                    looks,
                }
            },
        )
}

/// The laws, in so many cases.
macro_rules! laws {
    ($cases:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: $cases, failure_persistence: None, ..ProptestConfig::default() })]

            /// The path is never sure for as long as the server may not have run. A look's answer may be four milliseconds on its way back
            /// without being late.
            #[test]
            fn paused_server_is_never_the_path(world in worlds()) {
                let split = world.split();
                let (path, server) = (split.part(Party::Path), split.part(Party::Server));
                prop_assert!(path.low_ns <= world.path_ns() + US, "path {}: {split:?}", world.path_ns());
                prop_assert!(server.high_ns + US >= world.server_ns(), "server {}: {split:?}", world.server_ns());
                // Nor is the server for as long as the path may have lost the answer, again and again (a path that lets nothing large through): but
                // for how late the last look came that saw it work.
                let late_ns = 5 * MS;
                prop_assert!(server.low_ns <= world.server_ns() + late_ns, "server {}: {split:?}", world.server_ns());
                prop_assert!(path.high_ns + late_ns >= world.path_ns(), "path {}: {split:?}", world.path_ns());
                let mut verdict = Verdict::default();
                verdict.add(&split);
                if world.server_ns() > world.path_ns() {
                    prop_assert_ne!(verdict.most(), (Some(Party::Path), Confidence::High), "{:?}", split);
                }
            }

            /// And it is found where the server says that it ran: the answer was lost, and looks came soon back.
            #[test]
            fn an_answer_that_was_lost_is_still_found(world in worlds()) {
                let looks = world.looks.iter().map(|[_, taken, read, _]| [0, *taken, *read, 0]).collect();
                let world = World { stall_ns: 0, work_ns: 5 * MS, again_ns: world.again_ns.max(500 * MS), says_since: true, looks, ..world };
                let split = world.split();
                // Later looks are less sure of since when it is done: what was seen once is believed.
                prop_assert!(split.part(Party::Path).ns + 100 * MS >= world.again_ns, "{:?}", split);
            }
        }
    };
}

laws!(400);

mod acceptance {
    use super::*;

    laws!(3_000);
}

/// A protocol whose server does not say since when: no more than that it has no request is known of it.
#[test]
fn without_a_time_nothing_is_done() {
    assert_eq!(ServerState::Done.believed(None, 5, false), ServerState::Before);
    assert_eq!(ServerState::Done.believed(None, 5, true), ServerState::Before);
    for (state, is_there) in [(ServerState::Working, false), (ServerState::Sending, true)] {
        assert_eq!(state.believed(None, 5, is_there), state);
    }
}

/// A state that began after the answer that tells of it: the server's clock was set back.
#[test]
fn a_clock_that_was_set_tells_no_time() {
    let (asked, at) = (1_000 * MS, 1_001 * MS);
    assert_eq!(Since::of_look(asked, at, -3_600_000_000_000), None);
    assert!(Since::of_look(asked, at, -500_000).is_some());
    let since = Since::of_look(asked, at, 200_000).expect("a time");
    assert!(since.earliest_ns < asked - 200_000 && since.latest_ns <= at, "{since:?}");
}
