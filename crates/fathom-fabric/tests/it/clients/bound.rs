//! What nobody could have answered: a bound that nobody breaks, whatever happens at one time or one after the other.

use super::{S, applicant, numbers, play, scenario};
use fathom_fabric::scenario::Scenario;
use fathom_fabric::simulate::{Applicant, Item, Options, Unservable, simulate_clients};
use std::fmt::Write as _;

/// A path with a gateway that may change over.
const GATEWAY: &str = r#"
format = 1
name = "gateway"
host = [{ name = "a", address = "10.0.0.1" }, { name = "b", address = "10.0.0.2" }]

[[middlebox]]
name = "gate"
kind = "gateway"

[[path]]
label = "ab"
from = "a"
to = "b"
via = ["gate"]
both = { delay = "1ms" }
"#;

/// It tries as long and as often as it can, and lets nothing go.
fn eager(deadline_s: u64) -> Applicant {
    applicant(
        &format!(
            "[request]\nidempotent = true\ndeadline = \"{deadline_s}s\"\ntry_timeout = \"{deadline_s}s\"\n\
             [connection]\nconnect_timeout = \"500ms\"\n[pool]\nmax = 100\nwait = \"{deadline_s}s\"\n\
             [retry]\nat_most = 100\nfirst = \"100ms\"\ncap = \"200ms\"\nbudget = \"none\""
        ),
        S / 2,
    )
}

/// So many of the requests of `eager` in 100 s nobody could have answered; those of it that were answered.
fn bound(scenario: &Scenario, deadline_s: u64) -> (u64, u64) {
    let options = Options { duration_ns: Some(100 * S), ..Options::default() };
    let one = eager(deadline_s);
    let mut simulation =
        simulate_clients(scenario, &options, std::slice::from_ref(&one)).expect("a simulation");
    let mut bound = Unservable::of(scenario, "ab");
    for item in &mut simulation {
        if let Item::Truth(truth) = item {
            bound.truth(&truth);
        }
    }
    let answered = simulation.counts(0).answered;
    (bound.requests(one.interval_ns, one.policy.requests.deadline_ns, 100 * S), answered)
}

/// By hand, of two requests a second.
#[test]
fn bound_of_overlapping_events_is_exact() {
    let event = |at: u64, lasts: u64, what: &str| {
        format!("[[event]]\nat = \"{at}s\"\nduration = \"{lasts}s\"\n{what}\n")
    };
    let cut = |way: &str| format!("kind = \"link-cut\"\npath = \"ab\"\ndirection = \"{way}\"");
    let pause = |host: &str| format!("kind = \"host-pause\"\nhost = \"{host}\"");
    let restart = |host: &str, at: u64, lasts: u64| {
        format!("[[simulate.restart]]\nhost = \"{host}\"\nat = \"{at}s\"\nfor = \"{lasts}s\"\n")
    };
    let both = |one: String, other: String| one + &other;
    for (what, events, deadline_s, lost) in [
        // From 10 s until 19 s: whoever was due then has given up by 25 s.
        ("cut there, then back", both(event(10, 10, &cut("forward")), event(19, 6, &cut("backward"))), 5, 21),
        // What came there before 19 s is answered at 20 s: of those only who was due by 15 s had given up. From 19 s on nothing
        // comes there until 25 s: lost are those of 19 s to 20 s.
        (
            "cut back, then there",
            both(event(10, 10, &cut("backward")), event(19, 6, &cut("forward"))),
            5,
            11 + 3,
        ),
        // A process that has ended answers nobody, but its kernel sends again what it had answered: at 20 s only who was due at
        // 10 s has given up, and at 25 s only who was due at 15 s.
        ("cut back, then restarted", both(event(10, 10, &cut("backward")), restart("b", 15, 10)), 10, 2),
        // The caller's own reflector is nobody's business.
        ("the caller's reflector", restart("a", 10, 30), 5, 0),
        // Of a caller that stood still when its deadline came the answer that waits is read first. What fell due from 15 s on
        // is not even sent before 30 s, when who was due by 22 s has given up.
        ("both stand still", both(event(10, 10, &pause("b")), event(15, 15, &pause("a"))), 8, 15),
    ] {
        let scenario =
            Scenario::parse(&format!("{GATEWAY}\n{events}"), "a test").unwrap_or_else(|e| panic!("{e}"));
        let (bound, answered) = bound(&scenario, deadline_s);
        assert!(answered <= 200 - bound, "{what}: {answered} were answered, {bound} could not be");
        assert_eq!(bound, lost, "{what}");
    }
}

tiers! {
    answers_never_exceed_the_bound: 10, 80;
}

/// So many worlds, one after the other from the same numbers.
fn answers_never_exceed_the_bound(worlds: u64) {
    let mut below = numbers(11);
    let mut unservable = 0;
    for _ in 0..worlds {
        let mut events = String::new();
        for _ in 0..2 + below(4) {
            let (at, lasts) = (below(40_000), 500 + below(20_000));
            let _ = match below(9) {
                0 => writeln!(
                    events,
                    "[[event]]\nat = \"{at}ms\"\nkind = \"switchover\"\nmiddlebox = \"gate\"\noutage = \"{lasts}ms\"\nforget = false"
                ),
                n @ (1 | 2) => writeln!(
                    events,
                    "[[simulate.restart]]\nhost = \"{}\"\nat = \"{at}ms\"\nfor = \"{lasts}ms\"",
                    if n == 1 { "b" } else { "a" }
                ),
                n @ (3 | 4) => writeln!(
                    events,
                    "[[event]]\nat = \"{at}ms\"\nkind = \"host-pause\"\nhost = \"{}\"\nduration = \"{lasts}ms\"",
                    if n == 3 { "b" } else { "a" }
                ),
                5 => writeln!(
                    events,
                    "[[event]]\nat = \"{at}ms\"\nkind = \"live-migration\"\nhost = \"b\"\nfreeze = \"{lasts}ms\""
                ),
                n => writeln!(
                    events,
                    "[[event]]\nat = \"{at}ms\"\nkind = \"link-cut\"\npath = \"ab\"\ndirection = \"{}\"\nduration = \"{lasts}ms\"",
                    ["forward", "backward", "both"][n as usize - 6]
                ),
            };
        }
        let text = format!("{GATEWAY}\n{events}");
        let scenario = Scenario::parse(&text, "a test").unwrap_or_else(|e| panic!("{e}"));
        let (bound, answered) = bound(&scenario, 1 + below(12));
        assert!(answered <= 200 - bound, "{answered} were answered, {bound} could not be: {events}");
        unservable += bound;
    }
    let least = if worlds < 80 { 0 } else { 1_000 };
    assert!(unservable > least, "hardly anything was out of reach: {unservable}");
}

/// Nothing listens until the last of two restarts is over.
#[test]
fn overlapping_restarts_last_until_latest_ends() {
    let scenario = scenario(
        "[[simulate.restart]]\nhost = \"b\"\nat = \"10s\"\nfor = \"5s\"\n\
         [[simulate.restart]]\nhost = \"b\"\nat = \"12s\"\nfor = \"20s\"",
    );
    let one = applicant("[request]\ndeadline = \"500ms\"\ntry_timeout = \"500ms\"", S);
    let clients = play(&scenario, &[one], 1, 60 * S);
    assert_eq!(clients[0].counts.answered, 60 - 22, "those of 10 s to 31 s are refused");
}
