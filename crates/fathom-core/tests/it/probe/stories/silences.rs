//! Silences: each is a stall, whatever came before it.

use super::every;
use crate::world::{Fault, MS, S, START, World};
use fathom_core::event::EventKind;

/// When a stall began, on which connection, above which threshold.
type Began = (u64, Option<u32>, u64);

tiers! {
    silences_are_stalls_at_any_rate: &[1_000, 50, 5], &[1_000, 50, 5, 1];
    silence_right_after_stall_is_a_stall: 100, 10;
}

/// Three silences of 5 s in one run, and one as its last thing: the late echoes of the first used to raise the threshold
/// above the others.
fn silences_are_stalls_at_any_rate(intervals_ms: &[u64]) {
    for interval in intervals_ms.iter().map(|ms| ms * MS) {
        let silences = [20, 40, 60, 78].map(|at| (at * S, Fault::Silence(5 * S)));
        let outcome = World::new(every(interval, 80 * S), 1).with(silences).run();
        outcome.check_laws();
        assert_eq!(outcome.stalls(), 4, "every {interval} ns");
    }
}

/// Without selective acknowledgements TCP repairs one lost segment a round trip (RFC 6582): long after a silence of 4 s
/// samples still queue behind what it held up. Those were learned from, and hid every later silence.
#[test]
fn queue_after_silence_does_not_hide_next() {
    let silences = [20, 40, 60].map(|at| (at * S, Fault::Silence(4 * S)));
    let mut world = World::new(every(10 * MS, 70 * S), 1).with(silences);
    world.serial_ns = 2 * MS;
    let outcome = world.run();
    outcome.check_laws();
    let queued = |(_, sample): &&(usize, fathom_core::sample::Sample)| sample.rtt_ns > Some(S as i64);
    assert!(
        outcome.samples.iter().filter(queued).count() > 3 * 400,
        "what is sent after a silence queues too"
    );
    let thresholds = outcome.of(|kind| match kind {
        EventKind::StallBegan { threshold_ns, .. } => Some(*threshold_ns),
        _ => None,
    });
    let thresholds: Vec<u64> = thresholds.into_iter().map(|(.., threshold)| threshold).collect();
    assert_eq!(thresholds, [200 * MS; 3], "the least, as before the first silence");
}

/// While a stall goes on it is looked at every 250 ms. That look, which came after the stall was over, was the first at
/// the silence that followed: shorter ones were not seen, longer ones told late (seed 115,055 of `probe::laws`).
fn silence_right_after_stall_is_a_stall(step_ms: usize) {
    for first in (500..1_000).step_by(step_ms).map(|ms| ms * MS) {
        let faults = [(3 * S, Fault::Silence(first)), (3 * S + first + 20 * MS, Fault::Silence(220 * MS))];
        let outcome = World::new(every(5 * MS, 10 * S), 1).with(faults).run();
        outcome.check_laws();
        assert_eq!(outcome.stalls(), 2, "the first of {first} ns");
    }
}

/// A silence that was looked at and was no stall left the next look where it was: with a threshold that had fallen since,
/// the silence after it was missed.
#[test]
fn silence_after_ignored_silence_is_a_stall() {
    let faults = [(740 * MS, Fault::Silence(560 * MS)), (1_340 * MS, Fault::Silence(360 * MS))];
    let outcome = World::new(every(50 * MS, 5 * S), 1).with(faults).run();
    outcome.check_laws();
    let began = outcome.of(|kind| matches!(kind, EventKind::StallBegan { .. }).then_some(()));
    // The threshold is 200 ms since the first second's end: of the first silence, too, which lasted until 1.3 s.
    assert!(began.iter().any(|(at, ..)| *at > START.mono_ns + 1_350 * MS), "{began:?}");
}

/// A cut of 0.7 s in a run's first second was no stall, since nothing was usual before that second was over, and what it held up
/// was told as echoes that kept coming, late (a stranger). Ten round trips say what is usual, however soon they come.
#[test]
fn silence_in_first_second_is_a_stall() {
    for (interval, after) in [(50 * MS, 600 * MS), (20 * MS, 250 * MS), (5 * MS, 100 * MS), (MS, 50 * MS)] {
        let faults = [after, 1_500 * MS].map(|at| (at, Fault::Silence(700 * MS)));
        let outcome = World::new(every(interval, 4 * S), 1).with(faults).run();
        outcome.check_laws();
        assert_eq!(outcome.stalls(), 2, "every {interval} ns, after {after}");
        let late = outcome.of(|kind| matches!(kind, EventKind::DelayBegan { .. }).then_some(()));
        assert!(late.is_empty(), "every {interval} ns, after {after}: {late:?}");
    }
}

/// A freeze of 30 s at the articles' pace blinded the probe to anything under two minutes for most of an hour.
#[test]
fn a_long_freeze_does_not_blind_the_probe() {
    let faults = [(300, 25), (360, 2), (900, 3), (2_000, 2)].map(|(at, s)| (at * S, Fault::Silence(s * S)));
    let outcome = World::new(every(S, 3_600 * S), 1).with(faults).run();
    outcome.check_laws();
    assert_eq!(outcome.stalls(), 4);
}

/// A path that becomes ten times slower is told for a while and is then the usual one; ten minutes later a silence of
/// five usual tails is a stall again.
#[test]
fn a_path_that_changes_for_good_becomes_usual() {
    for interval in [S, 100 * MS] {
        let mut world = World::new(every(interval, 1_500 * S), 1)
            .with([(600 * S, Fault::Slower(10)), (1_300 * S, Fault::Silence(6 * S))]);
        world.rtt_ns = 100 * MS;
        let outcome = world.run();
        outcome.check_laws();
        let began = outcome.of(|kind| match kind {
            EventKind::StallBegan { threshold_ns, .. } => Some(*threshold_ns),
            _ => None,
        });
        let settled = START.mono_ns + 700 * S;
        let (early, late): (Vec<&Began>, Vec<&Began>) = began.iter().partition(|(at, ..)| *at < settled);
        assert!(early.len() < 60, "every {interval} ns: {} stalls while it changed", early.len());
        assert_eq!(late.len(), 1, "every {interval} ns: {late:?}");
        assert!((3 * S..5 * S).contains(&late[0].2), "four tails of a second: {} ns", late[0].2);
    }
}
