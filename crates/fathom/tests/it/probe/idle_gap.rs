//! `fathom probe --idle-gap`: the first echo after a silence, beside those that follow it back to back.

use crate::support::probe::{Probe, assert_sound, fathom};
use crate::support::reflector::{Echo, Reflector};
use crate::support::rows::{Row, WARM_UP, rows};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread;

/// As `--idle-gap` takes them, and what they stand for.
const GAPS: (&str, [i64; 3]) = ("40ms,10ms,100ms", [10_000_000, 40_000_000, 100_000_000]);
/// A first sample and three warm ones.
const BURST: usize = 4;
const ROUNDS: usize = 4;

#[test]
fn idle_gaps_over_tcp_and_udp() {
    let echo = Echo::start("127.0.0.1");
    thread::scope(|all| {
        for (options, connections) in [("--connections 2", 2), ("--size 64KiB", 1), ("--udp", 1)] {
            let echo = &echo;
            all.spawn(move || one_run(echo, options, connections));
        }
    });
}

/// A whole run: what was sent when, what the summary makes of it, and that the recording alone tells as much.
fn one_run(reflector: &impl Reflector, options: &str, connections: usize) {
    let home = tempfile::tempdir().expect("a directory");
    // An opening burst, then a burst after each gap of each round.
    let count = BURST * (1 + ROUNDS * GAPS.1.len());
    let (address, gaps) = (reflector.address(), GAPS.0);
    let line = format!("{address} {options} --idle-gap {gaps} --count {count} --record r --json --quiet");
    let summary = Probe::start(home.path(), &line).finish().summary();
    let case = format!("{line}: {summary}");
    assert_eq!(summary["answered"], connections * count, "{case}");
    let dir = home.path().join("r");
    assert_sound(&dir);
    let rows = rows(&dir);
    let mut told: BTreeMap<i64, [Vec<i64>; 2]> = BTreeMap::new();
    for connection in 0..connections as i64 {
        let mut of: Vec<Row> =
            rows.iter().filter(|row| row.at("connection") == connection).cloned().collect();
        of.sort_by_key(|row| row.at("seq"));
        bursts(&of, &mut told, &case);
    }
    figures_agree(&summary, &told, &case);
    same_when_read_back(home.path(), &summary, &case);
}

/// Lays out the samples of one connection: each round has every gap once, and nothing of it is sent before its time.
fn bursts(of: &[Row], told: &mut BTreeMap<i64, [Vec<i64>; 2]>, case: &str) {
    let silence =
        |at: usize| of[at].due_ns() - of[at - 1].at("sent_ns") - of[at - 1].rtt_ns().expect("answered");
    assert!(of[..BURST].iter().all(|row| row.has(WARM_UP)), "what follows a handshake: {case}");
    assert!(of[BURST..].iter().all(|row| !row.has(WARM_UP)), "{case}");
    let mut gaps = Vec::new();
    for (burst, samples) in of.chunks(BURST).enumerate() {
        let begin = burst * BURST;
        // Back to back to within what the two mappings to UTC may differ.
        for at in begin + 1..begin + samples.len() {
            assert!(silence(at).abs() < 1_000_000, "{} ns within a burst: {case}", silence(at));
        }
        if burst > 0 {
            let nearest = GAPS.1.into_iter().min_by_key(|gap| (gap - silence(begin)).abs()).expect("some");
            assert!((nearest - silence(begin)).abs() < 500_000, "{} ns of silence: {case}", silence(begin));
            gaps.push(nearest);
            let [first, warm] = told.entry(nearest).or_default();
            first.push(samples[0].rtt_ns().expect("answered"));
            warm.extend(samples[1..].iter().filter_map(Row::rtt_ns));
        }
    }
    for round in gaps.chunks(GAPS.1.len()) {
        let mut sorted = round.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, GAPS.1, "{gaps:?} {case}");
    }
    assert!(of.iter().all(|row| row.at("lateness_ns") >= 0), "{case}");
}

fn figures_agree(summary: &Value, told: &BTreeMap<i64, [Vec<i64>; 2]>, case: &str) {
    let gaps = summary["idle_gaps"].as_array().unwrap_or_else(|| panic!("{case}"));
    assert_eq!(gaps.len(), told.len(), "{case}");
    for (line, (gap, rtts)) in gaps.iter().zip(told) {
        assert_eq!(line["gap_ns"], *gap, "{case}");
        for (name, rtts) in ["first", "warm"].into_iter().zip(rtts) {
            let of = &line[name]["rtt_ns"];
            assert_eq!(of["count"], rtts.len(), "{name} {case}");
            assert_eq!(of["min"].as_i64(), rtts.iter().min().copied(), "{name} {case}");
            assert_eq!(of["max"].as_i64(), rtts.iter().max().copied(), "{name} {case}");
        }
        let cost = line["first"]["rtt_ns"]["p50"].as_i64().zip(line["warm"]["rtt_ns"]["p50"].as_i64());
        assert_eq!(line["cost_ns"]["p50"].as_i64(), cost.map(|(first, warm)| first - warm), "{case}");
    }
    for pooled in ["rtt_ns", "latency_ns", "lateness_ns", "first_sample_ns"] {
        assert!(summary[pooled].is_null(), "{pooled}: {case}");
    }
}

fn same_when_read_back(home: &Path, summary: &Value, case: &str) {
    let read = fathom(home, &["recording", "summary", "r", "--json"]).summary();
    for field in ["idle_gaps", "rtt_ns", "samples", "warm_up", "mode", "interval_ns"] {
        assert_eq!(read[field], summary[field], "{field}: {case}");
    }
    let story = fathom(home, &["recording", "explain", "r"]);
    assert!(story.out.contains("after silences") && !story.out.contains("over the whole"), "{}", story.out);
}

#[test]
fn replacement_connection_starts_with_warm_up() {
    const BEFORE_THE_END: usize = BURST + 2;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    // It ends with the process: how often a probe in doubt connects is not known.
    thread::spawn(move || {
        let (mut first, _) = listener.accept().expect("the first");
        let mut message = [0; 64];
        for _ in 0..BEFORE_THE_END {
            first.read_exact(&mut message).expect("a sample");
            first.write_all(&message).expect("echoed");
        }
        drop(first);
        for mut peer in listener.incoming().flatten() {
            thread::spawn(move || std::io::copy(&mut peer.try_clone().expect("a socket"), &mut peer));
        }
    });
    let home = tempfile::tempdir().expect("a directory");
    let line = format!("{address} --idle-gap 10ms,50ms --count 22 --record r --json --quiet");
    let summary = Probe::start(home.path(), &line).finish().summary();
    let rows = rows(&home.path().join("r"));
    for connection in [0, 1] {
        let of: Vec<&Row> = rows.iter().filter(|row| row.at("connection") == connection).collect();
        assert!(of.len() > BURST, "{summary}");
        let warm: Vec<i64> = of.iter().filter(|row| row.has(WARM_UP)).map(|row| row.at("seq")).collect();
        assert_eq!(warm, (0..BURST as i64).collect::<Vec<_>>(), "{summary}");
    }
    // What was broken off is counted as far as it came, and nothing after the handshake is taken for a gap's.
    let firsts: u64 = summary["idle_gaps"]
        .as_array()
        .expect("gaps")
        .iter()
        .map(|gap| gap["first"]["samples"].as_u64().expect("a count"))
        .sum();
    let of_second = rows.iter().filter(|row| row.at("connection") == 1).count();
    let expected = 1 + (of_second - BURST).div_ceil(BURST) as u64;
    assert!((expected..=expected + 1).contains(&firsts), "{firsts} and not {expected}: {summary}");
}

#[test]
fn text_has_a_row_for_each_gap() {
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    let line = format!("{} --idle-gap 5ms,50ms --count 36 --no-record", echo.address());
    let outcome = Probe::start(home.path(), &line).finish();
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    for gap in ["5ms", "50ms"] {
        let row = outcome.out.lines().find(|line| line.split_whitespace().next() == Some(gap));
        let row: Vec<&str> = row.unwrap_or_else(|| panic!("{}", outcome.out)).split_whitespace().collect();
        assert_eq!(row[1..3], ["4", "0"], "{}", outcome.out);
    }
    assert!(outcome.err.contains("after silences of 5ms, 50ms in random order"), "{}", outcome.err);
}

#[test]
fn invalid_idle_gaps_are_rejected() {
    let home = tempfile::tempdir().expect("a directory");
    for (options, part) in [
        ("--idle-gap 10", "unit"),
        ("--idle-gap 100us", "1ms"),
        ("--idle-gap 1s,1100ms", "told apart"),
        ("--idle-gap 1s --every 1s", "cannot be used with"),
        ("--idle-gap 1s --load max", "cannot be used with"),
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
    fn idle_gaps_over_xinetd() {
        if needs("xinetd") {
            one_run(&Xinetd::start("127.0.0.1"), "", 1);
        }
    }
}
