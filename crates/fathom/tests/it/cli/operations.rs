//! Runs that nobody watches: a line an interval, a command an event, a file for Prometheus.

use crate::support::probe::{Outcome, Probe, assert_sound};
use crate::support::reflector::Echo;
use crate::support::rows::number;
use crate::support::{FATHOM, free_port, wait_for};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

fn probe(home: &Path, words: &[&str]) -> Probe {
    Probe::spawn(Command::new(FATHOM).arg("probe").args(words).current_dir(home))
}

/// The intervals of a run, and its summaries.
fn split(outcome: &Outcome) -> (Vec<Value>, Vec<Value>) {
    outcome.objects().into_iter().partition(|object| object["kind"] == "interval")
}

#[test]
fn interval_reports_add_up_to_summary() {
    let home = tempfile::tempdir().expect("a directory");
    let (a, b) = (Echo::start("127.0.0.1"), Echo::start("127.0.0.1"));
    let (a, b) = (a.address().to_string(), b.address().to_string());
    let words =
        [&a, &b, "--every", "5ms", "--for", "2200ms", "--no-record", "--json", "--interval-report", "1s"];
    let outcome = probe(home.path(), &words).finish();
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let (intervals, summaries) = split(&outcome);
    assert_eq!(summaries.len(), 2);
    for summary in &summaries {
        let of: Vec<&Value> = intervals.iter().filter(|one| one["label"] == summary["label"]).collect();
        assert!(of.len() >= 2, "{of:?}");
        for count in ["samples", "answered", "late", "unanswered", "corrupt", "not_sent"] {
            let sum: u64 = of.iter().map(|one| number(one, count)).sum();
            assert_eq!(sum, number(summary, count), "{count}: {of:?}");
        }
        assert_eq!(of.last().expect("one")["availability"], summary["availability"]);
        let busy = of.iter().find(|one| number(one, "answered") >= 20).expect("an interval with samples");
        assert!(number(&busy["rtt_ns"], "p50") > 0, "{busy}");
    }
}

/// Without --json it is a line for people, and the reader may go.
#[test]
fn interval_report_prints_text_until_reader_leaves() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let target = echo.address().to_string();
    let line = format!("'{FATHOM}' probe {target} --every 10ms --no-record --interval-report 1s | head -n 1");
    let out = Probe::spawn(Command::new("sh").args(["-c", &line]).current_dir(home.path())).finish();
    let text = out.out.trim();
    assert!(
        text.contains(&target) && text.contains(" samples in ") && text.contains("available so far"),
        "{out:?}"
    );
}

/// A parser of the text exposition format 0.0.4 that forgives nothing: name and labels to value.
fn exposed(text: &str) -> BTreeMap<String, f64> {
    let (mut values, mut types, mut current) = (BTreeMap::new(), BTreeMap::new(), String::new());
    let mut seen = BTreeSet::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            rest.split(' ').next().expect("a name").clone_into(&mut current);
            assert!(seen.insert(current.clone()), "{current} comes twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("name and kind");
            assert_eq!(name, current);
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            types.insert(name.to_owned(), kind.to_owned());
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let name = series.split('{').next().expect("a name");
            let part = name
                .strip_prefix(current.as_str())
                .unwrap_or_else(|| panic!("{line} stands below {current}"));
            let parts: &[&str] =
                if types[&current] == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(parts.contains(&part), "{line}");
            assert!(
                name.starts_with("fathom_") && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
                "{line}"
            );
            let value: f64 = value.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
            assert!(values.insert(series.to_owned(), value).is_none(), "{series} comes twice");
        }
    }
    values
}

#[test]
fn textfile_is_always_whole_and_matches_summary() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let target = echo.address().to_string();
    let file = home.path().join("probe.prom");
    let words = [
        &target,
        "--every",
        "2ms",
        "--count",
        "500",
        "--no-record",
        "--json",
        "--quiet",
        "--label",
        "a \"b\"",
        "--textfile",
        "probe.prom",
    ];
    let running = probe(home.path(), &words);
    let first = wait_for("a running probe", || {
        let text = std::fs::read_to_string(&file).ok()?;
        let values = exposed(&text);
        values
            .iter()
            .any(|(name, value)| name.starts_with("fathom_running") && value.to_bits() == 1_f64.to_bits())
            .then_some(values)
    });
    let summary = running.finish().summary();
    let last = exposed(&std::fs::read_to_string(&file).expect("it stays"));
    let labels = format!(r#"label="a \"b\"",target="{target}""#);
    let whole = |name: &str| last[&format!("{name}{{{labels}}}")] as u64;
    let answered = last[&format!("fathom_samples_total{{{labels},outcome=\"answered\"}}")] as u64;
    assert_eq!(answered, number(&summary, "answered"));
    assert_eq!(whole("fathom_rtt_seconds_count"), number(&summary["rtt_ns"], "count"));
    assert_eq!(
        last[&format!("fathom_rtt_seconds_bucket{{{labels},le=\"+Inf\"}}")] as u64,
        number(&summary["rtt_ns"], "count")
    );
    assert_eq!(
        (whole("fathom_running"), whole("fathom_connections_opened_total"), whole("fathom_connections_open")),
        (0, 1, 0)
    );
    // The same series from the beginning: what appears late has no rate.
    let names = |values: &BTreeMap<String, f64>| {
        values.keys().filter(|n| !n.contains("availability")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(names(&first), names(&last));
    let there: Vec<_> =
        std::fs::read_dir(home.path()).expect("it").map(|e| e.expect("one").file_name()).collect();
    assert_eq!(there, ["probe.prom"], "nothing of the writing is left");
}

/// Each event that people are told is handed over, once, as one line of JSON.
#[test]
fn a_command_is_run_for_each_event() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let target = echo.address().to_string();
    let words = [
        &target,
        "--count",
        "3",
        "--every",
        "1ms",
        "--record",
        "r",
        "--quiet",
        "--label",
        "zone",
        "--on-event",
        "cat >> events; echo told >&2",
    ];
    let outcome = probe(home.path(), &words).finish();
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let text = std::fs::read_to_string(home.path().join("events")).expect("events");
    let told: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let mut kinds: Vec<&str> = told.iter().filter_map(|event| event["kind"].as_str()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["connection.closed", "connection.opened"], "{text}");
    assert!(
        told.iter().all(|event| event["label"] == "zone" && event["target"] == target.as_str()),
        "{text}"
    );
    let recorded = crate::support::rows::events(&home.path().join("r"));
    for event in &told {
        let same = |one: &Value| one["kind"] == event["kind"] && one["mono_ns"] == event["mono_ns"];
        assert!(recorded.iter().any(same), "{event}");
    }
    assert_eq!(outcome.err.lines().filter(|line| *line == "told").count(), 2, "{outcome:?}");
}

#[test]
fn failing_event_command_is_reported_once() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let target = echo.address().to_string();
    let words =
        [&target, "--count", "3", "--every", "1ms", "--no-record", "--quiet", "--on-event", "(exit 3)"];
    let outcome = probe(home.path(), &words).finish();
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let told: Vec<&str> = outcome.told().into_iter().filter(|line| line.contains("exit status: 3")).collect();
    assert_eq!(told.len(), 1, "{outcome:?}");
}

/// The outage and its end come to the command while the run goes on.
#[test]
fn absent_reflector_triggers_event_command() {
    let home = tempfile::tempdir().expect("a directory");
    let target = format!("127.0.0.1:{}", free_port());
    let words = [
        target.as_str(),
        "--every",
        "50ms",
        "--keep-trying",
        "--no-record",
        "--quiet",
        "--on-event",
        "tee -a events",
    ];
    let running = probe(home.path(), &words);
    let first = wait_for("an event", || {
        let text = std::fs::read_to_string(home.path().join("events")).ok()?;
        text.lines().next().map(str::to_owned)
    });
    let event: Value = serde_json::from_str(&first).expect("JSON");
    assert_eq!(event["kind"], "connection.refused", "{event}");
    running.signal("TERM");
    running.finish();
}

/// Ten targets ended with ten summaries of twenty lines each.
#[test]
fn many_targets_end_with_one_table() {
    let home = tempfile::tempdir().expect("a directory");
    let reflectors: Vec<Echo> = (0..5).map(|_| Echo::start("127.0.0.1")).collect();
    let targets: Vec<String> = reflectors.iter().map(|echo| echo.address().to_string()).collect();
    let run = |targets: &[String]| {
        let words = [
            &targets.iter().map(String::as_str).collect::<Vec<_>>()[..],
            &["--count", "40", "--every", "2ms", "--no-record", "--quiet"],
        ];
        let outcome = probe(home.path(), &words.concat()).finish();
        assert_eq!(outcome.code(), 0, "{outcome:?}");
        outcome.out
    };
    let table = run(&targets);
    assert_eq!(table.lines().filter(|line| line.contains("p50")).count(), 1, "{table}");
    for target in &targets {
        let row =
            table.lines().find(|line| line.starts_with(target.as_str())).unwrap_or_else(|| panic!("{table}"));
        assert!(row.contains(" 40 ") && row.contains(" % "), "{row}");
    }
    assert!(table.lines().count() < 12, "{table}");
    let few = run(&targets[..2]);
    assert!(few.lines().filter(|line| line.contains("p50")).count() >= 2, "{few}");
}

/// A command that runs when the probe ends gets seconds to end.
mod acceptance {
    use super::*;

    /// The probe sends what is due, and says what came of the command.
    #[test]
    fn hanging_command_delays_nothing() {
        let home = tempfile::tempdir().expect("a directory");
        let echo = Echo::start("127.0.0.1");
        let target = echo.address().to_string();
        // 200 connections: two events each, four commands at a time, which never end.
        let words = [
            &target,
            "--count",
            "5",
            "--every",
            "100ms",
            "--connections",
            "200",
            "--record",
            "r",
            "--json",
            "--quiet",
            "--on-event",
            "echo one >> started; sleep 600",
        ];
        let outcome = probe(home.path(), &words).finish();
        let summary = outcome.summary();
        assert_eq!(
            number(&summary, "answered") + number(&summary, "unanswered") + number(&summary, "not_sent"),
            1_000
        );
        assert_eq!(summary["not_recorded"], serde_json::json!({}), "{summary}");
        assert_sound(&home.path().join("r"));
        let told = outcome.told();
        let dropped: u64 = told
            .iter()
            .find_map(|line| line.strip_prefix("fathom: --on-event: ")?.split(' ').next()?.parse().ok())
            .unwrap_or_else(|| panic!("{told:?}"));
        // Those under way when the run ended were ended; all that waited, or found the queue full, are counted.
        let started = std::fs::read_to_string(home.path().join("started")).expect("some were run");
        assert_eq!(started.lines().count(), 4, "no more than four at a time");
        assert!(dropped >= 400 - 4, "{told:?}");
        assert!(told.iter().any(|line| line.contains("was ended: the run is over")), "{told:?}");
    }
}
