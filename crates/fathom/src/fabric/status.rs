//! `fathom fabric status`: how a fabric is doing.

use super::options::Which;
use crate::exit::Failure;
use crate::output;
use fathom_core::text::count;
use fathom_emulator::control::{Request, ask};
use serde_json::Value;
use std::fmt::Write as _;

const EXAMPLES: &str = "\
Examples:
  fathom fabric status
  fathom fabric status migration --json | jq .lateness_ns    (or: --name migration)";

/// Arguments of `fathom fabric status`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `fathom fabric status`.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let (status, _): (Value, _) = ask(&args.which.find()?, &Request::Status)?;
    let text = if args.json { format!("{status}\n") } else { text(&status) };
    output::print("the status", &text).map(drop)
}

fn text(status: &Value) -> String {
    let mut lines = Vec::new();
    let (fabric, world) = (&status["fabric"], &status["world"]);
    let counters = &world["counters"];
    let packets = |n: &Value| count(n.as_u64().unwrap_or(0), "packet");
    lines.push(format!(
        "fabric {} (process {}): {} in, {} made, {} delivered, {} dropped, {} taken; {} on their way, {} held",
        word(&fabric["name"]),
        fabric["pid"],
        packets(&counters["packets_in"]),
        counters["made"],
        counters["delivered"],
        counters["dropped"],
        counters["taken"],
        world["in_fabric"],
        world["held"],
    ));
    let late = &status["lateness_ns"];
    lines.push(format!(
        "late by {} (median), {} (p99), {} (most) over {}; a wait spins for {}",
        us(&late["p50"]),
        us(&late["p99"]),
        us(&late["max"]),
        packets(&late["count"]),
        us(&status["spin_window_ns"]),
    ));
    for (name, what) in [
        ("refused", "packets not taken by their host's device"),
        ("lost_records", "records lost: the disk is too slow"),
    ] {
        if status[name].as_u64() > Some(0) {
            lines.push(format!("{} {what}", status[name]));
        }
    }
    for (host, made) in list(&world["hosts"]).zip(list(&fabric["hosts"])) {
        let addresses: Vec<&str> = list(&made["addresses"]).map(word).collect();
        let mut line = format!("host {}  {}", word(&host["name"]), addresses.join(" "));
        // Infallible, as below: the text is in memory.
        if host["frozen"] == true {
            let _ = write!(line, "  stands still, {} held", packets(&host["held"]));
        }
        if host["brownout_ns"].as_u64() > Some(0) {
            let _ = write!(line, "  brownout, {} more each way", us(&host["brownout_ns"]));
        }
        if host["redirects"].as_u64() > Some(0) {
            line += "  old flows redirected";
        }
        lines.push(line);
    }
    for path in list(&world["paths"]) {
        let cut = match (path["cut_forward"] == true, path["cut_backward"] == true) {
            (true, true) => "  cut",
            (true, false) => "  cut forward",
            (false, true) => "  cut backward",
            (false, false) => "",
        };
        let added = path["added_ns"].as_i64().filter(|&ns| ns != 0);
        let added = added.map(|ns| format!("  {:+} µs one way", ns as f64 / 1e3)).unwrap_or_default();
        lines.push(format!("path {}{cut}{added}", word(&path["label"])));
    }
    for middlebox in list(&world["middleboxes"]) {
        let facts = middlebox.as_object().into_iter().flatten().filter(|(key, _)| *key != "name");
        let facts: Vec<String> = facts.map(|(key, value)| format!("{key} {value}")).collect();
        lines.push(format!("middlebox {}  {}", word(&middlebox["name"]), facts.join(", ")));
    }
    lines.join("\n") + "\n"
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// Nanoseconds in µs; a dash where there are too few packets to say.
fn us(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), |ns| format!("{:.1} µs", ns as f64 / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_out_of_the_ordinary_is_said() {
        let text = text(&json!({
            "fabric": {"name": "f", "pid": 7, "hosts": [{"addresses": ["10.0.0.1", "fd00::1"]}]},
            "world": {
                "counters": {"packets_in": 5, "made": 0, "delivered": 2, "dropped": 1, "taken": 0},
                "in_fabric": 2, "held": 2,
                "hosts": [{"name": "a", "frozen": true, "held": 2, "brownout_ns": 0, "redirects": 0}],
                "paths": [{"label": "p", "cut_forward": false, "cut_backward": true, "added_ns": -250_000}],
                "middleboxes": [{"name": "fw", "kind": "firewall", "flows": 3}],
            },
            "refused": 0, "lost_records": 4, "spin_window_ns": 40_000,
            "lateness_ns": {"count": 2, "p50": 300, "p99": null, "max": 1_200},
        }));
        for part in [
            "5 packets in",
            "2 held",
            "0.3 µs (median), - (p99), 1.2 µs (most) over 2 packets",
            "spins for 40.0 µs",
            "4 records lost",
            "host a  10.0.0.1 fd00::1  stands still, 2 packets held",
            "path p  cut backward  -250 µs one way",
            "middlebox fw  flows 3, kind \"firewall\"",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("not taken by"));
    }
}
