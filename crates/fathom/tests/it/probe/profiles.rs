//! `fathom probe --profile` and `--show-config`: what a name stands for, what given options make of it, and that a run
//! does as shown.

use crate::support::probe::{Probe, left_behind};
use crate::support::reflector::Echo;
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::Path;

/// What `--show-config` says of these arguments.
fn shown(home: &Path, arguments: &str) -> Value {
    let outcome = Probe::start(home, &format!("{arguments} --show-config --json")).finish();
    assert!(outcome.err.is_empty(), "{}", outcome.err);
    outcome.summary()
}

/// Mode, size, interval, count, duration and warm-up.
fn pace(config: &Value) -> Value {
    let fields = ["mode", "size", "interval_ns", "count", "duration_ns", "warm_up"];
    fields.into_iter().map(|field| config[field].clone()).collect()
}

const S: u64 = 1_000_000_000;

#[test]
fn profiles_match_their_tools_defaults() {
    let home = tempfile::tempdir().expect("a directory");
    // From each tool's own documentation, as cited where the profiles are.
    for (profile, expected) in [
        ("polite", json!(["tcp", 64, 10 * S, null, null, 0])),
        ("article", json!(["tcp", 64, S, null, 39_600 * S, 0])),
        ("latte", json!(["tcp-ping-pong", 4, null, 65_100, null, 0])),
        ("sockperf", json!(["udp-ping-pong", 14, null, null, S, 0])),
        ("psping", json!(["tcp-ping-pong", 8_192, null, 10_005, null, 5])),
        ("qperf", json!(["tcp-ping-pong", 1, null, null, 2 * S, 0])),
    ] {
        assert_eq!(pace(&shown(home.path(), &format!("h --profile {profile}"))), expected, "{profile}");
    }
    assert_eq!(pace(&shown(home.path(), "h")), json!(["tcp", 64, S, null, null, 0]));
}

#[test]
fn options_override_profile_in_any_order() {
    let home = tempfile::tempdir().expect("a directory");
    for (arguments, expected) in [
        ("--profile sockperf --tcp", json!(["tcp-ping-pong", 14, null, null, S, 0])),
        ("--size 1KiB --profile sockperf", json!(["udp-ping-pong", 1_024, null, null, S, 0])),
        ("--profile sockperf --count 7", json!(["udp-ping-pong", 14, null, 7, null, 0])),
        ("--profile latte --for 3s --warm-up 0", json!(["tcp-ping-pong", 4, null, null, 3 * S, 0])),
        ("--every 5ms --profile qperf", json!(["tcp", 1, 5_000_000, null, 2 * S, 0])),
        ("--profile article --ping-pong", json!(["tcp-ping-pong", 64, null, null, 39_600 * S, 0])),
        ("--profile latte --udp", json!(["udp-ping-pong", 4, null, 65_100, null, 0])),
        ("--profile psping --sizes 64,128", json!(["tcp-ping-pong", null, null, 10_005, null, 5])),
        ("--profile psping --connect --count 9", json!(["connect", 0, S, 9, null, 5])),
        ("--profile qperf --idle-gap 1s", json!(["tcp-idle-gap", 1, null, null, 2 * S, 0])),
    ] {
        assert_eq!(pace(&shown(home.path(), &format!("h:80 {arguments}"))), expected, "{arguments}");
    }
}

#[test]
fn show_config_sends_and_writes_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let options = "--load 40Mbit --load-phase 2s --idle-gap 1s";
    let outcome = Probe::start(home.path(), &format!("{address} {options} --show-config")).finish();
    assert_eq!(outcome.code(), 2, "what cannot be is not shown either: {}", outcome.err);
    let config = shown(home.path(), &format!("{address} --load 40Mbit --load-phase 2s"));
    assert_eq!(config["load"], json!({"bits_per_s": 40_000_000, "connections": 1, "phase_ns": 2 * S}));
    // A port that is not the default one is part of the label.
    let named = json!([address.to_string()]);
    assert_eq!((&config["targets"], &config["labels"]), (&named, &named));
    assert!(shown(home.path(), "192.0.2.1 --ping-pong")["needs_allow_high_rate"].is_string());
    let throughput = shown(home.path(), &format!("{address} --throughput --reverse --bitrate 5Mbit"));
    assert_eq!(throughput["targets"], json!([address.to_string()]));
    assert_eq!(throughput["bitrate_bits_per_second"], 5_000_000);
    assert_eq!((&throughput["duration_ns"], &throughput["direction"]), (&json!(10 * S), &json!("reverse")));
    assert!(shown(home.path(), "192.0.2.1 --throughput")["needs_allow_high_rate"].is_string());
    let text = Probe::start(home.path(), "--profile polite --show-config").finish();
    assert_eq!(text.code(), 0, "{}", text.err);
    let line = |name: &str| text.out.lines().find(|line| line.split_whitespace().next() == Some(name));
    let words: Vec<&str> = line("interval").unwrap_or_default().split_whitespace().collect();
    assert_eq!(words, ["interval", "10s"], "{}", text.out);
    listener.set_nonblocking(true).expect("set");
    assert!(listener.accept().is_err(), "somebody connected");
    assert!(left_behind(home.path()).is_empty(), "{:?}", left_behind(home.path()));
}

#[test]
fn run_follows_its_profile() {
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    for (profile, mode, size, least) in [
        ("sockperf", "udp-ping-pong", 14, 1),
        ("qperf --for 300ms", "tcp-ping-pong", 1, 1),
        ("psping", "tcp-ping-pong", 8_192, 10_005),
    ] {
        let line = format!("{} --profile {profile} --no-record --quiet --json", echo.address());
        let summary = Probe::start(home.path(), &line).finish().summary();
        assert_eq!((&summary["mode"], &summary["size"]), (&mode.into(), &size.into()), "{summary}");
        assert!(summary["answered"].as_u64() >= Some(least), "{summary}");
    }
}
