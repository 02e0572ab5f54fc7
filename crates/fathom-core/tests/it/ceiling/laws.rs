//! Searches for the rate ceiling in virtual time: a policer and a queue are found whatever their rate; random loss, a moment in
//! which nothing passes, and a host that is late are no ceiling.

mod window;

use crate::chance::{Random, is_many, is_rare, runs};
use fathom_core::event::{Event, EventKind};
use fathom_core::limits::{
    Asked, Began, Bound, Ceiling, CeilingRecorded, CeilingSearch, CeilingStepped, Judged, Seen, Step, Tally,
    Verdict,
};
use serde_json::Value;
use std::ops::Range;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// From one step to the next.
const REST_NS: u64 = S / 2;
/// An echo is waited for so long after the end of a step.
const WAITED_NS: u64 = S;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What is beyond the rate is dropped, but for a burst of this many packets.
    Policer(u64),
    /// What is beyond the rate waits, and is dropped where it would wait for longer than this.
    Queue(u64),
}

#[derive(Debug, Clone)]
struct World {
    seed: u64,
    ceiling: Option<(u64, Kind)>,
    rtt_ns: u64,
    /// Packets lost in ten thousand.
    loss: u64,
    /// Nothing passes, from and to: it arrives at the end.
    stall: Option<(u64, u64)>,
    /// Above this rate, in so many of a hundred windows, packets come so much later; with every doubling of the rate beyond, by as
    /// much again.
    slower: Option<(u32, u64, u64)>,
    /// The host comes late to every packet above this rate, by so much.
    late: Option<(u32, u64)>,
    /// TCP has a window, and its kernel tells how many segments it sent.
    window: bool,
}

/// The state of the path between steps.
struct Path {
    random: Random,
    /// When the packets so far are through, at the ceiling's rate.
    through_ns: u64,
}

impl Path {
    /// When a packet is through that comes to the ceiling at this moment; `None`: it is lost.
    fn passes(&mut self, world: &World, at_ns: u64) -> Option<u64> {
        if self.random.below(10_000) < world.loss {
            return None;
        }
        let Some((rate, kind)) = world.ceiling else { return Some(at_ns) };
        let waits_ns = self.through_ns.saturating_sub(at_ns);
        let most_ns = match kind {
            Kind::Policer(burst) => burst * S / rate,
            Kind::Queue(most_ns) => most_ns,
        };
        if waits_ns > most_ns {
            return None;
        }
        self.through_ns = self.through_ns.max(at_ns) + S / rate;
        Some(if matches!(kind, Kind::Queue(_)) { at_ns + waits_ns } else { at_ns })
    }
}

/// One step, packet by packet. What is lost is sent again after a round trip, once, and what follows on its connection waits for
/// it, as with TCP.
fn play(world: &World, path: &mut Path, began_ns: u64, step: Step) -> Seen {
    let mut tally = Tally::new(step);
    let mut in_order_ns = 0;
    let slower = world.slower.filter(|(above, ..)| step.rate_per_s > *above);
    let mut slow_window = (u64::MAX, false);
    for packet in 0..step.due_before(step.lasts_ns) {
        let due_ns = step.due_ns(packet);
        let late_ns = world.late.filter(|(above, _)| step.rate_per_s > *above).map_or(0, |(_, ns)| ns);
        let sent_ns = due_ns + late_ns;
        tally.sent(due_ns, sent_ns);
        let mut at_ns = began_ns + sent_ns;
        if let Some((from, to)) = world.stall.filter(|(from, to)| (*from..*to).contains(&at_ns)) {
            at_ns = to;
            let _ = from;
        }
        let mut came_ns = path.passes(world, at_ns);
        for again in 1..4 {
            if came_ns.is_some() {
                break;
            }
            tally.sent_again((at_ns - began_ns).min(step.lasts_ns - 1), 1);
            came_ns = path.passes(world, at_ns).map(|at| at + again * (world.rtt_ns + 5 * MS));
        }
        let window = due_ns / (100 * MS);
        if slow_window.0 != window {
            slow_window = (window, slower.is_some_and(|(_, share, _)| path.random.below(100) < share));
        }
        let later_ns = slower.filter(|_| slow_window.1).map_or(0, |(above, _, by_ns)| {
            (by_ns as f64 * (1.0 + (f64::from(step.rate_per_s) / f64::from(above)).log2())) as u64
        });
        if let Some(came_ns) = came_ns.map(|at| at + later_ns) {
            in_order_ns = came_ns.max(in_order_ns);
            let delay_ns = in_order_ns + world.rtt_ns - began_ns - sent_ns;
            if sent_ns + delay_ns < step.lasts_ns + WAITED_NS {
                tally.answered(due_ns, delay_ns);
            }
        }
    }
    tally.seen()
}

fn event(mono_ns: u64, kind: EventKind) -> Event {
    Event { at: jiff::Timestamp::UNIX_EPOCH, mono_ns, connection: None, kind }
}

/// As a recording has it.
fn through_text(value: &Value) -> Value {
    serde_json::from_str(&value.to_string()).expect("JSON")
}

/// A search that goes on after any of its steps takes the next that it took: or that one again which its host did not keep.
fn goes_on_anywhere(asked: Asked, told: &[CeilingStepped]) {
    for (at, next) in told.iter().enumerate() {
        let resumed = CeilingSearch::resumed(asked, &told[..at]);
        let is_kept = |step: &CeilingStepped| !matches!(step.judged, Judged::HostLate | Judged::NotReached);
        let kept = told[..at].iter().rposition(is_kept).map_or(0, |at| at + 1);
        let again = if kept < at { &told[kept] } else { next };
        assert_eq!(resumed.step().map(|step| step.rate_per_s), Some(again.rate_per_s));
        let earlier = resumed.steps();
        assert!(earlier.len() == kept && earlier.iter().all(|step| step.earlier), "{earlier:?}");
        let same = earlier.iter().zip(told).all(|(a, b)| *a == CeilingStepped { earlier: true, ..b.clone() });
        assert!(same, "{earlier:#?}\n{told:#?}");
    }
}

fn run(world: &World, asked: Asked) -> (Ceiling, u64) {
    let mut search = CeilingSearch::new(asked);
    let mut path = Path { random: Random(world.seed), through_ns: 0 };
    let (mut now_ns, mut steps) = (0, 0);
    let (mut recorded, mut told) = (CeilingRecorded::default(), Vec::new());
    recorded.event(&event(0, EventKind::CeilingBegan(asked)));
    while let Some(step) = search.step() {
        assert!(step.rate_per_s <= asked.up_to_per_s, "{step:?} {world:?}");
        let seen = if world.window {
            window::play(world, &mut path, now_ns, step)
        } else {
            play(world, &mut path, now_ns, step)
        };
        assert_eq!(seen.due(), step.due_before(step.lasts_ns));
        assert!(seen.answered() <= seen.due());
        let stepped = search.seen(seen).expect("a step").clone();
        recorded.event(&event(now_ns, EventKind::CeilingStepped(Box::new(stepped.clone()))));
        told.push(stepped);
        now_ns += step.lasts_ns + WAITED_NS + REST_NS;
        steps += 1;
        assert!(steps < 200, "it goes on for ever: {world:?}");
    }
    let outcome = search.outcome(now_ns);
    assert_eq!(outcome.steps.len(), steps);
    let result = outcome.json("there:7", None);
    recorded.event(&event(now_ns, EventKind::LimitsEnded { result: through_text(&result) }));
    assert_eq!(recorded.contradictions(true), [], "{world:?}");
    assert_eq!(
        through_text(&recorded.outcome().expect("it ended").json("there:7", None)),
        through_text(&result)
    );
    goes_on_anywhere(asked, &told);
    // It stops at the first that is beyond the ceiling for certain.
    let beyond: Vec<u32> = told.iter().filter(|s| s.judged == Judged::Beyond).map(|s| s.rate_per_s).collect();
    assert_eq!(beyond, outcome.bad.iter().map(|bad| bad.rate_per_s).collect::<Vec<_>>(), "{outcome:#?}");
    assert!(outcome.bad.is_none() || told.last().is_some_and(|s| s.judged == Judged::Beyond), "{outcome:#?}");
    (outcome, now_ns)
}

fn world(seed: u64) -> World {
    World {
        seed,
        ceiling: None,
        rtt_ns: 2 * MS,
        loss: 0,
        stall: None,
        slower: None,
        late: None,
        window: false,
    }
}

/// `FATHOM_SEEDS` asks for more.
fn seeds() -> u64 {
    std::env::var("FATHOM_SEEDS").map_or(200, |seeds| seeds.parse().expect("a number"))
}

const ASKED: Asked = Asked { up_to_per_s: 5_000, connections: 1 };

tiers! {
    a_ceiling_is_found_within_a_step: 0..40, 0..200;
    partly_worse_windows_are_a_ceiling: 0..50, 0..200;
    creeping_delay_is_a_ceiling: 0..50, 0..100;
    random_loss_alone_is_no_ceiling: 0..30, 0..super::seeds();
    policer_is_found_despite_tcp_backoff: 0..25, 0..200;
    tcp_window_and_loss_are_no_ceiling: 0..15, 0..super::seeds();
    a_moment_is_no_ceiling: 0..30, 0..200;
}

fn a_ceiling_is_found_within_a_step(seeds: Range<u64>) {
    let (mut began, of) = ([0, 0], runs(&seeds));
    for seed in seeds {
        let mut random = Random(seed);
        let rate = random.between(200, 4_000);
        let kind = if random.percent(50) {
            Kind::Policer(random.between(1, rate / 20))
        } else {
            Kind::Queue(random.between(20 * MS, 800 * MS))
        };
        let loss = random.one_of(&[0, 0, 10, 100]);
        let world = World {
            ceiling: Some((rate, kind)),
            rtt_ns: random.between(MS / 10, 10 * MS),
            loss,
            ..world(seed)
        };
        let (outcome, _) = run(&world, ASKED);
        assert_eq!(outcome.verdict, Verdict::Found, "{world:?}: {outcome:#?}");
        let ends = (outcome.good.map(|end| end.rate_per_s), outcome.bad.map(|end| end.rate_per_s));
        let (Some(good), Some(bad)) = ends else { panic!("{world:?}: {outcome:#?}") };
        // A step that is beyond it by less than a tenth may not show it, and the next does.
        assert!(u64::from(good) <= rate * 11 / 10 && rate < u64::from(bad), "{good} {rate} {bad}: {world:?}");
        assert!(f64::from(bad) / f64::from(good) < 1.27, "{good} {bad}");
        match (kind, outcome.began.expect("it began")) {
            (Kind::Policer(_), Began::Loss | Began::Both) => began[0] += 1,
            (Kind::Queue(_), Began::Delay | Began::Both) => began[1] += 1,
            other => panic!("{other:?}: {world:?}: {outcome:#?}"),
        }
    }
    assert!(!is_many(of) || began.iter().all(|began| began * 10 > of * 3), "{began:?} of {of}");
}

/// A single connection behind a policer backs off: it loses little, and its echoes are late in a part of the windows. Each
/// step was held against the two below it and once again, and a step that passed by chance was what the next was held
/// against: 5,000/s were "good" behind a limit of 700/s, at a thousand times the delay.
fn partly_worse_windows_are_a_ceiling(seeds: Range<u64>) {
    for seed in seeds {
        let mut random = Random(3_000 + seed);
        let above = random.between(200, 2_000) as u32;
        let slower = Some((above, random.between(45, 100), random.between(6 * MS, 100 * MS)));
        let world = World { rtt_ns: random.between(MS / 10, MS), slower, ..world(seed) };
        let (outcome, _) = run(&world, ASKED);
        assert_eq!(outcome.verdict, Verdict::Found, "{world:?}: {outcome:#?}");
        let good = outcome.good.expect("below it").rate_per_s;
        assert!(f64::from(good) <= 1.6 * f64::from(above), "{good}: {world:?}");
    }
}

/// Each step a little worse than those below it: none of them matters, and all of them do.
fn creeping_delay_is_a_ceiling(seeds: Range<u64>) {
    for seed in seeds {
        let mut random = Random(4_000 + seed);
        let above = random.between(150, 600) as u32;
        let slower = Some((above, 100, random.between(MS, 3 * MS / 2)));
        let world = World { rtt_ns: random.between(6 * MS, 8 * MS), slower, ..world(seed) };
        let (outcome, _) = run(&world, ASKED);
        assert_eq!((outcome.verdict, outcome.began), (Verdict::Found, Some(Began::Delay)), "{outcome:#?}");
        assert!(outcome.good.expect("below it").rate_per_s >= above * 4 / 5, "{world:?}: {outcome:#?}");
    }
}

fn random_loss_alone_is_no_ceiling(seeds: Range<u64>) {
    for seed in seeds {
        let mut random = Random(1_000 + seed);
        let world = World { rtt_ns: random.between(MS / 10, 5 * MS), loss: 100, ..world(seed) };
        let (outcome, _) = run(&world, ASKED);
        assert_eq!((outcome.verdict, outcome.bad), (Verdict::NotFound, None), "{world:?}: {outcome:#?}");
        assert_eq!(outcome.good.map(|good| good.rate_per_s), Some(5_000));
    }
}

/// A single connection behind a policer backs off: TCP joins what it may not send yet, loses little, and asks less of the path than
/// was asked for. The rate of its writes was taken for that of packets, so that one or two steps beyond passed for good.
fn policer_is_found_despite_tcp_backoff(seeds: Range<u64>) {
    let (mut held_back, mut beyond, of) = (0, 0, runs(&seeds));
    for seed in seeds {
        let mut random = Random(5_000 + seed);
        let rate = random.between(200, 3_500);
        let kind = Kind::Policer(random.between(1, rate / 20));
        let rtt_ns = random.between(MS / 10, 10 * MS);
        let world = World { ceiling: Some((rate, kind)), rtt_ns, window: true, ..world(seed) };
        let (outcome, _) = run(&world, ASKED);
        assert_eq!(outcome.verdict, Verdict::Found, "{world:?}: {outcome:#?}");
        let (good, bad) = (outcome.good.expect("below it"), outcome.bad.expect("beyond it"));
        // A step that is beyond it by little may not show it, and the next does.
        assert!(u64::from(good.rate_per_s) <= rate * 5 / 4, "{good:?} {rate}: {world:?}");
        beyond += u64::from(u64::from(good.rate_per_s) > rate * 11 / 10);
        assert!(rate < u64::from(bad.rate_per_s), "{rate} {bad:?}: {world:?}");
        // What was good was sent as packets; what was bad was not, or was lost.
        let segments = |end: Bound| end.segments_per_s.expect("the kernel tells");
        assert!(segments(good) * 5 >= good.rate_per_s * 4, "{good:?}: {world:?}");
        held_back += u64::from(outcome.steps.iter().any(|step| step.worse == Some(Began::HeldBack)));
    }
    assert!(is_rare(beyond, of, 5), "{beyond} of {of} beyond by more than a tenth");
    assert!(!is_many(of) || held_back * 20 > of, "{held_back} of {of} held back");
}

/// TCP that loses by chance and has a window of its own: a step that it did not send is not reached, and is no ceiling.
fn tcp_window_and_loss_are_no_ceiling(seeds: Range<u64>) {
    for seed in seeds {
        let mut random = Random(6_000 + seed);
        let rtt_ns = random.between(MS / 10, MS);
        let world = World { rtt_ns, loss: 100, window: true, ..world(seed) };
        let (outcome, _) = run(&world, ASKED);
        assert_eq!(outcome.bad, None, "{world:?}: {outcome:#?}");
    }
    // Without losses a long way needs a large window: TCP opens it step by step, and the rate is not reached; that is told.
    let (outcome, _) = run(&World { rtt_ns: 400 * MS, window: true, ..world(1) }, ASKED);
    assert_eq!((outcome.verdict, outcome.bad), (Verdict::Unclear, None), "{outcome:#?}");
    assert!(outcome.why.as_ref().is_some_and(|why| why.contains("joined packets")), "{outcome:#?}");
}

/// Nothing passes for a while, somewhere: of one step it may be the most, and it is no ceiling.
fn a_moment_is_no_ceiling(seeds: Range<u64>) {
    let (mut moments, of) = (0, runs(&seeds));
    for seed in seeds {
        let mut random = Random(2_000 + seed);
        let from = random.between(3 * S, 60 * S);
        let stall = Some((from, from + random.between(S / 10, 3 * S)));
        let world = World { rtt_ns: random.between(MS / 10, 5 * MS), stall, ..world(seed) };
        let (outcome, _) = run(&world, ASKED);
        assert_eq!((outcome.verdict, outcome.bad), (Verdict::NotFound, None), "{world:?}: {outcome:#?}");
        moments += u64::from(outcome.moments);
    }
    assert!(!is_many(of) || moments * 10 > of, "{moments} steps of {of} searches were worse for a moment");
}

/// A host that cannot keep the schedule is told apart from a path that cannot carry it.
#[test]
fn late_host_is_no_ceiling() {
    let late = World { late: Some((1_000, 30 * MS)), ..world(1) };
    let (outcome, _) = run(&late, ASKED);
    assert_eq!((outcome.verdict, outcome.bad), (Verdict::Unclear, None), "{outcome:#?}");
    assert!(outcome.why.as_ref().is_some_and(|why| why.starts_with("this host")), "{outcome:#?}");
    let good = outcome.good.expect("it kept the steps below").rate_per_s;
    assert!((700..=1_000).contains(&good), "{good}");
    // Below what it can keep, the path's is found all the same.
    let both = World { ceiling: Some((400, Kind::Policer(5))), ..late };
    assert_eq!(run(&both, ASKED).0.verdict, Verdict::Found);
}

#[test]
fn loss_at_every_rate_is_unclear() {
    let (outcome, _) = run(&World { loss: 3_000, ..world(1) }, ASKED);
    assert_eq!((outcome.verdict, outcome.good), (Verdict::Unclear, None), "{outcome:#?}");
    assert!(outcome.why.is_some_and(|why| why.contains("the lowest rate")));
}

#[test]
fn search_is_reproducible_with_announced_steps() {
    let steps = CeilingSearch::new(ASKED).rates().len();
    let (outcome, _) = run(&world(1), ASKED);
    assert_eq!(outcome.steps.len(), steps);
    assert_eq!(run(&world(7), ASKED).0, run(&world(7), ASKED).0);
}
