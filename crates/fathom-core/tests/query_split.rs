//! Whose time a query takes, held against a server, a path and a client that are known: a tandem of three with finite buffers
//! in virtual time, whose truth is what each would save if it took no time at all.

#[path = "query_split/cases.rs"]
mod cases;

use fathom_core::query::{
    Confidence, PARTIES, Part, Party, Room, Rtt, ServerState, Split, Timeline, Verdict,
};
use proptest::prelude::*;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// A chunk comes in so many segments, as the wire has room for one after the other.
const SEGMENTS: usize = 8;
const SEGMENT_BYTES: u64 = 1_024;
const CHUNK_BYTES: u64 = SEGMENTS as u64 * SEGMENT_BYTES;
/// As `fathom sql` has it: of a shorter wait the first byte is not read by itself.
const SHORT_WAIT_NS: u64 = 250 * US;

/// One turn of a query.
#[derive(Debug, Clone)]
struct World {
    rtt_ns: u64,
    /// Before the first chunk, and for each.
    think_ns: u64,
    make_ns: u64,
    /// A chunk on the wire.
    wire_ns: u64,
    /// A chunk in the client, and from when something comes that it waits for to when it runs.
    process_ns: u64,
    wake_ns: u64,
    chunks: usize,
    /// Chunks that the server's kernel holds, and that may be on the way or unread.
    send_buffer: usize,
    window: usize,
    look_every_ns: Option<u64>,
    /// The client's kernel says what room it announced.
    is_window_known: bool,
    /// It acknowledges so late what it need not make room for, and its window counts from there.
    ack_every_ns: u64,
    /// What is lost is sent again after this and a round trip.
    again_ns: u64,
    /// The request is lost so often, and the chunk of this number once.
    lost_requests: u32,
    lost_chunk: Option<usize>,
}

/// When each chunk was made, put, sent, received, taken up, processed.
struct Run {
    made: Vec<u64>,
    put: Vec<u64>,
    came: Vec<u64>,
    taken: Vec<u64>,
    done: Vec<u64>,
    /// When each segment came, and what the client read.
    segments: Vec<u64>,
    reads: Vec<Read>,
}

/// A read of so many segments, of which the first and the last came then; since when the client had waited and when it ran again,
/// where it had to.
#[derive(Debug, Clone, Copy)]
struct Read {
    segments: usize,
    first: u64,
    last: u64,
    waited: Option<(u64, u64)>,
}

impl World {
    fn run(&self) -> Run {
        let (made, put, came, taken, done) = (vec![], vec![], vec![], vec![], vec![]);
        let mut run = Run { made, put, came, taken, done, segments: vec![], reads: vec![] };
        let mut sent: Vec<u64> = vec![];
        let half = self.rtt_ns / 2;
        for i in 0..self.chunks {
            let began = run.put.last().map_or(self.asked() + self.think_ns, |&put| put);
            run.made.push(began + self.make_ns);
            let room = i.checked_sub(self.send_buffer).map_or(0, |i| sent[i]);
            run.put.push(run.made[i].max(room));
            let line = sent.last().copied().unwrap_or(run.put[0]) + self.wire_ns;
            let open = i.checked_sub(self.window).map_or(0, |i| run.taken[i] + half);
            sent.push(run.put[i].max(line).max(open));
            let again = if self.lost_chunk == Some(i) { self.again_ns() } else { 0 };
            // What is behind a gap is not given to the reader.
            run.came.push((sent[i] + half + again).max(run.came.last().copied().unwrap_or(0)));
            self.arrive(&mut run, i);
            run.done.push(run.taken[i] + self.process_ns);
        }
        run
    }

    /// A chunk's segments come as the wire has room, none before one that was sent earlier, and are read until all of them are there.
    fn arrive(&self, run: &mut Run, chunk: usize) {
        let before = run.segments.last().copied().unwrap_or(0);
        run.segments.extend((1..=SEGMENTS as u64).map(|k| {
            before.max(run.came[chunk].saturating_sub(self.wire_ns * (SEGMENTS as u64 - k) / SEGMENTS as u64))
        }));
        let mut now = run.done.last().copied().unwrap_or(0);
        let mut unread = &run.segments[chunk * SEGMENTS..];
        while let Some(&first) = unread.first() {
            let since = now;
            now = if first > now { first + self.wake_ns } else { now };
            let there = unread.partition_point(|&came| came <= now);
            let waited = (first > since).then_some((since, now));
            run.reads.push(Read { segments: there, first, last: unread[there - 1], waited });
            unread = &unread[there..];
        }
        run.taken.push(now);
    }

    /// A lost segment is sent again after this, as Linux does it without further ones; and after twice that.
    fn again_ns(&self) -> u64 {
        self.again_ns + self.rtt_ns
    }

    /// When the server has the request.
    fn asked(&self) -> u64 {
        self.rtt_ns / 2 + self.again_ns() * ((1 << self.lost_requests) - 1)
    }

    fn wall(&self) -> u64 {
        *self.run().done.last().unwrap()
    }

    /// Which of the time each party held up: what the whole would be shorter by if it were a little faster, and longer by if it were a
    /// little slower, in proportion. In a tandem with finite buffers that is its share of the longest chain of causes; the two
    /// differ where others are as slow within that little.
    fn held_up(&self) -> [(f64, f64); 3] {
        const LITTLE: f64 = 0.02;
        let scaled = |party: usize, by: f64| {
            let of = |ns: u64, of: usize| if of == party { (ns as f64 * by).round() as u64 } else { ns };
            Self {
                think_ns: of(self.think_ns, 0),
                make_ns: of(self.make_ns, 0),
                rtt_ns: of(self.rtt_ns, 1),
                wire_ns: of(self.wire_ns, 1),
                again_ns: of(self.again_ns, 1),
                process_ns: of(self.process_ns, 2),
                wake_ns: of(self.wake_ns, 2),
                ..self.clone()
            }
        };
        let wall = self.wall() as f64;
        [0, 1, 2].map(|party| {
            let at = |by: f64| scaled(party, by).wall() as f64;
            ((wall - at(1.0 - LITTLE)) / LITTLE, (at(1.0 + LITTLE) - wall) / LITTLE)
        })
    }

    /// What the client's kernel says.
    fn room(&self, run: &Run, segments: &[u64], at: u64) -> Room {
        let received = |at| segments.partition_point(|&came| came <= at) as u64 * SEGMENT_BYTES;
        let taken = run.taken.partition_point(|&taken| taken <= at);
        let edge = (taken + self.window) as u64 * CHUNK_BYTES;
        let announced = taken.checked_sub(1).map_or(0, |last| run.taken[last]);
        let acknowledged = at - (at - announced).checked_rem(self.ack_every_ns).unwrap_or(0);
        let window = edge.saturating_sub(received(acknowledged));
        Room { received: received(at), window, segment: SEGMENT_BYTES }
    }

    /// What each party would save, as a share of the whole.
    fn truth(&self) -> [f64; 3] {
        let wall = self.wall();
        let without = [
            Self { think_ns: 0, make_ns: 0, ..self.clone() },
            Self { rtt_ns: 0, wire_ns: 0, lost_requests: 0, lost_chunk: None, ..self.clone() },
            Self { process_ns: 0, wake_ns: 0, ..self.clone() },
        ];
        without.map(|world| (wall - world.wall()) as f64 / wall as f64)
    }

    fn state(&self, run: &Run, at: u64) -> ServerState {
        match run.put.iter().position(|&put| put > at) {
            _ if at < self.asked() => ServerState::Done,
            None => ServerState::Done,
            Some(i) if run.made[i] <= at => ServerState::Sending,
            Some(_) => ServerState::Working,
        }
    }

    /// What a client with these clocks tells, and what comes of it.
    fn split(&self) -> Split {
        self.split_by(SHORT_WAIT_NS)
    }

    /// The same of one that knows when the first bytes came of waits that are no shorter than this.
    fn split_by(&self, short_wait_ns: u64) -> Split {
        let run = self.run();
        let half = self.rtt_ns / 2;
        let end = *run.done.last().unwrap();
        let mut looks: Vec<(u64, ServerState)> = vec![];
        if let Some(every) = self.look_every_ns {
            // Its answer comes half a round trip after the server was looked at.
            looks = (1..=end / every)
                .map(|i| i * every)
                .filter(|&at| at >= half)
                .map(|at| (at, self.state(&run, at - half)))
                .collect();
        }
        let mut looks = looks.into_iter().peekable();
        let mut line = Timeline::new(0);
        line.request(0, Some(Rtt { low_ns: self.rtt_ns, ns: self.rtt_ns, high_ns: self.rtt_ns }));
        let (mut now, mut reads) = (0, run.reads.iter());
        for i in 0..self.chunks {
            let mut unread = SEGMENTS;
            while unread > 0 {
                let read = reads.next().unwrap();
                unread -= read.segments;
                let bytes = read.segments as u64 * SEGMENT_BYTES;
                // Of a short wait it is known when its last bytes came, and when the client ran again.
                let exact = read.waited.is_none_or(|(since, woke)| woke - since >= short_wait_ns);
                let came = if exact { read.first } else { read.last };
                while let Some((at, state)) = looks.next_if(|look| look.0 <= came) {
                    if at > now {
                        line.still_waiting(now, at);
                        now = at;
                    }
                    line.look(at.saturating_sub(self.rtt_ns), at, state);
                }
                line.received((came > now).then_some((now, came)), bytes);
                match read.waited {
                    Some((since, _)) if !exact => line.arrived_since(since, read.last, bytes),
                    _ => line.arrived((came > now).then_some(came), read.last, bytes),
                }
                now = now.max(came);
            }
            line.busy_until(run.taken[i]);
            now = run.taken[i];
            for at in (0..=4).map(|k| now + (self.process_ns * k / 4).min(self.process_ns.saturating_sub(1)))
            {
                while let Some((at, state)) = looks.next_if(|look| look.0 <= at) {
                    line.busy_until(at);
                    line.look(at.saturating_sub(self.rtt_ns), at, state);
                }
                if self.is_window_known {
                    line.room(at, self.room(&run, &run.segments, at));
                }
            }
            now = now.max(run.done[i]);
            line.busy_until(now);
        }
        if self.lost_chunk.is_some_and(|lost| lost + 1 < self.chunks) {
            line.disordered();
        }
        line.late_within(self.wake_ns * run.reads.iter().filter(|read| read.waited.is_some()).count() as u64);
        line.end(end, Some(self.lost_requests.into()), 0)
    }
}

/// The laws of every split.
fn lawful(split: &Split, wall: u64) {
    assert_eq!(split.wall_ns, wall);
    let parts = PARTIES.map(|party| split.part(party));
    assert_eq!(parts.iter().map(|part| part.ns).sum::<u64>(), wall, "{split:?}");
    assert!(parts.iter().map(|part| part.low_ns).sum::<u64>() <= wall, "{split:?}");
    assert!(parts.iter().all(|p| p.low_ns <= p.ns && p.ns <= p.high_ns && p.high_ns <= wall), "{split:?}");
    assert!(split.open_ns <= wall, "{split:?}");
    as_recorded(split);
}

/// What is recorded of a split (`schema/queries.json`) comes to the same as the split itself.
fn as_recorded(split: &Split) {
    let estimates = split.estimates();
    let part = |party| Part { ns: estimates.map_or(0, |of| of[party as usize]), ..split.part(party) };
    let recorded = Split::of_recording(split.wall_ns, PARTIES.map(part), split.why_not());
    assert_eq!((recorded.estimates(), recorded.why_not()), (estimates, split.why_not()));
    let verdict = |queries: [&Split; 3]| {
        let mut verdict = Verdict::default();
        for query in queries {
            verdict.add(query);
        }
        (PARTIES.map(|party| verdict.share(party)), verdict.most(), verdict.mean())
    };
    // Of three, one of which may have no estimate: theirs are then given.
    let known = Split::of_recording(9, [3, 2, 4].map(|ns| Part { low_ns: ns, ns, high_ns: ns }), None);
    assert_eq!(verdict([split, &known, &known]), verdict([&recorded, &known, &known]));
    let reckoned = split.reckoned();
    let sum = reckoned.iter().map(|part| part.ns).sum::<u64>();
    assert!(sum <= split.wall_ns && split.wall_ns - sum < 3, "{reckoned:?} of {split:?}");
    assert!(reckoned.iter().all(|part| (part.low_ns..=part.high_ns).contains(&part.ns)), "{reckoned:?}");
}

fn worlds() -> impl Strategy<Value = World> {
    let time = prop_oneof![Just(0), 1..50 * US, 50 * US..2 * MS];
    (
        prop_oneof![10 * US..MS, MS..100 * MS],
        prop_oneof![Just(0), 1..200 * MS, 200 * MS..1_500 * MS],
        time.clone(),
        time.clone(),
        time,
        1_usize..300,
        (1_usize..64, 8_usize..64),
        prop_oneof![Just(None), (2 * MS..20 * MS).prop_map(Some)],
        (prop_oneof![3 => Just(0_u32), 1 => 1_u32..4], prop_oneof![Just(None), (0_usize..8).prop_map(Some)]),
        (prop_oneof![3 => Just(true), 1 => Just(false)], prop_oneof![Just(0), Just(40 * MS), 1..40 * MS]),
    )
        .prop_map(
            |(
                rtt_ns,
                think_ns,
                make_ns,
                wire_ns,
                process_ns,
                chunks,
                (send_buffer, window),
                look,
                lost,
                (known, ack_every_ns),
            )| {
                World {
                    rtt_ns,
                    think_ns,
                    make_ns,
                    // A round trip has two small packets on the wire.
                    wire_ns: wire_ns.min(rtt_ns * (CHUNK_BYTES / 128)),
                    process_ns,
                    wake_ns: 0,
                    chunks,
                    send_buffer,
                    window,
                    look_every_ns: look,
                    is_window_known: known,
                    ack_every_ns,
                    again_ns: 200 * MS,
                    lost_requests: lost.0,
                    lost_chunk: lost.1,
                }
            },
        )
}

fn verdict(split: &Split) -> (Option<Party>, Confidence) {
    let mut verdict = Verdict::default();
    verdict.add(split);
    verdict.most()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_sum_to_the_whole_and_no_wrong_party_is_sure(world in worlds()) {
        let split = world.split();
        lawful(&split, world.wall());
        if let (Some(party), Confidence::High) = verdict(&split) {
            let truth = world.truth();
            let most = PARTIES[(0..3).max_by(|&a, &b| truth[a].total_cmp(&truth[b])).unwrap()];
            // Where two hide behind each other neither would save much: there is no wrong party.
            let clear = truth[most as usize] > 0.5 && truth[party as usize] < 0.1;
            prop_assert!(!clear || party == most, "{party} for {most} {truth:?}: {split:?}");
        }
    }

    /// What each party held up lies within its bounds, in every world: also where two or three are as slow as each other. A thirtieth of
    /// the whole is what the model's own grain is worth, and a chunk is what the first one takes on the wire (docs/databases.md).
    #[test]
    fn the_truth_lies_within_the_bounds(world in worlds(), tie in 0_u8..5) {
        let world = match tie {
            0 => World { process_ns: world.wire_ns, ..world },
            1 => World { make_ns: world.wire_ns, ..world },
            2 => World { make_ns: world.process_ns, ..world },
            _ => world,
        };
        let split = world.split();
        lawful(&split, world.wall());
        let grain = world.wall() as f64 / 30.0 + world.wire_ns as f64;
        for (party, (least, most)) in PARTIES.into_iter().zip(world.held_up()) {
            let part = split.part(party);
            prop_assert!(
                part.low_ns as f64 <= least + grain && part.high_ns as f64 >= most - grain,
                "{party} {:.1} to {:.1} ms: {:?}", least / 1e6, most / 1e6, split
            );
        }
    }

    /// A client that runs late, and knows the end of its longer waits alone, is no surer of anybody than one that knows all of them.
    #[test]
    fn what_is_not_known_of_short_waits_makes_no_bound_narrower(
        world in worlds(), wake_ns in prop_oneof![1..20 * US, 20 * US..400 * US]
    ) {
        let world = World { wake_ns, ..world };
        let (known, unknown) = (world.split_by(0), world.split());
        lawful(&known, world.wall());
        lawful(&unknown, world.wall());
        let grain = world.wall() / 100;
        for party in PARTIES {
            let (known, unknown) = (known.part(party), unknown.part(party));
            prop_assert!(
                unknown.low_ns <= known.low_ns + grain && unknown.high_ns + grain >= known.high_ns,
                "{party}: {unknown:?} and {known:?}"
            );
        }
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
                line.end(end, Some(0), 0)
            };
            (line(wall), line(wall + more))
        };
        lawful(&b, wall + more);
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
            line.end(now, Some(0), 0)
        };
        let (a, b) = (split(rtt), split(rtt + more));
        lawful(&a, wait * turns);
        prop_assert_eq!(a.part(Party::Path).ns, rtt.min(wait) * turns);
        prop_assert!(a.part(Party::Path).ns <= b.part(Party::Path).ns);
        prop_assert!(a.part(Party::Server).ns >= b.part(Party::Server).ns);
    }

    /// Whatever it is told, in whatever order.
    #[test]
    fn nothing_that_it_is_told_breaks_a_law(
        told in prop::collection::vec((0_u8..9, 0..5 * MS, 0..5 * MS, 0..100_000_u64), 0..200)
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
                5 => { line.unanswered(now, now + a); now += a; }
                4 => line.look(now.saturating_sub(b), (now + a).saturating_sub(b), [ServerState::Working, ServerState::Sending, ServerState::Done][bytes as usize % 3]),
                _ => { line.still_waiting(now, now + a); now += a; }
            }
            if bytes % 2 == 0 { now += b; line.busy_until(now); }
        }
        let end = line.clone().end(now, [Some(0), Some(1), None][line.turns() as usize % 3], now % (3 * MS));
        lawful(&end, end.wall_ns);
        prop_assert!(end.wall_ns >= now);
    }
}
