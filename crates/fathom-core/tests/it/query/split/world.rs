//! The tandem: a server, a path that may be cut, and a client, one turn of a query.

mod told;

use super::laws::lawful;
use super::{PARTIES, Party, Split};
use proptest::prelude::*;

pub(super) const US: u64 = 1_000;
pub(super) const MS: u64 = 1_000_000;
/// A chunk comes in so many segments, as the wire has room for one after the other.
const SEGMENTS: usize = 8;
const SEGMENT_BYTES: u64 = 1_024;
const CHUNK_BYTES: u64 = SEGMENTS as u64 * SEGMENT_BYTES;
/// As `fathom sql` has it: of a shorter wait the first byte is not read by itself.
const SHORT_WAIT_NS: u64 = 250 * US;

/// One turn of a query.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) rtt_ns: u64,
    /// Before the first chunk, and for each.
    pub(super) think_ns: u64,
    pub(super) make_ns: u64,
    /// A chunk on the wire.
    pub(super) wire_ns: u64,
    /// A chunk in the client, and from when something comes that it waits for to when it runs.
    pub(super) process_ns: u64,
    pub(super) wake_ns: u64,
    pub(super) chunks: usize,
    /// Chunks that the server's kernel holds, and that may be on the way or unread.
    pub(super) send_buffer: usize,
    pub(super) window: usize,
    pub(super) look_every_ns: Option<u64>,
    /// The client's kernel says what room it announced.
    pub(super) is_window_known: bool,
    /// It acknowledges so late what it need not make room for, and its window counts from there.
    pub(super) ack_every_ns: u64,
    /// What is lost is sent again after this and a round trip.
    pub(super) again_ns: u64,
    /// The request is lost so often, and the chunk of this number once.
    pub(super) lost_requests: u32,
    pub(super) lost_chunk: Option<usize>,
    /// The path drops for a while what goes so. In that world there are echoes beside the query.
    pub(super) cut: Option<Cut>,
    /// Round trips of other moments, which are what is known of the path's; none: all are alike.
    pub(super) beside: Vec<u64>,
    /// One of those that are remembered took so long: the path was cut before.
    pub(super) slow_echo_ns: u64,
    /// From then, for so long, the client's process does not run.
    pub(super) pause: Option<(u64, u64)>,
    /// The same of the server's, which goes on saying what it said last.
    pub(super) servers_pause: Option<(u64, u64)>,
    /// The client's kernel tells what was acknowledged, and the server since when it has done what it says.
    pub(super) tells_acknowledged: bool,
    pub(super) says_since: bool,
    /// The server is asked once more when the answer is whole, and counts for how long it was blocked on sending.
    pub(super) asks_after: bool,
    pub(super) counts_waits: bool,
}

/// From then, for so long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    pub(super) from_ns: u64,
    pub(super) ns: u64,
    pub(super) forward: bool,
    pub(super) backward: bool,
}

/// A round trip beside the query, or a look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trip {
    asked: u64,
    /// At the server, and back.
    there: u64,
    back: u64,
}

/// When that is done which takes so long, and is begun then, by one that does not run for a while.
fn runs(pause: Option<(u64, u64)>, at: u64, work: u64) -> u64 {
    match pause {
        Some((from, ns)) if (from..from + ns).contains(&at) => from + ns + work,
        Some((from, ns)) if at < from && from < at + work => at + work + ns,
        _ => at + work,
    }
}

/// Linux: `TCP_DELACK_MIN`.
const ACKNOWLEDGES_AFTER_NS: u64 = 40 * MS;
/// From one echo to the next.
const ECHO_EVERY_NS: u64 = 100 * MS;
/// A round trip that takes more than twice the path's and this was denied for a while.
const SLACK_NS: u64 = 5 * MS;

/// When each chunk was made, put, sent, received, taken up, processed.
pub(super) struct Run {
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
pub(super) struct Read {
    segments: usize,
    first: u64,
    last: u64,
    waited: Option<(u64, u64)>,
}

impl World {
    /// Nobody takes any time, nothing is lost, and nobody looks; the room is that of the smallest buffers.
    pub(super) fn quiet() -> Self {
        Self {
            rtt_ns: 0,
            think_ns: 0,
            make_ns: 0,
            wire_ns: 0,
            process_ns: 0,
            wake_ns: 0,
            chunks: 1,
            send_buffer: 1,
            window: 8,
            look_every_ns: None,
            is_window_known: true,
            ack_every_ns: 0,
            again_ns: 200 * MS,
            lost_requests: 0,
            lost_chunk: None,
            cut: None,
            beside: vec![],
            slow_echo_ns: 0,
            pause: None,
            servers_pause: None,
            tells_acknowledged: true,
            says_since: true,
            asks_after: false,
            counts_waits: false,
        }
    }

    pub(super) fn run(&self) -> Run {
        let (made, put, came, taken, done) = (vec![], vec![], vec![], vec![], vec![]);
        let mut run = Run { made, put, came, taken, done, segments: vec![], reads: vec![] };
        let mut sent: Vec<u64> = vec![];
        let half = self.rtt_ns / 2;
        for i in 0..self.chunks {
            let began = run
                .put
                .last()
                .map_or_else(|| runs(self.servers_pause, self.asked(), self.think_ns), |&put| put);
            run.made.push(runs(self.servers_pause, began, self.make_ns));
            let room = i.checked_sub(self.send_buffer).map_or(0, |i| sent[i]);
            run.put.push(runs(self.servers_pause, run.made[i].max(room), 0));
            let line = sent.last().copied().unwrap_or(run.put[0]) + self.wire_ns;
            let open = i.checked_sub(self.window).map_or(0, |i| self.through(run.taken[i], true) + half);
            sent.push(run.put[i].max(line).max(open));
            let again = if self.lost_chunk == Some(i) { self.again_ns() } else { 0 };
            // What is behind a gap is not given to the reader.
            let came = self.through(sent[i], false) + half + again;
            run.came.push(came.max(run.came.last().copied().unwrap_or(0)));
            self.arrive(&mut run, i);
            run.done.push(self.ran(run.taken[i], self.process_ns));
        }
        run
    }

    /// A chunk's segments come as the wire has room, none before one that was sent earlier, and are read until all of them are there.
    pub(super) fn arrive(&self, run: &mut Run, chunk: usize) {
        let before = run.segments.last().copied().unwrap_or(0);
        run.segments.extend((1..=SEGMENTS as u64).map(|k| {
            before.max(run.came[chunk].saturating_sub(self.wire_ns * (SEGMENTS as u64 - k) / SEGMENTS as u64))
        }));
        let mut now = run.done.last().copied().unwrap_or(0);
        let mut unread = &run.segments[chunk * SEGMENTS..];
        while let Some(&first) = unread.first() {
            let since = now;
            now = if first > now { self.ran(first, self.wake_ns) } else { now };
            let there = unread.partition_point(|&came| came <= now);
            let waited = (first > since).then_some((since, now));
            run.reads.push(Read { segments: there, first, last: unread[there - 1], waited });
            unread = &unread[there..];
        }
        run.taken.push(now);
    }

    /// When the client has done what takes it so long, and is begun then.
    fn ran(&self, at: u64, work: u64) -> u64 {
        runs(self.pause, at, work)
    }

    /// A lost segment is sent again after this, as Linux does it without further ones; and after twice that.
    pub(super) fn again_ns(&self) -> u64 {
        self.again_ns + self.rtt_ns
    }

    /// When what is sent then is sent so that it comes through: what is lost again waits twice as long.
    fn through(&self, mut sent: u64, is_forward: bool) -> u64 {
        let mut again = self.again_ns();
        let is_cut = |cut: &Cut, at: u64| {
            (if is_forward { cut.forward } else { cut.backward })
                && (cut.from_ns..cut.from_ns + cut.ns).contains(&at)
        };
        while self.cut.is_some_and(|cut| is_cut(&cut, sent)) {
            (sent, again) = (sent + again, again * 2);
        }
        sent
    }

    /// When the server has the request.
    pub(super) fn asked(&self) -> u64 {
        self.through(self.again_ns() * ((1 << self.lost_requests) - 1), true) + self.rtt_ns / 2
    }

    /// Round trips, each asked once it is due, and where one was held up not before that is back.
    fn trips(&self, first: u64, every: u64, until: u64) -> Vec<Trip> {
        let (half, mut trips, mut asked) = (self.rtt_ns / 2, vec![], first);
        while asked < until {
            asked = self.ran(asked, 0);
            let there = self.through(asked, true) + half;
            let back = self.ran(self.through(there, false) + half, 0);
            trips.push(Trip { asked, there, back });
            asked = if back - asked > 2 * half { back } else { asked + every };
        }
        trips
    }

    /// Looks until then, one that is under way too.
    fn looks(&self, until: u64) -> Vec<Trip> {
        self.look_every_ns.map_or_else(Vec::new, |every| {
            self.trips(self.rtt_ns.next_multiple_of(every) - self.rtt_ns, every, until)
        })
    }

    fn echoes(&self, until: u64) -> Vec<Trip> {
        self.cut.map_or_else(Vec::new, |_| self.trips(ECHO_EVERY_NS / 3, ECHO_EVERY_NS, until))
    }

    fn was_denied(&self, trip: &Trip, until: u64) -> bool {
        trip.back.min(until) - trip.asked > 2 * self.rtt_ns + SLACK_NS
    }

    /// For how long an echo was denied, since the path's round trip was over, and the server was not seen: neither did two looks in a row
    /// come back in time, nor one since the first bytes.
    pub(super) fn denied_ns(&self) -> u64 {
        let run = self.run();
        let end = *run.done.last().unwrap();
        let (mut seen, mut since) = (vec![], Some(run.segments[0]));
        for look in self.looks(end).iter().filter(|look| look.back <= end) {
            let is_late = self.was_denied(look, end);
            seen.extend(since.filter(|_| !is_late).map(|since| (since, look.back)));
            since = (!is_late).then_some(look.back);
        }
        let echoes = self.echoes(end).into_iter().filter(|echo| self.was_denied(echo, end));
        let unseen = |echo: Trip| {
            let (from, to) = (echo.asked + 2 * self.rtt_ns + SLACK_NS, echo.back.min(end));
            let seen = seen.iter().map(|&(a, b): &(u64, u64)| b.min(to).saturating_sub(a.max(from)));
            (to - from).saturating_sub(seen.sum())
        };
        echoes.map(unseen).sum()
    }

    /// All that the server does, however much of it is hidden.
    pub(super) fn servers_ns(&self) -> u64 {
        self.think_ns + self.make_ns * self.chunks as u64
    }

    /// The laws, and that of what was denied.
    pub(super) fn check(&self, split: &Split) {
        let denied_ns = self.denied_ns();
        // Who is asked afterwards tells what the server did meanwhile: so it may be named for it, but is never sure of more.
        lawful(split, self.wall(), if self.asks_after { 0 } else { denied_ns });
        assert!(split.part(Party::Server).low_ns <= self.wall() - denied_ns, "{denied_ns} denied: {split:?}");
    }

    /// What each party held up lies within its bounds. A thirtieth of the whole is what the model's own grain is worth, and a chunk is what
    /// the first one takes on the wire (docs/databases.md).
    pub(super) fn is_within(&self, split: &Split) {
        let grain = self.wall() as f64 / 30.0 + self.wire_ns as f64;
        for (party, (least, most)) in PARTIES.into_iter().zip(self.held_up()) {
            let part = split.part(party);
            assert!(
                part.low_ns as f64 <= least + grain && part.high_ns as f64 >= most - grain,
                "{party} {:.1} to {:.1} ms: {split:?}",
                least / 1e6,
                most / 1e6
            );
        }
    }

    pub(super) fn wall(&self) -> u64 {
        *self.run().done.last().unwrap()
    }

    /// Which of the time each party held up: what the whole would be shorter by if it were a little faster, and longer by if it were a
    /// little slower, in proportion. In a tandem with finite buffers that is its share of the longest chain of causes; the two
    /// differ where others are as slow within that little.
    pub(super) fn held_up(&self) -> [(f64, f64); 3] {
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

    /// What each party would save, as a share of the whole.
    pub(super) fn truth(&self) -> [f64; 3] {
        let wall = self.wall();
        let without = [
            Self { think_ns: 0, make_ns: 0, servers_pause: None, ..self.clone() },
            Self { rtt_ns: 0, wire_ns: 0, lost_requests: 0, lost_chunk: None, cut: None, ..self.clone() },
            Self { process_ns: 0, wake_ns: 0, pause: None, ..self.clone() },
        ];
        without.map(|world| (wall - world.wall()) as f64 / wall as f64)
    }
}

pub(super) fn worlds() -> impl Strategy<Value = World> {
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
        (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
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
                (tells_acknowledged, says_since, asks_after, counts_waits),
            )| {
                World {
                    rtt_ns,
                    think_ns,
                    make_ns,
                    // A round trip has two small packets on the wire.
                    wire_ns: wire_ns.min(rtt_ns * (CHUNK_BYTES / 128)),
                    process_ns,
                    chunks,
                    send_buffer,
                    window,
                    look_every_ns: look,
                    is_window_known: known,
                    ack_every_ns,
                    lost_requests: lost.0,
                    lost_chunk: lost.1,
                    tells_acknowledged,
                    says_since,
                    asks_after,
                    counts_waits,
                    ..World::quiet()
                }
            },
        )
}
