//! Stories and policies at random.

use super::{MS, Mood, Moods, Story};
use fathom_core::policy::{
    Age, Backoff, BreakerRule, BudgetRule, Fallback, Jitter, Order, Policy, PoolRule, RecoveryRule, Requests,
    Retry, Window,
};
use proptest::option::of;
use proptest::prelude::*;

fn moods() -> impl Strategy<Value = Moods> {
    let mood = prop_oneof![
        2 => Just(Mood::Well),
        1 => (1..4_000_u64).prop_map(|ms| Mood::Slow(ms * MS)),
        1 => Just(Mood::Refuses),
        1 => Just(Mood::Silent),
        1 => Just(Mood::Slams),
        3 => Just(Mood::Moody),
    ];
    prop::collection::vec((0..30_000_u64, mood), 0..6).prop_map(|moods| {
        let mut moods: Moods = moods.into_iter().map(|(at, mood)| (at * MS, mood)).collect();
        moods.sort_by_key(|(at, _)| *at);
        moods
    })
}

pub(crate) fn stories() -> impl Strategy<Value = Story> {
    let resets = prop::collection::vec(0..30_000_u64, 0..4);
    let pauses = prop::collection::vec((0..30_000_u64, 1..10_000_u64), 0..3);
    let world = (0..80_u64, moods(), moods(), resets, pauses);
    (1..400_u64, 1..150_u64, world, of(0..30_000_u64), any::<u64>()).prop_map(
        |(every, requests, (rtt, first, second, resets, pauses), stop, seed)| Story {
            interval_ns: every * MS,
            requests,
            rtt_ns: rtt * MS,
            moods: [first, second],
            resets: resets.into_iter().map(|at| at * MS).collect(),
            stop_at_ns: stop.map(|at| at * MS),
            pauses: pauses.into_iter().map(|(from, lasts)| (from * MS, lasts * MS)).collect(),
            seed,
        },
    )
}

fn retries() -> impl Strategy<Value = Retry> {
    let budget = prop_oneof![
        Just(None),
        (0..=10_u32, 0..5_u32)
            .prop_map(|(tenths, burst)| Some(BudgetRule::Share { share: f64::from(tenths) / 10.0, burst })),
        (1..20_u32, 0..=10_u32).prop_map(|(tokens, tenths)| Some(BudgetRule::Throttle {
            tokens,
            ratio: f64::from(tenths) / 10.0
        })),
    ];
    let jitter =
        prop_oneof![Just(Jitter::None), Just(Jitter::Full), Just(Jitter::Equal), Just(Jitter::Decorrelated)];
    (1..6_u32, 1..500_u64, 0..2_000_u64, jitter, budget).prop_map(|(at_most, first, more, jitter, budget)| {
        Retry {
            at_most,
            backoff: Backoff { first_ns: first * MS, cap_ns: (first + more) * MS, jitter },
            budget,
        }
    })
}

fn pools() -> impl Strategy<Value = PoolRule> {
    let ms = |most: u64| (1..most).prop_map(|ms| ms * MS);
    (
        0..4_u32,
        0..5_u32,
        ms(3_000),
        any::<bool>(),
        of(ms(5_000)),
        of((0..2_000_u64).prop_map(|n| n * MS)),
        of(ms(3_000)),
        ms(1_000),
    )
        .prop_map(
            |(min, more, wait_ns, fifo, idle_ns, validate_after_ns, check_every_ns, validation)| PoolRule {
                min,
                max: (min + more).max(1),
                wait_ns,
                order: if fifo { Order::Fifo } else { Order::Lifo },
                idle_ns,
                validate_after_ns,
                check_every_ns,
                validation_timeout_ns: validation.min(wait_ns),
            },
        )
}

pub(crate) fn policies() -> impl Strategy<Value = Policy> {
    let requests = (any::<bool>(), 100..6_000_u64, 10..3_000_u64).prop_map(|(idempotent, deadline, own)| {
        Requests { size: 64, idempotent, deadline_ns: deadline * MS, try_timeout_ns: own.min(deadline) * MS }
    });
    let age = (1_000..10_000_u64, 0..100_u64)
        .prop_map(|(ms, share)| Age { at_most_ns: ms * MS, jitter_ns: ms * share / 100 * MS });
    let window =
        prop_oneof![(1..20_u32).prop_map(Window::Count), (100..5_000_u64).prop_map(|n| Window::Ns(n * MS))];
    let breaker = (window, 1..10_u32, 1..=10_u32, 100..4_000_u64, 1..4_u32).prop_map(
        |(window, least, tenths, open, trials)| BreakerRule {
            window,
            least,
            failures: f64::from(tenths) / 10.0,
            open_ns: open * MS,
            trials,
        },
    );
    let fallback = prop_oneof![
        Just(Fallback::Target("second".to_owned())),
        (1..10_000_u64).prop_map(|ms| Fallback::LastAnswer(ms * MS))
    ];
    let recovery = (10..1_000_u64, 1..5_u32, 1..2_000_u64).prop_map(|(every, after, timeout)| RecoveryRule {
        every_ns: every * MS,
        after,
        timeout_ns: timeout * MS,
    });
    let breaker = (breaker, of(recovery));
    (requests, of(retries()), 10..2_000_u64, of(age), pools(), of(breaker), of(fallback)).prop_map(
        |(requests, retry, connect, age, pool, breaker, fallback)| Policy {
            requests,
            retry,
            connect_timeout_ns: connect * MS,
            keepalive_ns: None,
            user_timeout_ns: None,
            age,
            pool,
            breaker: breaker.map(|(breaker, _)| breaker),
            recovery: breaker.and_then(|(_, recovery)| recovery),
            fallback,
        },
    )
}
