//! Policies compared: each by itself, and as its recording says.

use fathom_core::policy::{Policy, Tally};
use fathom_fabric::scenario::Scenario;
use fathom_fabric::simulate::{Applicant, Options};
use fathom_recording::{Recording, Tool, verify};
use fathom_simulate::{Comparison, Made, Weigh, compare};
use std::path::Path;

const MS: u64 = 1_000_000;

/// Packets keep their order, wait for each other, are lost in bursts and by chance; a balancer chooses by their ports.
const SCENARIO: &str = r#"
format = 1
name = "compared"
seed = 3
host = [
    { name = "a", address = "10.0.0.1" }, { name = "b", address = "10.0.0.2" }, { name = "c", address = "10.0.0.3" },
]

[[middlebox]]
name = "lb"
kind = "load-balancer"
address = "10.0.1.1"
backends = ["b", "c"]

[[path]]
label = "a-b"
from = "a"
to = "b"
via = ["lb"]
both = { delay = "1ms", jitter = { distribution = "gamma", mean = "400us", sd = "300us" }, loss = 0.02, rate = "1Mbit/s" }

[[path]]
label = "a"
from = "a"
to = "c"
both = { delay = "3ms", loss = 0.01 }

[[event]]
at = "20s"
kind = "link-cut"
path = "a-b"
duration = "10s"

[[event]]
at = "55s"
kind = "host-pause"
host = "a"
duration = "8s"
"#;

/// Each sends a request so often.
fn applicants(interval_ns: u64) -> [Applicant; 4] {
    let applicant = |name: &str, text: &str| {
        let policy = Policy::parse(name, text).unwrap_or_else(|e| panic!("{e}"));
        Applicant { name: name.to_owned(), policy, interval_ns }
    };
    let again =
        "[request]\nidempotent = true\ntry_timeout = \"1s\"\n[retry]\nat_most = 5\nbudget = \"none\"\n";
    [
        applicant("none", ""),
        applicant("b-c", again),
        applicant(
            "c",
            &format!(
                "{again}[connection]\nage = \"5s\"\n[pool]\nmin = 3\n[breaker]\nleast = 10\nwindow = 20\nopen = \"3s\""
            ),
        ),
        applicant("same", again),
    ]
}

fn made() -> Made {
    Made { tool: Tool::default(), command: "a test".to_owned() }
}

fn compared(applicants: &[Applicant], runs: usize, record: Option<&Path>) -> Vec<Comparison> {
    let scenario = Scenario::parse(SCENARIO, "a test").unwrap_or_else(|e| panic!("{e}"));
    let options = Options { duration_ns: Some(60_000_000_000), ..Options::default() };
    compare(&scenario, &options, applicants, runs, record, &made(), |_| true)
        .unwrap_or_else(|e| panic!("{e}"))
}

/// What one sent was in the others' way: the n-th of eight equal policies waited the longest, and was ranked last.
fn check_independence(interval_ns: u64, runs: usize) {
    let all = applicants(interval_ns);
    let together = compared(&all, runs, None);
    assert_eq!(together.iter().map(|one| one.path.as_str()).collect::<Vec<_>>(), ["a-b", "a"]);
    for (i, one) in all.iter().enumerate() {
        let alone = compared(std::slice::from_ref(one), runs, None);
        for (together, alone) in together.iter().zip(&alone) {
            assert_eq!(together.outcomes[i], alone.outcomes[0], "{} on {}", one.name, alone.path);
        }
    }
    for comparison in &together {
        // One policy under two names is one policy.
        assert_eq!(comparison.outcomes[1], comparison.outcomes[3]);
        for weigh in [Weigh::Failed, Weigh::Latency, Weigh::Load] {
            let ranked = comparison.ranked(weigh);
            let rank = |policy| ranked.iter().find(|one| one.policy == policy).map(|one| one.rank);
            assert_eq!(rank(1), rank(3), "{weigh:?}");
        }
        // The runs are not one run several times.
        assert_ne!(comparison.outcomes[0][0], comparison.outcomes[0][1]);
    }
}

/// Each request's end stands in the recording, and the outcome agrees with it. Two names do not make one directory.
fn check_recordings(interval_ns: u64) {
    let home = tempfile::tempdir().expect("a directory");
    let all = applicants(interval_ns);
    let told = compared(&all, 2, Some(home.path()));
    let mut compared = 0;
    for comparison in &told {
        for (one, outcomes) in all.iter().zip(&comparison.outcomes) {
            for (seed, outcome) in (3..).zip(outcomes) {
                let run = home.path().join(format!("run-{seed}")).join(&one.name);
                assert!(run.join("truth.jsonl").is_file());
                let dir = run.join(&comparison.path);
                let verified = verify(&dir, |_| {}).expect("a recording");
                assert!(verified.findings.is_empty() && verified.damage.is_empty(), "{verified:?}");
                let recording = Recording::open(&dir).expect("a recording");
                let mut tally = Tally::new(&recording.manifest().reflector.address);
                for entry in recording.events().expect("events") {
                    tally.event(entry.expect("an event").known().expect("of this version"));
                }
                recording.samples().flatten().for_each(|sample| tally.sample(&sample));
                assert_eq!(tally.amounts(), outcome.amounts, "{}", dir.display());
                assert!(outcome.amounts.counts.answered <= outcome.amounts.counts.due - outcome.unservable);
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 2 * 4 * 2);
}

#[test]
fn policy_outcome_is_independent_of_others() {
    check_independence(130 * MS, 2);
}

#[test]
fn outcome_agrees_with_its_recording() {
    check_recordings(250 * MS);
}

mod acceptance {
    use super::*;

    #[test]
    fn policy_outcome_is_independent_of_others() {
        check_independence(50 * MS, 3);
    }

    #[test]
    fn outcome_agrees_with_its_recording() {
        check_recordings(50 * MS);
    }
}
