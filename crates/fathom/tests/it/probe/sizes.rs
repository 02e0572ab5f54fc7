//! `fathom probe --sizes`: samples of several sizes on one connection, in random rounds, never pooled.

use crate::support::probe::{Probe, assert_sound, fathom};
use crate::support::reflector::{Echo, Reflector};
use crate::support::rows::{Row, events, of_kind, rows};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// As `--sizes` takes them, and what they stand for.
const TCP: (&str, &[i64]) = ("64,1KiB,4KiB..16KiB", &[64, 1_024, 4_096, 8_192, 16_384]);
const UDP: (&str, &[i64]) = ("64..256,1400", &[64, 128, 256, 1_400]);
const SHORT: (&str, &[i64]) = ("1,8,63..64,1KiB", &[1, 8, 63, 64, 1_024]);
const ROUNDS: usize = 10;

#[test]
fn size_sweep_on_a_schedule() {
    let echo = Echo::start("127.0.0.1");
    sweep(&echo, "--every 4ms", TCP, true);
    sweep(&echo, "--every 4ms --udp", UDP, true);
    sweep(&echo, "--every 4ms", SHORT, false);
    sweep(&echo, "--every 4ms --udp", SHORT, false);
}

#[test]
fn size_sweep_back_to_back() {
    let echo = Echo::start("127.0.0.1");
    sweep(&echo, "--ping-pong", TCP, true);
    sweep(&echo, "--ping-pong --udp", UDP, true);
    sweep(&echo, "--ping-pong", ("64,1MiB", &[64, 1 << 20]), true);
}

/// A whole run of `ROUNDS` rounds: what it says, what it records, and that both agree.
fn sweep(reflector: &impl Reflector, options: &str, (spelled, sizes): (&str, &[i64]), stamped: bool) {
    let home = tempfile::tempdir().expect("a directory");
    let count = ROUNDS * sizes.len();
    let address = reflector.address();
    let line = format!("{address} {options} --sizes {spelled} --count {count} --record r --json --quiet");
    let summary = Probe::start(home.path(), &line).finish().summary();
    let case = format!("{line}: {summary}");
    assert_eq!(summary["samples"], count, "{case}");
    for pooled in ["size", "rtt_ns", "latency_ns", "lateness_ns", "first_sample_ns"] {
        assert!(summary[pooled].is_null(), "{pooled}: {case}");
    }
    let dir = home.path().join("r");
    assert_sound(&dir);
    let mut rows = rows(&dir);
    rows.sort_by_key(|row| row.at("seq"));
    assert_eq!(rows.len(), count, "{case}");
    let answered = rows.iter().filter(|row| row.rtt_ns().is_some()).count();
    assert_eq!(summary["answered"], answered, "{case}");
    let may_lose = options.contains("--udp") && !reflector.echoes_every_datagram();
    assert!(answered == count || (may_lose && answered > 0), "{answered} of {count}: {case}");
    if stamped {
        assert!(rows.iter().all(|row| row.get("reflector_ns").is_some()), "{case}");
    }
    interleaved(&rows, sizes, &case);
    figures_agree(&summary, &rows, sizes, &case);
    same_when_read_back(home.path(), &summary);
    nothing_usual_in_common(home.path());
    manifest_agrees(&dir, sizes, &case);
    let told = of_kind(&events(&dir), "note")
        .iter()
        .any(|note| note["text"].as_str().is_some_and(|text| text.contains("no header")));
    assert_eq!(told, sizes[0] < 64 && !options.contains("--udp"), "{case}");
}

/// Every round has each size once, and not every round in one order (by chance: one in 2^9 of 2 sizes, else less).
fn interleaved(rows: &[Row], sizes: &[i64], case: &str) {
    let sent: Vec<i64> = rows.iter().map(|row| row.at("size")).collect();
    let mut orders = BTreeMap::new();
    for round in sent.chunks(sizes.len()) {
        let mut sorted = round.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, sizes, "{sent:?} {case}");
        *orders.entry(round).or_insert(0) += 1;
    }
    assert!(orders.len() > 1 || sizes.len() == 2, "one order in all rounds: {sent:?} {case}");
}

fn figures_agree(summary: &Value, rows: &[Row], sizes: &[i64], case: &str) {
    let lines = summary["sizes"].as_array().unwrap_or_else(|| panic!("{case}"));
    assert_eq!(
        lines.iter().map(|of| of["size"].as_i64().expect("a size")).collect::<Vec<_>>(),
        sizes,
        "{case}"
    );
    for line in lines {
        let of = |row: &&Row| line["size"] == row.at("size");
        let rtts: Vec<i64> = rows.iter().filter(of).filter_map(Row::rtt_ns).collect();
        assert_eq!(
            (&line["samples"], &line["rtt_ns"]["count"]),
            (&ROUNDS.into(), &rtts.len().into()),
            "{case}"
        );
        assert_eq!(line["rtt_ns"]["min"].as_i64(), rtts.iter().min().copied(), "{case}");
        assert_eq!(line["rtt_ns"]["max"].as_i64(), rtts.iter().max().copied(), "{case}");
        let latest =
            rows.iter().filter(of).filter_map(|row| Some(row.rtt_ns()? + row.at("lateness_ns"))).max();
        assert_eq!(line["latency_ns"]["max"].as_i64(), latest, "{case}");
    }
}

fn same_when_read_back(home: &Path, summary: &Value) {
    let read = fathom(home, &["recording", "summary", "r", "--json"]).summary();
    for field in ["size", "sizes", "rtt_ns", "samples", "mode"] {
        assert_eq!(read[field], summary[field], "{field}");
    }
}

fn nothing_usual_in_common(home: &Path) {
    let story = fathom(home, &["recording", "explain", "r"]);
    assert_eq!(story.code(), 0, "{}", story.err);
    assert!(story.out.contains("samples of several sizes"), "{}", story.out);
    assert!(!story.out.contains("over the whole recording"), "{}", story.out);
}

fn manifest_agrees(dir: &Path, sizes: &[i64], case: &str) {
    let text = std::fs::read_to_string(dir.join("recording.json")).expect("a manifest");
    let manifest: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(manifest["probe"]["sizes"], serde_json::json!(sizes), "{case}");
    assert!(manifest["probe"]["size"].is_null(), "{case}");
}

#[test]
fn small_sizes_leave_stamp_support_unknown() {
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    for (sizes, stamps) in [("64,128", Value::Bool(true)), ("1..32,4KiB", Value::Null)] {
        let dir = home.path().join(sizes);
        let line =
            format!("{} --sizes {sizes} --every 2ms --count 40 --quiet --record {sizes}", echo.address());
        assert_eq!(Probe::start(home.path(), &line).finish().code(), 0);
        let manifest = std::fs::read_to_string(dir.join("recording.json")).expect("a manifest");
        let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
        let stamped = rows(&dir).iter().any(|row| row.get("reflector_ns").is_some());
        let expected = if stamped { Value::Bool(true) } else { stamps };
        assert_eq!(manifest["reflector"]["stamps"], expected, "{sizes}");
    }
}

#[test]
fn text_has_a_row_for_each_size() {
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    let line = format!("{} --sizes 64,128..512 --every 2ms --count 40 --no-record", echo.address());
    let outcome = Probe::start(home.path(), &line).finish();
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    for size in ["64", "128", "256", "512"] {
        let row = outcome.out.lines().find(|line| line.split_whitespace().next() == Some(size));
        let row: Vec<&str> = row.unwrap_or_else(|| panic!("{}", outcome.out)).split_whitespace().collect();
        assert_eq!(row[1..3], ["10", "0"], "{}", outcome.out);
    }
    assert!(
        outcome.err.contains("4 sizes from 64 to 512 bytes in random order, every 2ms"),
        "{}",
        outcome.err
    );
}

#[test]
fn invalid_size_sweeps_are_rejected() {
    let home = tempfile::tempdir().expect("a directory");
    for (options, part) in [
        ("--sizes 0,64", "no echo"),
        ("--sizes 8..4", "below its beginning"),
        ("--sizes 64,1MiB --udp", "65507"),
        ("--sizes 64,128 --size 64", "cannot be used with"),
        ("--sizes 64,128 --csv x.csv", "pool"),
        ("--sizes lots", "64,1KiB,4KiB..1MiB"),
    ] {
        let outcome = Probe::start(home.path(), &format!("127.0.0.1 {options}")).finish();
        assert_eq!(outcome.code(), 2, "{options}: {}", outcome.err);
        assert!(outcome.err.contains(part), "{options}: {}", outcome.err);
    }
}

mod acceptance {
    use super::*;
    use crate::support::needs;
    use crate::support::reflector::Xinetd;

    #[test]
    fn xinetd_answers_size_sweeps() {
        if needs("xinetd") {
            let xinetd = Xinetd::start("127.0.0.1");
            for pace in ["--every 4ms", "--ping-pong"] {
                sweep(&xinetd, pace, TCP, false);
                sweep(&xinetd, pace, SHORT, false);
            }
            // Not back to back, which would be lost more often than not.
            sweep(&xinetd, "--every 20ms --udp", UDP, false);
        }
    }
}
