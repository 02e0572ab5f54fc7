//! Applications under policies in virtual time: what they say of their requests is held against each other, against what
//! their recordings say, and against the truth.

mod bound;
mod ends;

use fathom_core::event::{Event, EventKind};
use fathom_core::policy::{Counts, Policy, Tally};
use fathom_core::sample::Sample;
use fathom_fabric::scenario::Scenario;
use fathom_fabric::simulate::{Applicant, Item, Options, Unservable, simulate_clients};
use std::fmt::Write as _;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

const NETWORK: &str = r#"
format = 1
name = "clients"
seed = 1
host = [{ name = "a", address = "10.0.0.1" }, { name = "b", address = "10.0.0.2" }, { name = "c", address = "10.0.0.3" }]

[[middlebox]]
name = "wall"
kind = "firewall"
idle = "1m"
on-expiry = "silent"

[[path]]
label = "ab"
from = "a"
to = "b"
via = ["wall"]
both = { delay = "2ms" }

[[path]]
label = "ac"
from = "a"
to = "c"
both = { delay = "5ms" }

[[simulate.probe]]
path = "ab"
"#;

const CUT: &str = "[[event]]\nat = \"10s\"\nkind = \"link-cut\"\npath = \"ab\"\nduration = \"20s\"";

fn scenario(events: &str) -> Scenario {
    Scenario::parse(&format!("{NETWORK}\n{events}"), "a test").expect("a scenario")
}

fn applicant(text: &str, interval_ns: u64) -> Applicant {
    let policy = Policy::parse("a policy", text).expect("a policy");
    Applicant { name: "it".to_owned(), policy, interval_ns }
}

/// What came of one client.
struct Client {
    counts: Counts,
    samples: Vec<Sample>,
    events: Vec<Event>,
}

impl Client {
    fn of_kind(&self, what: impl Fn(&EventKind) -> bool) -> usize {
        self.events.iter().filter(|event| what(&event.kind)).count()
    }
}

/// Plays it, and looks whether it is lawful: what was due is the sum of its ends, what is recorded says the same, and
/// nobody answered more than could be.
fn play(scenario: &Scenario, applicants: &[Applicant], seed: u64, duration_ns: u64) -> Vec<Client> {
    let options = Options { seed: Some(seed), duration_ns: Some(duration_ns), every_ns: None };
    let mut simulation = simulate_clients(scenario, &options, applicants).expect("it can be simulated");
    let mut unservable = Unservable::of(scenario, "ab");
    let mut all: Vec<(Vec<Sample>, Vec<Event>, Tally)> = simulation
        .clients()
        .iter()
        .map(|client| (Vec::new(), Vec::new(), Tally::new(&client.target)))
        .collect();
    for item in &mut simulation {
        match item {
            Item::Sample { probe, sample } => {
                all[probe].2.sample(&sample);
                all[probe].0.push(sample);
            }
            Item::Event { probe, event } => {
                all[probe].2.event(&event);
                all[probe].1.push(event);
            }
            Item::Truth(truth) => unservable.truth(&truth),
            Item::Packet(_) => {}
        }
    }
    let lawful = |(i, (samples, events, tally)): (usize, (Vec<Sample>, Vec<Event>, Tally))| {
        let applicant = &applicants[simulation.clients()[i].applicant];
        let counts = simulation.counts(i);
        let Counts { due, answered, failed, ambiguous, shed, fallback, in_flight } = counts;
        assert_eq!(
            due,
            duration_ns.div_ceil(applicant.interval_ns),
            "each is due, whatever becomes of others"
        );
        assert_eq!((answered + failed + ambiguous + shed + fallback, in_flight), (due, 0), "{counts:?}");
        assert_eq!(tally.amounts().counts, counts, "what is recorded says the same");
        let deadline_ns = applicant.policy.requests.deadline_ns;
        let bound = due - unservable.requests(applicant.interval_ns, deadline_ns, duration_ns);
        assert!(answered <= bound, "{answered} were answered, and only {bound} could be: {unservable:?}");
        Client { counts, samples, events }
    };
    all.into_iter().enumerate().map(lawful).collect()
}

/// Where nothing happens every request takes one round trip, and one connection serves them all.
#[test]
fn fault_free_request_takes_one_round_trip() {
    let scenario = scenario("");
    let clients = play(&scenario, &[applicant("", S), applicant("[request]\nsize = 300000", S)], 1, 20 * S);
    assert_eq!(clients[0].counts, Counts { due: 20, answered: 20, ..Counts::default() });
    let rtts: Vec<_> = clients[0].samples.iter().map(|sample| sample.rtt_ns).collect();
    assert_eq!(rtts, [Some(4 * MS as i64); 20]);
    assert_eq!(clients[0].of_kind(|kind| matches!(kind, EventKind::ConnectionOpened { .. })), 1);
    // More than a connection holds at one time goes in pieces.
    assert_eq!(clients[1].counts.answered, 20, "{:?}", clients[1].samples);
}

/// By hand: nothing gets through from 10 s to 30 s. Callers wait for 4 s, so those of 10 s to 26 s have no chance: 17.
/// Whoever is due at 27 s or later may be tried again when the path is back.
#[test]
fn bound_counts_unservable_requests() {
    let scenario = scenario(CUT);
    let eager = "[request]\nidempotent = true\ndeadline = \"4s\"\ntry_timeout = \"200ms\"\n\
                 [connection]\nconnect_timeout = \"200ms\"\n[pool]\nwait = \"200ms\"\n\
                 [retry]\nat_most = 100\nfirst = \"100ms\"\ncap = \"100ms\"\nbudget = \"none\"";
    let clients =
        play(&scenario, &[applicant("[request]\ndeadline = \"4s\"", S), applicant(eager, S)], 1, 60 * S);
    let mut bound = Unservable::of(&scenario, "ab");
    let options = Options { duration_ns: Some(60 * S), ..Options::default() };
    for item in simulate_clients(&scenario, &options, &[applicant("", S)]).expect("a simulation") {
        if let Item::Truth(truth) = item {
            bound.truth(&truth);
        }
    }
    assert_eq!(bound.requests(S, 4 * S, 60 * S), 17);
    assert_eq!(clients[1].counts.answered, 60 - 17, "trying often enough reaches the bound");
    assert!(clients[0].counts.answered < clients[1].counts.answered, "{:?}", clients[0].counts);
    // Cut at the end of the run, all that were due in it have no chance.
    assert_eq!(bound.requests(S, 4 * S, 20 * S), 10);
}

/// A firewall forgets an idle flow without a word: the next request on it is lost, unless the connection was kept alive or
/// is asked before it is used.
#[test]
fn unchecked_connections_lose_forgotten_flows() {
    let scenario = scenario("");
    let careless = "[request]\ntry_timeout = \"2s\"";
    let kept_alive = "[connection]\nkeepalive = \"30s\"";
    let asks = "[pool]\nvalidate_after = \"10s\"";
    let both = "[connection]\nkeepalive = \"30s\"\nuser_timeout = \"10s\"";
    let all: Vec<Applicant> = [careless, kept_alive, asks, both].map(|text| applicant(text, 90 * S)).into();
    let clients = play(&scenario, &all, 1, 900 * S);
    // The first request meets a fresh connection; each that follows one that has been forgotten.
    assert_eq!((clients[0].counts.answered, clients[0].counts.ambiguous), (1, 9), "{:?}", clients[0].counts);
    assert_eq!(clients[1].counts.answered, 10, "{:?}", clients[1].counts);
    assert_eq!(clients[2].counts.answered, 10, "{:?}", clients[2].counts);
    assert_eq!(clients[3].counts.answered, 10, "{:?}", clients[3].counts);
    // Kept alive, one connection serves them all.
    for kept in [&clients[1], &clients[3]] {
        assert_eq!(kept.of_kind(|kind| matches!(kind, EventKind::ConnectionOpened { .. })), 1);
    }
}

#[test]
fn a_second_server_serves_what_the_first_cannot() {
    let scenario = scenario(CUT);
    let text = "[request]\nidempotent = true\ntry_timeout = \"1s\"\n[connection]\nconnect_timeout = \"1s\"\n\
                [pool]\nwait = \"1s\"\n[fallback]\ntarget = \"c\"";
    let clients = play(&scenario, &[applicant(text, S)], 1, 60 * S);
    let counts = clients[0].counts;
    assert_eq!((counts.failed, counts.ambiguous), (0, 0), "{counts:?}");
    assert!(counts.fallback >= 17, "{counts:?}");
    let text = "[fallback]\ntarget = \"nobody\"";
    let error = simulate_clients(&scenario, &Options::default(), &[applicant(text, S)]).expect_err("no host");
    assert!(error.contains("nobody"), "{error}");
}

/// Numbers below whatever limit, the same ones each time.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut random = seed;
    move |limit| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    }
}

tiers! {
    random_faults_and_policies_replay_identically: 5, 60;
}

/// So many worlds, one after the other from the same numbers.
fn random_faults_and_policies_replay_identically(worlds: u64) {
    let mut below = numbers(7);
    let mut unanswered = 0;
    for seed in 0..worlds {
        let mut events = String::new();
        for _ in 0..below(4) {
            let (at, lasts) = (below(60_000), 100 + below(20_000));
            let kind = match below(5) {
                0 => format!("link-cut\"\npath = \"ab\"\nduration = \"{lasts}ms"),
                1 => format!("link-cut\"\npath = \"ab\"\ndirection = \"backward\"\nduration = \"{lasts}ms"),
                2 => format!("host-pause\"\nhost = \"b\"\nduration = \"{lasts}ms"),
                3 => format!("host-pause\"\nhost = \"a\"\nduration = \"{lasts}ms"),
                _ => "flush-flows\"\nmiddlebox = \"wall".to_owned(),
            };
            let _ = writeln!(events, "[[event]]\nat = \"{at}ms\"\nkind = \"{kind}\"");
        }
        if below(2) == 0 {
            let (at, lasts) = (below(60_000), 100 + below(10_000));
            let _ =
                writeln!(events, "[[simulate.restart]]\nhost = \"b\"\nat = \"{at}ms\"\nfor = \"{lasts}ms\"");
        }
        let scenario = scenario(&events);
        let policies: Vec<Applicant> = (0..4)
            .map(|_| {
                let mut text = format!(
                    "[request]\nidempotent = {}\ndeadline = \"{}ms\"\ntry_timeout = \"{}ms\"\nsize = {}\n",
                    below(2) == 0,
                    4_000 + below(8_000),
                    500 + below(3_000),
                    64 << below(8),
                );
                for (chance, table) in [
                    (2, "[retry]\nat_most = 3\n"),
                    (3, "[breaker]\nwindow = 10\nleast = 5\nopen = \"5s\"\ntrials = 2\n"),
                    (3, "[fallback]\ntarget = \"c\"\n"),
                    (3, "[connection]\nage = \"20s\"\nkeepalive = \"5s\"\nuser_timeout = \"4s\"\n"),
                    (2, "[pool]\nmin = 0\nmax = 3\nidle = \"10s\"\nvalidate_after = \"2s\"\nvalidation_timeout = \"500ms\"\n"),
                ] {
                    if below(chance) == 0 {
                        text += table;
                    }
                }
                applicant(&text, (20 + below(2_000)) * MS)
            })
            .collect();
        let first = play(&scenario, &policies, seed, 90 * S);
        let again = play(&scenario, &policies, seed, 90 * S);
        for (one, other) in first.iter().zip(&again) {
            assert_eq!((one.counts, &one.samples), (other.counts, &other.samples), "seed {seed}");
            unanswered += one.counts.due - one.counts.answered;
        }
    }
    let least = if worlds < 60 { 0 } else { 1_000 };
    assert!(unanswered > least, "hardly anything went wrong: {unanswered}");
}
