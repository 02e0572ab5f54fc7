//! The configuration in force, defaults and profile included: as a recording keeps it, and as `--show-config` prints it.

use super::args::OnFull;
use super::config::{Config, Family, Path, Record, Show, Transport};
use super::tls::Tls;
use crate::exit::Failure;
use crate::output;
use fathom_core::schedule::Pace;
use fathom_core::units::duration_compact as duration;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::time::Duration;

fn ns(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// What bears on the samples: the manifest's `probe`.
pub(super) fn of_probe(config: &Config) -> Value {
    json!({
        "mode": config.mode(),
        "size": config.one_size(),
        "tls": config.tls.as_ref().map(Tls::description),
        "sizes": if config.sizes.is_empty() { None } else { Some(&config.sizes) },
        "idle_gaps_ns": if config.idle_gaps_ns.is_empty() { None } else { Some(&config.idle_gaps_ns) },
        "interval_ns": match config.pace { Pace::Every(every) => Some(every), Pace::PingPong => None },
        "connections": config.connections,
        "threads": config.threads,
        "load": config.load,
        "paths_side_by_side": config.paths.len(),
        "count": config.count,
        "duration_ns": config.duration.map(ns),
        "warm_up": config.warm_up,
        "timeout_ns": ns(config.timeout),
        "give_up_ns": config.give_up.map(ns),
        "user_timeout_ns": config.user_timeout.map(ns),
        "stall_after_ns": config.stall_after.map(ns),
        "pause_clock_ns": config.pause_clock.map(ns),
        "kernel_timestamps": config.stamped(),
        "reconnect": config.reconnect,
        "reconnect_at_most_ns": ns(config.reconnect_at_most),
        "connect_rate": config.connect_rate,
        "source": config.source,
        "dscp": config.dscp,
        "nodelay": true,
    })
}

/// Everything. A field of the configuration that is not here does not compile.
fn of_run(config: &Config) -> Map<String, Value> {
    #[rustfmt::skip]
    let Config {
        // In `of_probe`.
        pace: _, connect: _, tls: _, size: _, sizes: _, idle_gaps_ns: _, count: _, duration: _, connections: _, threads: _, warm_up: _,
        load: _, timeout: _, give_up: _, user_timeout: _, stall_after: _, pause_clock: _, reconnect: _,
        reconnect_at_most: _, connect_rate: _, source: _,
        dscp: _, timestamps: _,
        paths, marks, transport, stamp, allow_high_rate, keep_trying, family, from, to, via, tags, cloud, record, readable, secret, on_full, csv, formats, show, operate, json,
        cpu, recorder_cpu, cpu_latency_us, spin, priority,
    } = config;
    let all = json!({
        "targets": targets(paths),
        "labels": labels(paths),
        "marks": marks,
        "transport": match transport { Transport::Tcp => "tcp", Transport::Udp => "udp" },
        "stamp_reflector": stamp.map(|reflector| format!("{reflector:?}").to_lowercase()),
        "allow_high_rate": allow_high_rate,
        "needs_allow_high_rate": config.impolite(),
        "keep_trying": keep_trying,
        "family": match family { Family::Any => "any", Family::V4 => "ipv4", Family::V6 => "ipv6" },
        "from": from,
        "to": to,
        "via": via,
        "tags": tags,
        "cloud": cloud.choice().name(),
        "cloud_url": cloud.url(),
        "cloud_every_ns": cloud.every().map(ns),
        "cloud_tags": cloud.tags(),
        "record": directory(record),
        "readable": readable,
        "keyed": secret.is_some(),
        "on_full": match on_full { OnFull::Wait => "wait", OnFull::Exit => "exit" },
        "csv": csv.as_ref().map(|file| file.display().to_string()),
        "formats": formats.words(),
        "show": match show { Show::Auto => "auto", Show::Plain => "plain", Show::Nothing => "nothing" },
        "json": json,
        "cpu": cpu,
        "recorder_cpu": recorder_cpu,
        "cpu_latency_us": cpu_latency_us,
        "spin": spin,
        "priority": priority,
    });
    let parts = [of_probe(config), all, operate.shown()];
    parts.into_iter().filter_map(|part| part.as_object().cloned()).flatten().collect()
}

pub(super) fn targets(paths: &[Path]) -> Vec<String> {
    paths.iter().map(|path| path.target.to_string()).collect()
}

pub(super) fn labels(paths: &[Path]) -> Vec<&str> {
    paths.iter().map(|path| path.label.as_str()).collect()
}

/// Where the recording goes; none: nothing is recorded.
pub(super) fn directory(record: &Record) -> Option<String> {
    match record {
        Record::No => None,
        Record::Default => Some("recordings/LABEL-UTCTIME".to_owned()),
        Record::Into(dir) => Some(dir.display().to_string()),
    }
}

/// Prints the configuration, and does nothing else.
pub(super) fn show(config: &Config) -> Result<(), Failure> {
    print(of_run(config), config.json)
}

/// Prints settings, a line each or as JSON.
pub(super) fn print(all: Map<String, Value>, json: bool) -> Result<(), Failure> {
    let text = if json { format!("{}\n", Value::Object(all)) } else { aligned(&all) };
    output::print("the configuration", &text).map(drop)
}

/// A line a setting, durations as people write them.
fn aligned(all: &Map<String, Value>) -> String {
    let mut out = String::new();
    for (name, value) in all {
        let (name, value) = match (name.strip_suffix("_ns"), value) {
            (Some(name), value) => (name, lengths(value)),
            (None, value) => (name.as_str(), words(value)),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{name:<22}{value}");
    }
    out
}

fn lengths(value: &Value) -> String {
    match value {
        Value::Array(all) => all.iter().map(lengths).collect::<Vec<_>>().join(", "),
        value => value.as_u64().map_or_else(|| "-".to_owned(), duration),
    }
}

fn words(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(all) if all.is_empty() => "-".to_owned(),
        Value::Array(all) => all.iter().map(words).collect::<Vec<_>>().join(", "),
        Value::Object(all) if all.is_empty() => "-".to_owned(),
        Value::Object(all) => {
            let field = |(name, value): (&String, &Value)| match name.strip_suffix("_ns") {
                Some(name) => format!("{name} {}", lengths(value)),
                None => format!("{name} {}", words(value)),
            };
            all.iter().map(field).collect::<Vec<_>>().join(", ")
        }
        value => value.to_string(),
    }
}
