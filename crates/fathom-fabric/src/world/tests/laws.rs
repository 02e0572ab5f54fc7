//! What holds for every world: nothing gets lost unsaid, nothing comes early, the seed decides.

use proptest::prelude::*;

use super::*;
use crate::event::{Direction, RedirectEnd};
use crate::model::{Correlation, Jitter, Loss, Reorder};
use crate::stage::Context;
use crate::truth::{Origin, PacketFate, PacketRecord};

fn model() -> impl Strategy<Value = PathModel> {
    let jitter = prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Uniform { low_ns: 0.0, high_ns: 300_000.0 }),
        Just(Jitter::Lognormal { mean_ns: 50_000.0, sd_ns: 80_000.0 }),
    ];
    let loss = prop_oneof![
        Just(Loss::None),
        Just(Loss::Independent { share: 0.2 }),
        Just(Loss::GilbertElliott { enter: 0.1, leave: 0.3, loss_good: 0.0, loss_bad: 0.9 }),
    ];
    let options = (prop::bool::ANY, prop::option::of(Just(2_000_000u64)), prop::option::of(Just(700u16)));
    (0u64..2_000_000, jitter, loss, 0.0..0.3, prop::bool::ANY, options).prop_map(
        |(delay_ns, jitter, loss, duplicate, late, (correlated, rate, mtu))| PathModel {
            delay_ns,
            jitter,
            correlation: if correlated { Correlation::InTime(1_000_000) } else { Correlation::None },
            loss,
            duplicate,
            reorder: late.then_some(Reorder { share: 0.1, late_ns: 400_000 }),
            rate_bits_per_s: rate,
            queue_bytes: rate.map(|_| 5_000),
            mtu,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let direction = prop_oneof![Just(Direction::Forward), Just(Direction::Backward), Just(Direction::Both)];
    let then = prop_oneof![Just(RedirectEnd::Direct), Just(RedirectEnd::Silent), Just(RedirectEnd::Reset)];
    prop_oneof![
        (0u64..5_000_000).prop_map(|duration_ns| Event::HostPause { host: "b".into(), duration_ns }),
        (-500_000i64..500_000, prop::option::of(0u64..9_000_000)).prop_map(|(added_ns, duration_ns)| {
            Event::PathChange { path: "left".into(), added_ns, duration_ns }
        }),
        (direction, 0u64..3_000_000).prop_map(|(direction, d)| Event::LinkCut {
            path: "right".into(),
            direction,
            duration_ns: Some(d)
        }),
        (0u64..3_000_000, 0u64..3_000_000, 0u64..3_000_000, then).prop_map(
            |(brownout_ns, freeze_ns, redirect_ns, then)| {
                Event::LiveMigration {
                    host: "a".into(),
                    brownout_ns,
                    brownout_added_ns: 100_000,
                    freeze_ns,
                    redirect_ns,
                    redirect_added_ns: 200_000,
                    then,
                }
            }
        ),
    ]
}

/// A middlebox of the tests: forwards with a random transit, drops and takes some, and sends a datagram of its own now and then.
#[derive(Debug)]
pub(super) struct Whim {
    next_ns: u64,
}

impl Stage for Whim {
    fn addresses(&self) -> Vec<IpAddr> {
        vec![address(50).ip()]
    }
    fn start(&mut self, now_ns: u64) {
        self.next_ns = now_ns + 300_000;
    }
    fn packet(&mut self, _: u64, packet: Packet, context: &mut Context<'_>) -> crate::stage::Fate {
        use crate::stage::Fate;
        use rand::Rng as _;
        match context.random.random_range(0..20) {
            0 => Fate::Drop { packet, reason: DropReason::Refused },
            1 => Fate::Taken,
            _ => Fate::Forward { packet, transit_ns: context.random.random_range(0..50_000) },
        }
    }
    fn next_due_ns(&self) -> Option<u64> {
        (self.next_ns < 10 * MS).then_some(self.next_ns)
    }
    fn advance(&mut self, now_ns: u64, context: &mut Context<'_>) {
        assert_eq!(now_ns, self.next_ns, "called at its own time");
        self.next_ns += 300_000;
        context.send.push((7, Packet::udp(address(50), address(2), b"own").unwrap()));
    }
    fn event(&mut self, _: u64, _: &crate::event::StageEvent, _: &mut Context<'_>) -> Result<(), String> {
        Err("it has none".to_owned())
    }
    fn status(&self) -> crate::stage::StageStatus {
        crate::stage::StageStatus::default()
    }
}

/// a - middlebox - b, where the middlebox is a [`super::middleboxes::Script`] without a script: it forwards at once.
pub(super) fn steady_chain(left: &PathModel, right: &PathModel) -> Plan {
    let stages: Vec<(String, Box<dyn Stage>)> =
        vec![("whim".to_owned(), Box::new(middleboxes::Script::default()))];
    Plan { stages, ..chain(left, right, Vec::new()) }
}

/// a - whim - b.
pub(super) fn chain(left: &PathModel, right: &PathModel, events: Vec<(u64, Event)>) -> Plan {
    Plan {
        hosts: vec![host("a", 1), host("b", 2)],
        stages: vec![("whim".to_owned(), Box::new(Whim { next_ns: 0 }))],
        legs: vec![leg("a", "whim", "left", left), leg("whim", "b", "right", right)],
        routes: vec![
            route("a", 2, 0),
            route("whim", 2, 1),
            route("b", 1, 1),
            route("whim", 1, 0),
            route("b", 50, 1),
        ],
        events,
        packet_log: true,
    }
}

type Traffic = Vec<(u64, bool, usize, bool)>;

fn traffic() -> impl Strategy<Value = Traffic> {
    prop::collection::vec((0u64..100_000, any::<bool>(), 0usize..1_200, any::<bool>()), 1..150)
}

/// Runs it, driven at its due times or (a lazy driver) only when there is traffic.
fn run(plan: Plan, seed: u64, traffic: &Traffic, lazy: bool, check: &mut dyn FnMut(&World)) -> Output {
    let mut world = World::new(plan, seed).unwrap();
    let mut out = Output::default();
    world.start(0);
    let mut now_ns = 0;
    for &(gap_ns, from_a, length, tcp_packet) in traffic {
        let until_ns = now_ns + gap_ns;
        while let Some(due_ns) = world.next_due_ns().filter(|&due_ns| !lazy && due_ns <= until_ns) {
            world.advance(due_ns, &mut out);
            check(&world);
        }
        now_ns = until_ns;
        let (host, from, to) = if from_a { (A, 1, 2) } else { (B, 2, 1) };
        let bytes = if tcp_packet { tcp(from, to, Flags::ACK) } else { udp(from, to, length) };
        world.packet_in(now_ns, host, bytes, &mut out);
        check(&world);
    }
    settle(&mut world, &mut out);
    check(&world);
    assert_eq!(world.status().in_fabric, 0, "nothing stays");
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn everything_is_accounted_for(
        left in model(), right in model(), events in prop::collection::vec((0u64..9_000_000, event()), 0..4), traffic in traffic(), seed in any::<u64>(),
    ) {
        let mut last = Counters::default();
        let out = run(chain(&left, &right, events), seed, &traffic, false, &mut |world| {
            let status = world.status();
            let c = status.counters;
            assert_eq!(c.packets_in + c.made, c.delivered + c.dropped + c.taken + status.in_fabric as u64);
            assert!(status.held <= status.in_fabric);
            last = c;
        });
        prop_assert_eq!(last.packets_in, traffic.len() as u64);
        prop_assert_eq!((out.deliveries.len() as u64, dropped(&out).len() as u64), (last.delivered, last.dropped));
        // One record for each packet, and each number once.
        let mut ids: Vec<u64> = out.records.iter().map(|r| r.id).collect();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len() as u64, last.packets_in + last.made);
        prop_assert_eq!(ids.len(), out.records.len());
        let counted = |f: fn(&PacketRecord) -> bool| out.records.iter().filter(|r| f(r)).count() as u64;
        prop_assert_eq!(counted(|r| r.fate == PacketFate::Delivered), last.delivered);
        prop_assert_eq!(counted(|r| r.fate == PacketFate::Taken), last.taken);
        prop_assert_eq!(counted(|r| r.origin == Origin::Host), last.packets_in);
        prop_assert_eq!(counted(|r| r.origin != Origin::Host), last.made);
        // In order of time, as promised.
        prop_assert!(out.deliveries.is_sorted_by_key(|d| d.due_ns));
        prop_assert!(out.truths.is_sorted_by_key(|t| t.at_ns));
        prop_assert!(out.records.is_sorted_by_key(|r| r.due_ns));
        for delivery in &out.deliveries {
            prop_assert!(crate::packet::tests::checksums_right(delivery.packet.bytes()) || delivery.packet.is_fragment());
        }
    }

    #[test]
    fn the_seed_decides_and_the_driver_does_not(
        left in model(), right in model(), events in prop::collection::vec((0u64..9_000_000, event()), 0..4), traffic in traffic(), seed in any::<u64>(),
    ) {
        let one = run(chain(&left, &right, events.clone()), seed, &traffic, false, &mut |_| ());
        let two = run(chain(&left, &right, events), seed, &traffic, true, &mut |_| ());
        prop_assert_eq!(&one.deliveries, &two.deliveries);
        prop_assert_eq!(&one.truths, &two.truths);
        prop_assert_eq!(&one.records, &two.records);
    }

    #[test]
    fn nothing_comes_before_its_time(left in model(), right in model(), traffic in traffic(), seed in any::<u64>()) {
        let out = run(chain(&left, &right, Vec::new()), seed, &traffic, false, &mut |_| ());
        for record in out.records.iter().filter(|r| r.origin == Origin::Host && r.fate == PacketFate::Delivered) {
            // What was cut up after its first leg has another size; its first piece keeps the number.
            let wire = left.serialisation_ns(record.size as usize) + right.serialisation_ns(record.size as usize);
            prop_assert!(record.due_ns >= record.in_ns + left.delay_ns + right.delay_ns + wire);
        }
    }

    #[test]
    fn order_is_kept_where_no_model_reorders(left in model(), right in model(), traffic in traffic(), seed in any::<u64>()) {
        let steady = |model: PathModel| PathModel { reorder: None, mtu: None, ..model };
        let out = run(chain(&steady(left), &steady(right), Vec::new()), seed, &traffic, false, &mut |_| ());
        for (host, from) in [(A, NodeId::from(B)), (B, NodeId::from(A))] {
            let ids: Vec<u64> = out.records.iter()
                .filter(|r| r.to == Some(host) && r.from == from && r.origin == Origin::Host).map(|r| r.id).collect();
            prop_assert!(ids.is_sorted(), "{:?}", ids);
        }
    }

    #[test]
    fn another_leg_does_not_change_this_ones_numbers(left in model(), right in model(), traffic in traffic(), seed in any::<u64>()) {
        let alone = run(chain(&left, &right, Vec::new()), seed, &traffic, false, &mut |_| ());
        let mut plan = chain(&left, &right, Vec::new());
        plan.hosts.push(host("c", 3));
        plan.legs.insert(0, leg("c", "a", "new", &left));
        for route in &mut plan.routes { route.leg += 1; }
        let beside = run(plan, seed, &traffic, false, &mut |_| ());
        prop_assert_eq!(alone.deliveries, beside.deliveries);
    }
}

#[test]
fn other_seeds_give_other_worlds() {
    let model = PathModel { jitter: Jitter::Uniform { low_ns: 0.0, high_ns: 1e6 }, ..PathModel::default() };
    let traffic: Traffic = (0..50).map(|_| (2_000_000, true, 10, false)).collect();
    let due = |seed| {
        let out = run(chain(&model, &model, Vec::new()), seed, &traffic, false, &mut |_| ());
        out.deliveries.iter().map(|d| d.due_ns).collect::<Vec<_>>()
    };
    assert_ne!(due(1), due(2));
}
