//! The laws of a client under a policy, in virtual time, against servers and paths that do whatever is bad for it; and that
//! each of the laws can be broken.

mod world;

use fathom_core::policy::{
    Age, Backoff, BreakerRule, BudgetRule, Circuit, Counts, Fallback, Jitter, Order, Policy, PoolRule,
    RecoveryRule, Requests, Retry, Window,
};
use proptest::prelude::*;
use world::{Falsified, MS, Mood, Moods, S, Story, live, policies, stories};

/// The laws, in so many cases.
macro_rules! laws {
    ($cases:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: $cases, failure_persistence: None, ..ProptestConfig::default() })]

            #[test]
            fn random_stories_keep_the_laws(story in stories(), policy in policies()) {
                let lived = live(&story, &policy, &policy, Falsified::Nothing);
                prop_assert!(lived.is_ok(), "{}", lived.unwrap_err());
                let (counts, _) = lived.unwrap();
                prop_assert_eq!(counts.in_flight, 0);
                prop_assert!(story.stop_at_ns.is_some() || counts.due == story.requests);
                // With the same seed it is the same again.
                let again = live(&story, &policy, &policy, Falsified::Nothing).unwrap().0;
                prop_assert_eq!(counts, again);
            }
        }
    };
}

laws!(100);

mod acceptance {
    use super::*;

    laws!(600);
}

/// Twenty requests a second for half a minute; the server does this.
fn story(moods: &[(u64, Mood)]) -> Story {
    Story {
        interval_ns: 50 * MS,
        requests: 600,
        rtt_ns: MS,
        moods: [moods.iter().map(|(s, mood)| (s * S, *mood)).collect(), Moods::new()],
        resets: Vec::new(),
        stop_at_ns: None,
        pauses: Vec::new(),
        seed: 42,
    }
}

fn rich() -> Policy {
    Policy {
        requests: Requests { size: 64, idempotent: true, deadline_ns: 2 * S, try_timeout_ns: 300 * MS },
        retry: Some(Retry {
            at_most: 3,
            backoff: Backoff { first_ns: 100 * MS, cap_ns: 800 * MS, jitter: Jitter::Full },
            budget: Some(BudgetRule::Share { share: 0.2, burst: 5 }),
        }),
        age: Some(Age { at_most_ns: 5 * S, jitter_ns: S }),
        pool: PoolRule { min: 2, max: 6, ..PoolRule::default() },
        breaker: Some(BreakerRule {
            window: Window::Count(20),
            least: 10,
            failures: 0.5,
            open_ns: 2 * S,
            trials: 2,
        }),
        ..Policy::default()
    }
}

fn lives(moods: &[(u64, Mood)], policy: &Policy) -> (Counts, Vec<(Circuit, Circuit)>) {
    let (counts, laws) = live(&story(moods), policy, policy, Falsified::Nothing).expect("lawful");
    (counts, laws.transitions)
}

const BAD: &[(u64, Mood)] =
    &[(0, Mood::Well), (5, Mood::Silent), (10, Mood::Refuses), (15, Mood::Moody), (25, Mood::Well)];

/// A client that is wrong in one way each breaks the law that it should, and no other.
#[test]
fn each_law_can_be_broken() {
    let other = |change: fn(&mut Policy)| {
        let mut policy = rich();
        change(&mut policy);
        policy
    };
    let plain = rich();
    let once = other(|p| p.requests.idempotent = false);
    let reads = other(|p| p.breaker = None);
    let writes = Policy { breaker: None, ..once.clone() };
    let throttled =
        other(|p| p.retry.as_mut().unwrap().budget = Some(BudgetRule::Throttle { tokens: 4, ratio: 0.1 }));
    for (does, believed, broken) in [
        (&plain, other(|p| p.pool.max = 1), "a pool never exceeds its maximum"),
        (&reads, writes, "what is ambiguous is never sent twice"),
        (
            &plain,
            other(|p| p.retry.as_mut().unwrap().budget = Some(BudgetRule::Share { share: 0.0, burst: 2 })),
            "never beyond the retry budget",
        ),
        (&plain, throttled, "never beyond the retry budget"),
        (&plain, other(|p| p.retry.as_mut().unwrap().at_most = 1), "retries of a request are counted"),
        (
            &plain,
            other(|p| p.retry.as_mut().unwrap().backoff.cap_ns = 50 * MS),
            "a wait lies within its jitter",
        ),
        (
            &plain,
            other(|p| p.retry.as_mut().unwrap().backoff.jitter = Jitter::Equal),
            "a wait lies within its jitter",
        ),
        (&plain, other(|p| p.requests.deadline_ns = S), "nobody waits beyond the deadline"),
        (&plain, other(|p| p.requests.deadline_ns = MS / 2), "nothing is sent after the deadline"),
        (
            &plain,
            other(|p| p.age = Some(Age { at_most_ns: S, jitter_ns: 0 })),
            "nothing is sent on a connection that is too old",
        ),
        (
            &plain,
            other(|p| p.age = Some(Age { at_most_ns: 60 * S, jitter_ns: S })),
            "an age lies within its jitter",
        ),
        (&plain, other(|p| p.breaker.as_mut().unwrap().open_ns = 3 * S), "a breaker changes as it may"),
    ] {
        let error = live(&story(BAD), does, &believed, Falsified::Nothing).expect_err(broken);
        assert!(error.starts_with(broken), "{broken} was to be broken: {error}");
    }
    let rule = RecoveryRule { every_ns: 100 * MS, after: 2, timeout_ns: 100 * MS };
    let watched = Policy { recovery: Some(rule), ..rich() };
    let back = &[(0, Mood::Well), (5, Mood::Refuses), (7, Mood::Well)];
    for (believed, broken) in [
        (RecoveryRule { after: 3, ..rule }, "a breaker changes as it may"),
        (RecoveryRule { every_ns: S, ..rule }, "a recovery monitor rests between its checks"),
    ] {
        let believed = Policy { recovery: Some(believed), ..rich() };
        let error = live(&story(back), &watched, &believed, Falsified::Nothing).expect_err(broken);
        assert!(error.starts_with(broken), "{broken} was to be broken: {error}");
    }
    let error = live(&story(back), &watched, &watched, Falsified::Check).expect_err("a check");
    assert!(error.starts_with("a recovery monitor asks while the breaker is open"), "{error}");
    for (falsified, broken) in [
        (Falsified::Count, "what was due is what became of it"),
        (Falsified::EndedTwice, "a request ends once"),
        (Falsified::Leak, "a pool never leaks"),
        (Falsified::Harmless, "an end is what it is called"),
    ] {
        let error = live(&story(BAD), &once, &once, falsified).expect_err(broken);
        assert!(error.starts_with(broken), "{broken} was to be broken: {error}");
    }
}

/// The file that docs/policies.md shows is read, and what it calls a default is one.
#[test]
fn the_documents_file_says_the_defaults() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policies.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let (_, page) = page.split_once("\n## The file\n").expect("its part");
    let (page, _) = page.split_once("\n## The rules\n").expect("what follows");
    let shown: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    let policy = Policy::parse("docs/policies.md", &shown.join("\n")).expect("sound");
    let defaults = Policy {
        retry: Some(Retry::default()),
        breaker: Some(BreakerRule::default()),
        recovery: Some(RecoveryRule::default()),
        fallback: Some(Fallback::Target("db2:7007".to_owned())),
        ..Policy::default()
    };
    assert_eq!(policy, defaults);
    // The examples behind `#` are sound too.
    let examples: Vec<&str> = shown.iter().map(|line| line.strip_prefix("# ").unwrap_or(line)).collect();
    let policy = Policy::parse("docs/policies.md", &examples.join("\n")).expect("sound");
    assert!(
        policy.age.is_some() && policy.keepalive_ns.is_some() && policy.pool.idle_ns.is_some(),
        "{policy:?}"
    );
}

#[test]
fn where_all_is_well_all_is_answered() {
    let (counts, transitions) = lives(&[], &rich());
    assert_eq!((counts.answered, counts.due), (600, 600));
    assert!(transitions.is_empty());
}

/// A second of silence at twenty a second: a write that was sent is never sent again, and the caller is told that nobody
/// knows whether it was done; a read is asked again until it is answered.
#[test]
fn a_silence_makes_writes_ambiguous() {
    let mut reads = Policy { breaker: None, age: None, connect_timeout_ns: 200 * MS, ..rich() };
    let backoff = Backoff { first_ns: 50 * MS, cap_ns: 200 * MS, jitter: Jitter::Equal };
    reads.retry = Some(Retry { at_most: 30, backoff, budget: None });
    reads.requests.deadline_ns = 4 * S;
    let mut writes = reads.clone();
    writes.requests.idempotent = false;
    let silence = &[(0, Mood::Well), (5, Mood::Silent), (6, Mood::Well)];
    let (counts, _) = lives(silence, &writes);
    // One on each of the two connections that were open, and few that a wrong answer cost theirs; the others never got as far.
    assert!((2..=5).contains(&counts.ambiguous), "{counts:?}");
    assert_eq!(counts.ambiguous + counts.answered, 600, "{counts:?}");
    let (counts, _) = lives(silence, &reads);
    assert_eq!(counts.answered, 600, "{counts:?}");
}

#[test]
fn a_breaker_opens_sheds_tries_and_closes() {
    use Circuit::{Closed, HalfOpen, Open};
    let (counts, transitions) = lives(&[(0, Mood::Well), (5, Mood::Refuses), (12, Mood::Well)], &rich());
    assert!(counts.shed > 60, "{counts:?}");
    assert_eq!(transitions.first(), Some(&(Closed, Open)));
    assert_eq!(transitions[transitions.len() - 2..], [(Open, HalfOpen), (HalfOpen, Closed)]);
    assert!(transitions.contains(&(HalfOpen, Open)), "{transitions:?}");
}

/// A breaker that stays open for a minute, and a server that is away for seven seconds: without a monitor everything is shed
/// long after it is back.
#[test]
fn a_recovery_monitor_ends_what_a_breaker_began() {
    use Circuit::{Closed, HalfOpen, Open};
    let mut alone = rich();
    alone.breaker.as_mut().expect("one").open_ns = 60 * S;
    let rule = RecoveryRule { every_ns: 500 * MS, after: 2, timeout_ns: S };
    let watched = Policy { recovery: Some(rule), ..alone.clone() };
    let away = &[(0, Mood::Well), (5, Mood::Refuses), (12, Mood::Well)];
    let (counts, transitions) = lives(away, &alone);
    assert_eq!(transitions, [(Closed, Open)]);
    assert!(counts.shed > 450, "of the 500 after the first: {counts:?}");
    let (counts, transitions) = lives(away, &watched);
    assert_eq!(transitions, [(Closed, Open), (Open, HalfOpen), (HalfOpen, Closed)]);
    // 140 were due while it was away; two checks and the rest between them take a second, twenty requests.
    assert!((110..=170).contains(&counts.shed), "{counts:?}");
    // What answers is what counts: a server that accepts, and no more, is not back.
    for still in [Mood::Silent, Mood::Slams, Mood::Slow(2 * S)] {
        let (counts, transitions) = lives(&[(0, Mood::Well), (5, Mood::Refuses), (12, still)], &watched);
        assert!(transitions.len() == 1 && counts.shed > 450, "{still:?}: {counts:?}");
    }
}

#[test]
fn a_fallback_serves_what_would_have_failed() {
    let refuses = &[(0, Mood::Well), (5, Mood::Refuses)];
    let second = Policy { fallback: Some(Fallback::Target("second".to_owned())), ..rich() };
    let (counts, _) = lives(refuses, &second);
    assert!(counts.fallback > 400 && counts.failed + counts.shed == 0, "{counts:?}");
    // The last answer is good for ten seconds.
    let last = Policy { fallback: Some(Fallback::LastAnswer(10 * S)), ..rich() };
    let (counts, _) = lives(refuses, &last);
    assert!((150..=250).contains(&counts.fallback) && counts.failed + counts.shed > 200, "{counts:?}");
}

#[test]
fn pool_keeps_minimum_and_drops_excess() {
    // One burst that needs six connections, then one request at a time.
    let slow = &[(0, Mood::Slow(290 * MS)), (3, Mood::Well)];
    let mut policy = Policy { age: None, breaker: None, ..rich() };
    policy.pool.idle_ns = Some(2 * S);
    let (_, laws) = live(&story(slow), &policy, &policy, Falsified::Nothing).expect("lawful");
    assert_eq!((laws.most_open, laws.open_before_the_end), (6, 2));
}

/// Whoever accepts connections and ends them at once was asked for the next one as fast as it could: 15,000 times in half a
/// minute, though 600 requests were due.
#[test]
fn instantly_closing_server_is_not_stormed() {
    let mut policy = Policy { age: None, ..rich() };
    policy.requests.idempotent = false;
    let slams = Story { interval_ns: S, requests: 30, ..story(&[(0, Mood::Slams)]) };
    let (counts, laws) = live(&slams, &policy, &policy, Falsified::Nothing).expect("lawful");
    assert_eq!(counts.answered, 0);
    // One for each request, and those that keep the minimum: waits of up to 5 s, 2.5 s on the average, after the first few.
    assert!(laws.begun < 30 + 60, "{}", laws.begun);
}

/// A host that did not run for 20 s sends nothing for callers that have gone, and closes no connection for it.
#[test]
fn expired_requests_are_not_sent_after_pause() {
    let policy = Policy { age: None, retry: None, breaker: None, ..rich() };
    let pause = Story { pauses: vec![(10 * S, 20 * S)], ..story(&[]) };
    let (counts, _) = live(&pause, &policy, &policy, Falsified::Nothing).expect("lawful");
    // Those due in the last two seconds of it are answered, but for a wrong answer or two; the others were never sent.
    assert!(counts.failed >= 355 && counts.ambiguous <= 3 && counts.shed == 0, "{counts:?}");
}

/// Nobody waited any more for a connection that was asked whether it works; the request went to the fallback, was about to be
/// sent there, and the first target's late answer put it into two queues, so that it was sent twice.
#[test]
fn late_answer_does_not_requeue_moved_request() {
    let policy = Policy {
        requests: Requests { size: 64, idempotent: false, deadline_ns: 1_099 * MS, try_timeout_ns: 10 * MS },
        connect_timeout_ns: 10 * MS,
        pool: PoolRule {
            min: 3,
            max: 4,
            wait_ns: MS,
            order: Order::Fifo,
            validate_after_ns: Some(MS),
            validation_timeout_ns: MS,
            ..PoolRule::default()
        },
        fallback: Some(Fallback::Target("second".to_owned())),
        ..Policy::default()
    };
    let slow = Story {
        interval_ns: 366 * MS,
        requests: 82,
        rtt_ns: 0,
        resets: vec![0],
        pauses: vec![(0, 1_098 * MS)],
        seed: 4_331_207_192_898_272,
        ..story(&[(0, Mood::Slow(452 * MS))])
    };
    let (counts, _) = live(&slow, &policy, &policy, Falsified::Nothing).expect("lawful");
    assert_eq!(counts.due, 82);
}

/// Durations of nothing and of centuries, and a clock that has run for a century and a half.
#[test]
fn extremes_of_time_do_no_harm() {
    use fathom_core::policy::{Client, Input, Output};
    use fathom_core::schedule::{Pace, Schedule};
    let begins = 1 << 62;
    for short in [0, 1, MS] {
        for long in [MS, u64::MAX - 1, u64::MAX] {
            for seed in 0..40_u64 {
                let pick = |bit: u64| if seed >> bit & 1 == 0 { short } else { long };
                let policy = Policy {
                    requests: Requests {
                        size: 64,
                        idempotent: seed & 1 == 0,
                        deadline_ns: long,
                        try_timeout_ns: pick(1),
                    },
                    retry: Some(Retry {
                        at_most: 3,
                        backoff: Backoff { first_ns: 1, cap_ns: long, jitter: Jitter::Decorrelated },
                        budget: None,
                    }),
                    connect_timeout_ns: pick(2),
                    keepalive_ns: None,
                    user_timeout_ns: None,
                    age: Some(Age { at_most_ns: long, jitter_ns: long - 1 }),
                    pool: PoolRule {
                        min: 1,
                        max: 3,
                        wait_ns: pick(3),
                        idle_ns: Some(pick(4).max(1)),
                        validate_after_ns: Some(pick(5)),
                        check_every_ns: Some(long),
                        validation_timeout_ns: pick(3),
                        ..PoolRule::default()
                    },
                    breaker: Some(BreakerRule {
                        window: Window::Ns(long),
                        least: 2,
                        failures: 0.5,
                        open_ns: pick(1),
                        trials: 1,
                    }),
                    recovery: Some(RecoveryRule { every_ns: long, after: 1, timeout_ns: pick(2) }),
                    fallback: Some(Fallback::LastAnswer(long)),
                };
                let schedule = Schedule::new(Pace::Every(MS), begins, Some(50), None);
                let mut client = Client::new(policy, schedule, seed);
                let (mut now, mut turns) = (begins, 0);
                client.start(now);
                while !client.is_over() {
                    while let Some(output) = client.poll() {
                        turns += 1;
                        now += MS / 2;
                        match output {
                            Output::Open { id, .. } if (turns + seed) % 7 > 0 => {
                                client.handle(now, Input::Connected { id });
                            }
                            Output::Open { id, .. } => client.handle(now, Input::Lost { id }),
                            Output::Send { id, ask, .. } if (turns + seed) % 5 > 0 => {
                                client.handle(now, Input::Answered { id, ask });
                            }
                            _ => {}
                        }
                    }
                    let c = client.counts();
                    let sum = c.answered + c.failed + c.ambiguous + c.shed + c.fallback + c.in_flight;
                    assert_eq!(c.due, sum, "{c:?}");
                    let stop = turns > 2_000 || client.next_wake().is_none_or(|at| at > begins + 1_000 * S);
                    if !stop {
                        now = now.max(client.next_wake().expect("it waits for something"));
                    }
                    client.handle(now, if stop { Input::Stop } else { Input::Wake });
                }
                assert_eq!(client.counts().in_flight, 0);
            }
        }
    }
}
