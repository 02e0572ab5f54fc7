//! `fathom fabric simulate --as-client`: applications under policies in virtual time, by the built program.

use crate::support::probe::{Probe, assert_sound, fathom};
use crate::support::{FATHOM, wait_for};
use serde_json::Value;
use std::fs;
use std::process::Command;
use std::thread;
use tempfile::TempDir;

const SCENARIO: &str = r#"
format = 1
name = "short"
host = [{ name = "a", address = "10.0.0.1" }, { name = "b", address = "10.0.0.2" }]
path = [{ label = "ab", from = "a", to = "b", both = { delay = "1ms", loss = 0.01 } }]
event = [{ at = "1m", every = "5m", times = 3, kind = "link-cut", path = "ab", duration = "30s" }]
simulate = { for = "20m" }
"#;

fn home() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Nothing gets through for three times 30 s. A caller waits for 10 s, so of a request a second 21 of each cut have no chance:
/// 63 of 1,200. Whoever tries again loses hardly more; whoever does not loses all of them and what loss takes.
#[test]
fn policies_are_compared_on_same_recorded_runs() {
    let home = home();
    fs::write(home.path().join("s.toml"), SCENARIO).expect("written");
    let idempotent = "[request]\nidempotent = true\ntry_timeout = \"1s\"\n[connection]\nconnect_timeout = \"1s\"\n[pool]\nwait = \"1s\"\n";
    fs::write(home.path().join("once.toml"), idempotent).expect("written");
    let again =
        format!("{idempotent}[retry]\nat_most = 20\nfirst = \"500ms\"\ncap = \"500ms\"\nbudget = \"none\"\n");
    fs::write(home.path().join("again.toml"), again).expect("written");
    let line = ["fabric", "simulate", "s.toml", "--as-client", "once.toml", "--as-client", "again.toml"];
    let run = |more: &[&str]| fathom(home.path(), &[&line, more].concat());
    let out = run(&["--repeat", "4", "--json", "--record", "r"]);
    assert_eq!(out.code(), 0, "{}", out.err);
    let all: Value = serde_json::from_str(&out.out).expect("JSON");
    let named = |name: &str| -> Value {
        let policies = all["policies"].as_array().expect("policies");
        policies.iter().find(|one| one["name"] == name).expect("its policy").clone()
    };
    let (once, again) = (named("once"), named("again"));
    assert_eq!((&all["runs"], &all["marks"][0]), (&4.into(), &"simulated".into()));
    assert_eq!((&again["rank"], &once["rank"]), (&1.into(), &2.into()), "{all}");
    let number = |one: &Value, name: &str| one[name]["mean"].as_f64().expect("a number");
    assert!((number(&once, "unservable") - 63.0 / 1_200.0).abs() < 1e-9, "{once}");
    assert!(number(&again, "unserved") >= number(&again, "unservable"), "more than could be: {again}");
    assert!(number(&once, "unserved") > number(&again, "unserved"), "{all}");
    // Each is a recording like any other, and says the same.
    let mut sum = 0.0;
    for seed in 1..5 {
        let dir = format!("r/run-{seed}/once/ab");
        let verified = fathom(home.path(), &["recording", "verify", &dir]);
        assert_eq!(verified.code(), 0, "{}{}", verified.out, verified.err);
        let summary = fathom(home.path(), &["recording", "summary", &dir, "--json"]);
        let client: Value = serde_json::from_str(&summary.out).expect("JSON");
        let of = |name: &str| client[name].as_u64().or(client["client"][name].as_u64()).expect("a count");
        assert_eq!(of("due"), 1_200, "{client}");
        sum += 1.0 - of("answered") as f64 / 1_200.0;
        assert!(home.path().join(format!("r/run-{seed}/once/truth.jsonl")).is_file());
    }
    assert!((sum / 4.0 - number(&once, "unserved")).abs() < 1e-9, "{once}");
    let text = run(&[]).out;
    assert!(text.starts_with("SIMULATED: ab, 1 run of"), "{text}");
    assert!(text.contains("--repeat"), "{text}");
}

#[test]
fn mistakes_are_one_line() {
    let home = home();
    fs::write(home.path().join("s.toml"), SCENARIO).expect("written");
    fs::create_dir(home.path().join("other")).expect("made");
    for name in ["p.toml", "other/p.toml"] {
        fs::write(home.path().join(name), "").expect("written");
    }
    fs::write(home.path().join("wrong.toml"), "[retry]\nat_most = 0\n").expect("written");
    fs::write(home.path().join("nobody.toml"), "[fallback]\ntarget = \"nobody\"\n").expect("written");
    for (options, part) in [
        ("--as-client absent.toml", "absent.toml"),
        ("--as-client wrong.toml", "wrong.toml:2:11"),
        ("--as-client nobody.toml", "policy nobody: the fallback nobody is no host"),
        ("--as-client p.toml --as-client other/p.toml", "two policies are called p"),
        ("--rate 3", "--as-client"),
        ("--as-client p.toml --rate 0", "requests a second"),
        ("--as-client p.toml --every 1s", "--every"),
        ("--as-client p.toml --weigh beauty", "latency"),
    ] {
        let words: Vec<&str> = options.split(' ').collect();
        let out = fathom(home.path(), &[&["fabric", "simulate", "s.toml"], &words[..]].concat());
        assert_eq!(out.code(), 2, "{options}: {}", out.err);
        assert!(out.err.contains(part), "{options}: {}", out.err);
    }
}

/// Ctrl-C threw away what many runs had come to, and left recordings that had to be recovered.
#[test]
fn ctrl_c_reports_completed_runs() {
    let home = home();
    fs::write(home.path().join("s.toml"), SCENARIO).expect("written");
    fs::write(home.path().join("p.toml"), "").expect("written");
    let line = "fabric simulate s.toml --as-client p.toml --repeat 10000 --record r";
    let mut command = Command::new(FATHOM);
    let run = Probe::spawn(command.args(line.split_whitespace()).current_dir(home.path()));
    let recordings = home.path().join("r");
    // As many as there are processors are played at a time.
    let many = thread::available_parallelism().map_or(1, usize::from) + 3;
    wait_for("some runs", || (fs::read_dir(&recordings).ok()?.count() > many).then_some(()));
    run.signal("INT");
    let outcome = run.finish();
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    let whole =
        outcome.err.split_once("interrupted; ").and_then(|(_, rest)| rest.split_once(" of 10000 runs"));
    let whole: usize =
        whole.unwrap_or_else(|| panic!("{outcome:?}")).0.replace(',', "").parse().expect("a number");
    assert!(whole >= 3 && outcome.out.contains(&format!("{whole} runs")), "{outcome:?}");
    let begun: Vec<_> = fs::read_dir(&recordings).expect("made").flatten().map(|one| one.path()).collect();
    assert!(begun.len() >= whole, "{begun:?}");
    for dir in begun {
        assert_sound(&dir.join("p/ab"));
    }
}
