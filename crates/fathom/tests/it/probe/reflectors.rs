//! `fathom probe` against every kind of reflector: ours and real xinetd over TCP and UDP, socat over TCP, IPv4 and IPv6,
//! with samples from one byte to many packets.

use crate::support::probe::{Probe, assert_sound};
use crate::support::reflector::{Echo, Reflector, Socat, Xinetd};
use crate::support::rows::{FIRST_ON_CONNECTION, Row, UNANSWERED, WARM_UP, rows};
use crate::support::{needs, needs_ipv6};
use serde_json::Value;
use std::path::Path;
use std::thread;

/// TCP and UDP, with samples of one byte, of one packet, and over TCP of many.
const EVERY_SIZE: [(&str, usize); 7] =
    [("tcp", 1), ("tcp", 64), ("tcp", 1_400), ("tcp", 100_000), ("udp", 1), ("udp", 64), ("udp", 1_400)];
const SOME_SIZES: [(&str, usize); 2] = [("tcp", 1_400), ("udp", 64)];
const COUNT: usize = 12;

#[test]
fn every_size_is_measured() {
    runs(&Echo::start("127.0.0.1"), &EVERY_SIZE);
}

#[test]
fn each_reflector_is_measured() {
    if needs("xinetd") {
        runs(&Xinetd::start("127.0.0.1"), &SOME_SIZES);
    }
    if needs("socat") {
        runs(&Socat::start("127.0.0.1"), &SOME_SIZES);
    }
    if needs_ipv6() {
        runs(&Echo::start("::1"), &SOME_SIZES);
    }
}

#[test]
fn reflector_and_probe_counts_agree() {
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    let summary = probe(home.path(), &echo, "--every 2ms --count 200 --connections 3 --size 200 --record r");
    assert_eq!((&summary["samples"], &summary["answered"]), (&600.into(), &600.into()));
    let served = echo.stop();
    assert_eq!((&served["messages_stamped"], &served["bytes"]), (&600.into(), &120_000.into()), "{served}");
    assert_eq!(served["connections"], 3, "{served}");
}

#[test]
fn recorded_warm_up_is_excluded_from_figures() {
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    let summary = probe(home.path(), &echo, "--every 5ms --count 30 --warm-up 10 --record r");
    let rows = rows(&home.path().join("r"));
    assert_eq!(rows.len(), 30);
    let warm: Vec<i64> = rows.iter().filter(|row| row.has(WARM_UP)).map(|row| row.at("seq")).collect();
    assert_eq!(warm, (0..10).collect::<Vec<_>>());
    assert_eq!((&summary["warm_up"], &summary["rtt_ns"]["count"]), (&10.into(), &20.into()));
    figures_agree(&summary["rtt_ns"], rows.iter().filter(|row| !row.has(WARM_UP)).filter_map(Row::rtt_ns));
}

fn probe(home: &Path, reflector: &Echo, arguments: &str) -> Value {
    Probe::start(home, &format!("{} --json --quiet {arguments}", reflector.address())).finish().summary()
}

/// Side by side, a run of each transport and size.
fn runs(reflector: &(impl Reflector + Sync), sizes: &[(&str, usize)]) {
    thread::scope(|all| {
        for &(mode, size) in sizes {
            all.spawn(move || one_run(reflector, mode, size));
        }
    });
}

/// A whole run: what it says, what it records, and that both agree.
fn one_run(reflector: &impl Reflector, mode: &str, size: usize) {
    let home = tempfile::tempdir().expect("a directory");
    let (address, option) = (reflector.address(), if mode == "udp" { "--udp" } else { "" });
    let arguments =
        format!("{address} {option} --size {size} --every 20ms --count {COUNT} --record r --json --quiet");
    let outcome = Probe::start(home.path(), &arguments).finish();
    assert_eq!(outcome.code(), 0, "{arguments}: {}", outcome.err);
    let summary = outcome.summary();
    let case = format!("{mode} {address} size {size}: {summary}");
    let number = |name: &str| summary[name].as_u64().unwrap_or_else(|| panic!("{name}: {case}")) as usize;
    assert_eq!([number("format"), number("size"), number("interval_ns")], [1, size, 20_000_000], "{case}");
    let answered = number("answered");
    assert_eq!([number("samples"), answered + number("unanswered")], [COUNT, COUNT], "{case}");
    let all = answered == COUNT || (mode == "udp" && !reflector.echoes_every_datagram() && answered > 0);
    assert!(all, "{case}");
    assert_eq!(["late", "corrupt", "not_sent"].map(number), [0; 3], "{case}");
    assert_eq!(summary["mode"], mode, "{case}");
    assert_eq!(summary["reflector"], address.to_string(), "{case}");
    assert_eq!(summary["connections"][0]["cause"], "finished", "{case}");
    assert_eq!(summary["recording"], "r", "{case}");

    let dir = home.path().join("r");
    assert_sound(&dir);
    let rows = rows(&dir);
    let sent: Vec<i64> = rows.iter().map(|row| row.at("seq")).collect();
    let mut in_order = sent.clone();
    // A reflector with a process a datagram may answer out of turn.
    in_order.sort_unstable();
    assert_eq!(in_order, (0..COUNT as i64).collect::<Vec<_>>(), "{case}");
    for row in &rows {
        assert_eq!((row.at("size"), row.at("connection")), (size as i64, 0), "{case}");
        assert!(row.rtt_ns().map_or(row.has(UNANSWERED), |rtt| rtt > 0), "{case}: {row:?}");
        assert!(row.at("lateness_ns") >= 0, "sent before it was due: {case}: {row:?}");
        assert_eq!(row.has(FIRST_ON_CONNECTION), row.at("seq") == 0, "{case}: {row:?}");
        assert_eq!(
            row.get("srtt_us").is_some(),
            mode == "tcp" && cfg!(target_os = "linux"),
            "{case}: {row:?}"
        );
        let stamped = ["reflector_ns", "forward_ns", "backward_ns"].map(|column| row.get(column).is_some());
        let echoed = row.rtt_ns().is_some();
        assert_eq!(stamped, [echoed && reflector.stamps() && size >= 64; 3], "{case}: {row:?}");
        if let (Some(inside), Some(rtt)) = (row.get("reflector_ns"), row.rtt_ns()) {
            assert!(
                (0..=rtt).contains(&inside),
                "longer inside the reflector than under way: {case}: {row:?}"
            );
            // The clocks are one clock here, so the parts make the whole but for what mapping it to UTC costs.
            let parts = row.at("forward_ns") + inside + row.at("backward_ns");
            assert!((parts - rtt).abs() < 1_000_000, "{parts} is not {rtt}: {case}");
        }
    }
    assert_eq!(rows.iter().filter_map(Row::rtt_ns).count(), answered, "{case}");
    figures_agree(&summary["rtt_ns"], rows.iter().filter_map(Row::rtt_ns));
    figures_agree(&summary["lateness_ns"], rows.iter().map(|row| row.at("lateness_ns")));
    figures_agree(
        &summary["latency_ns"],
        rows.iter().filter_map(|row| Some(row.rtt_ns()? + row.at("lateness_ns"))),
    );
    figures_agree(
        &summary["first_sample_ns"],
        rows.iter().filter(|row| row.at("seq") == 0).filter_map(Row::rtt_ns),
    );
    for (latency, rtt) in ["min", "max", "mean"].map(|f| (&summary["latency_ns"][f], &summary["rtt_ns"][f])) {
        assert!(latency.as_i64() >= rtt.as_i64(), "{case}");
    }
}

/// Whether a distribution of the summary is that of these values, which are computed here from the recording.
fn figures_agree(figures: &Value, values: impl Iterator<Item = i64>) {
    let values: Vec<i64> = values.collect();
    assert_eq!(figures["count"], values.len(), "{figures}");
    assert_eq!(figures["min"].as_i64(), values.iter().copied().min(), "{figures}");
    assert_eq!(figures["max"].as_i64(), values.iter().copied().max(), "{figures}");
    let mean = values.iter().map(|&v| i128::from(v)).sum::<i128>() as f64 / values.len() as f64;
    assert!(
        (figures["mean"].as_f64().expect("a mean") - mean).abs() <= 0.5,
        "{mean} is not the mean of {figures}"
    );
    if values.len() > 1 {
        let squares: f64 = values.iter().map(|&v| (v as f64 - mean).powi(2)).sum();
        let stddev = (squares / (values.len() - 1) as f64).sqrt();
        let told = figures["stddev"].as_f64().expect("a standard deviation");
        assert!((told - stddev).abs() <= 1.0, "{stddev} is not the standard deviation of {figures}");
    }
}

mod acceptance {
    use super::*;
    use crate::support::reflector::LOOPBACK;

    #[test]
    fn every_size_is_measured_against_each_reflector() {
        if !(needs("xinetd") && needs("socat") && needs_ipv6()) {
            return;
        }
        for address in LOOPBACK {
            runs(&Echo::start(address), &EVERY_SIZE);
            runs(&Xinetd::start(address), &EVERY_SIZE);
            runs(&Socat::start(address), &EVERY_SIZE);
        }
    }
}
