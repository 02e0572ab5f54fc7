//! Hours in milliseconds: that a long run does all of its work, and (`--ignored --nocapture`, in release) how quickly.

use std::time::Instant;

use super::laws::steady_chain;
use super::*;
use crate::model::{Correlation, Jitter, Loss};

/// What a preset has: jitter with correlation, and rare losses.
fn real() -> PathModel {
    PathModel {
        jitter: Jitter::Gamma { mean_ns: 20_000.0, sd_ns: 30_000.0 },
        correlation: Correlation::PerPacket(0.3),
        loss: Loss::Independent { share: 1e-6 },
        ..PathModel::constant(150_000)
    }
}

/// Requests every `gap_ns` that b answers at once; returns deliveries and the time at the end.
fn ping(world: &mut World, count: usize, gap_ns: u64) -> (u64, u64) {
    let (request, answer) = (tcp(1, 2, Flags::ACK), tcp(2, 1, Flags::ACK));
    let mut out = Output::default();
    let (mut now_ns, mut delivered) = (0, 0);
    for _ in 0..count {
        now_ns += gap_ns;
        world.packet_in(now_ns, A, request.clone(), &mut out);
        while let Some(due_ns) = world.next_due_ns() {
            world.advance(due_ns, &mut out);
            let answers = out.deliveries.iter().filter(|d| d.host == B).count();
            delivered += out.deliveries.len() as u64;
            out.clear();
            for _ in 0..answers {
                world.packet_in(due_ns, B, answer.clone(), &mut out);
            }
        }
    }
    (delivered, world.status().now_ns)
}

#[test]
fn eleven_hours_of_three_paths_are_all_played() {
    // As many samples as the article: 123,639 over three paths, one a second each.
    let mut world = World::new(pair(&PathModel { loss: Loss::None, ..real() }), 1).unwrap();
    world.start(0);
    let (delivered, now_ns) = ping(&mut world, 41_213, 1_000 * MS);
    assert_eq!(delivered, 2 * 41_213);
    assert!(now_ns > 11 * 3_600_000 * MS);
    assert_eq!(world.status().counters.delivered, delivered);
}

#[test]
#[ignore = "a measurement, for release builds"]
fn hops_per_second() {
    for (name, packet_log) in [("without packet log", false), ("with packet log", true)] {
        let mut plan = steady_chain(&real(), &real());
        plan.packet_log = packet_log;
        let mut world = World::new(plan, 1).unwrap();
        let began = Instant::now();
        let (delivered, _) = ping(&mut world, 500_000, MS);
        // A request and an answer cross two legs and a middlebox each.
        let hops = delivered * 2;
        println!("{name}: {:.2} M hops/s", hops as f64 / began.elapsed().as_secs_f64() / 1e6);
    }
    let mut world = World::new(pair(&real()), 1).unwrap();
    let mut out = Output::default();
    let (count, bytes) = (2_000_000_u64, tcp(1, 2, Flags::ACK));
    let began = Instant::now();
    for i in 0..count {
        world.packet_in(i * 2_000, A, bytes.clone(), &mut out);
        out.clear();
    }
    println!(
        "one leg, 75 packets under way: {:.2} M packets/s",
        count as f64 / began.elapsed().as_secs_f64() / 1e6
    );
}
