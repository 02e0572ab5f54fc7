//! Where a recording comes from: which host, by which command, and what its figures may not be taken for.

use crate::support::probe::{Outcome, Probe, fathom};
use crate::support::reflector::Echo;
use crate::support::rows::manifest;
use crate::support::{FATHOM, must, skip};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Runs a probe, with these variables of its environment.
fn probe(home: &Path, words: &[&str], variables: &[(&str, &str)]) -> Outcome {
    let mut command = Command::new(FATHOM);
    Probe::spawn(command.arg("probe").args(words).envs(variables.iter().copied()).current_dir(home)).finish()
}

/// Two hosts whose recordings said nothing of their host were one to whoever read them.
#[test]
fn recording_identifies_host_without_revealing_ids() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let target = echo.address().to_string();
    let words = [&target, "--count", "2", "--every", "1ms", "--record", "r", "--quiet"];
    assert_eq!(probe(home.path(), &words, &[("TZ", ":Asia/Kathmandu")]).code(), 0);
    let text = std::fs::read_to_string(home.path().join("r/recording.json")).expect("a manifest");
    let host = &manifest(&home.path().join("r"))["host"];
    assert_eq!(host["name"], must("uname", &["-n"]).trim());
    assert_eq!(host["time_zone"], "Asia/Kathmandu");
    let ids = [
        ("machine_id", "/etc/machine-id", "machine-id"),
        ("boot_id", "/proc/sys/kernel/random/boot_id", "boot-id"),
    ];
    for (field, file, verb) in ids {
        let Ok(id) = std::fs::read_to_string(file) else {
            skip(&format!("it needs {file}"));
            continue;
        };
        let id = id.trim();
        assert!(!text.contains(id) && !text.contains(&id.replace('-', "")), "{field} is given away");
        // systemd's own tool says what the hash must be.
        if crate::support::needs("systemd-id128") {
            let option = "--app-specific=5f0d7c1e2b944a6e9d38c7a1e0b4f263";
            let hash = must("systemd-id128", &[verb, option]);
            assert_eq!(host[field], format!("hmac-sha256:{}", hash.trim()));
        }
    }
}

#[test]
fn recorded_command_line_reproduces_recording() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let target = echo.address().to_string();
    let words = [
        target.as_str(),
        "--count",
        "3",
        "--every",
        "2ms",
        "--record",
        "a b",
        "--quiet",
        "--label",
        "it's $HOME",
        "--tag",
        "note=a; b",
        "--via",
        "",
    ]; // As typed.
    assert_eq!(probe(home.path(), &words, &[]).code(), 0);
    let first = manifest(&home.path().join("a b"));
    let command = first["command"].as_str().expect("a command line");
    let there = tempfile::tempdir().expect("another directory");
    let bin = Path::new(FATHOM).parent().expect("a directory");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    let again =
        Probe::spawn(shell.args(["-c", command]).env("PATH", path).current_dir(there.path())).finish();
    assert_eq!(again.code(), 0, "{command}: {again:?}");
    let second = manifest(&there.path().join("a b"));
    for field in ["label", "path", "command", "marks"] {
        assert_eq!(first[field], second[field], "{field}");
    }
    assert_eq!(first["probe"]["count"], second["probe"]["count"]);
}

/// Two services of one host had one label, and so one scenario.
#[test]
fn default_label_includes_port() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let target = echo.address().to_string();
    let words = [&target, "--count", "1", "--record", "r", "--quiet"];
    assert_eq!(probe(home.path(), &words, &[]).code(), 0);
    assert_eq!(manifest(&home.path().join("r"))["label"], target);
}

/// What is shown first, of a run and of its recording, as text and as JSON.
fn assert_marked(home: &Path, summary: &Outcome, dir: &str, marks: &[&str], first: &str) {
    assert_eq!(summary.summary()["marks"], Value::from(marks.to_vec()), "{summary:?}");
    assert_eq!(
        manifest(&home.join(dir)).get("marks").cloned().unwrap_or_else(|| Value::from(Vec::<Value>::new())),
        Value::from(marks.to_vec())
    );
    assert_eq!(
        fathom(home, &["recording", "summary", dir, "--json"]).summary()["marks"],
        Value::from(marks.to_vec())
    );
    let text = fathom(home, &["recording", "summary", dir]).out;
    let story = fathom(home, &["recording", "explain", dir]).out;
    if first.is_empty() {
        assert!(
            !text.contains("EMULATED") && !text.contains("QUICK") && !text.contains("SIMULATED"),
            "{text}"
        );
    } else {
        assert!(text.starts_with(first), "{text}");
        assert!(story.lines().next().is_some_and(|line| line.contains(first)), "{story}");
    }
}

/// A recording of an emulated network, or one cut short, read like any other.
#[test]
fn emulated_or_quick_run_is_marked_first() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let target = echo.address().to_string();
    let run = |dir: &str, options: &[&str], variables: &[(&str, &str)]| {
        let words = [
            &[target.as_str(), "--count", "3", "--every", "1ms", "--record", dir, "--json", "--quiet"],
            options,
        ]
        .concat();
        probe(home.path(), &words, variables)
    };
    let real = run("real", &[], &[]);
    assert_marked(home.path(), &real, "real", &[], "");
    // As `fathom fabric exec` runs its commands, and as `fathom study run --quick` runs its probes there.
    let short = run("short", &["--mark", "quick"], &[("FATHOM_FABRIC_HOST", "client")]);
    assert_marked(home.path(), &short, "short", &["emulated", "quick"], "EMULATED");
    let words =
        [target.as_str(), "--count", "3", "--every", "1ms", "--no-record", "--mark", "quick", "--quiet"];
    assert!(probe(home.path(), &words, &[]).out.trim_start().starts_with("QUICK"));
}

#[cfg(target_os = "linux")]
#[test]
fn what_was_simulated_says_so_first() {
    let home = tempfile::tempdir().expect("a directory");
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/azure-same-zone.toml");
    let out =
        fathom(home.path(), &["fabric", "simulate", scenario, "--for", "5s", "--record", "r", "--json"]);
    let all = out.summaries();
    assert!(
        !all.is_empty() && all.iter().all(|summary| summary["marks"] == Value::from(vec!["simulated"])),
        "{all:?}"
    );
    let text = fathom(home.path(), &["fabric", "simulate", scenario, "--for", "5s"]).out;
    assert!(text.trim_start().starts_with("SIMULATED"), "{text}");
    let text = fathom(home.path(), &["recording", "summary", "r"]).out;
    assert!(text.trim_start().starts_with("SIMULATED"), "{text}");
}
